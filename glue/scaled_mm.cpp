// Products of fp8 matrices with scales: the factors are widened, which is exact, and everything
// after that is the fp32 kernels' work: product, scales, bias, one rounding.
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <ATen/ops/add.h>
#include <ATen/ops/div.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>

#include "structured.h"
#include "tensor.h"

namespace neuron
{
namespace
{

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

// One number for each factor, or one per row of the first and per column of the second.
bool are_scales(const Tensor &a, const Tensor &b, const Tensor &scale_a, const Tensor &scale_b)
{
    if (!c10::isFloat8Type(a.scalar_type()) || !c10::isFloat8Type(b.scalar_type()) ||
        scale_a.scalar_type() != at::kFloat || scale_b.scalar_type() != at::kFloat)
        return false;
    if (scale_a.numel() == 1 && scale_b.numel() == 1)
        return true;
    return scale_a.sizes() == at::IntArrayRef({a.size(0), 1}) &&
           scale_b.sizes() == at::IntArrayRef({1, b.size(1)}) && scale_a.is_contiguous() &&
           scale_b.is_contiguous();
}

void check(const Tensor &a, const Tensor &b, const Tensor &scale_a, const Tensor &scale_b,
           const MaybeTensor &bias, const MaybeTensor &scale_result)
{
    TORCH_CHECK(a.dim() == 2, "mat_a must be a matrix");
    TORCH_CHECK(b.dim() == 2, "mat_b must be a matrix");
    TORCH_CHECK(a.size(1) == b.size(0), "mat_a and mat_b shapes cannot be multiplied (", a.size(0),
                "x", a.size(1), " and ", b.size(0), "x", b.size(1), ")");
    TORCH_CHECK_VALUE(
        are_scales(a, b, scale_a, scale_b),
        "Invalid scaling configuration: a and b should be float8, and the scales float, either "
        "singletons "
        "or contiguous of shape (",
        a.size(0), ", 1) and (1, ", b.size(1), "). Got mat_a.dtype()=", a.scalar_type(),
        ", scale_a.dtype()=", scale_a.scalar_type(), ", scale_a.size()=", scale_a.sizes(),
        ", mat_b.dtype()=", b.scalar_type(), ", scale_b.dtype()=", scale_b.scalar_type(),
        " and scale_b.size()=", scale_b.sizes());
    TORCH_CHECK(!scale_result ||
                    (scale_result->numel() == 1 && scale_result->scalar_type() == at::kFloat),
                "scale_result must be a float scalar");
    TORCH_CHECK(!bias || bias->numel() == b.size(1), "Bias must be size ", b.size(1), " but got ",
                bias ? bias->numel() : 0);
}

Tensor &scaled_mm_out(const Tensor &a, const Tensor &b, const Tensor &scale_a,
                      const Tensor &scale_b, const MaybeTensor &bias,
                      const MaybeTensor &scale_result, std::optional<at::ScalarType> out_dtype,
                      bool, Tensor &out)
{
    check_same_device("_scaled_mm", {&a, &b, &scale_a, &scale_b, &out});
    check(a, b, scale_a, scale_b, bias, scale_result);
    TORCH_CHECK(!out_dtype || *out_dtype == out.scalar_type(),
                "out_dtype must match output matrix type");
    Tensor product = at::mm(a.to(at::kFloat), b.to(at::kFloat));
    Tensor scaled = scale_a.numel() == 1
                        ? at::mul(product, at::mul(scale_a.reshape({}), scale_b.reshape({})))
                        : at::mul(at::mul(product, scale_a), scale_b);
    if (bias)
        scaled = at::add(scaled, bias->to(at::kFloat).reshape({b.size(1)}));
    if (scale_result && c10::isFloat8Type(out.scalar_type()))
        scaled = at::div(scaled, scale_result->reshape({}));
    at::native::resize_output(out, scaled.sizes());
    out.copy_(scaled);
    return out;
}

Tensor scaled_mm(const Tensor &a, const Tensor &b, const Tensor &scale_a, const Tensor &scale_b,
                 const MaybeTensor &bias, const MaybeTensor &scale_result,
                 std::optional<at::ScalarType> out_dtype, bool fast)
{
    Tensor out = new_tensor({0}, out_dtype.value_or(a.scalar_type()), a.device());
    return scaled_mm_out(a, b, scale_a, scale_b, bias, scale_result, out_dtype, fast, out);
}

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("_scaled_mm", &neuron::scaled_mm);
    m.impl("_scaled_mm.out", &neuron::scaled_mm_out);
}

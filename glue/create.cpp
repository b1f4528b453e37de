// Factories whose values follow from the position: arange, linspace, eye and their kin.
#include <cmath>

#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include <ATen/ops/imag.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/real.h>

#include "fallback.h"
#include "launch.h"
#include "tn/op/create.h"

namespace neuron {
namespace {

// The kernels write one dimension; other results of the same size go through a flat tensor.
template <class Fill>
void fill_flat(at::Tensor& out, int64_t count, const Fill& fill)
{
    if (out.numel() != count) {
        if (out.numel() > 0)
            TORCH_WARN("The number of elements in the out tensor of shape ", out.sizes(), " is ",
                       out.numel(), " which does not match the computed number of elements ", count,
                       ". Note that this may occur as a result of rounding error. The out tensor will be "
                       "resized to a tensor of shape (",
                       count, ",).");
        out.resize_({count});
    }
    if (count == 0)
        return;
    if (out.dim() <= 1)
        return fill(out);
    auto flat = new_tensor({count}, out.scalar_type(), out.device());
    fill(flat);
    out.copy_(flat.view(out.sizes()));
}

void check_range(double start, double end, double step)
{
    TORCH_CHECK(step > 0 || step < 0, "step must be nonzero");
    TORCH_CHECK(std::isfinite(start) && std::isfinite(end), "unsupported range: ", start, " -> ", end);
    TORCH_CHECK((step > 0 && end >= start) || (step < 0 && end <= start),
                "upper bound and lower bound inconsistent with step sign");
}

int64_t arange_size(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step,
                    at::ScalarType dtype)
{
    double size;
    if (dtype == at::kLong) {
        int64_t first = start.to<int64_t>(), last = end.to<int64_t>(), by = step.to<int64_t>();
        TORCH_CHECK_VALUE(by != 0, "step must be nonzero"); // 0.5 is zero here
        int64_t sign = (by > 0) - (by < 0);
        size = static_cast<double>((last - first + by - sign) / by);
    } else {
        size = std::ceil((end.to<double>() - start.to<double>()) / step.to<double>());
    }
    TORCH_CHECK(size >= 0 && size <= static_cast<double>(std::numeric_limits<int64_t>::max()),
                "invalid size, possible overflow?");
    return static_cast<int64_t>(size);
}

at::Tensor& arange_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step,
                       at::Tensor& out)
{
    if (at::isComplexType(out.scalar_type()) || start.isComplex() || end.isComplex() || step.isComplex())
        return call_fallback<at::Tensor&(const at::Scalar&, const at::Scalar&, const at::Scalar&,
                                         at::Tensor&)>("aten::arange", "start_out", start, end, step, out);
    TORCH_CHECK_NOT_IMPLEMENTED(out.scalar_type() != at::kBool, "\"arange_cpu\" not implemented for 'Bool'");
    check_range(start.to<double>(), end.to<double>(), step.to<double>());
    at::assert_no_internal_overlap(out);
    fill_flat(out, arange_size(start, end, step, out.scalar_type()), [&](const at::Tensor& flat) {
        Launch(TN_OP_range).out(flat).scalar(start).scalar(step).run();
    });
    return out;
}

at::Tensor& range_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step,
                      at::Tensor& out)
{
    double first = start.to<double>(), last = end.to<double>(), by = step.to<double>();
    check_range(first, last, by);
    at::assert_no_internal_overlap(out);
    fill_flat(out, static_cast<int64_t>((last - first) / by + 1), [&](const at::Tensor& flat) {
        Launch(TN_OP_range).out(flat).scalar(start).scalar(step).run();
    });
    return out;
}

at::Tensor& points_out(const at::Scalar& start, const at::Scalar& end, int64_t steps, double base,
                       at::Tensor& out)
{
    TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
    at::assert_no_internal_overlap(out);
    if (out.numel() != steps)
        out.resize_({steps});
    fill_flat(out, steps, [&](const at::Tensor& flat) {
        Launch(TN_OP_points).out(flat).scalar(start).scalar(end).scalar(base).run();
    });
    return out;
}

bool any_complex(const at::Scalar& start, const at::Scalar& end, const at::Tensor& out)
{
    return start.isComplex() || end.isComplex() || out.is_complex();
}

// Real and imaginary parts are spaced each for itself.
at::Tensor& complex_points_out(const at::Scalar& start, const at::Scalar& end, int64_t steps, at::Tensor& out)
{
    TORCH_CHECK(out.is_complex(), "linspace and logspace: complex limits need a complex result, got ",
                out.scalar_type());
    TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
    auto first = start.toComplexDouble(), last = end.toComplexDouble();
    fill_flat(out, steps, [&](const at::Tensor& flat) {
        auto real = at::real(flat), imaginary = at::imag(flat);
        points_out(first.real(), last.real(), steps, 0, real);
        points_out(first.imag(), last.imag(), steps, 0, imaginary);
    });
    return out;
}

at::Tensor& linspace_out(const at::Scalar& start, const at::Scalar& end, int64_t steps, at::Tensor& out)
{
    if (any_complex(start, end, out))
        return complex_points_out(start, end, steps, out);
    return points_out(start, end, steps, 0, out);
}

// Where the kernel's logarithm of the base does not help: powers of a complex or negative number.
at::Tensor& powers_out(const at::Scalar& start, const at::Scalar& end, int64_t steps, double base,
                       at::ScalarType dtype, at::Tensor& out)
{
    TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
    auto exponents = new_tensor({steps}, dtype, out.device());
    linspace_out(start, end, steps, exponents);
    fill_flat(out, steps, [&](const at::Tensor& flat) { flat.copy_(at::pow(base, exponents)); });
    return out;
}

at::Tensor& logspace_out(const at::Scalar& start, const at::Scalar& end, int64_t steps, double base,
                         at::Tensor& out)
{
    if (any_complex(start, end, out)) {
        TORCH_CHECK(out.is_complex(), "linspace and logspace: complex limits need a complex result, got ",
                    out.scalar_type());
        return powers_out(start, end, steps, base, at::kComplexDouble, out);
    }
    return base > 0 ? points_out(start, end, steps, base, out)
                    : powers_out(start, end, steps, base, at::kDouble, out);
}

at::Tensor& eye_m_out(int64_t n, int64_t m, at::Tensor& out)
{
    TORCH_CHECK(n >= 0, "n must be greater or equal to 0, got ", n);
    TORCH_CHECK(m >= 0, "m must be greater or equal to 0, got ", m);
    out.resize_({n, m});
    if (out.numel() != 0)
        Launch(TN_OP_eye).out(out).run();
    return out;
}

at::Tensor& eye_out(int64_t n, at::Tensor& out)
{
    return eye_m_out(n, n, out);
}

// Elements of the lower triangle of [row, col] whose diagonal is shifted by `offset`.
int64_t lower_size(int64_t row, int64_t col, int64_t offset)
{
    int64_t count = 0;
    for (int64_t i = 0; i < row; i++)
        count += std::clamp<int64_t>(i + offset + 1, 0, col);
    return count;
}

at::Tensor triangle_indices(bool upper, int64_t row, int64_t col, int64_t offset,
                            std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                            std::optional<at::Device> device)
{
    TORCH_CHECK(row >= 0, "row must be non-negative, got", row);
    TORCH_CHECK(col >= 0, "col must be non-negative, got", col);
    TORCH_CHECK(!layout || *layout == at::kStrided, "only support layout=torch.strided, got", *layout);
    int64_t below = lower_size(row, col, upper ? offset - 1 : offset);
    int64_t count = upper ? row * col - below : below;
    auto out = new_tensor({2, count}, dtype.value_or(at::kLong), resolve_device(device));
    if (count != 0)
        Launch(TN_OP_triangle_indices).out(out).scalar(row).scalar(col).scalar(offset).scalar(upper).run();
    return out;
}

at::Tensor tril_indices(int64_t row, int64_t col, int64_t offset, std::optional<at::ScalarType> dtype,
                        std::optional<at::Layout> layout, std::optional<at::Device> device,
                        std::optional<bool>)
{
    return triangle_indices(false, row, col, offset, dtype, layout, device);
}

at::Tensor triu_indices(int64_t row, int64_t col, int64_t offset, std::optional<at::ScalarType> dtype,
                        std::optional<at::Layout> layout, std::optional<at::Device> device,
                        std::optional<bool>)
{
    return triangle_indices(true, row, col, offset, dtype, layout, device);
}

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("arange.start_out", &neuron::arange_out);
    m.impl("range.out", &neuron::range_out);
    m.impl("linspace.out", &neuron::linspace_out);
    m.impl("logspace.out", &neuron::logspace_out);
    m.impl("eye.out", &neuron::eye_out);
    m.impl("eye.m_out", &neuron::eye_m_out);
    m.impl("tril_indices", &neuron::tril_indices);
    m.impl("triu_indices", &neuron::triu_indices);
}

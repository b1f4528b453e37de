// Distances between rows and their gradients; cross products; overlapping windows added up.
#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtils.h>
#include <torch/library.h>

#include <ATen/ops/_euclidean_dist.h>
#include <ATen/ops/linalg_cross_meta.h>

#include "dims.h"
#include "launch.h"
#include "structured.h"
#include "tn/op/copy.h"
#include "tn/op/cross.h"
#include "tn/op/distance.h"
#include "tn/op/overlap.h"

namespace neuron {
namespace {

void check_distance_dtype(const char* name, const at::Tensor& tensor)
{
    auto dtype = tensor.scalar_type();
    TORCH_CHECK_NOT_IMPLEMENTED(dtype == at::kFloat || dtype == at::kDouble, "\"", name,
                                "\" not implemented for '", dtype, "'");
}

at::Tensor filled(at::IntArrayRef sizes, const at::Tensor& like)
{
    auto out = new_tensor(sizes, like.scalar_type(), like.device());
    if (out.numel() != 0)
        Launch(TN_OP_fill).out(out).scalar(int64_t{0}).run();
    return out;
}

// ---- cdist ---------------------------------------------------------------------------------------

// Both sets with one batch shape.
std::pair<at::Tensor, at::Tensor> with_one_batch(const at::Tensor& a, const at::Tensor& b)
{
    auto batch = at::infer_size_dimvector(a.sizes().slice(0, static_cast<size_t>(a.dim() - 2)),
                                          b.sizes().slice(0, static_cast<size_t>(b.dim() - 2)));
    auto expanded = [&](const at::Tensor& tensor) {
        at::DimVector sizes;
        for (int64_t size : batch)
            sizes.push_back(size);
        sizes.push_back(tensor.size(-2));
        sizes.push_back(tensor.size(-1));
        return tensor.expand(sizes);
    };
    return {expanded(a), expanded(b)};
}

at::Tensor cdist(const at::Tensor& x1, const at::Tensor& x2, double p, std::optional<int64_t> mode)
{
    const at::Tensor* sets[] = {&x1, &x2};
    for (int i = 0; i < 2; i++) {
        TORCH_CHECK(at::isFloatingType(sets[i]->scalar_type()), "cdist only supports floating-point dtypes, X",
                    i + 1, " got: ", sets[i]->scalar_type());
        TORCH_CHECK(sets[i]->dim() >= 2, "cdist only supports at least 2D tensors, X", i + 1,
                    " got: ", sets[i]->dim(), "D");
    }
    TORCH_CHECK(x1.size(-1) == x2.size(-1), "X1 and X2 must have the same number of columns. X1: ",
                x1.size(-1), " X2: ", x2.size(-1));
    TORCH_CHECK(p >= 0, "cdist only supports non-negative p values");
    int64_t how = mode.value_or(0);
    TORCH_CHECK(how >= 0 && how <= 2, "possible modes: 0, 1, 2, but was: ", how);
    check_same_device("cdist", {&x1, &x2});
    check_distance_dtype("cdist", x1);
    TORCH_CHECK(x1.scalar_type() == x2.scalar_type(), "expected scalar type ", x1.scalar_type(), " but found ",
                x2.scalar_type());
    auto [a, b] = with_one_batch(x1, x2);
    at::DimVector sizes(a.sizes());
    sizes.back() = b.size(-2);
    auto count = c10::multiply_integers(sizes);
    if (count == 0 || a.size(-1) == 0)
        return filled(sizes, x1);
    if (p == 2 && (how == 1 || (how == 0 && (a.size(-2) > 25 || b.size(-2) > 25))))
        return at::_euclidean_dist(a, b);
    auto out = new_tensor(sizes, x1.scalar_type(), x1.device());
    Launch(TN_OP_cdist).out(out).in(a.contiguous()).in(b.contiguous()).scalar(p).run();
    return out;
}

at::Tensor cdist_backward(const at::Tensor& grad, const at::Tensor& x1, const at::Tensor& x2, double p,
                          const at::Tensor& distances)
{
    check_same_device("_cdist_backward", {&grad, &x1, &x2, &distances});
    check_distance_dtype("cdist_backward", x1);
    auto [a, b] = with_one_batch(x1, x2);
    if (a.numel() == 0 || b.numel() == 0)
        return filled(a.sizes(), x1);
    at::DimVector sizes(a.sizes());
    sizes.back() = b.size(-2);
    auto out = new_tensor(a.sizes(), x1.scalar_type(), x1.device());
    Launch(TN_OP_cdist_backward)
        .out(out)
        .in(grad.expand(sizes).contiguous())
        .in(a.contiguous())
        .in(b.contiguous())
        .in(distances.expand(sizes).contiguous())
        .scalar(p)
        .run();
    return out;
}

// ---- pdist ---------------------------------------------------------------------------------------

at::Tensor pdist(const at::Tensor& self, double p)
{
    TORCH_CHECK(self.is_contiguous(), "_pdist_forward requires contiguous input");
    check_distance_dtype("pdist", self);
    int64_t n = self.size(0);
    int64_t pairs = n > 1 ? n * (n - 1) / 2 : 0;
    if (pairs == 0 || self.size(1) == 0)
        return filled({pairs}, self);
    auto out = new_tensor({pairs}, self.scalar_type(), self.device());
    Launch(TN_OP_pdist).out(out).in(self).scalar(p).run();
    return out;
}

at::Tensor pdist_backward(const at::Tensor& grad, const at::Tensor& self, double p,
                          const at::Tensor& distances)
{
    TORCH_CHECK(self.is_contiguous(), "_pdist_backward requires self to be contiguous");
    TORCH_CHECK(distances.is_contiguous(), "_pdist_backward requires pdist to be contiguous");
    check_same_device("_pdist_backward", {&grad, &self, &distances});
    check_distance_dtype("pdist_backward", self);
    if (self.numel() == 0 || distances.numel() == 0)
        return filled(self.sizes(), self);
    auto out = new_tensor(self.sizes(), self.scalar_type(), self.device());
    Launch(TN_OP_pdist_backward).out(out).in(grad.contiguous()).in(self).in(distances).scalar(p).run();
    return out;
}

// ---- cross ---------------------------------------------------------------------------------------

using Cross = Structured<at::meta::structured_linalg_cross>;

void cross_into(Cross& op, const at::Tensor& self, const at::Tensor& other, int64_t dim)
{
    op.meta(self, other, dim);
    auto dtype = self.scalar_type();
    bool served = (is_row_dtype(dtype) && dtype != at::kBool && !c10::isBarebonesUnsignedType(dtype)) ||
                  dtype == at::kComplexFloat || dtype == at::kComplexDouble;
    TORCH_CHECK_NOT_IMPLEMENTED(served, "\"cross\" not implemented for '", dtype, "'");
    check_same_device("linalg_cross", {&self, &other});
    const auto& out = op.output();
    auto operand = [&](const at::Tensor& tensor) {
        return tensor.to(out.scalar_type()).resolve_conj().resolve_neg().expand(out.sizes());
    };
    if (out.numel() != 0)
        Launch(TN_OP_cross).out(out).in(operand(self)).in(operand(other))
            .scalar(at::maybe_wrap_dim(dim, out.dim())).run();
    op.finish();
}

at::Tensor cross(const at::Tensor& self, const at::Tensor& other, int64_t dim)
{
    Cross op;
    cross_into(op, self, other, dim);
    return op.take();
}

at::Tensor& cross_out(const at::Tensor& self, const at::Tensor& other, int64_t dim, at::Tensor& out)
{
    Cross op(Variant::Out, {out});
    cross_into(op, self, other, dim);
    return out;
}

// ---- windows -------------------------------------------------------------------------------------

at::Tensor unfold_backward(const at::Tensor& grad, at::IntArrayRef sizes, int64_t dim, int64_t size,
                           int64_t step)
{
    dim = at::maybe_wrap_dim(dim, static_cast<int64_t>(sizes.size()));
    auto dtype = grad.scalar_type();
    TORCH_CHECK_NOT_IMPLEMENTED(is_row_dtype(dtype) || dtype == at::kComplexFloat ||
                                    dtype == at::kComplexDouble,
                                "\"unfold_backward_cpu\" not implemented for '", dtype, "'");
    if (sizes.empty() || grad.numel() == 0) {
        auto out = filled(sizes, grad);
        return sizes.empty() && grad.numel() != 0 ? out.copy_(grad.reshape({})) : out;
    }
    auto out = new_tensor(sizes, dtype, grad.device());
    auto dense = grad.resolve_conj().resolve_neg();
    TORCH_CHECK(dense.size(-1) == size, "unfold_backward: expected windows of ", size, ", got a gradient of ",
                grad.sizes());
    if (out.numel() != 0)
        Launch(TN_OP_unfold_backward).out(out).in(dense).scalar(dim).scalar(step).run();
    return out;
}

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("_cdist_forward", &neuron::cdist);
    m.impl("_cdist_backward", &neuron::cdist_backward);
    m.impl("_pdist_forward", &neuron::pdist);
    m.impl("_pdist_backward", &neuron::pdist_backward);
    m.impl("linalg_cross", &neuron::cross);
    m.impl("linalg_cross.out", &neuron::cross_out);
    m.impl("unfold_backward", &neuron::unfold_backward);
}

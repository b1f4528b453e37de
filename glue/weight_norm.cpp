// Weight normalisation, renorm and the scaling of embedding rows.
#include <torch/library.h>

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/renorm_meta.h>
#include <ATen/ops/where.h>

#include "channels.h"
#include "launch.h"
#include "structured.h"
#include "tn/op/weight_norm.h"

namespace neuron {
namespace {

using Pair = std::tuple<at::Tensor, at::Tensor>;

// v as the kernel sees it: a slice per index of the first or the last dimension.
void layout(Launch& launch, const at::Tensor& v, int64_t dim)
{
    bool last = dim != 0;
    int64_t keys = v.size(dim), others = v.numel() / keys;
    launch.scalar(keys).scalar(last ? others : int64_t{1}).scalar(last ? keys : others).scalar(last);
}

void check_weight_norm(const at::Tensor& v, const at::Tensor& g, int64_t dim)
{
    check_same_device("_weight_norm_interface", {&v, &g});
    TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(v.scalar_type()) && v.element_size() > 1,
                                "\"weight_norm_kernel\" not implemented for '", v.scalar_type(), "'");
    TORCH_CHECK(g.scalar_type() == v.scalar_type(), "expected scalar type ", v.scalar_type(), " but found ",
                g.scalar_type());
    TORCH_CHECK(dim == 0 || dim == v.dim() - 1, "_weight_norm_interface: dim must be the first or the last of ",
                v.dim(), ", got ", dim);
    TORCH_CHECK(g.numel() == v.size(dim), "_weight_norm_interface: expected g with ", v.size(dim),
                " elements, one per slice of v of shape ", v.sizes(), ", got shape ", g.sizes());
}

Pair weight_norm(const at::Tensor& v, const at::Tensor& g, int64_t dim)
{
    check_weight_norm(v, g, dim);
    at::Tensor w = new_tensor(v.sizes(), v.scalar_type(), v.device());
    at::Tensor norms = new_tensor(g.sizes(), v.scalar_type() == at::kDouble ? at::kDouble : at::kFloat, v.device());
    if (v.numel() == 0) {
        norms.zero_();
        return {w, norms};
    }
    Launch launch(TN_OP_weight_norm);
    launch.out(w).out(norms).in(v.contiguous()).in(g.contiguous());
    layout(launch, v, dim);
    launch.run();
    return {w, norms};
}

Pair weight_norm_backward(const at::Tensor& grad, const at::Tensor& v, const at::Tensor& g,
                          const at::Tensor& norms, int64_t dim)
{
    check_weight_norm(v, g, dim);
    check_same_device("_weight_norm_interface_backward", {&v, &grad, &norms});
    TORCH_CHECK(grad.sizes().equals(v.sizes()) && grad.scalar_type() == v.scalar_type(),
                "_weight_norm_interface_backward: expected a gradient of shape ", v.sizes(), " and dtype ",
                v.scalar_type(), ", got ", grad.sizes(), " of ", grad.scalar_type());
    TORCH_CHECK(norms.numel() == g.numel(), "_weight_norm_interface_backward: expected ", g.numel(), " norms, got ",
                norms.numel());
    at::Tensor grad_v = new_tensor(v.sizes(), v.scalar_type(), v.device());
    at::Tensor grad_g = new_tensor(g.sizes(), g.scalar_type(), v.device());
    if (v.numel() == 0) {
        grad_g.zero_();
        return {grad_v, grad_g};
    }
    Launch launch(TN_OP_weight_norm_backward);
    launch.out(grad_v).out(grad_g);
    launch.in(grad.contiguous()).in(v.contiguous()).in(g.contiguous()).in(norms.contiguous());
    layout(launch, v, dim);
    launch.run();
    return {grad_v, grad_g};
}

// ---- renorm: a composition of the device's operators ---------------------------------------------------

void scale_slices(const at::Tensor& self, const at::Scalar& p, int64_t dim, const at::Scalar& maxnorm,
                  const at::Tensor& out)
{
    dim = at::maybe_wrap_dim(dim, self.dim());
    at::DimVector others;
    for (int64_t d = 0; d < self.dim(); d++)
        if (d != dim)
            others.push_back(d);
    bool narrow = self.scalar_type() == at::kHalf || self.scalar_type() == at::kBFloat16;
    auto wide = narrow ? std::optional(at::kFloat) : std::nullopt;
    at::Tensor norm = at::linalg_vector_norm(self.is_complex() ? self.abs() : self, p, others, true, wide);
    at::Tensor factor = at::where(norm.gt(maxnorm), norm.add(1e-7).reciprocal().mul(maxnorm), at::ones_like(norm));
    at::mul_out(const_cast<at::Tensor&>(out), self, narrow ? factor : factor.to(self.scalar_type()));
}

at::Tensor renorm(const at::Tensor& self, const at::Scalar& p, int64_t dim, const at::Scalar& maxnorm)
{
    Structured<at::meta::structured_renorm> op;
    op.meta(self, p, dim, maxnorm);
    scale_slices(self, p, dim, maxnorm, op.output());
    return op.take();
}

at::Tensor& renorm_out(const at::Tensor& self, const at::Scalar& p, int64_t dim, const at::Scalar& maxnorm,
                       at::Tensor& out)
{
    Structured<at::meta::structured_renorm> op(Variant::Out, {out});
    op.meta(self, p, dim, maxnorm);
    scale_slices(self, p, dim, maxnorm, op.output());
    op.finish();
    return out;
}

at::Tensor& renorm_(at::Tensor& self, const at::Scalar& p, int64_t dim, const at::Scalar& maxnorm)
{
    Structured<at::meta::structured_renorm> op(Variant::InPlace, {self});
    op.meta(self, p, dim, maxnorm);
    scale_slices(self, p, dim, maxnorm, op.output());
    op.finish();
    return self;
}

at::Tensor& embedding_renorm_(at::Tensor& self, const at::Tensor& indices, double max_norm, double norm_type)
{
    check_same_device("embedding_renorm_", {&self, &indices});
    TORCH_CHECK(self.dim() == 2, "embedding_renorm_: expected a table of 2 dimensions, got ", self.dim());
    TORCH_CHECK(indices.scalar_type() == at::kLong || indices.scalar_type() == at::kInt,
                "Expected tensor for argument #2 'indices' to have one of the following scalar types: Long, Int; ",
                "but got ", indices.toString(), " instead (while checking arguments for embedding_renorm_)");
    TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(self.scalar_type()) && self.element_size() > 1,
                                "\"embedding_renorm_\" not implemented for '", self.scalar_type(), "'");
    if (indices.numel() > 0)
        Launch(TN_OP_embedding_renorm)
            .out(self).in(self).in(indices.contiguous()).scalar(max_norm).scalar(norm_type).run();
    return self;
}

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("_weight_norm_interface", &neuron::weight_norm);
    m.impl("_weight_norm_interface_backward", &neuron::weight_norm_backward);
    m.impl("renorm", &neuron::renorm);
    m.impl("renorm.out", &neuron::renorm_out);
    m.impl("renorm_", &neuron::renorm_);
    m.impl("embedding_renorm_", &neuron::embedding_renorm_);
}

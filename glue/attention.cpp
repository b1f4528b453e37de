// Scaled dot-product attention: which calls the fused kernel serves, and its forward and backward ops.
// What it does not serve (a mask that needs a gradient, unequal batch sizes, empty tensors) is left to
// ATen's composition of products and softmax.
#include <cmath>

#include <ATen/Context.h>
#include <ATen/ExpandUtils.h>
#include <ATen/SDPBackend.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <torch/library.h>

#include "generator.h"
#include "launch.h"
#include "tn/op/attention.h"

namespace neuron {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

bool serves_dtype(at::ScalarType dtype)
{
    return dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf || dtype == at::kDouble;
}

bool serves_mask(const Tensor& mask, const Tensor& query, const Tensor& key)
{
    bool needs_gradient = at::GradMode::is_enabled() && mask.requires_grad();
    bool readable = mask.scalar_type() == at::kBool || mask.scalar_type() == query.scalar_type();
    return !needs_gradient && readable && is_neuron(mask) && mask.dim() >= 2 && mask.dim() <= 4 &&
           at::is_expandable_to(mask.sizes(),
                                {query.size(0), query.size(1), query.size(2), key.size(2)});
}

bool serves(const Tensor& query, const Tensor& key, const Tensor& value, const MaybeTensor& mask,
            bool is_causal, bool enable_gqa)
{
    for (const Tensor* tensor : {&query, &key, &value})
        if (!is_neuron(*tensor) || tensor->is_nested() || tensor->dim() != 4 || tensor->numel() == 0 ||
            tensor->scalar_type() != query.scalar_type() || tensor->size(0) != query.size(0))
            return false;
    int64_t heads = query.size(1), groups = key.size(1);
    bool same_heads = heads == groups || (enable_gqa && heads % groups == 0);
    if (!serves_dtype(query.scalar_type()) || !same_heads || value.size(1) != groups ||
        query.size(3) != key.size(3) || key.size(2) != value.size(2))
        return false;
    if (!mask || !mask->defined())
        return true;
    return !is_causal && serves_mask(*mask, query, key);
}

int64_t choose(const Tensor& query, const Tensor& key, const Tensor& value, const MaybeTensor& mask,
               double /*dropout*/, bool is_causal, std::optional<double> /*scale*/, bool enable_gqa)
{
    bool fused = at::globalContext().userEnabledOverrideableSDP() &&
                 serves(query, key, value, mask, is_causal, enable_gqa);
    return static_cast<int64_t>(fused ? at::SDPBackend::overrideable : at::SDPBackend::math);
}

void check_arguments(const Tensor& query, const Tensor& key, const Tensor& value,
                     const MaybeTensor& mask, bool is_causal)
{
    TORCH_CHECK(serves(query, key, value, mask, is_causal, true),
                "scaled_dot_product_attention: the fused kernel serves 4-D floating query, key and value "
                "of one dtype and batch size, and a mask without gradient that broadcasts to the scores; "
                "got query ", query.sizes(), " ", query.scalar_type(), ", key ", key.sizes(), " ",
                key.scalar_type(), ", value ", value.sizes(), " ", value.scalar_type(),
                mask && mask->defined() ? ", with a mask" : ", without mask");
}

// The query's order of dimensions in memory, so that merging the heads afterwards is free.
Tensor empty_output(const Tensor& query, int64_t value_size)
{
    at::DimVector sizes(query.sizes());
    sizes.back() = value_size;
    return new_tensor(sizes, at::infer_dense_strides(sizes, query.strides()), query.scalar_type(),
                      query.device());
}

Tensor empty_gradient(const Tensor& like)
{
    return new_tensor(like.sizes(), at::infer_dense_strides(like.sizes(), like.strides()),
                      like.scalar_type(), like.device());
}

double scale_of(const Tensor& query, std::optional<double> scale)
{
    return scale ? *scale : 1 / std::sqrt(static_cast<double>(query.size(-1)));
}

Tensor with_batch(const Tensor& tensor)
{
    return tensor.dim() == 3 ? tensor.unsqueeze(0) : tensor;
}

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>
attention(const Tensor& query, const Tensor& key, const Tensor& value, const MaybeTensor& mask,
          double dropout, bool is_causal, bool /*return_debug_mask*/, std::optional<double> scale)
{
    Tensor q = with_batch(query), k = with_batch(key), v = with_batch(value);
    check_arguments(q, k, v, mask, is_causal);
    TORCH_CHECK(dropout >= 0 && dropout <= 1, "dropout probability has to be between 0 and 1, but got ",
                dropout);
    Tensor out = empty_output(q, v.size(3));
    auto statistics = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    Tensor lse = new_tensor({q.size(0), q.size(1), q.size(2)}, statistics, q.device());
    Tensor seed = new_tensor({}, at::kLong, q.device()), offset = new_tensor({}, at::kLong, q.device());
    Launch launch(TN_OP_attention);
    launch.out(out).out(lse).out(seed).out(offset).in(q).in(k).in(v).in(mask);
    launch.scalar(scale_of(q, scale)).scalar(is_causal).scalar(dropout);
    if (dropout > 0) {
        auto [first, second] = philox_reserve({}, q.device().index(), 4);
        launch.rng(first, second);
    }
    launch.run();
    return {query.dim() == 3 ? out.squeeze(0) : out, lse, Tensor(), Tensor(), q.size(2), k.size(2), seed,
            offset, Tensor()};
}

std::tuple<Tensor, Tensor, Tensor, Tensor>
attention_backward(const Tensor& grad_out, const Tensor& query, const Tensor& key, const Tensor& value,
                   const Tensor& mask, std::array<bool, 4> /*wanted*/, const Tensor& out,
                   const Tensor& lse, const Tensor& /*cum_seq_q*/, const Tensor& /*cum_seq_k*/,
                   c10::SymInt /*max_q*/, c10::SymInt /*max_k*/, double dropout, bool is_causal,
                   const Tensor& seed, const Tensor& offset, std::optional<double> scale)
{
    if (!grad_out.defined()) // nothing depends on the output
        return {};
    Tensor q = with_batch(query), k = with_batch(key), v = with_batch(value);
    Tensor dq = empty_gradient(q), dk = empty_gradient(k), dv = empty_gradient(v);
    Launch(TN_OP_attention_backward)
        .out(dq)
        .out(dk)
        .out(dv)
        .in(q)
        .in(k)
        .in(v)
        .in(mask)
        .in(with_batch(grad_out))
        .in(with_batch(out))
        .in(lse)
        .in(seed)
        .in(offset)
        .scalar(scale_of(q, scale))
        .scalar(is_causal)
        .scalar(dropout)
        .run();
    if (query.dim() == 3)
        return {dq.squeeze(0), dk.squeeze(0), dv.squeeze(0), Tensor()};
    return {dq, dk, dv, Tensor()};
}

int64_t choice_op(const Tensor& query, const Tensor& key, const Tensor& value, const MaybeTensor& mask,
                  double dropout, bool is_causal, std::optional<double> scale, bool enable_gqa)
{
    return choose(query, key, value, mask, dropout, is_causal, scale, enable_gqa);
}

} // namespace
} // namespace neuron

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &neuron::choose)
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("_fused_sdp_choice", &neuron::choice_op);
    m.impl("_scaled_dot_product_fused_attention_overrideable", &neuron::attention);
    m.impl("_scaled_dot_product_fused_attention_overrideable_backward", &neuron::attention_backward);
}

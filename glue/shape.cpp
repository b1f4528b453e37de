// Rearranging whole tensors: cat, triangles, repeats.
#include <ATen/MemoryOverlap.h>
#include <ATen/core/IListRef.h>
#include <torch/library.h>

#include <ATen/ops/cat_meta.h>
#include <ATen/ops/tril_meta.h>
#include <ATen/ops/triu_meta.h>

#include "launch.h"
#include "structured.h"
#include "tn/op/shape.h"

namespace neuron {
namespace {

// ---- cat -----------------------------------------------------------------------------------------

using Cat = Structured<at::meta::structured_cat>;

// A 1-D tensor without elements is skipped whatever its rank says, as ATen does for old programs.
bool is_skipped(const at::Tensor& tensor)
{
    return tensor.numel() == 0;
}

void cat_into(Cat& op, const at::ITensorListRef& tensors, int64_t dim)
{
    auto checked = op.meta(tensors, dim);
    const auto& out = op.output();
    if (out.numel() == 0)
        return op.finish();
    Launch launch(TN_OP_cat);
    launch.out(out);
    c10::SmallVector<at::Tensor, 4> kept; // converted inputs live until the launch is queued
    for (const at::Tensor& tensor : tensors) {
        if (is_skipped(tensor))
            continue;
        TORCH_CHECK(tensor.device() == out.device(),
                    "Expected all tensors to be on the same device, but found at least two devices, ",
                    out.device(), " and ", tensor.device(), "!");
        kept.push_back(tensor.scalar_type() == out.scalar_type() && !tensor.is_conj() && !tensor.is_neg()
                           ? tensor
                           : tensor.to(out.scalar_type()).resolve_conj().resolve_neg());
        launch.in(kept.back());
    }
    launch.scalar(checked.dim).run();
    op.finish();
}

at::Tensor cat(const at::ITensorListRef& tensors, int64_t dim)
{
    Cat op;
    cat_into(op, tensors, dim);
    return op.take();
}

at::Tensor& cat_out(const at::ITensorListRef& tensors, int64_t dim, at::Tensor& out)
{
    Cat op(Variant::Out, {out});
    cat_into(op, tensors, dim);
    return out;
}

// ---- triangles -----------------------------------------------------------------------------------

template <class Meta, bool Upper>
struct Triangle {
    static void into(Structured<Meta>& op, const at::Tensor& self, int64_t diagonal)
    {
        op.meta(self, diagonal);
        if (self.numel() != 0)
            Launch(TN_OP_triangle).out(op.output()).in(self).scalar(diagonal).scalar(Upper).run();
        op.finish();
    }
    static at::Tensor functional(const at::Tensor& self, int64_t diagonal)
    {
        Structured<Meta> op;
        into(op, self, diagonal);
        return op.take();
    }
    static at::Tensor& inplace(at::Tensor& self, int64_t diagonal)
    {
        Structured<Meta> op(Variant::InPlace, {self});
        into(op, self, diagonal);
        return self;
    }
    static at::Tensor& out(const at::Tensor& self, int64_t diagonal, at::Tensor& out)
    {
        Structured<Meta> op(Variant::Out, {out});
        into(op, self, diagonal);
        return out;
    }
};

// ---- repeats -------------------------------------------------------------------------------------

at::Tensor repeat_interleave(const at::Tensor& repeats, std::optional<int64_t> output_size)
{
    TORCH_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
    TORCH_CHECK(repeats.scalar_type() == at::kLong || repeats.scalar_type() == at::kInt,
                "repeats has to be Long or Int tensor");
    if (repeats.numel() == 0)
        return new_tensor({0}, repeats.scalar_type(), repeats.device());
    int64_t total = output_size ? *output_size : repeats.sum().item<int64_t>();
    TORCH_CHECK(total >= 0, "repeats can not be negative");
    auto out = new_tensor({total}, repeats.scalar_type(), repeats.device());
    Launch(TN_OP_repeat_interleave).out(out).in(repeats).run();
    return out;
}

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    using namespace neuron;
    using Lower = Triangle<at::meta::structured_tril, false>;
    using Upper = Triangle<at::meta::structured_triu, true>;
    m.impl("cat", &cat);
    m.impl("cat.out", &cat_out);
    m.impl("tril", &Lower::functional);
    m.impl("tril_", &Lower::inplace);
    m.impl("tril.out", &Lower::out);
    m.impl("triu", &Upper::functional);
    m.impl("triu_", &Upper::inplace);
    m.impl("triu.out", &Upper::out);
    m.impl("repeat_interleave.Tensor", &repeat_interleave);
}

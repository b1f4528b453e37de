// argmax, argmin, the extrema along a dimension with their indices, aminmax.
#include <torch/library.h>

#include <ATen/ops/aminmax_meta.h>
#include <ATen/ops/argmax_meta.h>
#include <ATen/ops/argmin_meta.h>
#include <ATen/ops/max_meta.h>
#include <ATen/ops/min_meta.h>

#include "dims.h"
#include "launch.h"
#include "structured.h"
#include "tn/op/arg_reduce.h"
#include "tn/op/reduce.h"

namespace neuron {
namespace {

using Pair = std::tuple<at::Tensor, at::Tensor>;
using PairRef = std::tuple<at::Tensor&, at::Tensor&>;

void check_ordered(const char* name, const at::Tensor& self)
{
    auto dtype = self.scalar_type();
    TORCH_CHECK_NOT_IMPLEMENTED(is_row_dtype(dtype) && !c10::isBarebonesUnsignedType(dtype), "\"", name,
                                "\" not implemented for '", dtype, "'");
}

uint64_t mask_of(std::optional<int64_t> dim, const at::Tensor& self)
{
    return dim ? dim_mask(at::IntArrayRef(*dim), self.dim()) : all_dims(self.dim());
}

void launch(int op, std::initializer_list<at::Tensor> outputs, const at::Tensor& self, uint64_t mask)
{
    if (self.numel() != 0)
        Launch(op).outs(outputs).in(self).scalar(mask_scalar(mask)).run();
}

// ---- the index alone -----------------------------------------------------------------------------

template <class Meta, int Op>
struct Argument {
    static constexpr const char* kName = Op == TN_OP_argmax ? "argmax_cpu" : "argmin_cpu";

    static void into(Structured<Meta>& op, const at::Tensor& self, std::optional<int64_t> dim,
                     bool keepdim)
    {
        op.meta(self, dim, keepdim);
        check_ordered(kName, self);
        launch(Op, {op.output()}, self, mask_of(dim, self));
        op.finish();
    }
    static at::Tensor call(const at::Tensor& self, std::optional<int64_t> dim, bool keepdim)
    {
        Structured<Meta> op;
        into(op, self, dim, keepdim);
        return op.take();
    }
    static at::Tensor& out(const at::Tensor& self, std::optional<int64_t> dim, bool keepdim,
                           at::Tensor& out)
    {
        Structured<Meta> op(Variant::Out, {out});
        into(op, self, dim, keepdim);
        return out;
    }
};
using Argmax = Argument<at::meta::structured_argmax, TN_OP_argmax>;
using Argmin = Argument<at::meta::structured_argmin, TN_OP_argmin>;

// ---- value and index -----------------------------------------------------------------------------

template <class Meta, int Op>
struct Extremum {
    static void into(Structured<Meta, 2>& op, const at::Tensor& self, int64_t dim, bool keepdim)
    {
        op.meta(self, dim, keepdim);
        check_ordered(Op == TN_OP_max_dim ? "max_cpu" : "min_cpu", self);
        launch(Op, {op.output(0), op.output(1)}, self, mask_of(dim, self));
        op.finish();
    }
    static Pair call(const at::Tensor& self, int64_t dim, bool keepdim)
    {
        Structured<Meta, 2> op;
        into(op, self, dim, keepdim);
        return {op.take(0), op.take(1)};
    }
    static PairRef out(const at::Tensor& self, int64_t dim, bool keepdim, at::Tensor& values,
                       at::Tensor& indices)
    {
        Structured<Meta, 2> op(Variant::Out, {values, indices});
        into(op, self, dim, keepdim);
        return {values, indices};
    }
};
using Max = Extremum<at::meta::structured_max_dim, TN_OP_max_dim>;
using Min = Extremum<at::meta::structured_min_dim, TN_OP_min_dim>;

// ---- both extrema --------------------------------------------------------------------------------

using Aminmax = Structured<at::meta::structured_aminmax, 2>;

void aminmax_into(Aminmax& op, const at::Tensor& self, std::optional<int64_t> dim, bool keepdim)
{
    op.meta(self, dim, keepdim);
    check_ordered("aminmax_cpu", self);
    uint64_t mask = mask_of(dim, self);
    if (self.numel() != 0)
        for (int i = 0; i < 2; i++)
            Launch(i == 0 ? TN_OP_amin : TN_OP_amax)
                .out(op.output(i))
                .in(self)
                .scalar(mask_scalar(mask))
                .compute(self.scalar_type())
                .run();
    op.finish();
}

Pair aminmax(const at::Tensor& self, std::optional<int64_t> dim, bool keepdim)
{
    Aminmax op;
    aminmax_into(op, self, dim, keepdim);
    return {op.take(0), op.take(1)};
}

PairRef aminmax_out(const at::Tensor& self, std::optional<int64_t> dim, bool keepdim, at::Tensor& min,
                    at::Tensor& max)
{
    Aminmax op(Variant::Out, {min, max});
    aminmax_into(op, self, dim, keepdim);
    return {min, max};
}

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("argmax", &neuron::Argmax::call);
    m.impl("argmax.out", &neuron::Argmax::out);
    m.impl("argmin", &neuron::Argmin::call);
    m.impl("argmin.out", &neuron::Argmin::out);
    m.impl("max.dim", &neuron::Max::call);
    m.impl("max.dim_max", &neuron::Max::out);
    m.impl("min.dim", &neuron::Min::call);
    m.impl("min.dim_min", &neuron::Min::out);
    m.impl("aminmax", &neuron::aminmax);
    m.impl("aminmax.out", &neuron::aminmax_out);
}

// gather and scatter in all their forms: ATen's meta functions check, one launch does the work.
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <torch/library.h>

#include <ATen/ops/gather_meta.h>
#include <ATen/ops/scatter_add_meta.h>
#include <ATen/ops/scatter_meta.h>
#include <ATen/ops/scatter_reduce_meta.h>

#include "launch.h"
#include "structured.h"
#include "tn/op/copy.h"
#include "tn/op/scatter.h"

namespace neuron {
namespace {

// ---- gather ------------------------------------------------------------------------------------

using Gather = Structured<at::meta::structured_gather>;

void gather_into(Gather& op, const at::Tensor& self, int64_t dim, const at::Tensor& index, bool sparse)
{
    op.meta(self, dim, index, sparse);
    check_same_device("gather", {&self, &index});
    if (index.numel() != 0)
        Launch(TN_OP_gather).out(op.output()).in(self).in(index).scalar(at::maybe_wrap_dim(dim, self.dim())).run();
    op.finish();
}

at::Tensor gather(const at::Tensor& self, int64_t dim, const at::Tensor& index, bool sparse)
{
    Gather op;
    gather_into(op, self, dim, index, sparse);
    return op.take();
}

at::Tensor& gather_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, bool sparse,
                       at::Tensor& out)
{
    Gather op(Variant::Out, {out});
    gather_into(op, self, dim, index, sparse);
    return out;
}

// ---- scatter -----------------------------------------------------------------------------------

// How sources meet what is there (tn_combine in core/kernel/accumulate.h).
struct Combine {
    int64_t code;
    bool mean = false;
};

Combine combine_of(std::string_view reduce)
{
    if (reduce == "add" || reduce == "sum")
        return {1};
    if (reduce == "multiply" || reduce == "prod")
        return {2};
    if (reduce == "amax")
        return {3};
    if (reduce == "amin")
        return {4};
    TORCH_CHECK(reduce == "mean", "scatter: unknown reduction '", reduce, "'");
    return {1, true};
}

template <class Meta>
void scatter_into(Structured<Meta>& op, const at::Tensor& self, int64_t dim, const at::Tensor& index,
                  const at::Tensor& source, Combine combine, bool include_self = true)
{
    const auto& out = op.output();
    check_same_device("scatter", {&self, &index, &source});
    if (!out.is_same(self))
        out.copy_(self);
    if (index.numel() != 0)
        Launch(TN_OP_scatter)
            .out(out)
            .in(index)
            .in(source)
            .scalar(at::maybe_wrap_dim(dim, self.dim()))
            .scalar(combine.code)
            .scalar(combine.mean)
            .scalar(include_self)
            .run();
    op.finish();
}

at::Tensor number(const at::Scalar& value, const at::Tensor& like)
{
    auto result = new_tensor({}, like.scalar_type(), like.device());
    Launch(TN_OP_fill).out(result).scalar(value).run();
    return result;
}

void run(Structured<at::meta::structured_scatter_src>& op, const at::Tensor& self, int64_t dim,
         const at::Tensor& index, const at::Tensor& src)
{
    op.meta(self, dim, index, src);
    scatter_into(op, self, dim, index, src, {0});
}

void run(Structured<at::meta::structured_scatter_value>& op, const at::Tensor& self, int64_t dim,
         const at::Tensor& index, const at::Scalar& value)
{
    op.meta(self, dim, index, value);
    scatter_into(op, self, dim, index, number(value, self), {0});
}

void run(Structured<at::meta::structured_scatter_reduce>& op, const at::Tensor& self, int64_t dim,
         const at::Tensor& index, const at::Tensor& src, std::string_view reduce)
{
    op.meta(self, dim, index, src, reduce);
    scatter_into(op, self, dim, index, src, combine_of(reduce));
}

void run(Structured<at::meta::structured_scatter_value_reduce>& op, const at::Tensor& self, int64_t dim,
         const at::Tensor& index, const at::Scalar& value, std::string_view reduce)
{
    op.meta(self, dim, index, value, reduce);
    scatter_into(op, self, dim, index, number(value, self), combine_of(reduce));
}

void run(Structured<at::meta::structured_scatter_add>& op, const at::Tensor& self, int64_t dim,
         const at::Tensor& index, const at::Tensor& src)
{
    op.meta(self, dim, index, src);
    scatter_into(op, self, dim, index, src, {1});
}

void run(Structured<at::meta::structured_scatter_reduce_two>& op, const at::Tensor& self, int64_t dim,
         const at::Tensor& index, const at::Tensor& src, std::string_view reduce, bool include_self)
{
    op.meta(self, dim, index, src, reduce, include_self);
    scatter_into(op, self, dim, index, src, combine_of(reduce), include_self);
}

template <class Meta, class... Args>
struct Scatter {
    static at::Tensor functional(const at::Tensor& self, Args... args)
    {
        Structured<Meta> op;
        run(op, self, args...);
        return op.take();
    }
    static at::Tensor& inplace(at::Tensor& self, Args... args)
    {
        Structured<Meta> op(Variant::InPlace, {self});
        run(op, self, args...);
        return self;
    }
    static at::Tensor& out(const at::Tensor& self, Args... args, at::Tensor& out)
    {
        Structured<Meta> op(Variant::Out, {out});
        run(op, self, args...);
        return out;
    }
    static void add(torch::Library& m, const std::string& name, const std::string& overload,
                    const std::string& out_overload)
    {
        auto tail = overload.empty() ? "" : "." + overload;
        m.impl((name + tail).c_str(), &functional);
        m.impl((name + "_" + tail).c_str(), &inplace);
        m.impl((name + "." + out_overload).c_str(), &out);
    }
};

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    using namespace neuron;
    using T = const at::Tensor&;
    m.impl("gather", &gather);
    m.impl("gather.out", &gather_out);
    Scatter<at::meta::structured_scatter_src, int64_t, T, T>::add(m, "scatter", "src", "src_out");
    Scatter<at::meta::structured_scatter_value, int64_t, T, const at::Scalar&>::add(m, "scatter", "value",
                                                                                   "value_out");
    Scatter<at::meta::structured_scatter_reduce, int64_t, T, T, std::string_view>::add(
        m, "scatter", "reduce", "reduce_out");
    Scatter<at::meta::structured_scatter_value_reduce, int64_t, T, const at::Scalar&,
            std::string_view>::add(m, "scatter", "value_reduce", "value_reduce_out");
    Scatter<at::meta::structured_scatter_add, int64_t, T, T>::add(m, "scatter_add", "", "out");
    Scatter<at::meta::structured_scatter_reduce_two, int64_t, T, T, std::string_view, bool>::add(
        m, "scatter_reduce", "two", "two_out");
}

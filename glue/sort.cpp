// Sorting and selecting along a dimension.
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <torch/library.h>

#include <ATen/ops/sort_meta.h>
#include <ATen/ops/topk_meta.h>

#include "launch.h"
#include "structured.h"
#include "tn/op/copy.h"
#include "tn/op/sort.h"

namespace neuron {
namespace {

// What the kernel does with a sorted line (line_op in core/kernel/sort.c).
enum LineOp : int64_t { kSort = 0, kTopk = 1, kKth = 2, kMedian = 3, kNanMedian = 4, kMode = 5 };

void check_sortable(const char* op, const at::Tensor& self)
{
    TORCH_CHECK(!self.is_complex(), op, " does not support complex dtypes on CPU");
    TORCH_CHECK_NOT_IMPLEMENTED(!at::isFloat8Type(self.scalar_type()), "\"", op, "\" not implemented for '",
                                self.scalar_type(), "'");
}

void launch_lines(const at::Tensor& values, const at::Tensor& indices, const at::Tensor& self, int64_t dim,
                  int64_t k, bool descending, LineOp op)
{
    if (self.numel() == 0 || values.numel() == 0)
        return;
    Launch(TN_OP_sort).out(values).out(indices).in(self).scalar(dim).scalar(k).scalar(descending)
        .scalar(int64_t{op}).run();
}

// ---- sort and topk -----------------------------------------------------------------------------

using Sort = Structured<at::meta::structured_sort_stable, 2>;
using Topk = Structured<at::meta::structured_topk, 2>;
using Pair = std::tuple<at::Tensor, at::Tensor>;
using PairRef = std::tuple<at::Tensor&, at::Tensor&>;

void sort_into(Sort& op, const at::Tensor& self, std::optional<bool> stable, int64_t dim, bool descending)
{
    check_sortable("sort", self);
    op.meta(self, stable, dim, descending);
    launch_lines(op.output(0), op.output(1), self, at::maybe_wrap_dim(dim, self.dim()), 0, descending,
                 kSort);
    op.finish();
}

Pair sort(const at::Tensor& self, std::optional<bool> stable, int64_t dim, bool descending)
{
    Sort op;
    sort_into(op, self, stable, dim, descending);
    return {op.take(0), op.take(1)};
}

PairRef sort_out(const at::Tensor& self, std::optional<bool> stable, int64_t dim, bool descending,
                 at::Tensor& values, at::Tensor& indices)
{
    Sort op(Variant::Out, {values, indices});
    sort_into(op, self, stable, dim, descending);
    return {values, indices};
}

void topk_into(Topk& op, const at::Tensor& self, int64_t k, int64_t dim, bool largest, bool sorted)
{
    check_sortable("topk", self);
    TORCH_CHECK(self.scalar_type() != at::kBool, "topk does not support bool dtypes on CPU");
    op.meta(self, k, dim, largest, sorted);
    launch_lines(op.output(0), op.output(1), self, at::maybe_wrap_dim(dim, self.dim()), k, largest, kTopk);
    op.finish();
}

Pair topk(const at::Tensor& self, int64_t k, int64_t dim, bool largest, bool sorted)
{
    Topk op;
    topk_into(op, self, k, dim, largest, sorted);
    return {op.take(0), op.take(1)};
}

PairRef topk_out(const at::Tensor& self, int64_t k, int64_t dim, bool largest, bool sorted,
                 at::Tensor& values, at::Tensor& indices)
{
    Topk op(Variant::Out, {values, indices});
    topk_into(op, self, k, dim, largest, sorted);
    return {values, indices};
}

// ---- one of each line ---------------------------------------------------------------------------

PairRef select_out(const char* name, LineOp op, const at::Tensor& self, int64_t k, int64_t dim,
                   bool keepdim, at::Tensor& values, at::Tensor& indices)
{
    dim = at::maybe_wrap_dim(dim, self.dim());
    check_sortable(name, self);
    if (self.dim() > 0 && op != kKth)
        TORCH_CHECK_INDEX(self.size(dim) != 0, name, "(): Expected reduction dim ", dim,
                          " to have non-zero size.");
    TORCH_CHECK(values.scalar_type() == self.scalar_type(), "Expected out tensor to have dtype ",
                self.dtype(), ", but got ", values.dtype(), " instead");
    TORCH_CHECK(indices.scalar_type() == at::kLong, "Expected out tensor to have dtype long int, but got ",
                indices.dtype(), " instead");
    check_same_device(name, {&self, &values, &indices});
    at::DimVector kept(self.sizes());
    if (!kept.empty())
        kept[static_cast<size_t>(dim)] = 1;
    at::DimVector sizes(kept);
    if (!keepdim && !sizes.empty())
        sizes.erase(sizes.begin() + dim);
    for (const at::Tensor* out : {&values, &indices}) {
        at::native::resize_output(*out, sizes);
        at::assert_no_internal_overlap(*out);
        at::assert_no_overlap(*out, self);
    }
    bool narrow = !keepdim && self.dim() > 0;
    launch_lines(narrow ? values.unsqueeze(dim) : values, narrow ? indices.unsqueeze(dim) : indices, self,
                 dim, k, false, op);
    return {values, indices};
}

PairRef kthvalue_out(const at::Tensor& self, int64_t k, int64_t dim, bool keepdim, at::Tensor& values,
                     at::Tensor& indices)
{
    int64_t wrapped = at::maybe_wrap_dim(dim, self.dim());
    int64_t size = self.dim() > 0 ? self.size(wrapped) : 1;
    TORCH_CHECK(k >= 1 && k <= size, "kthvalue(): selected number k out of range for dimension ", wrapped);
    return select_out("kthvalue", kKth, self, k, dim, keepdim, values, indices);
}

PairRef median_dim_out(const at::Tensor& self, int64_t dim, bool keepdim, at::Tensor& values,
                       at::Tensor& indices)
{
    return select_out("median", kMedian, self, 0, dim, keepdim, values, indices);
}

PairRef nanmedian_dim_out(const at::Tensor& self, int64_t dim, bool keepdim, at::Tensor& values,
                          at::Tensor& indices)
{
    return select_out("nanmedian", kNanMedian, self, 0, dim, keepdim, values, indices);
}

PairRef mode_out(const at::Tensor& self, int64_t dim, bool keepdim, at::Tensor& values, at::Tensor& indices)
{
    TORCH_CHECK_NOT_IMPLEMENTED(!self.is_complex() && !c10::isBarebonesUnsignedType(self.scalar_type()),
                                "\"mode_cpu\" not implemented for '", self.scalar_type(), "'");
    return select_out("mode", kMode, self, 0, dim, keepdim, values, indices);
}

Pair mode(const at::Tensor& self, int64_t dim, bool keepdim)
{
    auto values = new_tensor({0}, self.scalar_type(), self.device());
    auto indices = new_tensor({0}, at::kLong, self.device());
    return neuron::mode_out(self, dim, keepdim, values, indices);
}

at::Tensor median_of_all(const char* name, LineOp op, const at::Tensor& self)
{
    check_sortable(name, self);
    auto value = new_tensor({}, self.scalar_type(), self.device());
    if (self.numel() == 0) {
        Launch(TN_OP_fill).out(value).scalar(std::numeric_limits<double>::quiet_NaN()).run();
        return value;
    }
    auto index = new_tensor({1}, at::kLong, self.device());
    launch_lines(value.view({1}), index, self.reshape({-1}), 0, 0, false, op);
    return value;
}

at::Tensor median(const at::Tensor& self)
{
    return median_of_all("median", kMedian, self);
}

at::Tensor nanmedian(const at::Tensor& self)
{
    return median_of_all("nanmedian", kNanMedian, self);
}

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("sort.stable", &neuron::sort);
    m.impl("sort.values_stable", &neuron::sort_out);
    m.impl("topk", &neuron::topk);
    m.impl("topk.values", &neuron::topk_out);
    m.impl("kthvalue.values", &neuron::kthvalue_out);
    m.impl("median.dim_values", &neuron::median_dim_out);
    m.impl("nanmedian.dim_values", &neuron::nanmedian_dim_out);
    m.impl("mode", &neuron::mode);
    m.impl("mode.values", &neuron::mode_out);
    m.impl("median", &neuron::median);
    m.impl("nanmedian", &neuron::nanmedian);
}

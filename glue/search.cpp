// Looking values up: searchsorted, bucketize, isin, unique, equal.
#include <ATen/ScalarOps.h>
#include <ATen/native/BucketizationUtils.h>
#include <ATen/native/TypeProperties.h>
#include <torch/library.h>

#include <ATen/ops/isin_meta.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/view_as_real.h>

#include "launch.h"
#include "structured.h"
#include "tn/op/search.h"

namespace neuron {
namespace {

// ---- searchsorted and bucketize ----------------------------------------------------------------

using Side = std::optional<std::string_view>;

at::Tensor number(const at::Scalar& value, const at::Tensor& like)
{
    return at::scalar_tensor(value, like.options().dtype(value.type()));
}

at::Tensor& searchsorted_out(const at::Tensor& sorted, const at::Tensor& self, bool out_int32, bool right,
                             Side side, const std::optional<at::Tensor>& sorter, at::Tensor& out)
{
    at::Tensor order = sorter.value_or(at::Tensor());
    at::native::searchsorted_pre_check(sorted, self, out, out_int32, right,
                                       side ? std::optional<c10::string_view>(*side) : std::nullopt, order);
    at::native::resize_output(out, self.sizes());
    if (self.numel() == 0)
        return out;
    if (sorted.numel() == 0)
        return out.zero_();
    auto dtype = at::promote_types(sorted.scalar_type(), self.scalar_type());
    auto target = out.is_contiguous() ? out : new_tensor(out.sizes(), out.scalar_type(), out.device());
    auto lines = sorted.to(dtype).contiguous(), values = self.to(dtype).contiguous();
    if (order.defined())
        order = order.contiguous();
    Launch(TN_OP_searchsorted).out(target).in(lines).in(values).in(order)
        .scalar(right || (side && *side == "right")).run();
    if (!target.is_same(out))
        out.copy_(target);
    return out;
}

at::Tensor searchsorted(const at::Tensor& sorted, const at::Tensor& self, bool out_int32, bool right,
                        Side side, const std::optional<at::Tensor>& sorter)
{
    auto out = new_tensor({0}, out_int32 ? at::kInt : at::kLong, self.device());
    return searchsorted_out(sorted, self, out_int32, right, side, sorter, out);
}

at::Tensor searchsorted_scalar(const at::Tensor& sorted, const at::Scalar& self, bool out_int32, bool right,
                               Side side, const std::optional<at::Tensor>& sorter)
{
    return neuron::searchsorted(sorted, neuron::number(self, sorted), out_int32, right, side, sorter);
}

at::Tensor& bucketize_out(const at::Tensor& self, const at::Tensor& boundaries, bool out_int32, bool right,
                          at::Tensor& out)
{
    TORCH_CHECK(boundaries.dim() == 1, "boundaries tensor must be 1 dimension, but got dim(",
                boundaries.dim(), ")");
    return searchsorted_out(boundaries, self, out_int32, right, std::nullopt, std::nullopt, out);
}

at::Tensor bucketize(const at::Tensor& self, const at::Tensor& boundaries, bool out_int32, bool right)
{
    auto out = new_tensor({0}, out_int32 ? at::kInt : at::kLong, self.device());
    return bucketize_out(self, boundaries, out_int32, right, out);
}

at::Tensor bucketize_scalar(const at::Scalar& self, const at::Tensor& boundaries, bool out_int32, bool right)
{
    return neuron::bucketize(neuron::number(self, boundaries), boundaries, out_int32, right);
}

// ---- isin --------------------------------------------------------------------------------------

void launch_isin(const at::Tensor& out, const at::Tensor& elements, const at::Tensor& tests, bool invert)
{
    if (out.numel() == 0)
        return;
    auto dtype = at::native::result_type(elements, tests);
    auto values = elements.to(dtype), set = tests.to(dtype).contiguous();
    Launch(TN_OP_isin).out(out).in(values).in(set).scalar(invert).run();
}

using IsIn = Structured<at::meta::structured_isin_Tensor_Tensor>;

at::Tensor isin(const at::Tensor& elements, const at::Tensor& tests, bool assume_unique, bool invert)
{
    IsIn op;
    op.meta(elements, tests, assume_unique, invert);
    launch_isin(op.output(), elements, tests, invert);
    return op.take();
}

at::Tensor& isin_out(const at::Tensor& elements, const at::Tensor& tests, bool assume_unique, bool invert,
                     at::Tensor& out)
{
    IsIn op(Variant::Out, {out});
    op.meta(elements, tests, assume_unique, invert);
    launch_isin(op.output(), elements, tests, invert);
    op.finish();
    return out;
}

at::Tensor isin_scalar(const at::Tensor& elements, const at::Scalar& test, bool assume_unique, bool invert)
{
    auto wrapped = neuron::number(test, elements);
    wrapped.unsafeGetTensorImpl()->set_wrapped_number(true);
    return neuron::isin(elements, wrapped, assume_unique, invert);
}

// ---- unique --------------------------------------------------------------------------------------

using Unique = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// Runs of equal rows in `keys` (contiguous), visited in the order `visit`; `origin` says where the rows stand in
// `rows`, from which the result takes the first of each run.
Unique runs_of(const at::Tensor& rows, const at::Tensor& keys, const at::Tensor& visit,
               const at::Tensor& origin, at::IntArrayRef shape, bool inverse, bool counts)
{
    auto index = [&](at::IntArrayRef sizes) { return new_tensor(sizes, at::kLong, rows.device()); };
    int64_t n = rows.size(0);
    auto runs = index({n + 1});
    Launch(TN_OP_run_numbers).out(runs).in(keys).in(visit).run();
    int64_t total = runs.select(0, n).item<int64_t>();
    auto firsts = index({total}), lengths = index({total}), places = index(shape);
    if (n != 0)
        Launch(TN_OP_run_values).out(firsts).out(lengths).out(places).in(runs).in(origin).run();
    return {rows.index_select(0, firsts), inverse ? places : index({0}), counts ? lengths : index({0})};
}

void check_unique(const at::Tensor& self)
{
    TORCH_CHECK_NOT_IMPLEMENTED(!self.is_complex(), "\"unique\" not implemented for '", self.scalar_type(),
                                "'");
}

Unique unique2(const at::Tensor& self, bool, bool inverse, bool counts)
{
    check_unique(self);
    auto flat = self.contiguous().view(-1);
    auto [values, order] = flat.sort(/*stable=*/true, 0, false);
    return runs_of(flat, values.contiguous(), {}, order.contiguous(), self.sizes(), inverse, counts);
}

std::tuple<at::Tensor, at::Tensor> unique(const at::Tensor& self, bool sorted, bool inverse)
{
    auto [values, places, lengths] = neuron::unique2(self, sorted, inverse, false);
    return {values, places};
}

// Slices of `self` along `dim` that differ; `sorted` ones, or runs of neighbours.
Unique unique_slices(const at::Tensor& self, int64_t dim, bool sorted, bool inverse, bool counts)
{
    check_unique(self);
    TORCH_CHECK_INDEX(self.dim() > 0, "Dimension specified as ", dim, " but tensor has no dimensions");
    dim = at::maybe_wrap_dim(dim, self.dim());
    for (int64_t d = 0; d < self.dim(); d++)
        TORCH_CHECK(d == dim || self.size(d) != 0, "unique: dimension ", d, " of ", self.sizes(),
                    " has size 0, so slices along dimension ", dim, " cannot be compared");
    auto rows = self.movedim(dim, 0).contiguous();
    at::Tensor order;
    if (sorted) {
        order = new_tensor({rows.size(0)}, at::kLong, self.device());
        if (rows.size(0) != 0)
            Launch(TN_OP_sort_rows).out(order).in(rows).run();
    }
    auto [values, places, lengths] = runs_of(rows, rows, order, order, {rows.size(0)}, inverse, counts);
    return {values.movedim(0, dim), places, lengths};
}

Unique unique_dim(const at::Tensor& self, int64_t dim, bool, bool inverse, bool counts)
{
    return unique_slices(self, dim, true, inverse, counts);
}

Unique unique_dim_consecutive(const at::Tensor& self, int64_t dim, bool inverse, bool counts)
{
    return unique_slices(self, dim, false, inverse, counts);
}

Unique unique_consecutive(const at::Tensor& self, bool inverse, bool counts, std::optional<int64_t> dim)
{
    if (dim && !(self.dim() == 1 && *dim == 0))
        return unique_slices(self, *dim, false, inverse, counts);
    check_unique(self);
    auto flat = self.contiguous().view(-1);
    return runs_of(flat, flat, {}, {}, self.sizes(), inverse, counts);
}

// ---- equality ------------------------------------------------------------------------------------

bool equal(const at::Tensor& self, const at::Tensor& other)
{
    TORCH_CHECK(self.device() == other.device(), "Cannot compare two tensors on different devices. Got: ",
                self.device(), " and ", other.device());
    if (!self.is_same_size(other))
        return false;
    if (self.numel() == 0)
        return true;
    auto dtype = at::promote_types(self.scalar_type(), other.scalar_type());
    if (at::isFloat8Type(dtype))
        dtype = at::kFloat;
    auto comparable = [&](const at::Tensor& tensor) {
        auto same = tensor.to(dtype).resolve_conj().resolve_neg();
        return same.is_complex() ? at::view_as_real(same) : same;
    };
    auto result = new_tensor({}, at::kBool, self.device());
    Launch(TN_OP_equal).out(result).in(comparable(self)).in(comparable(other)).run();
    return result.item<bool>();
}

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("searchsorted.Tensor", &neuron::searchsorted);
    m.impl("searchsorted.Tensor_out", &neuron::searchsorted_out);
    m.impl("searchsorted.Scalar", &neuron::searchsorted_scalar);
    m.impl("bucketize.Tensor", &neuron::bucketize);
    m.impl("bucketize.Tensor_out", &neuron::bucketize_out);
    m.impl("bucketize.Scalar", &neuron::bucketize_scalar);
    m.impl("isin.Tensor_Tensor", &neuron::isin);
    m.impl("isin.Tensor_Tensor_out", &neuron::isin_out);
    m.impl("isin.Tensor_Scalar", &neuron::isin_scalar);
    m.impl("equal", &neuron::equal);
    m.impl("_unique2", &neuron::unique2);
    m.impl("_unique", &neuron::unique);
    m.impl("unique_dim", &neuron::unique_dim);
    m.impl("unique_dim_consecutive", &neuron::unique_dim_consecutive);
    m.impl("unique_consecutive", &neuron::unique_consecutive);
}

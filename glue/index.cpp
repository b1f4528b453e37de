// Rows addressed by index tensors: index, index_put, index_select, index_add, index_copy, index_fill,
// index_reduce, take, put_, embedding; and what a mask selects.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorUtils.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/IndexingUtils.h>
#include <torch/library.h>

#include <ATen/ops/index_add_meta.h>
#include <ATen/ops/index_copy_meta.h>
#include <ATen/ops/index_reduce_meta.h>

#include "launch.h"
#include "structured.h"
#include "tn/op/copy.h"
#include "tn/op/index.h"
#include "tn/op/mask.h"

namespace neuron {
namespace {

// How the kernel reads an index and words its fault (index_rule in core/kernel/index.c).
enum Rule : int64_t { kIndex = 0, kSelect = 1, kTake = 2, kCopy = 3, kAddRows = 4 };
enum Combine : int64_t { kSet = 0, kAdd = 1, kMul = 2, kMax = 3, kMin = 4 };
constexpr int64_t kSkipNone = -1;

at::Tensor on_device_of(const at::Tensor& tensor, const at::Tensor& like)
{
    TORCH_CHECK(tensor.device() == like.device() || tensor.device().is_cpu(), "indices should be either on "
                "cpu or on the same device as the indexed tensor (", like.device(), ")");
    return tensor.device() == like.device() ? tensor : tensor.to(like.device());
}

// Index tensors with masks replaced by coordinates, the dimensions they index, the result's shape.
struct Indexing {
    c10::SmallVector<at::Tensor, 4> indices;
    c10::SmallVector<int64_t, 4> dims;
    at::DimVector shape;
};

std::string shapes_text(const c10::SmallVector<at::Tensor, 4>& tensors)
{
    std::ostringstream text;
    for (size_t i = 0; i < tensors.size(); i++)
        text << (i ? ", " : "") << tensors[i].sizes();
    return text.str();
}

Indexing resolve(const at::Tensor& self, const c10::List<std::optional<at::Tensor>>& given)
{
    TORCH_CHECK_INDEX(given.size() <= static_cast<size_t>(self.dim()),
                      "too many indices for tensor of dimension ", self.dim(), " (got ", given.size(),
                      ")");
    TORCH_CHECK(is_neuron(self), "indices should be either on cpu or on the same device as the indexed "
                "tensor (", self.device(), ")");
    at::native::checkIndexTensorTypes(given, /*allow_int=*/true);
    Indexing result;
    auto expanded = at::native::expandTensors(self, given);
    TORCH_CHECK_INDEX(expanded.size() <= static_cast<size_t>(self.dim()),
                      "too many indices for tensor of dimension ", self.dim(), " (got ",
                      expanded.size(), ")");
    for (size_t i = 0; i < expanded.size(); i++) {
        if (!expanded[i].defined())
            continue;
        result.indices.push_back(on_device_of(expanded[i], self));
        result.dims.push_back(static_cast<int64_t>(i));
    }
    at::DimVector common;
    for (const auto& index : result.indices) {
        try {
            common = at::infer_size_dimvector(common, index.sizes());
        } catch (const c10::Error&) {
            TORCH_CHECK_INDEX(false,
                              "shape mismatch: indexing tensors could not be broadcast together with "
                              "shapes ",
                              shapes_text(result.indices));
        }
    }
    bool neighbours = true;
    for (size_t i = 1; i < result.dims.size(); i++)
        neighbours = neighbours && result.dims[i] == result.dims[i - 1] + 1;
    int64_t start = neighbours && !result.dims.empty() ? result.dims[0] : 0, left = 0;
    for (int64_t d = 0, next = 0; d <= self.dim(); d++) {
        if (left == start)
            result.shape.append(common.begin(), common.end()), left = -1;
        if (d == self.dim())
            break;
        if (next < static_cast<int64_t>(result.dims.size()) && result.dims[next] == d) {
            next++;
            continue;
        }
        result.shape.push_back(self.size(d));
        left = left < 0 ? left : left + 1;
    }
    bool empty = c10::multiply_integers(common) == 0;
    for (int64_t d : result.dims)
        TORCH_CHECK_INDEX(empty || self.size(d) != 0, "index is out of bounds for dimension with size 0");
    return result;
}

void launch_get(const at::Tensor& out, const at::Tensor& self, Rule rule,
                at::ArrayRef<at::Tensor> indices, at::IntArrayRef dims)
{
    if (out.numel() == 0 && rule != kSelect)
        return;
    Launch launch(TN_OP_index_get);
    launch.out(out).in(self).ins(indices).scalar(int64_t{rule});
    for (int64_t dim : dims)
        launch.scalar(dim);
    launch.run();
}

struct Put {
    Rule rule = kIndex;
    Combine combine = kSet;
    bool mean = false;
    bool include_self = true;
    int64_t skip = kSkipNone;
};

void launch_put(const at::Tensor& self, const at::Tensor& values, const Put& put,
                at::ArrayRef<at::Tensor> indices, at::IntArrayRef dims)
{
    Launch launch(TN_OP_index_put);
    launch.out(self).in(values).ins(indices);
    launch.scalar(int64_t{put.rule}).scalar(int64_t{put.combine}).scalar(put.mean).scalar(put.include_self)
        .scalar(put.skip);
    for (int64_t dim : dims)
        launch.scalar(dim);
    launch.run();
}

void resize_out(const at::Tensor& out, at::IntArrayRef sizes, const at::Tensor& self, const char* op)
{
    TORCH_CHECK(out.scalar_type() == self.scalar_type(), op,
                "(): self and result must have the same scalar type, but got ", self.scalar_type(),
                " and ", out.scalar_type());
    check_same_device(op, {&self, &out});
    at::assert_no_internal_overlap(out);
    at::native::resize_output(out, sizes);
    at::assert_no_overlap(out, self);
}

// ---- index and index_put ---------------------------------------------------------------------------

at::Tensor index(const at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices)
{
    Indexing indexing = resolve(self, indices);
    if (indexing.dims.empty())
        return self.clone();
    auto out = new_tensor(indexing.shape, self.scalar_type(), self.device());
    launch_get(out, self, kIndex, indexing.indices, indexing.dims);
    return out;
}

at::Tensor& index_out(const at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices,
                      at::Tensor& out)
{
    Indexing indexing = resolve(self, indices);
    TORCH_CHECK(out.scalar_type() == self.scalar_type(), "index_out: self (", self.scalar_type(),
                ") and result (", out.scalar_type(), ") must have the same scalar type");
    resize_out(out, indexing.shape, self, "index");
    if (indexing.dims.empty())
        return out.copy_(self);
    launch_get(out, self, kIndex, indexing.indices, indexing.dims);
    return out;
}

// x[mask] = one number needs no coordinates. Returns the mask with self's trailing dimensions.
std::optional<at::Tensor> as_mask(const at::Tensor& self,
                                  const c10::List<std::optional<at::Tensor>>& indices)
{
    std::optional<at::Tensor> mask;
    int64_t before = 0;
    for (size_t i = 0; i < indices.size(); i++) {
        const std::optional<at::Tensor> index = indices[i];
        if (!index || !index->defined()) {
            before += !mask;
            continue;
        }
        if (mask || index->scalar_type() != at::kBool || index->dim() == 0)
            return std::nullopt;
        mask = *index;
    }
    if (!mask || before + mask->dim() > self.dim())
        return std::nullopt;
    for (int64_t d = 0; d < mask->dim(); d++)
        if (mask->size(d) != self.size(before + d))
            return std::nullopt;
    auto result = on_device_of(*mask, self);
    for (int64_t d = before + mask->dim(); d < self.dim(); d++)
        result = result.unsqueeze(-1);
    return result;
}

at::Tensor& index_put_impl(at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices,
                           const at::Tensor& values, bool accumulate, bool)
{
    TORCH_CHECK_INDEX(indices.size() <= static_cast<size_t>(self.dim()),
                      "too many indices for tensor of dimension ", self.dim(), " (got ",
                      indices.size(), ")");
    TORCH_CHECK(values.scalar_type() == self.scalar_type(),
                "Index put requires the source and destination dtypes match, got ", self.scalar_type(),
                " for the destination and ", values.scalar_type(), " for the source.");
    auto value = values.dim() == 0 && values.device().is_cpu() ? values.to(self.device()) : values;
    check_same_device("index_put_", {&self, &value});
    at::assert_no_internal_overlap(self);
    at::assert_no_overlap(self, value);
    for (const std::optional<at::Tensor>& index : indices)
        if (index && index->defined())
            at::assert_no_overlap(self, *index);
    if (!accumulate && value.numel() == 1)
        if (auto mask = as_mask(self, indices))
            return self.masked_fill_(*mask, value.reshape({}));
    Indexing indexing = resolve(self, indices);
    TORCH_CHECK(at::is_expandable_to(value.sizes(), indexing.shape),
                "shape mismatch: value tensor of shape ", value.sizes(),
                " cannot be broadcast to indexing result of shape ", at::IntArrayRef(indexing.shape));
    if (c10::multiply_integers(indexing.shape) == 0)
        return self;
    if (indexing.dims.empty()) {
        auto target = self;
        return accumulate ? self.add_(value) : self.copy_(value);
    }
    launch_put(self, value, {.combine = accumulate ? kAdd : kSet}, indexing.indices, indexing.dims);
    return self;
}

// ---- along one dimension ---------------------------------------------------------------------------

at::DimVector select_sizes(const at::Tensor& self, int64_t dim, const at::Tensor& index)
{
    TORCH_CHECK_INDEX(index.dim() <= 1, "index_select(): Index is supposed to be a vector, but got dim: ",
                      index.dim(), " with type: ", index.scalar_type(), " and size: ", index.sizes());
    TORCH_CHECK(index.scalar_type() == at::kLong || index.scalar_type() == at::kInt,
                "index_select(): Expected dtype int32/int64 for index but got: ", index.scalar_type());
    TORCH_CHECK_INDEX(self.dim() > 0 || index.numel() == 1,
                      "index_select(): Index to scalar can have only 1 value, got ", index.numel(),
                      " value(s)");
    check_same_device("index_select", {&self, &index});
    at::DimVector sizes(self.sizes());
    if (self.dim() > 0)
        sizes[static_cast<size_t>(dim)] = index.numel();
    return sizes;
}

at::Tensor index_select(const at::Tensor& self, int64_t dim, const at::Tensor& index)
{
    dim = at::maybe_wrap_dim(dim, self.dim());
    auto out = new_tensor(select_sizes(self, dim, index), self.scalar_type(), self.device());
    launch_get(out, self, kSelect, {index.dim() ? index : index.reshape({1})}, {dim});
    return out;
}

at::Tensor& index_select_out(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                             at::Tensor& out)
{
    dim = at::maybe_wrap_dim(dim, self.dim());
    resize_out(out, select_sizes(self, dim, index), self, "index_select");
    at::assert_no_overlap(out, index);
    launch_get(out, self, kSelect, {index.dim() ? index : index.reshape({1})}, {dim});
    return out;
}

template <class Meta>
void start_from_self(Structured<Meta>& op, const at::Tensor& self)
{
    if (!op.output().is_same(self))
        op.output().copy_(self);
}

void add_rows(const at::Tensor& out, int64_t dim, const at::Tensor& index, const at::Tensor& source,
              const at::Scalar& alpha)
{
    if (index.numel() == 0 || out.numel() == 0)
        return;
    bool plain = alpha.isIntegral(true) && alpha.toLong() == 1;
    if (!plain)
        plain = alpha.isFloatingPoint() && alpha.toDouble() == 1;
    auto values = plain ? source : source.mul(alpha);
    auto target = out.dim() ? out : out.unsqueeze(0);
    if (values.dim() == 0)
        values = values.unsqueeze(0);
    launch_put(target, values, {.rule = out.dim() > 1 ? kAddRows : kSelect, .combine = kAdd},
               {index.reshape({-1})}, {dim});
}

using IndexAdd = Structured<at::meta::structured_index_add>;

void index_add_into(IndexAdd& op, const at::Tensor& self, int64_t dim, const at::Tensor& index,
                    const at::Tensor& source, const at::Scalar& alpha)
{
    dim = op.meta(self, dim, index, source, alpha).dim;
    check_same_device("index_add", {&self, &index, &source});
    start_from_self(op, self);
    add_rows(op.output(), dim, index, source, alpha);
    op.finish();
}

at::Tensor index_add(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                     const at::Tensor& source, const at::Scalar& alpha)
{
    IndexAdd op;
    index_add_into(op, self, dim, index, source, alpha);
    return op.take();
}

at::Tensor& index_add_inplace(at::Tensor& self, int64_t dim, const at::Tensor& index,
                              const at::Tensor& source, const at::Scalar& alpha)
{
    IndexAdd op(Variant::InPlace, {self});
    index_add_into(op, self, dim, index, source, alpha);
    return self;
}

at::Tensor& index_add_out(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                          const at::Tensor& source, const at::Scalar& alpha, at::Tensor& out)
{
    IndexAdd op(Variant::Out, {out});
    index_add_into(op, self, dim, index, source, alpha);
    return out;
}

using IndexCopy = Structured<at::meta::structured_index_copy>;

void index_copy_into(IndexCopy& op, const at::Tensor& self, int64_t dim, const at::Tensor& index,
                     const at::Tensor& source)
{
    dim = op.meta(self, dim, index, source).dim;
    check_same_device("index_copy_", {&self, &index, &source});
    start_from_self(op, self);
    const auto& out = op.output();
    if (index.numel() != 0 && out.numel() != 0) {
        auto target = out.dim() ? out : out.unsqueeze(0);
        auto values = source.dim() ? source : source.unsqueeze(0);
        launch_put(target, values, {.rule = kCopy}, {index.reshape({-1})}, {dim});
    }
    op.finish();
}

at::Tensor index_copy(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                      const at::Tensor& source)
{
    IndexCopy op;
    index_copy_into(op, self, dim, index, source);
    return op.take();
}

at::Tensor& index_copy_inplace(at::Tensor& self, int64_t dim, const at::Tensor& index,
                               const at::Tensor& source)
{
    IndexCopy op(Variant::InPlace, {self});
    index_copy_into(op, self, dim, index, source);
    return self;
}

at::Tensor& index_copy_out(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                           const at::Tensor& source, at::Tensor& out)
{
    IndexCopy op(Variant::Out, {out});
    index_copy_into(op, self, dim, index, source);
    return out;
}

using IndexReduce = Structured<at::meta::structured_index_reduce>;

void index_reduce_into(IndexReduce& op, const at::Tensor& self, int64_t dim, const at::Tensor& index,
                       const at::Tensor& source, std::string_view reduce, bool include_self)
{
    dim = op.meta(self, dim, index, source, reduce, include_self).dim;
    check_same_device("index_reduce", {&self, &index, &source});
    TORCH_CHECK_NOT_IMPLEMENTED(!self.is_complex() && self.scalar_type() != at::kBool,
                                "\"index_func_\" not implemented for '", self.scalar_type(), "'");
    TORCH_WARN_ONCE("index_reduce() is in beta and the API may change at any time.");
    start_from_self(op, self);
    const auto& out = op.output();
    if (index.numel() != 0 && out.numel() != 0) {
        Put put{.rule = kSelect, .combine = kAdd, .mean = reduce == "mean", .include_self = include_self};
        if (!put.mean)
            put.combine = reduce == "prod" ? kMul : reduce == "amax" ? kMax : kMin;
        auto target = out.dim() ? out : out.unsqueeze(0);
        auto values = source.dim() ? source : source.unsqueeze(0);
        launch_put(target, values, put, {index.reshape({-1})}, {dim});
    }
    op.finish();
}

at::Tensor index_reduce(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                        const at::Tensor& source, std::string_view reduce, bool include_self)
{
    IndexReduce op;
    index_reduce_into(op, self, dim, index, source, reduce, include_self);
    return op.take();
}

at::Tensor& index_reduce_inplace(at::Tensor& self, int64_t dim, const at::Tensor& index,
                                 const at::Tensor& source, std::string_view reduce, bool include_self)
{
    IndexReduce op(Variant::InPlace, {self});
    index_reduce_into(op, self, dim, index, source, reduce, include_self);
    return self;
}

at::Tensor& index_reduce_out(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                             const at::Tensor& source, std::string_view reduce, bool include_self,
                             at::Tensor& out)
{
    IndexReduce op(Variant::Out, {out});
    index_reduce_into(op, self, dim, index, source, reduce, include_self);
    return out;
}

at::Tensor& index_fill_tensor(at::Tensor& self, int64_t dim, const at::Tensor& index,
                              const at::Tensor& value)
{
    TORCH_CHECK_INDEX(index.scalar_type() == at::kLong || index.scalar_type() == at::kInt,
                      "index_fill_(): Expected dtype int64 for index.");
    TORCH_CHECK(value.dim() == 0,
                "index_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
                value.dim(), " dimension(s).");
    at::assert_no_overlap(self, index);
    TORCH_CHECK(self.is_complex() || !value.is_complex(),
                "index_fill_(): Converting complex Scalar to non-complex type is not supported");
    TORCH_CHECK(index.dim() <= 1, "Index has to be a vector/scalar");
    dim = at::maybe_wrap_dim(dim, self.dim());
    check_same_device("index_fill_", {&self, &index});
    at::assert_no_internal_overlap(self);
    if (index.numel() == 0 || self.numel() == 0)
        return self;
    auto target = self.dim() ? self : self.unsqueeze(0);
    launch_put(target, value.to(self.options()), {}, {index.reshape({-1})}, {dim});
    return self;
}

at::Tensor& index_fill_scalar(at::Tensor& self, int64_t dim, const at::Tensor& index,
                              const at::Scalar& value)
{
    TORCH_CHECK(self.is_complex() || !value.isComplex(),
                "index_fill_(): Converting complex Scalar to non-complex type is not supported");
    auto number = new_tensor({}, self.scalar_type(), self.device());
    Launch(TN_OP_fill).out(number).scalar(value).run();
    return index_fill_tensor(self, dim, index, number);
}

// ---- over all elements -------------------------------------------------------------------------------

void check_take(const at::Tensor& self, const at::Tensor& index)
{
    TORCH_CHECK(index.scalar_type() == at::kLong,
                "take(): Expected a long tensor for index, but got ", index.scalar_type());
    TORCH_CHECK_INDEX(self.numel() != 0 || index.numel() == 0, "take(): tried to take from an empty tensor");
    check_same_device("take", {&self, &index});
}

at::Tensor take(const at::Tensor& self, const at::Tensor& index)
{
    check_take(self, index);
    auto out = new_tensor(index.sizes(), self.scalar_type(), self.device());
    launch_get(out, self, kTake, {index}, {0});
    return out;
}

at::Tensor& take_out(const at::Tensor& self, const at::Tensor& index, at::Tensor& out)
{
    TORCH_CHECK(self.scalar_type() == out.scalar_type(),
                "take(): self and out expected to have the same dtype, but got self.dtype = ",
                self.scalar_type(), " and out.dtype = ", out.scalar_type());
    check_take(self, index);
    resize_out(out, index.sizes(), self, "take");
    at::assert_no_overlap(out, index);
    launch_get(out, self, kTake, {index}, {0});
    return out;
}

at::Tensor& put(at::Tensor& self, const at::Tensor& index, const at::Tensor& source, bool accumulate)
{
    TORCH_CHECK_INDEX(index.scalar_type() == at::kLong,
                      "put_(): Expected a long tensor for index, but got ", index.scalar_type());
    TORCH_CHECK(self.scalar_type() == source.scalar_type(),
                "put_(): self and source expected to have the same dtype, but got self.dtype = ",
                self.scalar_type(), " and source.dtype = ", source.scalar_type());
    check_same_device("put_", {&self, &index, &source});
    TORCH_CHECK_INDEX(source.numel() == index.numel(),
                      "put_(): Expected source and index to have the same number of elements, but got "
                      "source.numel() = ",
                      source.numel(), ", index.numel() = ", index.numel());
    TORCH_CHECK_INDEX(self.numel() != 0 || index.numel() == 0,
                      "put_(): Tried to put elements into an empty tensor");
    at::assert_no_internal_overlap(self);
    at::assert_no_overlap(self, index);
    at::assert_no_overlap(self, source);
    if (index.numel() != 0)
        launch_put(self, source.reshape(index.sizes()),
                   {.rule = kTake, .combine = accumulate ? kAdd : kSet}, {index}, {0});
    return self;
}

// ---- embedding -----------------------------------------------------------------------------------------

at::Tensor embedding(const at::Tensor& weight, const at::Tensor& indices, int64_t, bool, bool)
{
    TORCH_CHECK(weight.dim() == 2, "'weight' must be 2-D");
    at::checkScalarTypes("embedding", {indices, "indices", 1}, {at::kLong, at::kInt});
    check_same_device("embedding", {&weight, &indices});
    at::DimVector sizes(indices.sizes());
    sizes.push_back(weight.size(1));
    auto out = new_tensor(sizes, weight.scalar_type(), weight.device());
    launch_get(out, weight, kSelect, {indices}, {0});
    return out;
}

at::Tensor embedding_dense_backward(const at::Tensor& grad, const at::Tensor& indices, int64_t count,
                                    int64_t padding_idx, bool scale_grad_by_freq)
{
    at::checkScalarTypes("embedding_backward", {indices, "indices", 2}, {at::kLong, at::kInt});
    check_same_device("embedding_dense_backward", {&grad, &indices});
    auto out = new_tensor({count, grad.size(-1)}, grad.scalar_type(), grad.device());
    if (out.numel() == 0)
        return out;
    Launch(TN_OP_fill).out(out).scalar(int64_t{0}).run();
    if (grad.numel() != 0)
        launch_put(out, grad,
                   {.rule = kSelect,
                    .combine = kAdd,
                    .mean = scale_grad_by_freq,
                    .include_self = false,
                    .skip = padding_idx},
                   {indices}, {0});
    return out;
}

// ---- masks -----------------------------------------------------------------------------------------------

constexpr int64_t kMaskChunk = 4096; // as in core/kernel/mask.c

// The number of set elements before each chunk, and of all.
at::Tensor launch_counts(const at::Tensor& mask)
{
    auto counts = new_tensor({(mask.numel() + kMaskChunk - 1) / kMaskChunk + 1}, at::kLong, mask.device());
    Launch(TN_OP_mask_count).out(counts).in(mask).run();
    return counts;
}

// Counts per chunk on the device, and their total after a wait for the stream.
std::pair<at::Tensor, int64_t> count_mask(const at::Tensor& mask)
{
    auto counts = launch_counts(mask);
    return {counts, counts.select(0, -1).item<int64_t>()};
}

at::Tensor& nonzero_out(const at::Tensor& self, at::Tensor& out)
{
    TORCH_CHECK(out.scalar_type() == at::kLong,
                "nonzero: Expected out tensor to have scalar type Long but got scalar type",
                out.scalar_type());
    check_same_device("nonzero", {&self, &out});
    at::assert_no_internal_overlap(out);
    at::assert_no_overlap(out, self);
    auto [counts, total] = count_mask(self);
    if (at::native::resize_output(out, {total, self.dim()}))
        out.unsafeGetTensorImpl()->set_sizes_and_strides(at::IntArrayRef({total, self.dim()}),
                                                         at::IntArrayRef({int64_t{1}, total}));
    if (out.numel() != 0)
        Launch(TN_OP_nonzero).out(out).in(self).in(counts).run();
    return out;
}

at::Tensor nonzero(const at::Tensor& self)
{
    auto [counts, total] = count_mask(self);
    auto out = new_tensor({total, self.dim()}, {1, total}, at::kLong, self.device());
    if (out.numel() != 0)
        Launch(TN_OP_nonzero).out(out).in(self).in(counts).run();
    return out;
}

at::Tensor& nonzero_static_out(const at::Tensor& self, int64_t size, int64_t fill_value, at::Tensor& out)
{
    TORCH_CHECK(size >= 0, "nonzero_static: 'size' must be an non-negative integer");
    TORCH_CHECK(out.scalar_type() == at::kLong,
                "nonzero_static: Expected out tensor to have scalar type Long but got scalar type",
                out.scalar_type());
    check_same_device("nonzero_static", {&self, &out});
    at::assert_no_internal_overlap(out);
    at::assert_no_overlap(out, self);
    at::native::resize_output(out, {size, self.dim()});
    if (out.numel() == 0)
        return out;
    Launch(TN_OP_fill).out(out).scalar(fill_value).run();
    if (self.numel() != 0)
        Launch(TN_OP_nonzero).out(out).in(self).in(launch_counts(self)).run();
    return out;
}

at::Tensor nonzero_static(const at::Tensor& self, int64_t size, int64_t fill_value)
{
    TORCH_CHECK(size >= 0, "nonzero_static: 'size' must be an non-negative integer");
    auto out = new_tensor({size, self.dim()}, at::kLong, self.device());
    return neuron::nonzero_static_out(self, size, fill_value, out);
}

std::pair<at::Tensor, at::Tensor> broadcast_mask(const at::Tensor& self, const at::Tensor& mask)
{
    TORCH_CHECK(mask.scalar_type() == at::kBool,
                "masked_select: expected BoolTensor for mask");
    check_same_device("masked_select", {&self, &mask});
    auto sizes = at::infer_size_dimvector(self.sizes(), mask.sizes());
    return {self.expand(sizes), mask.expand(sizes)};
}

at::Tensor masked_select(const at::Tensor& self, const at::Tensor& mask)
{
    auto [values, wide] = broadcast_mask(self, mask);
    auto [counts, total] = count_mask(wide);
    auto out = new_tensor({total}, self.scalar_type(), self.device());
    if (total != 0)
        Launch(TN_OP_masked_select).out(out).in(values).in(wide).in(counts).run();
    return out;
}

at::Tensor& masked_select_out(const at::Tensor& self, const at::Tensor& mask, at::Tensor& out)
{
    TORCH_CHECK(self.scalar_type() == out.scalar_type(),
                "masked_select(): self and result must have the same scalar type");
    auto [values, wide] = broadcast_mask(self, mask);
    at::assert_no_internal_overlap(out);
    at::assert_no_overlap(out, self);
    at::assert_no_overlap(out, mask);
    auto [counts, total] = count_mask(wide);
    at::native::resize_output(out, {total});
    if (total != 0)
        Launch(TN_OP_masked_select).out(out).in(values).in(wide).in(counts).run();
    return out;
}

at::Tensor& masked_scatter(at::Tensor& self, const at::Tensor& mask, const at::Tensor& source)
{
    at::assert_no_internal_overlap(self);
    TORCH_CHECK(self.scalar_type() == source.scalar_type(),
                "masked_scatter: expected self and source to have same dtypes but got",
                self.scalar_type(), " and ", source.scalar_type());
    check_same_device("masked_scatter_", {&self, &mask, &source});
    TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_scatter_ only supports boolean masks, but got mask with dtype ",
                mask.scalar_type());
    auto wide = *at::expand_inplace(self, mask, "masked_scatter_");
    if (self.numel() != 0)
        Launch(TN_OP_masked_scatter).out(self).in(wide).in(source.contiguous()).run();
    return self;
}

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("index.Tensor", &neuron::index);
    m.impl("index.Tensor_out", &neuron::index_out);
    m.impl("_index_put_impl_", &neuron::index_put_impl);
    m.impl("index_select", &neuron::index_select);
    m.impl("index_select.out", &neuron::index_select_out);
    m.impl("index_add", &neuron::index_add);
    m.impl("index_add_", &neuron::index_add_inplace);
    m.impl("index_add.out", &neuron::index_add_out);
    m.impl("index_reduce", &neuron::index_reduce);
    m.impl("index_reduce_", &neuron::index_reduce_inplace);
    m.impl("index_reduce.out", &neuron::index_reduce_out);
    m.impl("index_copy", &neuron::index_copy);
    m.impl("index_copy_", &neuron::index_copy_inplace);
    m.impl("index_copy.out", &neuron::index_copy_out);
    m.impl("index_fill_.int_Scalar", &neuron::index_fill_scalar);
    m.impl("index_fill_.int_Tensor", &neuron::index_fill_tensor);
    m.impl("take", &neuron::take);
    m.impl("take.out", &neuron::take_out);
    m.impl("put_", &neuron::put);
    m.impl("embedding", &neuron::embedding);
    m.impl("embedding_dense_backward", &neuron::embedding_dense_backward);
    m.impl("nonzero", &neuron::nonzero);
    m.impl("nonzero_static", &neuron::nonzero_static);
    m.impl("nonzero_static.out", &neuron::nonzero_static_out);
    m.impl("nonzero.out", &neuron::nonzero_out);
    m.impl("masked_select", &neuron::masked_select);
    m.impl("masked_select.out", &neuron::masked_select_out);
    m.impl("masked_scatter_", &neuron::masked_scatter);
}

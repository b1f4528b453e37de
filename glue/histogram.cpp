// Counting elements into bins: bincount, histc, histogram and histogramdd.
#include <torch/library.h>

#include <ATen/native/Resize.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/where.h>

#include "dims.h"
#include "launch.h"
#include "tn/op/copy.h"
#include "tn/op/histogram.h"

namespace neuron {
namespace {

at::Tensor bincount(const at::Tensor& self, const std::optional<at::Tensor>& weights, int64_t minlength)
{
    auto dtype = self.scalar_type();
    TORCH_CHECK(minlength >= 0, "minlength should be >= 0");
    TORCH_CHECK_NOT_IMPLEMENTED(c10::isIntegralType(dtype, false) && !c10::isBarebonesUnsignedType(dtype),
                                "\"bincount_cpu\" not implemented for '", dtype, "'");
    bool empty = self.dim() == 1 && self.numel() == 0;
    int64_t bins = minlength;
    if (!empty) {
        TORCH_CHECK(self.dim() == 1, "bincount only supports 1-d non-negative integral inputs.");
        auto [low, high] = self.aminmax();
        TORCH_CHECK(low.item<int64_t>() >= 0, "bincount only supports 1-d non-negative integral inputs.");
        TORCH_CHECK(high.item<int64_t>() < INT64_MAX, "maximum value of input overflowed, it should be < ",
                    INT64_MAX, " but got ", high.item<int64_t>());
        bins = std::max(bins, high.item<int64_t>() + 1);
    }
    at::Tensor weight;
    if (weights && weights->defined() && !empty) {
        TORCH_CHECK(weights->dim() == 1 && weights->size(0) == self.size(0),
                    "weights should be 1-d and have the same length as input");
        check_same_device("bincount", {&self, &*weights});
        weight = weights->to(weights->scalar_type() == at::kFloat ? at::kFloat : at::kDouble).contiguous();
    }
    auto out = new_tensor({bins}, weight.defined() ? weight.scalar_type() : at::kLong, self.device());
    if (bins != 0)
        Launch(TN_OP_bincount).out(out).in(self.contiguous()).in(weight).run();
    return out;
}

// Integers are counted too, for callers that have experts or labels.
at::Tensor histc(const at::Tensor& self, int64_t bins, const at::Scalar& min, const at::Scalar& max)
{
    auto dtype = self.scalar_type();
    TORCH_CHECK_NOT_IMPLEMENTED(is_row_dtype(dtype) && dtype != at::kBool &&
                                    !c10::isBarebonesUnsignedType(dtype),
                                "\"histogram_cpu\" not implemented for '", dtype, "'");
    TORCH_CHECK(bins > 0, "torch.histogram(): bins must be > 0, but got ", bins, " for dimension 0");
    double low = min.toDouble(), high = max.toDouble();
    TORCH_CHECK(!(low > high), "torch.histc: max must be larger than min");
    TORCH_CHECK(low == high || (std::isfinite(low) && std::isfinite(high)), "torch.histc: range of [", low,
                ", ", high, "] is not finite");
    auto out = new_tensor({bins}, dtype, self.device());
    Launch(TN_OP_histc).out(out).in(self.resolve_neg().contiguous()).scalar(low).scalar(high).run();
    return out;
}

at::Tensor& histc_out(const at::Tensor& self, int64_t bins, const at::Scalar& min, const at::Scalar& max,
                      at::Tensor& out)
{
    TORCH_CHECK(self.scalar_type() == out.scalar_type(), "torch.histogram: input tensor and hist tensor should "
                "have the same dtype, but got input ", self.scalar_type(), " and hist ", out.scalar_type());
    auto result = neuron::histc(self, bins, min, max);
    at::native::resize_output(out, result.sizes());
    return out.copy_(result);
}

// ---- histogram and histogramdd --------------------------------------------------------------------

using Weight = std::optional<at::Tensor>;
using Range = std::optional<at::ArrayRef<double>>;

void check_histogram(const at::Tensor& self, int64_t dims, const Weight& weight)
{
    auto dtype = self.scalar_type();
    TORCH_CHECK(self.dim() >= 2, "torch.histogramdd: input tensor should have at least 2 dimensions, but got ",
                self.dim());
    TORCH_CHECK(self.size(-1) == dims, "torch.histogramdd: expected ", self.size(-1), " sequences of bins for input ",
                self.sizes(), ", but got ", dims);
    if (weight && weight->defined()) {
        TORCH_CHECK(weight->scalar_type() == dtype, "torch.histogramdd: if weight tensor is provided, input tensor "
                    "and weight tensor should have the same dtype, but got input(", dtype, "), and weight(",
                    weight->scalar_type(), ")");
        TORCH_CHECK(weight->sizes() == self.sizes().slice(0, static_cast<size_t>(self.dim() - 1)),
                    "torch.histogramdd: if weight tensor is provided it should have the same shape as the input "
                    "tensor excluding its innermost dimension, but got input with shape ", self.sizes(),
                    " and weight with shape ", weight->sizes());
        check_same_device("histogramdd", {&self, &*weight});
    }
    TORCH_CHECK_NOT_IMPLEMENTED(dtype == at::kFloat || dtype == at::kDouble,
                                "\"histogramdd\" not implemented for '", dtype, "'");
}

// The outer edges of dimension d: given, or those of the data; never equal.
std::pair<double, double> outer_edges(const at::Tensor& self, int64_t d, const Range& range)
{
    double low = 0, high = 1;
    if (range) {
        low = (*range)[static_cast<size_t>(2 * d)];
        high = (*range)[static_cast<size_t>(2 * d + 1)];
    } else if (self.numel() != 0) {
        auto [least, greatest] = at::aminmax(self.select(-1, d));
        low = least.item<double>();
        high = greatest.item<double>();
    }
    TORCH_CHECK(std::isfinite(low) && std::isfinite(high), "torch.histogramdd: dimension ", d, "'s range [", low,
                ", ", high, "] is not finite");
    TORCH_CHECK(low <= high, "torch.histogramdd: min should not exceed max, but got min ", low, " max ", high,
                " for dimension ", d);
    if (low == high)
        return {low - 0.5, high + 0.5};
    return {low, high};
}

std::vector<at::Tensor> bin_edges(const at::Tensor& self, at::IntArrayRef bins, Range range, const Weight& weight,
                                  bool)
{
    int64_t dims = self.dim() > 0 ? self.size(-1) : 0;
    TORCH_CHECK(static_cast<int64_t>(bins.size()) == dims, "histogramdd: The size of bins must be equal to the "
                "innermost dimension of the input.");
    check_histogram(self, dims, weight);
    TORCH_CHECK(!range || static_cast<int64_t>(range->size()) == 2 * dims, "torch.histogramdd: for a ", dims,
                "-dimensional histogram range should have ", 2 * dims, " elements, but got ", range ? range->size() : 0);
    std::vector<at::Tensor> edges;
    for (int64_t d = 0; d < dims; d++) {
        TORCH_CHECK(bins[static_cast<size_t>(d)] > 0, "torch.histogram(): bins must be > 0, but got ",
                    bins[static_cast<size_t>(d)], " for dimension ", d);
        auto [low, high] = outer_edges(self, d, range);
        edges.push_back(at::linspace(low, high, bins[static_cast<size_t>(d)] + 1, self.options()));
    }
    return edges;
}

// Per row of `self` the number of its bin, or -1; the last bin includes its right edge.
at::Tensor bin_numbers(const at::Tensor& self, at::TensorList edges)
{
    at::Tensor numbers, inside;
    for (size_t d = 0; d < edges.size(); d++) {
        auto values = self.select(-1, static_cast<int64_t>(d)).contiguous();
        int64_t bins = edges[d].numel() - 1;
        auto place = at::searchsorted(edges[d], values, false, /*right=*/true).sub_(1).clamp_max_(bins - 1);
        auto within = values.ge(edges[d].select(0, 0)).logical_and_(values.le(edges[d].select(0, bins)));
        numbers = numbers.defined() ? numbers.mul_(bins).add_(place) : place;
        inside = inside.defined() ? inside.logical_and_(within) : within;
    }
    return numbers.masked_fill_(inside.logical_not(), -1);
}

at::Tensor count_in_bins(const at::Tensor& self, at::TensorList edges, const Weight& weight, bool density)
{
    check_histogram(self, static_cast<int64_t>(edges.size()), weight);
    at::DimVector shape;
    for (size_t d = 0; d < edges.size(); d++) {
        TORCH_CHECK(edges[d].scalar_type() == self.scalar_type(), "torch.histogramdd: input tensor and bins tensors "
                    "should have the same dtype, but got input with dtype ", self.scalar_type(),
                    " and bins for dimension ", d, " with dtype ", edges[d].scalar_type());
        TORCH_CHECK(edges[d].dim() == 1, "torch.histogramdd: bins tensor should have one dimension, but got ",
                    edges[d].dim(), " dimensions in the bins tensor for dimension ", d);
        TORCH_CHECK(edges[d].numel() > 0, "torch.histogramdd: bins tensor should have at least 1 element, but got ",
                    edges[d].numel(), " elements in the bins tensor for dimension ", d);
        TORCH_CHECK(edges[d].numel() > 1, "torch.histogram(): bins must be > 0, but got 0 for dimension ", d);
        check_same_device("histogramdd", {&self, &edges[d]});
        shape.push_back(edges[d].numel() - 1);
    }
    auto hist = new_tensor(shape, self.scalar_type(), self.device());
    auto rows = self.reshape({-1, self.size(-1)});
    at::Tensor weights = weight && weight->defined() ? weight->reshape({-1}).contiguous() : at::Tensor();
    Launch(TN_OP_bincount).out(hist).in(bin_numbers(rows, edges)).in(weights).run();
    if (!density)
        return hist;
    hist.div_(hist.sum());
    for (size_t d = 0; d < edges.size(); d++) {
        at::DimVector wide(edges.size(), 1);
        wide[d] = shape[d];
        hist.div_(edges[d].diff().view(wide));
    }
    return hist;
}

at::Tensor histogramdd_counts(const at::Tensor& self, at::IntArrayRef bins, Range range, const Weight& weight,
                              bool density)
{
    return count_in_bins(self, bin_edges(self, bins, range, weight, density), weight, density);
}

using Pair = std::tuple<at::Tensor, at::Tensor>;
using PairRef = std::tuple<at::Tensor&, at::Tensor&>;

Weight flat(const Weight& weight)
{
    return weight && weight->defined() ? Weight(weight->reshape({-1})) : std::nullopt;
}

Pair histogram(const at::Tensor& self, int64_t bins, Range range, const Weight& weight, bool density)
{
    auto column = self.reshape({-1, 1});
    auto edges = bin_edges(column, bins, range, flat(weight), density);
    return {count_in_bins(column, edges, flat(weight), density), edges[0]};
}

Pair histogram_of_edges(const at::Tensor& self, const at::Tensor& bins, const Weight& weight, bool density)
{
    return {count_in_bins(self.reshape({-1, 1}), bins, flat(weight), density), bins.clone()};
}

PairRef write_pair(const Pair& result, at::Tensor& hist, at::Tensor& edges)
{
    for (auto [from, to] : {std::pair(&std::get<0>(result), &hist), std::pair(&std::get<1>(result), &edges)}) {
        TORCH_CHECK(from->scalar_type() == to->scalar_type(), "torch.histogram: input tensor and hist tensor should "
                    "have the same dtype, but got input ", from->scalar_type(), " and hist ", to->scalar_type());
        at::native::resize_output(*to, from->sizes());
        to->copy_(*from);
    }
    return {hist, edges};
}

PairRef histogram_out(const at::Tensor& self, int64_t bins, Range range, const Weight& weight, bool density,
                      at::Tensor& hist, at::Tensor& edges)
{
    return write_pair(neuron::histogram(self, bins, range, weight, density), hist, edges);
}

PairRef histogram_of_edges_out(const at::Tensor& self, const at::Tensor& bins, const Weight& weight, bool density,
                               at::Tensor& hist, at::Tensor& edges)
{
    return write_pair(histogram_of_edges(self, bins, weight, density), hist, edges);
}

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("bincount", &neuron::bincount);
    m.impl("histc", &neuron::histc);
    m.impl("histc.out", &neuron::histc_out);
    m.impl("histogram.bin_ct", &neuron::histogram);
    m.impl("histogram.bin_ct_out", &neuron::histogram_out);
    m.impl("histogram.bins_tensor", &neuron::histogram_of_edges);
    m.impl("histogram.bins_tensor_out", &neuron::histogram_of_edges_out);
    m.impl("_histogramdd_bin_edges", &neuron::bin_edges);
    m.impl("_histogramdd_from_bin_cts", &neuron::histogramdd_counts);
    m.impl("_histogramdd_from_bin_tensors", &neuron::count_in_bins);
}

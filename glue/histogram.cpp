// Counting elements into bins: bincount and histc.
#include <torch/library.h>

#include <ATen/native/Resize.h>

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

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("bincount", &neuron::bincount);
    m.impl("histc", &neuron::histc);
    m.impl("histc.out", &neuron::histc_out);
}

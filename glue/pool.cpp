// Pooling: average, adaptive average, maximum with indices, unpooling; forward and backward.
#include <ATen/native/Pool.h>
#include <torch/library.h>

#include <ATen/ops/adaptive_max_pool2d_backward_meta.h>
#include <ATen/ops/adaptive_max_pool2d_meta.h>
#include <ATen/ops/adaptive_max_pool3d_backward_meta.h>
#include <ATen/ops/adaptive_max_pool3d_meta.h>
#include <ATen/ops/avg_pool2d_backward_meta.h>
#include <ATen/ops/avg_pool2d_meta.h>
#include <ATen/ops/avg_pool3d_backward_meta.h>
#include <ATen/ops/avg_pool3d_meta.h>
#include <ATen/ops/max_pool2d_with_indices_backward_meta.h>
#include <ATen/ops/max_pool2d_with_indices_meta.h>

#include "fallback.h"
#include "resample.h"
#include "structured.h"
#include "tn/op/max_pool.h"

namespace neuron {
namespace {

using Pair = std::tuple<at::Tensor, at::Tensor>;
using PairRef = std::tuple<at::Tensor&, at::Tensor&>;

// Element i of a list that may hold one value for all dimensions.
int64_t entry(at::IntArrayRef list, int64_t i)
{
    return list.size() == 1 ? list[0] : list[static_cast<size_t>(i)];
}

// ---- average -------------------------------------------------------------------------------------

struct AverageArguments {
    at::IntArrayRef kernel, stride, padding;
    bool ceil_mode, count_include_pad;
    std::optional<int64_t> divisor;

    Resample resample(int64_t spatial, bool gradient) const
    {
        Resample result{.kind = Taps::Average,
                        .spatial = spatial,
                        .gradient = gradient,
                        .count_include_pad = count_include_pad,
                        .divisor = static_cast<double>(divisor.value_or(0))};
        for (int64_t i = 0; i < spatial; i++)
            for (int64_t value : {entry(kernel, i), entry(stride.empty() ? kernel : stride, i),
                                  entry(padding, i)})
                result.parameters.push_back(static_cast<double>(value));
        return result;
    }
};

template <class Meta, class BackwardMeta, int Spatial>
struct Average {
    using List = at::IntArrayRef;
    using Divisor = std::optional<int64_t>;
    static inline const char *name, *backward_name;

    static at::Tensor forward(const at::Tensor& self, List kernel, List stride, List padding, bool ceil_mode,
                              bool include_pad, Divisor divisor)
    {
        if (!resamples(self))
            return call_fallback<at::Tensor(const at::Tensor&, List, List, List, bool, bool, Divisor)>(
                name, "", self, kernel, stride, padding, ceil_mode, include_pad, divisor);
        Structured<Meta> op;
        op.meta(self, kernel, stride, padding, ceil_mode, include_pad, divisor);
        AverageArguments{kernel, stride, padding, ceil_mode, include_pad, divisor}
            .resample(Spatial, false)
            .run(op.output(), self);
        return op.take();
    }
    static at::Tensor& forward_out(const at::Tensor& self, List kernel, List stride, List padding,
                                   bool ceil_mode, bool include_pad, Divisor divisor, at::Tensor& out)
    {
        if (!resamples(self))
            return call_fallback<at::Tensor&(const at::Tensor&, List, List, List, bool, bool, Divisor,
                                             at::Tensor&)>(name, "out", self, kernel, stride, padding,
                                                           ceil_mode, include_pad, divisor, out);
        Structured<Meta> op(Variant::Out, {out});
        op.meta(self, kernel, stride, padding, ceil_mode, include_pad, divisor);
        AverageArguments{kernel, stride, padding, ceil_mode, include_pad, divisor}
            .resample(Spatial, false)
            .run(op.output(), self);
        op.finish();
        return out;
    }
    static void backward_into(Structured<BackwardMeta>& op, const at::Tensor& grad, const at::Tensor& self,
                              const AverageArguments& a)
    {
        op.meta(grad, self, a.kernel, a.stride, a.padding, a.ceil_mode, a.count_include_pad, a.divisor);
        a.resample(Spatial, true).run(op.output(), grad);
        op.finish();
    }
    static at::Tensor backward(const at::Tensor& grad, const at::Tensor& self, List kernel, List stride,
                               List padding, bool ceil_mode, bool include_pad, Divisor divisor)
    {
        if (!resamples(self))
            return call_fallback<at::Tensor(const at::Tensor&, const at::Tensor&, List, List, List, bool,
                                            bool, Divisor)>(backward_name, "", grad, self, kernel, stride,
                                                            padding, ceil_mode, include_pad, divisor);
        Structured<BackwardMeta> op;
        backward_into(op, grad, self, {kernel, stride, padding, ceil_mode, include_pad, divisor});
        return op.take();
    }
    static at::Tensor& backward_out(const at::Tensor& grad, const at::Tensor& self, List kernel,
                                    List stride, List padding, bool ceil_mode, bool include_pad,
                                    Divisor divisor, at::Tensor& grad_input)
    {
        if (!resamples(self))
            return call_fallback<at::Tensor&(const at::Tensor&, const at::Tensor&, List, List, List, bool,
                                             bool, Divisor, at::Tensor&)>(
                backward_name, "grad_input", grad, self, kernel, stride, padding, ceil_mode, include_pad,
                divisor, grad_input);
        Structured<BackwardMeta> op(Variant::Out, {grad_input});
        backward_into(op, grad, self, {kernel, stride, padding, ceil_mode, include_pad, divisor});
        return grad_input;
    }
    static void add(torch::Library& m, const char* plain, const char* plain_backward)
    {
        static std::string names[] = {std::string("aten::") + plain, std::string("aten::") + plain_backward};
        name = names[0].c_str();
        backward_name = names[1].c_str();
        m.impl(plain, &forward);
        m.impl((std::string(plain) + ".out").c_str(), &forward_out);
        m.impl(plain_backward, &backward);
        m.impl((std::string(plain_backward) + ".grad_input").c_str(), &backward_out);
    }
};

// ---- adaptive average ------------------------------------------------------------------------------

template <int Spatial>
struct AdaptiveAverage {
    static std::string name()
    {
        return "adaptive_avg_pool" + std::to_string(Spatial) + "d";
    }
    static at::DimVector sizes(const at::Tensor& self, at::IntArrayRef output)
    {
        TORCH_CHECK(output.size() == Spatial, name(), ": output_size must be ", Spatial);
        TORCH_CHECK(self.dim() == Spatial + 1 || self.dim() == Spatial + 2, name(), "(): Expected ",
                    Spatial + 1, "D or ", Spatial + 2, "D tensor, but got ", self.sizes());
        at::DimVector result(self.sizes());
        for (int64_t d = self.dim() - Spatial - 1; d < self.dim(); d++)
            TORCH_CHECK(self.size(d) > 0, name(),
                        "(): Expected input to have non-zero size for non-batch dimensions, but input has "
                        "sizes ",
                        self.sizes(), " with dimension ", d, " being empty");
        for (int d = 0; d < Spatial; d++) {
            TORCH_CHECK(output[static_cast<size_t>(d)] >= 0, name(),
                        ": elements of output_size must be greater than or equal to 0 but received ", output);
            result[result.size() - Spatial + static_cast<size_t>(d)] = output[static_cast<size_t>(d)];
        }
        return result;
    }
    static void check_dtype(const at::Tensor& self)
    {
        TORCH_CHECK_NOT_IMPLEMENTED(resamples(self), "\"", name(), "\" not implemented for '",
                                    self.scalar_type(), "'");
    }
    static at::Tensor forward(const at::Tensor& self, at::IntArrayRef output)
    {
        auto shape = sizes(self, output);
        check_dtype(self);
        auto out = new_tensor(shape, self.scalar_type(), self.device());
        auto format = self.suggest_memory_format();
        if (format != at::MemoryFormat::Contiguous)
            out.unsafeGetTensorImpl()->empty_tensor_restride(format);
        Resample{.kind = Taps::Adaptive, .spatial = Spatial}.run(out, self);
        return out;
    }
    static at::Tensor& forward_out(const at::Tensor& self, at::IntArrayRef output, at::Tensor& out)
    {
        auto shape = sizes(self, output);
        check_dtype(self);
        TORCH_CHECK(self.dtype() == out.dtype(), "expected dtype ", self.dtype(), " for `output` but got dtype ",
                    out.dtype());
        at::native::resize_output(out, shape);
        Resample{.kind = Taps::Adaptive, .spatial = Spatial}.run(out, self);
        return out;
    }
    static void check_gradient(const at::Tensor& grad, const at::Tensor& self)
    {
        TORCH_CHECK(grad.dim() == self.dim() && grad.dim() >= Spatial + 1, name(),
                    "_backward(): Expected grad_output of the input's rank, but got ", grad.sizes());
        TORCH_CHECK(grad.dtype() == self.dtype(), "expected dtype ", self.dtype(),
                    " for `grad_output` but got dtype ", grad.dtype());
        for (int64_t d = 1; d < grad.dim(); d++)
            TORCH_CHECK(grad.size(d) > 0, name(),
                        "_backward(): Expected grad_output to have non-zero size for non-batch dimensions, "
                        "but grad_output has sizes ",
                        grad.sizes(), " with dimension ", d, " being empty");
        check_dtype(self);
    }
    static at::Tensor backward(const at::Tensor& grad, const at::Tensor& self)
    {
        check_gradient(grad, self);
        auto result = new_tensor(self.sizes(), self.scalar_type(), self.device());
        auto format = self.suggest_memory_format();
        if (format != at::MemoryFormat::Contiguous)
            result.unsafeGetTensorImpl()->empty_tensor_restride(format);
        Resample{.kind = Taps::Adaptive, .spatial = Spatial, .gradient = true}.run(result, grad);
        return result;
    }
    static at::Tensor& backward_out(const at::Tensor& grad, const at::Tensor& self, at::Tensor& grad_input)
    {
        check_gradient(grad, self);
        at::native::resize_output(grad_input, self.sizes());
        Resample{.kind = Taps::Adaptive, .spatial = Spatial, .gradient = true}.run(grad_input, grad);
        return grad_input;
    }
};

// ---- maximum -------------------------------------------------------------------------------------------

void check_max_dtype(const char* name, const at::Tensor& self)
{
    TORCH_CHECK_NOT_IMPLEMENTED(!self.is_complex() && self.scalar_type() != at::kBool, "\"", name,
                                "\" not implemented for '", self.scalar_type(), "'");
}

void launch_max(const at::Tensor& out, const at::Tensor& indices, const at::Tensor& self, int64_t spatial,
                at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding,
                at::IntArrayRef dilation, bool adaptive)
{
    if (out.numel() == 0)
        return;
    Launch launch(TN_OP_max_pool);
    launch.out(out).out(indices).in(self).scalar(spatial).scalar(adaptive);
    for (int64_t i = 0; i < spatial && !adaptive; i++)
        launch.scalar(entry(kernel, i)).scalar(entry(stride.empty() ? kernel : stride, i))
            .scalar(entry(padding, i)).scalar(entry(dilation, i));
    launch.run();
}

void launch_unpool(const at::Tensor& out, const at::Tensor& pooled, const at::Tensor& indices,
                   int64_t spatial, bool assign)
{
    if (out.numel() != 0)
        Launch(TN_OP_max_unpool).out(out).in(pooled).in(indices).scalar(spatial).scalar(assign).run();
}

using List = at::IntArrayRef;
using MaxPool2d = Structured<at::meta::structured_max_pool2d_with_indices, 2>;

void max_pool2d_into(MaxPool2d& op, const at::Tensor& self, List kernel, List stride, List padding,
                     List dilation, bool ceil_mode)
{
    check_max_dtype("max_pool2d", self);
    op.meta(self, kernel, stride, padding, dilation, ceil_mode);
    launch_max(op.output(0), op.output(1), self, 2, kernel, stride, padding, dilation, false);
    op.finish();
}

Pair max_pool2d(const at::Tensor& self, List kernel, List stride, List padding, List dilation, bool ceil_mode)
{
    MaxPool2d op;
    max_pool2d_into(op, self, kernel, stride, padding, dilation, ceil_mode);
    return {op.take(0), op.take(1)};
}

PairRef max_pool2d_out(const at::Tensor& self, List kernel, List stride, List padding, List dilation,
                       bool ceil_mode, at::Tensor& out, at::Tensor& indices)
{
    MaxPool2d op(Variant::Out, {out, indices});
    max_pool2d_into(op, self, kernel, stride, padding, dilation, ceil_mode);
    return {out, indices};
}

using MaxPool2dBackward = Structured<at::meta::structured_max_pool2d_with_indices_backward>;

void max_pool2d_backward_into(MaxPool2dBackward& op, const at::Tensor& grad, const at::Tensor& self,
                              List kernel, List stride, List padding, List dilation, bool ceil_mode,
                              const at::Tensor& indices)
{
    op.meta(grad, self, kernel, stride, padding, dilation, ceil_mode, indices);
    launch_unpool(op.output(), grad, indices, 2, false);
    op.finish();
}

at::Tensor max_pool2d_backward(const at::Tensor& grad, const at::Tensor& self, List kernel, List stride,
                               List padding, List dilation, bool ceil_mode, const at::Tensor& indices)
{
    MaxPool2dBackward op;
    max_pool2d_backward_into(op, grad, self, kernel, stride, padding, dilation, ceil_mode, indices);
    return op.take();
}

at::Tensor& max_pool2d_backward_out(const at::Tensor& grad, const at::Tensor& self, List kernel, List stride,
                                    List padding, List dilation, bool ceil_mode, const at::Tensor& indices,
                                    at::Tensor& grad_input)
{
    MaxPool2dBackward op(Variant::Out, {grad_input});
    max_pool2d_backward_into(op, grad, self, kernel, stride, padding, dilation, ceil_mode, indices);
    return grad_input;
}

template <class Meta, class BackwardMeta, int Spatial>
struct AdaptiveMax {
    static void into(Structured<Meta, 2>& op, const at::Tensor& self, List output)
    {
        check_max_dtype("adaptive_max_pool", self);
        for (int64_t size : output)
            TORCH_CHECK(size >= 0, "adaptive_max_pool: sizes of the output must not be negative, but got ",
                        output);
        op.meta(self, output);
        launch_max(op.output(0), op.output(1), self, Spatial, {}, {}, {}, {}, true);
        op.finish();
    }
    static Pair forward(const at::Tensor& self, List output)
    {
        Structured<Meta, 2> op;
        into(op, self, output);
        return {op.take(0), op.take(1)};
    }
    static PairRef forward_out(const at::Tensor& self, List output, at::Tensor& out, at::Tensor& indices)
    {
        Structured<Meta, 2> op(Variant::Out, {out, indices});
        into(op, self, output);
        return {out, indices};
    }
    static at::Tensor backward(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& indices)
    {
        Structured<BackwardMeta> op;
        op.meta(grad, self, indices);
        launch_unpool(op.output(), grad, indices, Spatial, false);
        return op.take();
    }
    static at::Tensor& backward_out(const at::Tensor& grad, const at::Tensor& self,
                                    const at::Tensor& indices, at::Tensor& grad_input)
    {
        Structured<BackwardMeta> op(Variant::Out, {grad_input});
        op.meta(grad, self, indices);
        launch_unpool(op.output(), grad, indices, Spatial, false);
        op.finish();
        return grad_input;
    }
};

// ---- maximum over volumes: not structured -----------------------------------------------------------------

at::DimVector max_pool3d_sizes(const at::Tensor& self, List kernel, List stride, List padding, List dilation,
                               bool ceil_mode)
{
    auto one_or_three = [](List list) { return list.size() == 1 || list.size() == 3; };
    TORCH_CHECK(one_or_three(kernel),
                "max_pool3d: kernel_size must either be a single int, or a tuple of three ints");
    TORCH_CHECK(stride.empty() || one_or_three(stride),
                "max_pool3d: stride must either be omitted, a single int, or a tuple of three ints");
    TORCH_CHECK(one_or_three(padding),
                "max_pool3d: padding must either be a single int, or a tuple of three ints");
    TORCH_CHECK(one_or_three(dilation),
                "max_pool3d: dilation must be either a single int, or a tuple of three ints");
    int64_t lead = self.dim() - 3, k[3], s[3], p[3], d[3], out[3];
    TORCH_CHECK(lead == 1 || lead == 2, "max_pool3d: Expected 4D or 5D tensor for input, but got ",
                self.sizes());
    for (int i = 0; i < 3; i++) {
        k[i] = entry(kernel, i);
        s[i] = entry(stride.empty() ? kernel : stride, i);
        p[i] = entry(padding, i);
        d[i] = entry(dilation, i);
        TORCH_CHECK(k[i] > 0, "kernel size should be greater than zero");
        TORCH_CHECK(s[i] > 0, "stride should be greater than zero");
        TORCH_CHECK(d[i] > 0, "dilation should be greater than zero");
        out[i] = at::native::pooling_output_shape<int64_t>(self.size(lead + i), k[i], p[i], s[i], d[i],
                                                           ceil_mode);
    }
    at::native::pool3d_shape_check(self, self.size(lead - 1), k[0], k[1], k[2], s[0], s[1], s[2], p[0], p[1],
                                   p[2], d[0], d[1], d[2], self.size(lead), self.size(lead + 1),
                                   self.size(lead + 2), out[0], out[1], out[2], "max_pool3d_with_indices()");
    at::DimVector sizes(self.sizes().slice(0, static_cast<size_t>(lead)));
    sizes.append(out, out + 3);
    return sizes;
}

PairRef max_pool3d_out(const at::Tensor& self, List kernel, List stride, List padding, List dilation,
                       bool ceil_mode, at::Tensor& out, at::Tensor& indices)
{
    check_max_dtype("max_pool3d", self);
    auto sizes = max_pool3d_sizes(self, kernel, stride, padding, dilation, ceil_mode);
    at::native::resize_output(out, sizes);
    at::native::resize_output(indices, sizes);
    launch_max(out, indices, self, 3, kernel, stride, padding, dilation, false);
    return {out, indices};
}

Pair max_pool3d(const at::Tensor& self, List kernel, List stride, List padding, List dilation, bool ceil_mode)
{
    check_max_dtype("max_pool3d", self);
    auto sizes = max_pool3d_sizes(self, kernel, stride, padding, dilation, ceil_mode);
    auto out = new_tensor(sizes, self.scalar_type(), self.device());
    auto indices = new_tensor(sizes, at::kLong, self.device());
    if (self.dim() == 5 && self.suggest_memory_format() == at::MemoryFormat::ChannelsLast3d)
        for (const auto& tensor : {out, indices})
            tensor.unsafeGetTensorImpl()->empty_tensor_restride(at::MemoryFormat::ChannelsLast3d);
    launch_max(out, indices, self, 3, kernel, stride, padding, dilation, false);
    return {out, indices};
}

at::Tensor& max_pool3d_backward_out(const at::Tensor& grad, const at::Tensor& self, List kernel, List stride,
                                    List padding, List dilation, bool ceil_mode, const at::Tensor& indices,
                                    at::Tensor& grad_input)
{
    auto sizes = max_pool3d_sizes(self, kernel, stride, padding, dilation, ceil_mode);
    TORCH_CHECK(grad.sizes() == at::IntArrayRef(sizes) && indices.sizes() == at::IntArrayRef(sizes),
                "max_pool3d_with_indices_backward: expected grad_output and indices of sizes ",
                at::IntArrayRef(sizes), ", but got ", grad.sizes(), " and ", indices.sizes());
    at::native::resize_output(grad_input, self.sizes());
    launch_unpool(grad_input, grad, indices, 3, false);
    return grad_input;
}

at::Tensor max_pool3d_backward(const at::Tensor& grad, const at::Tensor& self, List kernel, List stride,
                               List padding, List dilation, bool ceil_mode, const at::Tensor& indices)
{
    auto grad_input = new_tensor_like(self, self.scalar_type());
    return max_pool3d_backward_out(grad, self, kernel, stride, padding, dilation, ceil_mode, indices,
                                   grad_input);
}

// ---- unpooling -----------------------------------------------------------------------------------------

at::Tensor& unpool_out(const char* name, int64_t spatial, const at::Tensor& self, const at::Tensor& indices,
                       List output, at::Tensor& out)
{
    TORCH_CHECK(indices.scalar_type() == at::kLong,
                "elements in indices should be type int64 but got: ", indices.scalar_type());
    TORCH_CHECK(output.size() == static_cast<size_t>(spatial), "There should be exactly ", spatial,
                " elements in output_size, but got ", output.size(), " elements.");
    TORCH_CHECK(self.dim() == spatial + 1 || self.dim() == spatial + 2, "Input to ", name,
                " should be a ", spatial + 1, "d or ", spatial + 2, "d Tensor, but got a tensor with ",
                self.dim(), " dimensions.");
    TORCH_CHECK(self.sizes() == indices.sizes(), "Expected shape of indices to be same as that of the input tensor (",
                self.sizes(), ") but got indices tensor with shape: ", indices.sizes());
    for (int64_t d = 1; d < self.dim(); d++)
        TORCH_CHECK(self.size(d) > 0, name,
                    "(): Expected input to have non-zero size for non-batch dimensions, but got ",
                    self.sizes(), " with dimension ", d, " being empty.");
    check_same_device(name, {&self, &indices, &out});
    at::DimVector sizes(self.sizes().slice(0, static_cast<size_t>(self.dim() - spatial)));
    sizes.append(output.begin(), output.end());
    at::native::resize_output(out, sizes);
    launch_unpool(out, self, indices, spatial, true);
    return out;
}

at::Tensor& max_unpool2d_out(const at::Tensor& self, const at::Tensor& indices, List output, at::Tensor& out)
{
    return unpool_out("max_unpool2d", 2, self, indices, output, out);
}

at::Tensor max_unpool2d(const at::Tensor& self, const at::Tensor& indices, List output)
{
    auto out = new_tensor({0}, self.scalar_type(), self.device());
    return max_unpool2d_out(self, indices, output, out);
}

at::Tensor& max_unpool3d_out(const at::Tensor& self, const at::Tensor& indices, List output, List stride,
                             List padding, at::Tensor& out)
{
    TORCH_CHECK(stride.size() == 3, "There should be exactly three elements (depth, height, width) in stride, but got: ",
                stride.size(), " elements.");
    TORCH_CHECK(padding.size() == 3, "There should be exactly three elements (depth, height, width) in padding, but got: ",
                padding.size(), " elements.");
    return unpool_out("max_unpool3d", 3, self, indices, output, out);
}

at::Tensor max_unpool3d(const at::Tensor& self, const at::Tensor& indices, List output, List stride,
                        List padding)
{
    auto out = new_tensor({0}, self.scalar_type(), self.device());
    return max_unpool3d_out(self, indices, output, stride, padding, out);
}

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    using namespace neuron;
    using namespace at::meta;
    Average<structured_avg_pool2d, structured_avg_pool2d_backward, 2>::add(m, "avg_pool2d",
                                                                          "avg_pool2d_backward");
    Average<structured_avg_pool3d, structured_avg_pool3d_backward, 3>::add(m, "avg_pool3d",
                                                                          "avg_pool3d_backward");
    m.impl("_adaptive_avg_pool2d", &AdaptiveAverage<2>::forward);
    m.impl("adaptive_avg_pool2d.out", &AdaptiveAverage<2>::forward_out);
    m.impl("_adaptive_avg_pool2d_backward", &AdaptiveAverage<2>::backward);
    m.impl("_adaptive_avg_pool3d", &AdaptiveAverage<3>::forward);
    m.impl("adaptive_avg_pool3d.out", &AdaptiveAverage<3>::forward_out);
    m.impl("_adaptive_avg_pool3d_backward", &AdaptiveAverage<3>::backward);
    m.impl("adaptive_avg_pool3d_backward.grad_input", &AdaptiveAverage<3>::backward_out);
    m.impl("max_pool2d_with_indices", &max_pool2d);
    m.impl("max_pool2d_with_indices.out", &max_pool2d_out);
    m.impl("max_pool2d_with_indices_backward", &max_pool2d_backward);
    m.impl("max_pool2d_with_indices_backward.grad_input", &max_pool2d_backward_out);
    m.impl("max_pool3d_with_indices", &max_pool3d);
    m.impl("max_pool3d_with_indices.out", &max_pool3d_out);
    m.impl("max_pool3d_with_indices_backward", &max_pool3d_backward);
    m.impl("max_pool3d_with_indices_backward.grad_input", &max_pool3d_backward_out);
    using Adaptive2d = AdaptiveMax<structured_adaptive_max_pool2d, structured_adaptive_max_pool2d_backward, 2>;
    using Adaptive3d = AdaptiveMax<structured_adaptive_max_pool3d, structured_adaptive_max_pool3d_backward, 3>;
    m.impl("adaptive_max_pool2d", &Adaptive2d::forward);
    m.impl("adaptive_max_pool2d.out", &Adaptive2d::forward_out);
    m.impl("adaptive_max_pool2d_backward", &Adaptive2d::backward);
    m.impl("adaptive_max_pool2d_backward.grad_input", &Adaptive2d::backward_out);
    m.impl("adaptive_max_pool3d", &Adaptive3d::forward);
    m.impl("adaptive_max_pool3d.out", &Adaptive3d::forward_out);
    m.impl("adaptive_max_pool3d_backward", &Adaptive3d::backward);
    m.impl("adaptive_max_pool3d_backward.grad_input", &Adaptive3d::backward_out);
    m.impl("max_unpool2d", &max_unpool2d);
    m.impl("max_unpool2d.out", &max_unpool2d_out);
    m.impl("max_unpool3d", &max_unpool3d);
    m.impl("max_unpool3d.out", &max_unpool3d_out);
}

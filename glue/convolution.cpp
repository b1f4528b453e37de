// Convolution, plain and transposed, in one to three dimensions, with its gradients.
#include <ATen/core/Tensor.h>
#include <ATen/native/ConvUtils.h>
#include <ATen/ops/sum.h>
#include <torch/library.h>

#include "fallback.h"
#include "launch.h"
#include "tn/op/conv.h"

namespace neuron {
namespace {

using at::IntArrayRef;
using at::Tensor;

struct Geometry {
    IntArrayRef stride, padding, dilation;
    int64_t groups;

    // Three spatial dimensions; the ones that are absent come first.
    void pass(Launch& launch) const
    {
        pass(launch, stride, 1);
        pass(launch, padding, 0);
        pass(launch, dilation, 1);
        launch.scalar(groups);
    }
    static void pass(Launch& launch, IntArrayRef values, int64_t absent)
    {
        for (size_t i = values.size(); i < 3; i++)
            launch.scalar(absent);
        for (int64_t value : values)
            launch.scalar(value);
    }
};

void check_arguments(const Tensor& input, const Tensor& weight, const Tensor* bias)
{
    auto type = input.scalar_type();
    TORCH_CHECK(type == weight.scalar_type(), "Input type (", input.toString(), ") and weight type (",
                weight.toString(), ") should be the same");
    TORCH_CHECK(!bias || type == bias->scalar_type(), "Input type (", input.toString(),
                ") and bias type (", bias ? bias->toString() : "", ") should be the same");
    TORCH_CHECK(input.dim() >= 3 && input.dim() <= 5, "convolution: expected 3 to 5 dimensions, got input ",
                input.sizes());
    TORCH_CHECK_NOT_IMPLEMENTED(type == at::kFloat || type == at::kBFloat16 || type == at::kHalf ||
                                    type == at::kDouble,
                                "\"convolution\" not implemented for '", type, "'");
    check_same_device("convolution", {&input, &weight});
}

// Channels last where one of the arguments is, as on the CPU.
at::MemoryFormat format_of(const Tensor& input, const Tensor& weight)
{
    for (const Tensor* tensor : {&input, &weight}) {
        auto format = tensor->suggest_memory_format();
        if (format == at::MemoryFormat::ChannelsLast || format == at::MemoryFormat::ChannelsLast3d)
            return format;
    }
    return at::MemoryFormat::Contiguous;
}

Tensor empty_image(IntArrayRef sizes, const Tensor& like, at::MemoryFormat format)
{
    Tensor image = new_tensor(sizes, like.scalar_type(), like.device());
    if (format != at::MemoryFormat::Contiguous)
        image.unsafeGetTensorImpl()->empty_tensor_restride(format);
    return image;
}

// The kernels walk over the filtered side's positions as one evenly spaced run.
Tensor dense(const Tensor& image)
{
    return image.is_contiguous() ? image : image.contiguous(image.suggest_memory_format());
}

void launch_forward(const Tensor& out, const Tensor& input, const Tensor& weight, const Tensor& bias,
                    const Geometry& geometry)
{
    Launch launch(TN_OP_conv);
    launch.out(out).in(input).in(weight.contiguous()).in(bias);
    geometry.pass(launch);
    launch.run();
}

void launch_input(const Tensor& large, const Tensor& small, const Tensor& weight, const Tensor& bias,
                  const Geometry& geometry)
{
    Launch launch(TN_OP_conv_input);
    launch.out(large).in(dense(small)).in(weight.contiguous()).in(bias);
    geometry.pass(launch);
    launch.run();
}

void launch_filter(const Tensor& weight, const Tensor& small, const Tensor& large,
                   const Geometry& geometry)
{
    Launch launch(TN_OP_conv_filter);
    launch.out(weight).in(dense(small)).in(large);
    geometry.pass(launch);
    launch.run();
}

Tensor convolution(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                   IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool transposed,
                   IntArrayRef output_padding, int64_t groups)
{
    if (at::isIntegralType(input.scalar_type(), false))
        return call_fallback<Tensor(const Tensor&, const Tensor&, const std::optional<Tensor>&,
                                    c10::SymIntArrayRef, c10::SymIntArrayRef, c10::SymIntArrayRef, bool,
                                    c10::SymIntArrayRef, c10::SymInt)>(
            "aten::convolution", "", input, weight, bias, c10::fromIntArrayRefSlow(stride),
            c10::fromIntArrayRefSlow(padding), c10::fromIntArrayRefSlow(dilation), transposed,
            c10::fromIntArrayRefSlow(output_padding), groups);
    bool has_bias = bias && bias->defined();
    check_arguments(input, weight, has_bias ? &*bias : nullptr);
    auto sizes = transposed
                     ? at::native::conv_input_size(input.sizes(), weight.sizes(), padding, output_padding,
                                                   stride, dilation, groups)
                     : at::native::conv_output_size(input.sizes(), weight.sizes(), padding, stride, dilation);
    Tensor out = empty_image(sizes, input, format_of(input, weight));
    if (out.numel() == 0)
        return out;
    Geometry geometry{stride, padding, dilation, groups};
    Tensor addend = has_bias ? *bias : Tensor();
    if (transposed)
        launch_input(out, input, weight, addend, geometry);
    else
        launch_forward(out, input, weight, addend, geometry);
    return out;
}

Tensor bias_gradient(const Tensor& grad)
{
    at::DimVector dims{0};
    for (int64_t d = 2; d < grad.dim(); d++)
        dims.push_back(d);
    return at::sum(grad, dims);
}

// A transposed convolution's gradients are a convolution's, with the images' roles exchanged.
std::tuple<Tensor, Tensor, Tensor>
convolution_backward(const Tensor& grad, const Tensor& input, const Tensor& weight, IntArrayRef stride,
                     IntArrayRef padding, IntArrayRef dilation, bool transposed,
                     IntArrayRef /*output_padding*/, int64_t groups, std::array<bool, 3> wanted)
{
    check_arguments(input, weight, nullptr);
    TORCH_CHECK(grad.scalar_type() == input.scalar_type(), "convolution_backward: expected a gradient of ",
                input.scalar_type(), ", got ", grad.scalar_type());
    Geometry geometry{stride, padding, dilation, groups};
    Tensor grad_input, grad_weight, grad_bias;
    if (wanted[0]) {
        grad_input = empty_image(input.sizes(), input, format_of(input, weight));
        if (transposed)
            launch_forward(grad_input, grad, weight, Tensor(), geometry);
        else
            launch_input(grad_input, grad, weight, Tensor(), geometry);
    }
    if (wanted[1]) {
        grad_weight = new_tensor(weight.sizes(), weight.scalar_type(), weight.device());
        launch_filter(grad_weight, transposed ? input : grad, transposed ? grad : input, geometry);
    }
    if (wanted[2])
        grad_bias = bias_gradient(grad);
    return {grad_input, grad_weight, grad_bias};
}

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("convolution_overrideable", &neuron::convolution);
    m.impl("convolution_backward_overrideable", &neuron::convolution_backward);
}

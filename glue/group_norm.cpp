// Group normalisation: every sample has channels of its own (core/kernel/channels.h).
#include <array>

#include <torch/library.h>

#include "channels.h"
#include "launch.h"
#include "tn/op/group_norm.h"

namespace neuron {
namespace {

using Optional = std::optional<at::Tensor>;
using Triple = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

struct Shape {
    int64_t samples, channels, inner, groups;
};

void check(const at::Tensor& input, const Optional& weight, const Optional& bias, const Shape& shape)
{
    TORCH_CHECK(shape.groups > 0, "Expected num groups to be greater than 0, got ", shape.groups);
    TORCH_CHECK(shape.channels % shape.groups == 0,
                "Expected number of channels in input to be divisible by num_groups, but got input of shape ",
                input.sizes(), " and num_groups=", shape.groups);
    for (const Optional* parameter : {&weight, &bias}) {
        if (!is_given(*parameter))
            continue;
        check_same_device("native_group_norm", {&input, &**parameter});
        TORCH_CHECK((*parameter)->dim() == 1 && (*parameter)->numel() == shape.channels, "Expected ",
                    parameter == &weight ? "weight" : "bias",
                    " to be a vector of size equal to the number of channels in input, but got a vector of shape ",
                    (*parameter)->sizes(), " and input of shape ", input.sizes());
    }
    TORCH_CHECK(input.dim() >= 2 && input.size(0) == shape.samples && input.size(1) == shape.channels &&
                    input.numel() == shape.samples * shape.channels * shape.inner,
                "native_group_norm: expected an input of N * C * HxW = ", shape.samples, " * ", shape.channels, " * ",
                shape.inner, " elements, got one of shape ", input.sizes());
}

Triple group_norm(const at::Tensor& input, const Optional& weight, const Optional& bias, int64_t samples,
                  int64_t channels, int64_t inner, int64_t groups, double eps)
{
    check(input, weight, bias, {samples, channels, inner, groups});
    auto dtype = parameter_dtype("group_norm", input, {&weight, &bias});
    TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(input.scalar_type()) && input.element_size() > 1,
                                "\"GroupNormKernelImpl\" not implemented for '", input.scalar_type(), "'");
    at::Tensor mean = new_tensor({samples, groups}, dtype, input.device());
    at::Tensor rstd = new_tensor({samples, groups}, dtype, input.device());
    if (input.numel() == 0) {
        mean.zero_();
        rstd.fill_(std::numeric_limits<double>::quiet_NaN());
        return {new_tensor_like(input, input.scalar_type()), mean, rstd};
    }
    ChannelView view(input, true);
    at::Tensor out = view.new_result(input.scalar_type());
    Launch launch(TN_OP_group_norm);
    launch.out(out).out(mean).out(rstd).in(view.tensor).in(dense(weight)).in(dense(bias));
    view.scalars(launch);
    launch.scalar(channels).scalar(groups).scalar(eps).run();
    return {out, mean, rstd};
}

Triple group_norm_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& mean,
                           const at::Tensor& rstd, const Optional& weight, int64_t samples, int64_t channels,
                           int64_t inner, int64_t groups, std::array<bool, 3> mask)
{
    check(input, weight, {}, {samples, channels, inner, groups});
    check_same_device("native_group_norm_backward", {&input, &grad, &mean, &rstd});
    TORCH_CHECK(grad.sizes().equals(input.sizes()) && grad.scalar_type() == input.scalar_type(),
                "native_group_norm_backward: expected a gradient of shape ", input.sizes(), " and dtype ",
                input.scalar_type(), ", got ", grad.sizes(), " of ", grad.scalar_type());
    TORCH_CHECK(mean.numel() == samples * groups && rstd.numel() == samples * groups,
                "native_group_norm_backward: expected ", samples * groups, " means and deviations, got ",
                mean.numel(), " and ", rstd.numel());
    auto dtype = is_given(weight) ? weight->scalar_type() : input.scalar_type();
    Triple results;
    auto& [grad_input, grad_weight, grad_bias] = results;
    if (mask[1])
        grad_weight = new_tensor({channels}, dtype, input.device());
    if (mask[2])
        grad_bias = new_tensor({channels}, dtype, input.device());
    if (input.numel() == 0) {
        if (mask[0])
            grad_input = new_tensor_like(input, input.scalar_type());
        if (mask[1])
            grad_weight.fill_(samples == 0 ? 0 : std::numeric_limits<double>::quiet_NaN());
        if (mask[2])
            grad_bias.zero_();
        return results;
    }
    ChannelView view(input, true);
    if (mask[0])
        grad_input = view.new_result(input.scalar_type());
    Launch launch(TN_OP_group_norm_backward);
    launch.out(grad_input).out(grad_weight).out(grad_bias);
    launch.in(view.match(grad)).in(view.tensor).in(mean.contiguous()).in(rstd.contiguous()).in(dense(weight));
    view.scalars(launch);
    launch.scalar(channels).scalar(groups).run();
    return results;
}

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("native_group_norm", &neuron::group_norm);
    m.impl("native_group_norm_backward", &neuron::group_norm_backward);
}

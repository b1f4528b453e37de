// Layer normalisation. Statistics are kept in fp32 (fp64 for fp64 inputs).
#include <array>

#include <torch/library.h>

#include "launch.h"
#include "tn/op/layer_norm.h"
#include "tn/op/rms_norm.h"

namespace neuron {
namespace {

using Results = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

int64_t normalized_count(const at::Tensor& input, at::IntArrayRef shape,
                         const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& bias)
{
    TORCH_CHECK(!shape.empty(), "Expected normalized_shape to be at least 1-dimensional, i.e., ",
                "containing at least one element, but got normalized_shape = ", shape);
    for (const auto* parameter : {&weight, &bias})
        TORCH_CHECK(!*parameter || !(*parameter)->defined() || (*parameter)->sizes().equals(shape),
                    "Expected ", parameter == &weight ? "weight" : "bias",
                    " to be of same shape as normalized_shape, but got a parameter of shape ",
                    (*parameter)->sizes(), " and normalized_shape = ", shape);
    size_t skipped = static_cast<size_t>(input.dim()) - shape.size();
    TORCH_CHECK(static_cast<size_t>(input.dim()) >= shape.size() &&
                    input.sizes().slice(skipped).equals(shape),
                "Given normalized_shape=", shape, ", expected input with shape [*, ", shape,
                "], but got input of size", input.sizes());
    TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(input.scalar_type()) && input.element_size() > 1,
                                "\"LayerNormKernelImpl\" not implemented for '", input.scalar_type(), "'");
    return c10::multiply_integers(shape);
}

std::optional<at::Tensor> contiguous(const std::optional<at::Tensor>& tensor)
{
    return tensor && tensor->defined() ? std::optional(tensor->contiguous()) : std::nullopt;
}

Results layer_norm(const at::Tensor& input, at::IntArrayRef shape, const std::optional<at::Tensor>& weight,
                   const std::optional<at::Tensor>& bias, double eps)
{
    int64_t n = normalized_count(input, shape, weight, bias);
    at::DimVector stats(input.sizes());
    for (size_t d = stats.size() - shape.size(); d < stats.size(); d++)
        stats[d] = 1;
    auto dtype = input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    Results results{new_tensor(input.sizes(), input.scalar_type(), input.device()),
                    new_tensor(stats, dtype, input.device()), new_tensor(stats, dtype, input.device())};
    auto& [out, mean, rstd] = results;
    if (input.numel() == 0) {
        mean.zero_();
        rstd.fill_(std::numeric_limits<double>::quiet_NaN());
        return results;
    }
    at::Tensor x = input.contiguous();
    auto w = contiguous(weight), b = contiguous(bias);
    Launch(TN_OP_layer_norm).out(out).out(mean).out(rstd).in(x).in(w).in(b).scalar(n).scalar(eps).run();
    return results;
}

Results layer_norm_backward(const at::Tensor& grad, const at::Tensor& input, at::IntArrayRef shape,
                            const at::Tensor& mean, const at::Tensor& rstd,
                            const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& bias,
                            std::array<bool, 3> mask)
{
    int64_t n = normalized_count(input, shape, weight, bias);
    Results results;
    auto& [grad_input, grad_weight, grad_bias] = results;
    auto parameter_dtype = weight && weight->defined() ? weight->scalar_type() : input.scalar_type();
    if (mask[0])
        grad_input = new_tensor(input.sizes(), input.scalar_type(), input.device());
    if (mask[1])
        grad_weight = new_tensor(shape, parameter_dtype, input.device());
    if (mask[2])
        grad_bias = new_tensor(shape, parameter_dtype, input.device());
    if (input.numel() == 0) {
        for (at::Tensor* sum : {&grad_weight, &grad_bias})
            if (sum->defined())
                sum->zero_();
        return results;
    }
    auto stats_dtype = input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    at::Tensor g = grad.contiguous(), x = input.contiguous();
    at::Tensor m = mean.to(stats_dtype).contiguous(), r = rstd.to(stats_dtype).contiguous();
    auto w = contiguous(weight);
    Launch(TN_OP_layer_norm_backward)
        .out(grad_input)
        .out(grad_weight)
        .out(grad_bias)
        .in(g)
        .in(x)
        .in(m)
        .in(r)
        .in(w)
        .scalar(n)
        .run();
    return results;
}

// ---- without mean and bias -----------------------------------------------------------------------------

at::ScalarType statistics_dtype(const at::Tensor& input)
{
    return input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

void check_rms_norm(const at::Tensor& input)
{
    TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(input.scalar_type()) && input.element_size() > 1,
                                "\"rms_norm\" not implemented for '", input.scalar_type(), "'");
}

std::tuple<at::Tensor, at::Tensor> rms_norm(const at::Tensor& input, at::IntArrayRef shape,
                                            const std::optional<at::Tensor>& weight, std::optional<double> eps)
{
    check_rms_norm(input);
    int64_t n = normalized_count(input, shape, weight, {});
    auto dtype = statistics_dtype(input);
    double smallest = dtype == at::kDouble ? std::numeric_limits<double>::epsilon()
                                           : std::numeric_limits<float>::epsilon();
    at::DimVector stats(input.sizes());
    for (size_t d = stats.size() - shape.size(); d < stats.size(); d++)
        stats[d] = 1;
    at::Tensor out = new_tensor(input.sizes(), input.scalar_type(), input.device());
    at::Tensor rstd = new_tensor(stats, dtype, input.device());
    if (input.numel() == 0) {
        rstd.fill_(std::numeric_limits<double>::quiet_NaN());
        return {out, rstd};
    }
    Launch(TN_OP_rms_norm)
        .out(out).out(at::Tensor()).out(rstd)
        .in(input.contiguous()).in(contiguous(weight)).absent()
        .scalar(n).scalar(eps.value_or(smallest))
        .run();
    return {out, rstd};
}

std::tuple<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor& grad, const at::Tensor& input,
                                                     at::IntArrayRef shape, const at::Tensor& rstd,
                                                     const std::optional<at::Tensor>& weight,
                                                     std::array<bool, 2> mask)
{
    check_rms_norm(input);
    int64_t n = normalized_count(input, shape, weight, {});
    std::tuple<at::Tensor, at::Tensor> results;
    auto& [grad_input, grad_weight] = results;
    if (mask[0])
        grad_input = new_tensor(input.sizes(), input.scalar_type(), input.device());
    if (mask[1] && weight && weight->defined())
        grad_weight = new_tensor(shape, weight->scalar_type(), input.device());
    if (input.numel() == 0) {
        if (grad_weight.defined())
            grad_weight.zero_();
        return results;
    }
    at::Tensor r = rstd.to(statistics_dtype(input)).contiguous();
    Launch(TN_OP_rms_norm_backward)
        .out(grad_input).out(grad_weight).out(at::Tensor())
        .in(grad.contiguous()).in(input.contiguous()).absent().in(r).in(contiguous(weight))
        .scalar(n)
        .run();
    return results;
}

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("native_layer_norm", &neuron::layer_norm);
    m.impl("native_layer_norm_backward", &neuron::layer_norm_backward);
    m.impl("_fused_rms_norm", &neuron::rms_norm);
    m.impl("_fused_rms_norm_backward", &neuron::rms_norm_backward);
}

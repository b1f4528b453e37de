// Losses with a reduction, gated linear units, and a number to the power of a tensor: operators that are
// one or two pointwise launches and, for losses, a reduction.
#include <ATen/TensorIterator.h>
#include <ATen/core/Reduction.h>
#include <torch/library.h>

#include <ATen/ops/glu_meta.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/pow_meta.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/softshrink_meta.h>
#include <ATen/ops/sum.h>

#include "pointwise.h"
#include "tn/op/pointwise.h"

namespace neuron {
namespace {

bool supports(int op, at::ScalarType dtype)
{
    return tn_op_supports(op, static_cast<tn_dtype>(dtype));
}

at::Tensor reduced(const at::Tensor& elements, int64_t reduction)
{
    return reduction == at::Reduction::Mean  ? at::mean(elements)
           : reduction == at::Reduction::Sum ? at::sum(elements)
                                             : elements;
}

at::Tensor& write_out(const at::Tensor& result, at::Tensor& out)
{
    at::native::resize_output(out, result.sizes());
    out.copy_(result);
    return out;
}

// What the gradient of an element is multiplied with besides the output's gradient.
double reduction_factor(int64_t reduction, const at::Tensor& self)
{
    return reduction == at::Reduction::Mean ? 1.0 / static_cast<double>(self.numel()) : 1.0;
}

at::TensorIterator iterator_of(at::Tensor& out, std::initializer_list<const at::Tensor*> inputs)
{
    at::TensorIteratorConfig config;
    config.set_check_mem_overlap(true).promote_inputs_to_common_dtype(true).cast_common_dtype_to_outputs(true);
    config.enforce_safe_casting_to_output(true).allow_cpu_scalars(true).add_output(out);
    for (const at::Tensor* input : inputs)
        config.add_const_input(*input);
    return config.build();
}

// One launch by ATen's rules for elementwise operands; `out` undefined: a new tensor.
template <class... Scalars>
void elementwise(int op, at::Tensor& out, std::initializer_list<const at::Tensor*> inputs,
                 const Scalars&... scalars)
{
    auto iterator = iterator_of(out, inputs);
    out = iterator.output(0);
    if (iterator.numel() == 0)
        return;
    TORCH_CHECK_NOT_IMPLEMENTED(supports(op, iterator.common_dtype()), "\"", tn_op_aten_name(op),
                                "\" not implemented for '", iterator.common_dtype(), "'");
    Launch launch(op);
    launch.out(out);
    for (const at::Tensor* input : inputs)
        launch.in(*input);
    (launch.scalar(scalars), ...);
    launch.compute(iterator.common_dtype()).run();
}

// ---- squared, smooth and Huber errors --------------------------------------------------------------

at::Tensor mse_loss(const at::Tensor& self, const at::Tensor& target, int64_t reduction)
{
    at::Tensor elements;
    elementwise(TN_OP_squared_error, elements, {&self, &target});
    return reduced(elements, reduction);
}

at::Tensor& mse_loss_out(const at::Tensor& self, const at::Tensor& target, int64_t reduction,
                         at::Tensor& out)
{
    return write_out(neuron::mse_loss(self, target, reduction), out);
}

at::Tensor& mse_loss_backward_out(const at::Tensor& grad, const at::Tensor& self,
                                  const at::Tensor& target, int64_t reduction, at::Tensor& grad_input)
{
    elementwise(TN_OP_squared_error_backward, grad_input, {&grad, &self, &target},
                2 * reduction_factor(reduction, self));
    return grad_input;
}

at::Tensor mse_loss_backward(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& target,
                             int64_t reduction)
{
    at::Tensor grad_input;
    neuron::mse_loss_backward_out(grad, self, target, reduction, grad_input);
    return grad_input;
}

at::Tensor smooth_l1_loss(const at::Tensor& self, const at::Tensor& target, int64_t reduction,
                          double beta)
{
    TORCH_CHECK(beta >= 0, "smooth_l1_loss does not support negative values for beta.");
    at::Tensor elements;
    elementwise(TN_OP_smooth_error, elements, {&self, &target}, beta);
    return reduced(elements, reduction);
}

at::Tensor& smooth_l1_loss_out(const at::Tensor& self, const at::Tensor& target, int64_t reduction,
                               double beta, at::Tensor& out)
{
    return write_out(neuron::smooth_l1_loss(self, target, reduction, beta), out);
}

at::Tensor& smooth_l1_loss_backward_out(const at::Tensor& grad, const at::Tensor& self,
                                        const at::Tensor& target, int64_t reduction, double beta,
                                        at::Tensor& grad_input)
{
    elementwise(TN_OP_smooth_error_backward, grad_input, {&grad, &self, &target},
                reduction_factor(reduction, self), beta);
    return grad_input;
}

at::Tensor huber_loss(const at::Tensor& self, const at::Tensor& target, int64_t reduction, double delta)
{
    TORCH_CHECK(delta > 0, "huber_loss does not support non-positive values for delta.");
    at::Tensor elements;
    elementwise(TN_OP_huber_error, elements, {&self, &target}, delta);
    return reduced(elements, reduction);
}

at::Tensor& huber_loss_out(const at::Tensor& self, const at::Tensor& target, int64_t reduction,
                           double delta, at::Tensor& out)
{
    return write_out(neuron::huber_loss(self, target, reduction, delta), out);
}

at::Tensor& huber_loss_backward_out(const at::Tensor& grad, const at::Tensor& self,
                                    const at::Tensor& target, int64_t reduction, double delta,
                                    at::Tensor& grad_input)
{
    elementwise(TN_OP_huber_error_backward, grad_input, {&grad, &self, &target},
                reduction_factor(reduction, self), delta);
    return grad_input;
}

// ---- binary cross entropy ----------------------------------------------------------------------------

// The weight, or the number one.
at::Tensor weight_or_one(const std::optional<at::Tensor>& weight, const at::Tensor& self)
{
    if (weight && weight->defined())
        return *weight;
    return at::scalar_tensor(1, at::device(at::kCPU).dtype(self.scalar_type()));
}

at::Tensor binary_cross_entropy(const at::Tensor& self, const at::Tensor& target,
                                const std::optional<at::Tensor>& weight, int64_t reduction)
{
    at::Tensor elements, factor = weight_or_one(weight, self);
    elementwise(TN_OP_cross_entropy, elements, {&self, &target, &factor});
    return reduced(elements, reduction);
}

at::Tensor& binary_cross_entropy_out(const at::Tensor& self, const at::Tensor& target,
                                     const std::optional<at::Tensor>& weight, int64_t reduction,
                                     at::Tensor& out)
{
    return write_out(neuron::binary_cross_entropy(self, target, weight, reduction), out);
}

at::Tensor& binary_cross_entropy_backward_out(const at::Tensor& grad, const at::Tensor& self,
                                              const at::Tensor& target,
                                              const std::optional<at::Tensor>& weight,
                                              int64_t reduction, at::Tensor& grad_input)
{
    at::Tensor factor = weight_or_one(weight, self);
    elementwise(TN_OP_cross_entropy_backward, grad_input, {&grad, &self, &target, &factor},
                reduction_factor(reduction, self));
    return grad_input;
}

at::Tensor binary_cross_entropy_backward(const at::Tensor& grad, const at::Tensor& self,
                                         const at::Tensor& target,
                                         const std::optional<at::Tensor>& weight, int64_t reduction)
{
    at::Tensor grad_input;
    neuron::binary_cross_entropy_backward_out(grad, self, target, weight, reduction, grad_input);
    return grad_input;
}

// ---- gated linear units --------------------------------------------------------------------------------

struct Halves {
    at::Tensor value, gate;
    Halves(const at::Tensor& tensor, int64_t dim)
    {
        int64_t half = tensor.size(dim) / 2;
        value = tensor.narrow(dim, 0, half);
        gate = tensor.narrow(dim, half, half);
    }
};

void launch_glu(Structured<at::meta::structured_glu>& op, const at::Tensor& self, int64_t dim)
{
    op.meta(self, dim);
    Halves in(self, dim);
    if (op.output().numel() != 0)
        Launch(TN_OP_glu).out(op.output()).in(in.value).in(in.gate).compute(self.scalar_type()).run();
}

// The meta function leaves this check to the kernel.
void check_shrink(const at::Tensor& self, const at::Scalar& lambda)
{
    double most = self.scalar_type() == at::kDouble ? std::numeric_limits<double>::max()
                                                    : std::numeric_limits<float>::max();
    TORCH_CHECK(lambda.toDouble() >= 0 && lambda.toDouble() <= most, "lambda must be in range [0, ", most,
                "] for input dtype ", self.scalar_type(), ", but found ", lambda.toDouble());
}

struct Name_softshrink {
    static constexpr const char *name = "aten::softshrink", *overload = "";
};
struct Name_softshrink_out {
    static constexpr const char *name = "aten::softshrink", *overload = "out";
};

at::Tensor softshrink(const at::Tensor& self, const at::Scalar& lambda)
{
    check_shrink(self, lambda);
    return Pointwise<at::meta::structured_softshrink, TN_OP_softshrink, Result::Same, Name_softshrink,
                     const at::Tensor&, const at::Scalar&>::call(self, lambda);
}

at::Tensor& softshrink_out(const at::Tensor& self, const at::Scalar& lambda, at::Tensor& out)
{
    check_shrink(self, lambda);
    return PointwiseOut<at::meta::structured_softshrink, TN_OP_softshrink, Name_softshrink_out,
                        const at::Tensor&, const at::Scalar&>::call(self, lambda, out);
}

at::Tensor glu(const at::Tensor& self, int64_t dim)
{
    if (!supports(TN_OP_glu, self.scalar_type()))
        return call_fallback<at::Tensor(const at::Tensor&, int64_t)>("aten::glu", "", self, dim);
    Structured<at::meta::structured_glu> op;
    launch_glu(op, self, dim);
    return op.take();
}

at::Tensor& glu_out(const at::Tensor& self, int64_t dim, at::Tensor& out)
{
    Structured<at::meta::structured_glu> op(Variant::Out, {out});
    launch_glu(op, self, dim);
    op.finish();
    return out;
}

at::Tensor& glu_backward_out(const at::Tensor& grad, const at::Tensor& self, int64_t dim,
                             at::Tensor& grad_input)
{
    TORCH_CHECK(self.dim() > 0, "glu does not support 0-dimensional tensors");
    TORCH_CHECK(self.size(dim) % 2 == 0, "Halving dimension must be even, but dimension ", dim,
                " is size ", self.size(dim));
    at::native::resize_output(grad_input, self.sizes());
    if (self.numel() == 0)
        return grad_input;
    Halves in(self, dim), out(grad_input, dim);
    Launch(TN_OP_glu).out(out.value).in(grad).in(in.gate).compute(self.scalar_type()).run();
    Launch(TN_OP_glu_gate_backward)
        .out(out.gate)
        .in(grad)
        .in(in.value)
        .in(in.gate)
        .compute(self.scalar_type())
        .run();
    return grad_input;
}

at::Tensor glu_backward(const at::Tensor& grad, const at::Tensor& self, int64_t dim)
{
    at::Tensor grad_input = new_tensor(self.sizes(), self.scalar_type(), self.device());
    return neuron::glu_backward_out(grad, self, dim, grad_input);
}

// ---- a number to the power of a tensor -----------------------------------------------------------------

void launch_power(Structured<at::meta::structured_pow_Scalar>& op, const at::Scalar& self,
                  const at::Tensor& exponent)
{
    op.meta(self, exponent);
    if (op.output().numel() == 0)
        return;
    at::ScalarType compute = at::result_type(self, exponent);
    Launch(TN_OP_pow)
        .out(op.output())
        .in(at::scalar_tensor(self, at::device(at::kCPU).dtype(self.type())))
        .in(exponent)
        .compute(compute)
        .run();
}

at::Tensor power(const at::Scalar& self, const at::Tensor& exponent)
{
    if (!supports(TN_OP_pow, at::result_type(self, exponent)))
        return call_fallback<at::Tensor(const at::Scalar&, const at::Tensor&)>("aten::pow", "Scalar", self,
                                                                               exponent);
    Structured<at::meta::structured_pow_Scalar> op;
    launch_power(op, self, exponent);
    return op.take();
}

at::Tensor& power_out(const at::Scalar& self, const at::Tensor& exponent, at::Tensor& out)
{
    if (!supports(TN_OP_pow, at::result_type(self, exponent)))
        return call_fallback<at::Tensor&(const at::Scalar&, const at::Tensor&, at::Tensor&)>(
            "aten::pow", "Scalar_out", self, exponent, out);
    Structured<at::meta::structured_pow_Scalar> op(Variant::Out, {out});
    launch_power(op, self, exponent);
    op.finish();
    return out;
}

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    using namespace neuron;
    m.impl("softshrink", &softshrink);
    m.impl("softshrink.out", &softshrink_out);
    m.impl("mse_loss", &mse_loss);
    m.impl("mse_loss.out", &mse_loss_out);
    m.impl("mse_loss_backward", &mse_loss_backward);
    m.impl("mse_loss_backward.grad_input", &mse_loss_backward_out);
    m.impl("smooth_l1_loss", &smooth_l1_loss);
    m.impl("smooth_l1_loss.out", &smooth_l1_loss_out);
    m.impl("smooth_l1_loss_backward.grad_input", &smooth_l1_loss_backward_out);
    m.impl("huber_loss", &huber_loss);
    m.impl("huber_loss.out", &huber_loss_out);
    m.impl("huber_loss_backward.out", &huber_loss_backward_out);
    m.impl("binary_cross_entropy", &binary_cross_entropy);
    m.impl("binary_cross_entropy.out", &binary_cross_entropy_out);
    m.impl("binary_cross_entropy_backward", &binary_cross_entropy_backward);
    m.impl("binary_cross_entropy_backward.grad_input", &binary_cross_entropy_backward_out);
    m.impl("glu", &glu);
    m.impl("glu.out", &glu_out);
    m.impl("glu_backward", &glu_backward);
    m.impl("glu_backward.grad_input", &glu_backward_out);
    m.impl("pow.Scalar", &power);
    m.impl("pow.Scalar_out", &power_out);
}

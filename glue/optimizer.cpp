// Fused optimizer steps and the loss scaler's ops: lists in, one launch.
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include "fallback.h"
#include "launch.h"
#include "tn/op/optimizer.h"

namespace neuron {
namespace {

using Lists = std::initializer_list<at::TensorList>;

// Strides of dimensions with one element mean nothing.
bool same_layout(const at::Tensor& tensor, const at::Tensor& like)
{
    if (tensor.sizes() != like.sizes())
        return false;
    for (int64_t d = 0; d < tensor.dim(); d++)
        if (tensor.size(d) > 1 && tensor.stride(d) != like.stride(d))
            return false;
    return true;
}

bool is_plain_member(const at::Tensor& tensor, const at::Tensor& like)
{
    return is_neuron(tensor) && tensor.device() == like.device() &&
           at::isFloatingType(tensor.scalar_type()) && same_layout(tensor, like) &&
           (tensor.scalar_type() == at::kDouble) == (like.scalar_type() == at::kDouble);
}

// What one flat pass over memory can serve: member i of every list is dense and laid out alike.
void check_lists(const char* op, Lists lists)
{
    at::TensorList first = *lists.begin();
    for (at::TensorList list : lists) {
        TORCH_CHECK(list.size() == first.size(), op, ": expected lists of equal length, got ",
                    first.size(), " and ", list.size());
        for (size_t i = 0; i < list.size(); i++)
            TORCH_CHECK(is_plain_member(list[i], first[i]) && first[i].is_non_overlapping_and_dense(),
                        op, ": parameters, gradients and states must be dense floating neuron tensors of "
                        "equal sizes, strides and device; entry ", i, " has ",
                        first[i].sizes(), " with strides ", first[i].strides(), " on ",
                        first[i].device(), " and ", list[i].sizes(), " with strides ",
                        list[i].strides(), " on ", list[i].device(),
                        ". Use foreach=True for others.");
    }
}

// A gradient or a state may have come in another layout than its parameter: a copy stands in for it.
std::vector<at::Tensor> laid_out_like(at::TensorList parameters, at::TensorList list,
                                      std::vector<std::pair<at::Tensor, at::Tensor>>& relaid)
{
    std::vector<at::Tensor> members(list.begin(), list.end());
    for (size_t i = 0; i < members.size() && i < parameters.size(); i++) {
        if (!is_neuron(members[i]) || members[i].sizes() != parameters[i].sizes() ||
            same_layout(members[i], parameters[i]))
            continue;
        members[i] = new_tensor_like(parameters[i], members[i].scalar_type()).copy_(list[i]);
        relaid.emplace_back(list[i], members[i]);
    }
    return members;
}

struct Step {
    const char* name;
    int op;
    std::vector<at::TensorList> written;
    at::TensorList steps;
    std::optional<at::Tensor> grad_scale, found_inf, tensor_rate;
    std::vector<tn_scalar> scalars;

    void run() const
    {
        if (written[0].empty())
            return;
        Launch launch(op);
        std::vector<std::pair<at::Tensor, at::Tensor>> relaid; // the caller's, and its stand-in
        for (at::TensorList list : written) {
            std::vector<at::Tensor> members = laid_out_like(written[0], list, relaid);
            check_lists(name, {written[0], members});
            launch.outs(members);
        }
        launch.ins(steps).in(grad_scale).in(found_inf).in(tensor_rate);
        for (const tn_scalar& scalar : scalars)
            launch.scalar(scalar);
        launch.run();
        for (auto& [original, stand_in] : relaid)
            original.copy_(stand_in);
    }
};

template <bool Decoupled>
void adam(at::TensorList self, at::TensorList grads, at::TensorList averages, at::TensorList squares,
          at::TensorList peaks, at::TensorList steps, std::optional<at::Tensor> tensor_rate,
          double rate, double beta1, double beta2, double weight_decay, double eps, bool amsgrad,
          bool maximize, const std::optional<at::Tensor>& grad_scale,
          const std::optional<at::Tensor>& found_inf)
{
    std::vector<at::TensorList> lists{self, grads, averages, squares};
    if (amsgrad)
        lists.push_back(peaks);
    Step{Decoupled ? "_fused_adamw_" : "_fused_adam_", TN_OP_fused_adam, lists, steps, grad_scale,
         found_inf, tensor_rate,
         {to_scalar(rate), to_scalar(beta1), to_scalar(beta2), to_scalar(weight_decay),
          to_scalar(eps), to_scalar(amsgrad), to_scalar(maximize), to_scalar(Decoupled)}}
        .run();
}

template <bool Decoupled>
void adam_rate(at::TensorList self, at::TensorList grads, at::TensorList averages,
               at::TensorList squares, at::TensorList peaks, at::TensorList steps, double rate,
               double beta1, double beta2, double weight_decay, double eps, bool amsgrad, bool maximize,
               const std::optional<at::Tensor>& grad_scale, const std::optional<at::Tensor>& found_inf)
{
    adam<Decoupled>(self, grads, averages, squares, peaks, steps, {}, rate, beta1, beta2,
                    weight_decay, eps, amsgrad, maximize, grad_scale, found_inf);
}

template <bool Decoupled>
void adam_tensor_rate(at::TensorList self, at::TensorList grads, at::TensorList averages,
                      at::TensorList squares, at::TensorList peaks, at::TensorList steps,
                      const at::Tensor& rate, double beta1, double beta2, double weight_decay,
                      double eps, bool amsgrad, bool maximize,
                      const std::optional<at::Tensor>& grad_scale,
                      const std::optional<at::Tensor>& found_inf)
{
    adam<Decoupled>(self, grads, averages, squares, peaks, steps, rate, 0, beta1, beta2,
                    weight_decay, eps, amsgrad, maximize, grad_scale, found_inf);
}

void sgd(at::TensorList self, at::TensorList grads, at::TensorList buffers, double weight_decay,
         double momentum, std::optional<at::Tensor> tensor_rate, double rate, double dampening,
         bool nesterov, bool maximize, bool first, const std::optional<at::Tensor>& grad_scale,
         const std::optional<at::Tensor>& found_inf)
{
    std::vector<at::TensorList> lists{self, grads};
    if (momentum != 0)
        lists.push_back(buffers);
    Step{"_fused_sgd_", TN_OP_fused_sgd, lists, {}, grad_scale, found_inf, tensor_rate,
         {to_scalar(rate), to_scalar(weight_decay), to_scalar(momentum), to_scalar(dampening),
          to_scalar(nesterov), to_scalar(maximize), to_scalar(first)}}
        .run();
}

void sgd_rate(at::TensorList self, at::TensorList grads, at::TensorList buffers, double weight_decay,
              double momentum, double rate, double dampening, bool nesterov, bool maximize, bool first,
              const std::optional<at::Tensor>& grad_scale, const std::optional<at::Tensor>& found_inf)
{
    sgd(self, grads, buffers, weight_decay, momentum, {}, rate, dampening, nesterov, maximize, first,
        grad_scale, found_inf);
}

void sgd_tensor_rate(at::TensorList self, at::TensorList grads, at::TensorList buffers,
                     double weight_decay, double momentum, const at::Tensor& rate, double dampening,
                     bool nesterov, bool maximize, bool first,
                     const std::optional<at::Tensor>& grad_scale,
                     const std::optional<at::Tensor>& found_inf)
{
    sgd(self, grads, buffers, weight_decay, momentum, rate, 0, dampening, nesterov, maximize, first,
        grad_scale, found_inf);
}

void adagrad(at::TensorList self, at::TensorList grads, at::TensorList sums, at::TensorList steps,
             std::optional<at::Tensor> tensor_rate, double rate, double rate_decay, double weight_decay,
             double eps, bool maximize, const std::optional<at::Tensor>& grad_scale,
             const std::optional<at::Tensor>& found_inf)
{
    Step{"_fused_adagrad_", TN_OP_fused_adagrad, {self, grads, sums}, steps, grad_scale, found_inf,
         tensor_rate,
         {to_scalar(rate), to_scalar(rate_decay), to_scalar(weight_decay), to_scalar(eps),
          to_scalar(maximize)}}
        .run();
}

void adagrad_rate(at::TensorList self, at::TensorList grads, at::TensorList sums, at::TensorList steps,
                  double rate, double rate_decay, double weight_decay, double eps, bool maximize,
                  const std::optional<at::Tensor>& grad_scale,
                  const std::optional<at::Tensor>& found_inf)
{
    adagrad(self, grads, sums, steps, {}, rate, rate_decay, weight_decay, eps, maximize, grad_scale,
            found_inf);
}

void adagrad_tensor_rate(at::TensorList self, at::TensorList grads, at::TensorList sums,
                         at::TensorList steps, const at::Tensor& rate, double rate_decay,
                         double weight_decay, double eps, bool maximize,
                         const std::optional<at::Tensor>& grad_scale,
                         const std::optional<at::Tensor>& found_inf)
{
    adagrad(self, grads, sums, steps, rate, 0, rate_decay, weight_decay, eps, maximize, grad_scale,
            found_inf);
}

void amp_unscale(at::TensorList grads, at::Tensor& found_inf, const at::Tensor& inverse_scale)
{
    TORCH_CHECK(inverse_scale.numel() == 1, "inv_scale must be a 1-element tensor.");
    TORCH_CHECK(found_inf.numel() == 1, "found_inf must be a 1-element tensor.");
    TORCH_CHECK(inverse_scale.scalar_type() == at::kFloat, "inv_scale must be a float tensor.");
    TORCH_CHECK(found_inf.scalar_type() == at::kFloat, "found_inf must be a float tensor.");
    if (grads.empty())
        return;
    Launch launch(TN_OP_amp_unscale);
    launch.out(found_inf);
    for (const at::Tensor& grad : grads) {
        TORCH_CHECK(is_neuron(grad) && grad.layout() == c10::kStrided, "one of the gradients is not a "
                    "dense neuron tensor: ", grad.device(), ", ", grad.layout());
        TORCH_CHECK(at::isFloatingType(grad.scalar_type()), "gradients must be floating, got ",
                    grad.scalar_type());
    }
    std::vector<at::Tensor> dense;
    for (const at::Tensor& grad : grads) {
        dense.push_back(grad.is_non_overlapping_and_dense() ? grad : grad.contiguous());
        launch.out(dense.back());
    }
    launch.in(inverse_scale).run();
    for (size_t i = 0; i < grads.size(); i++)
        if (!dense[i].is_same(grads[i]))
            grads[i].copy_(dense[i]);
}

at::Tensor& amp_update_scale(at::Tensor& scale, at::Tensor& tracker, const at::Tensor& found_inf,
                             double growth, double backoff, int64_t interval)
{
    TORCH_CHECK(tracker.numel() == 1 && tracker.scalar_type() == at::kInt,
                "growth_tracker must be a 1-element int32 tensor.");
    TORCH_CHECK(scale.numel() == 1 && scale.scalar_type() == at::kFloat,
                "current_scale must be a 1-element float tensor.");
    TORCH_CHECK(found_inf.numel() == 1 && found_inf.scalar_type() == at::kFloat,
                "found_inf must be a 1-element float tensor.");
    Launch(TN_OP_amp_update_scale)
        .out(scale)
        .out(tracker)
        .in(found_inf)
        .scalar(growth)
        .scalar(backoff)
        .scalar(interval)
        .run();
    return scale;
}

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("_fused_adam_", &neuron::adam_rate<false>);
    m.impl("_fused_adam_.tensor_lr", &neuron::adam_tensor_rate<false>);
    m.impl("_fused_adamw_", &neuron::adam_rate<true>);
    m.impl("_fused_adamw_.tensor_lr", &neuron::adam_tensor_rate<true>);
    m.impl("_fused_sgd_", &neuron::sgd_rate);
    m.impl("_fused_sgd_.tensor_lr", &neuron::sgd_tensor_rate);
    m.impl("_fused_adagrad_", &neuron::adagrad_rate);
    m.impl("_fused_adagrad_.tensor_lr", &neuron::adagrad_tensor_rate);
    m.impl("_amp_foreach_non_finite_check_and_unscale_", &neuron::amp_unscale);
    m.impl("_amp_update_scale_", &neuron::amp_update_scale);
}

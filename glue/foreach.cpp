// Operators over lists of tensors: one launch for the whole list where all members are alike, else ATen's
// own loop of single operators (mixed dtypes or devices, broadcasts, integers, complex numbers).
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <ATen/ops/_foreach_abs_native.h>
#include <ATen/ops/_foreach_add_native.h>
#include <ATen/ops/_foreach_addcdiv_native.h>
#include <ATen/ops/_foreach_addcmul_native.h>
#include <ATen/ops/_foreach_clamp_max_native.h>
#include <ATen/ops/_foreach_clamp_min_native.h>
#include <ATen/ops/_foreach_copy_native.h>
#include <ATen/ops/_foreach_div_native.h>
#include <ATen/ops/_foreach_exp_native.h>
#include <ATen/ops/_foreach_lerp_native.h>
#include <ATen/ops/_foreach_log_native.h>
#include <ATen/ops/_foreach_maximum_native.h>
#include <ATen/ops/_foreach_minimum_native.h>
#include <ATen/ops/_foreach_mul_native.h>
#include <ATen/ops/_foreach_neg_native.h>
#include <ATen/ops/_foreach_pow_native.h>
#include <ATen/ops/_foreach_reciprocal_native.h>
#include <ATen/ops/_foreach_rsqrt_native.h>
#include <ATen/ops/_foreach_sigmoid_native.h>
#include <ATen/ops/_foreach_sign_native.h>
#include <ATen/ops/_foreach_sqrt_native.h>
#include <ATen/ops/_foreach_sub_native.h>
#include <ATen/ops/_foreach_tanh_native.h>
#include <ATen/ops/_foreach_zero_native.h>

#include "launch.h"
#include "tn/op/foreach.h"

namespace neuron {
namespace {

bool is_dense_float(const at::Tensor& tensor)
{
    return is_neuron(tensor) && at::isFloatingType(tensor.scalar_type()) &&
           c10::elementSize(tensor.scalar_type()) > 1 && !tensor.is_neg() &&
           tensor.is_non_overlapping_and_dense();
}

// What the launch needs of an argument list, and whether one launch can serve it.
struct Plan {
    at::TensorList self;
    bool served = true;
    int64_t lists = 0;
    bool per_tensor = false;

    explicit Plan(at::TensorList list) : self(list)
    {
        served = !self.empty();
        for (const at::Tensor& tensor : self)
            served = served && is_dense_float(tensor) && tensor.device() == self[0].device();
    }
    void see(at::TensorList list)
    {
        lists++;
        served = served && list.size() == self.size();
        for (size_t i = 0; served && i < list.size(); i++)
            served = is_neuron(list[i]) && list[i].device() == self[i].device() &&
                     list[i].scalar_type() == self[i].scalar_type() && !list[i].is_neg() &&
                     list[i].sizes() == self[i].sizes();
    }
    void see(at::ArrayRef<at::Scalar> scalars)
    {
        per_tensor = true;
        served = served && scalars.size() == self.size();
        for (const at::Scalar& scalar : scalars)
            see(scalar);
    }
    void see(const at::Scalar& scalar)
    {
        served = served && !scalar.isComplex();
    }
    void see(const at::Tensor& shared)
    {
        served = served && shared.dim() == 0 && is_neuron(shared) &&
                 shared.device() == self[0].device();
        for (const at::Tensor& tensor : self)
            served = served && tensor.scalar_type() == shared.scalar_type();
    }
    void see(bool) {}
};

void pass_list(Launch& launch, at::TensorList list)
{
    launch.ins(list);
}
template <class T>
void pass_list(Launch&, const T&)
{
}
void pass_shared(Launch& launch, const at::Tensor& tensor)
{
    launch.in(tensor);
}
template <class T>
void pass_shared(Launch&, const T&)
{
}
void pass_scalars(Launch& launch, const at::Scalar& scalar)
{
    launch.scalar(scalar);
}
void pass_scalars(Launch& launch, at::ArrayRef<at::Scalar> scalars)
{
    for (const at::Scalar& scalar : scalars)
        launch.scalar(scalar);
}
void pass_scalars(Launch&, at::TensorList) {}
void pass_scalars(Launch&, const at::Tensor&) {}
void pass_scalars(Launch&, bool) {}

// The lists are checked: fills `outs`.
template <int Op, class... Args>
void launch_foreach(const Plan& plan, at::TensorList outs, const Args&... args)
{
    Launch launch(Op);
    launch.outs(outs);
    (pass_list(launch, args), ...);
    (pass_shared(launch, args), ...);
    launch.scalar(plan.per_tensor).scalar(plan.lists);
    if constexpr (Op == TN_OP_foreach_zero)
        launch.scalar(int64_t{0});
    (pass_scalars(launch, args), ...);
    launch.run();
}

template <int Op, auto Slow, class Signature = decltype(Slow)>
struct Foreach;

template <int Op, auto Slow, class... Args>
struct Foreach<Op, Slow, std::vector<at::Tensor> (*)(at::TensorList, Args...)> {
    static std::vector<at::Tensor> call(at::TensorList self, Args... args)
    {
        Plan plan(self);
        plan.see(self);
        (plan.see(args), ...);
        if (!plan.served)
            return Slow(self, args...);
        std::vector<at::Tensor> outs;
        outs.reserve(self.size());
        for (const at::Tensor& tensor : self)
            outs.push_back(new_tensor_like(tensor, tensor.scalar_type()));
        launch_foreach<Op>(plan, outs, self, args...);
        return outs;
    }
};

// Filling and copying do not read what they write.
template <int Op, auto Slow, class... Args>
struct Foreach<Op, Slow, void (*)(at::TensorList, Args...)> {
    static constexpr bool kReadsSelf = Op != TN_OP_foreach_zero && Op != TN_OP_foreach_copy;

    static void call(at::TensorList self, Args... args)
    {
        Plan plan(self);
        if (kReadsSelf)
            plan.see(self);
        (plan.see(args), ...);
        if (!plan.served)
            return Slow(self, args...);
        if constexpr (kReadsSelf)
            launch_foreach<Op>(plan, self, self, args...);
        else
            launch_foreach<Op>(plan, self, args...);
    }
};

} // namespace
} // namespace neuron

#define NEURON_FOREACH_ONE(op, name, slow)                                                         \
    m.impl(name, &neuron::Foreach<TN_OP_foreach_##op, &at::native::slow>::call)
#define NEURON_FOREACH(op, base, overload, slow)                                                   \
    NEURON_FOREACH_ONE(op, "_foreach_" #base overload, slow);                                      \
    NEURON_FOREACH_ONE(op, "_foreach_" #base "_" overload, slow##_)

#define NEURON_FOREACH_UNARY(op) NEURON_FOREACH(op, op, "", foreach_tensor_##op##_slow)
#define NEURON_FOREACH_SCALAR(op, base)                                                            \
    NEURON_FOREACH(op, base, ".Scalar", foreach_tensor_##base##_scalar_kernel_slow)
#define NEURON_FOREACH_LIST(op, base)                                                              \
    NEURON_FOREACH(op, base, ".List", foreach_tensor_##base##_list_kernel_slow)
#define NEURON_FOREACH_SCALARS(op, base)                                                           \
    NEURON_FOREACH(op, base, ".ScalarList", foreach_tensor_##base##_scalarlist_kernel_slow)
#define NEURON_FOREACH_TENSOR(op, base)                                                            \
    NEURON_FOREACH(op, base, ".Tensor", foreach_tensor_##base##_tensor_kernel_slow)

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    NEURON_FOREACH_LIST(add, add);
    NEURON_FOREACH_SCALAR(add, add);
    NEURON_FOREACH_SCALARS(add, add);
    NEURON_FOREACH_LIST(sub, sub);
    NEURON_FOREACH_SCALAR(sub, sub);
    NEURON_FOREACH_SCALARS(sub, sub);
    NEURON_FOREACH_LIST(mul, mul);
    NEURON_FOREACH_SCALAR(mul, mul);
    NEURON_FOREACH_SCALARS(mul, mul);
    NEURON_FOREACH_TENSOR(mul, mul);
    NEURON_FOREACH_LIST(div, div);
    NEURON_FOREACH_SCALAR(div, div);
    NEURON_FOREACH_SCALARS(div, div);
    NEURON_FOREACH_TENSOR(div, div);
    NEURON_FOREACH_LIST(maximum, clamp_min);
    NEURON_FOREACH_SCALAR(maximum, clamp_min);
    NEURON_FOREACH_LIST(minimum, clamp_max);
    NEURON_FOREACH_SCALAR(minimum, clamp_max);
    NEURON_FOREACH(maximum, maximum, ".List", foreach_tensor_clamp_min_list_kernel_slow);
    NEURON_FOREACH(maximum, maximum, ".Scalar", foreach_tensor_clamp_min_scalar_kernel_slow);
    NEURON_FOREACH(minimum, minimum, ".List", foreach_tensor_clamp_max_list_kernel_slow);
    NEURON_FOREACH(minimum, minimum, ".Scalar", foreach_tensor_clamp_max_scalar_kernel_slow);
    NEURON_FOREACH(addcmul, addcmul, ".Scalar", foreach_tensor_addcmul_scalar_slow);
    NEURON_FOREACH(addcmul, addcmul, ".ScalarList", foreach_tensor_addcmul_scalarlist_slow);
    NEURON_FOREACH(addcdiv, addcdiv, ".Scalar", foreach_tensor_addcdiv_scalar_slow);
    NEURON_FOREACH(addcdiv, addcdiv, ".ScalarList", foreach_tensor_addcdiv_scalarlist_slow);
    NEURON_FOREACH(lerp, lerp, ".List", foreach_tensor_ternary_lerp_slow);
    NEURON_FOREACH(lerp_scalar, lerp, ".Scalar", foreach_tensor_lerp_list_kernel_slow);
    NEURON_FOREACH_SCALAR(pow, pow);
    NEURON_FOREACH_UNARY(sqrt);
    NEURON_FOREACH_UNARY(rsqrt);
    NEURON_FOREACH_UNARY(reciprocal);
    NEURON_FOREACH_UNARY(neg);
    NEURON_FOREACH_UNARY(abs);
    NEURON_FOREACH_UNARY(sign);
    NEURON_FOREACH_UNARY(exp);
    NEURON_FOREACH_UNARY(log);
    NEURON_FOREACH_UNARY(sigmoid);
    NEURON_FOREACH_UNARY(tanh);
    NEURON_FOREACH_ONE(zero, "_foreach_zero_", foreach_tensor_zero_slow_);
    NEURON_FOREACH_ONE(copy, "_foreach_copy_", foreach_tensor_copy_list_kernel_slow_);
}

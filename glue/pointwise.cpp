// Pointwise operators that ATen does not declare as structured: TensorIterator decides shape, dtype,
// overlap and errors, then one launch over the original tensors. Dtypes without a tile primitive fall
// back to the host.
#include <ATen/Dispatch_v2.h>
#include <ATen/ExpandUtils.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/BinaryOps.h>
#include <torch/library.h>

#include <ATen/ops/scalar_tensor.h>

#include "pointwise.h"
#include "tn/op/pointwise_manual.h"

namespace neuron {
namespace {

bool supports(int op, at::ScalarType dtype)
{
    return tn_op_supports(op, static_cast<tn_dtype>(dtype));
}

at::Tensor wrapped(const at::Scalar& value)
{
    at::Tensor tensor = at::scalar_tensor(value, at::device(at::kCPU).dtype(value.type()));
    tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
    return tensor;
}

// ---- unary: functional, in-place, out= -----------------------------------------------------------

enum class Kind { Plain, Float, Bool }; // same dtype, promoted to floating, result bool

at::TensorIterator unary_iterator(Kind kind, at::Tensor& out, const at::Tensor& self)
{
    if (kind == Kind::Float)
        return at::TensorIterator::unary_float_op(out, self);
    if (kind == Kind::Plain)
        return at::TensorIterator::unary_op(out, self);
    return at::TensorIteratorConfig()
        .check_all_same_dtype(false)
        .add_output(out)
        .add_const_input(self)
        .build();
}

template <int Op, Kind kind, class Name, class... Scalars>
struct Unary {
    static at::Tensor& run(at::Tensor& out, const at::Tensor& self, const Scalars&... scalars)
    {
        auto iterator = unary_iterator(kind, out, self);
        at::ScalarType compute = kind == Kind::Bool ? self.scalar_type() : iterator.common_dtype();
        out = iterator.output(0);
        if (iterator.numel() != 0)
            launch_pointwise(Op, out, compute, self, scalars...);
        return out;
    }
    static at::ScalarType compute_dtype(const at::Tensor& self)
    {
        return kind == Kind::Float && at::isIntegralType(self.scalar_type(), true)
                   ? c10::get_default_dtype_as_scalartype()
                   : self.scalar_type();
    }
    static at::Tensor call(const at::Tensor& self, Scalars... scalars)
    {
        if (!supports(Op, compute_dtype(self)))
            return call_fallback<at::Tensor(const at::Tensor&, Scalars...)>(Name::plain, "", self,
                                                                            scalars...);
        at::Tensor out;
        if (kind == Kind::Bool)
            out = new_tensor_like(self, at::kBool);
        else if (self.is_contiguous() && compute_dtype(self) == self.scalar_type())
            out = new_tensor(self.sizes(), self.scalar_type(), self.device());
        if (!out.defined())
            return run(out, self, scalars...);
        if (out.numel() != 0)
            launch_pointwise(Op, out, compute_dtype(self), self, scalars...);
        return out;
    }
    static at::Tensor& in_place(at::Tensor& self, Scalars... scalars)
    {
        if (!supports(Op, compute_dtype(self)))
            return call_fallback<at::Tensor&(at::Tensor&, Scalars...)>(Name::in_place, "", self,
                                                                       scalars...);
        return run(self, self, scalars...);
    }
    static at::Tensor& out(const at::Tensor& self, Scalars... scalars, at::Tensor& out)
    {
        if (!supports(Op, compute_dtype(self)))
            return call_fallback<at::Tensor&(const at::Tensor&, Scalars..., at::Tensor&)>(
                Name::plain, "out", self, scalars..., out);
        return run(out, self, scalars...);
    }
};

#define NEURON_NAME(text)                                                                          \
    struct Name_##text {                                                                           \
        static constexpr const char *plain = "aten::" #text, *in_place = "aten::" #text "_";       \
    }
NEURON_NAME(abs);
NEURON_NAME(isnan);
NEURON_NAME(nan_to_num);
NEURON_NAME(hardswish);
NEURON_NAME(hardtanh);
NEURON_NAME(logical_not);
NEURON_NAME(logical_and);
NEURON_NAME(logical_or);
NEURON_NAME(logical_xor);
NEURON_NAME(logit);
NEURON_NAME(angle);
NEURON_NAME(conj_physical);
NEURON_NAME(relu);

using MaybeDouble = std::optional<double>;
using Abs = Unary<TN_OP_abs, Kind::Plain, Name_abs>;
using IsNan = Unary<TN_OP_isnan, Kind::Bool, Name_isnan>;
using NanToNum = Unary<TN_OP_nan_to_num, Kind::Plain, Name_nan_to_num, MaybeDouble, MaybeDouble, MaybeDouble>;
using Hardswish = Unary<TN_OP_hardswish, Kind::Plain, Name_hardswish>;
using Hardtanh = Unary<TN_OP_hardtanh, Kind::Plain, Name_hardtanh, const at::Scalar&, const at::Scalar&>;
using Logit = Unary<TN_OP_logit, Kind::Float, Name_logit, MaybeDouble>;
using Angle = Unary<TN_OP_angle, Kind::Float, Name_angle>;
using ConjPhysical = Unary<TN_OP_conj_physical, Kind::Plain, Name_conj_physical>;
using LogicalNot = Unary<TN_OP_logical_not, Kind::Bool, Name_logical_not>;
using Relu = Unary<TN_OP_relu, Kind::Plain, Name_relu>;

// Functions from complex to real numbers; the others are plain.
template <int Op, class Plain>
struct ToReal {
    static at::Tensor& out(const at::Tensor& self, at::Tensor& out)
    {
        if (!self.is_complex() || out.is_complex() || !supports(Op, self.scalar_type()))
            return Plain::out(self, out);
        at::ScalarType real = c10::toRealValueType(self.scalar_type());
        TORCH_CHECK(at::canCast(real, out.scalar_type()), "result type ", real,
                    " can't be cast to the desired output type ", out.scalar_type());
        at::native::resize_output(out, self.sizes());
        if (out.numel() != 0)
            launch_pointwise(Op, out, self.scalar_type(), self);
        return out;
    }
    static at::Tensor call(const at::Tensor& self)
    {
        if (!self.is_complex() || !supports(Op, self.scalar_type()))
            return Plain::call(self);
        at::Tensor result = new_tensor_like(self, c10::toRealValueType(self.scalar_type()));
        return out(self, result);
    }
};
using AbsOf = ToReal<TN_OP_abs, Abs>;
using AngleOf = ToReal<TN_OP_angle, Angle>;

at::Tensor& conj_physical_(at::Tensor& self)
{
    return self.is_complex() ? ConjPhysical::in_place(self) : self;
}

at::Tensor relu(const at::Tensor& self)
{
    TORCH_CHECK(self.scalar_type() != at::kBool, "Boolean inputs not supported for relu");
    return Relu::call(self);
}

at::Tensor& relu_(at::Tensor& self)
{
    TORCH_CHECK(self.scalar_type() != at::kBool, "Boolean inputs not supported for relu");
    return Relu::in_place(self);
}

void check_hardtanh(const at::Tensor& self, const at::Scalar& min, const at::Scalar& max)
{
    TORCH_CHECK(self.scalar_type() != at::kBool, "Bool inputs not supported for hardtanh");
    TORCH_CHECK(at::isFloatingType(self.scalar_type()) || self.scalar_type() != at::kByte ||
                    (min.toDouble() >= 0 && max.toDouble() >= 0),
                "cannot do hardtanh on an unsigned type with negative limits");
    TORCH_CHECK(!(min.toDouble() > max.toDouble()), "min_val cannot be greater than max_val");
}

at::Tensor hardtanh(const at::Tensor& self, const at::Scalar& min, const at::Scalar& max)
{
    check_hardtanh(self, min, max);
    return Hardtanh::call(self, min, max);
}

at::Tensor& hardtanh_(at::Tensor& self, const at::Scalar& min, const at::Scalar& max)
{
    check_hardtanh(self, min, max);
    return Hardtanh::in_place(self, min, max);
}

at::Tensor& hardtanh_out(const at::Tensor& self, const at::Scalar& min, const at::Scalar& max,
                         at::Tensor& out)
{
    check_hardtanh(self, min, max);
    return Hardtanh::out(self, min, max, out);
}

// ---- binary and ternary over one iterator ----------------------------------------------------------

// Builds with ATen's binary rules and launches; `out` undefined: a new tensor.
template <int Op, class... Scalars>
at::Tensor& binary(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const Scalars&... scalars)
{
    auto iterator = at::TensorIterator::binary_op(out, a, b);
    out = iterator.output(0);
    if (iterator.numel() != 0)
        launch_pointwise(Op, out, iterator.common_dtype(), a, b, scalars...);
    return out;
}

template <int Op, class Name>
struct Logical {
    static at::Tensor& out(const at::Tensor& a, const at::Tensor& b, at::Tensor& out)
    {
        auto compute = at::result_type(a, b);
        if (!supports(Op, compute))
            return call_fallback<at::Tensor&(const at::Tensor&, const at::Tensor&, at::Tensor&)>(
                Name::plain, "out", a, b, out);
        auto iterator = at::TensorIteratorConfig()
                            .set_check_mem_overlap(true)
                            .add_owned_output(out)
                            .add_owned_const_input(a)
                            .add_owned_const_input(b)
                            .allow_cpu_scalars(true)
                            .check_all_same_dtype(false)
                            .build();
        if (iterator.numel() != 0)
            launch_pointwise(Op, out, compute, a, b);
        return out;
    }
};

template <int Op>
at::Tensor gradient(const char* name, const at::Tensor& grad, const at::Tensor& self)
{
    at::Tensor out;
    if (!supports(Op, at::result_type(grad, self)))
        return call_fallback<at::Tensor(const at::Tensor&, const at::Tensor&)>(name, "", grad, self);
    return binary<Op>(out, grad, self);
}

at::Tensor hardswish_backward(const at::Tensor& grad, const at::Tensor& self)
{
    return gradient<TN_OP_hardswish_backward>("aten::hardswish_backward", grad, self);
}

at::Tensor mish_backward(const at::Tensor& grad, const at::Tensor& self)
{
    return gradient<TN_OP_mish_backward>("aten::mish_backward", grad, self);
}

at::Tensor& hardtanh_backward_out(const at::Tensor& grad, const at::Tensor& self, const at::Scalar& min,
                                  const at::Scalar& max, at::Tensor& out)
{
    return binary<TN_OP_hardtanh_backward>(out, grad, self, min, max);
}

at::Tensor hardtanh_backward(const at::Tensor& grad, const at::Tensor& self, const at::Scalar& min,
                             const at::Scalar& max)
{
    at::Tensor out;
    return binary<TN_OP_hardtanh_backward>(out, grad, self, min, max);
}

at::Tensor rsub(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha)
{
    TORCH_CHECK(self.scalar_type() != at::kBool && other.scalar_type() != at::kBool,
                "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to "
                "invert a mask, use the `~` or `logical_not()` operator instead.");
    at::native::alpha_check(at::result_type(self, other), alpha);
    if (!supports(TN_OP_rsub, at::result_type(self, other)))
        return call_fallback<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Scalar&)>(
            "aten::rsub", "Tensor", self, other, alpha);
    at::Tensor out;
    return binary<TN_OP_rsub>(out, self, other, alpha);
}

// ---- floor_divide ----------------------------------------------------------------------------------

at::Tensor& floor_divide_out(const at::Tensor& self, const at::Tensor& other, at::Tensor& out)
{
    if (!supports(TN_OP_floor_divide, at::result_type(self, other)))
        return call_fallback<at::Tensor&(const at::Tensor&, const at::Tensor&, at::Tensor&)>(
            "aten::floor_divide", "out", self, other, out);
    return binary<TN_OP_floor_divide>(out, self, other);
}

at::Tensor floor_divide(const at::Tensor& self, const at::Tensor& other)
{
    if (!supports(TN_OP_floor_divide, at::result_type(self, other)))
        return call_fallback<at::Tensor(const at::Tensor&, const at::Tensor&)>("aten::floor_divide", "",
                                                                               self, other);
    at::Tensor out;
    return binary<TN_OP_floor_divide>(out, self, other);
}

at::Tensor& floor_divide_(at::Tensor& self, const at::Tensor& other)
{
    return neuron::floor_divide_out(self, other, self);
}

// ---- log sigmoid: the host's buffer has no use here ----------------------------------------------

std::tuple<at::Tensor&, at::Tensor&> log_sigmoid_out(const at::Tensor& self, at::Tensor& out,
                                                     at::Tensor& buffer)
{
    auto iterator = at::TensorIterator::unary_op(out, self);
    if (iterator.numel() != 0)
        launch_pointwise(TN_OP_log_sigmoid, out, self.scalar_type(), self);
    at::native::resize_output(buffer, {0});
    return {out, buffer};
}

std::tuple<at::Tensor, at::Tensor> log_sigmoid(const at::Tensor& self)
{
    at::Tensor out;
    auto iterator = at::TensorIterator::unary_op(out, self);
    out = iterator.output(0);
    if (iterator.numel() != 0)
        launch_pointwise(TN_OP_log_sigmoid, out, self.scalar_type(), self);
    return {out, new_tensor({0}, self.scalar_type(), self.device())};
}

at::Tensor log_sigmoid_backward(const at::Tensor& grad, const at::Tensor& self, const at::Tensor&)
{
    at::Tensor out;
    return binary<TN_OP_log_sigmoid_backward>(out, grad, self);
}

at::Tensor& log_sigmoid_backward_out(const at::Tensor& grad, const at::Tensor& self, const at::Tensor&,
                                     at::Tensor& out)
{
    return binary<TN_OP_log_sigmoid_backward>(out, grad, self);
}

// ---- prelu -----------------------------------------------------------------------------------------

at::Tensor prelu_kernel(const at::Tensor& self, const at::Tensor& weight)
{
    at::Tensor out;
    return binary<TN_OP_prelu>(out, self, weight);
}

std::tuple<at::Tensor, at::Tensor> prelu_backward(const at::Tensor& grad, const at::Tensor& self,
                                                  const at::Tensor& weight)
{
    auto sizes = at::infer_size(at::infer_size(grad.sizes(), self.sizes()), weight.sizes());
    auto grad_self = new_tensor(sizes, self.scalar_type(), self.device());
    auto grad_weight = new_tensor(sizes, weight.scalar_type(), self.device());
    if (grad_self.numel() != 0)
        Launch(TN_OP_prelu_backward)
            .out(grad_self)
            .out(grad_weight)
            .in(grad)
            .in(self)
            .in(weight)
            .compute(self.scalar_type())
            .run();
    return {grad_self, grad_weight};
}

// ---- where and masked_fill -------------------------------------------------------------------------

void check_condition(const at::Tensor& condition)
{
    TORCH_CHECK(condition.scalar_type() == at::kBool || condition.scalar_type() == at::kByte,
                "where expected condition to be a boolean tensor, but got a tensor with dtype ",
                condition.scalar_type());
}

at::Tensor& where_out(const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other,
                      at::Tensor& out)
{
    check_condition(condition);
    auto compute = at::result_type(self, other);
    if (!supports(TN_OP_where, compute))
        return call_fallback<at::Tensor&(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                         at::Tensor&)>("aten::where", "self_out", condition, self, other,
                                                       out);
    auto iterator = at::TensorIteratorConfig()
                        .check_all_same_dtype(false)
                        .allow_cpu_scalars(true)
                        .add_output(out)
                        .add_const_input(condition)
                        .add_const_input(self)
                        .add_const_input(other)
                        .build();
    TORCH_CHECK(out.scalar_type() == compute, "Expected out tensor to have dtype ", compute,
                ", but got ", out.scalar_type(), " instead");
    if (iterator.numel() != 0)
        launch_pointwise(TN_OP_where, out, compute, condition, self, other);
    return out;
}

at::Tensor where(const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other)
{
    check_condition(condition);
    auto compute = at::result_type(self, other);
    if (!supports(TN_OP_where, compute))
        return call_fallback<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&)>(
            "aten::where", "self", condition, self, other);
    const at::Tensor& placed = is_neuron(condition) ? condition : is_neuron(self) ? self : other;
    auto sizes = at::infer_size(at::infer_size(condition.sizes(), self.sizes()), other.sizes());
    at::Tensor out = self.sizes() == sizes && is_neuron(self)
                         ? new_tensor_like(self, compute)
                         : new_tensor(sizes, compute, placed.device());
    return where_out(condition, self, other, out);
}

// Raises RuntimeError where the number does not fit the type, as Scalar's own conversion does.
void check_convertible(const at::Scalar& value, at::ScalarType type)
{
    AT_DISPATCH_V2(type, "masked_fill", AT_WRAP([&] { (void)value.to<scalar_t>(); }),
                   AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES),
                   AT_EXPAND(AT_FLOAT8_TYPES), at::kBool, at::kHalf, at::kBFloat16, at::kComplexHalf);
}

at::Tensor& masked_fill_tensor(at::Tensor& self, const at::Tensor& mask, const at::Tensor& value)
{
    TORCH_CHECK(value.dim() == 0, "masked_fill_ only supports a 0-dimensional value tensor, but got "
                "tensor with ", value.dim(), " dimension(s).");
    TORCH_CHECK(mask.scalar_type() == at::kBool,
                "masked_fill_ only supports boolean masks, but got mask with dtype ", mask.scalar_type());
    TORCH_CHECK(!value.is_complex() || self.is_complex(), "value cannot be converted to type ",
                self.scalar_type(), " without overflow");
    if (!is_neuron(value)) // a number of the device is not waited for
        check_convertible(value.item(), self.scalar_type());
    if (!supports(TN_OP_masked_fill, self.scalar_type()))
        return call_fallback<at::Tensor&(at::Tensor&, const at::Tensor&, const at::Tensor&)>(
            "aten::masked_fill_", "Tensor", self, mask, value);
    auto iterator = at::TensorIteratorConfig()
                        .set_check_mem_overlap(false)
                        .check_all_same_dtype(false)
                        .resize_outputs(false)
                        .add_output(self)
                        .add_const_input(mask)
                        .build();
    if (iterator.numel() != 0)
        launch_pointwise(TN_OP_masked_fill, self, self.scalar_type(), self, mask, value);
    return self;
}

at::Tensor& masked_fill_scalar(at::Tensor& self, const at::Tensor& mask, const at::Scalar& value)
{
    return masked_fill_tensor(self, mask, wrapped(value));
}

// ---- complex numbers from two real parts -----------------------------------------------------------

template <int Op>
at::Tensor& from_parts(const char* name, const at::Tensor& a, const at::Tensor& b, at::Tensor& out)
{
    TORCH_CHECK(a.scalar_type() == b.scalar_type(), "Expected object of scalar type ", a.scalar_type(),
                " but got scalar type ", b.scalar_type(), " for second argument");
    TORCH_CHECK(at::isFloatingType(a.scalar_type()), "Expected both inputs to be Half, Float or Double "
                "tensors but got ", a.scalar_type(), " and ", b.scalar_type());
    TORCH_CHECK(out.scalar_type() == c10::toComplexType(a.scalar_type()),
                "Expected object of scalar type ", c10::toComplexType(a.scalar_type()),
                " but got scalar type ", out.scalar_type(), " for argument 'out'");
    if (!supports(Op, out.scalar_type()))
        return call_fallback<at::Tensor&(const at::Tensor&, const at::Tensor&, at::Tensor&)>(name, "out", a,
                                                                                             b, out);
    auto iterator = at::TensorIteratorConfig()
                        .add_output(out)
                        .add_const_input(a)
                        .add_const_input(b)
                        .check_all_same_dtype(false)
                        .build();
    if (iterator.numel() != 0)
        launch_pointwise(Op, out, out.scalar_type(), a, b);
    return out;
}

at::Tensor& complex_out(const at::Tensor& real, const at::Tensor& imag, at::Tensor& out)
{
    return from_parts<TN_OP_complex>("aten::complex", real, imag, out);
}

at::Tensor& polar_out(const at::Tensor& abs, const at::Tensor& angle, at::Tensor& out)
{
    return from_parts<TN_OP_polar>("aten::polar", abs, angle, out);
}

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    using namespace neuron;
    m.impl("relu", &relu);
    m.impl("relu_", &relu_);
    m.impl("abs.out", &AbsOf::out);
    m.impl("isnan", &IsNan::call);
    m.impl("nan_to_num.out", &NanToNum::out);
    m.impl("hardswish", &Hardswish::call);
    m.impl("hardswish_", &Hardswish::in_place);
    m.impl("hardswish.out", &Hardswish::out);
    m.impl("hardswish_backward", &hardswish_backward);
    m.impl("hardtanh", &hardtanh);
    m.impl("hardtanh_", &hardtanh_);
    m.impl("hardtanh.out", &hardtanh_out);
    m.impl("hardtanh_backward", &hardtanh_backward);
    m.impl("hardtanh_backward.grad_input", &hardtanh_backward_out);
    m.impl("logit", &Logit::call);
    m.impl("logit.out", &Logit::out);
    m.impl("angle", &AngleOf::call);
    m.impl("angle.out", &AngleOf::out);
    m.impl("conj_physical_", &conj_physical_);
    m.impl("conj_physical.out", &ConjPhysical::out);
    m.impl("logical_not.out", &LogicalNot::out);
    m.impl("logical_and.out", &Logical<TN_OP_logical_and, Name_logical_and>::out);
    m.impl("logical_or.out", &Logical<TN_OP_logical_or, Name_logical_or>::out);
    m.impl("logical_xor.out", &Logical<TN_OP_logical_xor, Name_logical_xor>::out);
    m.impl("floor_divide", &floor_divide);
    m.impl("floor_divide.out", &floor_divide_out);
    m.impl("floor_divide_.Tensor", &floor_divide_);
    m.impl("log_sigmoid_forward", &log_sigmoid);
    m.impl("log_sigmoid_forward.output", &log_sigmoid_out);
    m.impl("log_sigmoid_backward", &log_sigmoid_backward);
    m.impl("log_sigmoid_backward.grad_input", &log_sigmoid_backward_out);
    m.impl("_prelu_kernel", &prelu_kernel);
    m.impl("_prelu_kernel_backward", &prelu_backward);
    m.impl("mish_backward", &mish_backward);
    m.impl("rsub.Tensor", &rsub);
    m.impl("where.self", &where);
    m.impl("where.self_out", &where_out);
    m.impl("masked_fill_.Scalar", &masked_fill_scalar);
    m.impl("masked_fill_.Tensor", &masked_fill_tensor);
    m.impl("complex.out", &complex_out);
    m.impl("polar.out", &polar_out);
}

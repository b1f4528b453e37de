// Pointwise operators that the generator registers: ATen's meta function, then one launch.
//
// Two ways: a fast one for the plain case (one floating dtype, equal sizes, contiguous, no broadcast),
// which needs no TensorIterator, and the meta function's for everything else. A dtype for which the
// table has no tile primitive goes to the host fallback, and is counted there.
#pragma once

#include "fallback.h"
#include "launch.h"
#include "structured.h"

namespace neuron {

// What the output's dtype is in the fast case.
enum class Result { Same, Bool };

// ---- the fast way: looks at the tensors of an argument list ----------------------------------

struct PlainCase {
    const at::Tensor* first = nullptr;
    bool plain = true;

    void see(const at::Tensor& tensor)
    {
        if (!plain)
            return;
        const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
        if (!first) {
            plain = tensor.defined() && impl->device_type() == c10::DeviceType::PrivateUse1 &&
                    c10::isFloatingType(tensor.scalar_type()) && impl->is_contiguous();
            first = &tensor;
            return;
        }
        if (tensor.defined() && impl->device_type() == c10::DeviceType::CPU) {
            // A Python number: never decides the dtype against a floating tensor.
            plain = impl->is_wrapped_number() && !c10::isComplexType(tensor.scalar_type());
            return;
        }
        plain = tensor.defined() && tensor.scalar_type() == first->scalar_type() &&
                impl->device() == first->device() && impl->sizes() == first->sizes() &&
                impl->is_contiguous();
    }
    void see(const at::Scalar& scalar)
    {
        plain = plain && !scalar.isComplex();
    }
    void see(const std::optional<at::Scalar>& scalar)
    {
        plain = plain && scalar && !scalar->isComplex();
    }
    void see(const std::optional<at::Tensor>&)
    {
        plain = false;
    }
    // An order or a number of digits, which the meta function checks.
    void see(int64_t)
    {
        plain = false;
    }
    template <class T>
    void see(const T&)
    {
    }
};

// ---- launch arguments --------------------------------------------------------------------------

inline void pass(Launch& launch, const at::Tensor& tensor)
{
    launch.in(tensor);
}
inline void pass(Launch& launch, const std::optional<at::Tensor>& tensor)
{
    launch.in(tensor);
}
template <class T>
void pass(Launch&, const T&)
{
}
inline void pass_scalar(Launch&, const at::Tensor&) {}
inline void pass_scalar(Launch&, const std::optional<at::Tensor>&) {}
template <class T>
void pass_scalar(Launch& launch, const T& value)
{
    launch.scalar(value);
}

template <class... Args>
void launch_pointwise(int op, const at::Tensor& out, at::ScalarType compute, const Args&... args)
{
    Launch launch(op);
    launch.out(out);
    (pass(launch, args), ...);
    (pass_scalar(launch, args), ...);
    launch.compute(compute).run();
}

inline const at::Tensor& first_tensor(const at::Tensor& tensor)
{
    return tensor;
}
template <class... Args>
const at::Tensor& first_tensor(const at::Tensor& tensor, const Args&...)
{
    return tensor;
}
template <class T, class... Args>
    requires(!std::is_same_v<T, at::Tensor>)
const at::Tensor& first_tensor(const T&, const Args&... args)
{
    return first_tensor(args...);
}

// ---- the three forms ---------------------------------------------------------------------------
// Name: { static constexpr const char *name, *overload } of the dispatcher, for the fallback.

template <class Meta, int Op, Result Kind, class Name, class... Args>
struct Pointwise {
    static at::Tensor call(Args... args)
    {
        PlainCase plain;
        (plain.see(args), ...);
        if (plain.plain && plain.first) [[likely]] {
            auto dtype = plain.first->scalar_type();
            if (tn_op_supports(Op, static_cast<tn_dtype>(dtype))) [[likely]] {
                auto out = new_tensor(plain.first->sizes(), Kind == Result::Bool ? at::kBool : dtype,
                                      plain.first->device());
                if (out.numel() != 0)
                    launch_pointwise(Op, out, dtype, args...);
                return out;
            }
        }
        Structured<Meta> op;
        op.meta(meta_argument(args)...);
        auto compute = op.compute_dtype(first_tensor(args...));
        if (!tn_op_supports(Op, static_cast<tn_dtype>(compute)))
            return call_fallback<at::Tensor(Args...)>(Name::name, Name::overload, args...);
        if (op.output().numel() != 0)
            launch_pointwise(Op, op.output(), compute, args...);
        return op.take();
    }
};

// True when writing `self` while reading `other` element by element is safe without a closer look.
inline bool exact_or_no_alias(const at::Tensor& self, const at::Tensor& other)
{
    return !other.defined() || !other.has_storage() || !self.storage().is_alias_of(other.storage()) ||
           self.storage_offset() == other.storage_offset();
}
template <class T>
bool exact_or_no_alias(const at::Tensor&, const T&)
{
    return true;
}

template <class Meta, int Op, Result Kind, class Name, class... Args>
struct PointwiseInPlace {
    static at::Tensor& call(at::Tensor& self, Args... args)
    {
        if constexpr (Kind == Result::Same) {
            PlainCase plain;
            plain.see(self);
            (plain.see(args), ...);
            if (plain.plain && (exact_or_no_alias(self, args) && ...) &&
                tn_op_supports(Op, static_cast<tn_dtype>(self.scalar_type()))) [[likely]] {
                if (self.numel() != 0)
                    launch_pointwise(Op, self, self.scalar_type(), self, args...);
                return self;
            }
        }
        Structured<Meta> op(Variant::InPlace, {self});
        op.meta(self, meta_argument(args)...);
        auto compute = op.compute_dtype(self);
        if (!tn_op_supports(Op, static_cast<tn_dtype>(compute)))
            return call_fallback<at::Tensor&(at::Tensor&, Args...)>(Name::name, Name::overload, self,
                                                                    args...);
        if (op.output().numel() != 0)
            launch_pointwise(Op, op.output(), compute, self, args...);
        op.finish();
        return self;
    }
};

template <class Meta, int Op, class Name, class... Args>
struct PointwiseOut {
    static at::Tensor& call(Args... args, at::Tensor& out)
    {
        Structured<Meta> op(Variant::Out, {out});
        op.meta(meta_argument(args)...);
        auto compute = op.compute_dtype(first_tensor(args...));
        if (!tn_op_supports(Op, static_cast<tn_dtype>(compute)))
            return call_fallback<at::Tensor&(Args..., at::Tensor&)>(Name::name, Name::overload,
                                                                    args..., out);
        if (op.output().numel() != 0)
            launch_pointwise(Op, op.output(), compute, args...);
        op.finish();
        return out;
    }
};

} // namespace neuron

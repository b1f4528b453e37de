// Builds one tn_launch_desc from tensors and numbers and runs it. No arithmetic happens here.
//
//     Launch(TN_OP_add).out(result).in(self).in(other).scalar(alpha).compute(dtype).run();
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/util/SmallVector.h>

#include "error.h"
#include "guard.h"
#include "tensor.h"

namespace neuron {

inline tn_scalar to_scalar(const c10::Scalar& value)
{
    tn_scalar scalar{};
    if (value.isFloatingPoint()) {
        scalar.kind = TN_SCALAR_FLOAT;
        scalar.d = value.toDouble();
    } else if (value.isComplex()) {
        auto number = value.toComplexDouble();
        scalar.kind = TN_SCALAR_COMPLEX;
        scalar.c[0] = number.real();
        scalar.c[1] = number.imag();
    } else if (value.isBoolean()) {
        scalar.kind = TN_SCALAR_BOOL;
        scalar.i = value.toBool();
    } else {
        scalar.kind = TN_SCALAR_INT;
        scalar.i = value.isUnsigned() ? static_cast<int64_t>(value.toUInt64()) : value.toLong();
    }
    return scalar;
}

inline tn_scalar to_scalar(const tn_scalar& value)
{
    return value;
}

inline tn_scalar to_scalar(double value)
{
    tn_scalar scalar{};
    scalar.kind = TN_SCALAR_FLOAT;
    scalar.d = value;
    return scalar;
}

inline tn_scalar to_scalar(int64_t value)
{
    tn_scalar scalar{};
    scalar.kind = TN_SCALAR_INT;
    scalar.i = value;
    return scalar;
}

inline tn_scalar to_scalar(bool value)
{
    tn_scalar scalar{};
    scalar.kind = TN_SCALAR_BOOL;
    scalar.i = value;
    return scalar;
}

inline tn_scalar to_scalar(const std::optional<c10::Scalar>& value)
{
    return value ? to_scalar(*value) : tn_scalar{};
}

inline tn_scalar to_scalar(std::optional<double> value)
{
    return value ? to_scalar(*value) : tn_scalar{};
}

// Modes that ATen passes as text, by the codes that the kernels know.
int64_t mode_code(std::string_view text);

inline tn_scalar to_scalar(std::string_view text)
{
    return to_scalar(mode_code(text));
}

inline tn_scalar to_scalar(std::optional<std::string_view> text)
{
    return to_scalar(text ? mode_code(*text) : int64_t{0});
}

class Launch {
  public:
    explicit Launch(int op)
    {
        desc_ = {};
        desc_.op = static_cast<uint16_t>(op);
        desc_.compute_dtype = TN_DTYPE_NONE;
    }

    Launch& out(const at::TensorBase& tensor)
    {
        desc_.num_outputs++;
        return operand(tensor);
    }
    // A tensor of the device, or a 0-dim host tensor that is passed by value. Undefined: ABSENT.
    Launch& in(const at::TensorBase& tensor)
    {
        return operand(tensor);
    }
    Launch& in(const std::optional<at::Tensor>& tensor)
    {
        return tensor ? operand(*tensor) : absent();
    }
    Launch& outs(at::ArrayRef<at::Tensor> tensors)
    {
        for (const auto& tensor : tensors)
            out(tensor);
        return *this;
    }
    Launch& ins(at::ArrayRef<at::Tensor> tensors)
    {
        for (const auto& tensor : tensors)
            in(tensor);
        return *this;
    }
    Launch& absent()
    {
        operands_.emplace_back();
        operands_.back() = {};
        operands_.back().flags = TN_OPERAND_ABSENT;
        operands_.back().dtype = TN_DTYPE_NONE;
        return *this;
    }
    // Host memory that stays valid until the caller has waited for the stream.
    Launch& host_out(const at::TensorBase& tensor)
    {
        desc_.num_outputs++;
        return host(tensor);
    }
    Launch& host_in(const at::TensorBase& tensor)
    {
        return host(tensor);
    }
    template <class T>
    Launch& scalar(const T& value)
    {
        scalars_.push_back(to_scalar(value));
        return *this;
    }
    Launch& compute(at::ScalarType dtype)
    {
        desc_.compute_dtype = static_cast<uint8_t>(dtype);
        return *this;
    }
    Launch& rng(uint64_t seed, uint64_t offset)
    {
        desc_.rng_seed = seed;
        desc_.rng_offset = offset;
        return *this;
    }
    // The stream defaults to the current one of the first operand's device.
    Launch& on(tn_stream* stream)
    {
        desc_.stream = stream;
        return *this;
    }
    // Host operands are done with when run_complete() returns; see TN_LAUNCH_COMPLETE_HOST.
    void run_complete();
    void run()
    {
        check(run_status());
    }
    tn_status run_status()
    {
        desc_.operands = operands_.data();
        desc_.num_operands = static_cast<uint16_t>(operands_.size());
        desc_.scalars = scalars_.data();
        desc_.num_scalars = static_cast<uint16_t>(scalars_.size());
        if (!desc_.stream)
            desc_.stream = current_stream(device_);
        return tn_launch(&desc_);
    }

  private:
    Launch& operand(const at::TensorBase& tensor);
    Launch& immediate(const at::TensorBase& tensor);
    [[noreturn]] void refuse_devices(c10::DeviceIndex other) const;
    Launch& host(const at::TensorBase& tensor);

    void describe(tn_operand& operand, const at::TensorBase& tensor)
    {
        const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
        operand.sizes = impl->sizes().data();
        operand.strides = impl->strides().data();
        operand.ndim = static_cast<int32_t>(impl->dim());
        operand.dtype = static_cast<uint8_t>(c10::typeMetaToScalarType(impl->dtype()));
        operand.flags = 0;
        operand.value = {};
        if (impl->key_set().has_any(kLazyBits)) [[unlikely]]
            operand.flags = static_cast<uint8_t>((impl->is_conj() ? TN_OPERAND_CONJ : 0) |
                                                 (impl->is_neg() ? TN_OPERAND_NEG : 0));
    }

    static constexpr c10::DispatchKeySet kLazyBits =
        c10::DispatchKeySet(c10::DispatchKey::Conjugate) |
        c10::DispatchKeySet(c10::DispatchKey::Negative);

    tn_launch_desc desc_;
    c10::DeviceIndex device_ = -1;
    c10::SmallVector<tn_operand, 5> operands_;
    c10::SmallVector<tn_scalar, 4> scalars_;
};

inline Launch& Launch::operand(const at::TensorBase& tensor)
{
    if (!tensor.defined())
        return absent();
    if (tensor.device().type() != c10::DeviceType::PrivateUse1) [[unlikely]]
        return immediate(tensor);
    c10::DeviceIndex index = tensor.device().index();
    if (device_ < 0)
        device_ = index;
    else if (index != device_ && !desc_.stream) [[unlikely]] // a copy between devices names its stream
        refuse_devices(index);
    operands_.emplace_back();
    tn_operand& result = operands_.back();
    const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
    result.block = block_of(impl->unsafe_storage());
    result.generation = 0;
    result.data = nullptr;
    result.offset_bytes = impl->storage_offset() * static_cast<int64_t>(impl->itemsize());
    if (result.block) // imported memory (DLPack) may begin inside its block
        result.offset_bytes += static_cast<const char*>(impl->unsafe_storage().data()) -
                               static_cast<const char*>(result.block->data);
    describe(result, tensor);
    return *this;
}

} // namespace neuron

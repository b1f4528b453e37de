// Tensors of the device: plain TensorImpl over a StorageImpl whose DataPtr context is a tn_block.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKeySet.h>

#include "allocator.h"
#include "tn/runtime.h"

namespace neuron {

inline constexpr c10::DispatchKeySet kKeySet{c10::DispatchKey::PrivateUse1};

inline bool is_neuron(const at::TensorBase& tensor)
{
    return tensor.defined() && tensor.device().type() == c10::DeviceType::PrivateUse1;
}

// A new tensor on `device`; contents undefined. The first form is contiguous.
at::Tensor new_tensor(at::IntArrayRef sizes, at::ScalarType dtype, c10::Device device);
at::Tensor new_tensor(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype,
                      c10::Device device);

// A new tensor with the sizes and, where it is dense and non-overlapping, the strides of `like`.
at::Tensor new_tensor_like(const at::Tensor& like, at::ScalarType dtype);

// A tensor over existing storage, sharing it.
at::Tensor new_view(const c10::Storage& storage, at::ScalarType dtype, at::IntArrayRef sizes,
                    at::IntArrayRef strides, int64_t storage_offset);

// Grows or shrinks a storage in stream order; the common prefix of the bytes is kept.
void resize_storage(c10::StorageImpl* storage, size_t bytes);

// Raises RuntimeError as ATen does when a defined tensor sits on another device than the first one.
void check_same_device(const char* op, std::initializer_list<const at::Tensor*> tensors);

// A factory's options as ATen resolves them: default dtype, the device with its index, strided only.
at::ScalarType resolve_dtype(std::optional<at::ScalarType> dtype);
c10::Device resolve_device(std::optional<c10::Device> device);

} // namespace neuron

#include "tensor.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "launch.h"
#include "tn/op/copy.h"

namespace neuron {
namespace {

c10::intrusive_ptr<c10::StorageImpl> new_storage(size_t bytes, c10::Device device)
{
    return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                 allocate_on(bytes, device.index()),
                                                 neuron_allocator(), /*resizable=*/true);
}

// Quantised dtypes have no neuron representation; everything that ATen stores densely has.
void check_dtype(at::ScalarType dtype)
{
    TORCH_CHECK_NOT_IMPLEMENTED(!c10::isQIntType(dtype) && tn_dtype_size(static_cast<tn_dtype>(dtype)) != 0,
                                "neuron tensors cannot have dtype ", dtype,
                                ": quantised and packed dtypes are not supported on this device");
}

// An operator's result follows its first tensor: here that one is not the device's own.
void check_device(c10::Device device)
{
    TORCH_CHECK(device.type() == c10::DeviceType::PrivateUse1, "Expected all tensors to be on the same "
                "device, but found at least two devices, neuron and ", device, "!");
}

} // namespace

at::Tensor new_tensor(at::IntArrayRef sizes, at::ScalarType dtype, c10::Device device)
{
    check_device(device);
    check_dtype(dtype);
    auto meta = c10::scalarTypeToTypeMeta(dtype);
    size_t bytes = at::detail::computeStorageNbytesContiguous(sizes, meta.itemsize());
    auto tensor = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(new_storage(bytes, device)), kKeySet, meta);
    if (sizes.size() != 1 || sizes[0] != 0)
        tensor.unsafeGetTensorImpl()->generic_set_sizes_contiguous(sizes);
    return tensor;
}

at::Tensor new_tensor(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype,
                      c10::Device device)
{
    check_device(device);
    check_dtype(dtype);
    auto meta = c10::scalarTypeToTypeMeta(dtype);
    size_t bytes = at::detail::computeStorageNbytes(sizes, strides, meta.itemsize());
    auto tensor = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(new_storage(bytes, device)), kKeySet, meta);
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
    return tensor;
}

at::Tensor new_tensor_like(const at::Tensor& like, at::ScalarType dtype)
{
    if (like.is_contiguous() || !like.is_non_overlapping_and_dense())
        return new_tensor(like.sizes(), dtype, like.device());
    return new_tensor(like.sizes(), like.strides(), dtype, like.device());
}

at::Tensor new_view(const c10::Storage& storage, at::ScalarType dtype, at::IntArrayRef sizes,
                    at::IntArrayRef strides, int64_t storage_offset)
{
    auto tensor = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(storage), kKeySet, c10::scalarTypeToTypeMeta(dtype));
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, storage_offset);
    return tensor;
}

void resize_storage(c10::StorageImpl* storage, size_t bytes)
{
    TORCH_CHECK(storage->resizable(), "Trying to resize storage that is not resizable");
    size_t kept = std::min(bytes, storage->nbytes());
    c10::Device device = storage->device();
    at::DataPtr fresh = allocate_on(bytes, device.index());
    if (kept > 0) {
        c10::Storage old_owner(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage));
        auto new_owner = c10::Storage(c10::make_intrusive<c10::StorageImpl>(
            c10::StorageImpl::use_byte_size_t(), bytes, std::move(fresh), neuron_allocator(), true));
        int64_t size = static_cast<int64_t>(kept), stride = 1;
        Launch(TN_OP_copy)
            .out(new_view(new_owner, at::kByte, {size}, {stride}, 0))
            .in(new_view(old_owner, at::kByte, {size}, {stride}, 0))
            .run();
        fresh = new_owner.set_data_ptr(at::DataPtr(nullptr, device));
    }
    storage->set_data_ptr_noswap(std::move(fresh));
    storage->set_nbytes(bytes);
}

void check_same_device(const char* op, std::initializer_list<const at::Tensor*> tensors)
{
    const at::Tensor* first = nullptr;
    for (const at::Tensor* tensor : tensors) {
        if (!tensor->defined())
            continue;
        if (!first)
            first = tensor;
        TORCH_CHECK(tensor->device() == first->device(), op,
                    ": Expected all tensors to be on the same device, but found at least two devices, ",
                    first->device(), " and ", tensor->device(), "!");
    }
}

at::ScalarType resolve_dtype(std::optional<at::ScalarType> dtype)
{
    return dtype ? *dtype : c10::get_default_dtype_as_scalartype();
}

c10::Device resolve_device(std::optional<c10::Device> device)
{
    c10::DeviceIndex index = device && device->has_index() ? device->index() : current_device();
    TORCH_CHECK(index < tn_device_count(), "neuron:", static_cast<int>(index),
                " does not exist: this process has ", tn_device_count(), " neuron device(s)");
    return {c10::DeviceType::PrivateUse1, index};
}

} // namespace neuron

// Creating, viewing, resizing and re-seating tensors. Views never compute.
#include <ATen/core/Tensor.h>
#include <ATen/TensorUtils.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include <ATen/ops/_has_compatible_shallow_copy_type_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>

#include "launch.h"
#include "tn/op/copy.h"

namespace neuron {
namespace {

void check_options(const char* op, std::optional<at::Layout> layout, std::optional<bool> pin_memory)
{
    TORCH_CHECK_NOT_IMPLEMENTED(!layout || *layout == c10::kStrided, op, ": layout ", *layout,
                                " is not supported on neuron; only dense (strided) tensors are");
    TORCH_CHECK(!pin_memory || !*pin_memory, "Only dense CPU tensors can be pinned");
}

// use_deterministic_algorithms(): NaN, or the largest integer, instead of what the memory held.
at::Tensor filled_if_deterministic(at::Tensor tensor)
{
    const auto& context = at::globalContext();
    if (context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory()) [[unlikely]]
        at::native::fill_empty_deterministic_(tensor);
    return tensor;
}

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout> layout, std::optional<at::Device> device,
                 std::optional<bool> pin_memory, std::optional<at::MemoryFormat> format)
{
    check_options("empty", layout, pin_memory);
    at::detail::check_size_nonnegative(size);
    auto result = new_tensor(size, resolve_dtype(dtype), resolve_device(device));
    if (format && *format != at::MemoryFormat::Contiguous)
        result.unsafeGetTensorImpl()->empty_tensor_restride(*format);
    return filled_if_deterministic(std::move(result));
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                         std::optional<at::Device> device, std::optional<bool> pin_memory)
{
    check_options("empty_strided", layout, pin_memory);
    at::detail::check_size_nonnegative(size);
    TORCH_CHECK(size.size() == stride.size(), "mismatch in length of strides and shape");
    for (int64_t step : stride)
        TORCH_CHECK(step >= 0, "Trying to create tensor with negative stride: ", stride);
    return filled_if_deterministic(new_tensor(size, stride, resolve_dtype(dtype), resolve_device(device)));
}

// Zeros without memory, which autograd makes and the ZeroTensor key turns into real ones where need be.
at::Tensor efficient_zero_tensor(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                                 std::optional<at::Layout> layout, std::optional<at::Device> device,
                                 std::optional<bool> pin_memory)
{
    check_options("_efficientzerotensor", layout, pin_memory);
    at::native::ZeroTensorAllocator nothing(resolve_device(device));
    return at::detail::empty_generic(size, &nothing, kKeySet.add(c10::DispatchKey::ZeroTensor),
                                     resolve_dtype(dtype), std::nullopt);
}

const at::Tensor& resize(const at::Tensor& self, at::IntArrayRef size,
                         std::optional<at::MemoryFormat> format)
{
    at::detail::check_size_nonnegative(size);
    auto* impl = self.unsafeGetTensorImpl();
    auto bytes_before = static_cast<int64_t>(self.storage().nbytes());
    if (self.sizes() != size) {
        size_t bytes = at::detail::computeStorageNbytesContiguous(
            size, impl->itemsize(), static_cast<size_t>(impl->storage_offset()));
        auto* storage = impl->unsafe_storage().unsafeGetStorageImpl();
        impl->set_sizes_contiguous(size);
        if (impl->numel() > 0 && bytes > storage->nbytes())
            resize_storage(storage, bytes);
    }
    if (format) {
        TORCH_CHECK(*format != at::MemoryFormat::Preserve, "Unsupported memory format ", *format);
        impl->empty_tensor_restride(*format);
    }
    const auto& context = at::globalContext();
    if (context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory()) [[unlikely]]
        at::native::fill_resize_deterministic_(self, bytes_before);
    return self;
}

at::Tensor& set_storage_offset(at::Tensor& self, at::Storage source, int64_t offset,
                               at::IntArrayRef size, at::IntArrayRef stride)
{
    TORCH_CHECK(source.device().type() == c10::DeviceType::PrivateUse1,
                "Attempted to set the storage of a neuron tensor to a storage on ", source.device());
    at::native::checkSetStorage(self, source, offset, size, stride);
    auto* impl = self.unsafeGetTensorImpl();
    impl->set_sizes_and_strides(size, stride.data() ? stride : c10::contiguous_strides(size), offset);
    size_t bytes = at::detail::computeStorageNbytes(impl->sizes(), impl->strides(), impl->itemsize(),
                                                    static_cast<size_t>(offset));
    auto* storage = impl->unsafe_storage().unsafeGetStorageImpl();
    if (impl->numel() > 0 && bytes > storage->nbytes())
        resize_storage(storage, bytes);
    return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source)
{
    int64_t length = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
    return set_storage_offset(self, source, 0, {length}, {});
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source)
{
    if (!self.is_same(source))
        set_storage_offset(self, source.storage(), source.storage_offset(), source.sizes(),
                           source.strides());
    return self;
}

at::Tensor& set_empty(at::Tensor& self)
{
    return set_storage_offset(self, new_tensor({0}, self.scalar_type(), self.device()).storage(), 0,
                              {0}, {});
}

bool is_set_to(const at::Tensor& self, const at::Tensor& source)
{
    return self.storage().unsafeGetStorageImpl() == source.storage().unsafeGetStorageImpl() &&
           self.storage_offset() == source.storage_offset() && self.sizes() == source.sizes() &&
           self.strides() == source.strides();
}

// `.data =` and Module.to() between host and device keep the Parameter objects.
bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from)
{
    auto plain = [](const at::Tensor& tensor) {
        return tensor.layout() == c10::kStrided && (tensor.device().is_cpu() || is_neuron(tensor)) &&
               !tensor.is_quantized() && !tensor.is_nested() &&
               !tensor.unsafeGetTensorImpl()->is_python_dispatch();
    };
    return (plain(self) && plain(from)) || at::native::_has_compatible_shallow_copy_type(self, from);
}

void record_stream(at::Tensor& self, at::Stream stream)
{
    TORCH_CHECK(stream.device_type() == c10::DeviceType::PrivateUse1,
                "record_stream: a neuron tensor needs a neuron stream, got one of ", stream.device());
    TORCH_CHECK(stream.device_index() == self.device().index(), "record_stream: the tensor is on ",
                self.device(), ", the stream on ", stream.device());
    tn_stream* target = nullptr;
    check(tn_stream_from_id(stream.device_index(), stream.id(), &target));
    if (tn_block* block = block_of(self.storage()))
        tn_block_record_stream(block, target);
}

at::Tensor& fill_scalar(at::Tensor& self, const at::Scalar& value)
{
    if (self.numel() != 0)
        Launch(TN_OP_fill).out(self).scalar(value).run();
    return self;
}

at::Tensor& fill_tensor(at::Tensor& self, const at::Tensor& value)
{
    TORCH_CHECK(value.dim() == 0,
                "fill_ only supports 0-dimension value tensor but got tensor with ", value.dim(),
                " dimensions.");
    if (self.numel() == 0)
        return self;
    if (!is_neuron(value))
        return fill_scalar(self, value.item());
    Launch(TN_OP_copy).out(self).in(value).run();
    return self;
}

at::Tensor& zero(at::Tensor& self)
{
    return fill_scalar(self, 0);
}

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("_has_compatible_shallow_copy_type", &neuron::has_compatible_shallow_copy_type);
    m.impl("empty.memory_format", &neuron::empty);
    m.impl("empty_strided", &neuron::empty_strided);
    m.impl("_efficientzerotensor", &neuron::efficient_zero_tensor);
    m.impl("resize_", &neuron::resize);
    m.impl("set_.source_Storage_storage_offset", &neuron::set_storage_offset);
    m.impl("set_.source_Storage", &neuron::set_storage);
    m.impl("set_.source_Tensor", &neuron::set_tensor);
    m.impl("set_", &neuron::set_empty);
    m.impl("is_set_to", &neuron::is_set_to);
    m.impl("record_stream", &neuron::record_stream);
    m.impl("fill_.Scalar", &neuron::fill_scalar);
    m.impl("fill_.Tensor", &neuron::fill_tensor);
    m.impl("zero_", &neuron::zero);
    m.impl("as_strided", &at::native::as_strided_tensorimpl);
    m.impl("view", &at::native::view);
    m.impl("_reshape_alias", &at::native::_reshape_alias);
    m.impl("unfold", &at::native::unfold);
    m.impl("view_as_real", &at::native::view_as_real);
    m.impl("view_as_complex", &at::native::view_as_complex);
}

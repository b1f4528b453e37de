// The host fallback (see fallback.h). Device memory is host memory, so the host kernel reads and writes
// it in place through CPU tensors that alias it: one CPU storage per device storage, so that the host
// kernel's own overlap checks hold. While it runs, a thread-local switch makes the CPU allocator serve
// blocks of the device (host_memory.h), so that results are born where they belong.
#include "fallback.h"

#include <chrono>
#include <map>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/env.h>
#include <torch/library.h>

#include "generator.h"
#include "host_memory.h"
#include "launch.h"
#include "source.h"
#include "wait.h"

namespace neuron {
namespace {

using torch::jit::Stack;

// ---- what ran on the host ----------------------------------------------------------------------

std::mutex rows_mutex;
std::map<std::string, FallbackRow> rows;
std::unordered_set<std::string> warned;
std::optional<bool> strict;

void count_run(const std::string& name, int64_t bytes_copied, int64_t nanoseconds)
{
    bool first;
    std::string location = python_location();
    {
        std::lock_guard lock(rows_mutex);
        FallbackRow& row = rows[name];
        if (row.count++ == 0) {
            row.op = name;
            row.location = location;
        }
        row.bytes_copied += bytes_copied;
        row.nanoseconds += nanoseconds;
        first = warned.insert(name).second;
    }
    if (first)
        TORCH_WARN(name, " has no native neuron kernel for these arguments and ran on the host",
                   location.empty() ? "" : " at ", location,
                   ". torch.neuron.fallback_report() lists every such op; "
                   "TORCH_NEURONX_STRICT=1 turns them into errors.");
}

std::string describe(const Stack& arguments)
{
    std::ostringstream text;
    const char* separator = "";
    auto add = [&](const at::Tensor& tensor) {
        if (tensor.defined()) {
            text << separator << tensor.scalar_type() << tensor.sizes();
            separator = ", ";
        }
    };
    for (const auto& value : arguments) {
        if (value.isTensor())
            add(value.toTensor());
        else if (value.isTensorList())
            for (const at::Tensor& tensor : value.toTensorVector())
                add(tensor);
    }
    return text.str();
}

// ---- one call ----------------------------------------------------------------------------------

class HostCall {
  public:
    HostCall(const c10::OperatorHandle& op, Stack* stack)
        : schema_(op.schema()), stack_(stack), begin_(stack->size() - schema_.arguments().size()),
          originals_(stack->begin() + static_cast<ptrdiff_t>(begin_), stack->end())
    {
    }

    void lower_arguments();
    void raise_results();

    c10::Device device() const
    {
        return device_ ? *device_ : c10::Device(c10::DeviceType::PrivateUse1, current_device());
    }
    const std::vector<c10::IValue>& originals() const
    {
        return originals_;
    }
    int64_t bytes_copied() const
    {
        return bytes_copied_;
    }

  private:
    bool writes(size_t argument) const
    {
        const auto* alias = schema_.arguments()[argument].alias_info();
        return alias && alias->isWrite();
    }
    void see_device(c10::Device device);
    at::Tensor lower(const at::Tensor& tensor);
    c10::Storage host_alias(const c10::Storage& storage);
    at::Tensor stand_in(const at::Tensor& destination);
    c10::IValue lower_value(const c10::IValue& value, const c10::Argument& argument);
    at::DataPtr take_bytes(const c10::Storage& host, size_t bytes);
    c10::Storage adopt(const c10::Storage& host);
    at::Tensor raise(const at::Tensor& host);
    c10::IValue raise_value(const c10::IValue& value);
    void write_back(const at::Tensor& original, const at::Tensor& host);
    void write_back_value(size_t argument);

    const c10::FunctionSchema& schema_;
    Stack* stack_;
    size_t begin_;
    std::vector<c10::IValue> originals_;
    std::vector<c10::IValue> lowered_;
    std::optional<c10::Device> device_;
    std::unordered_map<c10::StorageImpl*, c10::Storage> to_host_;   // device storage -> its alias
    std::unordered_map<c10::StorageImpl*, c10::Storage> to_device_; // host storage -> device storage
    std::unordered_set<c10::TensorImpl*> stand_ins_;
    int64_t bytes_copied_ = 0;
};

void HostCall::see_device(c10::Device device)
{
    if (!device_) {
        device_ = resolve_device(device);
        return;
    }
    TORCH_CHECK(!device.has_index() || device_->index() == device.index(), schema_.name(),
                ": Expected all tensors to be on the same device, but found at least two devices, ",
                *device_, " and ", device, "!");
}

void ignore_context(void*) {}

c10::Storage HostCall::host_alias(const c10::Storage& storage)
{
    auto& alias = to_host_[storage.unsafeGetStorageImpl()];
    if (!alias) {
        at::DataPtr data(storage.mutable_data(), nullptr, &ignore_context, c10::DeviceType::CPU);
        alias = c10::Storage(c10::Storage::use_byte_size_t(), storage.nbytes(), std::move(data),
                             c10::GetCPUAllocator(), storage.unsafeGetStorageImpl()->resizable());
        to_device_[alias.unsafeGetStorageImpl()] = storage;
    }
    return alias;
}

at::Tensor HostCall::lower(const at::Tensor& tensor)
{
    if (!is_neuron(tensor)) {
        // Numbers, and lengths or indices that ops take from the host; data must be on one device.
        TORCH_CHECK(!tensor.defined() || !device_ || tensor.dim() == 0 ||
                        c10::isIntegralType(tensor.scalar_type(), false),
                    schema_.name(), ": Expected all tensors to be on the same device, but found at "
                    "least two devices, ", *device_, " and ", tensor.device(), "!");
        return tensor;
    }
    TORCH_CHECK_NOT_IMPLEMENTED(tensor.layout() == c10::kStrided && tensor.has_storage(),
                                schema_.name(), ": only dense neuron tensors can be used on the host, "
                                "but got layout ", tensor.layout());
    see_device(tensor.device());
    auto host = at::detail::make_tensor<c10::TensorImpl>(
        host_alias(tensor.storage()), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
    auto* impl = host.unsafeGetTensorImpl();
    impl->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number())
        impl->set_wrapped_number(true);
    impl->_set_conj(tensor.is_conj());
    impl->_set_neg(tensor.is_neg());
    return host;
}

// A destination whose memory no other argument shares is computed densely and copied, unless it is dense
// itself: host kernels exist (lu_unpack) that write outside of a transposed one.
at::Tensor HostCall::stand_in(const at::Tensor& destination)
{
    if (!is_neuron(destination) || destination.is_contiguous() || destination.is_conj() ||
        to_host_.count(destination.storage().unsafeGetStorageImpl()))
        return lower(destination);
    lower(destination); // its storage is taken now
    auto host = at::empty(destination.sizes(), destination.options().device(c10::kCPU));
    stand_ins_.insert(host.unsafeGetTensorImpl());
    return host;
}

c10::IValue HostCall::lower_value(const c10::IValue& value, const c10::Argument& argument)
{
    if (value.isTensor())
        return argument.is_out() ? stand_in(value.toTensor()) : lower(value.toTensor());
    if (value.isTensorList()) {
        c10::List<at::Tensor> result;
        for (const at::Tensor& tensor : value.toTensorVector())
            result.push_back(lower(tensor));
        return result;
    }
    if (value.isOptionalTensorList()) {
        c10::List<std::optional<at::Tensor>> result;
        for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
            result.push_back(tensor ? std::optional(lower(*tensor)) : std::nullopt);
        return result;
    }
    if (value.isDevice() && value.toDevice().type() == c10::DeviceType::PrivateUse1) {
        see_device(value.toDevice());
        return c10::Device(c10::DeviceType::CPU);
    }
    // Random numbers come from the device's generator: a host generator is seeded from its stream.
    auto type = argument.real_type();
    if (auto optional = type->cast<c10::OptionalType>())
        type = optional->getElementType();
    if (type->kind() == c10::TypeKind::GeneratorType) {
        std::optional<at::Generator> generator;
        if (!value.isNone())
            generator = value.toGenerator();
        if (!generator || generator->device().type() == c10::DeviceType::PrivateUse1) {
            auto [seed, offset] = philox_reserve(generator, device().index(), 4);
            return at::detail::createCPUGenerator(philox_mix(seed, offset));
        }
    }
    return value;
}

void HostCall::lower_arguments()
{
    // Tensors first: they name the device whose generator and memory the rest uses.
    for (const auto& value : originals_)
        if (value.isTensor() && is_neuron(value.toTensor()))
            see_device(value.toTensor().device());
    for (size_t i = 0; i < originals_.size(); i++)
        lowered_.push_back(lower_value(originals_[i], schema_.arguments()[i]));
    std::copy(lowered_.begin(), lowered_.end(), stack_->begin() + static_cast<ptrdiff_t>(begin_));
}

// Device memory with the bytes of `host`: the block that it was born in, or a counted copy.
at::DataPtr HostCall::take_bytes(const c10::Storage& host, size_t bytes)
{
    at::DataPtr data = take_device_memory(host, device());
    if (data)
        return data;
    data = allocate_on(bytes, device().index());
    if (bytes > 0) {
        copy_host_bytes(data.get(), host.data(), bytes);
        bytes_copied_ += static_cast<int64_t>(bytes);
    }
    return data;
}

// A device storage with the bytes of `host`: the storage that it aliases, or a new one.
c10::Storage HostCall::adopt(const c10::Storage& host)
{
    auto& known = to_device_[host.unsafeGetStorageImpl()];
    if (known)
        return known;
    size_t bytes = host.nbytes();
    at::DataPtr data = take_bytes(host, bytes);
    known = c10::Storage(c10::Storage::use_byte_size_t(), bytes, std::move(data), neuron_allocator(),
                         true);
    return known;
}

at::Tensor HostCall::raise(const at::Tensor& host)
{
    if (!host.defined() || !host.device().is_cpu())
        return host;
    TORCH_CHECK_NOT_IMPLEMENTED(host.layout() == c10::kStrided && !host.is_quantized(), schema_.name(),
                                ": results of dtype ", host.scalar_type(), " and layout ", host.layout(),
                                " are not supported on neuron; run it on a .cpu() tensor");
    auto result = new_view(adopt(host.storage()), host.scalar_type(), host.sizes(), host.strides(),
                           host.storage_offset());
    result.unsafeGetTensorImpl()->_set_conj(host.is_conj());
    result.unsafeGetTensorImpl()->_set_neg(host.is_neg());
    return result;
}

c10::IValue HostCall::raise_value(const c10::IValue& value)
{
    if (value.isTensor())
        return raise(value.toTensor());
    if (value.isTensorList()) {
        c10::List<at::Tensor> result;
        for (const at::Tensor& tensor : value.toTensorVector())
            result.push_back(raise(tensor));
        return result;
    }
    return value;
}

// The host kernel may have resized or re-seated an argument that it writes.
void HostCall::write_back(const at::Tensor& original, const at::Tensor& host)
{
    if (!is_neuron(original))
        return;
    if (stand_ins_.count(host.unsafeGetTensorImpl()) && host.sizes() == original.sizes()) {
        lower(original).copy_(host);
        bytes_copied_ += static_cast<int64_t>(host.nbytes());
        return;
    }
    auto* impl = original.unsafeGetTensorImpl();
    auto* device_storage = original.storage().unsafeGetStorageImpl();
    auto alias = to_host_.at(device_storage);
    if (host.storage().unsafeGetStorageImpl() != alias.unsafeGetStorageImpl()) {
        impl->set_storage_keep_dtype(adopt(host.storage()));
    } else if (alias.data() != device_storage->data() || alias.nbytes() != device_storage->nbytes()) {
        size_t bytes = alias.nbytes();
        device_storage->set_data_ptr_noswap(take_bytes(alias, bytes));
        device_storage->set_nbytes(bytes);
    }
    if (host.sizes() != original.sizes() || host.strides() != original.strides() ||
        host.storage_offset() != original.storage_offset())
        impl->set_sizes_and_strides(host.sizes(), host.strides(), host.storage_offset());
    impl->_set_conj(host.is_conj());
    impl->_set_neg(host.is_neg());
    if (tn_block* block = block_of(original.storage()))
        tn_block_touch(block);
}

void HostCall::write_back_value(size_t argument)
{
    const auto& original = originals_[argument];
    const auto& host = lowered_[argument];
    if (original.isTensor()) {
        if (original.toTensor().defined())
            write_back(original.toTensor(), host.toTensor());
    } else if (original.isTensorList()) {
        auto before = original.toTensorVector(), after = host.toTensorVector();
        for (size_t i = 0; i < before.size(); i++)
            write_back(before[i], after[i]);
    }
}

void HostCall::raise_results()
{
    for (size_t i = 0; i < originals_.size(); i++)
        if (writes(i))
            write_back_value(i);
    // A result that the schema calls the written argument itself is that very tensor.
    size_t first = stack_->size() - schema_.returns().size();
    for (size_t r = 0; r < schema_.returns().size(); r++) {
        c10::IValue& value = (*stack_)[first + r];
        const auto* alias = schema_.returns()[r].alias_info();
        bool same = false;
        for (size_t i = 0; alias && alias->isWrite() && i < originals_.size() && !same; i++) {
            const auto* other = schema_.arguments()[i].alias_info();
            if (other && other->isWrite() && other->beforeSets() == alias->beforeSets()) {
                value = originals_[i];
                same = true;
            }
        }
        if (!same)
            value = raise_value(value);
    }
}

bool read_strict_mode()
{
    return c10::utils::get_env("TORCH_NEURONX_STRICT").value_or("0") == "1" ||
           c10::utils::get_env("NEURON_FALLBACK_ENABLED").value_or("1") == "0";
}

std::string full_name(const c10::OperatorHandle& op)
{
    const auto& name = op.operator_name();
    return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

// A view only makes metadata: never an operator that ran on the host.
bool is_view(const c10::FunctionSchema& schema)
{
    for (const auto& result : schema.returns())
        if (result.alias_info() && !result.alias_info()->isWrite())
            return true;
    return false;
}

} // namespace

void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack)
{
    auto start = std::chrono::steady_clock::now();
    std::string name = full_name(op);
    HostCall call(op, stack);
    bool view = is_view(op.schema());
    if (!view && strict_mode()) {
        std::string location = python_location();
        TORCH_CHECK_NOT_IMPLEMENTED(
            false, name, " has no native neuron kernel for (", describe(call.originals()), ")",
            location.empty() ? "" : " at ", location,
            " and TORCH_NEURONX_STRICT=1 forbids running it on the host. Unset it to allow the host "
            "fallback, or move the tensors with .cpu().");
    }
    TORCH_CHECK_NOT_IMPLEMENTED(
        op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU), name, " is not available for neuron (",
        describe(call.originals()), "): it has no native kernel and PyTorch has no CPU kernel for it.");
    call.lower_arguments();
    wait_device(call.device().index());
    {
        c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
        c10::impl::ExcludeDispatchKeyGuard no_autograd(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
        DeviceBackedHostMemory born_on_device(call.device().index());
        op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
    }
    call.raise_results();
    if (!view)
        count_run(name, call.bytes_copied(),
                  std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count());
}

std::vector<FallbackRow> fallback_rows()
{
    std::lock_guard lock(rows_mutex);
    std::vector<FallbackRow> result;
    for (const auto& [name, row] : rows)
        result.push_back(row);
    return result;
}

void clear_fallback_rows()
{
    std::lock_guard lock(rows_mutex);
    rows.clear();
}

bool strict_mode()
{
    std::lock_guard lock(rows_mutex);
    if (!strict)
        strict = read_strict_mode();
    return *strict;
}

void set_strict_mode(bool on)
{
    std::lock_guard lock(rows_mutex);
    strict = on;
}

} // namespace neuron

TORCH_LIBRARY_IMPL(_, PrivateUse1, m)
{
    m.fallback(torch::CppFunction::makeFromBoxedFunction<&neuron::fallback>());
}

// ATen would run the functional forms of these as meta function and out=, and what checks the devices of
// their arguments is the kernel of a backend.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    for (const char* name : {"_linalg_solve_ex", "linalg_lu_solve", "linalg_ldl_solve", "triangular_solve",
                             "lu_unpack", "fractional_max_pool2d", "fractional_max_pool3d"})
        m.impl(name, torch::CppFunction::makeFromBoxedFunction<&neuron::fallback>());
}

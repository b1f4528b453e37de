// What ATen asks of an accelerator: availability, generators, pinned memory, storage resizing.
#include <ATen/Context.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include "allocator.h"
#include "exit.h"
#include "generator.h"
#include "guard.h"
#include "host_allocator.h"
#include "host_memory.h"
#include "tensor.h"

namespace neuron {
namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
    bool isBuilt() const override
    {
        return true;
    }
    bool isAvailable() const override
    {
        return tn_device_count() > 0;
    }
    bool hasPrimaryContext(c10::DeviceIndex) const override
    {
        return tn_is_initialized();
    }
    const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override
    {
        return default_generator(device);
    }
    at::Generator getNewGenerator(c10::DeviceIndex device) const override
    {
        return new_generator(device);
    }
    at::Device getDeviceFromPtr(void* data) const override
    {
        tn_block* block = find_block(data);
        TORCH_CHECK(block, "the pointer does not belong to a neuron device");
        return {c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(block->device)};
    }
    bool isPinnedPtr(const void* data) const override
    {
        return is_pinned(data);
    }
    at::Allocator* getPinnedMemoryAllocator() const override
    {
        return at::getHostAllocator(c10::DeviceType::PrivateUse1);
    }
    void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override
    {
        resize_storage(storage.unsafeGetStorageImpl(), bytes);
    }
    c10::DeviceIndex deviceCount() const override
    {
        return static_cast<c10::DeviceIndex>(tn_device_count());
    }
    void setCurrentDevice(c10::DeviceIndex device) const override
    {
        c10::impl::getDeviceGuardImpl(c10::DeviceType::PrivateUse1)
            ->setDevice({c10::DeviceType::PrivateUse1, device});
    }
    c10::DeviceIndex getCurrentDevice() const override
    {
        return current_device();
    }
    c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override
    {
        auto previous = current_device();
        setCurrentDevice(device);
        return previous;
    }
    c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override
    {
        return device < 0 ? current_device() : exchangeDevice(device);
    }
};

} // namespace

void register_hooks()
{
    at::RegisterPrivateUse1HooksInterface(new Hooks());
    rest_at_exit();
}

} // namespace neuron

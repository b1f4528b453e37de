#include "host_memory.h"

#include <cstring>

#include <c10/core/CPUAllocator.h>

#include "allocator.h"
#include "error.h"
#include "guard.h"

namespace neuron {
namespace {

thread_local c10::DeviceIndex serving_device = -1;

void free_block_at(void* data)
{
    if (tn_block* block = tn_block_find(data))
        tn_block_free(block);
}

// c10's CPU allocator, unless the thread is serving a device. The context of a block's DataPtr is its
// data, because raw_allocate() demands that of CPU memory.
class HostMemoryAllocator final : public c10::Allocator {
  public:
    explicit HostMemoryAllocator(c10::Allocator* base) : base_(base) {}

    at::DataPtr allocate(size_t bytes) override
    {
        if (serving_device < 0 || bytes == 0) [[likely]]
            return base_->allocate(bytes);
        tn_block* block = nullptr;
        check(tn_block_alloc(serving_device, bytes, current_stream(serving_device), &block));
        return {block->data, block->data, &free_block_at, c10::Device(c10::DeviceType::CPU)};
    }
    at::DeleterFnPtr raw_deleter() const override
    {
        return &raw_free;
    }
    void copy_data(void* destination, const void* source, size_t count) const override
    {
        base_->copy_data(destination, source, count);
    }

  private:
    static void raw_free(void* data);
    c10::Allocator* base_;
};

HostMemoryAllocator* installed = nullptr;
c10::Allocator* base_allocator = nullptr;

void HostMemoryAllocator::raw_free(void* data)
{
    if (tn_block* block = tn_block_find(data))
        tn_block_free(block);
    else
        base_allocator->raw_deleter()(data);
}

} // namespace

DeviceBackedHostMemory::DeviceBackedHostMemory(c10::DeviceIndex device) : previous_(serving_device)
{
    serving_device = device;
}

DeviceBackedHostMemory::~DeviceBackedHostMemory()
{
    serving_device = previous_;
}

void install_host_memory()
{
    if (installed)
        return;
    base_allocator = c10::GetCPUAllocator();
    installed = new HostMemoryAllocator(base_allocator); // leaked: outlives every storage
    c10::SetCPUAllocator(installed, /*priority=*/1);
}

at::DataPtr take_device_memory(const c10::Storage& host, c10::Device device)
{
    if (host.nbytes() == 0 || host.data_ptr().get_deleter() != &free_block_at)
        return {};
    tn_block* block = tn_block_find(host.data());
    if (!block || block->data != host.data() || block->device != device.index())
        return {};
    // The storage keeps its pointer, no longer its ownership: views of it may still be raised.
    const_cast<at::DataPtr&>(host.data_ptr()).release_context();
    return block_data_ptr(block);
}

void copy_host_bytes(void* device_memory, const void* host, size_t bytes)
{
    std::memcpy(device_memory, host, bytes);
}

} // namespace neuron

// Host tensors that live in device memory: while a host kernel runs for the fallback, the CPU allocator
// of this thread serves blocks of the device, so that the kernel's results need no copy.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/Storage.h>

namespace neuron {

class DeviceBackedHostMemory {
  public:
    explicit DeviceBackedHostMemory(c10::DeviceIndex device);
    ~DeviceBackedHostMemory();
    DeviceBackedHostMemory(const DeviceBackedHostMemory&) = delete;

  private:
    c10::DeviceIndex previous_;
};

// Puts the switchable allocator in front of c10's CPU allocator. Called once, at load.
void install_host_memory();

// Moves the memory of a host storage to a device DataPtr without a copy, if it was born in a block;
// otherwise returns null and leaves the storage alone.
at::DataPtr take_device_memory(const c10::Storage& host, c10::Device device);

// Host bytes into device memory that nothing queued uses yet.
void copy_host_bytes(void* device_memory, const void* host, size_t bytes);

} // namespace neuron

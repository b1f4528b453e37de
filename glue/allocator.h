// Device memory for c10: a DataPtr's context is its tn_block, and there is one static deleter.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Storage.h>

#include "tn/runtime.h"

namespace neuron {

// The deleter of every DataPtr that owns a block.
void free_block(void* block);

c10::DeviceAllocator* neuron_allocator();

// Hands torch's allocator settings (PYTORCH_ALLOC_CONF) to the core, now and whenever they change.
// `max_split_size` counts where they do not set one; 0: unlimited.
void follow_allocator_settings(size_t max_split_size);

// `bytes` of device memory on the current stream of `device`; null data for 0 bytes.
at::DataPtr allocate_on(size_t bytes, c10::DeviceIndex device);

// The DataPtr that owns `block`.
at::DataPtr block_data_ptr(tn_block* block);

// The block behind memory that is ours but that another DataPtr owns (DLPack, from_blob); null if none.
tn_block* find_block(const void* data);

inline tn_block* block_of(const c10::Storage& storage)
{
    const at::DataPtr& data = storage.data_ptr();
    if (data.get_deleter() == &free_block) [[likely]]
        return static_cast<tn_block*>(data.get_context());
    return data.get() ? find_block(data.get()) : nullptr;
}

} // namespace neuron

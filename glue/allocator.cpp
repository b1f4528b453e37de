#include "allocator.h"

#include <cstring>
#include <limits>

#include <c10/core/AllocatorConfig.h>

#include "error.h"
#include "guard.h"

namespace neuron {
namespace {

using c10::CachingDeviceAllocator::DeviceStats;

void convert(const tn_memory_stat& from, c10::CachingAllocator::Stat& to)
{
    to.current = from.current;
    to.peak = from.peak;
    to.allocated = from.allocated;
    to.freed = from.freed;
}

void convert(const tn_memory_stat (&from)[TN_POOL_COUNT], c10::CachingAllocator::StatArray& to)
{
    for (int pool = 0; pool < TN_POOL_COUNT; pool++)
        convert(from[pool], to[static_cast<size_t>(pool)]);
}

struct Allocator final : c10::DeviceAllocator {
    at::DataPtr allocate(size_t bytes) override
    {
        return allocate_on(bytes, current_device());
    }
    c10::DeleterFnPtr raw_deleter() const override
    {
        return nullptr; // the context is the block, not the data: no raw interface
    }
    void copy_data(void* destination, const void* source, size_t count) const override
    {
        default_copy_data(destination, source, count);
    }
    bool initialized() override
    {
        return tn_is_initialized();
    }
    void emptyCache(c10::MempoolId_t) override
    {
        for (int device = 0; tn_is_initialized() && device < tn_device_count(); device++)
            check(tn_memory_empty_cache(device));
    }
    void recordStream(const at::DataPtr& data, c10::Stream stream) override
    {
        if (data.get_deleter() == &free_block)
            tn_block_record_stream(static_cast<tn_block*>(data.get_context()), from_c10(stream));
    }
    DeviceStats getDeviceStats(c10::DeviceIndex device) override
    {
        tn_memory_stats stats;
        check(tn_memory_get_stats(device, &stats));
        DeviceStats result;
        convert(stats.allocation, result.allocation);
        convert(stats.segment, result.segment);
        convert(stats.active, result.active);
        convert(stats.inactive_split, result.inactive_split);
        convert(stats.allocated_bytes, result.allocated_bytes);
        convert(stats.reserved_bytes, result.reserved_bytes);
        convert(stats.active_bytes, result.active_bytes);
        convert(stats.inactive_split_bytes, result.inactive_split_bytes);
        convert(stats.requested_bytes, result.requested_bytes);
        convert(stats.oversize_allocations, result.oversize_allocations);
        convert(stats.oversize_segments, result.oversize_segments);
        result.num_alloc_retries = stats.num_alloc_retries;
        result.num_ooms = stats.num_ooms;
        result.num_sync_all_streams = stats.num_sync_all_streams;
        result.num_device_alloc = stats.num_device_alloc;
        result.num_device_free = stats.num_device_free;
        result.max_split_size = stats.max_split_size;
        return result;
    }
    void resetAccumulatedStats(c10::DeviceIndex device) override
    {
        tn_memory_reset_accumulated(device);
    }
    void resetPeakStats(c10::DeviceIndex device) override
    {
        tn_memory_reset_peak(device);
    }
    std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override
    {
        size_t free = 0, total = 0;
        check(tn_memory_info(device, &free, &total));
        return {free, total};
    }
};

// Leaked: storages outlive every static destructor.
Allocator* allocator = new Allocator();

} // namespace

REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, allocator)

void free_block(void* block)
{
    if (block)
        tn_block_free(static_cast<tn_block*>(block));
}

c10::DeviceAllocator* neuron_allocator()
{
    return allocator;
}

at::DataPtr block_data_ptr(tn_block* block)
{
    return {block->data, block, &free_block,
            c10::Device(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(block->device))};
}

at::DataPtr allocate_on(size_t bytes, c10::DeviceIndex device)
{
    if (bytes == 0)
        return {nullptr, nullptr, &free_block, c10::Device(c10::DeviceType::PrivateUse1, device)};
    tn_block* block = nullptr;
    check(tn_block_alloc(device, bytes, current_stream(device), &block));
    return block_data_ptr(block);
}

void follow_allocator_settings(size_t max_split_size)
{
    using Config = c10::CachingAllocator::AcceleratorAllocatorConfig;
    auto apply = [max_split_size](const std::string&) {
        constexpr size_t unlimited = std::numeric_limits<size_t>::max();
        constexpr size_t typical_request = 16 << 20; // divisions may differ by size; the core knows one number
        tn_memory_config config{};
        config.max_split_size =
            Config::max_split_size() == unlimited ? max_split_size : Config::max_split_size();
        config.roundup_power2_divisions = Config::roundup_power2_divisions(typical_request);
        config.garbage_collection_threshold = Config::garbage_collection_threshold();
        config.large_segment_size = Config::large_segment_size();
        tn_memory_configure(&config);
    };
    Config::registerDeviceConfigParserHook(apply, {});
    apply("");
}

tn_block* find_block(const void* data)
{
    return tn_block_find(data);
}

} // namespace neuron

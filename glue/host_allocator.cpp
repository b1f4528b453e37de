// Pinned host memory. On an embedded device any host page is as good as pinned; what pinning buys is that
// an asynchronous copy may still be using the memory when its tensor dies, so a block is given back only
// when the streams that it was recorded on have passed.
#include "host_allocator.h"

#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include <ATen/core/CachingHostAllocator.h>

#include "error.h"
#include "guard.h"

namespace neuron {
namespace {

constexpr size_t kAlignment = 4096;

struct Block {
    size_t bytes;
    bool freed;
    std::vector<tn_event*> events; // copies that may still use the block
};

class PinnedAllocator final : public at::HostAllocator {
  public:
    at::DataPtr allocate(size_t bytes) override;
    at::DeleterFnPtr raw_deleter() const override
    {
        return &free_pinned;
    }
    void copy_data(void* destination, const void* source, size_t count) const override
    {
        default_copy_data(destination, source, count);
    }
    bool record_event(void* data, void*, c10::Stream stream) override;
    void empty_cache() override
    {
        std::lock_guard lock(mutex_);
        reclaim();
    }
    at::HostStats get_stats() override
    {
        std::lock_guard lock(mutex_);
        return stats_;
    }
    void reset_accumulated_stats() override
    {
        std::lock_guard lock(mutex_);
        for (auto* stat : all_stats())
            stat->reset_accumulated();
        stats_.num_host_alloc = stats_.num_host_free = 0;
    }
    void reset_peak_stats() override
    {
        std::lock_guard lock(mutex_);
        for (auto* stat : all_stats())
            stat->reset_peak();
    }
    bool contains(const void* data)
    {
        std::lock_guard lock(mutex_);
        return find(data) != blocks_.end();
    }
    void release(void* data);

  private:
    static void free_pinned(void* data);
    std::map<char*, Block>::iterator find(const void* data);
    void reclaim();
    void erase(std::map<char*, Block>::iterator entry);
    std::array<c10::CachingAllocator::Stat*, 4> all_stats()
    {
        return {&stats_.active_requests, &stats_.active_bytes, &stats_.allocations,
                &stats_.allocated_bytes};
    }

    std::mutex mutex_;
    std::map<char*, Block> blocks_; // by first byte
    size_t waiting_ = 0;            // freed blocks whose events are still open
    at::HostStats stats_;
};

// Leaked: pinned tensors may outlive static destructors.
PinnedAllocator& pinned = *new PinnedAllocator();

at::DataPtr PinnedAllocator::allocate(size_t bytes)
{
    if (bytes == 0)
        return {nullptr, nullptr, &free_pinned, c10::Device(c10::DeviceType::CPU)};
    size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    std::lock_guard lock(mutex_);
    if (waiting_ > 0)
        reclaim();
    char* data = static_cast<char*>(std::aligned_alloc(kAlignment, rounded));
    TORCH_CHECK_WITH(OutOfMemoryError, data, "out of host memory: tried to pin ", bytes, " bytes");
    blocks_[data] = {bytes, false, {}};
    stats_.num_host_alloc++;
    stats_.active_requests.increase(1);
    stats_.allocations.increase(1);
    stats_.active_bytes.increase(bytes);
    stats_.allocated_bytes.increase(bytes);
    return {data, data, &free_pinned, c10::Device(c10::DeviceType::CPU)};
}

void PinnedAllocator::free_pinned(void* data)
{
    if (data)
        pinned.release(data);
}

void PinnedAllocator::release(void* data)
{
    std::lock_guard lock(mutex_);
    auto entry = blocks_.find(static_cast<char*>(data));
    if (entry == blocks_.end())
        return;
    stats_.active_requests.decrease(1);
    stats_.active_bytes.decrease(entry->second.bytes);
    entry->second.freed = true;
    waiting_++;
    reclaim();
}

void PinnedAllocator::erase(std::map<char*, Block>::iterator entry)
{
    for (tn_event* event : entry->second.events)
        tn_event_destroy(event);
    stats_.allocations.decrease(1);
    stats_.allocated_bytes.decrease(entry->second.bytes);
    stats_.num_host_free++;
    std::free(entry->first);
    blocks_.erase(entry);
    waiting_--;
}

void PinnedAllocator::reclaim()
{
    for (auto entry = blocks_.begin(); entry != blocks_.end();) {
        auto current = entry++;
        bool done = current->second.freed;
        for (tn_event* event : current->second.events)
            done = done && tn_event_query(event);
        if (done)
            erase(current);
    }
}

std::map<char*, Block>::iterator PinnedAllocator::find(const void* data)
{
    auto* address = static_cast<char*>(const_cast<void*>(data));
    auto next = blocks_.upper_bound(address);
    if (next == blocks_.begin())
        return blocks_.end();
    auto entry = std::prev(next);
    return address < entry->first + entry->second.bytes ? entry : blocks_.end();
}

bool PinnedAllocator::record_event(void* data, void*, c10::Stream stream)
{
    tn_event* event = nullptr;
    std::lock_guard lock(mutex_);
    auto entry = find(data);
    if (entry == blocks_.end())
        return false;
    check(tn_event_create(stream.device_index(), false, &event));
    entry->second.events.push_back(event);
    check(tn_event_record(event, from_c10(stream)));
    return true;
}

} // namespace

bool is_pinned(const void* data)
{
    return pinned.contains(data);
}

REGISTER_HOST_ALLOCATOR(at::kPrivateUse1, &pinned)

} // namespace neuron

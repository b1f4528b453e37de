/* Allocation and freeing of blocks: the fast paths, deferred frees, and what happens when memory
 * runs out. The structure is described in heap.h. */
#include "runtime/heap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "runtime/device.h"
#include "runtime/stream.h"

/* A freed block that other streams may still use: it is reusable when each has reached
 * `position`. */
struct tn_heap_pending {
    tn_heap_pending *next;
    tn_heap_block *block;
    int count;
    struct {
        tn_stream *stream;
        uint64_t position;
    } waits[];
};

tn_memory_config tn_heap_config;

enum { ADDRESS_SPACE_FACTOR = 4 };
static const size_t smallest_address_space = (size_t)1 << 30;

static tn_heap_block *block_of(tn_block *handle)
{
    return (tn_heap_block *)handle;
}

/* ---- opening -------------------------------------------------------------------------------- */

/* Address space is plentiful and costs nothing until touched: several times the limit, so that
 * fragmentation of addresses never matters. A process with a small RLIMIT_AS gets less. */
static bool map_address_space(tn_heap *heap, size_t bytes)
{
    for (; bytes >= smallest_address_space; bytes /= 2) {
        bytes &= ~(size_t)(TN_SLAB_BYTES - 1);
        if (ftruncate(heap->fd, (off_t)bytes) != 0)
            continue;
        /* One slab more, to align the mapping. */
        char *reserved = mmap(NULL, bytes + TN_SLAB_BYTES, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (reserved == MAP_FAILED)
            continue;
        char *base = (char *)(((uintptr_t)reserved + TN_SLAB_BYTES - 1) &
                              ~(uintptr_t)(TN_SLAB_BYTES - 1));
        if (mmap(base, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
                 heap->fd, 0) == MAP_FAILED) {
            munmap(reserved, bytes + TN_SLAB_BYTES);
            continue;
        }
        heap->base = base;
        heap->slab_count = bytes / TN_SLAB_BYTES;
        return true;
    }
    return false;
}

tn_status tn_heap_open(tn_heap *heap, int device, size_t limit)
{
    char name[32];
    snprintf(name, sizeof name, "neuron-%d", device);
    heap->device = device;
    heap->limit = heap->allowed = limit;
    heap->fd = memfd_create(name, MFD_CLOEXEC);
    if (heap->fd < 0)
        return tn_fail(TN_ERROR_DEVICE, "neuron:%d: no memory file: %m", device);
    size_t bytes = limit * ADDRESS_SPACE_FACTOR;
    if (!map_address_space(heap, bytes < smallest_address_space ? smallest_address_space : bytes)) {
        close(heap->fd);
        return tn_fail(TN_ERROR_DEVICE, "neuron:%d: cannot reserve address space: %m", device);
    }
    heap->slabs = tn_calloc(heap->slab_count, sizeof *heap->slabs);
    if (!heap->slabs) {
        munmap(heap->base, heap->slab_count * TN_SLAB_BYTES);
        close(heap->fd);
        return tn_fail(TN_ERROR_OUT_OF_MEMORY, "neuron:%d: out of host memory", device);
    }
    madvise(heap->base, heap->slab_count * TN_SLAB_BYTES, MADV_HUGEPAGE);
    /* A forked child must not change the parent's device memory: it does not get the mapping. */
    madvise(heap->base, heap->slab_count * TN_SLAB_BYTES, MADV_DONTFORK);
    return TN_OK;
}

tn_heap_cache *tn_heap_cache_create(void)
{
    return tn_calloc(1, sizeof(tn_heap_cache));
}

/* ---- deferred frees ------------------------------------------------------------------------- */

/* In the hostile build whoever reads freed memory reads rubbish; only when nobody may rightly do
 * so. */
static void poison(const tn_heap_block *block)
{
#ifdef TN_HOSTILE
    if (tn_stream_is_idle(block->segment->stream))
        memset(block->handle.data, 0xa5, block->size);
#endif
    (void)block;
}

static void make_free(tn_heap *heap, tn_heap_block *block)
{
    poison(block);
    tn_trace(TN_TRACE_FREE_COMPLETED, heap->device, block->handle.data, block->size,
             block->segment->stream);
    int pool = block->segment->pool;
    tn_stat_lower(heap->stats.active, pool, 1);
    tn_stat_lower(heap->stats.active_bytes, pool, (int64_t)block->size);
    if (block->quick_class < TN_QUICK_CLASSES)
        tn_segment_push_quick(heap, block);
    else
        tn_segment_put(heap, block);
}

static bool is_due(const tn_heap_pending *entry)
{
    for (int i = 0; i < entry->count; i++)
        if (tn_stream_completed(entry->waits[i].stream) < entry->waits[i].position)
            return false;
    return true;
}

static void reclaim(tn_heap *heap)
{
    for (tn_heap_pending **link = &heap->pending, *entry; (entry = *link);) {
        if (!is_due(entry)) {
            link = &entry->next;
            continue;
        }
        *link = entry->next;
        make_free(heap, entry->block);
        tn_free(entry);
    }
}

/* The recorded streams that have work queued now; any of it may use the block. */
static uint64_t busy_users(const tn_heap *heap, const tn_heap_block *block)
{
    uint64_t busy = 0;
    for (uint64_t mask = block->recorded_streams; mask; mask &= mask - 1)
        if (!tn_stream_is_idle(tn_devices[heap->device].streams[__builtin_ctzll(mask)]))
            busy |= mask & -mask;
    return busy;
}

/* Puts the block behind the current positions of the streams in `busy`; false without host
 * memory. */
static bool defer(tn_heap *heap, tn_heap_block *block, uint64_t busy)
{
    tn_heap_pending *entry =
        tn_malloc(sizeof *entry + (size_t)__builtin_popcountll(busy) * sizeof entry->waits[0]);
    if (!entry)
        return false;
    entry->count = 0;
    for (uint64_t mask = busy; mask; mask &= mask - 1) {
        tn_stream *stream = tn_devices[heap->device].streams[__builtin_ctzll(mask)];
        entry->waits[entry->count].stream = stream;
        entry->waits[entry->count++].position = tn_stream_position(stream);
    }
    block->recorded_streams = 0;
    block->state = TN_STATE_PENDING;
    entry->block = block;
    entry->next = heap->pending;
    heap->pending = entry;
    return true;
}

/* With the lock held. Without host memory to remember the users, the host waits for them. */
static void free_after_users(tn_heap *heap, tn_heap_block *block)
{
    uint64_t busy = busy_users(heap, block);
    if (busy && defer(heap, block, busy))
        return;
    if (busy) {
        block->state = TN_STATE_PENDING;
        tn_spin_unlock(&heap->lock);
        tn_device_drain(heap->device);
        tn_spin_lock(&heap->lock);
    }
    block->recorded_streams = 0;
    make_free(heap, block);
}

/* ---- the fast paths ------------------------------------------------------------------------- */

static tn_block *hand_out(tn_heap *heap, tn_heap_block *block, size_t requested,
                          unsigned size_class, size_t class_size)
{
    tn_memory_stats *stats = &heap->stats;
    int pool = block->segment->pool;
    int64_t size = (int64_t)block->size;
    block->state = TN_STATE_ACTIVE;
    block->quick_class = (uint16_t)(block->size == class_size ? size_class : TN_QUICK_CLASSES);
    block->handle.bytes = requested;
    block->oversize = tn_heap_is_oversize(block->size);
    if (block->oversize)
        tn_stat_count(&stats->oversize_allocations, 1);
    __atomic_fetch_add(&block->handle.generation, 1, __ATOMIC_RELAXED);
    tn_stat_raise(stats->allocation, pool, 1);
    tn_stat_raise(stats->active, pool, 1);
    tn_stat_raise(stats->allocated_bytes, pool, size);
    tn_stat_raise(stats->active_bytes, pool, size);
    tn_stat_raise(stats->requested_bytes, pool, (int64_t)requested);
    tn_trace(TN_TRACE_ALLOC, heap->device, block->handle.data, block->size,
             block->segment->stream);
    return &block->handle;
}

static tn_heap_block *find_or_grow(tn_heap *heap, tn_stream *stream, size_t size, int pool)
{
    if (heap->pending)
        reclaim(heap);
    tn_heap_block *block = tn_segment_take(heap, stream, size, pool);
    if (block)
        return block;
    tn_segment_consolidate(heap, stream);
    block = tn_segment_take(heap, stream, size, pool);
    if (block)
        return block;
    double threshold = tn_heap_config.garbage_collection_threshold;
    if (threshold > 0 && (double)heap->stats.reserved_bytes[TN_POOL_ALL].current >
                             threshold * (double)heap->allowed)
        tn_segment_release_idle(heap);
    return tn_segment_grow(heap, stream, size, pool);
}

static const char *human(size_t bytes, char text[32])
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1024 && unit < 4; unit++)
        value /= 1024;
    snprintf(text, 32, unit ? "%.2f %s" : "%.0f %s", value, units[unit]);
    return text;
}

static tn_status fail_out_of_memory(tn_heap *heap, size_t bytes, tn_stream *stream)
{
    char text[7][32];
    tn_spin_lock(&heap->lock);
    heap->stats.num_ooms++;
    size_t reserved = (size_t)heap->stats.reserved_bytes[TN_POOL_ALL].current;
    size_t allocated = (size_t)heap->stats.allocated_bytes[TN_POOL_ALL].current;
    size_t peak = (size_t)heap->stats.allocated_bytes[TN_POOL_ALL].peak;
    size_t largest = tn_heap_largest_free(heap), allowed = heap->allowed;
    tn_trace(TN_TRACE_OUT_OF_MEMORY, heap->device, NULL, bytes, stream);
    tn_spin_unlock(&heap->lock);
    return tn_fail(
        TN_ERROR_OUT_OF_MEMORY,
        "NEURON out of memory. Tried to allocate %s. neuron:%d has a capacity of %s, of which %s "
        "may still be reserved. %s is allocated by tensors, %s is reserved but unallocated "
        "(largest free block %s), and the peak of allocated memory was %s.",
        human(bytes, text[0]), heap->device, human(allowed, text[1]),
        human(allowed > reserved ? allowed - reserved : 0, text[2]), human(allocated, text[3]),
        human(reserved - allocated, text[4]), human(largest, text[5]), human(peak, text[6]));
}

/* Waits for all streams, gives every unused segment back, and tries once more. */
static tn_heap_block *flush_and_retry(tn_heap *heap, tn_stream *stream, size_t size, int pool)
{
    tn_device_drain(heap->device);
    tn_spin_lock(&heap->lock);
    heap->stats.num_alloc_retries++;
    heap->stats.num_sync_all_streams++;
    reclaim(heap);
    tn_segment_release_idle(heap);
    tn_heap_block *block = tn_segment_take(heap, stream, size, pool);
    return block ? block : tn_segment_grow(heap, stream, size, pool); /* still locked */
}

tn_status tn_block_alloc(int device_index, size_t bytes, tn_stream *stream, tn_block **out_block)
{
    tn_device *device;
    tn_status status = tn_device_of(device_index, &device);
    if (status != TN_OK)
        return status;
    tn_heap *heap = &device->heap;
    if (!stream)
        stream = device->streams[0];
    tn_trace_prepare();
    if (bytes > heap->limit)
        return fail_out_of_memory(heap, bytes, stream);
    unsigned size_class;
    size_t size = tn_size_class(bytes, &size_class);
    int pool = size < TN_SMALL_LIMIT_BYTES ? TN_POOL_SMALL : TN_POOL_LARGE;
    tn_spin_lock(&heap->lock);
    tn_heap_block *block = NULL;
    if (size_class < TN_QUICK_CLASSES)
        block = tn_segment_pop_quick(heap, stream->cache, size_class);
    if (!block)
        block = find_or_grow(heap, stream, size, pool);
    if (!block) {
        tn_spin_unlock(&heap->lock);
        block = flush_and_retry(heap, stream, size, pool);
    }
    if (block)
        *out_block = hand_out(heap, block, bytes, size_class, size);
    tn_spin_unlock(&heap->lock);
    return block ? TN_OK : fail_out_of_memory(heap, bytes, stream);
}

void tn_block_free(tn_block *handle)
{
    if (!handle || atomic_load_explicit(&tn_forked, memory_order_relaxed))
        return;
    tn_heap_block *block = block_of(handle);
    tn_heap *heap = &tn_devices[handle->device].heap;
    tn_trace_prepare();
    tn_spin_lock(&heap->lock);
    int pool = block->segment->pool;
    __atomic_fetch_add(&handle->generation, 1, __ATOMIC_RELAXED);
    tn_stat_lower(heap->stats.allocation, pool, 1);
    tn_stat_lower(heap->stats.allocated_bytes, pool, (int64_t)block->size);
    tn_stat_lower(heap->stats.requested_bytes, pool, (int64_t)handle->bytes);
    heap->stats.num_tensor_frees++;
    if (block->oversize)
        tn_stat_count(&heap->stats.oversize_allocations, -1);
    tn_trace(TN_TRACE_FREE_REQUESTED, heap->device, handle->data, block->size,
             block->segment->stream);
    if (!block->recorded_streams)
        make_free(heap, block);
    else
        free_after_users(heap, block);
    tn_spin_unlock(&heap->lock);
}

void tn_block_record_stream(tn_block *handle, tn_stream *stream)
{
    tn_heap_block *block = block_of(handle);
    if (atomic_load_explicit(&tn_forked, memory_order_relaxed))
        return;
    tn_heap *heap = &tn_devices[handle->device].heap;
    tn_spin_lock(&heap->lock);
    if (stream != block->segment->stream && stream->device == handle->device)
        block->recorded_streams |= (uint64_t)1 << stream->id;
    tn_spin_unlock(&heap->lock);
}

tn_block *tn_block_find(const void *pointer)
{
    int open = atomic_load_explicit(&tn_devices_open, memory_order_acquire);
    if (atomic_load_explicit(&tn_forked, memory_order_relaxed))
        return NULL;
    for (int i = 0; i < open; i++) {
        tn_heap *heap = &tn_devices[i].heap;
        if ((size_t)((const char *)pointer - heap->base) >= heap->slab_count * TN_SLAB_BYTES)
            continue;
        tn_spin_lock(&heap->lock);
        tn_heap_block *block = tn_segment_find(heap, pointer);
        bool live = block && block->state == TN_STATE_ACTIVE;
        tn_spin_unlock(&heap->lock);
        return live ? &block->handle : NULL;
    }
    return NULL;
}

void tn_block_touch(tn_block *block)
{
    __atomic_fetch_add(&block->generation, 1, __ATOMIC_RELAXED);
}

/* ---- settings ------------------------------------------------------------------------------- */

tn_status tn_memory_empty_cache(int device_index)
{
    tn_device *device;
    tn_status status = tn_device_of(device_index, &device);
    if (status != TN_OK)
        return status;
    tn_device_drain(device_index);
    tn_spin_lock(&device->heap.lock);
    reclaim(&device->heap);
    tn_segment_release_idle(&device->heap);
    tn_spin_unlock(&device->heap.lock);
    return TN_OK;
}

tn_status tn_memory_info(int device_index, size_t *out_free, size_t *out_total)
{
    tn_device *device;
    tn_status status = tn_device_of(device_index, &device);
    if (status != TN_OK)
        return status;
    tn_heap *heap = &device->heap;
    tn_spin_lock(&heap->lock);
    size_t reserved = (size_t)heap->stats.reserved_bytes[TN_POOL_ALL].current;
    *out_total = heap->limit;
    *out_free = heap->limit > reserved ? heap->limit - reserved : 0;
    tn_spin_unlock(&heap->lock);
    return TN_OK;
}

tn_status tn_memory_set_fraction(int device_index, double fraction)
{
    tn_device *device;
    tn_status status = tn_device_of(device_index, &device);
    if (status != TN_OK)
        return status;
    if (!(fraction >= 0 && fraction <= 1))
        return tn_fail(TN_ERROR_VALUE, "Invalid fraction value: %g. Allowed range: 0 to 1",
                       fraction);
    tn_spin_lock(&device->heap.lock);
    device->heap.allowed = (size_t)((double)device->heap.limit * fraction);
    tn_spin_unlock(&device->heap.lock);
    return TN_OK;
}

void tn_memory_configure(const tn_memory_config *config)
{
    tn_heap_config = *config;
}

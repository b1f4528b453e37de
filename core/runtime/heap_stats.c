/* What the allocator tells about itself: statistics, the snapshot and the history. */
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "runtime/device.h"
#include "runtime/stream.h"
#include "prof/prof.h"

enum { METRICS = 9 };

/* reset() walks the per-pool metrics as one array: the first fields, all of one type. */
_Static_assert(offsetof(tn_memory_stats, num_alloc_retries) ==
                   sizeof(tn_memory_stat) * METRICS * TN_POOL_COUNT,
               "per-pool metrics come first");

void tn_stat_count(tn_memory_stat *stat, int64_t change)
{
    stat->current += change;
    stat->allocated += change > 0 ? change : 0;
    stat->freed -= change < 0 ? change : 0;
    stat->peak = stat->current > stat->peak ? stat->current : stat->peak;
}

tn_status tn_memory_get_stats(int device_index, tn_memory_stats *out_stats)
{
    tn_device *device;
    tn_status status = tn_device_of(device_index, &device);
    if (status != TN_OK)
        return status;
    tn_spin_lock(&device->heap.lock);
    *out_stats = device->heap.stats;
    tn_spin_unlock(&device->heap.lock);
    out_stats->max_split_size = (int64_t)tn_heap_config.max_split_size;
    return TN_OK;
}

static void reset_stat(tn_memory_stat *stat, bool peak)
{
    if (peak)
        stat->peak = stat->current;
    else
        stat->allocated = stat->freed = 0;
}

static void reset(int device_index, bool peak)
{
    tn_device *device;
    if (tn_device_of(device_index, &device) != TN_OK)
        return;
    tn_heap *heap = &device->heap;
    tn_spin_lock(&heap->lock);
    for (int i = 0; i < METRICS * TN_POOL_COUNT; i++)
        reset_stat(&heap->stats.allocation[0] + i, peak);
    reset_stat(&heap->stats.oversize_allocations, peak);
    reset_stat(&heap->stats.oversize_segments, peak);
    if (!peak)
        heap->stats.num_alloc_retries = heap->stats.num_ooms =
            heap->stats.num_sync_all_streams = heap->stats.num_device_alloc =
                heap->stats.num_device_free = heap->stats.num_tensor_frees = 0;
    tn_spin_unlock(&heap->lock);
}

void tn_memory_reset_peak(int device)
{
    reset(device, true);
}

void tn_memory_reset_accumulated(int device)
{
    reset(device, false);
}

size_t tn_heap_largest_free(const tn_heap *heap)
{
    size_t largest = 0;
    for (const tn_segment *segment = heap->segments; segment; segment = segment->next)
        for (const tn_heap_block *block = segment->first; block; block = block->next)
            if (block->state >= TN_STATE_QUICK && block->size > largest)
                largest = block->size;
    return largest;
}

/* ---- snapshot ------------------------------------------------------------------------------- */

typedef struct snapshot {
    tn_snapshot_row *rows;
    size_t capacity, count;
    tn_snapshot_row overflow; /* where rows beyond the capacity go */
} snapshot;

static tn_snapshot_row *add_row(snapshot *snap)
{
    size_t index = snap->count++;
    return index < snap->capacity ? &snap->rows[index] : &snap->overflow;
}

static void add_segment(snapshot *snap, const tn_heap *heap, const tn_segment *segment)
{
    tn_snapshot_row *head = add_row(snap);
    *head = (tn_snapshot_row){.is_segment = true,
                              .is_large = segment->pool == TN_POOL_LARGE,
                              .device = heap->device,
                              .address = (uint64_t)(uintptr_t)segment->base,
                              .bytes = segment->bytes,
                              .stream_id = (uint64_t)segment->stream->id};
    uint64_t requested = 0, allocated = 0;
    for (const tn_heap_block *block = segment->first; block; block = block->next) {
        tn_snapshot_row *row = add_row(snap);
        bool active = block->state == TN_STATE_ACTIVE;
        *row = *head;
        row->is_segment = false;
        row->address = (uint64_t)(uintptr_t)block->handle.data;
        row->bytes = block->size;
        row->requested_bytes = active ? block->handle.bytes : 0;
        row->allocated_bytes = active ? block->size : 0;
        row->state = active                                ? TN_BLOCK_ACTIVE
                     : block->state == TN_STATE_PENDING ? TN_BLOCK_PENDING_FREE
                                                           : TN_BLOCK_INACTIVE;
        requested += row->requested_bytes;
        allocated += row->allocated_bytes;
    }
    head->requested_bytes = requested;
    head->allocated_bytes = allocated;
}

tn_status tn_memory_snapshot(tn_snapshot_row *rows, size_t capacity, size_t *out_count)
{
    snapshot snap = {.rows = rows, .capacity = capacity};
    int open = atomic_load(&tn_devices_open);
    if (atomic_load(&tn_forked))
        return tn_fail_forked();
    for (int i = 0; i < open; i++) {
        tn_heap *heap = &tn_devices[i].heap;
        tn_spin_lock(&heap->lock);
        const tn_segment *previous = NULL;
        for (size_t slab = 0; slab < heap->slab_count; slab++) {
            if (!heap->slabs[slab] || heap->slabs[slab] == previous)
                continue;
            previous = heap->slabs[slab];
            add_segment(&snap, heap, previous);
        }
        tn_spin_unlock(&heap->lock);
    }
    *out_count = snap.count;
    return TN_OK;
}

/* ---- history: a ring of the latest rows, allocated when recording starts --------------------- */

_Atomic(bool) tn_trace_on;
static tn_spin trace_lock;
static tn_memory_trace_row *trace_rows;
static size_t trace_capacity;
static uint64_t trace_count;
static _Thread_local uint32_t trace_line;

void tn_trace_note_line(void)
{
    trace_line = tn_prof_source_line();
}

void tn_trace_add(int action, int device, const void *address, size_t bytes, int64_t stream_id)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    tn_spin_lock(&trace_lock);
    if (trace_capacity > 0)
        trace_rows[trace_count++ % trace_capacity] =
            (tn_memory_trace_row){.action = (unsigned)action,
                                  .device = device,
                                  .source_line = trace_line,
                                  .address = (uint64_t)(uintptr_t)address,
                                  .bytes = bytes,
                                  .stream_id = (uint64_t)stream_id,
                                  .time_us = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000};
    tn_spin_unlock(&trace_lock);
}

void tn_memory_record_history(bool on, size_t max_rows)
{
    enum { MOST_ROWS = 1 << 20 };
    if (atomic_load(&tn_forked))
        return;
    size_t capacity = max_rows < MOST_ROWS ? max_rows : MOST_ROWS;
    tn_memory_trace_row *rows = on && capacity ? tn_malloc(capacity * sizeof *rows) : NULL;
    tn_spin_lock(&trace_lock);
    tn_memory_trace_row *old = trace_rows;
    if (on) {
        trace_rows = rows;
        trace_capacity = rows ? capacity : 0;
        trace_count = 0;
    }
    atomic_store(&tn_trace_on, on && rows);
    tn_spin_unlock(&trace_lock);
    if (on)
        tn_free(old);
}

tn_status tn_memory_history(tn_memory_trace_row *rows, size_t capacity, size_t *out_count)
{
    if (atomic_load(&tn_forked))
        return tn_fail_forked();
    tn_spin_lock(&trace_lock);
    uint64_t available = trace_count < trace_capacity ? trace_count : trace_capacity;
    for (uint64_t i = 0; i < available && i < capacity; i++)
        rows[i] = trace_rows[(trace_count - available + i) % trace_capacity];
    *out_count = (size_t)available;
    tn_spin_unlock(&trace_lock);
    return TN_OK;
}

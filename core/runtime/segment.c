/* Segments, bins and quick lists: where free memory rests and how it is split, merged, taken from
 * the system and given back. Every function runs under the heap's lock. */
#include <fcntl.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "runtime/device.h"
#include "runtime/stream.h"

enum { SLOTS_PER_CHUNK = 256, BIN_PROBES = 16, CLASS_STEPS = 16, CLASS_STEPS_SHIFT = 4 };
enum { FIRST_OCTAVE = 12 }; /* classes up to 4096 bytes are multiples of the unit */
static const size_t default_large_segment = (size_t)20 << 20;

static size_t round_up(size_t value, size_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* The class whose size is the smallest not below `bytes`: 16 steps per power of two. */
static unsigned ceil_class(size_t bytes, size_t *out_size)
{
    if (bytes <= (size_t)TN_UNIT_BYTES * CLASS_STEPS) {
        unsigned units = bytes == 0 ? 1 : (unsigned)((bytes + TN_UNIT_BYTES - 1) / TN_UNIT_BYTES);
        *out_size = (size_t)units * TN_UNIT_BYTES;
        return units - 1;
    }
    unsigned octave = 63u - (unsigned)__builtin_clzll(bytes - 1);
    size_t index = (bytes - 1 - ((size_t)1 << octave)) >> (octave - CLASS_STEPS_SHIFT);
    *out_size = ((size_t)1 << octave) + ((index + 1) << (octave - CLASS_STEPS_SHIFT));
    return CLASS_STEPS * (1 + octave - FIRST_OCTAVE) + (unsigned)index;
}

static unsigned floor_class(size_t bytes)
{
    size_t size;
    unsigned index = ceil_class(bytes, &size);
    return size > bytes ? index - 1 : index;
}

size_t tn_size_class(size_t bytes, unsigned *out_class)
{
    size_t divisions = tn_heap_config.roundup_power2_divisions;
    if (divisions > 1 && bytes > TN_UNIT_BYTES * divisions) {
        size_t step = ((size_t)1 << (63 - __builtin_clzll(bytes))) / divisions;
        bytes = round_up(bytes, step > TN_UNIT_BYTES ? step : TN_UNIT_BYTES);
    }
    size_t size;
    if (bytes <= TN_CLASS_LIMIT_BYTES) {
        *out_class = ceil_class(bytes, &size);
        return size;
    }
    *out_class = TN_QUICK_CLASSES;
    return round_up(bytes, TN_LARGE_UNIT_BYTES);
}

/* ---- slots ---------------------------------------------------------------------------------- */

static tn_heap_block *take_slot(tn_heap *heap)
{
    if (!heap->free_slots) {
        tn_heap_block *chunk = tn_calloc(SLOTS_PER_CHUNK, sizeof *chunk);
        if (!chunk)
            return NULL;
        for (int i = SLOTS_PER_CHUNK - 1; i >= 0; i--) {
            chunk[i].handle.device = heap->device;
            chunk[i].free_next = heap->free_slots;
            heap->free_slots = &chunk[i];
        }
    }
    tn_heap_block *block = heap->free_slots;
    heap->free_slots = block->free_next;
    return block;
}

static void give_slot(tn_heap *heap, tn_heap_block *block)
{
    block->handle.data = NULL;
    block->segment = NULL;
    block->free_next = heap->free_slots;
    heap->free_slots = block;
}

/* ---- free blocks ---------------------------------------------------------------------------- */

static void count_free(tn_heap *heap, const tn_heap_block *block, bool added)
{
    if (!block->prev && !block->next)
        return; /* a whole segment is not a split block */
    int pool = block->segment->pool;
    if (added) {
        tn_stat_raise(heap->stats.inactive_split, pool, 1);
        tn_stat_raise(heap->stats.inactive_split_bytes, pool, (int64_t)block->size);
    } else {
        tn_stat_lower(heap->stats.inactive_split, pool, 1);
        tn_stat_lower(heap->stats.inactive_split_bytes, pool, (int64_t)block->size);
    }
}

static void unbin(tn_heap *heap, tn_heap_block *block)
{
    count_free(heap, block, false);
    tn_heap_cache *cache = block->segment->stream->cache;
    int pool = block->segment->pool;
    unsigned index = floor_class(block->size);
    if (block->free_prev)
        block->free_prev->free_next = block->free_next;
    else
        cache->bins[pool][index] = block->free_next;
    if (block->free_next)
        block->free_next->free_prev = block->free_prev;
    if (!cache->bins[pool][index])
        cache->bin_mask[pool][index / 64] &= ~((uint64_t)1 << (index % 64));
}

static void bin(tn_heap *heap, tn_heap_block *block)
{
    tn_heap_cache *cache = block->segment->stream->cache;
    int pool = block->segment->pool;
    unsigned index = floor_class(block->size);
    tn_heap_block **head = &cache->bins[pool][index];
    block->state = TN_STATE_BINNED;
    block->free_prev = NULL;
    block->free_next = *head;
    if (*head)
        (*head)->free_prev = block;
    *head = block;
    cache->bin_mask[pool][index / 64] |= (uint64_t)1 << (index % 64);
    count_free(heap, block, true);
}

static void set_start(tn_segment *segment, const tn_heap_block *at, tn_heap_block *block)
{
    if (segment->starts)
        segment->starts[(size_t)((char *)at->handle.data - segment->base) / TN_UNIT_BYTES] = block;
}

/* Appends `right` to `left`; both are free and in no list. */
static void merge(tn_heap *heap, tn_heap_block *left, tn_heap_block *right)
{
    set_start(right->segment, right, NULL);
    left->size += right->size;
    left->next = right->next;
    if (right->next)
        right->next->prev = left;
    give_slot(heap, right);
}

void tn_segment_put(tn_heap *heap, tn_heap_block *block)
{
    tn_heap_block *prev = block->prev, *next = block->next;
    if (next && next->state == TN_STATE_BINNED) {
        unbin(heap, next);
        merge(heap, block, next);
    }
    if (prev && prev->state == TN_STATE_BINNED) {
        unbin(heap, prev);
        merge(heap, prev, block);
        block = prev;
    }
    bin(heap, block);
}

void tn_segment_push_quick(tn_heap *heap, tn_heap_block *block)
{
    tn_heap_cache *cache = block->segment->stream->cache;
    block->state = TN_STATE_QUICK;
    block->free_next = cache->quick[block->quick_class];
    cache->quick[block->quick_class] = block;
    count_free(heap, block, true);
}

tn_heap_block *tn_segment_pop_quick(tn_heap *heap, tn_heap_cache *cache, unsigned quick_class)
{
    tn_heap_block *block = cache->quick[quick_class];
    if (block) {
        cache->quick[quick_class] = block->free_next;
        count_free(heap, block, false);
    }
    return block;
}

void tn_segment_consolidate(tn_heap *heap, tn_stream *stream)
{
    for (unsigned i = 0; i < TN_QUICK_CLASSES; i++)
        for (tn_heap_block *block; (block = tn_segment_pop_quick(heap, stream->cache, i));)
            tn_segment_put(heap, block);
}

/* ---- taking --------------------------------------------------------------------------------- */

static size_t large_segment_bytes(void)
{
    size_t bytes = tn_heap_config.large_segment_size;
    return bytes ? round_up(bytes, TN_SLAB_BYTES) : default_large_segment;
}

/* PyTorch's max_split_size: larger blocks are never split, and serve only requests of about their
 * size, so that big pieces stay whole. */
static bool may_serve(const tn_heap_block *block, size_t size)
{
    if (block->size < size)
        return false;
    if (!tn_heap_is_oversize(block->size))
        return true;
    return tn_heap_is_oversize(size) && block->size < size + large_segment_bytes();
}

static tn_heap_block *find_in_bin(tn_heap_block *block, size_t size)
{
    for (int probes = BIN_PROBES; block && probes > 0; block = block->free_next, probes--)
        if (may_serve(block, size))
            return block;
    return NULL;
}

/* Good fit: the first bin, from the request's own upwards, that holds a block large enough. */
static tn_heap_block *find_free(const tn_heap_cache *cache, size_t size, int pool)
{
    unsigned index = floor_class(size), word = index / 64;
    uint64_t mask = cache->bin_mask[pool][word] & (~(uint64_t)0 << (index % 64));
    for (;;) {
        while (mask) {
            unsigned bit = (unsigned)__builtin_ctzll(mask);
            tn_heap_block *block = find_in_bin(cache->bins[pool][word * 64 + bit], size);
            if (block)
                return block;
            mask &= mask - 1;
        }
        if (++word == TN_BIN_WORDS)
            return NULL;
        mask = cache->bin_mask[pool][word];
    }
}

static size_t unit_of(int pool)
{
    return pool == TN_POOL_SMALL ? TN_UNIT_BYTES : TN_LARGE_UNIT_BYTES;
}

/* Cuts `block` (in no list) down to `size`; the rest becomes a free block. Without a slot for the
 * rest the block stays whole. */
static void split(tn_heap *heap, tn_heap_block *block, size_t size)
{
    size_t rest_bytes = block->size - size;
    if (rest_bytes < unit_of(block->segment->pool) || tn_heap_is_oversize(block->size))
        return;
    tn_heap_block *rest = take_slot(heap);
    if (!rest)
        return;
    rest->handle.data = (char *)block->handle.data + size;
    rest->size = rest_bytes;
    rest->segment = block->segment;
    rest->prev = block;
    rest->next = block->next;
    rest->recorded_streams = 0;
    if (block->next)
        block->next->prev = rest;
    block->next = rest;
    block->size = size;
    set_start(block->segment, rest, rest);
    bin(heap, rest);
}

tn_heap_block *tn_segment_take(tn_heap *heap, tn_stream *stream, size_t size, int pool)
{
    tn_heap_block *block = find_free(stream->cache, size, pool);
    if (block) {
        unbin(heap, block);
        split(heap, block, size);
    }
    return block;
}

/* ---- segments ------------------------------------------------------------------------------- */

/* First fit over the slab table; SIZE_MAX when the address space is exhausted. */
static size_t find_slabs(tn_heap *heap, size_t count)
{
    size_t run = 0;
    while (heap->slab_hint < heap->slab_count && heap->slabs[heap->slab_hint])
        heap->slab_hint++;
    for (size_t i = heap->slab_hint; i < heap->slab_count; i++) {
        run = heap->slabs[i] ? 0 : run + 1;
        if (run == count)
            return i + 1 - count;
    }
    return SIZE_MAX;
}

static tn_segment *create_segment(tn_heap *heap, tn_stream *stream, size_t bytes, int pool)
{
    size_t count = bytes / TN_SLAB_BYTES, first = find_slabs(heap, count);
    if (first == SIZE_MAX)
        return NULL;
    tn_segment *segment = tn_calloc(1, sizeof *segment);
    tn_heap_block *block = segment ? take_slot(heap) : NULL;
    if (block && pool == TN_POOL_SMALL)
        segment->starts = tn_calloc(bytes / TN_UNIT_BYTES, sizeof *segment->starts);
    if (!block || (pool == TN_POOL_SMALL && !segment->starts)) {
        if (block)
            give_slot(heap, block);
        tn_free(segment);
        return NULL;
    }
    segment->base = heap->base + first * TN_SLAB_BYTES;
    segment->bytes = bytes;
    segment->stream = stream;
    segment->pool = (uint8_t)pool;
    segment->first = block;
    segment->next = heap->segments;
    if (heap->segments)
        heap->segments->prev = segment;
    heap->segments = segment;
    for (size_t i = 0; i < count; i++)
        heap->slabs[first + i] = segment;
    block->handle.data = segment->base;
    block->size = bytes;
    block->segment = segment;
    block->prev = block->next = NULL;
    block->recorded_streams = 0;
    set_start(segment, block, block);
    return segment;
}

static size_t segment_bytes(size_t size, int pool)
{
    if (pool == TN_POOL_SMALL)
        return TN_SLAB_BYTES;
    size_t standard = large_segment_bytes();
    return size <= standard / 2 ? standard : round_up(size, TN_SLAB_BYTES);
}

tn_heap_block *tn_segment_grow(tn_heap *heap, tn_stream *stream, size_t size, int pool)
{
    size_t reserved = (size_t)heap->stats.reserved_bytes[TN_POOL_ALL].current;
    size_t room = heap->allowed > reserved ? heap->allowed - reserved : 0;
    size_t bytes = segment_bytes(size, pool);
    if (bytes > room)
        bytes = round_up(size, TN_SLAB_BYTES);
    if (bytes > room)
        return NULL;
    tn_segment *segment = create_segment(heap, stream, bytes, pool);
    if (!segment)
        return NULL;
    heap->stats.num_device_alloc++;
    tn_stat_raise(heap->stats.segment, pool, 1);
    tn_stat_raise(heap->stats.reserved_bytes, pool, (int64_t)bytes);
    segment->oversize = tn_heap_is_oversize(bytes);
    if (segment->oversize)
        tn_stat_count(&heap->stats.oversize_segments, 1);
    tn_trace(TN_TRACE_SEGMENT_ALLOC, heap->device, segment->base, bytes, stream);
    tn_heap_block *block = segment->first;
    split(heap, block, size);
    return block;
}

static void release_segment(tn_heap *heap, tn_segment *segment)
{
    tn_heap_block *block = segment->first;
    size_t first = (size_t)(segment->base - heap->base) / TN_SLAB_BYTES;
    unbin(heap, block);
    give_slot(heap, block);
    fallocate(heap->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, segment->base - heap->base,
              (off_t)segment->bytes);
    for (size_t i = 0; i < segment->bytes / TN_SLAB_BYTES; i++)
        heap->slabs[first + i] = NULL;
    heap->slab_hint = first < heap->slab_hint ? first : heap->slab_hint;
    if (segment->prev)
        segment->prev->next = segment->next;
    else
        heap->segments = segment->next;
    if (segment->next)
        segment->next->prev = segment->prev;
    heap->stats.num_device_free++;
    if (segment->oversize)
        tn_stat_count(&heap->stats.oversize_segments, -1);
    tn_stat_lower(heap->stats.segment, segment->pool, 1);
    tn_stat_lower(heap->stats.reserved_bytes, segment->pool, (int64_t)segment->bytes);
    tn_trace(TN_TRACE_SEGMENT_FREE, heap->device, segment->base, segment->bytes, segment->stream);
    tn_free(segment->starts);
    tn_free(segment);
}

size_t tn_segment_release_idle(tn_heap *heap)
{
    size_t released = 0;
    tn_device *device = &tn_devices[heap->device];
    for (int i = 0; i < device->stream_count; i++)
        tn_segment_consolidate(heap, device->streams[i]);
    for (tn_segment *segment = heap->segments, *next; segment; segment = next) {
        next = segment->next;
        if (segment->first->state != TN_STATE_BINNED || segment->first->next ||
            !tn_stream_is_idle(segment->stream))
            continue;
        released += segment->bytes;
        release_segment(heap, segment);
    }
    return released;
}

tn_heap_block *tn_segment_find(const tn_heap *heap, const void *pointer)
{
    size_t offset = (size_t)((const char *)pointer - heap->base);
    if (!heap->base || (const char *)pointer < heap->base ||
        offset >> TN_SLAB_SHIFT >= heap->slab_count)
        return NULL;
    tn_segment *segment = heap->slabs[offset >> TN_SLAB_SHIFT];
    if (!segment)
        return NULL;
    size_t inside = (size_t)((const char *)pointer - segment->base);
    tn_heap_block *block = segment->first;
    if (segment->starts) {
        size_t unit = inside / TN_UNIT_BYTES;
        while (!segment->starts[unit])
            unit--;
        return segment->starts[unit];
    }
    while (block->next && (const char *)block->next->handle.data <= (const char *)pointer)
        block = block->next;
    return block;
}

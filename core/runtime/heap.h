/* The memory of one device: a sparse memfd mapped once, carved into segments of whole slabs,
 * segments carved into blocks.
 *
 *     slab     2 MiB-aligned piece of the address space; `slabs` says whose it is
 *     segment  consecutive slabs taken for one stream and one pool (small blocks or large ones)
 *     block    what one storage owns, or a free piece; the blocks of a segment are linked in
 *              address order and cover it
 *
 * A free block of a class size below 16 MiB rests unmerged on its stream's quick list of that
 * class: the usual alloc/free pair costs a push and a pop. When a quick list and the bins cannot
 * serve a request the stream's quick lists are merged into the bins, and only then does the heap
 * grow.
 *
 * Reuse is ordered by the stream: a block freed while launches that use it are still queued is
 * handed out again only to launches queued behind them. Memory goes back to the system (a hole
 * punched) only from streams that are idle.
 *
 * One lock per heap guards everything here. It is not held while waiting for a stream. */
#ifndef TN_RUNTIME_HEAP_H
#define TN_RUNTIME_HEAP_H

#include "base/futex.h"
#include "tn/runtime.h"

enum {
    TN_UNIT_BYTES = 256,                 /* of the small pool */
    TN_LARGE_UNIT_BYTES = 64 << 10,      /* of the large pool */
    TN_SMALL_LIMIT_BYTES = 1 << 20,      /* from here on the large pool */
    TN_CLASS_LIMIT_BYTES = 16 << 20,     /* beyond: not rounded to classes */
    TN_SLAB_BYTES = 2 << 20,
    TN_SLAB_SHIFT = 21,
    TN_QUICK_CLASSES = 208,
    TN_BIN_CLASSES = 640, /* the same scale, up to 2^51 bytes */
    TN_BIN_WORDS = TN_BIN_CLASSES / 64
};

typedef enum tn_block_state {
    TN_STATE_ACTIVE,
    TN_STATE_PENDING, /* freed; waits for the streams of tn_block_record_stream */
    TN_STATE_QUICK,
    TN_STATE_BINNED
} tn_block_state;

typedef struct tn_heap_block tn_heap_block;
typedef struct tn_segment tn_segment;

struct tn_heap_block {
    tn_block handle; /* first: a tn_block * is a tn_heap_block * */
    size_t size;     /* rounded */
    tn_segment *segment;
    tn_heap_block *prev, *next;           /* neighbours by address */
    tn_heap_block *free_prev, *free_next; /* quick list (next only), bin, or free slots */
    uint64_t recorded_streams;            /* mask by stream id */
    uint16_t quick_class;                 /* TN_QUICK_CLASSES: none */
    uint8_t state;
    bool oversize; /* counted so when it was handed out */
};

struct tn_segment {
    char *base;
    size_t bytes;
    tn_stream *stream;
    tn_heap_block *first;
    tn_segment *prev, *next;
    uint8_t pool;           /* TN_POOL_SMALL or TN_POOL_LARGE */
    bool oversize;
    tn_heap_block **starts; /* small pool: block that starts at each unit */
};

/* The free blocks of one stream. */
typedef struct tn_heap_cache {
    tn_heap_block *quick[TN_QUICK_CLASSES];
    tn_heap_block *bins[TN_POOL_COUNT][TN_BIN_CLASSES];
    uint64_t bin_mask[TN_POOL_COUNT][TN_BIN_WORDS];
} tn_heap_cache;

typedef struct tn_heap_pending tn_heap_pending;

typedef struct tn_heap {
    tn_spin lock;
    int device;
    int fd;
    char *base;
    size_t slab_count;
    tn_segment **slabs; /* [slab_count] */
    size_t slab_hint;   /* no free slab below */
    size_t limit;       /* bytes of this host that the device may hold */
    size_t allowed;     /* limit * fraction */
    tn_segment *segments;
    tn_heap_block *free_slots;
    tn_heap_pending *pending;
    tn_memory_stats stats;
} tn_heap;

extern tn_memory_config tn_heap_config;

/* heap.c */
tn_status tn_heap_open(tn_heap *heap, int device, size_t limit);
tn_heap_cache *tn_heap_cache_create(void);
size_t tn_heap_largest_free(const tn_heap *heap);

/* segment.c: all with the lock held */
size_t tn_size_class(size_t bytes, unsigned *out_class); /* rounded size */
tn_heap_block *tn_segment_take(tn_heap *heap, tn_stream *stream, size_t size, int pool);
tn_heap_block *tn_segment_grow(tn_heap *heap, tn_stream *stream, size_t size, int pool);
void tn_segment_put(tn_heap *heap, tn_heap_block *block); /* a free block, merged into the bins */
void tn_segment_push_quick(tn_heap *heap, tn_heap_block *block);
tn_heap_block *tn_segment_pop_quick(tn_heap *heap, tn_heap_cache *cache, unsigned quick_class);
void tn_segment_consolidate(tn_heap *heap, tn_stream *stream);
size_t tn_segment_release_idle(tn_heap *heap); /* bytes given back to the system */
tn_heap_block *tn_segment_find(const tn_heap *heap, const void *pointer);

/* heap_stats.c */
static inline void tn_stat_raise(tn_memory_stat *rows, int pool, int64_t amount)
{
    tn_memory_stat *row = &rows[TN_POOL_ALL];
    for (int pass = 0; pass < 2; pass++, row = &rows[pool]) {
        row->current += amount;
        row->allocated += amount;
        row->peak = row->current > row->peak ? row->current : row->peak;
    }
}

/* Blocks and segments from max_split_size on; never split. */
static inline bool tn_heap_is_oversize(size_t bytes)
{
    return tn_heap_config.max_split_size && bytes >= tn_heap_config.max_split_size;
}

void tn_stat_count(tn_memory_stat *stat, int64_t change); /* of a metric without pools */

static inline void tn_stat_lower(tn_memory_stat *rows, int pool, int64_t amount)
{
    rows[TN_POOL_ALL].current -= amount;
    rows[TN_POOL_ALL].freed += amount;
    rows[pool].current -= amount;
    rows[pool].freed += amount;
}

extern _Atomic(bool) tn_trace_on;

/* Notes the source line for the rows that this thread is about to add. Before the heap's lock is
 * taken: the hook may wait for the interpreter's lock, whose holder may be waiting for ours. */
void tn_trace_note_line(void);

static inline void tn_trace_prepare(void)
{
    if (atomic_load_explicit(&tn_trace_on, memory_order_relaxed))
        tn_trace_note_line();
}
void tn_trace_add(int action, int device, const void *address, size_t bytes, int64_t stream_id);

static inline void tn_trace(int action, int device, const void *address, size_t bytes,
                            const tn_stream *stream)
{
    if (atomic_load_explicit(&tn_trace_on, memory_order_relaxed))
        tn_trace_add(action, device, address, bytes, tn_stream_id(stream));
}

#endif

/* The runtime: devices, memory blocks, streams, events and the one call that runs an operator.
 *
 * Words (docs/glossary.md): a *device* is one software NeuronCore; a *slab* is a 2 MiB-aligned
 * piece of its address space; a *block* is what one tensor storage owns; a *stream* is an in-order
 * queue of launches; a *launch* is one operator applied to operands.
 *
 * Threads: every function may be called from any thread. None takes the Python GIL. Functions that
 * can wait say so and take a timeout. */
#ifndef TN_RUNTIME_H
#define TN_RUNTIME_H

#include "tn/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- process ------------------------------------------------------------------------------- */

/* Number of devices; reads the environment only, opens nothing, never fails (0 on bad settings). */
TN_API int tn_device_count(void);

/* Opens the runtime. Idempotent and thread-safe; every function below that needs it calls it. */
TN_API tn_status tn_init(void);
TN_API bool tn_is_initialized(void);

/* True in a child forked after tn_init(): every call that would touch the device then fails with
 * TN_ERROR_FORKED. Dropping inherited blocks is harmless. */
TN_API bool tn_in_bad_fork(void);

/* Drains every stream and ends all threads; later calls start them again. For atexit. */
TN_API void tn_quiesce(void);

/* Threads that one operator may use, >= 1. Results do not depend on it. */
TN_API void tn_set_num_threads(int count);
TN_API int tn_num_threads(void);

/* Instruction set in use: "baseline", "avx2", "avx512" or "amx" (TN_ISA forces a lower one). */
TN_API const char *tn_isa_name(void);

/* Launch blocking (NEURON_LAUNCH_BLOCKING): every launch is complete when tn_launch returns. */
TN_API void tn_set_launch_blocking(bool on);
TN_API bool tn_launch_blocking(void);

/* ---- memory -------------------------------------------------------------------------------- */

typedef struct tn_stream tn_stream;
typedef struct tn_event tn_event;

/* The handle of one allocation. The struct's address stays valid for the life of the process (slots
 * are recycled, never unmapped), so (block, generation) names one state of one allocation: the
 * generation grows on allocation, on free and on every write. `data` and `bytes` are read-only. */
typedef struct tn_block {
    void *data;
    size_t bytes;        /* as requested, before rounding */
    uint64_t generation; /* read and bumped with atomic builtins */
    int device;
} tn_block;

/* bytes > 0. TN_ERROR_OUT_OF_MEMORY after one flush of the cache; the message carries the sizes. */
TN_API tn_status tn_block_alloc(int device, size_t bytes, tn_stream *stream, tn_block **out_block);

/* Returns the block to its stream's free list at once; launches already queued on that stream still
 * see its bytes, because whoever gets the memory next on that stream runs after them. Streams named
 * by tn_block_record_stream delay the reuse. Safe in a forked child and during exit. */
TN_API void tn_block_free(tn_block *block);
TN_API void tn_block_record_stream(tn_block *block, tn_stream *stream);

/* The live block that contains `pointer`, or NULL. */
TN_API tn_block *tn_block_find(const void *pointer);

/* A write that the runtime did not launch (host fallback, host aliases). */
TN_API void tn_block_touch(tn_block *block);

TN_API tn_status tn_memory_empty_cache(int device);
TN_API tn_status tn_memory_info(int device, size_t *out_free, size_t *out_total);
TN_API tn_status tn_memory_set_fraction(int device, double fraction); /* of the limit, (0, 1] */

typedef struct tn_memory_stat {
    int64_t current, peak, allocated, freed;
} tn_memory_stat;

enum { TN_POOL_ALL = 0, TN_POOL_SMALL = 1, TN_POOL_LARGE = 2, TN_POOL_COUNT = 3 };

/* PyTorch's schema (c10::CachingDeviceAllocator::DeviceStats), one row per pool. */
typedef struct tn_memory_stats {
    tn_memory_stat allocation[TN_POOL_COUNT];
    tn_memory_stat segment[TN_POOL_COUNT];
    tn_memory_stat active[TN_POOL_COUNT];
    tn_memory_stat inactive_split[TN_POOL_COUNT];
    tn_memory_stat allocated_bytes[TN_POOL_COUNT];
    tn_memory_stat reserved_bytes[TN_POOL_COUNT];
    tn_memory_stat active_bytes[TN_POOL_COUNT];
    tn_memory_stat inactive_split_bytes[TN_POOL_COUNT];
    tn_memory_stat requested_bytes[TN_POOL_COUNT];
    int64_t num_alloc_retries, num_ooms, num_sync_all_streams;
    int64_t num_device_alloc, num_device_free, num_tensor_frees, max_split_size;
    tn_memory_stat oversize_allocations, oversize_segments;
} tn_memory_stats;

TN_API tn_status tn_memory_get_stats(int device, tn_memory_stats *out_stats);
TN_API void tn_memory_reset_peak(int device);
TN_API void tn_memory_reset_accumulated(int device);

/* Allocator settings; sizes in bytes, 0 = default. Mirrors the PYTORCH_ALLOC_CONF knobs that
 * apply. */
typedef struct tn_memory_config {
    size_t max_split_size;
    size_t roundup_power2_divisions; /* 0 = off */
    double garbage_collection_threshold; /* 0 = off, else fraction of the limit */
    size_t large_segment_size;
} tn_memory_config;
TN_API void tn_memory_configure(const tn_memory_config *config);

/* One segment or block of the snapshot, in address order; a segment row is followed by its
 * blocks. */
typedef struct tn_snapshot_row {
    bool is_segment, is_large;
    enum { TN_BLOCK_ACTIVE, TN_BLOCK_PENDING_FREE, TN_BLOCK_INACTIVE } state;
    int device;
    uint64_t address, bytes, requested_bytes, allocated_bytes, stream_id;
} tn_snapshot_row;

/* Allocation history (torch.neuron.memory._record_memory_history). */
typedef struct tn_memory_trace_row {
    enum {
        TN_TRACE_ALLOC,
        TN_TRACE_FREE_REQUESTED,
        TN_TRACE_FREE_COMPLETED,
        TN_TRACE_SEGMENT_ALLOC,
        TN_TRACE_SEGMENT_FREE,
        TN_TRACE_OUT_OF_MEMORY,
        TN_TRACE_SNAPSHOT
    } action;
    int device;
    uint32_t source_line;
    uint64_t address, bytes, stream_id;
    int64_t time_us; /* CLOCK_REALTIME */
} tn_memory_trace_row;

/* Fill up to `capacity` rows; *out_count is the number available (call with 0 first). */
TN_API tn_status tn_memory_snapshot(tn_snapshot_row *rows, size_t capacity, size_t *out_count);
TN_API void tn_memory_record_history(bool on, size_t max_rows);
TN_API tn_status tn_memory_history(tn_memory_trace_row *rows, size_t capacity, size_t *out_count);

/* ---- streams and events -------------------------------------------------------------------- */

TN_API tn_status tn_stream_default(int device, tn_stream **out_stream); /* id 0 */
TN_API tn_status tn_stream_create(int device, int priority, tn_stream **out_stream);
/* Streams are never destroyed; freed ones (by refcount in the caller) may be handed out again. */
TN_API tn_status tn_stream_from_id(int device, int64_t id, tn_stream **out_stream);
TN_API int64_t tn_stream_id(const tn_stream *stream);
TN_API int tn_stream_device(const tn_stream *stream);
TN_API int tn_stream_priority(const tn_stream *stream);
TN_API bool tn_stream_query(tn_stream *stream); /* true: everything so far has completed */

/* Waits until everything queued so far has completed, helping to run it. timeout_ns < 0: for ever.
 * TN_OK, TN_TIMEOUT, or the stream's pending error (reported once). */
TN_API tn_status tn_stream_wait(tn_stream *stream, int64_t timeout_ns);
TN_API tn_status tn_device_wait(int device, int64_t timeout_ns);

TN_API tn_status tn_event_create(int device, bool timing, tn_event **out_event);
TN_API void tn_event_destroy(tn_event *event); /* harmless while a stream still waits on it */
TN_API tn_status tn_event_record(tn_event *event, tn_stream *stream);
/* Blocks the stream only, never the host, until the event's latest record so far has completed. */
TN_API tn_status tn_stream_wait_event(tn_stream *stream, tn_event *event);
TN_API bool tn_event_query(const tn_event *event); /* never recorded: true */
TN_API tn_status tn_event_wait(tn_event *event, int64_t timeout_ns);
TN_API tn_status tn_event_elapsed_ms(const tn_event *start, const tn_event *end, double *out_ms);

/* ---- launching ----------------------------------------------------------------------------- */

enum {
    TN_OPERAND_IMMEDIATE = 1, /* `value` holds it: a Python number or 0-dim host tensor */
    TN_OPERAND_HOST = 2,      /* `data` is host memory, the caller's until the launch has completed */
    TN_OPERAND_ABSENT = 4,    /* an optional tensor that was not given */
    TN_OPERAND_CONJ = 8,      /* read as conj() of what is stored */
    TN_OPERAND_NEG = 16       /* read as the negative of what is stored */
};

/* One tensor argument. Sizes and strides are logical, in elements, uncoalesced and not broadcast:
 * kernels align them from the right and coalesce. They are borrowed for the call to tn_launch; a
 * queued launch owns copies. */
typedef struct tn_operand {
    tn_block *block;        /* NULL with any of the three flags above */
    uint64_t generation;    /* of the block when the launch was made; filled by tn_launch */
    int64_t offset_bytes;   /* of element 0 from block->data */
    void *data;             /* element 0; filled by tn_launch from block and offset */
    const int64_t *sizes;   /* [ndim] */
    const int64_t *strides; /* [ndim] */
    int32_t ndim;
    uint8_t dtype; /* tn_dtype */
    uint8_t flags;
    tn_scalar value;
} tn_operand;

enum {
    /* For copies from and to pageable host memory: when tn_launch returns TN_OK the host operands have
     * been used. Small host inputs are staged in the queue; otherwise the call waits for the stream
     * and runs the op itself. While the stream stays busy it returns TN_TIMEOUT about every 100 ms with
     * nothing launched: look for signals and call again. */
    TN_LAUNCH_COMPLETE_HOST = 1
};

/* One operator call: a plain struct, never a closure. Operands: outputs first, then inputs; an
 * in-place operand appears in both places. Operand order and scalars of each op:
 * core/op/ops.def. */
typedef struct tn_launch_desc {
    uint16_t op; /* TN_OP_x of tn/op.h */
    uint16_t num_outputs;
    uint16_t num_operands; /* outputs + inputs */
    uint16_t num_scalars;
    uint8_t compute_dtype; /* of pointwise ops and reductions: the common dtype after promotion;
                            * TN_DTYPE_NONE: the first input's */
    uint8_t flags;         /* TN_LAUNCH_... */
    tn_stream *stream;
    tn_operand *operands;
    const tn_scalar *scalars;
    uint64_t rng_seed, rng_offset; /* Philox counter range taken by the caller at enqueue */
} tn_launch_desc;

/* Runs the op now (idle stream, small work) or queues it. Arguments are already validated against
 * the op's rules; faults that only the data can tell come back here when the op ran inline, else
 * from the next wait on the stream. Each output block's generation is bumped. */
TN_API tn_status tn_launch(const tn_launch_desc *launch);

/* ---- tables -------------------------------------------------------------------------------- */

TN_API int tn_op_count(void);
TN_API const char *tn_op_name(int op);      /* "add" */
TN_API const char *tn_op_aten_name(int op); /* "aten::add.Tensor": what get_executed_ops() says */
/* Whether the op's kernel serves this compute dtype (pointwise ops: a tile primitive exists). */
TN_API bool tn_op_supports(int op, tn_dtype compute_dtype);
TN_API uint64_t tn_op_launches(int op);     /* since the last reset */
TN_API void tn_op_launches_reset(void);

/* What the device reports about itself. */
typedef struct tn_device_properties {
    char name[16];          /* modelled chip: "trn2", "trn3" */
    int major, minor;       /* NeuronCore generation: 3.0, 4.0 */
    int multi_processor_count; /* host threads available to the device */
    uint64_t total_memory;  /* bytes: the real limit on this host */
    uint64_t modelled_memory; /* bytes of HBM of the modelled logical core */
    char host_cpu[64];
    char isa[16];
    int physical_cores;
} tn_device_properties;
TN_API tn_status tn_device_get_properties(int device, tn_device_properties *out_properties);

#ifdef __cplusplus
}
#endif
#endif

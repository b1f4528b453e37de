/* Streams: in-order queues of launches. */
#ifndef TN_RUNTIME_STREAM_H
#define TN_RUNTIME_STREAM_H

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/device.h"
#include "tn/op.h"

struct tn_stream {
    int device;
    int id; /* index in its device's table */
    int priority;
    tn_heap_cache *cache;
    pthread_mutex_t token;
    _Atomic(uint64_t) position;  /* launches so far */
    _Atomic(uint64_t) completed; /* of them, finished */
    uint32_t launches[TN_OP_COUNT];
};

static inline uint64_t tn_stream_position(const tn_stream *stream)
{
    return atomic_load_explicit(&stream->position, memory_order_acquire);
}

static inline uint64_t tn_stream_completed(const tn_stream *stream)
{
    return atomic_load_explicit(&stream->completed, memory_order_acquire);
}

static inline bool tn_stream_is_idle(const tn_stream *stream)
{
    return tn_stream_completed(stream) == tn_stream_position(stream);
}

/* Waits until every stream has completed what is queued on it now; errors stay with their stream. */
void tn_device_drain(int device);

#endif

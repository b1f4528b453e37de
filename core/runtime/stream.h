/* Streams: in-order queues of launches, fed from any thread.
 *
 * Running a stream is a token (`running`): the caller of tn_launch, an executor or a waiting host
 * thread holds it, so one stream never runs twice and two streams run independently.
 *
 * Invariant, whenever `lock` is free: a queue that is not empty has someone who will run it: a
 * token holder, an executor that was asked (`scheduled`), or the stream whose progress it awaits
 * (`parked`).
 *
 * `lock` guards every field below it and is held for a few dozen instructions (longest: the copy of
 * a launch into the queue). No other stream's lock is taken inside. Lock order: heap or event,
 * stream, executors. */
#ifndef TN_RUNTIME_STREAM_H
#define TN_RUNTIME_STREAM_H

#include "base/futex.h"
#include "op/op.h"
#include "runtime/device.h"
#include "runtime/queue.h"
#include "tn/op.h"

typedef struct tn_fault {
    bool set;
    tn_error error;
} tn_fault;

struct tn_stream {
    int device;
    int id; /* index in its device's table */
    int priority;
    tn_heap_cache *cache; /* guarded by the heap's lock */

    _Alignas(64) tn_spin lock;
    bool running, scheduled, parked;
    _Atomic(uint64_t) position;  /* launches, event records and waits so far */
    _Atomic(uint64_t) completed; /* of them, finished; written by the token holder */
    uint64_t wake_at;            /* smallest position that a sleeping waiter wants */
    _Atomic(uint32_t) wake_word; /* bumped when it is reached */
    tn_queue queue;
    tn_stream *waiters; /* streams parked until this one has completed their `waits_for` */
    tn_fault fault;     /* the first one since the last wait */
    tn_stream *ready_next;   /* executors' list; guarded by their lock */
    tn_stream *waiters_next; /* list of the stream that parks it; guarded by that one's lock */
    uint64_t waits_for;
    uint64_t launches[TN_OP_COUNT];
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
    return tn_stream_completed(stream) >= tn_stream_position(stream);
}

/* With the lock held: nothing is queued and nobody runs. */
static inline bool tn_stream_is_free(const tn_stream *stream)
{
    return !stream->running && tn_queue_is_empty(&stream->queue);
}

/* ---- stream.c ---- */

/* Waits until every stream has completed what is queued on it now; errors stay with their
 * stream. */
void tn_device_drain(int device);

/* Waits until `position` has completed, running the stream if nobody does. deadline_ns:
 * CLOCK_MONOTONIC, negative = none. TN_OK or TN_TIMEOUT. */
tn_status tn_stream_wait_for(tn_stream *stream, uint64_t position, int64_t deadline_ns);

/* Moves the pending fault, if any, to this thread's tn_last_error. */
tn_status tn_stream_take_fault(tn_stream *stream);
void tn_stream_note_fault(tn_stream *stream, tn_status status, int op, uint32_t source_line);

int64_t tn_deadline(int64_t timeout_ns); /* from a timeout as the public functions take it */

/* For a producer that found the queue full: waits for a while, or until it has drained to half. */
void tn_stream_make_room(tn_stream *stream);

/* Queues a wait for a position of another stream. */
tn_status tn_stream_push_wait(tn_stream *stream, tn_stream *source, uint64_t position);

/* ---- run.c: what a token holder does ---- */

enum { TN_RUN_FOREVER = -1, TN_RUN_SHARING = -2 }; /* an executor's: until others need it more */

/* Runs records until the queue is empty, the stream parks, `position` has completed or
 * `deadline_ns` passes (in the last two cases an executor takes over the rest). The caller holds
 * the token and loses it. deadline_ns: CLOCK_MONOTONIC, or one of the above. */
void tn_stream_run(tn_stream *stream, uint64_t position, int64_t deadline_ns);

bool tn_stream_may_run_until(tn_stream *stream, int64_t deadline_ns);

/* Completes `position` and gives the token back; runs briefly what others queued in the
 * meantime. */
void tn_stream_finish_inline(tn_stream *stream, uint64_t position);

/* With the lock held, after a push: true if the caller must call tn_executor_submit after
 * unlocking. */
bool tn_stream_needs_executor(tn_stream *stream);

/* ---- launch.c ---- */

/* Writes the event-ring record of a launch that has just ended. */
void tn_launch_record(const tn_stream *stream, const tn_launch_desc *launch, const tn_cost *cost,
                      uint64_t position, uint64_t start_ticks, uint32_t source_line);

/* ---- executor.c ---- */

/* Asks an executor to run the stream (`scheduled` is set). Starts one if all are busy. */
void tn_executor_submit(tn_stream *stream);
bool tn_executor_is_contended(void); /* streams are ready and every executor is busy */
void tn_executor_quiesce(void);      /* joins the threads; the next submit starts them again */
void tn_executor_forget_threads(void);

/* ---- event.c ---- */

/* The stream has come to the event's record of `position`; drops the record's reference. */
void tn_event_reached(tn_event *event, tn_stream *stream, uint64_t position);

#endif

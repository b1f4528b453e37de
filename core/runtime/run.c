/* What a token holder does: takes records off the queue, runs them, completes their positions. */
#include <limits.h>
#include <stdio.h>

#include "base/clock.h"
#include "kernel/kernel.h"
#include "runtime/stream.h"

/* After an inline launch its caller runs what others queued meanwhile for at most this long. */
enum { INLINE_TAIL_NS = 30000 };

void tn_stream_note_fault(tn_stream *stream, tn_status status, int op, uint32_t source_line)
{
    const tn_error *error = tn_last_error();
    tn_spin_lock(&stream->lock);
    if (!stream->fault.set) {
        tn_error *kept = &stream->fault.error;
        kept->status = status;
        kept->source_line = source_line;
        snprintf(kept->message, sizeof kept->message, "%.900s (raised by %s on a stream)",
                 error->message, tn_op_aten_name(op));
        stream->fault.set = true;
    }
    tn_spin_unlock(&stream->lock);
}

bool tn_stream_needs_executor(tn_stream *stream)
{
    if (stream->running || stream->scheduled || stream->parked ||
        tn_queue_is_empty(&stream->queue))
        return false;
    stream->scheduled = true;
    return true;
}

/* With the lock held: cuts the parked streams that `position` lets go out of the list. */
static tn_stream *take_waiters(tn_stream *stream, uint64_t position)
{
    tn_stream *taken = NULL;
    for (tn_stream **link = &stream->waiters, *waiter; (waiter = *link);) {
        if (waiter->waits_for > position) {
            link = &waiter->waiters_next;
            continue;
        }
        *link = waiter->waiters_next;
        waiter->waiters_next = taken;
        taken = waiter;
    }
    return taken;
}

static void unpark(tn_stream *stream)
{
    tn_spin_lock(&stream->lock);
    stream->parked = false;
    bool submit = tn_stream_needs_executor(stream);
    tn_spin_unlock(&stream->lock);
    if (submit)
        tn_executor_submit(stream);
}

/* With the lock held; unlocks, then wakes whoever waits for what has just been completed. */
static void complete_and_unlock(tn_stream *stream, uint64_t position)
{
    atomic_store_explicit(&stream->completed, position, memory_order_release);
    tn_stream *waiters = stream->waiters ? take_waiters(stream, position) : NULL;
    bool wake = stream->wake_at <= position;
    if (wake) {
        stream->wake_at = UINT64_MAX;
        atomic_fetch_add_explicit(&stream->wake_word, 1, memory_order_relaxed);
    }
    tn_spin_unlock(&stream->lock);
    if (wake)
        tn_futex_wake(&stream->wake_word, INT_MAX);
    while (waiters) {
        tn_stream *waiter = waiters;
        waiters = waiter->waiters_next;
        unpark(waiter);
    }
}

/* Parks the stream, whose token the caller holds, until `source` has completed `position`; false if
 * it has already. The token is given away before the stream is linked, because from then on the
 * source may let it go; until then `parked` keeps everybody else off. */
static bool park(tn_stream *stream, tn_stream *source, uint64_t position)
{
    tn_spin_lock(&stream->lock);
    stream->parked = true;
    stream->running = false;
    tn_spin_unlock(&stream->lock);
    tn_spin_lock(&source->lock);
    bool parks = tn_stream_completed(source) < position;
    if (parks) {
        stream->waits_for = position;
        stream->waiters_next = source->waiters;
        source->waiters = stream;
    }
    tn_spin_unlock(&source->lock);
    if (parks)
        return true;
    tn_spin_lock(&stream->lock);
    stream->parked = false;
    stream->running = true;
    tn_spin_unlock(&stream->lock);
    return false;
}

static void run_launch(tn_stream *stream, const tn_record *record)
{
    const tn_launch_desc *launch = &record->launch;
    uint64_t start = tn_ticks();
    tn_status status = tn_kernel_of(launch->op)(launch);
    tn_launch_record(stream, launch, &record->cost, record->position, start, record->source_line);
    if (status != TN_OK)
        tn_stream_note_fault(stream, status, launch->op, record->source_line);
}

/* Runs one record; false if it parked the stream instead. */
static bool run_record(tn_stream *stream, const tn_record *record)
{
    switch ((tn_record_kind)record->kind) {
    case TN_RECORD_LAUNCH:
        run_launch(stream, record);
        break;
    case TN_RECORD_EVENT:
        tn_event_reached(record->event, stream, record->position);
        break;
    case TN_RECORD_WAIT:
        if (tn_stream_completed(record->source) < record->source_position)
            return !park(stream, record->source, record->source_position);
        break;
    case TN_RECORD_SKIP:
        break;
    }
    return true;
}

/* With the lock held and something queued. A launch that would outlast the deadline is not begun: a
 * host thread that waits must come back in time. */
bool tn_stream_may_run_until(tn_stream *stream, int64_t deadline_ns)
{
    if (deadline_ns == TN_RUN_SHARING)
        return !tn_executor_is_contended();
    if (deadline_ns < 0)
        return true;
    const tn_record *front = tn_queue_front(&stream->queue);
    return tn_now_ns() + (front->kind == TN_RECORD_LAUNCH ? front->cost.host_ns : 0) < deadline_ns;
}

void tn_stream_run(tn_stream *stream, uint64_t position, int64_t deadline_ns)
{
    for (;;) {
        tn_spin_lock(&stream->lock);
        if (tn_queue_is_empty(&stream->queue) || tn_stream_completed(stream) >= position ||
            !tn_stream_may_run_until(stream, deadline_ns)) {
            stream->running = false;
            bool submit = tn_stream_needs_executor(stream);
            tn_spin_unlock(&stream->lock);
            if (submit)
                tn_executor_submit(stream);
            return;
        }
        tn_record *record = tn_queue_front(&stream->queue);
        tn_spin_unlock(&stream->lock);
        if (!run_record(stream, record))
            return; /* parked: the event has the stream now */
        tn_spin_lock(&stream->lock);
        uint64_t done = record->position; /* popping makes the record somebody else's */
        tn_queue_pop(&stream->queue, record);
        complete_and_unlock(stream, done);
    }
}

void tn_stream_finish_inline(tn_stream *stream, uint64_t position)
{
    tn_spin_lock(&stream->lock);
    bool more = !tn_queue_is_empty(&stream->queue);
    if (!more)
        stream->running = false;
    complete_and_unlock(stream, position);
    if (more)
        tn_stream_run(stream, UINT64_MAX, tn_now_ns() + INLINE_TAIL_NS);
}

/* Events: marks in streams. An event is the latest (stream, position) it was recorded at, and is
 * complete when the stream has completed that position; so waiting for it needs nothing but the
 * streams. Only an event that measures time also travels through the queue, to read the clock when
 * its turn comes. */
#include "base/alloc.h"
#include "base/clock.h"
#include "runtime/stream.h"

struct tn_event {
    int device;
    bool timing;
    _Atomic(int) references; /* the caller's, and one per record in a queue */
    tn_spin lock;            /* guards what follows; taken before a stream's lock */
    tn_stream *stream;       /* NULL: never recorded */
    uint64_t position;
    uint64_t ticks; /* when it was reached */
};

typedef struct mark {
    tn_stream *stream;
    uint64_t position, ticks;
} mark;

static mark mark_of(const tn_event *event)
{
    tn_event *locked = (tn_event *)event;
    tn_spin_lock(&locked->lock);
    mark at = {event->stream, event->position, event->ticks};
    tn_spin_unlock(&locked->lock);
    return at;
}

static bool is_complete(mark at)
{
    return !at.stream || tn_stream_completed(at.stream) >= at.position;
}

tn_status tn_event_create(int device_index, bool timing, tn_event **out_event)
{
    tn_device *device;
    tn_status status = tn_device_of(device_index, &device);
    if (status != TN_OK)
        return status;
    tn_event *event = tn_calloc(1, sizeof *event);
    if (!event)
        return tn_fail(TN_ERROR_OUT_OF_MEMORY, "out of host memory for an event");
    event->device = device_index;
    event->timing = timing;
    atomic_store(&event->references, 1);
    *out_event = event;
    return TN_OK;
}

static void release(tn_event *event)
{
    if (atomic_fetch_sub_explicit(&event->references, 1, memory_order_acq_rel) == 1)
        tn_free(event);
}

void tn_event_destroy(tn_event *event)
{
    if (event)
        release(event);
}

static tn_status check_use(void)
{
    return atomic_load_explicit(&tn_forked, memory_order_relaxed) ? tn_fail_forked() : TN_OK;
}

/* One attempt, both locks taken and released inside. */
static tn_push try_record(tn_event *event, tn_stream *stream)
{
    tn_push result = TN_PUSHED;
    tn_spin_lock(&event->lock);
    tn_spin_lock(&stream->lock);
    uint64_t position = tn_stream_position(stream);
    bool at_once = tn_stream_is_idle(stream);
    if (event->timing && !at_once) {
        tn_record record = {.kind = TN_RECORD_EVENT, .position = ++position, .event = event};
        result = tn_queue_push(&stream->queue, &record);
    }
    if (result == TN_PUSHED) {
        event->stream = stream;
        event->position = position;
        if (event->timing && !at_once) {
            atomic_fetch_add_explicit(&event->references, 1, memory_order_relaxed);
            atomic_store_explicit(&stream->position, position, memory_order_release);
        } else if (event->timing) {
            event->ticks = tn_ticks();
        }
    }
    tn_spin_unlock(&stream->lock);
    tn_spin_unlock(&event->lock);
    return result;
}

tn_status tn_event_record(tn_event *event, tn_stream *stream)
{
    tn_status status = check_use();
    if (status != TN_OK)
        return status;
    if (event->device != stream->device)
        return tn_fail(TN_ERROR_RUNTIME,
                       "an event of neuron:%d cannot be recorded on a stream of neuron:%d",
                       event->device, stream->device);
    while (try_record(event, stream) != TN_PUSHED)
        tn_stream_make_room(stream);
    return TN_OK;
}

void tn_event_reached(tn_event *event, tn_stream *stream, uint64_t position)
{
    tn_spin_lock(&event->lock);
    if (event->stream == stream && event->position == position)
        event->ticks = tn_ticks();
    tn_spin_unlock(&event->lock);
    release(event);
}

tn_status tn_stream_wait_event(tn_stream *stream, tn_event *event)
{
    tn_status status = check_use();
    if (status != TN_OK)
        return status;
    mark at = mark_of(event);
    if (is_complete(at) || at.stream == stream)
        return TN_OK;
    return tn_stream_push_wait(stream, at.stream, at.position);
}

bool tn_event_query(const tn_event *event)
{
    return check_use() != TN_OK || is_complete(mark_of(event));
}

tn_status tn_event_wait(tn_event *event, int64_t timeout_ns)
{
    tn_status status = check_use();
    mark at = mark_of(event);
    if (status != TN_OK || !at.stream)
        return status;
    status = tn_stream_wait_for(at.stream, at.position, tn_deadline(timeout_ns));
    return status == TN_OK ? tn_stream_take_fault(at.stream) : status;
}

tn_status tn_event_elapsed_ms(const tn_event *start, const tn_event *end, double *out_ms)
{
    mark from = mark_of(start), to = mark_of(end);
    if (!start->timing || !end->timing)
        return tn_fail(TN_ERROR_VALUE,
                       "Both events must be created with argument 'enable_timing=True'.");
    if (!from.stream || !to.stream)
        return tn_fail(TN_ERROR_VALUE,
                       "Both events must be recorded before calculating elapsed time.");
    if (!is_complete(from) || !is_complete(to))
        return tn_fail(TN_ERROR_RUNTIME,
                       "Both events must be completed before calculating elapsed time.");
    tn_clock_line clock = tn_clock_calibrate();
    *out_ms = (double)(int64_t)(to.ticks - from.ticks) * clock.ns_per_tick * 1e-6;
    return TN_OK;
}

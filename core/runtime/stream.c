/* Streams: making and finding them, waiting for them, delivering their faults. */
#include "runtime/stream.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/status.h"

/* A waiter looks this long before it sleeps; waking a sleeper takes longer. */
enum { WAITER_SPIN_NS = 10000, SPINS_PER_LOOK = 32 };

/* ---- making and finding --------------------------------------------------------------------- */

tn_status tn_stream_create_at(tn_device *device, int id, int priority)
{
    tn_stream *stream = tn_aligned_malloc(_Alignof(tn_stream), sizeof *stream);
    tn_heap_cache *cache = stream ? tn_heap_cache_create() : NULL;
    if (!cache) {
        tn_free(stream);
        return tn_fail(TN_ERROR_OUT_OF_MEMORY, "out of host memory for a stream");
    }
    memset(stream, 0, sizeof *stream);
    stream->device = device->index;
    stream->id = id;
    stream->priority = priority;
    stream->cache = cache;
    stream->wake_at = UINT64_MAX;
    atomic_store_explicit(&device->streams[id], stream, memory_order_release);
    atomic_store_explicit(&device->stream_count, id + 1, memory_order_release);
    return TN_OK;
}

tn_status tn_stream_default(int device_index, tn_stream **out_stream)
{
    tn_device *device;
    tn_status status = tn_device_of(device_index, &device);
    if (status == TN_OK)
        *out_stream = device->streams[0];
    return status;
}

/* Once all streams are handed out: the next one in turn, of the same priority if there is any. */
static int reuse_stream(tn_device *device, int priority)
{
    for (int tries = 0; tries < TN_MAX_STREAMS - 1; tries++) {
        int id = 1 + (int)(device->next_reused++ % (TN_MAX_STREAMS - 1));
        if (device->streams[id]->priority == priority)
            return id;
    }
    return 1 + (int)(device->next_reused++ % (TN_MAX_STREAMS - 1));
}

tn_status tn_stream_create(int device_index, int priority, tn_stream **out_stream)
{
    tn_device *device;
    tn_status status = tn_device_of(device_index, &device);
    if (status != TN_OK)
        return status;
    pthread_mutex_lock(&device->streams_lock);
    int id = device->stream_count;
    if (id == TN_MAX_STREAMS)
        id = reuse_stream(device, priority);
    else
        status = tn_stream_create_at(device, id, priority);
    pthread_mutex_unlock(&device->streams_lock);
    if (status == TN_OK)
        *out_stream = device->streams[id];
    return status;
}

tn_status tn_stream_from_id(int device_index, int64_t id, tn_stream **out_stream)
{
    tn_device *device;
    tn_status status = tn_device_of(device_index, &device);
    if (status != TN_OK)
        return status;
    if (id < 0 || id >= atomic_load_explicit(&device->stream_count, memory_order_acquire))
        return tn_fail(TN_ERROR_VALUE, "neuron:%d has no stream %lld", device_index, (long long)id);
    *out_stream = device->streams[id];
    return TN_OK;
}

int64_t tn_stream_id(const tn_stream *stream)
{
    return stream->id;
}

int tn_stream_device(const tn_stream *stream)
{
    return stream->device;
}

int tn_stream_priority(const tn_stream *stream)
{
    return stream->priority;
}

/* ---- waiting -------------------------------------------------------------------------------- */

int64_t tn_deadline(int64_t timeout_ns)
{
    return timeout_ns < 0 ? TN_RUN_FOREVER : tn_now_ns() + timeout_ns;
}

bool tn_stream_query(tn_stream *stream)
{
    return tn_stream_is_idle(stream) || atomic_load_explicit(&tn_forked, memory_order_relaxed);
}

static bool spin_until(const tn_stream *stream, uint64_t position)
{
    if (tn_cpu_get()->logical_cores < 2)
        return false;
    int64_t end = tn_now_ns() + WAITER_SPIN_NS;
    do {
        for (int i = 0; i < SPINS_PER_LOOK; i++) {
            if (tn_stream_completed(stream) >= position)
                return true;
            tn_cpu_relax();
        }
    } while (tn_now_ns() < end);
    return false;
}

/* Sleeps until `position` has completed or the deadline has passed; may return early. */
static void sleep_until(tn_stream *stream, uint64_t position, int64_t deadline_ns)
{
    if (spin_until(stream, position))
        return;
    int64_t timeout = deadline_ns < 0 ? -1 : deadline_ns - tn_now_ns();
    if (deadline_ns >= 0 && timeout <= 0)
        return;
    tn_spin_lock(&stream->lock);
    bool done = tn_stream_completed(stream) >= position;
    if (position < stream->wake_at)
        stream->wake_at = position;
    uint32_t word = atomic_load_explicit(&stream->wake_word, memory_order_relaxed);
    tn_spin_unlock(&stream->lock);
    if (!done)
        tn_futex_wait(&stream->wake_word, word, timeout);
}

tn_status tn_stream_wait_for(tn_stream *stream, uint64_t position, int64_t deadline_ns)
{
    while (tn_stream_completed(stream) < position) {
        if (deadline_ns >= 0 && tn_now_ns() >= deadline_ns)
            return TN_TIMEOUT;
        tn_spin_lock(&stream->lock);
        bool mine = !stream->running && !stream->parked && !tn_queue_is_empty(&stream->queue) &&
                    tn_stream_may_run_until(stream, deadline_ns);
        if (mine)
            stream->running = true;
        tn_spin_unlock(&stream->lock);
        if (mine)
            tn_stream_run(stream, position, deadline_ns);
        else
            sleep_until(stream, position, deadline_ns);
    }
    return TN_OK;
}

tn_status tn_stream_take_fault(tn_stream *stream)
{
    tn_spin_lock(&stream->lock);
    tn_status status = TN_OK;
    if (stream->fault.set) {
        stream->fault.set = false;
        status = tn_fail_again(&stream->fault.error);
    }
    tn_spin_unlock(&stream->lock);
    return status;
}

tn_status tn_stream_wait(tn_stream *stream, int64_t timeout_ns)
{
    if (atomic_load_explicit(&tn_forked, memory_order_relaxed))
        return tn_fail_forked();
    tn_status status =
        tn_stream_wait_for(stream, tn_stream_position(stream), tn_deadline(timeout_ns));
    return status == TN_OK ? tn_stream_take_fault(stream) : status;
}

void tn_device_drain(int device_index)
{
    tn_device *device = &tn_devices[device_index];
    for (int i = 0; i < atomic_load(&device->stream_count); i++)
        tn_stream_wait_for(device->streams[i], tn_stream_position(device->streams[i]),
                           TN_RUN_FOREVER);
}

/* The first fault found is reported; those of other streams stay for their own waits. */
tn_status tn_device_wait(int device_index, int64_t timeout_ns)
{
    tn_device *device;
    tn_status status = tn_device_of(device_index, &device);
    int64_t deadline = tn_deadline(timeout_ns);
    if (status != TN_OK)
        return status;
    int count = atomic_load(&device->stream_count);
    for (int i = 0; i < count && status == TN_OK; i++)
        status = tn_stream_wait_for(device->streams[i], tn_stream_position(device->streams[i]),
                                    deadline);
    for (int i = 0; i < count && status == TN_OK; i++)
        status = tn_stream_take_fault(device->streams[i]);
    return status;
}

/* ---- queueing ------------------------------------------------------------------------------- */

/* Half of the queue, so that host and executor do not wake each other for every launch; but not long,
 * so that the host comes back to its caller about as soon as there is room at all. */
void tn_stream_make_room(tn_stream *stream)
{
    enum { LONGEST_NS = 50000000 };
    uint64_t completed = tn_stream_completed(stream), position = tn_stream_position(stream);
    if (completed < position)
        tn_stream_wait_for(stream, completed + (position - completed + 1) / 2,
                           tn_now_ns() + LONGEST_NS);
}

static tn_push try_push_wait(tn_stream *stream, tn_stream *source, uint64_t source_position,
                             bool *out_run)
{
    tn_spin_lock(&stream->lock);
    uint64_t position = tn_stream_position(stream) + 1;
    tn_record record = {.kind = TN_RECORD_WAIT,
                        .position = position,
                        .source = source,
                        .source_position = source_position};
    tn_push result = tn_queue_push(&stream->queue, &record);
    if (result == TN_PUSHED) {
        atomic_store_explicit(&stream->position, position, memory_order_release);
        *out_run = !stream->running && !stream->scheduled && !stream->parked;
        if (*out_run)
            stream->running = true;
    }
    tn_spin_unlock(&stream->lock);
    return result;
}

tn_status tn_stream_push_wait(tn_stream *stream, tn_stream *source, uint64_t position)
{
    for (;;) {
        bool run = false;
        tn_push result = try_push_wait(stream, source, position, &run);
        if (run) /* an idle stream: it parks at once, or is through */
            tn_stream_run(stream, UINT64_MAX, TN_RUN_SHARING);
        if (result == TN_PUSHED)
            return TN_OK;
        if (result == TN_PUSH_NEVER) /* no host memory for a queue: the host waits instead */
            return tn_stream_wait_for(source, position, TN_RUN_FOREVER);
        tn_stream_make_room(stream);
    }
}

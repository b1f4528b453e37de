/* Streams and events. */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "kernel/kernel.h"
#include "runtime/stream.h"

struct tn_event {
    bool timing, recorded;
    int64_t time_ns;
};

tn_status tn_stream_create_at(tn_device *device, int id, int priority)
{
    tn_stream *stream = tn_calloc(1, sizeof *stream);
    if (!stream || !(stream->cache = tn_heap_cache_create())) {
        tn_free(stream);
        return tn_fail(TN_ERROR_OUT_OF_MEMORY, "out of host memory for a stream");
    }
    stream->device = device->index;
    stream->id = id;
    stream->priority = priority;
    pthread_mutex_init(&stream->token, NULL);
    device->streams[id] = stream;
    device->stream_count = id + 1;
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

tn_status tn_stream_create(int device_index, int priority, tn_stream **out_stream)
{
    tn_device *device;
    tn_status status = tn_device_of(device_index, &device);
    if (status != TN_OK)
        return status;
    tn_spin_lock(&device->streams_lock);
    int id = device->stream_count;
    if (id == TN_MAX_STREAMS)
        id = 1 + (int)(device->next_reused++ % (TN_MAX_STREAMS - 1));
    else
        status = tn_stream_create_at(device, id, priority);
    if (status == TN_OK)
        *out_stream = device->streams[id];
    tn_spin_unlock(&device->streams_lock);
    return status;
}

tn_status tn_stream_from_id(int device_index, int64_t id, tn_stream **out_stream)
{
    tn_device *device;
    tn_status status = tn_device_of(device_index, &device);
    if (status != TN_OK)
        return status;
    if (id < 0 || id >= device->stream_count)
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

bool tn_stream_query(tn_stream *stream)
{
    return tn_stream_is_idle(stream);
}

tn_status tn_stream_wait(tn_stream *stream, int64_t timeout_ns)
{
    (void)timeout_ns;
    if (tn_forked)
        return tn_fail_forked();
    pthread_mutex_lock(&stream->token);
    pthread_mutex_unlock(&stream->token);
    return TN_OK;
}

void tn_device_drain(int device)
{
    for (int i = 0; i < tn_devices[device].stream_count; i++)
        tn_stream_wait(tn_devices[device].streams[i], -1);
}

tn_status tn_device_wait(int device_index, int64_t timeout_ns)
{
    tn_device *device;
    tn_status status = tn_device_of(device_index, &device);
    (void)timeout_ns;
    if (status == TN_OK)
        tn_device_drain(device_index);
    return status;
}

tn_status tn_event_create(int device, bool timing, tn_event **out_event)
{
    (void)device;
    tn_event *event = tn_calloc(1, sizeof *event);
    if (!event)
        return tn_fail(TN_ERROR_OUT_OF_MEMORY, "out of host memory for an event");
    event->timing = timing;
    *out_event = event;
    return TN_OK;
}

void tn_event_destroy(tn_event *event)
{
    tn_free(event);
}

tn_status tn_event_record(tn_event *event, tn_stream *stream)
{
    tn_status status = tn_stream_wait(stream, -1);
    event->recorded = true;
    event->time_ns = tn_now_ns();
    return status;
}

tn_status tn_stream_wait_event(tn_stream *stream, tn_event *event)
{
    (void)stream;
    (void)event;
    return TN_OK;
}

bool tn_event_query(const tn_event *event)
{
    (void)event;
    return true;
}

tn_status tn_event_wait(tn_event *event, int64_t timeout_ns)
{
    (void)event;
    (void)timeout_ns;
    return TN_OK;
}

tn_status tn_event_elapsed_ms(const tn_event *start, const tn_event *end, double *out_ms)
{
    if (!start->timing || !end->timing)
        return tn_fail(TN_ERROR_VALUE,
                       "Both events must be created with argument 'enable_timing=True'.");
    if (!start->recorded || !end->recorded)
        return tn_fail(TN_ERROR_VALUE,
                       "Both events must be recorded before calculating elapsed time.");
    *out_ms = (double)(end->time_ns - start->time_ns) * 1e-6;
    return TN_OK;
}

tn_status tn_launch(const tn_launch_desc *launch)
{
    if (tn_forked)
        return tn_fail_forked();
    tn_stream *stream = launch->stream;
    for (int i = 0; i < launch->num_operands; i++) {
        tn_operand *operand = &launch->operands[i];
        if (!operand->block)
            continue;
        operand->data = (char *)operand->block->data + operand->offset_bytes;
        if (i < launch->num_outputs)
            __atomic_fetch_add(&operand->block->generation, 1, __ATOMIC_RELAXED);
        operand->generation = __atomic_load_n(&operand->block->generation, __ATOMIC_RELAXED);
    }
    pthread_mutex_lock(&stream->token);
    stream->position++;
    stream->launches[launch->op]++;
    tn_status status = tn_kernel_of(launch->op)(launch);
    stream->completed++;
    pthread_mutex_unlock(&stream->token);
    return status;
}

uint64_t tn_op_launches(int op)
{
    uint64_t count = 0;
    for (int d = 0; d < atomic_load(&tn_devices_open); d++)
        for (int i = 0; i < tn_devices[d].stream_count && (unsigned)op < TN_OP_COUNT; i++)
            count += tn_devices[d].streams[i]->launches[op];
    return count;
}

void tn_op_launches_reset(void)
{
    for (int d = 0; d < atomic_load(&tn_devices_open); d++)
        for (int i = 0; i < tn_devices[d].stream_count; i++)
            memset(tn_devices[d].streams[i]->launches, 0,
                   sizeof tn_devices[d].streams[i]->launches);
}

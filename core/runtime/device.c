/* The process's devices: how many, opening them, leaving them (fork, quiesce), what they are. */
#include "runtime/device.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/pool.h"
#include "prof/prof.h"
#include "runtime/limit.h"
#include "runtime/stream.h"

tn_device *tn_devices;
_Atomic(int) tn_devices_open;
_Atomic(bool) tn_forked;

static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(bool) launch_blocking;

/* ---- how many ------------------------------------------------------------------------------- */

static bool parse_count(const char *text, long *out_count)
{
    char *end;
    *out_count = strtol(text, &end, 10);
    return end != text && *end == 0 && *out_count >= 0 && *out_count <= TN_MAX_DEVICES;
}

/* NEURON_RT_VISIBLE_CORES: "2", "0-3", "0,2,4-5"; the number of cores named, -1 if malformed. */
static int count_visible(const char *text)
{
    long count = 0;
    while (*text) {
        char *end;
        long first = strtol(text, &end, 10), last = first;
        if (end == text)
            return -1;
        if (*end == '-') {
            text = end + 1;
            last = strtol(text, &end, 10);
            if (end == text)
                return -1;
        }
        count += last - first + 1;
        if (first < 0 || last < first || count > TN_MAX_DEVICES || (*end && *end != ','))
            return -1;
        text = *end ? end + 1 : end;
    }
    return (int)count;
}

int tn_device_count(void)
{
    int open = atomic_load_explicit(&tn_devices_open, memory_order_acquire);
    if (open > 0)
        return open;
    const char *text = getenv("NEURON_RT_VISIBLE_CORES");
    long count;
    if (text && *text) {
        int visible = count_visible(text);
        return visible < 0 ? 0 : visible;
    }
    if ((text = getenv("NEURON_RT_NUM_CORES")) && *text)
        return parse_count(text, &count) ? (int)count : 0;
    if ((text = getenv("LOCAL_WORLD_SIZE")) && *text)
        return parse_count(text, &count) ? (int)count : 0;
    return 1;
}

/* ---- opening and leaving -------------------------------------------------------------------- */

static void forget_in_child(void)
{
    if (atomic_load(&tn_devices_open) > 0)
        atomic_store(&tn_forked, true);
    tn_pool_forget_threads();
    tn_executor_forget_threads();
}

static int local_ranks(void)
{
    const char *text = getenv("LOCAL_WORLD_SIZE");
    long count;
    return text && parse_count(text, &count) && count > 0 ? (int)count : 1;
}

static tn_status open_devices(int count)
{
    tn_device *devices = tn_calloc((size_t)count, sizeof *devices);
    if (!devices)
        return tn_fail(TN_ERROR_OUT_OF_MEMORY, "out of host memory for %d devices", count);
    /* A rank of several uses one device; a process that owns several shares the host with
     * itself. */
    int sharers = local_ranks() > count ? local_ranks() : count;
    size_t limit = tn_device_memory_limit(sharers);
    for (int i = 0; i < count; i++) {
        devices[i].index = i;
        pthread_mutex_init(&devices[i].streams_lock, NULL);
        tn_status status = tn_heap_open(&devices[i].heap, i, limit);
        if (status == TN_OK)
            status = tn_stream_create_at(&devices[i], 0, 0);
        if (status != TN_OK)
            return status; /* what is open stays mapped: the caller may only give up */
    }
    tn_devices = devices;
    atomic_store_explicit(&tn_devices_open, count, memory_order_release);
    return TN_OK;
}

static tn_status init_locked(void)
{
    static bool fork_handler_set;
    if (atomic_load(&tn_devices_open) > 0)
        return TN_OK;
    int count = tn_device_count();
    if (count == 0)
        return tn_fail(TN_ERROR_RUNTIME, "No NEURON devices are available.");
    tn_clock_init();
    if (!fork_handler_set && pthread_atfork(NULL, NULL, forget_in_child) != 0)
        return tn_fail(TN_ERROR_OUT_OF_MEMORY, "out of host memory for a fork handler");
    fork_handler_set = true;
    const char *blocking = getenv("NEURON_LAUNCH_BLOCKING");
    if (blocking && strcmp(blocking, "1") == 0)
        atomic_store(&launch_blocking, true);
    return open_devices(count);
}

tn_status tn_init(void)
{
    if (atomic_load(&tn_forked))
        return tn_fail_forked();
    pthread_mutex_lock(&init_lock);
    tn_status status = init_locked();
    pthread_mutex_unlock(&init_lock);
    return status;
}

bool tn_is_initialized(void)
{
    return atomic_load(&tn_devices_open) > 0 && !atomic_load(&tn_forked);
}

bool tn_in_bad_fork(void)
{
    return atomic_load(&tn_forked);
}

tn_status tn_fail_forked(void)
{
    return tn_fail(TN_ERROR_FORKED,
                   "Cannot re-initialize NEURON in forked subprocess. To use NEURON with "
                   "multiprocessing, you must use the 'spawn' start method");
}

tn_status tn_device_refuse(int device)
{
    tn_status status = tn_init();
    if (status != TN_OK)
        return status;
    int open = atomic_load(&tn_devices_open);
    if ((unsigned)device >= (unsigned)open)
        return tn_fail(TN_ERROR_DEVICE, "NEURON error: invalid device ordinal: neuron:%d of %d",
                       device, open);
    return TN_OK;
}

void tn_quiesce(void)
{
    if (!tn_is_initialized())
        return;
    for (int i = 0; i < tn_device_count(); i++)
        tn_device_drain(i);
    tn_executor_quiesce();
    tn_pool_shutdown();
}

/* ---- settings and properties ---------------------------------------------------------------- */

void tn_set_num_threads(int count)
{
    tn_pool_set_size(count);
}

int tn_num_threads(void)
{
    return tn_pool_size();
}

void tn_set_launch_blocking(bool on)
{
    atomic_store(&launch_blocking, on);
}

bool tn_launch_blocking(void)
{
    return atomic_load_explicit(&launch_blocking, memory_order_relaxed);
}

tn_status tn_device_get_properties(int device_index, tn_device_properties *out_properties)
{
    tn_device *device;
    tn_status status = tn_device_of(device_index, &device);
    if (status != TN_OK)
        return status;
    const tn_cpu *cpu = tn_cpu_get();
    const tn_model *model = tn_model_get();
    *out_properties = (tn_device_properties){.major = model->major,
                                             .minor = model->minor,
                                             .multi_processor_count = tn_num_threads(),
                                             .total_memory = device->heap.limit,
                                             .modelled_memory = model->memory_bytes,
                                             .physical_cores = cpu->physical_cores};
    snprintf(out_properties->name, sizeof out_properties->name, "%s", model->name);
    snprintf(out_properties->host_cpu, sizeof out_properties->host_cpu, "%s", cpu->name);
    snprintf(out_properties->isa, sizeof out_properties->isa, "%s", tn_isa_name());
    return TN_OK;
}

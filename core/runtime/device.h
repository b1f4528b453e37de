/* Devices: what the parts of the runtime know of each other. */
#ifndef TN_RUNTIME_DEVICE_H
#define TN_RUNTIME_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "runtime/heap.h"
#include "tn/runtime.h"

enum { TN_MAX_DEVICES = 64, TN_MAX_STREAMS = 64 }; /* per device; a uint64_t masks its streams */

typedef struct tn_device {
    int index;
    tn_heap heap;
    pthread_mutex_t streams_lock; /* making streams */
    _Atomic(int) stream_count;
    uint32_t next_reused; /* round robin once all streams are handed out */
    tn_stream *_Atomic streams[TN_MAX_STREAMS];
} tn_device;

extern tn_device *tn_devices; /* [tn_devices_open], NULL before tn_init */
extern _Atomic(int) tn_devices_open;
extern _Atomic(bool) tn_forked;

tn_status tn_device_refuse(int device); /* opens the runtime, or says why `device` cannot be used */

/* The device, open and usable from this process. */
static inline tn_status tn_device_of(int device, tn_device **out_device)
{
    int open = atomic_load_explicit(&tn_devices_open, memory_order_acquire);
    if ((unsigned)device >= (unsigned)open ||
        atomic_load_explicit(&tn_forked, memory_order_relaxed)) {
        tn_status status = tn_device_refuse(device);
        if (status != TN_OK)
            return status;
    }
    *out_device = &tn_devices[device];
    return TN_OK;
}

tn_status tn_stream_create_at(tn_device *device, int id, int priority);
tn_status tn_fail_forked(void);

#endif

/* The event ring: one fixed-size record per launch, written by whoever ran it, with two durations:
 * measured on this host and modelled for the selected target. */
#ifndef TN_PROF_H
#define TN_PROF_H

#include "tn/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_prof_record {
    uint64_t sequence;       /* position in its stream */
    int64_t start_ns, end_ns; /* CLOCK_MONOTONIC */
    int64_t modelled_ns;     /* on NEURON_PLATFORM_TARGET_OVERRIDE's chip (core/prof/model.c) */
    uint64_t bytes;          /* operand bytes read and written */
    uint64_t flops;
    uint32_t source_line;    /* Python file:line id, 0 = not captured */
    uint32_t stream_id;
    uint16_t op;             /* TN_OP_x */
    uint8_t device;
    uint8_t dtype;           /* compute dtype */
    uint32_t thread_id;      /* of the thread that ran it */
} tn_prof_record;

/* Records since `first` (a running index), oldest first; *out_next is the index to ask for next.
 * Rows overwritten in the meantime are skipped and counted in *out_dropped. */
TN_API size_t tn_prof_read(uint64_t first, tn_prof_record *rows, size_t capacity,
                           uint64_t *out_next, uint64_t *out_dropped);
TN_API uint64_t tn_prof_position(void);

/* Source lines. The hook returns an id for the Python line that is executing on this thread (0 =
 * unknown) and is called when a launch is queued that may still fail, and for every launch while
 * tracing is on. The core never looks inside an id. */
typedef uint32_t (*tn_source_hook)(void);
TN_API void tn_prof_set_source_hook(tn_source_hook hook);
TN_API void tn_prof_set_tracing(bool on);

#ifdef __cplusplus
}
#endif
#endif

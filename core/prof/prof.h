/* What the runtime asks of the profiler: the source line of this thread, a place in the event ring,
 * the model of the target. */
#ifndef TN_PROF_PROF_H
#define TN_PROF_PROF_H

#include "tn/prof.h"

/* ---- source.c ---- */

/* Id of the Python line that this thread executes; 0 without a hook. */
uint32_t tn_prof_source_line(void);
bool tn_prof_is_tracing(void);

/* ---- model.c ---- */

/* Which engine of a core an op occupies. */
typedef enum tn_engine {
    TN_ENGINE_DMA,    /* moves bytes only */
    TN_ENGINE_VECTOR, /* one lane operation per element */
    TN_ENGINE_TENSOR  /* multiply-accumulate array */
} tn_engine;

/* A modelled chip, per core. */
typedef struct tn_model {
    const char *name, *generation; /* "trn2", "gen3": either selects it */
    int major, minor; /* NeuronCore generation */
    uint64_t memory_bytes;
    double memory_bytes_per_ns;
    double tensor_flops_per_ns_16bit, tensor_flops_per_ns_32bit;
    double vector_ops_per_ns_16bit, vector_ops_per_ns_32bit;
    double start_ns; /* from issue to first data, and from last data to completion */
} tn_model;

/* The one that NEURON_PLATFORM_TARGET_OVERRIDE names; trn2 by default. */
const tn_model *tn_model_get(void);

/* Time of one op that reads and writes HBM: movement and arithmetic overlap, the longer one
 * counts. */
int64_t tn_model_ns(const tn_model *model, tn_engine engine, uint64_t bytes, uint64_t flops,
                    unsigned dtype);

/* ---- ring.c ---- */

typedef struct tn_prof_event {
    uint64_t sequence;
    uint64_t start_ticks, end_ticks; /* base/clock.h */
    uint64_t bytes, flops;
    uint32_t source_line, stream_id;
    uint16_t op;
    uint8_t device, dtype, engine;
} tn_prof_event;

void tn_prof_write(const tn_prof_event *event);

#endif

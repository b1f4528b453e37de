/* gather and scatter: an index per element along one dimension.
 *
 * A scatter's *lane* is the line of elements with the same coordinates outside that dimension; each lane
 * writes only its own destinations, so lanes run in parallel and a lane runs in order. That makes the
 * result the serial loop's for any number of threads. Narrow floats are summed in fp32 and rounded once. */
#include "kernel/accumulate.h"
#include "kernel/nest.h"
#include "kernel/move_rows.h"

enum { GRAIN = 4096 };

static tn_status index_fault(int64_t index, int64_t dim, int64_t size)
{
    return tn_fail(TN_ERROR_RUNTIME, "index %lld is out of bounds for dimension %lld with size %lld",
                   (long long)index, (long long)dim, (long long)size);
}

/* ---- gather ----------------------------------------------------------------------------------- */

typedef struct gather_job {
    int64_t size, stride, itemsize;
    uint8_t index_dtype;
    const char *index; /* first element */
    tn_fault fault;    /* byte distance of the bad index from `index` */
} gather_job;

#define GATHER_LOOP(bytes)                                                                        \
    for (int64_t i = 0; i < n; i++) {                                                             \
        int64_t index = tn_index_at(data[1] + i * strides[1], job->index_dtype);                  \
        if (index < 0 || index >= job->size) {                                                    \
            tn_fault_at(&job->fault, data[1] + i * strides[1] - job->index);                      \
            continue;                                                                             \
        }                                                                                         \
        memcpy(data[0] + i * strides[0], data[2] + i * strides[2] + index * job->stride, bytes);  \
    }

static void gather_row(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    gather_job *job = context;
    switch (job->itemsize) {
    case 1: GATHER_LOOP(1) break;
    case 2: GATHER_LOOP(2) break;
    case 4: GATHER_LOOP(4) break;
    case 8: GATHER_LOOP(8) break;
    default: GATHER_LOOP(16) break;
    }
}

/* Output of index's shape; inputs self, index; scalar dim. */
tn_status TN_KERNEL(gather)(const tn_launch_desc *launch)
{
    const tn_operand *out = tn_output(launch, 0), *self = tn_input(launch, 0);
    const tn_operand *index = tn_input(launch, 1);
    int64_t dim = launch->scalars[0].i, itemsize = tn_operand_itemsize(self);
    gather_job job = {.size = 1,
                      .itemsize = itemsize,
                      .index_dtype = index->dtype,
                      .index = index->data,
                      .fault = {INT64_MAX}};
    if (self->ndim > 0) {
        job.size = self->sizes[dim];
        job.stride = self->strides[dim] * itemsize;
    }
    tn_nest nest;
    tn_nest_init(&nest, 3);
    for (int d = index->ndim - 1; d >= 0; d--) {
        int64_t strides[3] = {out->ndim ? out->strides[d] * itemsize : 0,
                              index->strides[d] * tn_operand_itemsize(index),
                              d == dim || self->ndim == 0 ? 0 : self->strides[d] * itemsize};
        tn_nest_push(&nest, index->sizes[d], strides);
    }
    nest.data[0] = out->data;
    nest.data[1] = index->data;
    nest.data[2] = self->data;
    tn_nest_run(&nest, GRAIN, gather_row, &job);
    if (job.fault.position == INT64_MAX)
        return TN_OK;
    return index_fault(tn_index_at((const char *)index->data + job.fault.position, index->dtype), dim,
                       job.size);
}

/* ---- scatter ---------------------------------------------------------------------------------- */

typedef struct scatter_job {
    tn_nest lanes;     /* operands self, index, source */
    int64_t size;      /* of self along the dimension */
    int64_t length;    /* of index along it */
    int64_t strides[3]; /* along it */
    int64_t itemsize;
    uint8_t index_dtype;
    const char *index;
    const tn_accumulator *accumulator;
    tn_combine combine;
    bool mean, include_self, failed;
    tn_fault fault;
} scatter_job;

static int64_t checked_index(scatter_job *job, const char *at)
{
    int64_t index = tn_index_at(at, job->index_dtype);
    if (index >= 0 && index < job->size)
        return index;
    tn_fault_at(&job->fault, at - job->index);
    return -1;
}

#define SET_LOOP(bytes)                                                                           \
    for (int64_t i = 0; i < job->length; i++)                                                     \
        for (int64_t lane = 0; lane < n; lane++) {                                                \
            int64_t at = checked_index(job, data[1] + i * job->strides[1] + lane * strides[1]);   \
            if (at >= 0)                                                                          \
                memcpy(data[0] + at * job->strides[0] + lane * strides[0],                        \
                       data[2] + i * job->strides[2] + lane * strides[2], bytes);                 \
        }

static void set_lanes(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    scatter_job *job = context;
    switch (job->itemsize) {
    case 1: SET_LOOP(1) break;
    case 2: SET_LOOP(2) break;
    case 4: SET_LOOP(4) break;
    case 8: SET_LOOP(8) break;
    default: SET_LOOP(16) break;
    }
}

/* One lane through a line of accumulators [size]; counts [size] only where a mean or a fresh start needs
 * to know what was touched. */
static void combine_lane(scatter_job *job, char *self, const char *index, const char *source,
                         char *accumulators, int64_t *counts)
{
    const tn_accumulator *a = job->accumulator;
    a->load(accumulators, self, job->strides[0], job->size);
    if (counts)
        for (int64_t i = 0; i < job->size; i++)
            counts[i] = job->include_self;
    for (int64_t i = 0; i < job->length; i++) {
        int64_t at = checked_index(job, index + i * job->strides[1]);
        if (at < 0)
            continue;
        char *accumulator = accumulators + (size_t)at * a->size;
        if (counts && counts[at]++ == 0)
            a->identity(accumulator, job->combine);
        a->combine[job->combine](accumulator, source + i * job->strides[2], 0, 1);
    }
    for (int64_t i = 0; job->mean && i < job->size; i++)
        if (counts[i] > 1)
            a->divide(accumulators + (size_t)i * a->size, counts[i], 1);
    a->store(self, job->strides[0], accumulators, job->size);
}

static void combine_lanes(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    scatter_job *job = context;
    bool counting = job->mean || !job->include_self;
    char *accumulators = tn_scratch(0, job->accumulator->size * (size_t)job->size);
    int64_t *counts = counting ? tn_scratch(1, sizeof *counts * (size_t)job->size) : NULL;
    if (!accumulators || (counting && !counts)) {
        __atomic_store_n(&job->failed, true, __ATOMIC_RELAXED);
        return;
    }
    for (int64_t lane = 0; lane < n; lane++)
        combine_lane(job, data[0] + lane * strides[0], data[1] + lane * strides[1],
                     data[2] + lane * strides[2], accumulators, counts);
}

/* Output self (read and written); inputs index, source (immediate: one value for all);
 * scalars dim, combine, mean, include_self. */
tn_status TN_KERNEL(scatter)(const tn_launch_desc *launch)
{
    const tn_operand *self = tn_output(launch, 0), *index = tn_input(launch, 0);
    const tn_operand *source = tn_input(launch, 1);
    int64_t dim = launch->scalars[0].i;
    scatter_job job = {.combine = (tn_combine)launch->scalars[1].i,
                       .mean = launch->scalars[2].i != 0,
                       .include_self = launch->scalars[3].i != 0,
                       .itemsize = tn_operand_itemsize(self),
                       .index_dtype = index->dtype,
                       .index = index->data,
                       .accumulator = tn_accumulator_of(self->dtype),
                       .size = 1,
                       .length = 1,
                       .fault = {INT64_MAX}};
    if (job.combine != TN_COMBINE_SET && (!job.accumulator || !job.accumulator->combine[job.combine]))
        return tn_fail(TN_ERROR_NOT_IMPLEMENTED, "\"scatter\" not implemented for '%s'",
                       tn_dtype_name((tn_dtype)self->dtype));
    tn_nest_init(&job.lanes, 3);
    bool scalar_source = source->ndim == 0;
    for (int d = index->ndim - 1; d >= 0; d--) {
        int64_t strides[3] = {self->ndim ? self->strides[d] * job.itemsize : 0,
                              index->strides[d] * tn_operand_itemsize(index),
                              scalar_source ? 0 : source->strides[d] * job.itemsize};
        if (d == dim) {
            job.length = index->sizes[d];
            job.size = self->ndim ? self->sizes[d] : 1;
            memcpy(job.strides, strides, sizeof strides);
        } else {
            tn_nest_push(&job.lanes, index->sizes[d], strides);
        }
    }
    job.lanes.data[0] = self->data;
    job.lanes.data[1] = index->data;
    job.lanes.data[2] = source->data;
    if (job.length > 0)
        tn_nest_run(&job.lanes, tn_max(1, GRAIN / (job.length + job.size)),
                    job.combine == TN_COMBINE_SET ? set_lanes : combine_lanes, &job);
    if (job.failed)
        return tn_fail(TN_ERROR_OUT_OF_MEMORY, "scatter: out of host memory for a line of sums");
    if (job.fault.position == INT64_MAX)
        return TN_OK;
    return index_fault(tn_index_at((const char *)index->data + job.fault.position, index->dtype), dim,
                       job.size);
}

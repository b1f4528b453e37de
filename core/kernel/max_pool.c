/* Maximum pooling over windows, and what follows its indices: the gradient and unpooling.
 *
 * A plane (one batch entry and channel) is widened into scratch, so that the windows are taken from a dense
 * row-major copy in fp32, fp64 or int64; indices count inside the plane. The first maximum wins, NaN over
 * all. Backward sums a plane in the order of the outputs and rounds once. */
#include <string.h>

#include "kernel/accumulate.h"
#include "kernel/nest.h"

enum { SPATIAL = 3, GRAIN = 1 << 13 };

typedef struct window {
    int64_t kernel, stride, padding, dilation;
} window;

typedef struct pool_job {
    int64_t in_sizes[SPATIAL], out_sizes[SPATIAL];
    int64_t in_strides[SPATIAL], out_strides[SPATIAL], index_strides[SPATIAL]; /* bytes */
    window windows[SPATIAL];
    tn_nest planes; /* operand 0 the pooled side, 1 the other one, 2 indices */
    const tn_accumulator *accumulator;
    uint8_t dtype;
    bool adaptive, assign, failed;
    tn_fault fault; /* unpooling: position of an index outside the plane */
} pool_job;

static bool is_integral(uint8_t dtype)
{
    return dtype <= TN_INT64 || dtype == TN_BOOL || (dtype >= TN_UINT16 && dtype <= TN_UINT64);
}

/* The window of output i: first, end and step of its inputs. */
static void bounds(const pool_job *job, int d, int64_t i, int64_t *first, int64_t *end, int64_t *step)
{
    const window *w = &job->windows[d];
    int64_t inputs = job->in_sizes[d], outputs = job->out_sizes[d];
    *step = 1;
    if (job->adaptive) {
        *first = i * inputs / outputs;
        *end = ((i + 1) * inputs + outputs - 1) / outputs;
        return;
    }
    *step = w->dilation;
    *first = i * w->stride - w->padding;
    *end = tn_min(*first + (w->kernel - 1) * w->dilation + 1, inputs);
    while (*first < 0)
        *first += w->dilation;
}

#define POOL_PLANE(name, Type)                                                                    \
    static void name(const pool_job *job, const Type *plane, char *out, char *indices)            \
    {                                                                                             \
        const int64_t *n = job->out_sizes, *m = job->in_sizes;                                    \
        int64_t first[SPATIAL], end[SPATIAL], step[SPATIAL];                                      \
        for (int64_t a = 0; a < n[0]; a++) {                                                      \
            bounds(job, 0, a, &first[0], &end[0], &step[0]);                                      \
            for (int64_t b = 0; b < n[1]; b++) {                                                  \
                bounds(job, 1, b, &first[1], &end[1], &step[1]);                                  \
                for (int64_t c = 0; c < n[2]; c++) {                                              \
                    bounds(job, 2, c, &first[2], &end[2], &step[2]);                              \
                    int64_t best = (first[0] * m[1] + first[1]) * m[2] + first[2];                \
                    Type most = plane[best];                                                      \
                    for (int64_t d = first[0]; d < end[0]; d += step[0])                          \
                        for (int64_t h = first[1]; h < end[1]; h += step[1])                      \
                            for (int64_t w = first[2]; w < end[2]; w += step[2]) {                \
                                int64_t at = (d * m[1] + h) * m[2] + w;                           \
                                if (plane[at] > most || plane[at] != plane[at]) {                 \
                                    most = plane[at];                                             \
                                    best = at;                                                    \
                                }                                                                 \
                            }                                                                     \
                    job->accumulator->store(out + a * job->out_strides[0] +                       \
                                                b * job->out_strides[1] + c * job->out_strides[2], \
                                            0, &most, 1);                                         \
                    *(int64_t *)(void *)(indices + a * job->index_strides[0] +                    \
                                         b * job->index_strides[1] + c * job->index_strides[2]) = \
                        best;                                                                     \
                }                                                                                 \
            }                                                                                     \
        }                                                                                         \
    }
POOL_PLANE(pool_plane_float, float)
POOL_PLANE(pool_plane_double, double)
POOL_PLANE(pool_plane_int, int64_t)

/* A dense copy of a plane in accumulators, or back. */
static void move_plane(const pool_job *job, char *plane, char *dense, bool load)
{
    int64_t width = job->in_sizes[2];
    for (int64_t d = 0; d < job->in_sizes[0]; d++)
        for (int64_t h = 0; h < job->in_sizes[1]; h++) {
            char *row = plane + d * job->in_strides[0] + h * job->in_strides[1];
            if (load)
                job->accumulator->load(dense, row, job->in_strides[2], width);
            else
                job->accumulator->store(row, job->in_strides[2], dense, width);
            dense += job->accumulator->size * (size_t)width;
        }
}

static char *plane_scratch(pool_job *job)
{
    int64_t elements = job->in_sizes[0] * job->in_sizes[1] * job->in_sizes[2];
    char *dense = tn_scratch(0, job->accumulator->size * (size_t)elements);
    if (!dense)
        __atomic_store_n(&job->failed, true, __ATOMIC_RELAXED);
    return dense;
}

static void pool_planes(void *context, int64_t begin, int64_t end)
{
    pool_job *job = context;
    char *dense = plane_scratch(job);
    for (int64_t i = begin; dense && i < end; i++) {
        char *out = job->planes.data[0] + tn_nest_offset(&job->planes, 0, i);
        char *in = job->planes.data[1] + tn_nest_offset(&job->planes, 1, i);
        char *indices = job->planes.data[2] + tn_nest_offset(&job->planes, 2, i);
        move_plane(job, in, dense, true);
        if (is_integral(job->dtype))
            pool_plane_int(job, (int64_t *)(void *)dense, out, indices);
        else if (job->dtype == TN_FLOAT64)
            pool_plane_double(job, (double *)(void *)dense, out, indices);
        else
            pool_plane_float(job, (float *)(void *)dense, out, indices);
    }
}

/* Adds or assigns each element of the pooled side at its index. */
static void spread_plane(pool_job *job, const char *pooled, const char *indices, char *dense,
                         int64_t plane)
{
    const int64_t *n = job->out_sizes;
    int64_t limit = job->in_sizes[0] * job->in_sizes[1] * job->in_sizes[2];
    tn_row_load_fn combine = job->accumulator->combine[job->assign ? TN_COMBINE_SET : TN_COMBINE_ADD];
    for (int64_t a = 0; a < n[0]; a++)
        for (int64_t b = 0; b < n[1]; b++)
            for (int64_t c = 0; c < n[2]; c++) {
                int64_t at = *(const int64_t *)(const void *)(indices + a * job->index_strides[0] +
                                                              b * job->index_strides[1] +
                                                              c * job->index_strides[2]);
                if (at < 0 || at >= limit) {
                    tn_fault_at(&job->fault, plane);
                    continue;
                }
                combine(dense + (size_t)at * job->accumulator->size,
                        pooled + a * job->out_strides[0] + b * job->out_strides[1] +
                            c * job->out_strides[2],
                        0, 1);
            }
}

static void spread_planes(void *context, int64_t begin, int64_t end)
{
    pool_job *job = context;
    char *dense = plane_scratch(job);
    int64_t elements = job->in_sizes[0] * job->in_sizes[1] * job->in_sizes[2];
    for (int64_t i = begin; dense && i < end; i++) {
        memset(dense, 0, job->accumulator->size * (size_t)elements);
        spread_plane(job, job->planes.data[0] + tn_nest_offset(&job->planes, 0, i),
                     job->planes.data[2] + tn_nest_offset(&job->planes, 2, i), dense, i);
        move_plane(job, job->planes.data[1] + tn_nest_offset(&job->planes, 1, i), dense, false);
    }
}

static void split(pool_job *job, const tn_operand *pooled, const tn_operand *full,
                  const tn_operand *indices, int spatial)
{
    int64_t itemsize = tn_operand_itemsize(full);
    int lead = full->ndim - spatial;
    for (int d = 0; d < SPATIAL; d++) {
        int own = lead + d - (SPATIAL - spatial);
        bool present = own >= lead;
        job->out_sizes[d] = present ? pooled->sizes[own] : 1;
        job->in_sizes[d] = present ? full->sizes[own] : 1;
        job->out_strides[d] = present ? pooled->strides[own] * itemsize : 0;
        job->in_strides[d] = present ? full->strides[own] * itemsize : 0;
        job->index_strides[d] = present ? indices->strides[own] * 8 : 0;
        if (!present)
            job->windows[d] = (window){1, 1, 0, 1};
    }
    tn_nest_init(&job->planes, 3);
    for (int d = lead - 1; d >= 0; d--) {
        int64_t strides[TN_NEST_OPERANDS] = {pooled->strides[d] * itemsize,
                                             full->strides[d] * itemsize, indices->strides[d] * 8};
        tn_nest_push(&job->planes, full->sizes[d], strides);
    }
    job->planes.data[0] = pooled->data;
    job->planes.data[1] = full->data;
    job->planes.data[2] = indices->data;
    job->dtype = full->dtype;
    job->accumulator = tn_accumulator_of(full->dtype);
    job->fault.position = INT64_MAX;
}

static int64_t plane_grain(const pool_job *job)
{
    return tn_max(1, GRAIN / tn_max(1, job->in_sizes[0] * job->in_sizes[1] * job->in_sizes[2]));
}

static tn_status out_of_scratch(void)
{
    return tn_fail(TN_ERROR_OUT_OF_MEMORY, "out of host memory for a plane of sums");
}

/* Outputs values, indices (int64); input self [..., spatial]; scalars spatial, adaptive, then kernel,
 * stride, padding, dilation per spatial dimension. */
tn_status TN_KERNEL(max_pool)(const tn_launch_desc *launch)
{
    const tn_scalar *s = launch->scalars;
    int spatial = (int)s[0].i;
    pool_job job = {.adaptive = s[1].i != 0};
    for (int d = 0; d < spatial && !job.adaptive; d++)
        job.windows[SPATIAL - spatial + d] =
            (window){s[2 + 4 * d].i, s[3 + 4 * d].i, s[4 + 4 * d].i, s[5 + 4 * d].i};
    split(&job, tn_output(launch, 0), tn_input(launch, 0), tn_output(launch, 1), spatial);
    tn_parallel_for(job.planes.numel, plane_grain(&job), pool_planes, &job);
    return job.failed ? out_of_scratch() : TN_OK;
}

/* Output [..., spatial], wholly written; inputs the pooled side, indices; scalars spatial, assign (else the
 * sum of what meets). */
tn_status TN_KERNEL(max_unpool)(const tn_launch_desc *launch)
{
    const tn_operand *out = tn_output(launch, 0);
    pool_job job = {.assign = launch->scalars[1].i != 0};
    split(&job, tn_input(launch, 0), out, tn_input(launch, 1), (int)launch->scalars[0].i);
    tn_parallel_for(job.planes.numel, plane_grain(&job), spread_planes, &job);
    if (job.failed)
        return out_of_scratch();
    if (job.fault.position != INT64_MAX)
        return tn_fail(TN_ERROR_RUNTIME, "found an invalid max index in plane %lld",
                       (long long)job.fault.position);
    return TN_OK;
}

/* Moves elements where every output coordinate comes from one input coordinate of the same dimension:
 * flip, roll, and padding by reflection or repetition. Elements are bytes; any dtype. */
#include <string.h>

#include "kernel/nest.h"
#include "kernel/move_rows.h"

enum { GRAIN = 1 << 13 };

typedef enum remap_kind {
    REMAP_FLIP = 0,      /* parameter 1: reverse */
    REMAP_ROLL = 1,      /* parameter: shift */
    REMAP_REFLECT = 2,   /* parameter: elements padded in front */
    REMAP_REPLICATE = 3, /* parameter: elements padded in front */
    REMAP_REPEAT = 4     /* the input again and again */
} remap_kind;

typedef struct remap_job {
    const tn_operand *out, *in;
    int64_t *map[TN_MAX_DIMS]; /* [out size] byte offsets into the input */
    int64_t rows, itemsize;
} remap_job;

static int64_t source(remap_kind kind, int64_t parameter, int64_t i, int64_t n)
{
    int64_t at = i - parameter;
    switch (kind) {
    case REMAP_FLIP: return parameter ? n - 1 - i : i;
    case REMAP_ROLL: return at % n < 0 ? at % n + n : at % n;
    case REMAP_REPEAT: return i % n;
    case REMAP_REPLICATE: return tn_max(0, tn_min(n - 1, at));
    default:
        at = at < 0 ? -at : at;
        return at > n - 1 ? 2 * (n - 1) - at : at;
    }
}

/* One output row, in runs of neighbours. */
static void remap_row(char *out, int64_t out_stride, const char *in, const int64_t *map, int64_t n,
                      int64_t in_stride, int64_t size)
{
    for (int64_t i = 0; i < n;) {
        int64_t stop = i + 1, step = stop < n ? map[stop] - map[i] : 0;
        while (stop < n && map[stop] - map[stop - 1] == step)
            stop++;
        if (step != in_stride && step != -in_stride && step != 0)
            stop = i + 1;
        tn_row_copy(out + i * out_stride, out_stride, in + map[i], step, stop - i, size);
        i = stop;
    }
}

static void remap_rows(void *context, int64_t begin, int64_t end)
{
    const remap_job *job = context;
    const tn_operand *out = job->out;
    int last = out->ndim - 1;
    for (int64_t row = begin; row < end; row++) {
        int64_t rest = row, to = 0, from = 0;
        for (int d = last - 1; d >= 0; d--) {
            int64_t i = rest % out->sizes[d];
            rest /= out->sizes[d];
            to += i * out->strides[d];
            from += job->map[d][i];
        }
        remap_row((char *)out->data + to * job->itemsize, out->strides[last] * job->itemsize,
                  (const char *)job->in->data + from, job->map[last], out->sizes[last],
                  job->in->strides[last] * job->itemsize, job->itemsize);
    }
}

/* Output and input of one rank (at least 1); scalars kind, then one parameter per dimension. */
tn_status TN_KERNEL(remap)(const tn_launch_desc *launch)
{
    const tn_operand *out = tn_output(launch, 0), *in = tn_input(launch, 0);
    remap_job job = {.out = out, .in = in, .rows = 1, .itemsize = tn_operand_itemsize(out)};
    remap_kind kind = (remap_kind)launch->scalars[0].i;
    int64_t entries = 0;
    for (int d = 0; d < out->ndim; d++)
        entries += out->sizes[d];
    int64_t *maps = tn_scratch(0, sizeof *maps * (size_t)entries);
    if (!maps)
        return TN_ERROR_OUT_OF_MEMORY;
    for (int d = 0; d < out->ndim; d++) {
        job.map[d] = maps;
        for (int64_t i = 0; i < out->sizes[d]; i++)
            *maps++ = source(kind, launch->scalars[1 + d].i, i, in->sizes[d]) * in->strides[d] *
                      job.itemsize;
        job.rows *= d < out->ndim - 1 ? out->sizes[d] : 1;
    }
    tn_parallel_for(job.rows, tn_max(1, GRAIN / tn_max(1, out->sizes[out->ndim - 1])), remap_rows, &job);
    return TN_OK;
}

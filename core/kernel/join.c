/* Puts tensors beside each other: cat. */
#include "kernel/nest.h"
#include "kernel/move_rows.h"

enum { GRAIN = 1 << 14 };

static void copy_row(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    tn_row_copy(data[0], strides[0], data[1], strides[1], n, *(const int64_t *)context);
}

/* Outer rows of all inputs, for contiguous operands: per outer index one run per input. */
typedef struct runs_job {
    const tn_operand *inputs;
    int count;
    char *out;
    int64_t row, inner; /* bytes of one outer row of the output; bytes per step along the dimension */
    int64_t dim;
} runs_job;

static void copy_runs(void *context, int64_t begin, int64_t end)
{
    const runs_job *job = context;
    for (int64_t outer = begin; outer < end; outer++) {
        char *out = job->out + outer * job->row;
        for (int i = 0; i < job->count; i++) {
            int64_t bytes = job->inputs[i].sizes[job->dim] * job->inner;
            memcpy(out, (const char *)job->inputs[i].data + outer * bytes, (size_t)bytes);
            out += bytes;
        }
    }
}

static bool all_contiguous(const tn_launch_desc *launch)
{
    for (int i = 0; i < launch->num_operands; i++)
        if (!tn_operand_is_contiguous(&launch->operands[i]))
            return false;
    return true;
}

/* Output; inputs of its dtype and rank, none empty; scalar dim. */
tn_status TN_KERNEL(cat)(const tn_launch_desc *launch)
{
    const tn_operand *out = tn_output(launch, 0), *inputs = tn_input(launch, 0);
    int count = launch->num_operands - 1;
    int64_t dim = launch->scalars[0].i, itemsize = tn_operand_itemsize(out), outer = 1;
    int64_t inner = itemsize;
    for (int64_t d = 0; d < dim; d++)
        outer *= out->sizes[d];
    for (int64_t d = dim + 1; d < out->ndim; d++)
        inner *= out->sizes[d];
    if (outer > 1 && inner < 4096 && all_contiguous(launch)) {
        runs_job job = {inputs, count, out->data, out->sizes[dim] * inner, inner, dim};
        tn_parallel_for(outer, tn_max(1, 4 * GRAIN / tn_max(job.row, 1)), copy_runs, &job);
        return TN_OK;
    }
    char *start = out->data;
    for (int i = 0; i < count; i++) {
        tn_operand part = *out;
        int64_t sizes[TN_MAX_DIMS];
        memcpy(sizes, out->sizes, sizeof *sizes * (size_t)out->ndim);
        sizes[dim] = inputs[i].sizes[dim];
        part.sizes = sizes;
        part.data = start;
        const tn_operand *both[] = {&part, &inputs[i]};
        tn_nest nest;
        tn_nest_of(&nest, 2, both);
        tn_nest_sort(&nest);
        tn_nest_run(&nest, GRAIN, copy_row, &itemsize);
        start += sizes[dim] * out->strides[dim] * itemsize;
    }
    return TN_OK;
}

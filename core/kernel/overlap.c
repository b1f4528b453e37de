/* Overlapping windows added up: the backward of unfold.
 *
 * Output: the tensor that was unfolded; input: a gradient per window, with the windows in place of the
 * dimension and their elements last. A line along the dimension is summed over its windows in their order. */
#include "kernel/accumulate.h"
#include "kernel/nest.h"
#include "tn/op/overlap.h"

enum { GRAIN = 1 << 14 };

typedef struct overlap_job {
    const tn_accumulator *type;
    tn_nest lines; /* operand 0 output, 1 gradient */
    int64_t length, windows, size, step;
    int64_t stride_out, stride_window, stride_element; /* bytes */
    bool failed;
} overlap_job;

static void add_windows(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    overlap_job *job = context;
    size_t width = job->type->size;
    char *sums = tn_scratch(0, width * (size_t)job->length);
    if (!sums) {
        __atomic_store_n(&job->failed, true, __ATOMIC_RELAXED);
        return;
    }
    for (int64_t line = 0; line < n; line++) {
        char *out = data[0] + line * strides[0], *grad = data[1] + line * strides[1];
        for (int64_t i = 0; i < job->length; i++)
            job->type->identity(sums + (size_t)i * width, TN_COMBINE_ADD);
        for (int64_t w = 0; w < job->windows; w++)
            job->type->combine[TN_COMBINE_ADD](sums + (size_t)(w * job->step) * width,
                                               grad + w * job->stride_window, job->stride_element,
                                               job->size);
        job->type->store(out, job->stride_out, sums, job->length);
    }
}

/* Scalars: dim, step. */
tn_status TN_KERNEL(unfold_backward)(const tn_launch_desc *launch)
{
    const tn_operand *out = tn_output(launch, 0), *grad = tn_input(launch, 0);
    int64_t dim = launch->scalars[0].i, item = tn_operand_itemsize(out);
    overlap_job job = {.type = tn_accumulator_of(out->dtype),
                       .length = out->sizes[dim],
                       .windows = grad->sizes[dim],
                       .size = grad->sizes[out->ndim],
                       .step = launch->scalars[1].i,
                       .stride_out = out->strides[dim] * item,
                       .stride_window = grad->strides[dim] * item,
                       .stride_element = grad->strides[out->ndim] * item};
    tn_nest_init(&job.lines, 2);
    for (int d = out->ndim - 1; d >= 0; d--) {
        int64_t strides[2] = {out->strides[d] * item, grad->strides[d] * item};
        if (d != dim)
            tn_nest_push(&job.lines, out->sizes[d], strides);
    }
    job.lines.data[0] = out->data;
    job.lines.data[1] = grad->data;
    int64_t work = tn_max(1, job.windows * job.size);
    tn_nest_run(&job.lines, tn_max(1, GRAIN / work), add_windows, &job);
    return job.failed ? tn_fail(TN_ERROR_OUT_OF_MEMORY, "unfold_backward: out of host memory for a line of %lld",
                                (long long)job.length)
                      : TN_OK;
}

/* Sliding windows of an image as columns, and columns summed back into an image.
 *
 * im2col: out [N, C kh kw, oh ow] contiguous; image [N, C, H, W] of any strides and dtype.
 * col2im: out [N, C, H, W] contiguous; columns [N, C kh kw, oh ow] of any strides.
 * Scalars: kernel, dilation, padding, stride, each for h and w, then the number of windows oh, ow.
 */
#include <string.h>

#include "base/pool.h"
#include "kernel/accumulate.h"
#include "kernel/tile_io.h"

enum { GRAIN = 1 << 14, SLOT_ROW = 2 };

typedef struct window {
    int64_t kernel, dilation, padding, stride, count;
} window;

typedef struct unfold_job {
    const tn_operand *out, *in;
    window h, w;
    int64_t channels, height, width; /* of the image */
    const tn_accumulator *accumulator;
    _Atomic(int) failed;
} unfold_job;

static unfold_job make_job(const tn_launch_desc *launch, const tn_operand *image)
{
    unfold_job job = {.out = tn_output(launch, 0), .in = tn_input(launch, 0)};
    int64_t *fields[2][5] = {
        {&job.h.kernel, &job.h.dilation, &job.h.padding, &job.h.stride, &job.h.count},
        {&job.w.kernel, &job.w.dilation, &job.w.padding, &job.w.stride, &job.w.count}};
    for (int k = 0; k < 10; k++)
        *fields[k % 2][k / 2] = tn_scalar_as_int(launch->scalars[k]);
    job.channels = image->sizes[1];
    job.height = image->sizes[2];
    job.width = image->sizes[3];
    return job;
}

static int64_t divide_up(int64_t a, int64_t b)
{
    return a <= 0 ? 0 : (a + b - 1) / b;
}

/* Windows [*out_begin, *out_end) whose element at `offset` from their start lies in [0, size). */
static void windows_inside(const window *w, int64_t offset, int64_t size, int64_t *out_begin,
                           int64_t *out_end)
{
    int64_t begin = divide_up(-offset, w->stride), end = divide_up(size - offset, w->stride);
    *out_end = end < w->count ? end : w->count;
    *out_begin = begin < *out_end ? begin : *out_end;
}

/* ---- im2col: a row per channel and position in the window ------------------------------------ */

static void unfold_rows(void *context, int64_t first, int64_t end)
{
    const unfold_job *job = context;
    const tn_operand *in = job->in;
    int64_t size = (int64_t)tn_dtype_size((tn_dtype)in->dtype);
    int64_t kernels = job->h.kernel * job->w.kernel, step = in->strides[3] * size;
    for (int64_t row = first; row < end; row++) {
        int64_t kw = row % job->w.kernel, kh = row / job->w.kernel % job->h.kernel;
        int64_t channel = row / kernels % job->channels, batch = row / kernels / job->channels;
        const char *plane =
            (const char *)in->data + (batch * in->strides[0] + channel * in->strides[1]) * size;
        char *out = (char *)job->out->data + row * job->h.count * job->w.count * size;
        int64_t offset = kw * job->w.dilation - job->w.padding, from, to;
        windows_inside(&job->w, offset, job->width, &from, &to);
        for (int64_t oh = 0; oh < job->h.count; oh++, out += job->w.count * size) {
            int64_t ih = oh * job->h.stride + kh * job->h.dilation - job->h.padding;
            if (ih < 0 || ih >= job->height || from >= to) {
                memset(out, 0, (size_t)(job->w.count * size));
                continue;
            }
            memset(out, 0, (size_t)(from * size));
            const char *at =
                plane + ih * in->strides[2] * size + (from * job->w.stride + offset) * step;
            tn_gather_run(out + from * size, at, step * job->w.stride, to - from, (size_t)size);
            memset(out + to * size, 0, (size_t)((job->w.count - to) * size));
        }
    }
}

tn_status TN_KERNEL(im2col)(const tn_launch_desc *launch)
{
    unfold_job job = make_job(launch, tn_input(launch, 0));
    int64_t rows = job.in->sizes[0] * job.channels * job.h.kernel * job.w.kernel;
    tn_parallel_for(rows, 1 + GRAIN / (job.h.count * job.w.count + 1), unfold_rows, &job);
    return TN_OK;
}

/* ---- col2im: a row of the image at a time, summed over the windows in their order ------------ */

/* Columns of the image with equal remainder by the stride are neighbours in the accumulators, as
 * the windows that reach them are in the input. */
static void add_windows(const unfold_job *job, const char *column, int64_t oh, int64_t kw,
                        int64_t run, char *sums)
{
    const window *w = &job->w;
    int64_t size = (int64_t)tn_dtype_size((tn_dtype)job->in->dtype),
            step = job->in->strides[2] * size;
    int64_t offset = kw * w->dilation - w->padding, from, to;
    windows_inside(w, offset, job->width, &from, &to);
    if (from >= to)
        return;
    int64_t position = from * w->stride + offset;
    int64_t at = position % w->stride * run + position / w->stride;
    job->accumulator->combine[TN_COMBINE_ADD](sums + at * (int64_t)job->accumulator->size,
                                              column + (oh * w->count + from) * step, step,
                                              to - from);
}

static void fold_rows(void *context, int64_t first, int64_t end)
{
    unfold_job *job = context;
    const tn_operand *in = job->in, *out = job->out;
    int64_t size = (int64_t)tn_dtype_size((tn_dtype)in->dtype),
            wide = (int64_t)job->accumulator->size;
    int64_t run = divide_up(job->width, job->w.stride), kernels = job->h.kernel * job->w.kernel;
    size_t bytes = (size_t)(run * job->w.stride * wide);
    char *sums = tn_scratch(SLOT_ROW, bytes);
    if (!sums) {
        job->failed = 1;
        return;
    }
    for (int64_t row = first; row < end; row++) {
        int64_t h = row % job->height, channel = row / job->height % job->channels;
        int64_t batch = row / job->height / job->channels;
        memset(sums, 0, bytes);
        for (int64_t kh = 0; kh < job->h.kernel; kh++) {
            int64_t start = h + job->h.padding - kh * job->h.dilation, oh = start / job->h.stride;
            if (start < 0 || start % job->h.stride != 0 || oh >= job->h.count)
                continue;
            for (int64_t kw = 0; kw < job->w.kernel; kw++) {
                int64_t line = channel * kernels + kh * job->w.kernel + kw;
                const char *column = (const char *)in->data +
                                     (batch * in->strides[0] + line * in->strides[1]) * size;
                add_windows(job, column, oh, kw, run, sums);
            }
        }
        char *to = (char *)out->data + row * job->width * size;
        for (int64_t phase = 0; phase < job->w.stride && phase < job->width; phase++)
            job->accumulator->store(to + phase * size, job->w.stride * size,
                                    sums + phase * run * wide,
                                    divide_up(job->width - phase, job->w.stride));
    }
}

tn_status TN_KERNEL(col2im)(const tn_launch_desc *launch)
{
    unfold_job job = make_job(launch, tn_output(launch, 0));
    job.accumulator = tn_accumulator_of(job.in->dtype);
    if (!job.accumulator)
        return tn_fail(TN_ERROR_NOT_IMPLEMENTED, "\"col2im\" not implemented for '%s'",
                       tn_dtype_name((tn_dtype)job.in->dtype));
    int64_t rows = job.out->sizes[0] * job.channels * job.height;
    int64_t work = job.width * job.h.kernel * job.w.kernel / job.h.stride / job.w.stride;
    tn_parallel_for(rows, 1 + GRAIN / (work + 1), fold_rows, &job);
    return job.failed ? tn_fail(TN_ERROR_OUT_OF_MEMORY, "col2im: out of host memory for scratch")
                      : TN_OK;
}

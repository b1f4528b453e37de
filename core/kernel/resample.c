/* Separable resampling of up to three spatial dimensions (taps.h): interpolation, average pooling, padding
 * by reflection and repetition, and their gradients.
 *
 * Two orders of work, chosen by the operands' strides: *rows* combines the input rows that an output row
 * needs, then takes the taps along the row; *pixels* combines whole channel vectors where channels are
 * innermost (channels_last). Sums are taken in fp32 (fp64 for fp64) in the order of the taps. */
#include <string.h>

#include "kernel/accumulate.h"
#include "kernel/nest.h"
#include "kernel/taps.h"

enum { SPATIAL = 3, GRAIN = 1 << 14, FIRST_SLOT = 3, PIXEL_CHANNELS = 256 };

typedef struct resample_job {
    tn_taps taps[SPATIAL];             /* of the output dimensions, outermost first */
    int64_t in_sizes[SPATIAL], out_sizes[SPATIAL];
    int64_t in_strides[SPATIAL], out_strides[SPATIAL]; /* bytes */
    tn_nest planes;                    /* operand 0 out, 1 in: all that is not resampled */
    int64_t channels, out_channel, in_channel; /* pixels: innermost run of planes */
    const tn_accumulator *accumulator;
    double scale; /* 1 / divisor_override, else 1 */
    bool wide;    /* fp64 */
    bool failed;
} resample_job;

/* sum[i] += weight * row[i], or the first of them. */
#define ADD_WEIGHTED(name, Type)                                                                  \
    static void name(Type *restrict sum, const Type *restrict row, double weight, bool first,     \
                     int64_t n)                                                                   \
    {                                                                                             \
        Type w = (Type)weight;                                                                    \
        if (first)                                                                                \
            for (int64_t i = 0; i < n; i++)                                                       \
                sum[i] = row[i] * w;                                                              \
        else                                                                                      \
            for (int64_t i = 0; i < n; i++)                                                       \
                sum[i] += row[i] * w;                                                             \
    }
ADD_WEIGHTED(add_weighted_float, float)
ADD_WEIGHTED(add_weighted_double, double)

#define TAKE_TAPS(name, Type)                                                                     \
    static void name(Type *restrict out, const Type *restrict row, const tn_taps *taps, double scale, \
                     int64_t n)                                                                   \
    {                                                                                             \
        for (int64_t i = 0; i < n; i++) {                                                         \
            Type sum = 0;                                                                         \
            for (int64_t k = taps->starts[i]; k < taps->starts[i + 1]; k++)                       \
                sum += row[taps->index[k]] * (Type)taps->weight[k];                               \
            out[i] = sum * (Type)scale;                                                           \
        }                                                                                         \
    }
TAKE_TAPS(take_taps_float, float)
TAKE_TAPS(take_taps_double, double)

static void add_weighted(const resample_job *job, void *sum, const void *row, double weight, bool first,
                         int64_t n)
{
    if (job->wide)
        add_weighted_double(sum, row, weight, first, n);
    else
        add_weighted_float(sum, row, weight, first, n);
}

/* ---- rows -------------------------------------------------------------------------------------- */

static void resample_row(const resample_job *job, char *out, const char *in, int64_t y, int64_t x,
                         char *scratch)
{
    const tn_taps *depth = &job->taps[0], *height = &job->taps[1];
    int64_t width = job->in_sizes[2], out_width = job->out_sizes[2];
    size_t size = job->accumulator->size;
    char *sum = scratch, *row = sum + size * (size_t)width, *result = row + size * (size_t)width;
    bool first = true;
    for (int64_t d = depth->starts[y]; d < depth->starts[y + 1]; d++)
        for (int64_t h = height->starts[x]; h < height->starts[x + 1]; h++) {
            const char *from = in + depth->index[d] * job->in_strides[0] +
                               height->index[h] * job->in_strides[1];
            job->accumulator->load(row, from, job->in_strides[2], width);
            add_weighted(job, sum, row, depth->weight[d] * height->weight[h], first, width);
            first = false;
        }
    if (first)
        memset(sum, 0, size * (size_t)width);
    if (job->wide)
        take_taps_double((double *)(void *)result, (double *)(void *)sum, &job->taps[2], job->scale,
                         out_width);
    else
        take_taps_float((float *)(void *)result, (float *)(void *)sum, &job->taps[2], job->scale,
                        out_width);
    job->accumulator->store(out, job->out_strides[2], result, out_width);
}

static void resample_rows(void *context, int64_t begin, int64_t end)
{
    resample_job *job = context;
    int64_t rows = job->out_sizes[0] * job->out_sizes[1];
    char *scratch = tn_scratch(0, job->accumulator->size *
                                      (size_t)(2 * job->in_sizes[2] + job->out_sizes[2] + 1));
    if (!scratch) {
        __atomic_store_n(&job->failed, true, __ATOMIC_RELAXED);
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        int64_t plane = i / rows, y = i % rows / job->out_sizes[1], x = i % job->out_sizes[1];
        char *out = job->planes.data[0] + tn_nest_offset(&job->planes, 0, plane) +
                    y * job->out_strides[0] + x * job->out_strides[1];
        const char *in = job->planes.data[1] + tn_nest_offset(&job->planes, 1, plane);
        resample_row(job, out, in, y, x, scratch);
    }
}

/* ---- pixels ------------------------------------------------------------------------------------ */

static void resample_pixel(const resample_job *job, char *out, const char *in, const int64_t *at,
                           int64_t channels, char *scratch)
{
    const tn_taps *t = job->taps;
    char *sum = scratch, *row = scratch + job->accumulator->size * PIXEL_CHANNELS;
    bool first = true;
    for (int64_t d = t[0].starts[at[0]]; d < t[0].starts[at[0] + 1]; d++)
        for (int64_t h = t[1].starts[at[1]]; h < t[1].starts[at[1] + 1]; h++)
            for (int64_t w = t[2].starts[at[2]]; w < t[2].starts[at[2] + 1]; w++) {
                const char *from = in + t[0].index[d] * job->in_strides[0] +
                                   t[1].index[h] * job->in_strides[1] +
                                   t[2].index[w] * job->in_strides[2];
                double weight = t[0].weight[d] * t[1].weight[h] * t[2].weight[w] * job->scale;
                job->accumulator->load(row, from, job->in_channel, channels);
                add_weighted(job, sum, row, weight, first, channels);
                first = false;
            }
    if (first)
        memset(sum, 0, job->accumulator->size * (size_t)channels);
    job->accumulator->store(out, job->out_channel, sum, channels);
}

static void resample_pixels(void *context, int64_t begin, int64_t end)
{
    const resample_job *job = context;
    _Alignas(64) char scratch[2 * PIXEL_CHANNELS * sizeof(double)];
    const int64_t *sizes = job->out_sizes;
    int64_t pixels = sizes[0] * sizes[1] * sizes[2];
    for (int64_t i = begin; i < end; i++) {
        int64_t plane = i / pixels, rest = i % pixels;
        int64_t at[SPATIAL] = {rest / (sizes[1] * sizes[2]), rest / sizes[2] % sizes[1],
                               rest % sizes[2]};
        char *out = job->planes.data[0] + tn_nest_offset(&job->planes, 0, plane);
        const char *in = job->planes.data[1] + tn_nest_offset(&job->planes, 1, plane);
        for (int d = 0; d < SPATIAL; d++)
            out += at[d] * job->out_strides[d];
        for (int64_t c = 0; c < job->channels; c += PIXEL_CHANNELS)
            resample_pixel(job, out + c * job->out_channel, in + c * job->in_channel, at,
                           tn_min(PIXEL_CHANNELS, job->channels - c), scratch);
    }
}

/* ---- the launch -------------------------------------------------------------------------------- */

/* Splits both operands into planes and three spatial dimensions (missing ones have one element). */
static void split(resample_job *job, const tn_operand *out, const tn_operand *in, int spatial)
{
    int64_t itemsize = tn_operand_itemsize(out);
    int lead = out->ndim - spatial;
    for (int d = 0; d < SPATIAL; d++) {
        int own = lead + d - (SPATIAL - spatial);
        bool present = own >= lead;
        job->out_sizes[d] = present ? out->sizes[own] : 1;
        job->in_sizes[d] = present ? in->sizes[own] : 1;
        job->out_strides[d] = present ? out->strides[own] * itemsize : 0;
        job->in_strides[d] = present ? in->strides[own] * itemsize : 0;
    }
    tn_nest_init(&job->planes, 2);
    for (int d = lead - 1; d >= 0; d--) {
        int64_t strides[TN_NEST_OPERANDS] = {out->strides[d] * itemsize, in->strides[d] * itemsize};
        tn_nest_push(&job->planes, out->sizes[d], strides);
    }
    job->planes.data[0] = out->data;
    job->planes.data[1] = in->data;
}

/* Channels innermost in both: cut them off the planes. */
static bool cut_channels(resample_job *job, int64_t itemsize)
{
    tn_nest *planes = &job->planes;
    if (planes->ndim == 0 || planes->strides[0][0] != itemsize || planes->strides[0][1] != itemsize ||
        planes->sizes[0] < 4)
        return false;
    job->channels = planes->sizes[0];
    job->out_channel = job->in_channel = itemsize;
    planes->numel /= planes->sizes[0];
    planes->ndim--;
    for (int d = 0; d < planes->ndim; d++) {
        planes->sizes[d] = planes->sizes[d + 1];
        memcpy(planes->strides[d], planes->strides[d + 1], sizeof planes->strides[d]);
    }
    return true;
}

/* Output and input [..., spatial]; scalars spatial, kind, transposed, align_corners, count_include_pad,
 * divisor (0: none), then three parameters (taps.h) per spatial dimension. */
tn_status TN_KERNEL(resample)(const tn_launch_desc *launch)
{
    const tn_operand *out = tn_output(launch, 0), *in = tn_input(launch, 0);
    const tn_scalar *s = launch->scalars;
    int spatial = (int)s[0].i;
    bool transposed = s[2].i != 0;
    double divisor = tn_scalar_as_double(s[5]);
    resample_job job = {.accumulator = tn_accumulator_of(out->dtype),
                        .scale = divisor != 0 ? 1 / divisor : 1,
                        .wide = out->dtype == TN_FLOAT64};
    split(&job, out, in, spatial);
    for (int d = 0; d < SPATIAL; d++) {
        int own = d - (SPATIAL - spatial);
        tn_tap_rule rule = {.kind = (tn_tap_kind)s[1].i,
                            .align_corners = s[3].i != 0,
                            .narrow = !job.wide,
                            .count_include_pad = s[4].i != 0,
                            .weightless = divisor != 0};
        if (own < 0)
            rule = (tn_tap_rule){.kind = TN_TAP_REPLICATE};
        for (int k = 0; own >= 0 && k < 3; k++)
            rule.parameters[k] = tn_scalar_as_double(s[6 + 3 * own + k]);
        int64_t inputs = transposed ? job.out_sizes[d] : job.in_sizes[d];
        int64_t outputs = transposed ? job.in_sizes[d] : job.out_sizes[d];
        tn_status status =
            tn_taps_build(&rule, inputs, outputs, transposed, FIRST_SLOT + d, &job.taps[d]);
        if (status != TN_OK)
            return status;
    }
    int64_t rows = job.out_sizes[0] * job.out_sizes[1];
    if (cut_channels(&job, tn_operand_itemsize(out)))
        tn_parallel_for(job.planes.numel * rows * job.out_sizes[2], tn_max(1, GRAIN / 4 / job.channels),
                        resample_pixels, &job);
    else
        tn_parallel_for(job.planes.numel * rows,
                        tn_max(1, GRAIN / (job.in_sizes[2] + job.out_sizes[2])), resample_rows, &job);
    return job.failed ? tn_fail(TN_ERROR_OUT_OF_MEMORY, "out of host memory for a row of sums") : TN_OK;
}

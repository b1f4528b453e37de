/* Convolution in one element type (GEMM_DOUBLE), as matrix products over blocks of positions:
 *
 *     small [channels, positions] = filter [channels, patch] * patches [patch, positions]
 *
 * where a column of `patches` is what the filter sees at one position of the small image; patch =
 * large_channels * taps. Only a block of columns exists at a time. Where the filter is a single tap
 * without stride and padding, the large image itself is the matrix of patches. */
#ifndef TN_KERNEL_CONV_BODY_H
#define TN_KERNEL_CONV_BODY_H

#include "base/pool.h"
#include "kernel/conv.h"
#include "kernel/gemm_elements.h"

enum { SLOT_PATCHES = 2, SLOT_IMAGE = 3, SLOT_PARTIAL = 4 };
enum { BLOCK_ELEMENTS = 65536, MOST_COLUMNS = 512, LEAST_COLUMNS = 32, FILTER_PARTS = 8 };
static const double grain_flops = 2e6;

/* Positions [first, first + count) of the small image of one batch entry and group. */
typedef struct block {
    const tn_conv *c;
    int64_t batch, group, first, count;
} block;

static int64_t patch_of(const tn_conv *c)
{
    return c->large_channels * c->taps;
}

static int64_t block_columns(const tn_conv *c)
{
    int64_t columns = BLOCK_ELEMENTS / (patch_of(c) + 1) / 32 * 32;
    columns = columns < LEAST_COLUMNS ? LEAST_COLUMNS : columns > MOST_COLUMNS ? MOST_COLUMNS : columns;
    return columns < c->positions ? columns : c->positions;
}

static void *at_channel(const tn_image *image, int64_t batch, int64_t channel)
{
    return (char *)image->data + (batch * image->batch + channel * image->channel) *
                                     (int64_t)tn_dtype_size(image->dtype);
}

/* [channels, positions] of the small image: positions are evenly spaced, because it is dense. */
static tn_matrix small_matrix(const block *b)
{
    const tn_image *image = &b->c->small;
    char *data = at_channel(image, b->batch, b->group * b->c->small_channels);
    data += b->first * image->space[2] * (int64_t)tn_dtype_size(image->dtype);
    return (tn_matrix){data, image->channel, image->space[2], image->dtype};
}

/* [channels, patch] of one group. */
static tn_matrix filter_matrix(const tn_conv *c, int64_t group)
{
    int64_t offset = group * c->small_channels * patch_of(c);
    return (tn_matrix){(char *)c->filter + offset * (int64_t)tn_dtype_size(c->filter_dtype), patch_of(c),
                       1, c->filter_dtype};
}

static tn_matrix scratch_matrix(element *data, int64_t columns)
{
    return (tn_matrix){data, columns, 1, GEMM_DTYPE};
}

static void multiply(const tn_conv *c, int64_t m, int64_t n, int64_t k, tn_matrix left,
                     tn_matrix right, tn_matrix out, double beta)
{
    tn_gemm g = {.m = m, .n = n, .k = k, .a = left, .b = right, .c = out, .out = out, .alpha = 1,
                 .beta = beta};
    if (tn_gemm_run(&g) != TN_OK)
        ((tn_conv *)c)->status = TN_ERROR_OUT_OF_MEMORY;
}

/* ---- patches ----------------------------------------------------------------------------------- */

/* Where one tap of the filter meets the large image along a run of positions in one line. */
typedef struct run {
    int64_t start, length;    /* columns of the block */
    int64_t low, high;        /* [low, high) of them lie inside the image */
    int64_t offset, step;     /* of column `low`, from element to element */
} run;

/* The run that begins at column `start` of the block, for the tap at (z, y, x). */
static run find_run(const block *b, int64_t start, int64_t z, int64_t y, int64_t x)
{
    const tn_conv *c = b->c;
    int64_t position = b->first + start, column = position % c->small.size[2];
    int64_t line = position / c->small.size[2];
    run r = {.start = start, .length = c->small.size[2] - column};
    if (r.length > b->count - start)
        r.length = b->count - start;
    int64_t at[3] = {line / c->small.size[1] * c->stride[0] + z * c->dilation[0] - c->padding[0],
                     line % c->small.size[1] * c->stride[1] + y * c->dilation[1] - c->padding[1],
                     column * c->stride[2] + x * c->dilation[2] - c->padding[2]};
    if (at[0] < 0 || at[0] >= c->large.size[0] || at[1] < 0 || at[1] >= c->large.size[1])
        return r;
    r.low = at[2] < 0 ? (-at[2] + c->stride[2] - 1) / c->stride[2] : 0;
    int64_t room = c->large.size[2] - at[2];
    r.high = room <= 0 ? 0 : (room - 1) / c->stride[2] + 1;
    r.high = r.high < r.length ? r.high : r.length;
    if (r.low > r.high)
        r.low = r.high;
    r.step = c->stride[2] * c->large.space[2];
    r.offset = at[0] * c->large.space[0] + at[1] * c->large.space[1] + at[2] * c->large.space[2] +
               r.low * r.step;
    return r;
}

static void gather_row(const block *b, const tn_matrix *plane, int64_t tap, element *row)
{
    const int64_t *k = b->c->kernel;
    int64_t z = tap / k[2] / k[1], y = tap / k[2] % k[1], x = tap % k[2];
    for (int64_t start = 0; start < b->count;) {
        run r = find_run(b, start, z, y, x);
        element *to = row + start;
        for (int64_t i = 0; i < r.low; i++)
            to[i] = 0;
        if (r.high > r.low)
            read_elements(plane, r.offset, r.step, r.high - r.low, to + r.low);
        for (int64_t i = r.high; i < r.length; i++)
            to[i] = 0;
        start += r.length;
    }
}

static void gather_patches(const block *b, element *patches)
{
    const tn_conv *c = b->c;
    for (int64_t channel = 0; channel < c->large_channels; channel++) {
        tn_matrix plane = {.dtype = c->large.dtype,
                           .data = at_channel(&c->large, b->batch, b->group * c->large_channels + channel)};
        for (int64_t tap = 0; tap < c->taps; tap++)
            gather_row(b, &plane, tap, patches + (channel * c->taps + tap) * b->count);
    }
}

/* Adds rows of patches back to where they came from; `sums` is [large_channels, large image]. */
static void scatter_patches(const block *b, const element *patches, element *sums, int64_t image)
{
    const tn_conv *c = b->c;
    const int64_t *k = c->kernel;
    for (int64_t row = 0; row < patch_of(c); row++, patches += b->count) {
        int64_t tap = row % c->taps;
        int64_t z = tap / k[2] / k[1], y = tap / k[2] % k[1], x = tap % k[2];
        element *plane = sums + row / c->taps * image;
        for (int64_t start = 0; start < b->count;) {
            run r = find_run(b, start, z, y, x);
            element *to = plane + r.offset;
            for (int64_t i = r.low; i < r.high; i++)
                to[(i - r.low) * r.step] += patches[start + i];
            start += r.length;
        }
    }
}

/* One tap, no stride, no padding, evenly spaced pixels: the large image needs no gathering. */
static bool is_pointwise(const tn_conv *c)
{
    const tn_image *l = &c->large;
    bool even = (l->size[1] == 1 || l->space[1] == l->size[2] * l->space[2]) &&
                (l->size[0] == 1 || l->space[0] == l->size[1] * l->size[2] * l->space[2]);
    for (int i = 0; i < 3; i++)
        even = even && c->stride[i] == 1 && c->padding[i] == 0;
    return c->taps == 1 && even;
}

static tn_matrix large_matrix(const block *b)
{
    const tn_image *image = &b->c->large;
    char *data = at_channel(image, b->batch, b->group * b->c->large_channels);
    data += b->first * image->space[2] * (int64_t)tn_dtype_size(image->dtype);
    return (tn_matrix){data, image->channel, image->space[2], image->dtype};
}

/* [patch, count], gathered into `scratch` if need be. */
static tn_matrix patches_of(const block *b, element *scratch)
{
    if (is_pointwise(b->c))
        return large_matrix(b);
    gather_patches(b, scratch);
    return scratch_matrix(scratch, b->count);
}

/* ---- forward ------------------------------------------------------------------------------------ */

static void fill_bias(const block *b, const tn_matrix *out)
{
    const tn_conv *c = b->c;
    element line[MOST_COLUMNS];
    tn_matrix bias = {.data = c->bias->data, .dtype = c->bias->dtype};
    for (int64_t i = 0; i < c->small_channels; i++) {
        read_elements(&bias, (b->group * c->small_channels + i) * c->bias->strides[0], 0, b->count, line);
        write_elements(out, i * out->row, out->column, b->count, line);
    }
}

static element *scratch(const tn_conv *c, int slot, int64_t elements)
{
    element *memory = tn_scratch(slot, (size_t)elements * sizeof(element));
    if (!memory)
        ((tn_conv *)c)->status = TN_ERROR_OUT_OF_MEMORY;
    return memory;
}

/* Item: a block of positions of one group of one batch entry. Narrow results get their bias in fp32. */
static void run_forward(void *context, int64_t begin, int64_t end)
{
    const tn_conv *c = context;
    int64_t columns = block_columns(c), blocks = (c->positions - 1) / columns + 1;
    int64_t patch = patch_of(c), sums_at = is_pointwise(c) ? 0 : patch * columns;
    element *patches = scratch(c, SLOT_PATCHES, sums_at + c->small_channels * columns);
    bool direct = c->small.dtype == GEMM_DTYPE;
    for (int64_t item = begin; patches && item < end; item++) {
        block b = {c, item / blocks / c->groups, item / blocks % c->groups, item % blocks * columns, 0};
        b.count = c->positions - b.first < columns ? c->positions - b.first : columns;
        tn_matrix out = small_matrix(&b), sums = scratch_matrix(patches + sums_at, b.count);
        tn_matrix target = direct ? out : sums;
        if (c->bias)
            fill_bias(&b, &target);
        multiply(c, c->small_channels, b.count, patch, filter_matrix(c, b.group),
                 patches_of(&b, patches), target, c->bias ? 1 : 0);
        for (int64_t i = 0; !direct && i < c->small_channels; i++)
            write_elements(&out, i * out.row, out.column, b.count, patches + sums_at + i * b.count);
    }
}

static int64_t grain_of(double flops)
{
    return (int64_t)(grain_flops / (flops + 1)) + 1;
}

static double flops_per_position(const tn_conv *c)
{
    return 2.0 * (double)c->small_channels * (double)patch_of(c);
}

static tn_status finish(const tn_conv *c)
{
    return c->status == TN_OK ? TN_OK
                              : tn_fail(TN_ERROR_OUT_OF_MEMORY,
                                        "convolution: out of host memory for scratch");
}

static tn_status forward(tn_conv *c)
{
    if (c->positions == 0 || c->batch == 0)
        return TN_OK;
    int64_t columns = block_columns(c), blocks = (c->positions - 1) / columns + 1;
    tn_parallel_for(c->batch * c->groups * blocks, grain_of(flops_per_position(c) * (double)columns),
                    run_forward, c);
    return finish(c);
}

/* ---- gradient of the input ------------------------------------------------------------------------ */

/* The large image as `sums` holds it: contiguous, one group of one batch entry. */
static tn_conv with_dense_large(const tn_conv *c, element *sums)
{
    tn_conv dense = *c;
    tn_image *l = &dense.large;
    *l = (tn_image){.data = sums, .dtype = GEMM_DTYPE};
    memcpy(l->size, c->large.size, sizeof l->size);
    l->space[2] = 1;
    l->space[1] = l->size[2];
    l->space[0] = l->size[1] * l->size[2];
    l->channel = l->size[0] * l->space[0];
    return dense;
}

static void store_large(const tn_conv *c, int64_t batch, int64_t group, const element *sums)
{
    const tn_image *l = &c->large;
    for (int64_t i = 0; i < c->large_channels; i++) {
        int64_t channel = group * c->large_channels + i;
        tn_matrix plane = {.data = at_channel(l, batch, channel), .dtype = l->dtype};
        tn_matrix bias = {.data = c->bias ? c->bias->data : NULL, .dtype = c->bias ? c->bias->dtype : 0};
        element shift = 0;
        if (c->bias)
            read_elements(&bias, channel * c->bias->strides[0], 0, 1, &shift);
        for (int64_t z = 0; z < l->size[0]; z++)
            for (int64_t y = 0; y < l->size[1]; y++, sums += l->size[2]) {
                element *line = (element *)sums;
                for (int64_t x = 0; c->bias && x < l->size[2]; x++)
                    line[x] += shift;
                write_elements(&plane, z * l->space[0] + y * l->space[1], l->space[2], l->size[2], line);
            }
    }
}

/* Item: one group of one batch entry. */
static void run_input(void *context, int64_t begin, int64_t end)
{
    const tn_conv *c = context;
    int64_t columns = block_columns(c), patch = patch_of(c);
    int64_t image = c->large.size[0] * c->large.size[1] * c->large.size[2];
    element *patches = scratch(c, SLOT_PATCHES, patch * columns);
    element *sums = scratch(c, SLOT_IMAGE, c->large_channels * image);
    if (!patches || !sums)
        return;
    tn_conv dense = with_dense_large(c, sums);
    for (int64_t item = begin; item < end; item++) {
        block b = {&dense, item / c->groups, item % c->groups, 0, 0};
        memset(sums, 0, (size_t)(c->large_channels * image) * sizeof *sums);
        for (; b.first < c->positions; b.first += columns) {
            b.count = c->positions - b.first < columns ? c->positions - b.first : columns;
            multiply(c, patch, b.count, c->small_channels,
                     tn_matrix_transposed(filter_matrix(c, b.group)), small_matrix(&b),
                     scratch_matrix(patches, b.count), 0);
            scatter_patches(&b, patches, sums, image);
        }
        store_large(c, b.batch, b.group, sums);
    }
}

static tn_status input_gradient(tn_conv *c)
{
    enum { FEW = 4 };
    int64_t items = c->batch * c->groups;
    double flops = flops_per_position(c) * (double)c->positions;
    tn_parallel_for(items, items < FEW ? items : grain_of(flops), run_input, c);
    return finish(c);
}

/* ---- gradient of the filter ----------------------------------------------------------------------- */

typedef struct filter_job {
    tn_conv *c;
    int64_t parts;
    element *partial; /* [groups, parts, small_channels, patch] */
} filter_job;

/* Item: one part of the batch for one group. */
static void run_filter(void *context, int64_t begin, int64_t end)
{
    const filter_job *job = context;
    const tn_conv *c = job->c;
    int64_t columns = block_columns(c), patch = patch_of(c), size = c->small_channels * patch;
    element *patches = scratch(c, SLOT_PATCHES, patch * columns);
    for (int64_t item = begin; patches && item < end; item++) {
        int64_t part = item % job->parts, last = (part + 1) * c->batch / job->parts;
        element *sums = job->partial + item * size;
        memset(sums, 0, (size_t)size * sizeof *sums);
        block b = {c, part * c->batch / job->parts, item / job->parts, 0, 0};
        for (; b.batch < last; b.batch++)
            for (b.first = 0; b.first < c->positions; b.first += columns) {
                b.count = c->positions - b.first < columns ? c->positions - b.first : columns;
                multiply(c, c->small_channels, patch, b.count, small_matrix(&b),
                         tn_matrix_transposed(patches_of(&b, patches)), scratch_matrix(sums, patch), 1);
            }
    }
}

static void store_filter(const filter_job *job)
{
    const tn_conv *c = job->c;
    int64_t size = c->small_channels * patch_of(c);
    for (int64_t group = 0; group < c->groups; group++) {
        element *sums = job->partial + group * job->parts * size;
        for (int64_t part = 1; part < job->parts; part++)
            for (int64_t i = 0; i < size; i++)
                sums[i] += sums[part * size + i];
        tn_matrix out = filter_matrix(c, group);
        write_elements(&out, 0, 1, size, sums);
    }
}

static tn_status filter_gradient(tn_conv *c)
{
    filter_job job = {c, c->batch < FILTER_PARTS ? c->batch : FILTER_PARTS, NULL};
    if (job.parts < 1)
        job.parts = 1;
    int64_t size = c->small_channels * patch_of(c), items = c->groups * job.parts;
    job.partial = scratch(c, SLOT_PARTIAL, items * size);
    if (!job.partial)
        return TN_ERROR_OUT_OF_MEMORY;
    double flops = flops_per_position(c) * (double)(c->positions * c->batch) / (double)job.parts;
    tn_parallel_for(items, items < 2 ? items : grain_of(flops), run_filter, &job);
    store_filter(&job);
    return finish(c);
}

#endif

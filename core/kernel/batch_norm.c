/* Batch normalisation (Ioffe and Szegedy 2015): x's statistics per channel, forward and backward,
 * and the pieces of it that several processes share.
 *
 * The passes over x are channels.c's. What is left here happens once per channel, in fp64, and is
 * rounded where it is stored: mean, variance, running averages, the parameters of the affine
 * maps. */
#include <math.h>

#include "kernel/channels.h"
#include "kernel/rows.h"

typedef enum source { FROM_BATCH, FROM_VARIANCE, FROM_RECIPROCAL } source;

#define LOAD TN_ISA_NAME(tn_channel_load)
#define STORE TN_ISA_NAME(tn_channel_store)

static void fill(double *values, double value, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        values[i] = value;
}

/* An element of any dtype. */
static double number_at(const tn_operand *operand, int64_t index)
{
    double value = 0;
    TN_ISA_NAME(tn_load_f64)
    ((const char *)operand->data + index * (int64_t)tn_dtype_size(operand->dtype), 0,
     operand->dtype, &value, 1);
    return value;
}

/* The running average moves towards `news`, of which it takes the share `momentum`. */
static void update_running(const tn_operand *out, const tn_operand *in, const double *news,
                           double momentum, double *room, int64_t n)
{
    if (!tn_is_present(out))
        return;
    LOAD(in, room, n);
    for (int64_t i = 0; i < n; i++)
        room[i] = momentum * news[i] + (1 - momentum) * room[i];
    STORE(out, room, n);
}

/* ---- forward
 * ------------------------------------------------------------------------------------- */

typedef struct forward {
    source from;
    double eps, count;
    double *mean, *spread, *unbiased, *reciprocal; /* spread: m2 or as given, then variance */
    double *weight, *shift, *scale, *center;
} forward;

static void finish_forward(void *context, int64_t begin, int64_t end)
{
    const forward *f = context;
    for (int64_t i = begin; i < end; i++) {
        if (f->from == FROM_BATCH) {
            f->unbiased[i] = f->spread[i] / (f->count - 1);
            f->spread[i] /= f->count;
        }
        f->reciprocal[i] =
            f->from == FROM_RECIPROCAL ? f->spread[i] : 1 / sqrt(f->spread[i] + f->eps);
        f->scale[i] = f->reciprocal[i] * f->weight[i];
    }
}

tn_status TN_KERNEL(batch_norm)(const tn_launch_desc *launch)
{
    tn_channels c = tn_channels_of(launch);
    int64_t n = c.keys;
    double *room = TN_ISA_NAME(tn_channel_vectors)(n, 8), momentum = launch->scalars[6].d;
    if (!room)
        return TN_ERROR_OUT_OF_MEMORY;
    forward f = {(source)launch->scalars[4].i,
                 launch->scalars[7].d,
                 (double)tn_channels_count(&c),
                 room,
                 room + n,
                 room + 2 * n,
                 room + 3 * n,
                 room + 4 * n,
                 room + 5 * n,
                 room + 6 * n,
                 room + 7 * n};
    fill(f.weight, 1, n);
    fill(f.shift, 0, n);
    LOAD(tn_input(launch, 1), f.weight, n);
    LOAD(tn_input(launch, 2), f.shift, n);
    if (f.from != FROM_BATCH) {
        LOAD(tn_input(launch, 3), f.mean, n);
        LOAD(tn_input(launch, 4), f.spread, n);
    }
    tn_channel_pass pass = {.channels = c, .sums = f.from == FROM_BATCH ? TN_CHANNEL_MOMENTS
                                                                       : TN_CHANNEL_NONE,
                            .x = tn_input(launch, 0), .center = f.center, .first = f.mean,
                            .second = f.spread, .finish = finish_forward, .context = &f,
                            .map_x = tn_input(launch, 0), .y = tn_output(launch, 0), .mean = f.mean,
                            .scale = f.scale, .shift = f.shift};
    tn_status status = TN_ISA_NAME(tn_channel_run)(&pass);
    if (status != TN_OK)
        return status;
    STORE(tn_output(launch, 1), f.mean, n);
    STORE(tn_output(launch, 2), launch->scalars[5].i ? f.spread : f.reciprocal, n);
    if (f.from == FROM_BATCH) {
        update_running(tn_output(launch, 3), tn_input(launch, 3), f.mean, momentum, f.scale, n);
        update_running(tn_output(launch, 4), tn_input(launch, 4), f.unbiased, momentum, f.scale, n);
    }
    return TN_OK;
}

/* ---- backward -----------------------------------------------------------------------------------
 */

typedef struct backward {
    bool training;
    double count; /* terms of the sums */
    double *mean, *reciprocal, *sum, *dot, *scale, *slope, *level, *weight;
} backward;

/* Nothing of the sums reaches x when the statistics were given. */
static void finish_backward(void *context, int64_t begin, int64_t end)
{
    const backward *b = context;
    for (int64_t i = begin; i < end; i++) {
        double r = b->reciprocal[i];
        b->scale[i] = r * b->weight[i];
        b->slope[i] = b->training ? b->scale[i] * r * r * b->dot[i] / b->count : 0;
        b->level[i] = b->training ? b->scale[i] * b->sum[i] / b->count : 0;
    }
}

/* Sums that several processes found together. */
static void load_sums(const tn_launch_desc *launch, backward *b, int64_t n)
{
    const tn_operand *counts = tn_input(launch, 7);
    LOAD(tn_input(launch, 5), b->sum, n);
    LOAD(tn_input(launch, 6), b->dot, n);
    b->count = 0;
    for (int64_t i = 0; i < tn_operand_numel(counts); i++)
        b->count += number_at(counts, i);
}

static void load_statistics(const tn_launch_desc *launch, const backward *b, int64_t n)
{
    double eps = launch->scalars[6].d;
    LOAD(tn_input(launch, 2), b->mean, n);
    LOAD(tn_input(launch, 3), b->reciprocal, n);
    fill(b->weight, 1, n);
    LOAD(tn_input(launch, 4), b->weight, n);
    for (int64_t i = 0; launch->scalars[4].i != FROM_RECIPROCAL && i < n; i++)
        b->reciprocal[i] = 1 / sqrt(b->reciprocal[i] + eps);
}

tn_status TN_KERNEL(batch_norm_backward)(const tn_launch_desc *launch)
{
    tn_channels c = tn_channels_of(launch);
    int64_t n = c.keys;
    double *room = TN_ISA_NAME(tn_channel_vectors)(n, 8);
    if (!room)
        return TN_ERROR_OUT_OF_MEMORY;
    backward b = {launch->scalars[5].i != 0,
                  (double)tn_channels_count(&c),
                  room,
                  room + n,
                  room + 2 * n,
                  room + 3 * n,
                  room + 4 * n,
                  room + 5 * n,
                  room + 6 * n,
                  room + 7 * n};
    load_statistics(launch, &b, n);
    bool given = tn_is_present(tn_input(launch, 7)), needed = b.training;
    if (given)
        load_sums(launch, &b, n);
    for (int k = 1; k < 5; k++)
        needed = needed || tn_is_present(tn_output(launch, k));
    const tn_operand *grad = tn_input(launch, 0), *x = tn_input(launch, 1);
    tn_channel_pass pass = {.channels = c,
                            .sums = needed && !given ? TN_CHANNEL_PRODUCTS : TN_CHANNEL_NONE,
                            .g = grad,
                            .x = x,
                            .center = b.mean,
                            .first = b.sum,
                            .second = b.dot,
                            .finish = finish_backward,
                            .context = &b,
                            .map_g = b.training ? grad : NULL,
                            .map_x = b.training ? x : grad,
                            .y = tn_output(launch, 0),
                            .mean = b.training ? b.mean : b.level,
                            .scale = b.scale,
                            .slope = b.slope,
                            .shift = b.level};
    tn_status status = TN_ISA_NAME(tn_channel_run)(&pass);
    if (status != TN_OK || !needed)
        return status;
    STORE(tn_output(launch, 2), b.sum, n);
    STORE(tn_output(launch, 3), b.sum, n);
    STORE(tn_output(launch, 4), b.dot, n);
    for (int64_t i = 0; i < n; i++)
        b.dot[i] *= b.reciprocal[i];
    STORE(tn_output(launch, 1), b.dot, n);
    return TN_OK;
}

/* ---- statistics of several batches --------------------------------------------------------------
 */

/* Each batch's mean and variance joins the total's (Chan, Golub and LeVeque 1983), in order. */
tn_status TN_KERNEL(batch_norm_gather)(const tn_launch_desc *launch)
{
    const tn_operand *means = tn_input(launch, 0), *reciprocal = tn_input(launch, 1);
    const tn_operand *counts = tn_input(launch, 2);
    int64_t n = launch->scalars[0].i;
    double momentum = launch->scalars[2].d, eps = launch->scalars[3].d, total = 0;
    double *mean = TN_ISA_NAME(tn_channel_vectors)(n, 4);
    if (!mean)
        return TN_ERROR_OUT_OF_MEMORY;
    double *m2 = mean + n, *unbiased = m2 + n;
    fill(mean, 0, 2 * n);
    for (int64_t w = 0; w < means->sizes[0]; w++) {
        double count = tn_is_present(counts) ? number_at(counts, w) : launch->scalars[1].d;
        if (count == 0) /* a process without samples */
            continue;
        total += count;
        for (int64_t i = 0; i < n; i++) {
            double r = number_at(reciprocal, w * n + i),
                   off = number_at(means, w * n + i) - mean[i];
            mean[i] += off * count / total;
            m2[i] += (1 / (r * r) - eps) * count + off * off * count * (total - count) / total;
        }
    }
    for (int64_t i = 0; i < n; i++) {
        unbiased[i] = m2[i] / (total - 1);
        m2[i] = 1 / sqrt(m2[i] / total + eps);
    }
    STORE(tn_output(launch, 0), mean, n);
    STORE(tn_output(launch, 1), m2, n);
    update_running(tn_output(launch, 2), tn_input(launch, 3), mean, momentum, unbiased + n, n);
    update_running(tn_output(launch, 3), tn_input(launch, 4), unbiased, momentum, unbiased + n, n);
    return TN_OK;
}

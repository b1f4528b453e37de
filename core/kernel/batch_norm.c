/* Batch normalisation (Ioffe and Szegedy 2015): x's statistics per channel, forward and backward, and the
 * pieces of it that several processes share.
 *
 * The sums over x are channels.c's. What is left here happens once per channel, in fp64, and is rounded
 * where it is stored: mean, variance, running averages, the parameters of the affine maps. */
#include <math.h>

#include "base/pool.h"
#include "kernel/channels.h"
#include "kernel/rows.h"

enum { SLOT_VECTORS = 3 };

typedef enum source { FROM_BATCH, FROM_VARIANCE, FROM_RECIPROCAL } source;

static void store(const tn_operand *operand, const double *values, int64_t n)
{
    if (tn_is_present(operand))
        TN_ISA_NAME(tn_store_f64)(operand->data, (int64_t)tn_dtype_size(operand->dtype),
                                  operand->dtype, values, n);
}

/* Scalars 0 to 3 of every op here. */
static tn_channels channels_of(const tn_launch_desc *launch)
{
    const tn_scalar *s = launch->scalars;
    return (tn_channels){.keys = s[0].i, .outer = s[1].i, .width = s[2].i, .last = s[3].i != 0};
}

/* An element of any dtype. */
static double number_at(const tn_operand *operand, int64_t index)
{
    double value = 0;
    TN_ISA_NAME(tn_load_f64)((const char *)operand->data + index * (int64_t)tn_dtype_size(operand->dtype),
                             0, operand->dtype, &value, 1);
    return value;
}

/* `count` vectors over the channels, or NULL. */
static double *vectors(const tn_channels *c, int count)
{
    return tn_scratch(SLOT_VECTORS, (size_t)(c->keys * count) * sizeof(double));
}

/* Moves the running averages towards the batch's statistics; `kept` is room for one vector. */
static void update_running(const tn_operand *const *out, const tn_operand *const *in,
                           const double *mean, const double *unbiased, double momentum, double *kept,
                           int64_t n)
{
    const double *news[] = {mean, unbiased};
    for (int k = 0; k < 2; k++) {
        if (!tn_is_present(out[k]))
            continue;
        TN_ISA_NAME(tn_channel_parameter)(in[k], kept, n);
        for (int64_t i = 0; i < n; i++)
            kept[i] = momentum * news[k][i] + (1 - momentum) * kept[i];
        store(out[k], kept, n);
    }
}

/* Reciprocal deviations from variances, in place where they are given. */
static void reciprocals(double *spread, source from, double eps, int64_t n)
{
    for (int64_t i = 0; from != FROM_RECIPROCAL && i < n; i++)
        spread[i] = 1 / sqrt(spread[i] + eps);
}

/* Statistics of the batch: mean and variance, saved and averaged as the launch asks. */
static tn_status batch_statistics(const tn_launch_desc *launch, const tn_channels *c, double *mean,
                                  double *variance, double *spare)
{
    double count = (double)tn_channels_count(c), momentum = launch->scalars[6].d;
    tn_status status = TN_ISA_NAME(tn_channel_moments)(c, tn_input(launch, 0), mean, variance);
    if (status != TN_OK)
        return status;
    double *unbiased = spare + c->keys;
    for (int64_t i = 0; i < c->keys; i++) {
        unbiased[i] = variance[i] / (count - 1);
        variance[i] /= count;
    }
    const tn_operand *running[] = {tn_output(launch, 3), tn_output(launch, 4)};
    const tn_operand *before[] = {tn_input(launch, 3), tn_input(launch, 4)};
    update_running(running, before, mean, unbiased, momentum, spare, c->keys);
    return TN_OK;
}

tn_status TN_KERNEL(batch_norm)(const tn_launch_desc *launch)
{
    tn_channels c = channels_of(launch);
    source from = (source)launch->scalars[4].i;
    bool as_variance = launch->scalars[5].i != 0;
    double *mean = vectors(&c, 4), *spread = mean + c.keys, *shift = spread + c.keys;
    if (!mean)
        return TN_ERROR_OUT_OF_MEMORY;
    if (from == FROM_BATCH) {
        tn_status status = batch_statistics(launch, &c, mean, spread, shift);
        if (status != TN_OK)
            return status;
    } else {
        TN_ISA_NAME(tn_channel_parameter)(tn_input(launch, 3), mean, c.keys);
        TN_ISA_NAME(tn_channel_parameter)(tn_input(launch, 4), spread, c.keys);
    }
    store(tn_output(launch, 1), mean, c.keys);
    if (as_variance)
        store(tn_output(launch, 2), spread, c.keys);
    reciprocals(spread, from, launch->scalars[7].d, c.keys);
    if (!as_variance)
        store(tn_output(launch, 2), spread, c.keys);
    if (!tn_is_present(tn_output(launch, 0)))
        return TN_OK;
    double *factor = shift + c.keys;
    const double *weight = TN_ISA_NAME(tn_channel_parameter)(tn_input(launch, 1), factor, c.keys);
    const double *bias = TN_ISA_NAME(tn_channel_parameter)(tn_input(launch, 2), shift, c.keys);
    for (int64_t i = 0; i < c.keys; i++) {
        spread[i] *= weight ? weight[i] : 1;
        shift[i] = bias ? bias[i] : 0;
    }
    return TN_ISA_NAME(tn_channel_normalize)(&c, tn_input(launch, 0), mean, spread, shift,
                                             tn_output(launch, 0));
}

/* ---- backward ----------------------------------------------------------------------------------- */

typedef struct backward {
    const tn_operand *grad_x, *grad, *x;
    double *mean, *reciprocal, *sum, *dot, *scale, *slope;
} backward;

/* The gradient of x from the two sums over `count` elements; none of them reach it when statistics were
 * given. `sum` becomes the level. */
static tn_status grad_x_from_sums(const tn_channels *c, const backward *b, bool training, double count,
                                  const double *weight)
{
    for (int64_t i = 0; i < c->keys; i++) {
        double r = b->reciprocal[i];
        b->scale[i] = weight ? r * weight[i] : r;
        b->slope[i] = training ? b->scale[i] * r * r * b->dot[i] / count : 0;
        b->sum[i] = training ? b->scale[i] * b->sum[i] / count : 0;
    }
    if (training)
        return TN_ISA_NAME(tn_channel_gradient)(c, b->grad, b->x, b->mean, b->scale, b->slope, b->sum,
                                                b->grad_x);
    return TN_ISA_NAME(tn_channel_normalize)(c, b->grad, b->sum, b->scale, b->sum, b->grad_x);
}

/* The sums as they were given, or of this batch; *out_count becomes the number of their terms. */
static tn_status gradient_sums(const tn_launch_desc *launch, const tn_channels *c, backward *b,
                               double *out_count)
{
    const tn_operand *counts = tn_input(launch, 7);
    *out_count = (double)tn_channels_count(c);
    if (tn_is_present(counts)) {
        *out_count = 0;
        for (int64_t i = 0; i < tn_operand_numel(counts); i++)
            *out_count += number_at(counts, i);
        TN_ISA_NAME(tn_channel_parameter)(tn_input(launch, 5), b->sum, c->keys);
        TN_ISA_NAME(tn_channel_parameter)(tn_input(launch, 6), b->dot, c->keys);
        return TN_OK;
    }
    return TN_ISA_NAME(tn_channel_products)(c, b->grad, b->x, b->mean, b->sum, b->dot);
}

tn_status TN_KERNEL(batch_norm_backward)(const tn_launch_desc *launch)
{
    tn_channels c = channels_of(launch);
    bool training = launch->scalars[5].i != 0, sums = training;
    double *room = vectors(&c, 7), count = 1;
    if (!room)
        return TN_ERROR_OUT_OF_MEMORY;
    backward b = {tn_output(launch, 0), tn_input(launch, 0), tn_input(launch, 1), room,
                  room + c.keys, room + 2 * c.keys, room + 3 * c.keys, room + 4 * c.keys,
                  room + 5 * c.keys};
    TN_ISA_NAME(tn_channel_parameter)(tn_input(launch, 2), b.mean, c.keys);
    TN_ISA_NAME(tn_channel_parameter)(tn_input(launch, 3), b.reciprocal, c.keys);
    reciprocals(b.reciprocal, (source)launch->scalars[4].i, launch->scalars[6].d, c.keys);
    for (int k = 1; k < 5; k++)
        sums = sums || tn_is_present(tn_output(launch, k));
    tn_status status = sums ? gradient_sums(launch, &c, &b, &count) : TN_OK;
    if (status != TN_OK)
        return status;
    if (sums) {
        store(tn_output(launch, 2), b.sum, c.keys);
        store(tn_output(launch, 3), b.sum, c.keys);
        store(tn_output(launch, 4), b.dot, c.keys);
        for (int64_t i = 0; i < c.keys; i++)
            b.scale[i] = b.dot[i] * b.reciprocal[i];
        store(tn_output(launch, 1), b.scale, c.keys);
    }
    if (!tn_is_present(b.grad_x))
        return TN_OK;
    const double *weight =
        TN_ISA_NAME(tn_channel_parameter)(tn_input(launch, 4), room + 6 * c.keys, c.keys);
    return grad_x_from_sums(&c, &b, training, count, weight);
}

/* ---- statistics of several batches -------------------------------------------------------------- */

/* Each batch's mean and variance joins the total's (Chan, Golub and LeVeque 1983), in order. */
tn_status TN_KERNEL(batch_norm_gather)(const tn_launch_desc *launch)
{
    const tn_operand *means = tn_input(launch, 0), *reciprocal = tn_input(launch, 1);
    const tn_operand *counts = tn_input(launch, 2);
    tn_channels c = {.keys = launch->scalars[0].i};
    double momentum = launch->scalars[2].d, eps = launch->scalars[3].d, total = 0;
    double *mean = vectors(&c, 4), *m2 = mean + c.keys, *unbiased = m2 + c.keys;
    if (!mean)
        return TN_ERROR_OUT_OF_MEMORY;
    for (int64_t i = 0; i < c.keys; i++)
        mean[i] = m2[i] = 0;
    for (int64_t w = 0; w < means->sizes[0]; w++) {
        double count = tn_is_present(counts) ? number_at(counts, w) : launch->scalars[1].d;
        if (count == 0) /* a process without samples */
            continue;
        total += count;
        for (int64_t i = 0; i < c.keys; i++) {
            double r = number_at(reciprocal, w * c.keys + i);
            double off = number_at(means, w * c.keys + i) - mean[i];
            mean[i] += off * count / total;
            m2[i] += (1 / (r * r) - eps) * count + off * off * count * (total - count) / total;
        }
    }
    for (int64_t i = 0; i < c.keys; i++) {
        unbiased[i] = m2[i] / (total - 1);
        m2[i] = 1 / sqrt(m2[i] / total + eps);
    }
    store(tn_output(launch, 0), mean, c.keys);
    store(tn_output(launch, 1), m2, c.keys);
    const tn_operand *running[] = {tn_output(launch, 2), tn_output(launch, 3)};
    const tn_operand *before[] = {tn_input(launch, 3), tn_input(launch, 4)};
    update_running(running, before, mean, unbiased, momentum, unbiased + c.keys, c.keys);
    return TN_OK;
}

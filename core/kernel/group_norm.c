/* Group normalisation (Wu and He 2018), forward and backward. Channels of different samples are different
 * keys (channels.h), so that a group's statistics are merged from those of its channels, and the maps are
 * affine per key. Everything per key is done in fp64. */
#include <math.h>

#include "base/pool.h"
#include "kernel/channels.h"
#include "kernel/rows.h"

enum { SLOT_VECTORS = 3 };

typedef struct groups {
    tn_channels keys;
    int64_t channels, per_sample, per_group, count; /* of groups: in a sample, channels of one, in all */
} groups;

static groups groups_of(const tn_launch_desc *launch)
{
    const tn_scalar *s = launch->scalars;
    groups g = {.keys = {.keys = s[0].i, .outer = s[1].i, .width = s[2].i, .last = s[3].i != 0}};
    g.channels = s[4].i;
    g.per_sample = s[5].i;
    g.per_group = g.channels / g.per_sample;
    g.count = g.keys.keys / g.per_group;
    return g;
}

static void load(const tn_operand *operand, double *out, int64_t n)
{
    (void)TN_ISA_NAME(tn_channel_parameter)(operand, out, n);
}

static void store(const tn_operand *operand, const double *values, int64_t n)
{
    if (tn_is_present(operand))
        TN_ISA_NAME(tn_store_f64)(operand->data, (int64_t)tn_dtype_size(operand->dtype),
                                  operand->dtype, values, n);
}

/* Keys of one group have the same number of elements: the group's mean is the mean of theirs. */
static void merge(const groups *g, const double *mean, const double *m2, double eps, double *out_mean,
                  double *out_reciprocal)
{
    double per_key = (double)tn_channels_count(&g->keys), members = (double)g->per_group;
    for (int64_t group = 0; group < g->count; group++) {
        const double *m = mean + group * g->per_group, *s = m2 + group * g->per_group;
        double sum = 0, squares = 0;
        for (int64_t k = 0; k < g->per_group; k++)
            sum += m[k] - m[0];
        double center = m[0] + sum / members;
        for (int64_t k = 0; k < g->per_group; k++)
            squares += s[k] + per_key * (m[k] - center) * (m[k] - center);
        out_mean[group] = center;
        out_reciprocal[group] = 1 / sqrt(squares / (members * per_key) + eps);
    }
}

/* Scalars: the layout, channels, groups, eps. */
tn_status TN_KERNEL(group_norm)(const tn_launch_desc *launch)
{
    groups g = groups_of(launch);
    int64_t keys = g.keys.keys;
    double *mean = tn_scratch(SLOT_VECTORS, (size_t)(3 * keys + 2 * g.count + 2 * g.channels) *
                                                sizeof(double));
    if (!mean)
        return TN_ERROR_OUT_OF_MEMORY;
    double *scale = mean + keys, *shift = scale + keys, *center = shift + keys;
    double *reciprocal = center + g.count, *weight = reciprocal + g.count, *bias = weight + g.channels;
    tn_status status = TN_ISA_NAME(tn_channel_moments)(&g.keys, tn_input(launch, 0), mean, scale);
    if (status != TN_OK)
        return status;
    merge(&g, mean, scale, launch->scalars[6].d, center, reciprocal);
    store(tn_output(launch, 1), center, g.count);
    store(tn_output(launch, 2), reciprocal, g.count);
    for (int64_t i = 0; i < g.channels; i++) {
        weight[i] = 1;
        bias[i] = 0;
    }
    load(tn_input(launch, 1), weight, g.channels);
    load(tn_input(launch, 2), bias, g.channels);
    for (int64_t key = 0; key < keys; key++) {
        mean[key] = center[key / g.per_group];
        scale[key] = reciprocal[key / g.per_group] * weight[key % g.channels];
        shift[key] = bias[key % g.channels];
    }
    return TN_ISA_NAME(tn_channel_normalize)(&g.keys, tn_input(launch, 0), mean, scale, shift,
                                             tn_output(launch, 0));
}

/* ---- backward ----------------------------------------------------------------------------------- */

typedef struct backward {
    double *mean, *sum, *dot, *scale;              /* [keys]; sum and dot become level and slope */
    double *reciprocal;                            /* [groups] */
    double *weight, *grad_weight, *grad_bias;      /* [channels] */
} backward;

static void parameter_gradients(const groups *g, const backward *b)
{
    for (int64_t i = 0; i < g->channels; i++)
        b->grad_weight[i] = b->grad_bias[i] = 0;
    for (int64_t key = 0; key < g->keys.keys; key++) {
        b->grad_weight[key % g->channels] += b->dot[key] * b->reciprocal[key / g->per_group];
        b->grad_bias[key % g->channels] += b->sum[key];
    }
}

/* dx = r (w g - mean(w g) - r^2 (x - mean) mean(w g (x - mean))), means over the group. */
static void map_of_x(const groups *g, const backward *b)
{
    double elements = (double)tn_channels_count(&g->keys) * (double)g->per_group;
    for (int64_t group = 0; group < g->count; group++) {
        int64_t first = group * g->per_group;
        const double *weight = b->weight + first % g->channels;
        double sum = 0, dot = 0, r = b->reciprocal[group];
        for (int64_t k = 0; k < g->per_group; k++) {
            sum += weight[k] * b->sum[first + k];
            dot += weight[k] * b->dot[first + k];
        }
        for (int64_t k = 0; k < g->per_group; k++) {
            b->scale[first + k] = r * weight[k];
            b->dot[first + k] = r * r * r * dot / elements;
            b->sum[first + k] = r * sum / elements;
        }
    }
}

tn_status TN_KERNEL(group_norm_backward)(const tn_launch_desc *launch)
{
    groups g = groups_of(launch);
    int64_t keys = g.keys.keys;
    double *room = tn_scratch(SLOT_VECTORS, (size_t)(4 * keys + 2 * g.count + 3 * g.channels) *
                                                sizeof(double));
    if (!room)
        return TN_ERROR_OUT_OF_MEMORY;
    double *of_groups = room + 4 * keys, *of_channels = of_groups + 2 * g.count;
    backward b = {room, room + keys, room + 2 * keys, room + 3 * keys, of_groups, of_channels,
                  of_channels + g.channels, of_channels + 2 * g.channels};
    double *center = of_groups + g.count;
    load(tn_input(launch, 2), center, g.count);
    load(tn_input(launch, 3), b.reciprocal, g.count);
    for (int64_t i = 0; i < g.channels; i++)
        b.weight[i] = 1;
    load(tn_input(launch, 4), b.weight, g.channels);
    for (int64_t key = 0; key < keys; key++)
        b.mean[key] = center[key / g.per_group];
    const tn_operand *grad = tn_input(launch, 0), *x = tn_input(launch, 1);
    tn_status status = TN_ISA_NAME(tn_channel_products)(&g.keys, grad, x, b.mean, b.sum, b.dot);
    if (status != TN_OK)
        return status;
    parameter_gradients(&g, &b);
    store(tn_output(launch, 1), b.grad_weight, g.channels);
    store(tn_output(launch, 2), b.grad_bias, g.channels);
    if (!tn_is_present(tn_output(launch, 0)))
        return TN_OK;
    map_of_x(&g, &b);
    return TN_ISA_NAME(tn_channel_gradient)(&g.keys, grad, x, b.mean, b.scale, b.dot, b.sum,
                                            tn_output(launch, 0));
}

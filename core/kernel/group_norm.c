/* Group normalisation (Wu and He 2018), forward and backward. Channels of different samples are
 * different keys (channels.h), so that a group's statistics are merged from those of its channels,
 * and the maps are affine per key. Everything per key is done in fp64. */
#include <math.h>

#include "kernel/channels.h"

#define LOAD TN_ISA_NAME(tn_channel_load)
#define STORE TN_ISA_NAME(tn_channel_store)

typedef struct groups {
    tn_channels layout;
    int64_t channels, per_group, count; /* channels of a sample, of a group; groups in all */
    double eps, elements;               /* elements of a key */
    double *mean, *scale, *shift, *slope, *first, *second, *center; /* [keys] */
    double *of_group, *reciprocal; /* [groups]: mean, 1 / deviation */
    double *weight, *bias;                                          /* [channels] */
} groups;

/* Scalars: the layout, channels, groups of a sample. */
static bool init(groups *g, const tn_launch_desc *launch)
{
    *g = (groups){.layout = tn_channels_of(launch), .channels = launch->scalars[4].i};
    int64_t keys = g->layout.keys;
    g->per_group = g->channels / launch->scalars[5].i;
    g->count = keys / g->per_group;
    g->elements = (double)tn_channels_count(&g->layout);
    double *room = TN_ISA_NAME(tn_channel_vectors)(7 * keys + 2 * g->count + 2 * g->channels, 1);
    if (!room)
        return false;
    double **vectors[] = {&g->mean,  &g->scale,  &g->shift, &g->slope,
                          &g->first, &g->second, &g->center};
    for (int k = 0; k < 7; k++)
        *vectors[k] = room + k * keys;
    g->of_group = room + 7 * keys;
    g->reciprocal = g->of_group + g->count;
    g->weight = g->reciprocal + g->count;
    g->bias = g->weight + g->channels;
    for (int64_t i = 0; i < g->channels; i++) {
        g->weight[i] = 1;
        g->bias[i] = 0;
    }
    return true;
}

/* Keys of one group have the same number of elements: the group's mean is the mean of theirs. */
static void merge(const groups *g, int64_t group)
{
    const double *m = g->first + group * g->per_group, *m2 = g->second + group * g->per_group;
    double members = (double)g->per_group, sum = 0, squares = 0;
    for (int64_t k = 0; k < g->per_group; k++)
        sum += m[k] - m[0];
    double mean = m[0] + sum / members;
    for (int64_t k = 0; k < g->per_group; k++)
        squares += m2[k] + g->elements * (m[k] - mean) * (m[k] - mean);
    g->of_group[group] = mean;
    g->reciprocal[group] = 1 / sqrt(squares / (members * g->elements) + g->eps);
}

static void finish_forward(void *context, int64_t begin, int64_t end)
{
    const groups *g = context;
    for (int64_t key = begin; key < end; key++) {
        int64_t group = key / g->per_group;
        if (key % g->per_group == 0)
            merge(g, group);
        g->mean[key] = g->of_group[group];
        g->scale[key] = g->reciprocal[group] * g->weight[key % g->channels];
        g->shift[key] = g->bias[key % g->channels];
    }
}

/* Last scalar: eps. */
tn_status TN_KERNEL(group_norm)(const tn_launch_desc *launch)
{
    groups g;
    if (!init(&g, launch))
        return TN_ERROR_OUT_OF_MEMORY;
    g.eps = launch->scalars[6].d;
    LOAD(tn_input(launch, 1), g.weight, g.channels);
    LOAD(tn_input(launch, 2), g.bias, g.channels);
    tn_channel_pass pass = {.channels = g.layout,
                            .sums = TN_CHANNEL_MOMENTS,
                            .x = tn_input(launch, 0),
                            .center = g.center,
                            .first = g.first,
                            .second = g.second,
                            .finish = finish_forward,
                            .context = &g,
                            .together = g.per_group,
                            .map_x = tn_input(launch, 0),
                            .y = tn_output(launch, 0),
                            .mean = g.mean,
                            .scale = g.scale,
                            .shift = g.shift};
    tn_status status = TN_ISA_NAME(tn_channel_run)(&pass);
    if (status != TN_OK)
        return status;
    STORE(tn_output(launch, 1), g.of_group, g.count);
    STORE(tn_output(launch, 2), g.reciprocal, g.count);
    return TN_OK;
}

/* ---- backward -----------------------------------------------------------------------------------
 */

/* dx = r (w g - mean(w g) - r^2 (x - mean) mean(w g (x - mean))), means over the group. */
static void finish_backward(void *context, int64_t begin, int64_t end)
{
    const groups *g = context;
    double elements = g->elements * (double)g->per_group;
    for (int64_t from = begin; from < end; from += g->per_group) {
        const double *weight = g->weight + from % g->channels;
        double sum = 0, dot = 0, r = g->reciprocal[from / g->per_group];
        for (int64_t k = 0; k < g->per_group; k++) {
            sum += weight[k] * g->first[from + k];
            dot += weight[k] * g->second[from + k];
        }
        for (int64_t k = 0; k < g->per_group; k++) {
            g->scale[from + k] = r * weight[k];
            g->slope[from + k] = r * r * r * dot / elements;
            g->shift[from + k] = r * sum / elements;
        }
    }
}

/* Sums over the samples, of which every one has its own reciprocal deviation. */
static void parameter_gradients(const groups *g, double *grad_weight, double *grad_bias)
{
    for (int64_t i = 0; i < g->channels; i++)
        grad_weight[i] = grad_bias[i] = 0;
    for (int64_t key = 0; key < g->layout.keys; key++) {
        grad_weight[key % g->channels] += g->second[key] * g->reciprocal[key / g->per_group];
        grad_bias[key % g->channels] += g->first[key];
    }
}

tn_status TN_KERNEL(group_norm_backward)(const tn_launch_desc *launch)
{
    groups g;
    if (!init(&g, launch))
        return TN_ERROR_OUT_OF_MEMORY;
    LOAD(tn_input(launch, 2), g.of_group, g.count);
    LOAD(tn_input(launch, 3), g.reciprocal, g.count);
    LOAD(tn_input(launch, 4), g.weight, g.channels);
    for (int64_t key = 0; key < g.layout.keys; key++)
        g.mean[key] = g.of_group[key / g.per_group];
    const tn_operand *grad = tn_input(launch, 0), *x = tn_input(launch, 1);
    tn_channel_pass pass = {.channels = g.layout, .sums = TN_CHANNEL_PRODUCTS, .g = grad, .x = x,
                            .center = g.mean, .first = g.first, .second = g.second,
                            .finish = finish_backward, .context = &g, .together = g.per_group,
                            .map_g = grad, .map_x = x, .y = tn_output(launch, 0), .mean = g.mean,
                            .scale = g.scale, .slope = g.slope, .shift = g.shift};
    tn_status status = TN_ISA_NAME(tn_channel_run)(&pass);
    if (status != TN_OK)
        return status;
    parameter_gradients(&g, g.weight, g.bias);
    STORE(tn_output(launch, 1), g.weight, g.channels);
    STORE(tn_output(launch, 2), g.bias, g.channels);
    return TN_OK;
}

/* Sums per channel and affine maps per channel (channels.h). The loops are in channels_typed.h.
 *
 * Moments: differences from a center are summed beside their squares, so that one reading of the tensor
 * gives both. The center is the key's first element, exact in fp64. fp64 tensors, whose sums round, are
 * read again around the mean that the first reading found. */
#include "kernel/channels.h"

#include <math.h>
#include <string.h>

#include "base/pool.h"
#include "kernel/lanes.h"
#include "kernel/rows.h"

enum {
    TILE = 512,
    PIECE = 1 << 16,  /* elements that one thread sums before another may help */
    MAX_CHUNKS = 64,
    GRAIN = 1 << 14,  /* elements that are worth a thread */
    SLOT_PARTIAL = 0,
    SLOT_CENTER = 1,
    SLOT_PARAMETERS = 2
};

/* Dtype arguments of the row functions for a dense row. */
#define TILE_ROW(operand) (int64_t) tn_dtype_size((operand)->dtype), (operand)->dtype

typedef struct channel_sums {
    const tn_channels *channels;
    const tn_operand *g, *x; /* g: NULL for moments */
    const double *center;    /* [keys] */
    double *partial;         /* [chunks, keys, 2] */
    int64_t chunks, blocks;  /* pieces per key; column blocks per row */
    int64_t length;          /* what chunks cut: elements of a key, or rows */
} channel_sums;

typedef struct channel_map {
    const tn_channels *channels;
    const tn_operand *x, *g, *y;
    const void *parameters; /* mean, scale, shift, and slope beside g: [keys] each */
} channel_map;

static int64_t smallest(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t largest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static char *element(const tn_operand *operand, int64_t index)
{
    return (char *)operand->data + index * (int64_t)tn_dtype_size(operand->dtype);
}

/* The key of a row, or of its first column. */
static int64_t first_key(const tn_channels *c, int64_t row)
{
    return c->last ? row / c->outer * c->width : row % c->keys;
}

#define T float
#define DTYPE TN_FLOAT32
#define NAME(x) x##_f32
#define ROW tn_row_f32
#define STORE TN_ISA_NAME(tn_store_f32)
#include "kernel/channels_typed.h"
#undef T
#undef DTYPE
#undef NAME
#undef ROW
#undef STORE
#define T double
#define DTYPE TN_FLOAT64
#define NAME(x) x##_f64
#define ROW tn_row_f64
#define STORE TN_ISA_NAME(tn_store_f64)
#include "kernel/channels_typed.h"
#undef T
#undef DTYPE
#undef NAME
#undef ROW
#undef STORE

/* The two sums of every key, to first[key] and second[key]. */
static tn_status run_sums(channel_sums *s, double *first, double *second)
{
    const tn_channels *c = s->channels;
    s->length = tn_channels_count(c);
    s->blocks = c->last ? (c->width + TILE - 1) / TILE : 1;
    int64_t work = s->length * (c->last ? smallest(c->width, TILE) : 1);
    s->chunks = largest(1, smallest(smallest(work / PIECE, MAX_CHUNKS), s->length));
    s->partial = tn_scratch(SLOT_PARTIAL, (size_t)(s->chunks * c->keys * 2) * sizeof(double));
    if (!s->partial)
        return TN_ERROR_OUT_OF_MEMORY;
    int64_t units = (c->last ? c->keys / c->width * s->blocks : c->keys) * s->chunks;
    int64_t grain = 1 + GRAIN / largest(1, work / s->chunks);
    tn_parallel_for(units, grain, s->x->dtype == TN_FLOAT64 ? sum_units_f64 : sum_units_f32, s);
    for (int64_t key = 0; key < c->keys; key++) {
        double a = 0, b = 0;
        for (int64_t chunk = 0; chunk < s->chunks; chunk++) {
            const double *piece = s->partial + 2 * (chunk * c->keys + key);
            a += piece[0];
            b += piece[1];
        }
        first[key] = a;
        second[key] = b;
    }
    return TN_OK;
}

/* The mean and the squares around it, from the sums around the center. */
static tn_status moments_around(channel_sums *s, double *center, double *out_mean, double *out_m2)
{
    s->center = center;
    tn_status status = run_sums(s, out_mean, out_m2);
    double count = (double)tn_channels_count(s->channels);
    for (int64_t key = 0; status == TN_OK && key < s->channels->keys; key++) {
        double off = out_mean[key] / count, m2 = out_m2[key] - off * out_mean[key];
        out_mean[key] = center[key] + off;
        out_m2[key] = m2 < 0 ? 0 : m2;
    }
    return status;
}

tn_status TN_ISA_NAME(tn_channel_moments)(const tn_channels *c, const tn_operand *x, double *out_mean,
                                          double *out_m2)
{
    double *center = tn_scratch(SLOT_CENTER, (size_t)c->keys * sizeof(double));
    if (!center)
        return TN_ERROR_OUT_OF_MEMORY;
    for (int64_t key = 0; key < c->keys; key++) {
        int64_t first = c->last ? key / c->width * c->outer * c->width + key % c->width : key * c->width;
        TN_ISA_NAME(tn_load_f64)(element(x, first), 0, x->dtype, &center[key], 1);
        if (!isfinite(center[key]))
            center[key] = 0;
    }
    channel_sums s = {.channels = c, .x = x};
    tn_status status = moments_around(&s, center, out_mean, out_m2);
    if (status != TN_OK || x->dtype != TN_FLOAT64)
        return status;
    for (int64_t key = 0; key < c->keys; key++)
        center[key] = isfinite(out_mean[key]) ? out_mean[key] : 0;
    return moments_around(&s, center, out_mean, out_m2);
}

tn_status TN_ISA_NAME(tn_channel_products)(const tn_channels *c, const tn_operand *g,
                                           const tn_operand *x, const double *mean, double *out_sum,
                                           double *out_dot)
{
    channel_sums s = {.channels = c, .g = g, .x = x, .center = mean};
    return run_sums(&s, out_sum, out_dot);
}

static tn_status run_map(channel_map *m, const double *const *values)
{
    const tn_channels *c = m->channels;
    bool wide = m->x->dtype == TN_FLOAT64;
    int count = m->g ? 4 : 3;
    m->parameters = wide ? (const void *)round_parameters_f64(values, count, c->keys)
                         : (const void *)round_parameters_f32(values, count, c->keys);
    if (!m->parameters)
        return TN_ERROR_OUT_OF_MEMORY;
    tn_parallel_for(c->keys * tn_channels_count(c), GRAIN, wide ? map_range_f64 : map_range_f32, m);
    return TN_OK;
}

tn_status TN_ISA_NAME(tn_channel_normalize)(const tn_channels *c, const tn_operand *x,
                                            const double *mean, const double *scale,
                                            const double *shift, const tn_operand *y)
{
    channel_map m = {.channels = c, .x = x, .y = y};
    return run_map(&m, (const double *const[]){mean, scale, shift});
}

tn_status TN_ISA_NAME(tn_channel_gradient)(const tn_channels *c, const tn_operand *g,
                                           const tn_operand *x, const double *mean, const double *scale,
                                           const double *slope, const double *level,
                                           const tn_operand *dx)
{
    channel_map m = {.channels = c, .g = g, .x = x, .y = dx};
    return run_map(&m, (const double *const[]){mean, scale, level, slope});
}

const double *TN_ISA_NAME(tn_channel_parameter)(const tn_operand *operand, double *buffer, int64_t n)
{
    if (!tn_is_present(operand))
        return NULL;
    TN_ISA_NAME(tn_load_f64)(operand->data, (int64_t)tn_dtype_size(operand->dtype), operand->dtype,
                             buffer, n);
    return buffer;
}

/* Weight normalisation (Salimans and Kingma 2016): w = g v / |v| with a norm per slice of v, and
 * its gradient. Slices are keys of channels.h. Also the scaling of embedding rows whose norm is too
 * large. */
#include <math.h>
#include <string.h>

#include "base/pool.h"
#include "kernel/channels.h"
#include "kernel/nest.h"
#include "kernel/rows.h"

#define LOAD TN_ISA_NAME(tn_channel_load)
#define STORE TN_ISA_NAME(tn_channel_store)

enum { SLOT_ROW = 3, SLOT_SEEN = 4 };

typedef struct slices {
    double *zero, *g, *norm, *sum, *dot, *scale, *slope;
} slices;

static bool init(slices *s, int64_t n)
{
    double *room = TN_ISA_NAME(tn_channel_vectors)(n, 7);
    if (!room)
        return false;
    *s = (slices){room,         room + n,     room + 2 * n, room + 3 * n,
                  room + 4 * n, room + 5 * n, room + 6 * n};
    memset(s->zero, 0, (size_t)n * sizeof(double));
    return true;
}

static void finish_forward(void *context, int64_t begin, int64_t end)
{
    const slices *s = context;
    for (int64_t i = begin; i < end; i++) {
        s->norm[i] = sqrt(s->dot[i]);
        s->scale[i] = s->g[i] / s->norm[i];
    }
}

tn_status TN_KERNEL(weight_norm)(const tn_launch_desc *launch)
{
    tn_channels c = tn_channels_of(launch);
    slices s;
    if (!init(&s, c.keys))
        return TN_ERROR_OUT_OF_MEMORY;
    LOAD(tn_input(launch, 1), s.g, c.keys);
    const tn_operand *v = tn_input(launch, 0);
    tn_channel_pass pass = {.channels = c,
                            .sums = TN_CHANNEL_PRODUCTS,
                            .g = v,
                            .x = v,
                            .center = s.zero,
                            .first = s.sum,
                            .second = s.dot,
                            .finish = finish_forward,
                            .context = &s,
                            .map_x = v,
                            .y = tn_output(launch, 0),
                            .mean = s.zero,
                            .scale = s.scale,
                            .shift = s.zero};
    tn_status status = TN_ISA_NAME(tn_channel_run)(&pass);
    if (status == TN_OK)
        STORE(tn_output(launch, 1), s.norm, c.keys);
    return status;
}

/* grad_g = grad . v / |v|; grad_v = g / |v| (grad - v (grad . v) / |v|^2). */
static void finish_backward(void *context, int64_t begin, int64_t end)
{
    const slices *s = context;
    for (int64_t i = begin; i < end; i++) {
        s->sum[i] = s->dot[i] / s->norm[i];
        s->scale[i] = s->g[i] / s->norm[i];
        s->slope[i] = s->scale[i] * s->sum[i] / s->norm[i];
    }
}

tn_status TN_KERNEL(weight_norm_backward)(const tn_launch_desc *launch)
{
    tn_channels c = tn_channels_of(launch);
    slices s;
    if (!init(&s, c.keys))
        return TN_ERROR_OUT_OF_MEMORY;
    LOAD(tn_input(launch, 2), s.g, c.keys);
    LOAD(tn_input(launch, 3), s.norm, c.keys);
    const tn_operand *grad = tn_input(launch, 0), *v = tn_input(launch, 1);
    tn_channel_pass pass = {.channels = c, .sums = TN_CHANNEL_PRODUCTS, .g = grad, .x = v,
                            .center = s.zero, .first = s.sum, .second = s.dot,
                            .finish = finish_backward, .context = &s, .map_g = grad, .map_x = v,
                            .y = tn_output(launch, 0), .mean = s.zero, .scale = s.scale,
                            .slope = s.slope, .shift = s.zero};
    tn_status status = TN_ISA_NAME(tn_channel_run)(&pass);
    if (status == TN_OK)
        STORE(tn_output(launch, 1), s.sum, c.keys);
    return status;
}

/* ---- embedding rows
 * ------------------------------------------------------------------------------ */

static double row_norm(const double *row, int64_t n, double p)
{
    double sum = 0, top = 0;
    for (int64_t i = 0; i < n; i++) {
        double a = fabs(row[i]);
        top = a > top || a != a ? a : top;
        sum += p == 2 ? a * a : p == 1 ? a : isinf(p) ? 0 : p == 0 ? a != 0 : pow(a, p);
    }
    if (isinf(p))
        return top;
    return p == 2 ? sqrt(sum) : p == 1 || p == 0 ? sum : pow(sum, 1 / p);
}

/* Every row that an index names is scaled once, however often it is named. Rows are strided by the
 * table's first stride; elements by its second. */
tn_status TN_KERNEL(embedding_renorm)(const tn_launch_desc *launch)
{
    const tn_operand *table = tn_output(launch, 0), *indices = tn_input(launch, 1);
    int64_t rows = table->sizes[0], n = table->sizes[1], count = tn_operand_numel(indices);
    double limit = launch->scalars[0].d, p = launch->scalars[1].d;
    int64_t size = tn_operand_itemsize(table), stride = table->strides[1] * size;
    double *row = tn_scratch(SLOT_ROW, (size_t)n * sizeof(double));
    uint8_t *seen = row ? tn_scratch(SLOT_SEEN, (size_t)rows) : NULL;
    if (!seen)
        return TN_ERROR_OUT_OF_MEMORY;
    memset(seen, 0, (size_t)rows);
    int64_t outside = 0;
    bool fault = false;
    for (int64_t i = 0; i < count; i++) {
        int64_t at = tn_index_at((const char *)indices->data + i * tn_operand_itemsize(indices),
                                 indices->dtype);
        if (at < 0 || at >= rows) {
            outside = fault ? outside : at;
            fault = true;
            continue;
        }
        if (seen[at])
            continue;
        seen[at] = 1;
        char *data = (char *)table->data + at * table->strides[0] * size;
        TN_ISA_NAME(tn_load_f64)(data, stride, table->dtype, row, n);
        double norm = row_norm(row, n, p), factor = limit / (norm + 1e-7);
        if (!(norm > limit))
            continue;
        for (int64_t k = 0; k < n; k++)
            row[k] *= factor;
        TN_ISA_NAME(tn_store_f64)(data, stride, table->dtype, row, n);
    }
    if (fault)
        return tn_fail(TN_ERROR_INDEX,
                       "embedding_renorm_: index %lld is out of bounds for a table of %lld rows",
                       (long long)outside, (long long)rows);
    return TN_OK;
}

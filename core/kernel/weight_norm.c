/* Weight normalisation (Salimans and Kingma 2016): w = g v / |v| with a norm per slice of v, and its gradient.
 * Slices are keys of channels.h. Also the scaling of embedding rows whose norm is too large. */
#include <math.h>
#include <string.h>

#include "base/pool.h"
#include "kernel/channels.h"
#include "kernel/nest.h"
#include "kernel/rows.h"

enum { SLOT_VECTORS = 3, SLOT_SEEN = 4 };

static tn_channels channels_of(const tn_launch_desc *launch)
{
    const tn_scalar *s = launch->scalars;
    return (tn_channels){.keys = s[0].i, .outer = s[1].i, .width = s[2].i, .last = s[3].i != 0};
}

static void store(const tn_operand *operand, const double *values, int64_t n)
{
    TN_ISA_NAME(tn_store_f64)(operand->data, (int64_t)tn_dtype_size(operand->dtype), operand->dtype,
                              values, n);
}

tn_status TN_KERNEL(weight_norm)(const tn_launch_desc *launch)
{
    tn_channels c = channels_of(launch);
    const tn_operand *v = tn_input(launch, 0);
    double *zero = tn_scratch(SLOT_VECTORS, (size_t)c.keys * 4 * sizeof(double));
    if (!zero)
        return TN_ERROR_OUT_OF_MEMORY;
    double *scale = zero + c.keys, *norm = scale + c.keys, *sum = norm + c.keys;
    memset(zero, 0, (size_t)c.keys * sizeof(double));
    tn_status status = TN_ISA_NAME(tn_channel_products)(&c, v, v, zero, sum, norm);
    if (status != TN_OK)
        return status;
    TN_ISA_NAME(tn_channel_parameter)(tn_input(launch, 1), scale, c.keys);
    for (int64_t i = 0; i < c.keys; i++) {
        norm[i] = sqrt(norm[i]);
        scale[i] /= norm[i];
    }
    store(tn_output(launch, 1), norm, c.keys);
    return TN_ISA_NAME(tn_channel_normalize)(&c, v, zero, scale, zero, tn_output(launch, 0));
}

/* grad_g = grad . v / |v|; grad_v = g / |v| (grad - v (grad . v) / |v|^2). */
tn_status TN_KERNEL(weight_norm_backward)(const tn_launch_desc *launch)
{
    tn_channels c = channels_of(launch);
    const tn_operand *grad = tn_input(launch, 0), *v = tn_input(launch, 1);
    double *zero = tn_scratch(SLOT_VECTORS, (size_t)c.keys * 5 * sizeof(double));
    if (!zero)
        return TN_ERROR_OUT_OF_MEMORY;
    double *scale = zero + c.keys, *norm = scale + c.keys, *sum = norm + c.keys, *dot = sum + c.keys;
    memset(zero, 0, (size_t)c.keys * sizeof(double));
    tn_status status = TN_ISA_NAME(tn_channel_products)(&c, grad, v, zero, sum, dot);
    if (status != TN_OK)
        return status;
    TN_ISA_NAME(tn_channel_parameter)(tn_input(launch, 2), scale, c.keys);
    TN_ISA_NAME(tn_channel_parameter)(tn_input(launch, 3), norm, c.keys);
    for (int64_t i = 0; i < c.keys; i++) {
        double along = dot[i] / norm[i];
        sum[i] = along;
        scale[i] /= norm[i];
        dot[i] = scale[i] * along / norm[i];
    }
    store(tn_output(launch, 1), sum, c.keys);
    return TN_ISA_NAME(tn_channel_gradient)(&c, grad, v, zero, scale, dot, zero, tn_output(launch, 0));
}

/* ---- embedding rows ------------------------------------------------------------------------------ */

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

/* Every row that an index names is scaled once, however often it is named. Rows are strided by the table's
 * first stride; elements by its second. */
tn_status TN_KERNEL(embedding_renorm)(const tn_launch_desc *launch)
{
    const tn_operand *table = tn_output(launch, 0), *indices = tn_input(launch, 1);
    int64_t rows = table->sizes[0], n = table->sizes[1], count = tn_operand_numel(indices);
    double limit = launch->scalars[0].d, p = launch->scalars[1].d;
    int64_t size = tn_operand_itemsize(table), stride = table->strides[1] * size;
    double *row = tn_scratch(SLOT_VECTORS, (size_t)n * sizeof(double));
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
        return tn_fail(TN_ERROR_INDEX, "embedding_renorm_: index %lld is out of bounds for a table of %lld rows",
                       (long long)outside, (long long)rows);
    return TN_OK;
}

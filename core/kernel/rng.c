/* Random numbers on the device. Outputs are contiguous (the caller copies into other layouts), so that
 * number i of a tensor belongs to its i-th element in row-major order.
 *
 * Everything works in rows: one row of Philox words, shaped into doubles, stored in the output's dtype.
 * A 32-bit draw takes one word per element, a 64-bit draw two. Which one is used depends on the output's
 * dtype and the distribution alone. */
#include <math.h>
#include <string.h>

#include "base/pool.h"
#include "kernel/convert.h"
#include "kernel/kernel.h"
#include "kernel/philox.h"
#include "tn/op/rng.h"

enum { WORDS = 4 * TN_PHILOX_ROW, GRAIN_ROWS = 32 };

typedef struct fill {
    const tn_launch_desc *launch;
    /* Shapes `n` <= WORDS words into values; wide draws use two words per value. */
    void (*shape)(const struct fill *fill, const uint32_t *words, int64_t first, double *values,
                  int64_t n);
    bool wide;
    double a, b;      /* parameters of the distribution */
    uint64_t range;   /* of an integer draw */
    int64_t base;
    int64_t numel;
} fill;

/* ---- shapes -------------------------------------------------------------------------------- */

static double uniform(const fill *f, const uint32_t *words, int64_t i)
{
    return f->wide ? tn_uniform53(words[2 * i], words[2 * i + 1]) : (double)tn_uniform24(words[i]);
}

/* (0, 1]: safe under log. */
static double uniform_above_zero(const fill *f, const uint32_t *words, int64_t i)
{
    return uniform(f, words, i) + (f->wide ? 0x1p-53 : 0x1p-24);
}

static void shape_uniform(const fill *f, const uint32_t *words, int64_t first, double *values,
                          int64_t n)
{
    /* No more bits than the dtype has, so that rounding never reaches the excluded end. */
    uint8_t dtype = tn_output(f->launch, 0)->dtype;
    int drop = dtype == TN_BFLOAT16 ? 24 : dtype == TN_FLOAT16 ? 21 : 8;
    double unit = dtype == TN_BFLOAT16 ? 0x1p-8 : dtype == TN_FLOAT16 ? 0x1p-11 : 0x1p-24;
    for (int64_t i = 0; i < n; i++) {
        double u = f->wide ? tn_uniform53(words[2 * i], words[2 * i + 1])
                           : (double)(words[i] >> drop) * unit;
        values[i] = u * (f->b - f->a) + f->a;
    }
}

/* Box and Muller (1958): a pair of uniforms gives a pair of normals. */
static void shape_normal(const fill *f, const uint32_t *words, int64_t first, double *values,
                         int64_t n)
{
    double pair[WORDS];
    for (int64_t i = 0; i < (n + 1) / 2; i++) {
        double radius = sqrt(-2 * tn_fixed_log(uniform_above_zero(f, words, 2 * i))), s, c;
        tn_fixed_sincos(uniform(f, words, 2 * i + 1), &s, &c);
        pair[2 * i] = radius * c;
        pair[2 * i + 1] = radius * s;
    }
    for (int64_t i = 0; i < n; i++)
        values[i] = pair[i] * f->b + f->a;
}

static void shape_log_normal(const fill *f, const uint32_t *words, int64_t first, double *values,
                             int64_t n)
{
    shape_normal(f, words, first, values, n);
    for (int64_t i = 0; i < n; i++)
        values[i] = tn_fixed_exp(values[i]);
}

static void shape_exponential(const fill *f, const uint32_t *words, int64_t first, double *values,
                              int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        values[i] = -tn_fixed_log(uniform_above_zero(f, words, i)) / f->a;
}

static void shape_geometric(const fill *f, const uint32_t *words, int64_t first, double *values,
                            int64_t n)
{
    double scale = tn_fixed_log(1 - f->a);
    for (int64_t i = 0; i < n; i++) {
        double draws = ceil(tn_fixed_log(uniform_above_zero(f, words, i)) / scale);
        values[i] = draws < 1 ? 1 : draws;
    }
}

static void shape_cauchy(const fill *f, const uint32_t *words, int64_t first, double *values,
                         int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        /* tan(pi (u - 1/2)) = -cos(pi u) / sin(pi u) */
        double s, c;
        tn_fixed_sincos(uniform_above_zero(f, words, i) * 0.5, &s, &c);
        values[i] = f->a - f->b * (c / (s > 1e-300 ? s : 1e-300));
    }
}

static void shape_bernoulli(const fill *f, const uint32_t *words, int64_t first, double *values,
                            int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        values[i] = uniform(f, words, i) < f->a;
}

/* ---- storing ------------------------------------------------------------------------------- */

#define STORE_AS(DTYPE, T)                                                                         \
    case DTYPE:                                                                                    \
        for (int64_t i = 0; i < n; i++)                                                            \
            ((T *)out)[i] = (T)values[i];                                                          \
        break

static void store(void *out, uint8_t dtype, const double *values, int64_t n)
{
    switch (dtype) {
        STORE_AS(TN_FLOAT32, float);
        STORE_AS(TN_FLOAT64, double);
        STORE_AS(TN_BOOL, uint8_t);
        STORE_AS(TN_UINT8, uint8_t);
        STORE_AS(TN_INT8, int8_t);
        STORE_AS(TN_INT16, int16_t);
        STORE_AS(TN_INT32, int32_t);
        STORE_AS(TN_INT64, int64_t);
    case TN_BFLOAT16:
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)out)[i] = tn_float_to_bf16((float)values[i]);
        break;
    case TN_FLOAT16:
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)out)[i] = tn_float_to_fp16((float)values[i]);
        break;
    default:
        break;
    }
}

static int64_t row_length(const fill *f)
{
    return f->wide ? WORDS / 2 : WORDS;
}

static void fill_rows(void *context, int64_t begin, int64_t end)
{
    const fill *f = context;
    const tn_operand *out = tn_output(f->launch, 0);
    int64_t length = row_length(f);
    size_t size = tn_dtype_size(out->dtype);
    for (int64_t row = begin; row < end; row++) {
        uint32_t words[WORDS];
        double values[WORDS];
        int64_t first = row * length, n = f->numel - first < length ? f->numel - first : length;
        tn_philox_row(f->launch->rng_seed, f->launch->rng_offset, (uint64_t)row * TN_PHILOX_ROW, words);
        f->shape(f, words, first, values, n);
        store((char *)out->data + (size_t)first * size, out->dtype, values, n);
    }
}

static tn_status run_fill(fill *f, const tn_launch_desc *launch)
{
    f->launch = launch;
    f->numel = tn_operand_numel(tn_output(launch, 0));
    int64_t length = row_length(f);
    tn_parallel_for((f->numel + length - 1) / length, GRAIN_ROWS, fill_rows, f);
    return TN_OK;
}

static tn_status run_float(const tn_launch_desc *launch,
                           void (*shape)(const fill *, const uint32_t *, int64_t, double *, int64_t))
{
    fill f = {.shape = shape, .wide = tn_output(launch, 0)->dtype == TN_FLOAT64};
    f.a = launch->num_scalars > 0 ? tn_scalar_as_double(launch->scalars[0]) : 0;
    f.b = launch->num_scalars > 1 ? tn_scalar_as_double(launch->scalars[1]) : 1;
    return run_fill(&f, launch);
}

tn_status TN_KERNEL(rng_float)(const tn_launch_desc *launch)
{
    switch (launch->op) {
    case TN_OP_uniform:
        return run_float(launch, shape_uniform);
    case TN_OP_normal:
        return run_float(launch, shape_normal);
    case TN_OP_log_normal:
        return run_float(launch, shape_log_normal);
    case TN_OP_exponential:
        return run_float(launch, shape_exponential);
    case TN_OP_geometric:
        return run_float(launch, shape_geometric);
    case TN_OP_cauchy:
        return run_float(launch, shape_cauchy);
    default:
        return run_float(launch, shape_bernoulli);
    }
}

/* ---- integers ------------------------------------------------------------------------------ */

/* base + word mod range, exact in 64 bits; range 0 means all of 2^64. */
static void integer_rows(void *context, int64_t begin, int64_t end)
{
    const fill *f = context;
    const tn_operand *out = tn_output(f->launch, 0);
    int64_t length = row_length(f);
    for (int64_t row = begin; row < end; row++) {
        uint32_t words[WORDS];
        double values[WORDS];
        int64_t whole[WORDS];
        int64_t first = row * length, n = f->numel - first < length ? f->numel - first : length;
        tn_philox_row(f->launch->rng_seed, f->launch->rng_offset, (uint64_t)row * TN_PHILOX_ROW, words);
        for (int64_t i = 0; i < n; i++) {
            uint64_t word = f->wide ? ((uint64_t)words[2 * i] << 32) | words[2 * i + 1] : words[i];
            whole[i] = (int64_t)((uint64_t)f->base + (f->range ? word % f->range : word));
        }
        if (out->dtype == TN_INT64) {
            memcpy((int64_t *)out->data + first, whole, (size_t)n * 8);
            continue;
        }
        for (int64_t i = 0; i < n; i++)
            values[i] = (double)whole[i];
        store((char *)out->data + (size_t)first * tn_dtype_size(out->dtype), out->dtype, values, n);
    }
}

/* Scalars: base, range (as unsigned; 0 = 2^64). */
tn_status TN_KERNEL(rng_integer)(const tn_launch_desc *launch)
{
    fill f = {.launch = launch, .base = launch->scalars[0].i, .range = launch->scalars[1].u};
    f.wide = f.range == 0 || f.range > UINT32_MAX;
    f.numel = tn_operand_numel(tn_output(launch, 0));
    int64_t length = row_length(&f);
    tn_parallel_for((f.numel + length - 1) / length, GRAIN_ROWS, integer_rows, &f);
    return TN_OK;
}

/* Fisher and Yates, from the end; position i takes 64-bit draw i. int64 output. */
tn_status TN_KERNEL(rng_permutation)(const tn_launch_desc *launch)
{
    const tn_operand *out = tn_output(launch, 0);
    int64_t *order = out->data, n = tn_operand_numel(out);
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        uint32_t words[4];
        tn_philox(launch->rng_seed, launch->rng_offset, (uint64_t)i, words);
        uint64_t draw = ((uint64_t)words[0] << 32) | words[1];
        int64_t other = (int64_t)(draw % (uint64_t)(i + 1)), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    return TN_OK;
}

/* ---- draws that read a tensor --------------------------------------------------------------- */

typedef struct element_draw {
    const tn_launch_desc *launch;
    int64_t numel;
} element_draw;

static double element(const tn_operand *operand, int64_t i)
{
    const char *data = operand->data;
    return tn_element_as_double(data + i * (int64_t)tn_dtype_size(operand->dtype), operand->dtype);
}

static void bernoulli_rows(void *context, int64_t begin, int64_t end)
{
    const element_draw *draw = context;
    const tn_operand *out = tn_output(draw->launch, 0), *p = tn_input(draw->launch, 0);
    for (int64_t row = begin; row < end; row++) {
        uint32_t words[WORDS];
        double values[WORDS];
        int64_t first = row * WORDS, n = draw->numel - first < WORDS ? draw->numel - first : WORDS;
        tn_philox_row(draw->launch->rng_seed, draw->launch->rng_offset, (uint64_t)row * TN_PHILOX_ROW,
                      words);
        for (int64_t i = 0; i < n; i++)
            values[i] = (double)tn_uniform24(words[i]) < element(p, first + i);
        store((char *)out->data + (size_t)first * tn_dtype_size(out->dtype), out->dtype, values, n);
    }
}

/* Input: probabilities, contiguous and of the output's shape. */
tn_status TN_KERNEL(rng_bernoulli)(const tn_launch_desc *launch)
{
    element_draw draw = {launch, tn_operand_numel(tn_output(launch, 0))};
    const tn_operand *p = tn_input(launch, 0);
    for (int64_t i = 0; i < draw.numel; i++)
        if (!(element(p, i) >= 0 && element(p, i) <= 1))
            return tn_fail(TN_ERROR_RUNTIME, "Expected p_in >= 0 && p_in <= 1 to be true, but got "
                                             "probability %g at element %lld of bernoulli",
                           element(p, i), (long long)i);
    tn_parallel_for((draw.numel + WORDS - 1) / WORDS, GRAIN_ROWS, bernoulli_rows, &draw);
    return TN_OK;
}

static void dropout_rows(void *context, int64_t begin, int64_t end)
{
    const element_draw *draw = context;
    const tn_launch_desc *launch = draw->launch;
    const tn_operand *out = tn_output(launch, 0), *in = tn_input(launch, 0);
    uint8_t *mask = tn_output(launch, 1)->data;
    double p = launch->scalars[0].d;
    float scale = (float)(1 / (1 - p)), threshold = (float)p;
    for (int64_t row = begin; row < end; row++) {
        uint32_t words[WORDS];
        float values[WORDS];
        int64_t first = row * WORDS, n = draw->numel - first < WORDS ? draw->numel - first : WORDS;
        tn_philox_row(launch->rng_seed, launch->rng_offset, (uint64_t)row * TN_PHILOX_ROW, words);
        uint8_t *kept = mask + first;
        for (int64_t i = 0; i < n; i++)
            kept[i] = tn_uniform24(words[i]) >= threshold;
        if (in->dtype == TN_FLOAT64) {
            const double *x = (const double *)in->data + first;
            double *y = (double *)out->data + first;
            for (int64_t i = 0; i < n; i++)
                y[i] = kept[i] ? x[i] * (1 / (1 - p)) : 0;
            continue;
        }
        const float *x = (const float *)in->data + first;
        float *y = (float *)out->data + first;
        if (in->dtype != TN_FLOAT32) {
            tn_half_to_float((const uint16_t *)in->data + first, in->dtype, values, n);
            x = y = values;
        }
        for (int64_t i = 0; i < n; i++)
            y[i] = kept[i] ? x[i] * scale : 0;
        if (in->dtype != TN_FLOAT32)
            tn_float_to_half(values, in->dtype, (uint16_t *)out->data + first, n);
    }
}

/* Outputs: x * mask / (1 - p), mask (bool); input x. All contiguous. Scalar p in [0, 1). */
tn_status TN_KERNEL(dropout)(const tn_launch_desc *launch)
{
    element_draw draw = {launch, tn_operand_numel(tn_output(launch, 0))};
    tn_parallel_for((draw.numel + WORDS - 1) / WORDS, GRAIN_ROWS, dropout_rows, &draw);
    return TN_OK;
}

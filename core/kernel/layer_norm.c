/* Layer normalisation (Ba et al. 2016) over contiguous rows [rows, n], forward and backward, and
 * without mean and bias, RMS normalisation (Zhang and Sennrich 2019). Mean and reciprocal deviation
 * are kept in the compute dtype. Two passes over the row: mean, then variance.
 *
 * Gradients of weight and bias sum over rows: rows are cut into at most CHUNKS pieces by their
 * number alone, each piece sums in row order, and the pieces are added in order. */
#include <math.h>
#include <string.h>

#include "base/pool.h"
#include "kernel/kernel.h"
#include "kernel/lanes.h"
#include "kernel/rows.h"

enum { CHUNKS = 16 };

typedef struct norm {
    const tn_operand *out, *mean, *rstd, *x, *weight, *bias, *grad, *grad_weight, *grad_bias;
    int64_t rows, n, chunks;
    double eps;
    bool centered; /* else the mean is taken to be 0 */
    bool failed;   /* some thread found no memory */
    char *partial; /* [chunks, 2, n] of the compute type, or NULL */
} norm;

static bool present(const tn_operand *operand)
{
    return operand && !(operand->flags & TN_OPERAND_ABSENT);
}

static const char *row_of(const tn_operand *operand, int64_t row, int64_t n)
{
    return (const char *)operand->data + row * n * (int64_t)tn_dtype_size(operand->dtype);
}

/* NULL, and known to the launch, when there is no memory. */
static void *row_scratch(norm *k, int slot, size_t bytes)
{
    void *memory = tn_scratch(slot, bytes);
    if (!memory)
        __atomic_store_n(&k->failed, true, __ATOMIC_RELAXED);
    return memory;
}

static tn_status outcome(const norm *k)
{
    return k->failed ? tn_fail(TN_ERROR_OUT_OF_MEMORY,
                               "layer norm: out of host memory for rows of %lld", (long long)k->n)
                     : TN_OK;
}

#define ROW(S, operand, row, buffer)                                                               \
    tn_row_##S(row_of(operand, row, k->n), (int64_t)tn_dtype_size((operand)->dtype),               \
               (operand)->dtype, buffer, k->n)

#define STORE(S, operand, row, values)                                                             \
    TN_ISA_NAME(tn_store_##S)((char *)row_of(operand, row, k->n),                                  \
                              (int64_t)tn_dtype_size((operand)->dtype), (operand)->dtype, values,  \
                              k->n)

#define DEFINE_NORM(T, S, DTYPE, SQRT)                                                             \
    /* Where a row of the result is made: in place, or in `buffer` for finish_row. */              \
    static T *begin_row_##S(const tn_operand *out, int64_t row, int64_t n, T *buffer)              \
    {                                                                                              \
        return out->dtype == DTYPE ? (T *)row_of(out, row, n) : buffer;                            \
    }                                                                                              \
    static void finish_row_##S(const norm *k, int64_t row, const T *y)                             \
    {                                                                                              \
        if (k->out->dtype != DTYPE)                                                                \
            STORE(S, k->out, row, y);                                                              \
    }                                                                                              \
    static void scale_row_##S(const T *x, T mean, T rstd, const T *w, const T *b, T *y, int64_t n) \
    {                                                                                              \
        if (w && b)                                                                                \
            TN_EACH(i, n) y[i] = (x[i] - mean) * rstd * w[i] + b[i];                               \
        else if (w)                                                                                \
            TN_EACH(i, n) y[i] = (x[i] - mean) * rstd * w[i];                                      \
        else if (b)                                                                                \
            TN_EACH(i, n) y[i] = (x[i] - mean) * rstd + b[i];                                      \
        else                                                                                       \
            TN_EACH(i, n) y[i] = (x[i] - mean) * rstd;                                             \
    }                                                                                              \
    static void forward_##S(void *context, int64_t begin, int64_t end)                             \
    {                                                                                              \
        norm *k = context;                                                                         \
        T *buffer = row_scratch(k, 0, (size_t)k->n * 4 * sizeof(T));                               \
        if (!buffer)                                                                               \
            return;                                                                                \
        const T *w = present(k->weight) ? ROW(S, k->weight, 0, buffer + 2 * k->n) : NULL;          \
        const T *b = present(k->bias) ? ROW(S, k->bias, 0, buffer + 3 * k->n) : NULL;              \
        for (int64_t row = begin; row < end; row++) {                                              \
            const T *x = ROW(S, k->x, row, buffer);                                                \
            T *y = begin_row_##S(k->out, row, k->n, buffer + k->n);                                \
            T mean = 0;                                                                            \
            if (k->centered) {                                                                     \
                TN_LANES_SUM(T, S, sum, k->n, x[i]);                                               \
                mean = sum / (T)k->n;                                                              \
                ((T *)k->mean->data)[row] = mean;                                                  \
            }                                                                                      \
            TN_LANES_SUM(T, S, squares, k->n, (x[i] - mean) * (x[i] - mean));                      \
            T rstd = 1 / SQRT(squares / (T)k->n + (T)k->eps);                                      \
            scale_row_##S(x, mean, rstd, w, b, y, k->n);                                           \
            finish_row_##S(k, row, y);                                                             \
            ((T *)k->rstd->data)[row] = rstd;                                                      \
        }                                                                                          \
    }                                                                                              \
    static void backward_row_##S(const norm *k, int64_t row, const T *w, T *buffer, T *dw, T *db)  \
    {                                                                                              \
        const T *x = ROW(S, k->x, row, buffer), *g = ROW(S, k->grad, row, buffer + k->n);          \
        T *hat = buffer + 2 * k->n;                                                                \
        T mean = k->centered ? ((const T *)k->mean->data)[row] : 0;                                \
        T rstd = ((const T *)k->rstd->data)[row];                                                  \
        TN_EACH(i, k->n) hat[i] = (x[i] - mean) * rstd;                                            \
        if (dw)                                                                                    \
            TN_EACH(i, k->n)                                                                       \
            {                                                                                      \
                dw[i] += g[i] * hat[i];                                                            \
                db[i] += g[i];                                                                     \
            }                                                                                      \
        if (!present(k->out))                                                                      \
            return;                                                                                \
        const T *scaled = g;                                                                       \
        if (w) {                                                                                   \
            T *product = buffer + 3 * k->n;                                                        \
            TN_EACH(i, k->n) product[i] = g[i] * w[i];                                             \
            scaled = product;                                                                      \
        }                                                                                          \
        TN_LANES_SUM(T, S, sum, k->n, scaled[i]);                                                  \
        TN_LANES_SUM(T, S, dot, k->n, scaled[i] * hat[i]);                                         \
        T a = k->centered ? sum / (T)k->n : 0, b = dot / (T)k->n;                                  \
        T *out = begin_row_##S(k->out, row, k->n, buffer);                                         \
        TN_EACH(i, k->n) out[i] = rstd * (scaled[i] - a - hat[i] * b);                             \
        finish_row_##S(k, row, out);                                                               \
    }                                                                                              \
    static void backward_##S(void *context, int64_t begin, int64_t end)                            \
    {                                                                                              \
        norm *k = context;                                                                         \
        T *buffer = row_scratch(k, 1, (size_t)k->n * 5 * sizeof(T));                               \
        if (!buffer)                                                                               \
            return;                                                                                \
        const T *w = present(k->weight) ? ROW(S, k->weight, 0, buffer + 4 * k->n) : NULL;          \
        for (int64_t chunk = begin; chunk < end; chunk++) {                                        \
            T *dw = k->partial ? (T *)k->partial + chunk * 2 * k->n : NULL;                        \
            for (int64_t row = k->rows * chunk / k->chunks;                                        \
                 row < k->rows * (chunk + 1) / k->chunks; row++)                                   \
                backward_row_##S(k, row, w, buffer, dw, dw ? dw + k->n : NULL);                    \
        }                                                                                          \
    }                                                                                              \
    static void finish_##S(const norm *k)                                                          \
    {                                                                                              \
        T *total = (T *)k->partial;                                                                \
        for (int64_t chunk = 1; chunk < k->chunks; chunk++) {                                      \
            const T *more = total + chunk * 2 * k->n;                                              \
            TN_EACH(i, 2 * k->n) total[i] += more[i];                                              \
        }                                                                                          \
        if (present(k->grad_weight))                                                               \
            STORE(S, k->grad_weight, 0, total);                                                    \
        if (present(k->grad_bias))                                                                 \
            STORE(S, k->grad_bias, 0, total + k->n);                                               \
    }
DEFINE_NORM(float, f32, TN_FLOAT32, sqrtf)
DEFINE_NORM(double, f64, TN_FLOAT64, sqrt)

/* Outputs: y, ?mean, rstd; inputs: x, ?weight, ?bias. Scalars: n, eps. */
tn_status TN_KERNEL(layer_norm)(const tn_launch_desc *launch)
{
    norm k = {.out = tn_output(launch, 0),
              .mean = tn_output(launch, 1),
              .rstd = tn_output(launch, 2),
              .x = tn_input(launch, 0),
              .weight = tn_input(launch, 1),
              .bias = tn_input(launch, 2)};
    k.n = launch->scalars[0].i;
    k.eps = launch->scalars[1].d;
    k.rows = tn_operand_numel(k.x) / k.n;
    k.centered = present(k.mean);
    bool wide = k.x->dtype == TN_FLOAT64;
    tn_parallel_for(k.rows, 1 + 8192 / k.n, wide ? forward_f64 : forward_f32, &k);
    return outcome(&k);
}

/* Outputs: ?grad_x, ?grad_weight, ?grad_bias; inputs: grad, x, ?mean, rstd, ?weight. Scalar: n. */
tn_status TN_KERNEL(layer_norm_backward)(const tn_launch_desc *launch)
{
    norm k = {.out = tn_output(launch, 0),
              .grad_weight = tn_output(launch, 1),
              .grad_bias = tn_output(launch, 2),
              .grad = tn_input(launch, 0),
              .x = tn_input(launch, 1),
              .mean = tn_input(launch, 2),
              .rstd = tn_input(launch, 3),
              .weight = tn_input(launch, 4)};
    k.n = launch->scalars[0].i;
    k.rows = tn_operand_numel(k.x) / k.n;
    k.centered = present(k.mean);
    k.chunks = k.rows < CHUNKS ? k.rows : CHUNKS;
    bool wide = k.x->dtype == TN_FLOAT64, sums = present(k.grad_weight) || present(k.grad_bias);
    if (sums) {
        size_t bytes = (size_t)(k.chunks * 2 * k.n) * (wide ? 8 : 4);
        k.partial = tn_scratch(0, bytes);
        if (!k.partial)
            return TN_ERROR_OUT_OF_MEMORY;
        memset(k.partial, 0, bytes);
    }
    tn_parallel_for(k.chunks, 1, wide ? backward_f64 : backward_f32, &k);
    if (sums && wide)
        finish_f64(&k);
    else if (sums)
        finish_f32(&k);
    return outcome(&k);
}

/* softmax and log_softmax, forward and backward. All operands are contiguous and seen as [outer, n,
 * inner]; the op works along n. Outputs may have another floating dtype than the inputs.
 *
 * inner == 1: one row at a time, in fp32 (fp64 for fp64). inner > 1: the same arithmetic on a
 * gathered column, so that both layouts give the same bits. */
#include <math.h>

#include "base/pool.h"
#include "kernel/kernel.h"
#include "kernel/lanes.h"
#include "kernel/rows.h"
#include "tn/op/softmax.h"

typedef struct softmax {
    const tn_operand *out, *first, *second; /* x; or gradient and the forward's output */
    int64_t n, inner;
    bool log;
    bool failed; /* some thread found no memory */
} softmax;

#define EXP_f32(x) tn_exp_f32(x)
#define EXP_f64(x) exp(x)
#define LOG_f32(x) logf(x)
#define LOG_f64(x) log(x)

/* y may be x. */
#define DEFINE_ROWS(T, S, DTYPE)                                                                   \
    static void forward_##S(bool is_log, const T *x, T *y, int64_t n)                              \
    {                                                                                              \
        T top = tn_row_max_##S(x, n);                                                              \
        if (is_log) {                                                                              \
            TN_LANES_SUM(T, S, sum, n, EXP_##S(x[i] - top));                                       \
            T shift = LOG_##S(sum);                                                                \
            TN_EACH(i, n) y[i] = (x[i] - top) - shift;                                             \
            return;                                                                                \
        }                                                                                          \
        TN_EACH(i, n) y[i] = EXP_##S(x[i] - top);                                                  \
        TN_LANES_SUM(T, S, sum, n, y[i]);                                                          \
        T scale = 1 / sum;                                                                         \
        TN_EACH(i, n) y[i] = y[i] * scale;                                                         \
    }                                                                                              \
    static void backward_##S(bool is_log, const T *g, const T *y, T *out, int64_t n)               \
    {                                                                                              \
        if (is_log) {                                                                              \
            TN_LANES_SUM(T, S, sum, n, g[i]);                                                      \
            TN_EACH(i, n) out[i] = g[i] - EXP_##S(y[i]) * sum;                                     \
        } else {                                                                                   \
            TN_LANES_SUM(T, S, dot, n, g[i] * y[i]);                                               \
            TN_EACH(i, n) out[i] = (g[i] - dot) * y[i];                                            \
        }                                                                                          \
    }                                                                                              \
    static void run_##S(softmax *s, int64_t row)                                                   \
    {                                                                                              \
        T *buffer = tn_scratch(0, (size_t)s->n * 3 * sizeof(T));                                   \
        if (!buffer) {                                                                             \
            __atomic_store_n(&s->failed, true, __ATOMIC_RELAXED);                                  \
            return;                                                                                \
        }                                                                                          \
        int64_t at = row / s->inner * s->n * s->inner + row % s->inner;                            \
        int64_t size = (int64_t)tn_dtype_size(s->first->dtype), stride = s->inner * size;          \
        const T *a = tn_row_##S((const char *)s->first->data + at * size, stride, s->first->dtype, \
                                buffer, s->n);                                                     \
        int64_t out_size = (int64_t)tn_dtype_size(s->out->dtype);                                  \
        char *out = (char *)s->out->data + at * out_size;                                          \
        bool in_place = s->inner == 1 && s->out->dtype == DTYPE;                                   \
        T *result = in_place ? (T *)out : buffer + s->n;                                           \
        if (s->second) {                                                                           \
            int64_t bytes = (int64_t)tn_dtype_size(s->second->dtype);                              \
            const T *y = tn_row_##S((const char *)s->second->data + at * bytes, s->inner * bytes,  \
                                    s->second->dtype, buffer + 2 * s->n, s->n);                    \
            backward_##S(s->log, a, y, result, s->n);                                              \
        } else {                                                                                   \
            forward_##S(s->log, a, result, s->n);                                                  \
        }                                                                                          \
        if (!in_place)                                                                             \
            TN_ISA_NAME(tn_store_##S)(out, s->inner * out_size, s->out->dtype, result, s->n);      \
    }
DEFINE_ROWS(float, f32, TN_FLOAT32)
DEFINE_ROWS(double, f64, TN_FLOAT64)

static void run_rows(void *context, int64_t begin, int64_t end)
{
    softmax *s = context;
    for (int64_t row = begin; row < end; row++)
        if (s->first->dtype == TN_FLOAT64)
            run_f64(s, row);
        else
            run_f32(s, row);
}

/* Scalars: n, inner. */
tn_status TN_KERNEL(softmax)(const tn_launch_desc *launch)
{
    bool backward =
        launch->op == TN_OP_softmax_backward || launch->op == TN_OP_log_softmax_backward;
    softmax s = {.out = tn_output(launch, 0), .first = tn_input(launch, 0),
                 .second = backward ? tn_input(launch, 1) : NULL,
                 .n = launch->scalars[0].i, .inner = launch->scalars[1].i};
    s.log = launch->op == TN_OP_log_softmax || launch->op == TN_OP_log_softmax_backward;
    int64_t rows = tn_operand_numel(s.out) / s.n;
    tn_parallel_for(rows, 1 + 8192 / s.n, run_rows, &s);
    return s.failed ? tn_fail(TN_ERROR_OUT_OF_MEMORY,
                              "softmax: out of host memory for rows of %lld", (long long)s.n)
                    : TN_OK;
}

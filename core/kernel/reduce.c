/* Sums, products, extrema, tests, norms and variances along any dimensions.
 *
 * Operands: output(s), input. Scalar 0 is the bit mask of reduced dimensions; an output either keeps
 * them with size 1 or lacks them. compute_dtype is the type that the input is converted to; bf16 and
 * fp16 mean fp32 here. The engine is reduce_typed.h, the geometry reduce.h. */
#include <math.h>
#include <string.h>

#include "base/pool.h"
#include "kernel/reduce.h"
#include "kernel/rows.h"
#include "tn/tile/simd.h"

/* ---- lanes --------------------------------------------------------------------------------------- */

/* Lane l takes the elements l, l + LANES, ...; then the lanes are combined as a tree. */
#define DEFINE_FOLDS(SUFFIX, T, IDENTITY, COMBINE)                                                 \
    static T block_##SUFFIX(const T *x, int64_t n)                                                 \
    {                                                                                              \
        T lane[TN_REDUCE_LANES];                                                                   \
        int64_t i = 0;                                                                             \
        int width = TN_REDUCE_LANES;                                                               \
        if (n < TN_REDUCE_LANES) {                                                                 \
            for (width = 1; width < n;)                                                            \
                width *= 2;                                                                        \
            for (int l = 0; l < width; l++)                                                        \
                lane[l] = l < n ? x[l] : (IDENTITY);                                               \
        } else {                                                                                   \
            for (int l = 0; l < TN_REDUCE_LANES; l++)                                              \
                lane[l] = x[l];                                                                    \
            for (i = TN_REDUCE_LANES; i + TN_REDUCE_LANES <= n; i += TN_REDUCE_LANES)              \
                TN_EACH(l, TN_REDUCE_LANES) lane[l] = COMBINE(lane[l], x[i + l]);                  \
            for (int l = 0; i + l < n; l++)                                                        \
                lane[l] = COMBINE(lane[l], x[i + l]);                                              \
        }                                                                                          \
        for (int w = width / 2; w > 0; w /= 2)                                                     \
            for (int l = 0; l < w; l++)                                                            \
                lane[l] = COMBINE(lane[l], lane[l + w]);                                           \
        return lane[0];                                                                            \
    }                                                                                              \
    static void fold_##SUFFIX(T *acc, const T *x, int64_t n)                                       \
    {                                                                                              \
        TN_EACH(j, n) acc[j] = COMBINE(acc[j], x[j]);                                              \
    }                                                                                              \
    static void fold4_##SUFFIX(T *acc, const T *const *x, int64_t n)                               \
    {                                                                                              \
        const T *a = x[0], *b = x[1], *c = x[2], *d = x[3];                                        \
        TN_EACH(j, n)                                                                              \
        {                                                                                          \
            T low = COMBINE(a[j], b[j]), high = COMBINE(c[j], d[j]);                               \
            T four = COMBINE(low, high);                                                           \
            acc[j] = COMBINE(acc[j], four);                                                        \
        }                                                                                          \
    }

#define FOLDS(SUFFIX, IDENTITY)                                                                    \
    .identity = IDENTITY, .block = block_##SUFFIX, .fold = fold_##SUFFIX, .fold4 = fold4_##SUFFIX

#define ADD(a, b) ((a) + (b))
#define MULTIPLY(a, b) ((a) * (b))
#define WRAPPING_ADD(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define WRAPPING_MULTIPLY(a, b) ((int64_t)((uint64_t)(a) * (uint64_t)(b)))
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define SMALLER(a, b) ((a) < (b) ? (a) : (b))

DEFINE_FOLDS(add_f32, float, 0, ADD)
DEFINE_FOLDS(mul_f32, float, 1, MULTIPLY)
DEFINE_FOLDS(max_f32, float, -INFINITY, tn_maxf)
DEFINE_FOLDS(min_f32, float, INFINITY, tn_minf)
DEFINE_FOLDS(add_f64, double, 0, ADD)
DEFINE_FOLDS(mul_f64, double, 1, MULTIPLY)
DEFINE_FOLDS(max_f64, double, -INFINITY, tn_max)
DEFINE_FOLDS(min_f64, double, INFINITY, tn_min)
DEFINE_FOLDS(add_i64, int64_t, 0, WRAPPING_ADD)
DEFINE_FOLDS(mul_i64, int64_t, 1, WRAPPING_MULTIPLY)
DEFINE_FOLDS(max_i64, int64_t, INT64_MIN, LARGER)
DEFINE_FOLDS(min_i64, int64_t, INT64_MAX, SMALLER)

/* ---- the engine, three times ------------------------------------------------------------------ */

static inline const float *any_row_f32(const char *in, int64_t stride, uint8_t dtype, float *buffer,
                                       int64_t n, bool nonzero)
{
    (void)nonzero;
    return tn_row_f32(in, stride, dtype, buffer, n);
}

static inline const double *any_row_f64(const char *in, int64_t stride, uint8_t dtype,
                                        double *buffer, int64_t n, bool nonzero)
{
    (void)nonzero;
    return tn_row_f64(in, stride, dtype, buffer, n);
}

static inline const int64_t *any_row_i64(const char *in, int64_t stride, uint8_t dtype,
                                         int64_t *buffer, int64_t n, bool nonzero)
{
    if (!nonzero)
        return tn_row_i64(in, stride, dtype, buffer, n);
    TN_ISA_NAME(tn_load_nonzero)(in, stride, dtype, buffer, n);
    return buffer;
}

#define T float
#define NAME(x) x##_f32
#define ROW any_row_f32
#define STORE TN_ISA_NAME(tn_store_f32)
#include "kernel/reduce_typed.h"
#undef T
#undef NAME
#undef ROW
#undef STORE
#define T double
#define NAME(x) x##_f64
#define ROW any_row_f64
#define STORE TN_ISA_NAME(tn_store_f64)
#include "kernel/reduce_typed.h"
#undef T
#undef NAME
#undef ROW
#undef STORE
#define T int64_t
#define NAME(x) x##_i64
#define ROW any_row_i64
#define STORE TN_ISA_NAME(tn_store_i64)
#include "kernel/reduce_typed.h"
#include "tn/op/reduce.h"
#undef T
#undef NAME
#undef ROW
#undef STORE

/* ---- maps and finishes -------------------------------------------------------------------------- */

#define DEFINE_MAP(NAME, T, VALUE)                                                                 \
    static void NAME(const tn_reduce_plan *plan, const T *x, T *y, int64_t n, const T *center,     \
                     int step)                                                                     \
    {                                                                                              \
        (void)plan, (void)center, (void)step;                                                      \
        TN_EACH(i, n)                                                                              \
        {                                                                                          \
            T v = x[i];                                                                            \
            y[i] = (VALUE);                                                                        \
        }                                                                                          \
    }
#define DEFINE_MAPS(SUFFIX, T, ABS, POW)                                                           \
    DEFINE_MAP(map_without_nan_##SUFFIX, T, v == v ? v : 0)                                        \
    DEFINE_MAP(map_abs_##SUFFIX, T, ABS(v))                                                        \
    DEFINE_MAP(map_square_##SUFFIX, T, v * v)                                                      \
    DEFINE_MAP(map_is_set_##SUFFIX, T, v != 0 ? 1 : 0)                                             \
    DEFINE_MAP(map_power_##SUFFIX, T, POW(ABS(v), (T)plan->exponent))                              \
    static void finish_mean_##SUFFIX(const tn_reduce_plan *plan, T *acc, int64_t n)                \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++)                                                            \
            acc[i] /= (T)plan->axes.count;                                                         \
    }                                                                                              \
    static void finish_power_##SUFFIX(const tn_reduce_plan *plan, T *acc, int64_t n)               \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++)                                                            \
            acc[i] = POW(acc[i], (T)(1 / plan->exponent));                                         \
    }                                                                                              \
    static void finish_root_##SUFFIX(const tn_reduce_plan *plan, T *acc, int64_t n)                \
    {                                                                                              \
        (void)plan;                                                                                \
        for (int64_t i = 0; i < n; i++)                                                            \
            acc[i] = (T)sqrt((double)acc[i]);                                                      \
    }
DEFINE_MAPS(f32, float, tn_absf, powf)
DEFINE_MAPS(f64, double, tn_abs, pow)

static void map_squared_deviation(const tn_reduce_plan *plan, const double *x, double *y, int64_t n,
                                  const double *center, int step)
{
    (void)plan;
    TN_EACH(i, n)
    {
        double deviation = x[i] - center[i * step];
        y[i] = deviation * deviation;
    }
}

static void finish_variance(const tn_reduce_plan *plan, double *acc, int64_t n)
{
    double freedom = (double)plan->axes.count - plan->correction;
    for (int64_t i = 0; i < n; i++)
        acc[i] /= freedom > 0 ? freedom : 0;
}

static void finish_deviation(const tn_reduce_plan *plan, double *acc, int64_t n)
{
    finish_variance(plan, acc, n);
    finish_root_f64(plan, acc, n);
}

/* ---- rules ---------------------------------------------------------------------------------------- */

enum { RULE_SUM, RULE_NANSUM, RULE_MEAN, RULE_PROD, RULE_MAX, RULE_MIN, RULE_NORM0, RULE_NORM1,
       RULE_NORM2, RULE_NORM_MAX, RULE_NORM_MIN, RULE_NORM_P, RULE_COUNT };

#define DEFINE_RULES(SUFFIX)                                                                       \
    static const rule_##SUFFIX rules_##SUFFIX[RULE_COUNT] = {                                      \
        [RULE_SUM] = {FOLDS(add_##SUFFIX, 0)},                                                     \
        [RULE_NANSUM] = {FOLDS(add_##SUFFIX, 0), .map = map_without_nan_##SUFFIX},                 \
        [RULE_MEAN] = {FOLDS(add_##SUFFIX, 0), .finish = finish_mean_##SUFFIX},                    \
        [RULE_PROD] = {FOLDS(mul_##SUFFIX, 1)},                                                    \
        [RULE_MAX] = {FOLDS(max_##SUFFIX, -INFINITY)},                                             \
        [RULE_MIN] = {FOLDS(min_##SUFFIX, INFINITY)},                                              \
        [RULE_NORM0] = {FOLDS(add_##SUFFIX, 0), .map = map_is_set_##SUFFIX},                       \
        [RULE_NORM1] = {FOLDS(add_##SUFFIX, 0), .map = map_abs_##SUFFIX},                          \
        [RULE_NORM2] = {FOLDS(add_##SUFFIX, 0), .map = map_square_##SUFFIX,                        \
                        .finish = finish_root_##SUFFIX},                                           \
        [RULE_NORM_MAX] = {FOLDS(max_##SUFFIX, -INFINITY), .map = map_abs_##SUFFIX},               \
        [RULE_NORM_MIN] = {FOLDS(min_##SUFFIX, INFINITY), .map = map_abs_##SUFFIX},                \
        [RULE_NORM_P] = {FOLDS(add_##SUFFIX, 0), .map = map_power_##SUFFIX,                        \
                         .finish = finish_power_##SUFFIX},                                         \
    };
DEFINE_RULES(f32)
DEFINE_RULES(f64)

static const rule_i64 rule_sum_i64 = {FOLDS(add_i64, 0)}, rule_prod_i64 = {FOLDS(mul_i64, 1)};
static const rule_i64 rule_max_i64 = {FOLDS(max_i64, INT64_MIN)};
static const rule_i64 rule_min_i64 = {FOLDS(min_i64, INT64_MAX)};
static const rule_i64 rule_any = {FOLDS(max_i64, 0), .nonzero = true};
static const rule_i64 rule_all = {FOLDS(min_i64, 1), .nonzero = true};
static const rule_i64 rule_count = {FOLDS(add_i64, 0), .nonzero = true};

static int norm_rule(double p)
{
    return p == 0           ? RULE_NORM0
           : p == 1         ? RULE_NORM1
           : p == 2         ? RULE_NORM2
           : p == INFINITY  ? RULE_NORM_MAX
           : p == -INFINITY ? RULE_NORM_MIN
                            : RULE_NORM_P;
}

static int float_rule(const tn_launch_desc *launch)
{
    switch (launch->op) {
    case TN_OP_nansum:
        return RULE_NANSUM;
    case TN_OP_mean:
        return RULE_MEAN;
    case TN_OP_prod:
        return RULE_PROD;
    case TN_OP_amax:
        return RULE_MAX;
    case TN_OP_amin:
        return RULE_MIN;
    case TN_OP_norm:
        return norm_rule(tn_scalar_as_double(launch->scalars[1]));
    default:
        return RULE_SUM;
    }
}

static const rule_i64 *integer_rule(int op)
{
    switch (op) {
    case TN_OP_prod:
        return &rule_prod_i64;
    case TN_OP_amax:
        return &rule_max_i64;
    case TN_OP_amin:
        return &rule_min_i64;
    case TN_OP_any:
        return &rule_any;
    case TN_OP_all:
        return &rule_all;
    case TN_OP_count_nonzero:
        return &rule_count;
    default:
        return &rule_sum_i64;
    }
}

static void make_plan(tn_reduce_plan *plan, const tn_launch_desc *launch)
{
    const tn_operand *in = tn_input(launch, 0);
    const tn_operand *tensors[3] = {in, tn_output(launch, 0), tn_output(launch, 1)};
    TN_ISA_NAME(tn_axes_split)(&plan->axes, tensors, 1 + launch->num_outputs, launch->scalars[0].u, false);
    tn_reduce_cut(plan, (int64_t)tn_dtype_size((tn_dtype)in->dtype));
    plan->in = in->data;
    plan->in_dtype = in->dtype;
}

tn_status TN_KERNEL(reduce)(const tn_launch_desc *launch)
{
    tn_reduce_plan plan;
    bool tests = launch->op == TN_OP_any || launch->op == TN_OP_all ||
                 launch->op == TN_OP_count_nonzero;
    if (!tests && (launch->compute_dtype == TN_COMPLEX64 || launch->compute_dtype == TN_COMPLEX128))
        return TN_KERNEL(reduce_complex)(launch);
    make_plan(&plan, launch);
    plan.exponent = launch->num_scalars > 1 ? tn_scalar_as_double(launch->scalars[1]) : 0;
    const tn_operand *out = tn_output(launch, 0);
    uint8_t compute = tests ? TN_INT64 : launch->compute_dtype;
    if (compute == TN_FLOAT64) {
        job_f64 job = {&plan, &rules_f64[float_rule(launch)], out, 1, NULL, NULL, NULL, NULL};
        return reduce_f64(&job);
    }
    if (compute == TN_FLOAT32 || compute == TN_BFLOAT16 || compute == TN_FLOAT16) {
        job_f32 job = {&plan, &rules_f32[float_rule(launch)], out, 1, NULL, NULL, NULL, NULL};
        return reduce_f32(&job);
    }
    job_i64 job = {&plan, integer_rule(launch->op), out, 1, NULL, NULL, NULL, NULL};
    return reduce_i64(&job);
}

/* Outputs: variance or standard deviation, then the mean if asked for. Two passes in fp64: the mean,
 * then the squared deviations from it. */
tn_status TN_KERNEL(variance)(const tn_launch_desc *launch)
{
    static const rule_f64 squares = {FOLDS(add_f64, 0), .map = map_squared_deviation,
                                     .finish = finish_variance};
    static const rule_f64 roots = {FOLDS(add_f64, 0), .map = map_squared_deviation,
                                   .finish = finish_deviation};
    tn_reduce_plan plan;
    make_plan(&plan, launch);
    plan.correction = tn_scalar_as_double(launch->scalars[1]);
    double few[64];
    double *means = plan.axes.outputs <= 64
                        ? few
                        : tn_scratch(2, (size_t)plan.axes.outputs * sizeof(double));
    if (!means)
        return tn_last_error()->status;
    job_f64 job = {&plan, &rules_f64[RULE_MEAN], NULL, 2, NULL, NULL, means, NULL};
    job.out = launch->num_outputs > 1 ? tn_output(launch, 1) : NULL;
    tn_status status = reduce_f64(&job);
    if (status != TN_OK)
        return status;
    job = (job_f64){&plan, launch->op == TN_OP_std ? &roots : &squares, tn_output(launch, 0), 1,
                    means, NULL, NULL, NULL};
    return reduce_f64(&job);
}

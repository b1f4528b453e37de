/* Cumulative sums, products, extrema and log-sum-exps along one dimension.
 *
 * Outputs: values, then indices (int64) of the extrema; input. Scalar 0: the dimension. fp32 and fp64
 * accumulate in fp64, bf16 and fp16 in fp32, integers and bool in int64; every stored value is rounded once.
 *
 * Where the dimension is strided and a neighbouring one dense, vector code runs across columns. Else rows
 * are scanned, LANES of them at a time, because one row is a chain of dependent steps. A few long rows are
 * first cut into segments, whose totals give each segment its start. The cuts follow from the shape. */
#include <math.h>

#include "base/pool.h"
#include "kernel/axes.h"
#include "kernel/rows.h"
#include "tn/op/scan.h"
#include "tn/tile/simd.h"

enum {
    LANES = 8,
    CHUNK = 256,
    PADDING = 8,     /* keeps the rows of a chunk off each other's cache sets */
    COLUMNS = 64,    /* per tile */
    SEGMENT = 8192,  /* elements, where a row is cut */
    FEW_ROWS = 16,
    GRAIN = 1 << 14, /* elements worth a thread */
};

typedef struct scan_job {
    tn_axes axes; /* tensors: input, values, ?indices */
    const char *in;
    char *values, *indices;
    uint8_t in_dtype, dtype;
    int64_t stride[3]; /* bytes along the dimension */
    int64_t segment, segments;
    int64_t tiles_per_run; /* column tiles in a run of the innermost kept axis; 0: rows */
    void *totals;          /* per lane, then their starts; NULL where rows are whole */
    int64_t *places;
    bool only_totals, logarithmic;
} scan_job;

/* One segment of one row. */
typedef struct scan_lane {
    int64_t offset[3], first, n;
} scan_lane;

static scan_lane lane_at(const scan_job *job, int64_t index)
{
    const tn_axes *axes = &job->axes;
    scan_lane lane = {.first = index % job->segments * job->segment};
    int64_t left = axes->count - lane.first;
    lane.n = left < job->segment ? left : job->segment;
    for (int t = 0; t < axes->num_tensors; t++)
        lane.offset[t] = tn_axes_offset(axes->kept, axes->num_kept, t, index / job->segments) +
                         lane.first * job->stride[t];
    return lane;
}

/* Elements of a lane from its element `from` on, one chunk at most. */
static int64_t chunk_of(const scan_lane *lane, int64_t from)
{
    int64_t left = lane->n - from;
    return left < 0 ? 0 : left < CHUNK ? left : CHUNK;
}

static int64_t grain(int64_t elements)
{
    return elements >= GRAIN ? 1 : GRAIN / elements;
}

/* ---- rules ------------------------------------------------------------------------------------ */

#define SUM(acc, best, v, k) ((void)(best), (void)(k), (acc) += (v))
#define PRODUCT(acc, best, v, k) ((void)(best), (void)(k), (acc) *= (v))
#define WRAPPING_SUM(acc, best, v, k)                                                              \
    ((void)(best), (void)(k), (acc) = (int64_t)((uint64_t)(acc) + (uint64_t)(v)))
#define WRAPPING_PRODUCT(acc, best, v, k)                                                          \
    ((void)(best), (void)(k), (acc) = (int64_t)((uint64_t)(acc) * (uint64_t)(v)))
#define LOG_SUM_EXP(acc, best, v, k) ((void)(best), (void)(k), (acc) = log_add_exp(acc, v))

/* Among equals the last wins; a NaN replaces everything and stays. */
#define EXTREMUM(acc, best, v, k, RELATION)                                                        \
    do {                                                                                           \
        bool better = IS_NAN(v) | (!IS_NAN(acc) & ((v)RELATION(acc)));                            \
        (acc) = better ? (v) : (acc);                                                              \
        (best) = better ? (k) : (best);                                                            \
    } while (0)
#define LARGEST(acc, best, v, k) EXTREMUM(acc, best, v, k, >=)
#define SMALLEST(acc, best, v, k) EXTREMUM(acc, best, v, k, <=)

static inline double log_add_exp(double a, double b)
{
    double high = a > b ? a : b, low = a > b ? b : a;
    if (a != a || b != b)
        return a + b;
    return high == low && isinf(high) ? high : high + log1p(exp(low - high));
}

#define IS_NAN(x) ((x) != (x))
#define INDEXED false
#define T float
#define LOAD TN_ISA_NAME(tn_load_f32)
#define STORE TN_ISA_NAME(tn_store_f32)
#define NAME(x) x##_sum_f32
#define START 0
#define STEP SUM
#define REORDERED true
#include "kernel/scan_typed.h"
#define NAME(x) x##_product_f32
#define START 1
#define STEP PRODUCT
#define REORDERED true
#include "kernel/scan_typed.h"
#undef T
#undef LOAD
#undef STORE
#undef INDEXED

#define T double
#define LOAD TN_ISA_NAME(tn_load_f64)
#define STORE TN_ISA_NAME(tn_store_f64)

#define INDEXED false
#define NAME(x) x##_sum_f64
#define START 0
#define STEP SUM
#define REORDERED true
#include "kernel/scan_typed.h"
#define NAME(x) x##_product_f64
#define START 1
#define STEP PRODUCT
#define REORDERED true
#include "kernel/scan_typed.h"
#define NAME(x) x##_log_sum_exp
#define START (-INFINITY)
#define STEP LOG_SUM_EXP
#define REORDERED false
#include "kernel/scan_typed.h"
#undef INDEXED

#define INDEXED true
#define NAME(x) x##_largest_f64
#define START (-INFINITY)
#define STEP LARGEST
#define REORDERED false
#include "kernel/scan_typed.h"
#define NAME(x) x##_smallest_f64
#define START INFINITY
#define STEP SMALLEST
#define REORDERED false
#include "kernel/scan_typed.h"
#undef INDEXED

#undef IS_NAN
#undef T
#undef LOAD
#undef STORE
#define IS_NAN(x) false
#define T int64_t
#define LOAD TN_ISA_NAME(tn_load_i64)
#define STORE TN_ISA_NAME(tn_store_i64)

#define INDEXED false
#define NAME(x) x##_sum_i64
#define START 0
#define STEP WRAPPING_SUM
#define REORDERED true
#include "kernel/scan_typed.h"
#define NAME(x) x##_product_i64
#define START 1
#define STEP WRAPPING_PRODUCT
#define REORDERED true
#include "kernel/scan_typed.h"
#undef INDEXED

#define INDEXED true
#define NAME(x) x##_largest_i64
#define START INT64_MIN
#define STEP LARGEST
#define REORDERED false
#include "kernel/scan_typed.h"
#define NAME(x) x##_smallest_i64
#define START INT64_MAX
#define STEP SMALLEST
#define REORDERED false
#include "kernel/scan_typed.h"
#undef INDEXED

/* ---- the kernel --------------------------------------------------------------------------------- */

static void make_job(scan_job *job, const tn_launch_desc *launch)
{
    const tn_operand *in = tn_input(launch, 0), *values = tn_output(launch, 0);
    const tn_operand *indices = launch->num_outputs > 1 ? tn_output(launch, 1) : NULL;
    const tn_operand *tensors[3] = {in, values, indices};
    tn_axes *axes = &job->axes;
    TN_ISA_NAME(tn_axes_split)
    (axes, tensors, indices ? 3 : 2, (uint64_t)1 << launch->scalars[0].i, true);
    job->in = in->data;
    job->in_dtype = in->dtype;
    job->values = values->data;
    job->dtype = values->dtype;
    job->indices = indices ? indices->data : NULL;
    for (int t = 0; t < axes->num_tensors; t++)
        job->stride[t] = tn_axes_inner_stride(axes->reduced, axes->num_reduced, t);
    int64_t item = (int64_t)tn_dtype_size((tn_dtype)in->dtype);
    int64_t run = tn_axes_inner_size(axes->kept, axes->num_kept);
    if (run >= LANES && job->stride[0] != item &&
        tn_axes_inner_stride(axes->kept, axes->num_kept, 0) == item)
        job->tiles_per_run = (run + COLUMNS - 1) / COLUMNS;
    bool cut = axes->outputs < FEW_ROWS && axes->count >= 2 * SEGMENT;
    job->segment = cut ? SEGMENT : axes->count;
    job->segments = cut ? (axes->count + SEGMENT - 1) / SEGMENT : 1;
}

/* One scan by the type to accumulate in. */
#define SCAN_ALL(RULE)                                                                        \
    (narrow ? scan_##RULE##_f32(&job) : floating ? scan_##RULE##_f64(&job) : scan_##RULE##_i64(&job))
#define SCAN(RULE) (floating ? scan_##RULE##_f64(&job) : scan_##RULE##_i64(&job))

tn_status TN_KERNEL(scan)(const tn_launch_desc *launch)
{
    scan_job job = {0};
    make_job(&job, launch);
    bool narrow = job.dtype == TN_BFLOAT16 || job.dtype == TN_FLOAT16;
    bool floating = narrow || job.dtype == TN_FLOAT32 || job.dtype == TN_FLOAT64;
    switch (launch->op) {
    case TN_OP_cumsum:
        return SCAN_ALL(sum);
    case TN_OP_cumprod:
        return SCAN_ALL(product);
    case TN_OP_cummax:
        return SCAN(largest);
    case TN_OP_cummin:
        return SCAN(smallest);
    default:
        return scan_log_sum_exp(&job);
    }
}

/* ---- complex ------------------------------------------------------------------------------------ */

static void multiply(double *acc, const double *x)
{
    double real = acc[0] * x[0] - acc[1] * x[1];
    acc[1] = acc[0] * x[1] + acc[1] * x[0];
    acc[0] = real;
}

/* The imaginary part goes on from that of the larger number and is not wrapped. */
static void complex_log_add_exp(double *acc, const double *x)
{
    bool larger = x[0] > acc[0];
    const double high[2] = {larger ? x[0] : acc[0], larger ? x[1] : acc[1]};
    const double low[2] = {larger ? acc[0] : x[0], larger ? acc[1] : x[1]};
    if (low[0] == -INFINITY) {
        acc[0] = high[0];
        acc[1] = high[1];
        return;
    }
    double size = exp(low[0] - high[0]);
    double real = size * cos(low[1] - high[1]), imaginary = size * sin(low[1] - high[1]);
    acc[0] = high[0] + log1p(2 * real + size * size) / 2;
    acc[1] = high[1] + atan2(imaginary, 1 + real);
}

static void complex_rows(void *context, int64_t begin, int64_t end)
{
    const scan_job *job = context;
    const tn_axes *axes = &job->axes;
    uint8_t part = job->dtype == TN_COMPLEX128 ? TN_FLOAT64 : TN_FLOAT32;
    int64_t size = (int64_t)tn_dtype_size((tn_dtype)part);
    for (int64_t row = begin; row < end; row++) {
        const char *in = job->in + tn_axes_offset(axes->kept, axes->num_kept, 0, row);
        char *out = job->values + tn_axes_offset(axes->kept, axes->num_kept, 1, row);
        double acc[2] = {job->logarithmic ? -INFINITY : 1, 0}, x[2];
        for (int64_t k = 0; k < axes->count; k++) {
            TN_ISA_NAME(tn_load_f64)(in + k * job->stride[0], size, part, x, 2);
            if (job->logarithmic)
                complex_log_add_exp(acc, x);
            else
                multiply(acc, x);
            TN_ISA_NAME(tn_store_f64)(out + k * job->stride[1], size, part, acc, 2);
        }
    }
}

/* Output and input complex, of one dtype. */
tn_status TN_KERNEL(scan_complex)(const tn_launch_desc *launch)
{
    scan_job job = {.logarithmic = launch->op == TN_OP_logcumsumexp_complex};
    make_job(&job, launch);
    tn_parallel_for(job.axes.outputs, grain(job.axes.count), complex_rows, &job);
    return TN_OK;
}

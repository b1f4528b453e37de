/* Distances between rows by the p-norm, and their gradients: cdist between two sets, pdist within one.
 *
 * All operands are contiguous and fp32 or fp64. A distance is summed in LANES lanes that are joined as a tree;
 * a gradient row is summed over its partners in their order. */
#include <math.h>
#include <string.h>

#include "base/pool.h"
#include "kernel/kernel.h"
#include "tn/op/distance.h"
#include "tn/tile/simd.h"

enum { LANES = TN_LANE_COUNT, GRAIN = 1 << 15 };

typedef enum norm_kind { NORM_0, NORM_1, NORM_2, NORM_MAX, NORM_P } norm_kind;

typedef struct distance_job {
    const void *a, *b; /* rows of `width`; pdist: the same */
    const void *grad, *distance;
    void *out;
    int64_t rows_a, rows_b, width, count; /* per batch; outputs of all batches */
    bool within;                          /* pdist: pairs i < j, row after row */
    norm_kind kind;
    double p;
} distance_job;

static int64_t grain(int64_t work)
{
    return work < GRAIN / 2 ? GRAIN / (work + 1) : 1;
}

static norm_kind kind_of(double p)
{
    return p == 0 ? NORM_0 : p == 1 ? NORM_1 : p == 2 ? NORM_2 : isinf(p) ? NORM_MAX : NORM_P;
}

/* Where pdist keeps the pair (i, i + 1) of n rows. */
static int64_t pair_start(int64_t n, int64_t i)
{
    return i * (2 * n - i - 1) / 2;
}

/* The pair of rows of output `at`, then of the following ones. */
typedef struct pair {
    int64_t i, j; /* rows of a and b, counted over all batches */
} pair;

static pair pair_at(const distance_job *job, int64_t at)
{
    if (!job->within) {
        int64_t i = at / job->rows_b;
        return (pair){i, i / job->rows_a * job->rows_b + at % job->rows_b};
    }
    int64_t i = 0;
    while (pair_start(job->rows_a, i + 1) <= at)
        i++;
    return (pair){i, i + 1 + at - pair_start(job->rows_a, i)};
}

#define T float
#define NAME(x) x##_f32
#define MAGNITUDE tn_absf
#define LARGER tn_maxf
#define POWER powf
#define ROOT sqrtf
#include "kernel/distance_typed.h"
#undef T
#undef NAME
#undef MAGNITUDE
#undef LARGER
#undef POWER
#undef ROOT
#define T double
#define NAME(x) x##_f64
#define MAGNITUDE tn_abs
#define LARGER tn_max
#define POWER pow
#define ROOT sqrt
#include "kernel/distance_typed.h"
#undef T
#undef NAME
#undef MAGNITUDE
#undef LARGER
#undef POWER
#undef ROOT

/* ---- kernels -------------------------------------------------------------------------------------- */

static void set_rows(distance_job *job, const tn_operand *a, const tn_operand *b)
{
    job->a = a->data;
    job->b = b->data;
    job->width = a->sizes[a->ndim - 1];
    job->rows_a = a->sizes[a->ndim - 2];
    job->rows_b = b->sizes[b->ndim - 2];
}

/* Output [.., P, R] and inputs [.., P, M], [.., R, M]; or output [N (N - 1) / 2] and input [N, M]; scalar p. */
tn_status TN_KERNEL(distance)(const tn_launch_desc *launch)
{
    const tn_operand *a = tn_input(launch, 0), *out = tn_output(launch, 0);
    double p = tn_scalar_as_double(launch->scalars[0]);
    distance_job job = {.within = launch->op == TN_OP_pdist, .p = p, .kind = kind_of(p)};
    set_rows(&job, a, job.within ? a : tn_input(launch, 1));
    job.out = out->data;
    job.count = tn_operand_numel(out);
    tn_parallel_for(job.count, grain(job.width), a->dtype == TN_FLOAT64 ? distances_f64 : distances_f32, &job);
    return TN_OK;
}

/* Output the gradient of `a`; inputs grad, a, b (cdist alone), distances; scalar p. */
tn_status TN_KERNEL(distance_backward)(const tn_launch_desc *launch)
{
    bool within = launch->op == TN_OP_pdist_backward;
    const tn_operand *a = tn_input(launch, 1), *out = tn_output(launch, 0);
    double p = tn_scalar_as_double(launch->scalars[0]);
    distance_job job = {.within = within, .p = p, .kind = kind_of(p)};
    set_rows(&job, a, within ? a : tn_input(launch, 2));
    job.grad = tn_input(launch, 0)->data;
    job.distance = tn_input(launch, within ? 2 : 3)->data;
    job.out = out->data;
    int64_t rows = job.width > 0 ? tn_operand_numel(a) / job.width : 0;
    tn_parallel_for(rows, grain(job.width * job.rows_b), a->dtype == TN_FLOAT64 ? gradients_f64 : gradients_f32,
                    &job);
    return TN_OK;
}

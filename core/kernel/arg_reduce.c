/* argmax, argmin and the extrema along a dimension with their indices.
 *
 * Outputs: values (max_dim and min_dim only), indices; input. Scalar 0 is the bit mask of reduced
 * dimensions, seen as one in row-major order; an output keeps them with size 1 or lacks them. The
 * search is arg_reduce_typed.h, the cut of the work reduce.h. */
#include <string.h>

#include "base/pool.h"
#include "kernel/reduce.h"
#include "kernel/rows.h"
#include "tn/op/arg_reduce.h"
#include "tn/tile/simd.h"

enum { BLOCK = TN_REDUCE_BLOCK, LANES = TN_REDUCE_LANES };

typedef struct arg_job {
    tn_reduce_plan plan;
    const tn_operand *values, *indices; /* values may be NULL */
    void *partial_values;               /* [segments][outputs] */
    int64_t *partial_places;
} arg_job;

#define IS_NAN(x) ((x) != (x))
#define T float
#define PLACE int32_t
#define ROW tn_row_f32
#define STORE TN_ISA_NAME(tn_store_f32)
#define NAME(x) x##_max_f32
#define RELATION >
#include "kernel/arg_reduce_typed.h"
#define NAME(x) x##_min_f32
#define RELATION <
#include "kernel/arg_reduce_typed.h"
#undef T
#undef PLACE
#undef ROW
#undef STORE

#define T double
#define PLACE int64_t
#define ROW tn_row_f64
#define STORE TN_ISA_NAME(tn_store_f64)
#define NAME(x) x##_max_f64
#define RELATION >
#include "kernel/arg_reduce_typed.h"
#define NAME(x) x##_min_f64
#define RELATION <
#include "kernel/arg_reduce_typed.h"
#undef T
#undef PLACE
#undef ROW
#undef STORE

#undef IS_NAN
#define IS_NAN(x) false
#define T int64_t
#define PLACE int64_t
#define ROW tn_row_i64
#define STORE TN_ISA_NAME(tn_store_i64)
#define NAME(x) x##_max_i64
#define RELATION >
#include "kernel/arg_reduce_typed.h"
#define NAME(x) x##_min_i64
#define RELATION <
#include "kernel/arg_reduce_typed.h"
#undef T
#undef PLACE
#undef ROW
#undef STORE

tn_status TN_KERNEL(arg_reduce)(const tn_launch_desc *launch)
{
    const tn_operand *in = tn_input(launch, 0);
    const tn_operand *tensors[3] = {in, tn_output(launch, 0), tn_output(launch, 1)};
    bool pair = launch->num_outputs == 2;
    bool largest = launch->op == TN_OP_argmax || launch->op == TN_OP_max_dim;
    arg_job job = {.values = pair ? tensors[1] : NULL, .indices = tensors[pair ? 2 : 1]};
    TN_ISA_NAME(tn_axes_split)(&job.plan.axes, tensors, pair ? 3 : 2, launch->scalars[0].u, true);
    tn_reduce_cut(&job.plan, (int64_t)tn_dtype_size((tn_dtype)in->dtype));
    job.plan.in = in->data;
    job.plan.in_dtype = in->dtype;
    switch (in->dtype) {
    case TN_FLOAT32:
    case TN_BFLOAT16:
    case TN_FLOAT16:
        return largest ? search_max_f32(&job) : search_min_f32(&job);
    case TN_FLOAT64:
        return largest ? search_max_f64(&job) : search_min_f64(&job);
    default:
        return largest ? search_max_i64(&job) : search_min_i64(&job);
    }
}

/* Values that follow from the position alone: ranges, the identity, triangles, repeats. */
#include <math.h>

#include "kernel/convert.h"
#include "kernel/nest.h"
#include "kernel/move_rows.h"

enum { GRAIN = 1 << 14 };

/* ---- ranges ------------------------------------------------------------------------------------ */

typedef struct range_job {
    char *out;
    int64_t stride, steps; /* linspace and logspace: number of points */
    uint8_t dtype;
    double start, step, end, base;
    int64_t start_int, step_int, end_int;
} range_job;

static void store_real(char *p, uint8_t dtype, double value)
{
    void *at = p;
    switch (dtype) {
    case TN_FLOAT64: *(double *)at = value; break;
    case TN_FLOAT32: *(float *)at = (float)value; break;
    case TN_BFLOAT16: *(uint16_t *)at = tn_float_to_bf16((float)value); break;
    case TN_FLOAT16: *(uint16_t *)at = tn_float_to_fp16((float)value); break;
    case TN_COMPLEX64:
        ((float *)at)[0] = (float)value;
        ((float *)at)[1] = 0;
        break;
    case TN_COMPLEX128:
        ((double *)at)[0] = value;
        ((double *)at)[1] = 0;
        break;
    default: break;
    }
}

static void store_int(char *p, uint8_t dtype, int64_t value)
{
    void *at = p;
    switch (dtype) {
    case TN_INT64:
    case TN_UINT64: *(int64_t *)at = value; break;
    case TN_INT32:
    case TN_UINT32: *(int32_t *)at = (int32_t)value; break;
    case TN_INT16:
    case TN_UINT16: *(int16_t *)at = (int16_t)value; break;
    case TN_BOOL: *p = value != 0; break;
    default: *p = (char)value; break;
    }
}

static bool is_integral(uint8_t dtype)
{
    return dtype <= TN_INT64 || dtype == TN_BOOL || (dtype >= TN_UINT16 && dtype <= TN_UINT64);
}

/* fp32 values are start + i * step in double, rounded once, as CPU torch computes them. */
static void range_part(void *context, int64_t begin, int64_t end)
{
    const range_job *job = context;
    if (is_integral(job->dtype)) {
        for (int64_t i = begin; i < end; i++)
            store_int(job->out + i * job->stride, job->dtype,
                      (int64_t)((uint64_t)job->start_int + (uint64_t)i * (uint64_t)job->step_int));
        return;
    }
    for (int64_t i = begin; i < end; i++)
        store_real(job->out + i * job->stride, job->dtype, job->start + (double)i * job->step);
}

/* Output [n]; scalars start, step. */
tn_status TN_KERNEL(range)(const tn_launch_desc *launch)
{
    const tn_operand *out = tn_output(launch, 0);
    range_job job = {.out = out->data,
                     .stride = out->ndim ? out->strides[0] * tn_operand_itemsize(out) : 0,
                     .dtype = out->dtype,
                     .start = tn_scalar_as_double(launch->scalars[0]),
                     .step = tn_scalar_as_double(launch->scalars[1]),
                     .start_int = tn_scalar_as_int(launch->scalars[0]),
                     .step_int = tn_scalar_as_int(launch->scalars[1])};
    tn_parallel_for(tn_operand_numel(out), GRAIN, range_part, &job);
    return TN_OK;
}

/* Points are counted from the nearer end, so that both ends are exact. */
static double point(const range_job *job, int64_t i)
{
    bool narrow = job->dtype == TN_FLOAT32 || job->dtype == TN_FLOAT16 || job->dtype == TN_BFLOAT16;
    bool lower = i < job->steps / 2;
    if (narrow) {
        float step = (float)job->step;
        return lower ? (float)job->start + step * (float)i
                     : (float)job->end - step * (float)(job->steps - i - 1);
    }
    return lower ? job->start + job->step * (double)i
                 : job->end - job->step * (double)(job->steps - i - 1);
}

static void points_part(void *context, int64_t begin, int64_t end)
{
    const range_job *job = context;
    for (int64_t i = begin; i < end; i++) {
        double value = point(job, i);
        if (job->base != 0)
            value = pow(job->base, value);
        char *at = job->out + i * job->stride;
        if (is_integral(job->dtype))
            store_int(at, job->dtype, (int64_t)value);
        else
            store_real(at, job->dtype, value);
    }
}

/* Output [n]; scalars start, end, base (0: linspace). */
tn_status TN_KERNEL(points)(const tn_launch_desc *launch)
{
    const tn_operand *out = tn_output(launch, 0);
    int64_t n = tn_operand_numel(out);
    range_job job = {.out = out->data,
                     .stride = out->ndim ? out->strides[0] * tn_operand_itemsize(out) : 0,
                     .steps = n,
                     .dtype = out->dtype,
                     .start = tn_scalar_as_double(launch->scalars[0]),
                     .end = tn_scalar_as_double(launch->scalars[1]),
                     .base = tn_scalar_as_double(launch->scalars[2])};
    if (is_integral(out->dtype)) {
        job.start = (double)tn_scalar_as_int(launch->scalars[0]);
        job.end = (double)tn_scalar_as_int(launch->scalars[1]);
    }
    if (n == 1)
        job.end = job.start;
    else if (out->dtype == TN_FLOAT64 || out->dtype == TN_COMPLEX128 || is_integral(out->dtype))
        job.step = (job.end - job.start) / (double)(n - 1);
    else
        job.step = ((float)job.end - (float)job.start) / (float)(n - 1);
    tn_parallel_for(n, GRAIN, points_part, &job);
    return TN_OK;
}

/* ---- identity and triangles ---------------------------------------------------------------------- */

/* Output [n, m]. */
tn_status TN_KERNEL(eye)(const tn_launch_desc *launch)
{
    const tn_operand *out = tn_output(launch, 0);
    int64_t itemsize = tn_operand_itemsize(out);
    for (int64_t i = 0; i < out->sizes[0]; i++)
        for (int64_t j = 0; j < out->sizes[1]; j++) {
            char *at = (char *)out->data + (i * out->strides[0] + j * out->strides[1]) * itemsize;
            if (is_integral(out->dtype))
                store_int(at, out->dtype, i == j);
            else if (i == j)
                store_real(at, out->dtype, 1);
            else
                memset(at, 0, (size_t)itemsize);
        }
    return TN_OK;
}

typedef struct triangle_job {
    const tn_operand *out, *in;
    tn_nest matrices; /* operand 0 out, 1 in */
    int64_t diagonal, itemsize;
    bool upper;
} triangle_job;

static void zero_row(char *out, int64_t stride, int64_t n, int64_t size)
{
    if (stride == size)
        memset(out, 0, (size_t)tn_max(0, n * size));
    else
        for (int64_t i = 0; i < n; i++)
            memset(out + i * stride, 0, (size_t)size);
}

static void triangle_rows(void *context, int64_t begin, int64_t end)
{
    const triangle_job *job = context;
    const tn_operand *out = job->out, *in = job->in;
    int rank = out->ndim;
    int64_t rows = out->sizes[rank - 2], columns = out->sizes[rank - 1], size = job->itemsize;
    int64_t out_step = out->strides[rank - 1] * size, in_step = in->strides[rank - 1] * size;
    for (int64_t i = begin; i < end; i++) {
        int64_t matrix = i / rows, row = i % rows;
        char *to = job->matrices.data[0] + tn_nest_offset(&job->matrices, 0, matrix) +
                   row * out->strides[rank - 2] * size;
        const char *from = job->matrices.data[1] + tn_nest_offset(&job->matrices, 1, matrix) +
                           row * in->strides[rank - 2] * size;
        int64_t cut = row + job->diagonal + !job->upper; /* columns below it are the lower triangle */
        cut = tn_max(0, tn_min(columns, cut));
        int64_t kept = job->upper ? columns - cut : cut, first = job->upper ? cut : 0;
        if (to != from)
            tn_row_copy(to + first * out_step, out_step, from + first * in_step, in_step, kept, size);
        zero_row(job->upper ? to : to + cut * out_step, out_step, columns - kept, size);
    }
}

/* Output and input [..., n, m]; scalars diagonal, upper. */
tn_status TN_KERNEL(triangle)(const tn_launch_desc *launch)
{
    triangle_job job = {.out = tn_output(launch, 0),
                        .in = tn_input(launch, 0),
                        .diagonal = launch->scalars[0].i,
                        .upper = launch->scalars[1].i != 0};
    const tn_operand *out = job.out;
    job.itemsize = tn_operand_itemsize(out);
    tn_nest_init(&job.matrices, 2);
    for (int d = out->ndim - 3; d >= 0; d--) {
        int64_t strides[2] = {out->strides[d] * job.itemsize, job.in->strides[d] * job.itemsize};
        tn_nest_push(&job.matrices, out->sizes[d], strides);
    }
    job.matrices.data[0] = out->data;
    job.matrices.data[1] = job.in->data;
    int64_t rows = job.matrices.numel * out->sizes[out->ndim - 2];
    tn_parallel_for(rows, tn_max(1, GRAIN / tn_max(1, out->sizes[out->ndim - 1])), triangle_rows, &job);
    return TN_OK;
}

/* Row-major coordinates of one triangle of [row, col]: output [2, n] contiguous;
 * scalars row, col, offset, upper. */
tn_status TN_KERNEL(triangle_indices)(const tn_launch_desc *launch)
{
    const tn_operand *out = tn_output(launch, 0);
    const tn_scalar *s = launch->scalars;
    int64_t n = out->sizes[1], at = 0, itemsize = tn_operand_itemsize(out);
    for (int64_t row = 0; row < s[0].i; row++) {
        int64_t cut = tn_max(0, tn_min(s[1].i, row + s[2].i + !s[3].i));
        int64_t end = s[3].i ? s[1].i : cut;
        for (int64_t column = s[3].i ? cut : 0; column < end && at < n; column++, at++) {
            store_int((char *)out->data + at * itemsize, out->dtype, row);
            store_int((char *)out->data + (n + at) * itemsize, out->dtype, column);
        }
    }
    return TN_OK;
}

/* ---- repeats ------------------------------------------------------------------------------------- */

/* Index i repeats[i] times: output [total]; input repeats [n]. */
tn_status TN_KERNEL(repeat_interleave)(const tn_launch_desc *launch)
{
    const tn_operand *out = tn_output(launch, 0), *repeats = tn_input(launch, 0);
    int64_t total = tn_operand_numel(out), at = 0, itemsize = tn_operand_itemsize(out);
    bool negative = false;
    for (int64_t i = 0; i < repeats->sizes[0]; i++) {
        const char *p = (const char *)repeats->data + i * repeats->strides[0] * itemsize;
        int64_t count = tn_index_at(p, repeats->dtype);
        negative = negative || count < 0;
        for (int64_t k = 0; k < count && at < total; k++)
            store_int((char *)out->data + at++ * itemsize, out->dtype, i);
    }
    if (negative)
        return tn_fail(TN_ERROR_RUNTIME, "repeats can not be negative");
    return TN_OK;
}

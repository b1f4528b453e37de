/* Cross products along a dimension of three elements.
 *
 * Output and inputs of one shape and dtype; scalar: the dimension. bf16, fp16 and fp32 are computed in fp32,
 * integers exactly modulo their range, complex numbers in fp64. */
#include <string.h>

#include "kernel/nest.h"
#include "kernel/rows.h"
#include "tn/op/cross.h"

enum { CHUNK = 256, GRAIN = 1 << 13 };

typedef struct cross_job {
    tn_nest rows;      /* operands output, a, b */
    int64_t stride[3]; /* bytes along the dimension */
    uint8_t dtype;     /* of a complex operand: that of its parts */
} cross_job;

#define DEFINE_CROSS(NAME, T, LOAD, STORE)                                                         \
    static void NAME(void *context, int64_t n, char *const *data, const int64_t *strides)          \
    {                                                                                              \
        const cross_job *job = context;                                                            \
        T a[3][CHUNK], b[3][CHUNK], out[CHUNK];                                                    \
        for (int64_t from = 0, m; from < n; from += m) {                                           \
            m = tn_min(CHUNK, n - from);                                                           \
            for (int c = 0; c < 3; c++) {                                                          \
                LOAD(data[1] + from * strides[1] + c * job->stride[1], strides[1], job->dtype,     \
                     a[c], m);                                                                     \
                LOAD(data[2] + from * strides[2] + c * job->stride[2], strides[2], job->dtype,     \
                     b[c], m);                                                                     \
            }                                                                                      \
            for (int c = 0; c < 3; c++) {                                                          \
                int d = (c + 1) % 3, e = (c + 2) % 3;                                              \
                for (int64_t i = 0; i < m; i++)                                                    \
                    out[i] = a[d][i] * b[e][i] - a[e][i] * b[d][i];                                \
                STORE(data[0] + from * strides[0] + c * job->stride[0], strides[0], job->dtype,    \
                      out, m);                                                                     \
            }                                                                                      \
        }                                                                                          \
    }

static void load_u64(const char *in, int64_t stride, uint8_t dtype, uint64_t *out, int64_t n)
{
    TN_ISA_NAME(tn_load_i64)(in, stride, dtype, (int64_t *)out, n);
}

static void store_u64(char *out, int64_t stride, uint8_t dtype, const uint64_t *in, int64_t n)
{
    TN_ISA_NAME(tn_store_i64)(out, stride, dtype, (const int64_t *)in, n);
}

DEFINE_CROSS(cross_f32, float, TN_ISA_NAME(tn_load_f32), TN_ISA_NAME(tn_store_f32))
DEFINE_CROSS(cross_f64, double, TN_ISA_NAME(tn_load_f64), TN_ISA_NAME(tn_store_f64))
DEFINE_CROSS(cross_u64, uint64_t, load_u64, store_u64)

static void cross_complex(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    const cross_job *job = context;
    int64_t part = (int64_t)tn_dtype_size((tn_dtype)job->dtype);
    double a[3][2], b[3][2], out[2];
    for (int64_t i = 0; i < n; i++) {
        for (int c = 0; c < 3; c++) {
            const char *x = data[1] + i * strides[1] + c * job->stride[1];
            TN_ISA_NAME(tn_load_f64)(x, part, job->dtype, a[c], 2);
            TN_ISA_NAME(tn_load_f64)
            (data[2] + i * strides[2] + c * job->stride[2], part, job->dtype, b[c], 2);
        }
        for (int c = 0; c < 3; c++) {
            const double *p = a[(c + 1) % 3], *q = b[(c + 2) % 3], *r = a[(c + 2) % 3], *s = b[(c + 1) % 3];
            out[0] = p[0] * q[0] - p[1] * q[1] - (r[0] * s[0] - r[1] * s[1]);
            out[1] = p[0] * q[1] + p[1] * q[0] - (r[0] * s[1] + r[1] * s[0]);
            TN_ISA_NAME(tn_store_f64)
            (data[0] + i * strides[0] + c * job->stride[0], part, job->dtype, out, 2);
        }
    }
}

tn_status TN_KERNEL(cross)(const tn_launch_desc *launch)
{
    const tn_operand *operands[3] = {tn_output(launch, 0), tn_input(launch, 0), tn_input(launch, 1)};
    cross_job job = {.dtype = operands[0]->dtype};
    tn_nest_body body = cross_u64;
    switch (job.dtype) {
    case TN_FLOAT32:
    case TN_BFLOAT16:
    case TN_FLOAT16:
        body = cross_f32;
        break;
    case TN_FLOAT64:
        body = cross_f64;
        break;
    case TN_COMPLEX64:
    case TN_COMPLEX128:
        body = cross_complex;
        job.dtype = job.dtype == TN_COMPLEX64 ? TN_FLOAT32 : TN_FLOAT64;
        break;
    default:
        break;
    }
    tn_nest_init(&job.rows, 3);
    for (int d = operands[0]->ndim - 1; d >= 0; d--) {
        int64_t strides[3];
        for (int k = 0; k < 3; k++)
            strides[k] = tn_broadcast_stride(operands[k], d, operands[0]->ndim);
        if (d == launch->scalars[0].i)
            memcpy(job.stride, strides, sizeof strides);
        else
            tn_nest_push(&job.rows, operands[0]->sizes[d], strides);
    }
    for (int k = 0; k < 3; k++)
        job.rows.data[k] = operands[k]->data;
    tn_nest_run(&job.rows, GRAIN, body, &job);
    return TN_OK;
}

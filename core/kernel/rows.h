/* Rows of elements: loaded into, and stored from, the types that kernels compute in.
 *
 * A row is n elements at a byte stride. Kernels compute in fp32 (fp32, bf16, fp16), fp64 or int64
 * (integers and bool, exact modulo 2^64); a load widens, a store rounds or cuts once. */
#ifndef TN_KERNEL_ROWS_H
#define TN_KERNEL_ROWS_H

#include "kernel/kernel.h"

/* Fills `out` from the row at `in`. */
void TN_ISA_NAME(tn_load_f32)(const char *in, int64_t stride, uint8_t dtype, float *out, int64_t n);
void TN_ISA_NAME(tn_load_f64)(const char *in, int64_t stride, uint8_t dtype, double *out, int64_t n);
void TN_ISA_NAME(tn_load_i64)(const char *in, int64_t stride, uint8_t dtype, int64_t *out,
                              int64_t n);
/* 1 where the element is not zero (NaN is not), else 0. */
void TN_ISA_NAME(tn_load_nonzero)(const char *in, int64_t stride, uint8_t dtype, int64_t *out,
                                  int64_t n);

void TN_ISA_NAME(tn_store_f32)(char *out, int64_t stride, uint8_t dtype, const float *in, int64_t n);
void TN_ISA_NAME(tn_store_f64)(char *out, int64_t stride, uint8_t dtype, const double *in,
                               int64_t n);
void TN_ISA_NAME(tn_store_i64)(char *out, int64_t stride, uint8_t dtype, const int64_t *in,
                               int64_t n);

/* Where the row can be read: in place when it is dense and of the compute type, else in `buffer`. */
static inline const float *tn_row_f32(const char *in, int64_t stride, uint8_t dtype, float *buffer,
                                      int64_t n)
{
    if (dtype == TN_FLOAT32 && (stride == sizeof(float) || n == 1))
        return (const float *)in;
    TN_ISA_NAME(tn_load_f32)(in, stride, dtype, buffer, n);
    return buffer;
}

static inline const double *tn_row_f64(const char *in, int64_t stride, uint8_t dtype,
                                       double *buffer, int64_t n)
{
    if (dtype == TN_FLOAT64 && (stride == sizeof(double) || n == 1))
        return (const double *)in;
    TN_ISA_NAME(tn_load_f64)(in, stride, dtype, buffer, n);
    return buffer;
}

static inline const int64_t *tn_row_i64(const char *in, int64_t stride, uint8_t dtype,
                                        int64_t *buffer, int64_t n)
{
    if (dtype == TN_INT64 && (stride == sizeof(int64_t) || n == 1))
        return (const int64_t *)in;
    TN_ISA_NAME(tn_load_i64)(in, stride, dtype, buffer, n);
    return buffer;
}

/* ---- whole operands by a dense index ---------------------------------------------------------- */

/* Byte offset of the element with row-major index `i`. */
static inline int64_t tn_offset_of(const tn_operand *operand, int64_t i)
{
    int64_t offset = 0;
    for (int d = operand->ndim - 1; d >= 0 && i > 0; d--) {
        offset += i % operand->sizes[d] * operand->strides[d];
        i /= operand->sizes[d];
    }
    return offset * (int64_t)tn_dtype_size((tn_dtype)operand->dtype);
}

#endif

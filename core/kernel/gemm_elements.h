/* Rows of any floating dtype and stride, read as and written from the GEMM's element type. */
#ifndef TN_KERNEL_GEMM_ELEMENTS_H
#define TN_KERNEL_GEMM_ELEMENTS_H

#include "kernel/convert.h"
#include "kernel/gemm.h"
#include "kernel/gemm_vector.h"

static inline const char *element_at(const tn_matrix *matrix, int64_t offset)
{
    return (const char *)matrix->data + offset * (int64_t)tn_dtype_size(matrix->dtype);
}

/* out[i] = matrix element at offset + i * step, i < n. */
static void read_elements(const tn_matrix *matrix, int64_t offset, int64_t step, int64_t n,
                          element *out)
{
    if (matrix->dtype == GEMM_DTYPE) {
        const element *in = (const element *)matrix->data + offset;
        for (int64_t i = 0; i < n; i++)
            out[i] = in[i * step];
        return;
    }
#if !GEMM_DOUBLE
    const uint16_t *in = (const uint16_t *)matrix->data + offset;
    if ((matrix->dtype == TN_BFLOAT16 || matrix->dtype == TN_FLOAT16) && step == 1) {
        tn_half_to_float(in, matrix->dtype, out, n);
        return;
    }
#endif
    for (int64_t i = 0; i < n; i++)
        out[i] = (element)tn_element_as_double(element_at(matrix, offset + i * step), matrix->dtype);
}

static void write_elements(const tn_matrix *matrix, int64_t offset, int64_t step, int64_t n,
                           const element *in)
{
    if (matrix->dtype == GEMM_DTYPE) {
        element *out = (element *)matrix->data + offset;
        for (int64_t i = 0; i < n; i++)
            out[i * step] = in[i];
        return;
    }
#if !GEMM_DOUBLE
    uint16_t *out = (uint16_t *)matrix->data + offset;
    if (step == 1)
        tn_float_to_half(in, matrix->dtype, out, n);
    else
        for (int64_t i = 0; i < n; i++)
            tn_float_to_half(in + i, matrix->dtype, out + i * step, 1);
#endif
}

#endif

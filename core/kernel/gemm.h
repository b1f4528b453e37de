/* Matrix products for kernels: out = alpha a b + beta c, over strided matrices of one batch.
 *
 *     a [M,K], b [K,N], c and out [M,N]
 *
 * Floating inputs are multiplied in fp32 (fp64 for fp64), summed in a fixed order that depends on the
 * shape only, and rounded once at the store; integers wrap around. c may be broadcast by zero strides,
 * may be `out` itself, and is not read where beta is 0. out overlaps neither a nor b. */
#ifndef TN_KERNEL_GEMM_H
#define TN_KERNEL_GEMM_H

#include "kernel/kernel.h"

typedef struct tn_matrix {
    void *data;
    int64_t row, column; /* strides in elements */
    uint8_t dtype;
} tn_matrix;

typedef struct tn_gemm {
    int64_t m, n, k;
    tn_matrix a, b, c, out; /* c.data == NULL: no addend */
    double alpha, beta;
    int64_t alpha_integer, beta_integer; /* of integer products */
} tn_gemm;

/* Uses the pool, unless the caller runs inside it. Scratch slots 0 and 1 are the product's own. */
#define tn_gemm_run TN_ISA_NAME(tn_gemm_run)
tn_status tn_gemm_run(const tn_gemm *gemm);

/* One element type each; tn_gemm_run picks. Not for other kernels. */
#define tn_gemm_float TN_ISA_NAME(tn_gemm_float)
#define tn_gemm_double TN_ISA_NAME(tn_gemm_double)
#define tn_gemm_integer TN_ISA_NAME(tn_gemm_integer)
tn_status tn_gemm_float(const tn_gemm *gemm);
tn_status tn_gemm_double(const tn_gemm *gemm);
tn_status tn_gemm_integer(const tn_gemm *gemm);

static inline tn_matrix tn_matrix_transposed(tn_matrix matrix)
{
    return (tn_matrix){matrix.data, matrix.column, matrix.row, matrix.dtype};
}

/* A contiguous fp32 matrix with `columns` elements from row to row. */
static inline tn_matrix tn_matrix_f32(float *data, int64_t columns)
{
    return (tn_matrix){data, columns, 1, TN_FLOAT32};
}

#endif

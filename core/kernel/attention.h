/* What the attention kernels of both element types share: the problem, and where its matrices lie.
 *
 * Operands are 4-D: q [B,H,Sq,D], k [B,G,Sk,D], v [B,G,Sk,V] with H a multiple of G; the mask
 * broadcasts to [B,H,Sq,Sk] and is added (floating) or selects (bool). A query that may see no key gets
 * zeros, and a logsumexp of -inf. */
#ifndef TN_KERNEL_ATTENTION_H
#define TN_KERNEL_ATTENTION_H

#include "kernel/gemm.h"

typedef struct tn_attention {
    const tn_operand *q, *k, *v, *mask; /* mask: NULL without one */
    const tn_operand *out, *lse;        /* forward: written; backward: read */
    const tn_operand *grad, *dq, *dk, *dv;
    int64_t batch, heads, groups, queries, keys, size, value_size;
    double scale, dropout;
    bool causal;
    uint64_t seed, offset;
    _Atomic(int) status;
} tn_attention;

#define tn_attention_forward_float TN_ISA_NAME(tn_attention_forward_float)
#define tn_attention_forward_double TN_ISA_NAME(tn_attention_forward_double)
#define tn_attention_backward_float TN_ISA_NAME(tn_attention_backward_float)
#define tn_attention_backward_double TN_ISA_NAME(tn_attention_backward_double)
tn_status tn_attention_forward_float(tn_attention *a);
tn_status tn_attention_forward_double(tn_attention *a);
tn_status tn_attention_backward_float(tn_attention *a);
tn_status tn_attention_backward_double(tn_attention *a);

/* [S, columns] of one batch entry and head, from `row` on. */
static inline tn_matrix tn_head_matrix(const tn_operand *operand, int64_t batch, int64_t head,
                                       int64_t row)
{
    const int64_t *strides = operand->strides;
    int64_t offset = batch * strides[0] + head * strides[1] + row * strides[2];
    int64_t column = operand->sizes[3] == 1 ? 1 : strides[3];
    return (tn_matrix){(char *)operand->data + offset * (int64_t)tn_dtype_size(operand->dtype),
                       strides[2], column, operand->dtype};
}

#endif

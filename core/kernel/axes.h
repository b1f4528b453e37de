/* The geometry of an op that works along some dimensions of its first input.
 *
 * The input's dimensions are split into *kept* and *reduced* ones; both lists are outermost first and
 * coalesced. Every axis carries its byte strides in the input and in up to three tensors that share
 * the kept dimensions (outputs, or further inputs of the input's shape). */
#ifndef TN_KERNEL_AXES_H
#define TN_KERNEL_AXES_H

#include "kernel/kernel.h"

enum { TN_AXES_TENSORS = 4 };

typedef struct tn_axis {
    int64_t size;
    int64_t stride[TN_AXES_TENSORS]; /* bytes */
} tn_axis;

typedef struct tn_axes {
    int num_kept, num_reduced, num_tensors;
    int64_t outputs; /* product of the kept sizes */
    int64_t count;   /* product of the reduced sizes */
    tn_axis kept[TN_MAX_DIMS];
    tn_axis reduced[TN_MAX_DIMS];
} tn_axes;

/* tensors[0] gives the sizes. Each other tensor has either its rank or lacks the dimensions of
 * `mask` (bit d: dimension d is reduced); a dimension of size 1 is broadcast. With `ordered` the
 * reduced dimensions keep the row-major order of the input. */
void TN_ISA_NAME(tn_axes_split)(tn_axes *axes, const tn_operand *const *tensors, int num_tensors,
                                uint64_t mask, bool ordered);

/* Byte offset in tensor `t` of linear index `i` of a list of axes. */
static inline int64_t tn_axes_offset(const tn_axis *axes, int count, int t, int64_t i)
{
    int64_t offset = 0;
    for (int d = count - 1; d > 0; d--) {
        offset += i % axes[d].size * axes[d].stride[t];
        i /= axes[d].size;
    }
    return count > 0 ? offset + i * axes[0].stride[t] : 0;
}

/* Size and stride of the innermost axis of a list; 1 and 0 when it is empty. */
static inline int64_t tn_axes_inner_size(const tn_axis *axes, int count)
{
    return count > 0 ? axes[count - 1].size : 1;
}

static inline int64_t tn_axes_inner_stride(const tn_axis *axes, int count, int t)
{
    return count > 0 ? axes[count - 1].stride[t] : 0;
}

/* Bits 0..ndim-1: all dimensions. */
static inline uint64_t tn_axes_all(int ndim)
{
    return ndim >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << ndim) - 1;
}

#endif

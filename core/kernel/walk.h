/* The iteration space of one launch: operands aligned and broadcast to the first one's shape, dimensions
 * of size 1 dropped, ordered and merged where all operands allow it. */
#ifndef TN_KERNEL_WALK_H
#define TN_KERNEL_WALK_H

#include "kernel/kernel.h"

enum { TN_WALK_OPERANDS = 8 };

typedef struct tn_walk {
    int ndim; /* >= 1 */
    int count;
    int64_t sizes[TN_MAX_DIMS];                     /* outermost first */
    int64_t strides[TN_WALK_OPERANDS][TN_MAX_DIMS]; /* bytes; 0 where broadcast */
} tn_walk;

/* `operands[0]` gives the shape. With `reorder`, dimensions are sorted by the first operand's strides, so
 * that memory is walked forwards; without it the order of elements stays row-major. */
void tn_walk_init(tn_walk *walk, const tn_operand *const *operands, int count, bool reorder);

/* Row-major position `row` over all dimensions but the innermost: its index in each of them. */
void tn_walk_seek(const tn_walk *walk, int64_t row, int64_t *out_index);

static inline int64_t tn_walk_offset(const tn_walk *walk, int operand, const int64_t *index)
{
    int64_t offset = 0;
    for (int d = 0; d < walk->ndim - 1; d++)
        offset += index[d] * walk->strides[operand][d];
    return offset;
}

/* The next row; true unless the index wrapped around. */
static inline bool tn_walk_next(const tn_walk *walk, int64_t *index)
{
    for (int d = walk->ndim - 2; d >= 0; d--) {
        if (++index[d] < walk->sizes[d])
            return true;
        index[d] = 0;
    }
    return false;
}

#endif

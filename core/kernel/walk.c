/* Builds iteration spaces: align, broadcast, sort, merge. */
#include "kernel/walk.h"

static int64_t stride_of(const tn_operand *operand, int from_right)
{
    int d = operand->ndim - 1 - from_right;
    if (d < 0 || operand->sizes[d] == 1)
        return 0;
    return operand->strides[d] * (int64_t)tn_dtype_size((tn_dtype)operand->dtype);
}

/* Whether dimension i should lie outside dimension j: the first operand that tells them apart decides. */
static int compare_dims(const tn_walk *walk, int i, int j)
{
    for (int k = 0; k < walk->count; k++) {
        int64_t a = walk->strides[k][i], b = walk->strides[k][j];
        if (a != b && a != 0 && b != 0)
            return a > b ? 1 : -1;
    }
    return 0;
}

static void swap_dims(tn_walk *walk, int i, int j)
{
    int64_t size = walk->sizes[i];
    walk->sizes[i] = walk->sizes[j];
    walk->sizes[j] = size;
    for (int k = 0; k < walk->count; k++) {
        int64_t stride = walk->strides[k][i];
        walk->strides[k][i] = walk->strides[k][j];
        walk->strides[k][j] = stride;
    }
}

static void sort_dims(tn_walk *walk)
{
    for (int i = 1; i < walk->ndim; i++)
        for (int j = i; j > 0 && compare_dims(walk, j - 1, j) < 0; j--)
            swap_dims(walk, j - 1, j);
}

static bool can_merge(const tn_walk *walk, int outer, int inner)
{
    for (int k = 0; k < walk->count; k++)
        if (walk->strides[k][outer] != walk->strides[k][inner] * walk->sizes[inner])
            return false;
    return true;
}

static void merge_dims(tn_walk *walk)
{
    int last = 0;
    for (int d = 1; d < walk->ndim; d++) {
        bool merges = can_merge(walk, last, d);
        int to = merges ? last : ++last;
        walk->sizes[to] = merges ? walk->sizes[last] * walk->sizes[d] : walk->sizes[d];
        for (int k = 0; k < walk->count; k++)
            walk->strides[k][to] = walk->strides[k][d];
    }
    walk->ndim = last + 1;
}

void tn_walk_init(tn_walk *walk, const tn_operand *const *operands, int count, bool reorder)
{
    const tn_operand *shape = operands[0];
    walk->ndim = 0;
    walk->count = count;
    for (int d = 0; d < shape->ndim; d++) {
        if (shape->sizes[d] == 1)
            continue;
        walk->sizes[walk->ndim] = shape->sizes[d];
        for (int k = 0; k < count; k++)
            walk->strides[k][walk->ndim] = stride_of(operands[k], shape->ndim - 1 - d);
        walk->ndim++;
    }
    if (walk->ndim == 0) {
        walk->ndim = 1;
        walk->sizes[0] = 1;
        for (int k = 0; k < count; k++)
            walk->strides[k][0] = (int64_t)tn_dtype_size((tn_dtype)operands[k]->dtype);
        return;
    }
    if (reorder)
        sort_dims(walk);
    merge_dims(walk);
}

void tn_walk_seek(const tn_walk *walk, int64_t row, int64_t *out_index)
{
    for (int d = walk->ndim - 2; d >= 0; d--) {
        out_index[d] = row % walk->sizes[d];
        row /= walk->sizes[d];
    }
}

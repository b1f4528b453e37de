/* A loop nest: operands of one shape, walked together with byte strides, innermost dimension first.
 *
 * Dimensions are dropped when they have one element and merged when every operand steps through both
 * as through one; the order of elements is row-major in the order in which the caller listed the
 * dimensions, unless tn_nest_sort() was asked to put the smallest strides of operand 0 innermost. */
#ifndef TN_KERNEL_NEST_H
#define TN_KERNEL_NEST_H

#include "base/pool.h"
#include "kernel/kernel.h"

enum { TN_NEST_OPERANDS = 4 };

typedef struct tn_nest {
    int ndim, count; /* dimensions; operands */
    int64_t numel;
    int64_t sizes[TN_MAX_DIMS];
    int64_t strides[TN_MAX_DIMS][TN_NEST_OPERANDS];
    char *data[TN_NEST_OPERANDS];
} tn_nest;

/* Works on `n` elements; operand k starts at data[k] and steps by strides[k] bytes. */
typedef void (*tn_nest_body)(void *context, int64_t n, char *const *data, const int64_t *strides);

static inline int64_t tn_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t tn_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t tn_operand_itemsize(const tn_operand *operand)
{
    return (int64_t)tn_dtype_size((tn_dtype)operand->dtype);
}

static inline void tn_nest_init(tn_nest *nest, int count)
{
    nest->ndim = 0;
    nest->count = count;
    nest->numel = 1;
}

/* Adds the next outer dimension, dropping or merging it where that changes nothing. */
static inline void tn_nest_push(tn_nest *nest, int64_t size, const int64_t *strides)
{
    nest->numel *= size;
    if (size == 1)
        return;
    int last = nest->ndim - 1;
    bool merge = last >= 0;
    for (int k = 0; merge && k < nest->count; k++)
        merge = strides[k] == nest->strides[last][k] * nest->sizes[last];
    if (merge) {
        nest->sizes[last] *= size;
        return;
    }
    nest->sizes[nest->ndim] = size;
    for (int k = 0; k < nest->count; k++)
        nest->strides[nest->ndim][k] = strides[k];
    nest->ndim++;
}

/* Byte stride of `operand` along dimension d of a shape of `ndim` dimensions (aligned from the right). */
static inline int64_t tn_broadcast_stride(const tn_operand *operand, int d, int ndim)
{
    int own = d - (ndim - operand->ndim);
    if (own < 0 || operand->sizes[own] == 1)
        return 0;
    return operand->strides[own] * tn_operand_itemsize(operand);
}

/* The nest of all dimensions of operands[0], the others broadcast to it. */
static inline void tn_nest_of(tn_nest *nest, int count, const tn_operand *const *operands)
{
    tn_nest_init(nest, count);
    int ndim = operands[0]->ndim;
    for (int d = ndim - 1; d >= 0; d--) {
        int64_t strides[TN_NEST_OPERANDS] = {0};
        for (int k = 0; k < count; k++)
            strides[k] = tn_broadcast_stride(operands[k], d, ndim);
        tn_nest_push(nest, operands[0]->sizes[d], strides);
    }
    for (int k = 0; k < count; k++)
        nest->data[k] = operands[k]->data;
}

static inline int64_t tn_magnitude(int64_t value)
{
    return value < 0 ? -value : value;
}

/* Smallest strides of operand 0 innermost; only where the order of elements does not matter. */
static inline void tn_nest_sort(tn_nest *nest)
{
    for (int i = 1; i < nest->ndim; i++)
        for (int j = i; j > 0 && tn_magnitude(nest->strides[j][0]) <
                                     tn_magnitude(nest->strides[j - 1][0]);
             j--) {
            int64_t size = nest->sizes[j];
            nest->sizes[j] = nest->sizes[j - 1];
            nest->sizes[j - 1] = size;
            for (int k = 0; k < nest->count; k++) {
                int64_t stride = nest->strides[j][k];
                nest->strides[j][k] = nest->strides[j - 1][k];
                nest->strides[j - 1][k] = stride;
            }
        }
    tn_nest merged = *nest;
    tn_nest_init(&merged, nest->count);
    for (int d = 0; d < nest->ndim; d++)
        tn_nest_push(&merged, nest->sizes[d], nest->strides[d]);
    merged.numel = nest->numel;
    *nest = merged;
}

/* Byte offset of operand k at a row-major position. */
static inline int64_t tn_nest_offset(const tn_nest *nest, int k, int64_t position)
{
    int64_t offset = 0;
    for (int d = 0; d < nest->ndim; d++) {
        int64_t size = nest->sizes[d];
        offset += position % size * nest->strides[d][k];
        position /= size;
    }
    return offset;
}

/* Elements [begin, end) in row-major order. */
static inline void tn_nest_range(const tn_nest *nest, int64_t begin, int64_t end, tn_nest_body body,
                                 void *context)
{
    static const int64_t none[TN_NEST_OPERANDS] = {0};
    int64_t index[TN_MAX_DIMS], rest = begin;
    char *data[TN_NEST_OPERANDS];
    if (begin >= end)
        return;
    for (int k = 0; k < nest->count; k++)
        data[k] = nest->data[k] + tn_nest_offset(nest, k, begin);
    if (nest->ndim == 0) {
        body(context, 1, data, none);
        return;
    }
    for (int d = 0; d < nest->ndim; d++) {
        index[d] = rest % nest->sizes[d];
        rest /= nest->sizes[d];
    }
    for (;;) {
        int64_t n = tn_min(nest->sizes[0] - index[0], end - begin);
        body(context, n, data, nest->strides[0]);
        begin += n;
        if (begin >= end)
            return;
        for (int k = 0; k < nest->count; k++)
            data[k] -= index[0] * nest->strides[0][k];
        index[0] = 0;
        int d = 1;
        for (; index[d] == nest->sizes[d] - 1; d++) {
            for (int k = 0; k < nest->count; k++)
                data[k] -= index[d] * nest->strides[d][k];
            index[d] = 0;
        }
        index[d]++;
        for (int k = 0; k < nest->count; k++)
            data[k] += nest->strides[d][k];
    }
}

typedef struct tn_nest_job {
    const tn_nest *nest;
    tn_nest_body body;
    void *context;
} tn_nest_job;

static inline void tn_nest_run_range(void *context, int64_t begin, int64_t end)
{
    const tn_nest_job *job = context;
    tn_nest_range(job->nest, begin, end, job->body, job->context);
}

static inline void tn_nest_run(const tn_nest *nest, int64_t grain, tn_nest_body body, void *context)
{
    tn_nest_job job = {nest, body, context};
    tn_parallel_for(nest->numel, grain, tn_nest_run_range, &job);
}

/* An element of an index tensor (int64, int32, or uint8/bool read as a number). */
static inline int64_t tn_index_at(const char *data, uint8_t dtype)
{
    if (dtype == TN_INT64)
        return *(const int64_t *)(const void *)data;
    if (dtype == TN_INT32)
        return *(const int32_t *)(const void *)data;
    if (dtype == TN_INT16)
        return *(const int16_t *)(const void *)data;
    return dtype == TN_INT8 ? *(const int8_t *)data : *(const uint8_t *)data;
}

/* The first of the faults that only the data can tell, by position, whatever thread meets it. */
typedef struct tn_fault {
    int64_t position; /* INT64_MAX: none */
} tn_fault;

static inline void tn_fault_at(tn_fault *fault, int64_t position)
{
    int64_t seen = __atomic_load_n(&fault->position, __ATOMIC_RELAXED);
    while (position < seen &&
           !__atomic_compare_exchange_n(&fault->position, &seen, position, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
        continue;
}

#endif

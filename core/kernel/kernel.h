/* What a kernel is: a function of one launch, compiled once per instruction set.
 *
 * Every file in core/kernel/ except the dispatch (dispatch.c) is compiled several times, with TN_ISA
 * defined as baseline, avx2, avx512, ... A kernel named `foo` is defined as
 *
 *     tn_status TN_KERNEL(foo)(const tn_launch_desc *launch)
 *
 * and named `foo` in ops.def; table.c collects them per ISA. Whatever else a kernel file shares with
 * another one is wrapped in TN_ISA_NAME(), so that the copies do not collide.
 *
 * Operands arrive with `data` filled in, outputs first. Kernels validate nothing about shapes (the
 * caller did); what only the data can tell (an index out of range) is clamped or skipped, and the
 * first fault is returned as tn_fail(TN_ERROR_INDEX, ...) after the rest of the work is done. */
#ifndef TN_KERNEL_KERNEL_H
#define TN_KERNEL_KERNEL_H

#include "tn/runtime.h"

typedef tn_status (*tn_kernel_fn)(const tn_launch_desc *launch);

#define TN_PASTE_(a, b) a##_##b
#define TN_PASTE(a, b) TN_PASTE_(a, b)
#define TN_ISA_NAME(name) TN_PASTE(name, TN_ISA)
#define TN_KERNEL(name) TN_ISA_NAME(tn_kernel_##name)

/* Torch allows 64 dimensions; after coalescing few are left. */
enum { TN_MAX_DIMS = 64 };

/* The kernel of `op` for the instruction set in use; never NULL for a valid op. dispatch.c. */
tn_kernel_fn tn_kernel_of(int op);

static inline const tn_operand *tn_output(const tn_launch_desc *launch, int index)
{
    return &launch->operands[index];
}

static inline const tn_operand *tn_input(const tn_launch_desc *launch, int index)
{
    return &launch->operands[launch->num_outputs + index];
}

static inline int64_t tn_operand_numel(const tn_operand *operand)
{
    int64_t numel = 1;
    for (int d = 0; d < operand->ndim; d++)
        numel *= operand->sizes[d];
    return numel;
}

static inline bool tn_operand_is_contiguous(const tn_operand *operand)
{
    int64_t expected = 1;
    for (int d = operand->ndim - 1; d >= 0; d--) {
        if (operand->sizes[d] == 1)
            continue;
        if (operand->strides[d] != expected)
            return false;
        expected *= operand->sizes[d];
    }
    return true;
}

#endif

/* The kernels of one instruction set, indexed by op. Compiled once per ISA. */
#include "kernel/kernel.h"
#include "tn/op.h"

#define OP(name, kernel, outputs, inputs, cost, aten, scalars) \
    tn_status TN_KERNEL(kernel)(const tn_launch_desc *launch);
#include "op/ops.def"
#undef OP

extern const tn_kernel_fn TN_ISA_NAME(tn_kernel_table)[TN_OP_COUNT];

const tn_kernel_fn TN_ISA_NAME(tn_kernel_table)[TN_OP_COUNT] = {
#define OP(name, kernel, outputs, inputs, cost, aten, scalars) [TN_OP_##name] = TN_KERNEL(kernel),
#include "op/ops.def"
#undef OP
};

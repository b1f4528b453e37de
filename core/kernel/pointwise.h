/* Every op whose kernel is `pointwise` in ops.def has one tile operator of its name, defined in one of
 * pointwise_*.c; a missing one fails to link. */
#ifndef TN_KERNEL_POINTWISE_H
#define TN_KERNEL_POINTWISE_H

#include "kernel/kernel.h"
#include "tn/tile/tile.h"

#define TN_TILE_OP(name) TN_ISA_NAME(tn_tile_op_##name)

#define TN_TILE_OPERATOR(name, inputs_, flags_, ...)                                               \
    const tn_tile_op TN_TILE_OP(name) = {.fn = {__VA_ARGS__}, .inputs = (inputs_), .flags = (flags_)}

/* NULL for ops of other kernels. */
extern const tn_tile_op *const TN_ISA_NAME(tn_tile_ops)[];

/* Runs any tile operator over the launch's operands. */
#define tn_pointwise_run TN_ISA_NAME(tn_pointwise_run)
tn_status tn_pointwise_run(const tn_launch_desc *launch, const tn_tile_op *op);

#endif

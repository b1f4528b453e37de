/* One launch over a list of tensors: the inner op's kernel runs once per tensor.
 *
 * Operands: n outputs, then `lists` lists of n inputs each, then inputs that all tensors share. Member i of
 * every list has the same shape and dtype, which is what the op computes in. */
#include "kernel/kernel.h"
#include "tn/op.h"

extern const tn_kernel_fn TN_ISA_NAME(tn_kernel_table)[TN_OP_COUNT];

static const uint16_t inner_ops[TN_OP_COUNT] = {
    [TN_OP_foreach_add] = TN_OP_add,
    [TN_OP_foreach_sub] = TN_OP_sub,
    [TN_OP_foreach_mul] = TN_OP_mul,
    [TN_OP_foreach_div] = TN_OP_div,
    [TN_OP_foreach_maximum] = TN_OP_maximum,
    [TN_OP_foreach_minimum] = TN_OP_minimum,
    [TN_OP_foreach_addcmul] = TN_OP_addcmul,
    [TN_OP_foreach_addcdiv] = TN_OP_addcdiv,
    [TN_OP_foreach_lerp] = TN_OP_lerp,
    [TN_OP_foreach_lerp_scalar] = TN_OP_lerp_scalar,
    [TN_OP_foreach_pow] = TN_OP_pow_scalar,
    [TN_OP_foreach_sqrt] = TN_OP_sqrt,
    [TN_OP_foreach_rsqrt] = TN_OP_rsqrt,
    [TN_OP_foreach_reciprocal] = TN_OP_reciprocal,
    [TN_OP_foreach_neg] = TN_OP_neg,
    [TN_OP_foreach_abs] = TN_OP_abs,
    [TN_OP_foreach_sign] = TN_OP_sign,
    [TN_OP_foreach_exp] = TN_OP_exp,
    [TN_OP_foreach_log] = TN_OP_log,
    [TN_OP_foreach_sigmoid] = TN_OP_sigmoid,
    [TN_OP_foreach_tanh] = TN_OP_tanh,
    [TN_OP_foreach_zero] = TN_OP_fill,
    [TN_OP_foreach_copy] = TN_OP_copy,
};

enum { MAX_INNER_OPERANDS = 6, LEADING_SCALARS = 2 };

tn_status TN_KERNEL(foreach)(const tn_launch_desc *launch)
{
    int n = launch->num_outputs, lists = (int)launch->scalars[1].i;
    int shared = launch->num_operands - n - lists * n;
    bool per_tensor = launch->scalars[0].i != 0;
    tn_launch_desc inner = {.op = inner_ops[launch->op],
                            .num_outputs = 1,
                            .num_operands = (uint16_t)(1 + lists + shared),
                            .num_scalars = (uint16_t)(launch->num_scalars - LEADING_SCALARS),
                            .stream = launch->stream};
    tn_operand operands[MAX_INNER_OPERANDS];
    tn_status status = TN_OK;
    for (int t = 0; t < n; t++) {
        for (int l = 0; l <= lists; l++)
            operands[l] = launch->operands[l * n + t];
        for (int k = 0; k < shared; k++)
            operands[1 + lists + k] = launch->operands[(1 + lists) * n + k];
        inner.operands = operands;
        inner.compute_dtype = operands[0].dtype;
        inner.scalars = launch->scalars + LEADING_SCALARS + (per_tensor ? t : 0);
        if (per_tensor)
            inner.num_scalars = 1;
        tn_status one = TN_ISA_NAME(tn_kernel_table)[inner.op](&inner);
        status = status == TN_OK ? one : status;
    }
    return status;
}

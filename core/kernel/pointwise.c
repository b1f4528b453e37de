/* First slice: contiguous float32 add, mul and relu. */
#include "base/pool.h"
#include "kernel/kernel.h"

tn_status TN_KERNEL(pointwise)(const tn_launch_desc *launch)
{
    const tn_operand *out = tn_output(launch, 0), *a = tn_input(launch, 0);
    const tn_operand *b = launch->num_operands > 2 ? tn_input(launch, 1) : a;
    int64_t n = tn_operand_numel(out);
    float *y = out->data;
    const float *x = a->data;
    float alpha = launch->num_scalars ? (float)tn_scalar_as_double(launch->scalars[0]) : 1;
    for (int64_t i = 0; i < n; i++) {
        float other = b->flags & TN_OPERAND_IMMEDIATE ? (float)tn_scalar_as_double(b->value)
                                                      : ((const float *)b->data)[i];
        y[i] = launch->op == TN_OP_relu  ? (x[i] > 0 ? x[i] : 0)
               : launch->op == TN_OP_mul ? x[i] * other
                                         : x[i] + alpha * other;
    }
    return TN_OK;
}

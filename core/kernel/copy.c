/* First slice: contiguous copies of one dtype, zero fill. */
#include <string.h>

#include "kernel/kernel.h"

tn_status TN_KERNEL(copy)(const tn_launch_desc *launch)
{
    const tn_operand *out = tn_output(launch, 0), *in = tn_input(launch, 0);
    memcpy(out->data, in->data, (size_t)tn_operand_numel(out) * tn_dtype_size(out->dtype));
    return TN_OK;
}

tn_status TN_KERNEL(fill)(const tn_launch_desc *launch)
{
    const tn_operand *out = tn_output(launch, 0);
    memset(out->data, 0, (size_t)tn_operand_numel(out) * tn_dtype_size(out->dtype));
    return TN_OK;
}

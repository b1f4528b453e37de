/* Convolution over fp32, bf16 and fp16, computed in fp32. */
#define GEMM_DOUBLE 0
#include "kernel/conv_body.h"

tn_status tn_conv_forward_float(tn_conv *c)
{
    return forward(c);
}

tn_status tn_conv_input_float(tn_conv *c)
{
    return input_gradient(c);
}

tn_status tn_conv_filter_float(tn_conv *c)
{
    return filter_gradient(c);
}

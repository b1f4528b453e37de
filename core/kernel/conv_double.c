/* Convolution over fp64. */
#define GEMM_DOUBLE 1
#include "kernel/conv_body.h"

tn_status tn_conv_forward_double(tn_conv *c)
{
    return forward(c);
}

tn_status tn_conv_input_double(tn_conv *c)
{
    return input_gradient(c);
}

tn_status tn_conv_filter_double(tn_conv *c)
{
    return filter_gradient(c);
}

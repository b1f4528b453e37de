/* Attention over fp64. */
#define GEMM_DOUBLE 1
#include "kernel/attention_body.h"

tn_status tn_attention_forward_double(tn_attention *a)
{
    return forward(a);
}

tn_status tn_attention_backward_double(tn_attention *a)
{
    return backward(a);
}

/* Attention over fp32, bf16 and fp16, computed in fp32. */
#define GEMM_DOUBLE 0
#include "kernel/attention_body.h"

tn_status tn_attention_forward_float(tn_attention *a)
{
    return forward(a);
}

tn_status tn_attention_backward_float(tn_attention *a)
{
    return backward(a);
}

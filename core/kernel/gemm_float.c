/* Products in fp32: fp32, bf16 and fp16 operands. */
#define GEMM_DOUBLE 0
#include "kernel/gemm_entry.h"

tn_status tn_gemm_float(const tn_gemm *gemm)
{
    return run_gemm(gemm);
}

/* Products in fp64. */
#define GEMM_DOUBLE 1
#include "kernel/gemm_entry.h"

tn_status tn_gemm_double(const tn_gemm *gemm)
{
    return run_gemm(gemm);
}

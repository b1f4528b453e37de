/* Picks the kernel table of the best instruction set that the CPU has and TN_ISA allows. */
#include <stdlib.h>
#include <string.h>

#include "kernel/kernel.h"

extern const tn_kernel_fn tn_kernel_table_baseline[TN_OP_COUNT];
#if defined(__x86_64__)
extern const tn_kernel_fn tn_kernel_table_avx2[TN_OP_COUNT];
extern const tn_kernel_fn tn_kernel_table_avx512[TN_OP_COUNT];
#endif

static const struct {
    const char *name;
    const tn_kernel_fn *table;
} isas[] = {
    {"baseline", tn_kernel_table_baseline},
#if defined(__x86_64__)
    {"avx2", tn_kernel_table_avx2},
    {"avx512", tn_kernel_table_avx512},
#endif
};

static int best_isa(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return 2;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return 1;
#endif
    return 0;
}

static int current_isa(void)
{
    static int isa = -1;
    if (isa >= 0)
        return isa;
    int chosen = best_isa();
    const char *forced = getenv("TN_ISA");
    for (int i = 0; forced && i <= chosen; i++)
        if (strcmp(forced, isas[i].name) == 0)
            chosen = i;
    return isa = chosen;
}

const char *tn_isa_name(void)
{
    return isas[current_isa()].name;
}

tn_kernel_fn tn_kernel_of(int op)
{
    return isas[current_isa()].table[op];
}

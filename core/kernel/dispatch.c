/* Picks the kernel table of the best instruction set that the CPU has and TN_ISA allows. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "kernel/kernel.h"
#include "tn/op.h"
#include "tn/tile/tile.h"

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

enum { ISA_COUNT = sizeof isas / sizeof *isas };

/* In ascending order; a name that TN_ISA may hold and this build or CPU lacks means the best
 * lower. */
static const char *const known[] = {"baseline", "avx2", "avx512", "amx"};

static int best_isa(void)
{
    int best = tn_cpu_get()->avx512 ? 2 : tn_cpu_get()->avx2 ? 1 : 0;
    return best < ISA_COUNT ? best : ISA_COUNT - 1;
}

static int chosen_isa;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void choose(void)
{
    const char *forced = getenv("TN_ISA");
    chosen_isa = best_isa();
    for (int i = 0; forced && i < (int)(sizeof known / sizeof *known); i++)
        if (strcmp(forced, known[i]) == 0 && i < chosen_isa)
            chosen_isa = i;
}

static int current_isa(void)
{
    pthread_once(&once, choose);
    return chosen_isa;
}

const char *tn_isa_name(void)
{
    return isas[current_isa()].name;
}

tn_kernel_fn tn_kernel_of(int op)
{
    return isas[current_isa()].table[op];
}

/* One table of tile operators per ISA; which dtypes they serve is the same in all of them. */
extern const tn_tile_op *const tn_tile_ops_baseline[TN_OP_COUNT];

bool tn_op_supports(int op, tn_dtype compute_dtype)
{
    if ((unsigned)op >= TN_OP_COUNT || tn_dtype_size(compute_dtype) == 0)
        return false;
    const tn_tile_op *tile = tn_tile_ops_baseline[op];
    if (!tile)
        return compute_dtype == TN_FLOAT32;
    switch (compute_dtype) {
    case TN_FLOAT32:
        return tile->fn[TN_TILE_F32];
    case TN_BFLOAT16:
    case TN_FLOAT16:
        return tile->fn[TN_TILE_F32] && !(tile->flags & TN_TILE_FLOAT_ONLY);
    case TN_FLOAT64:
        return tile->fn[TN_TILE_F64];
    case TN_BOOL:
        return tile->fn[TN_TILE_I64] && tile->flags & TN_TILE_BOOL;
    case TN_UINT8:
    case TN_INT8:
    case TN_INT16:
    case TN_INT32:
    case TN_INT64:
        return tile->fn[TN_TILE_I64];
    case TN_UINT16:
    case TN_UINT32:
    case TN_UINT64:
        return tile->fn[TN_TILE_I64] && tile->flags & TN_TILE_UNSIGNED;
    case TN_COMPLEX64:
    case TN_COMPLEX128:
        return tile->fn[TN_TILE_C128];
    default: /* CPU torch serves the others in copies alone */
        return false;
    }
}

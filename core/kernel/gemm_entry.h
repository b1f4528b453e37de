/* Chooses how a floating product runs: as it stands, or transposed (out' = b' a'), and by which body. */
#ifndef TN_KERNEL_GEMM_ENTRY_H
#define TN_KERNEL_GEMM_ENTRY_H

#include "kernel/gemm_body.h"
#include "kernel/gemv_body.h"

enum { SKINNY_ROWS = 16 };

/* Transposed where the result is stored by columns, where the product is a row times a matrix, and
 * where few rows meet a b that is contiguous along k: then b is read in place, as the a of the
 * transposed product, instead of being packed for the sake of those rows. */
static bool runs_transposed(const tn_gemm *g)
{
    if (g->n == 1 || g->m == 1)
        return g->n != 1;
    if (g->out.column != 1 && g->out.row == 1)
        return true;
    return g->m <= SKINNY_ROWS && g->n > 2 * SKINNY_ROWS && g->b.row == 1 && g->b.column != 1 &&
           g->b.dtype == GEMM_DTYPE;
}

static tn_status run_gemm(const tn_gemm *gemm)
{
    if (gemm->m <= 0 || gemm->n <= 0)
        return TN_OK;
    tn_gemm g = *gemm;
    if (runs_transposed(gemm)) {
        g.m = gemm->n;
        g.n = gemm->m;
        g.a = tn_matrix_transposed(gemm->b);
        g.b = tn_matrix_transposed(gemm->a);
        g.c = tn_matrix_transposed(gemm->c);
        g.out = tn_matrix_transposed(gemm->out);
    }
    return is_gemv(&g) ? run_gemv(&g) : run_blocks(&g);
}

#endif

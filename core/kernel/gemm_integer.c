/* Integer products, exact modulo 2^bits of the result's type: sums run in uint64, whose low bits are
 * right for every narrower type. Rows of the result are computed in blocks of columns that stay in L1. */
#include "base/pool.h"
#include "kernel/gemm.h"

enum { COLUMNS = 256, GRAIN_OPERATIONS = 65536 };

static void read_integers(const tn_matrix *matrix, int64_t offset, int64_t step, int64_t n,
                          uint64_t *out)
{
    switch (matrix->dtype) {
#define CASE(tag, type)                                                                           \
    case tag:                                                                                     \
        for (int64_t i = 0; i < n; i++)                                                           \
            out[i] = (uint64_t)((const type *)matrix->data)[offset + i * step];                   \
        break;
        CASE(TN_BOOL, uint8_t)
        CASE(TN_UINT8, uint8_t)
        CASE(TN_INT8, int8_t)
        CASE(TN_INT16, int16_t)
        CASE(TN_INT32, int32_t)
        CASE(TN_INT64, int64_t)
#undef CASE
    }
}

static void write_integers(const tn_matrix *matrix, int64_t offset, int64_t step, int64_t n,
                           const uint64_t *in)
{
    switch (matrix->dtype) {
#define CASE(tag, type)                                                                           \
    case tag:                                                                                     \
        for (int64_t i = 0; i < n; i++)                                                           \
            ((type *)matrix->data)[offset + i * step] = (type)in[i];                              \
        break;
        CASE(TN_UINT8, uint8_t)
        CASE(TN_INT8, int8_t)
        CASE(TN_INT16, int16_t)
        CASE(TN_INT32, int32_t)
        CASE(TN_INT64, int64_t)
#undef CASE
    }
}

static void run_row(const tn_gemm *g, int64_t row, int64_t column, int64_t columns)
{
    uint64_t sums[COLUMNS] = {0}, line[COLUMNS], factor = 0;
    for (int64_t k = 0; k < g->k; k++) {
        read_integers(&g->a, row * g->a.row + k * g->a.column, 1, 1, &factor);
        read_integers(&g->b, k * g->b.row + column * g->b.column, g->b.column, columns, line);
        for (int64_t j = 0; j < columns; j++)
            sums[j] += factor * line[j];
    }
    bool adds = g->c.data && g->beta_integer != 0;
    if (adds)
        read_integers(&g->c, row * g->c.row + column * g->c.column, g->c.column, columns, line);
    for (int64_t j = 0; j < columns; j++)
        sums[j] = (uint64_t)g->alpha_integer * sums[j] +
                  (adds ? (uint64_t)g->beta_integer * line[j] : 0);
    write_integers(&g->out, row * g->out.row + column * g->out.column, g->out.column, columns, sums);
}

static void run_rows(void *context, int64_t begin, int64_t end)
{
    const tn_gemm *g = context;
    for (int64_t row = begin; row < end; row++)
        for (int64_t column = 0; column < g->n; column += COLUMNS)
            run_row(g, row, column, g->n - column < COLUMNS ? g->n - column : COLUMNS);
}

tn_status tn_gemm_integer(const tn_gemm *gemm)
{
    tn_gemm g = *gemm;
    tn_parallel_for(g.m, GRAIN_OPERATIONS / (g.n * (g.k + 1) + 1) + 1, run_rows, &g);
    return TN_OK;
}

/* Microkernels: a tile of rows x (vectors * LANES) sums over k, kept in registers.
 *
 * a is read through two strides, so that it need not be packed; b is a panel of COLUMNS neighbouring
 * elements per k, packed or in place. The tile is written to memory in rows of COLUMNS; gemm_body.h stores it to the
 * result. One function per tile height and width; `micros` is their table. */
#ifndef TN_KERNEL_GEMM_MICRO_H
#define TN_KERNEL_GEMM_MICRO_H

#include "kernel/gemm_vector.h"

typedef void (*micro_fn)(int64_t k, const element *a, int64_t row, int64_t step, const element *b,
                         int64_t b_step, element *tile);

/* Groups of three rows share a pointer: x86 addresses reach row + 0, 1 and 2 strides from it. */
static inline __attribute__((always_inline)) void
multiply(const int rows, const int vectors, int64_t k, const element *a, int64_t row, int64_t step,
         const element *b, int64_t b_step, element *tile)
{
    enum { GROUPS = (ROWS + 2) / 3 };
    vec sums[ROWS][2];
    const element *group[GROUPS];
    GEMM_UNROLL
    for (int i = 0; i < rows; i++) {
        sums[i][0] = sums[i][1] = (vec){0};
        group[i / 3] = a + i / 3 * 3 * row;
    }
    for (int64_t p = 0; p < k; p++) {
        vec b0 = load(b), b1 = vectors > 1 ? load(b + LANES) : b0;
        GEMM_UNROLL
        for (int i = 0; i < rows; i++) {
            vec x = broadcast(group[i / 3][i % 3 * row]);
            sums[i][0] = fma_vec(x, b0, sums[i][0]);
            if (vectors > 1)
                sums[i][1] = fma_vec(x, b1, sums[i][1]);
        }
        GEMM_UNROLL
        for (int g = 0; g < (rows + 2) / 3; g++)
            group[g] += step;
        b += b_step;
    }
    GEMM_UNROLL
    for (int i = 0; i < rows; i++) {
        store(tile + i * COLUMNS, sums[i][0]);
        if (vectors > 1)
            store(tile + i * COLUMNS + LANES, sums[i][1]);
    }
}

#define MICRO(rows, vectors)                                                                      \
    static void micro_##rows##x##vectors(int64_t k, const element *a, int64_t row, int64_t step,  \
                                         const element *b, int64_t b_step, element *tile)         \
    {                                                                                             \
        multiply(rows, vectors, k, a, row, step, b, b_step, tile);                                \
    }
#define MICRO_PAIR(rows) MICRO(rows, 1) MICRO(rows, 2)

MICRO_PAIR(1)
MICRO_PAIR(2)
MICRO_PAIR(3)
MICRO_PAIR(4)
MICRO_PAIR(5)
MICRO_PAIR(6)
#if defined(TN_ISA_AVX512)
MICRO_PAIR(7)
MICRO_PAIR(8)
MICRO_PAIR(9)
MICRO_PAIR(10)
MICRO_PAIR(11)
MICRO_PAIR(12)
MICRO_PAIR(13)
MICRO_PAIR(14)
#endif

#define MICRO_ROW(rows) {micro_##rows##x1, micro_##rows##x2}
static const micro_fn micros[ROWS][2] = {
    MICRO_ROW(1), MICRO_ROW(2),  MICRO_ROW(3),  MICRO_ROW(4),  MICRO_ROW(5),  MICRO_ROW(6),
#if defined(TN_ISA_AVX512)
    MICRO_ROW(7), MICRO_ROW(8),  MICRO_ROW(9),  MICRO_ROW(10), MICRO_ROW(11), MICRO_ROW(12),
    MICRO_ROW(13), MICRO_ROW(14),
#endif
};

#endif

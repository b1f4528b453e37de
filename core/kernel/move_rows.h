/* Moves rows of elements whose type does not matter: one size in bytes, two byte strides. */
#ifndef TN_KERNEL_MOVE_ROWS_H
#define TN_KERNEL_MOVE_ROWS_H

#include <stdint.h>
#include <string.h>

#define TN_ROW_LOOP(bytes)                                                                        \
    for (int64_t i = 0; i < n; i++)                                                               \
        memcpy(out + i * out_stride, in + i * in_stride, bytes)

static inline void tn_row_copy(char *out, int64_t out_stride, const char *in, int64_t in_stride,
                               int64_t n, int64_t size)
{
    if (out_stride == size && in_stride == size && n * size > 16) {
        memcpy(out, in, (size_t)(n * size));
        return;
    }
    switch (size) {
    case 1: TN_ROW_LOOP(1); break;
    case 2: TN_ROW_LOOP(2); break;
    case 4: TN_ROW_LOOP(4); break;
    case 8: TN_ROW_LOOP(8); break;
    default: TN_ROW_LOOP(16); break;
    }
}

#endif

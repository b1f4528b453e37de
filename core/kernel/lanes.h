/* Sums and extrema of dense rows in a fixed order: 16 lanes that take every sixteenth element, then a
 * tree over the lanes. The order depends on the row's length alone. */
#ifndef TN_KERNEL_LANES_H
#define TN_KERNEL_LANES_H

#include "tn/tile/math.h"
#include "tn/tile/simd.h"

#define TN_DEFINE_LANES(T, SUFFIX)                                                                 \
    TN_INLINE T tn_lanes_fold_##SUFFIX(T *lane)                                                    \
    {                                                                                              \
        for (int width = TN_LANE_COUNT / 2; width > 0; width /= 2)                                 \
            for (int l = 0; l < width; l++)                                                        \
                lane[l] += lane[l + width];                                                        \
        return lane[0];                                                                            \
    }                                                                                              \
    TN_INLINE T tn_row_max_##SUFFIX(const T *x, int64_t n)                                         \
    {                                                                                              \
        T lane[TN_LANE_COUNT];                                                                     \
        TN_LANES(l) lane[l] = (T)-INFINITY;                                                        \
        int64_t i = 0;                                                                             \
        for (; i + TN_LANE_COUNT <= n; i += TN_LANE_COUNT)                                         \
            TN_LANES(l) lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];                         \
        for (; i < n; i++)                                                                         \
            lane[0] = x[i] > lane[0] ? x[i] : lane[0];                                             \
        for (int l = 1; l < TN_LANE_COUNT; l++)                                                    \
            lane[0] = lane[l] > lane[0] ? lane[l] : lane[0];                                       \
        return lane[0];                                                                            \
    }
TN_DEFINE_LANES(float, f32)
TN_DEFINE_LANES(double, f64)

/* Declares `out` = sum over i in [0, n) of VALUE, an expression of i, with elements of type T. */
#define TN_LANES_SUM(T, SUFFIX, out, n, VALUE)                                                     \
    T out;                                                                                         \
    {                                                                                              \
        T sum_lane[TN_LANE_COUNT] = {0};                                                           \
        int64_t sum_whole = (n) / TN_LANE_COUNT * TN_LANE_COUNT;                                   \
        for (int64_t sum_block = 0; sum_block < sum_whole; sum_block += TN_LANE_COUNT)             \
            TN_LANES(sum_l)                                                                        \
            {                                                                                      \
                int64_t i = sum_block + sum_l;                                                     \
                sum_lane[sum_l] += (VALUE);                                                        \
            }                                                                                      \
        for (int64_t i = sum_whole; i < (n); i++)                                                  \
            sum_lane[i - sum_whole] += (VALUE);                                                    \
        out = tn_lanes_fold_##SUFFIX(sum_lane);                                                    \
    }

#endif

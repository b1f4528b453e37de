/* Scans and extrema with indices over host memory: every layout and cut agrees with a serial loop, nothing
 * outside the operands is written, threads do not change the bits. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/pool.h"
#include "kernel/kernel.h"
#include "tn/op/arg_reduce.h"
#include "tn/op/scan.h"
#include "tn/op/search.h"

static tn_operand operand(void *data, uint8_t dtype, int ndim, const int64_t *sizes, const int64_t *strides)
{
    return (tn_operand){.data = data, .dtype = dtype, .ndim = ndim, .sizes = sizes, .strides = strides};
}

static tn_status run(int op, int outputs, tn_operand *operands, int count, uint64_t scalar)
{
    tn_scalar scalars[1] = {{.kind = TN_SCALAR_INT, .u = scalar}};
    tn_launch_desc launch = {.op = (uint16_t)op,
                             .num_outputs = (uint16_t)outputs,
                             .num_operands = (uint16_t)count,
                             .num_scalars = 1,
                             .operands = operands,
                             .scalars = scalars};
    return tn_kernel_of(op)(&launch);
}

static float *numbers(int64_t n)
{
    float *x = malloc((size_t)n * sizeof *x);
    uint32_t state = 1;
    for (int64_t i = 0; i < n; i++) {
        state = state * 1664525 + 1013904223;
        x[i] = (float)((int32_t)(state >> 16) % 500 - 250);
    }
    return x;
}

/* Sums along either dimension of a [rows, columns] matrix, in a buffer with a guard on both sides. */
static void check_sums(int64_t rows, int64_t columns, int dim)
{
    int64_t n = rows * columns, sizes[2] = {rows, columns}, strides[2] = {columns, 1}, wrong = 0;
    int64_t step = dim == 0 ? columns : 1, length = dim == 0 ? rows : columns;
    float *x = numbers(n), *guarded = malloc((size_t)(n + 2) * sizeof *x);
    guarded[0] = guarded[n + 1] = -12345;
    tn_operand scan[] = {operand(guarded + 1, TN_FLOAT32, 2, sizes, strides),
                         operand(x, TN_FLOAT32, 2, sizes, strides)};
    TN_CHECK_OK(run(TN_OP_cumsum, 1, scan, 2, (uint64_t)dim));
    for (int64_t i = 0; i < n; i++) {
        int64_t at = dim == 0 ? i / columns : i % columns;
        float before = at > 0 ? guarded[1 + i - step] : 0;
        wrong += at < length && guarded[1 + i] != before + x[i]; /* exact: small integers */
    }
    TN_CHECK_INT(wrong, 0);
    TN_CHECK(guarded[0] == -12345 && guarded[n + 1] == -12345);
    free(x);
    free(guarded);
}

TN_CASE(sums_of_every_cut)
{
    check_sums(1, 1, 1);
    check_sums(7, 5, 0);
    check_sums(7, 5, 1);
    check_sums(19, 300, 1);  /* lanes that are not all there */
    check_sums(24, 1000, 1); /* whole groups of lanes */
    check_sums(300, 130, 0); /* tiles of columns, the last one narrow */
    check_sums(1, 70000, 1); /* segments */
    check_sums(3, 20001, 1);
}

TN_CASE(extrema_name_the_last_of_equals_in_a_scan_and_the_first_in_a_search)
{
    float x[6] = {1, 3, 3, NAN, 5, NAN}, values[6];
    int64_t places[6], sizes[1] = {6}, one[1] = {1};
    tn_operand scan[] = {operand(values, TN_FLOAT32, 1, sizes, one), operand(places, TN_INT64, 1, sizes, one),
                         operand(x, TN_FLOAT32, 1, sizes, one)};
    TN_CHECK_OK(run(TN_OP_cummax, 2, scan, 3, 0));
    const int64_t expected[6] = {0, 1, 2, 3, 3, 5};
    TN_CHECK(memcmp(places, expected, sizeof expected) == 0);
    tn_operand search[] = {operand(places, TN_INT64, 0, NULL, NULL), operand(x, TN_FLOAT32, 1, sizes, one)};
    TN_CHECK_OK(run(TN_OP_argmax, 1, search, 2, 1));
    TN_CHECK_INT(places[0], 3);
    sizes[0] = 3;
    TN_CHECK_OK(run(TN_OP_argmax, 1, search, 2, 1));
    TN_CHECK_INT(places[0], 1);
}

TN_CASE(threads_do_not_change_a_bit)
{
    enum { N = 200000 };
    float *x = numbers(N);
    double *sums[2];
    int64_t sizes[1] = {N}, one[1] = {1}, place[2];
    for (int64_t i = 0; i < N; i++)
        x[i] = x[i] / 7 + (i == 150000 ? 1000.0f : 0);
    for (int t = 0; t < 2; t++) {
        sums[t] = malloc(N * sizeof *sums[t]);
        tn_pool_set_size(t + 1);
        tn_operand scan[] = {operand(sums[t], TN_FLOAT64, 1, sizes, one), operand(x, TN_FLOAT32, 1, sizes, one)};
        tn_operand search[] = {operand(&place[t], TN_INT64, 0, NULL, NULL), scan[1]};
        TN_CHECK_OK(run(TN_OP_cumsum, 1, scan, 2, 0));
        TN_CHECK_OK(run(TN_OP_argmax, 1, search, 2, 1));
    }
    TN_CHECK(memcmp(sums[0], sums[1], N * sizeof *sums[0]) == 0);
    TN_CHECK_INT(place[0], 150000);
    TN_CHECK_INT(place[1], 150000);
    free(x);
    free(sums[0]);
    free(sums[1]);
    tn_pool_shutdown();
}

TN_CASE(rows_sort_by_their_first_difference)
{
    int32_t rows[5][2] = {{2, 1}, {1, 9}, {2, 0}, {1, 9}, {0, 5}};
    int64_t order[5], sizes[2] = {5, 2}, strides[2] = {2, 1}, one[1] = {1};
    tn_operand sort[] = {operand(order, TN_INT64, 1, sizes, one), operand(rows, TN_INT32, 2, sizes, strides)};
    TN_CHECK_OK(run(TN_OP_sort_rows, 1, sort, 2, 0));
    const int64_t expected[5] = {4, 1, 3, 2, 0};
    TN_CHECK(memcmp(order, expected, sizeof expected) == 0);
}

TN_CASES_END

/* Index kernels over host memory: faults leave memory alone, duplicates keep the order of positions, sorts
 * are stable at every size where the method changes. */
#include <stdlib.h>

#include "base/check.h"
#include "kernel/kernel.h"
#include "tn/op/index.h"
#include "tn/op/sort.h"

static tn_operand operand(void *data, uint8_t dtype, int ndim, const int64_t *sizes, const int64_t *strides)
{
    return (tn_operand){.data = data, .dtype = dtype, .ndim = ndim, .sizes = sizes, .strides = strides};
}

static tn_scalar integer(int64_t value)
{
    return (tn_scalar){.kind = TN_SCALAR_INT, .i = value};
}

static tn_status run(int op, int outputs, tn_operand *operands, int count, const tn_scalar *scalars,
                     int scalar_count)
{
    tn_launch_desc launch = {.op = (uint16_t)op,
                             .num_outputs = (uint16_t)outputs,
                             .num_operands = (uint16_t)count,
                             .num_scalars = (uint16_t)scalar_count,
                             .operands = operands,
                             .scalars = scalars};
    return tn_kernel_of(op)(&launch);
}

TN_CASE(bad_indices_are_skipped_and_reported)
{
    float guarded[10] = {-1, -1, 0, 1, 2, 3, 4, 5, -1, -1}, values[6] = {10, 11, 12, 13, 14, 15};
    int64_t index[3] = {2, -4, 7}, rows[2] = {3, 2}, row_steps[2] = {2, 1}, three[1] = {3}, one[1] = {1};
    tn_operand put[] = {operand(guarded + 2, TN_FLOAT32, 2, rows, row_steps),
                        operand(values, TN_FLOAT32, 2, rows, row_steps),
                        operand(index, TN_INT64, 1, three, one)};
    tn_scalar scalars[] = {integer(0), integer(0), integer(0), integer(1), integer(-1), integer(0)};
    TN_CHECK_INT(run(TN_OP_index_put, 1, put, 3, scalars, 6), TN_ERROR_INDEX);
    TN_CHECK(strcmp(tn_last_error()->message,
                    "index -4 is out of bounds for dimension 0 with size 3") == 0);
    const float expected[10] = {-1, -1, 0, 1, 2, 3, 10, 11, -1, -1};
    TN_CHECK(memcmp(guarded, expected, sizeof expected) == 0);
}

TN_CASE(sums_follow_the_order_of_positions)
{
    enum { N = 5000, ROWS = 7 };
    static float values[N], sums[ROWS], expected[ROWS];
    static int64_t index[N];
    for (int i = 0; i < N; i++) {
        values[i] = 1.0f / (float)(i + 1);
        index[i] = i * 31 % ROWS;
        expected[index[i]] += values[i];
    }
    int64_t many[1] = {N}, rows[1] = {ROWS}, one[1] = {1};
    tn_operand put[] = {operand(sums, TN_FLOAT32, 1, rows, one), operand(values, TN_FLOAT32, 1, many, one),
                        operand(index, TN_INT64, 1, many, one)};
    tn_scalar scalars[] = {integer(0), integer(1), integer(0), integer(1), integer(-1), integer(0)};
    TN_CHECK_OK(run(TN_OP_index_put, 1, put, 3, scalars, 6));
    TN_CHECK(memcmp(sums, expected, sizeof sums) == 0);
}

static void check_sort(int64_t n)
{
    int32_t *self = malloc((size_t)n * 4), *values = malloc((size_t)n * 4);
    int64_t *indices = malloc((size_t)n * 8), sizes[1] = {n}, one[1] = {1};
    uint32_t state = 1;
    for (int64_t i = 0; i < n; i++) {
        state = state * 1664525 + 1013904223;
        self[i] = (int32_t)(state >> 16) % 500 - 250;
    }
    tn_operand sort[] = {operand(values, TN_INT32, 1, sizes, one), operand(indices, TN_INT64, 1, sizes, one),
                         operand(self, TN_INT32, 1, sizes, one)};
    tn_scalar scalars[] = {integer(0), integer(0), integer(1), integer(0)};
    TN_CHECK_OK(run(TN_OP_sort, 2, sort, 3, scalars, 4));
    int64_t wrong = 0;
    for (int64_t i = 0; i < n; i++) {
        wrong += values[i] != self[indices[i]];
        wrong += i > 0 && (values[i] > values[i - 1] ||
                           (values[i] == values[i - 1] && indices[i] <= indices[i - 1]));
    }
    TN_CHECK_INT(wrong, 0);
    free(self);
    free(values);
    free(indices);
}

TN_CASE(sorts_are_stable)
{
    static const int64_t sizes[] = {1, 2, 15, 16, 17, 33, 768, 769, 5000, 131072, 131073, 300000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_sort(sizes[i]);
}

TN_CASES_END

/* Copies between layouts, checked element by element. */
#include <stdlib.h>

#include "base/check.h"
#include "kernel/kernel.h"
#include "tn/op/copy.h"

enum { ROWS = 71, COLUMNS = 37 };

static tn_operand operand(void *data, const int64_t *sizes, const int64_t *strides, tn_dtype dtype)
{
    return (tn_operand){.data = data, .sizes = sizes, .strides = strides, .ndim = 2,
                        .dtype = (uint8_t)dtype};
}

static tn_status copy(tn_operand out, tn_operand in)
{
    tn_operand operands[] = {out, in};
    tn_launch_desc launch = {.op = TN_OP_copy, .num_outputs = 1, .num_operands = 2,
                             .compute_dtype = TN_DTYPE_NONE, .operands = operands};
    return tn_kernel_of(TN_OP_copy)(&launch);
}

/* Copies the transpose of a dense matrix of one dtype and compares bytes. */
static void check_transpose(tn_dtype dtype)
{
    size_t size = tn_dtype_size(dtype);
    static unsigned char in[ROWS * COLUMNS * 16], out[ROWS * COLUMNS * 16];
    int64_t sizes[] = {COLUMNS, ROWS}, across[] = {1, COLUMNS}, dense[] = {ROWS, 1};
    for (size_t i = 0; i < sizeof in; i++)
        in[i] = (unsigned char)(i * 7 + i / 251);
    TN_CHECK_OK(copy(operand(out, sizes, dense, dtype), operand(in, sizes, across, dtype)));
    int wrong = 0;
    for (size_t c = 0; c < COLUMNS; c++)
        for (size_t r = 0; r < ROWS; r++)
            wrong += memcmp(out + (c * ROWS + r) * size, in + (r * COLUMNS + c) * size, size) != 0;
    TN_CHECK_INT(wrong, 0);
}

TN_CASE(transposes_of_every_element_size)
{
    tn_dtype dtypes[] = {TN_UINT8, TN_BFLOAT16, TN_FLOAT32, TN_FLOAT64, TN_COMPLEX128};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        check_transpose(dtypes[i]);
}

TN_CASE(conversion_broadcasts_a_row)
{
    float row[COLUMNS];
    static int64_t out[ROWS * COLUMNS];
    int64_t sizes[] = {ROWS, COLUMNS}, repeated[] = {0, 1}, dense[] = {COLUMNS, 1};
    for (int i = 0; i < COLUMNS; i++)
        row[i] = (float)i - 5.75f;
    TN_CHECK_OK(copy(operand(out, sizes, dense, TN_INT64), operand(row, sizes, repeated, TN_FLOAT32)));
    int wrong = 0;
    for (int i = 0; i < ROWS * COLUMNS; i++)
        wrong += out[i] != (int64_t)row[i % COLUMNS];
    TN_CHECK_INT(wrong, 0);
}

TN_CASES_END

/* Every product against a plain triple loop, at sizes around the edges of tiles, panels and blocks. */
#include <stdlib.h>

#include "base/check.h"
#include "base/pool.h"
#include "kernel/convert.h"
#include "kernel/kernel.h"
#include "tn/op/matmul.h"

typedef struct tensor {
    void *memory;
    int64_t sizes[3], strides[3];
    int ndim;
    tn_dtype dtype;
} tensor;

static uint32_t state = 1;

static double next_value(tn_dtype dtype)
{
    state = state * 1664525 + 1013904223;
    double unit = (double)(state >> 8) * 0x1p-24;
    return dtype <= TN_INT64 ? (double)(int)(unit * 20) : unit - 0.5;
}

static void put(const tensor *t, int64_t offset, double value)
{
    switch (t->dtype) {
    case TN_FLOAT64: ((double *)t->memory)[offset] = value; break;
    case TN_BFLOAT16: ((uint16_t *)t->memory)[offset] = tn_float_to_bf16((float)value); break;
    case TN_FLOAT16: ((uint16_t *)t->memory)[offset] = tn_float_to_fp16((float)value); break;
    case TN_INT64: ((int64_t *)t->memory)[offset] = (int64_t)value; break;
    case TN_INT32: ((int32_t *)t->memory)[offset] = (int32_t)value; break;
    case TN_UINT8: ((uint8_t *)t->memory)[offset] = (uint8_t)value; break;
    default: ((float *)t->memory)[offset] = (float)value; break;
    }
}

static double get(const tensor *t, int64_t offset)
{
    if (t->dtype == TN_UINT8)
        return ((const uint8_t *)t->memory)[offset];
    return tn_element_as_double((const char *)t->memory + offset * (int64_t)tn_dtype_size(t->dtype),
                                (uint8_t)t->dtype);
}

/* [batch, rows, columns], stored by rows or by columns, with `pad` unused elements per line. */
static tensor make(tn_dtype dtype, int64_t batch, int64_t rows, int64_t columns, bool by_columns,
                   int64_t pad)
{
    tensor t = {.ndim = 3, .dtype = dtype, .sizes = {batch, rows, columns}};
    int64_t line = (by_columns ? rows : columns) + pad, lines = by_columns ? columns : rows;
    t.strides[0] = line * lines;
    t.strides[1] = by_columns ? 1 : line;
    t.strides[2] = by_columns ? line : 1;
    int64_t elements = batch * line * lines;
    t.memory = malloc((size_t)elements * tn_dtype_size(dtype) + 64);
    for (int64_t i = 0; i < elements; i++)
        put(&t, i, next_value(dtype));
    return t;
}

static tn_operand operand_of(const tensor *t)
{
    return (tn_operand){.data = t->memory, .sizes = t->sizes, .strides = t->strides,
                        .ndim = t->ndim, .dtype = (uint8_t)t->dtype};
}

static double reference(const tensor *a, const tensor *b, int64_t batch, int64_t row, int64_t column)
{
    double sum = 0;
    for (int64_t k = 0; k < a->sizes[2]; k++)
        sum += get(a, batch * a->strides[0] + row * a->strides[1] + k * a->strides[2]) *
               get(b, batch * b->strides[0] + k * b->strides[1] + column * b->strides[2]);
    return sum;
}

/* The fp32 (fp64) sum's rounding, and half a unit in the last place of a narrow result. */
static double tolerance(tn_dtype dtype, int64_t k, double expected)
{
    double depth = 1 + (double)k / 16, size = expected < 0 ? -expected : expected;
    return dtype == TN_FLOAT64    ? 1e-14 * depth
           : dtype == TN_FLOAT32  ? 4e-7 * depth
           : dtype == TN_BFLOAT16 ? 4e-7 * depth + 0x1.01p-8 * size
           : dtype == TN_FLOAT16  ? 4e-7 * depth + 0x1.01p-11 * size
                                  : 0;
}

static void check_product(tn_dtype dtype, int64_t batch, int64_t m, int64_t n, int64_t k, int layout,
                          double beta, double alpha)
{
    tensor a = make(dtype, batch, m, k, layout & 1, layout & 8 ? 3 : 0);
    tensor b = make(dtype, batch, k, n, layout & 2, layout & 8 ? 5 : 0);
    tensor out = make(dtype, batch, m, n, layout & 4, layout & 8 ? 1 : 0);
    tensor c = make(dtype, batch, m, n, false, 0);
    tn_operand operands[4] = {operand_of(&out), operand_of(&a), operand_of(&b), operand_of(&c)};
    tn_scalar scalars[2] = {{.d = beta, .kind = TN_SCALAR_FLOAT}, {.d = alpha, .kind = TN_SCALAR_FLOAT}};
    tn_launch_desc launch = {.op = TN_OP_matmul, .num_outputs = 1, .num_operands = 4,
                             .num_scalars = 2, .operands = operands, .scalars = scalars};
    TN_CHECK_OK(tn_kernel_of(TN_OP_matmul)(&launch));
    int64_t wrong = 0;
    for (int64_t i = 0; i < batch; i++)
        for (int64_t r = 0; r < m; r++)
            for (int64_t s = 0; s < n; s++) {
                double addend = get(&c, i * c.strides[0] + r * c.strides[1] + s * c.strides[2]);
                double expected = alpha * reference(&a, &b, i, r, s) + (beta != 0 ? beta * addend : 0);
                double actual = get(&out, i * out.strides[0] + r * out.strides[1] + s * out.strides[2]);
                double difference = expected - actual;
                if (dtype == TN_UINT8)
                    difference = (double)((int64_t)expected % 256) - actual;
                double allowed = tolerance(dtype, k, expected);
                wrong += !(difference <= allowed && -difference <= allowed);
            }
    if (wrong)
        fprintf(stderr, "%s [%lld] %lld x %lld x %lld layout %d\n", tn_dtype_name(dtype),
                (long long)batch, (long long)m, (long long)n, (long long)k, layout);
    TN_CHECK_INT(wrong, 0);
    free(a.memory);
    free(b.memory);
    free(c.memory);
    free(out.memory);
}

static const tn_dtype dtypes[] = {TN_FLOAT32, TN_FLOAT64, TN_BFLOAT16, TN_FLOAT16,
                                  TN_INT64,   TN_INT32,   TN_UINT8};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

TN_CASE(small_sizes_in_every_layout)
{
    static const int64_t sizes[] = {1, 2, 6, 7, 13, 16, 17, 33};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    for (int t = 0; t < DTYPES; t++)
        for (int i = 0; i < SIZES * SIZES * SIZES; i++)
            check_product(dtypes[t], 1, sizes[i % SIZES], sizes[i / SIZES % SIZES],
                          sizes[i / SIZES / SIZES], i % 16, i % 3,
                          i % 2 ? 1 : 2);
}

TN_CASE(empty_k_scales_the_addend)
{
    for (int t = 0; t < DTYPES; t++)
        check_product(dtypes[t], 2, 5, 19, 0, 0, 3, 1);
}

TN_CASE(tile_and_block_edges)
{
    static const int64_t shapes[][3] = {{83, 129, 40},  {98, 255, 513},  {29, 65, 1030}, {14, 32, 2050},
                                        {2049, 33, 20}, {31, 2049, 17}, {130, 97, 512}, {256, 64, 256}};
    for (int s = 0; s < (int)(sizeof shapes / sizeof *shapes); s++)
        for (int layout = 0; layout < 8; layout++)
            check_product(dtypes[(s + layout) % 4], 1, shapes[s][0], shapes[s][1], shapes[s][2], layout,
                          layout % 2, 1);
}

TN_CASE(vectors_long_and_wide)
{
    for (int layout = 0; layout < 16; layout++) {
        check_product(dtypes[layout % 4], 1, 1, 1, 40000, layout, 1, 1);
        check_product(dtypes[layout % 4], 1, 1500, 1, 1100, layout, 0, 1);
        check_product(dtypes[layout % 4], 1, 1, 1500, 1100, layout, 1, 2);
        check_product(dtypes[layout % 4], 1, 5, 300, 700, layout, 1, 2);
    }
}

TN_CASE(batches)
{
    for (int t = 0; t < DTYPES; t++) {
        check_product(dtypes[t], 37, 8, 9, 10, t, 0, 1);
        check_product(dtypes[t], 3, 65, 40, 33, t, 1, 1);
    }
}

static void product_bits(int threads, float *out, int64_t m, int64_t n, int64_t k, bool by_columns)
{
    tn_pool_set_size(threads);
    state = 7;
    tensor a = make(TN_FLOAT32, 1, m, k, by_columns, 0), b = make(TN_FLOAT32, 1, k, n, !by_columns, 0);
    tensor c = {.memory = out, .sizes = {1, m, n}, .strides = {m * n, n, 1}, .ndim = 3,
                .dtype = TN_FLOAT32};
    tn_operand operands[3] = {operand_of(&c), operand_of(&a), operand_of(&b)};
    tn_launch_desc launch = {.op = TN_OP_matmul, .num_outputs = 1, .num_operands = 3,
                             .operands = operands};
    TN_CHECK_OK(tn_kernel_of(TN_OP_matmul)(&launch));
    free(a.memory);
    free(b.memory);
}

TN_CASE(same_bits_for_any_number_of_threads)
{
    static const int64_t shapes[][3] = {{300, 300, 700}, {1, 1, 100000}, {1, 700, 5000}, {16, 900, 64}};
    for (int s = 0; s < 4; s++) {
        size_t bytes = (size_t)(shapes[s][0] * shapes[s][1]) * sizeof(float);
        float *one = malloc(bytes), *other = malloc(bytes);
        product_bits(1, one, shapes[s][0], shapes[s][1], shapes[s][2], s % 2);
        for (int threads = 2; threads <= 4; threads++) {
            product_bits(threads, other, shapes[s][0], shapes[s][1], shapes[s][2], s % 2);
            TN_CHECK_INT(memcmp(one, other, bytes), 0);
        }
        free(one);
        free(other);
    }
    tn_pool_set_size(2);
}

TN_CASES_END

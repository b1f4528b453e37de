/* Passes over channels, through batch norm's ops: against the plain formula, in both layouts, and
 * the two ways in which a pass runs against each other. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/pool.h"
#include "kernel/kernel.h"
#include "tn/op/batch_norm.h"

typedef struct batch {
    int64_t keys, outer, width;
    bool last, wide;
    void *x, *g, *y, *dx; /* fp32 or fp64 */
    double *mean, *spread;
} batch;

static double at(const batch *b, const void *data, int64_t i)
{
    return b->wide ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

static int64_t count_of(const batch *b)
{
    return b->last ? b->outer : b->outer * b->width;
}

/* The i-th element of a key; channels of one matrix alone where they lie innermost. */
static int64_t index_of(const batch *b, int64_t key, int64_t i)
{
    return b->last ? i * b->width + key : (i / b->width * b->keys + key) * b->width + i % b->width;
}

static void *numbers(const batch *b, uint32_t seed)
{
    int64_t n = b->keys * count_of(b);
    void *data = malloc((size_t)n * (b->wide ? 8 : 4));
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        double value = (double)(seed >> 8) / (1 << 22) + 3;
        if (b->wide)
            ((double *)data)[i] = value;
        else
            ((float *)data)[i] = (float)value;
    }
    return data;
}

static tn_operand operand(void *data, const int64_t *size, bool wide)
{
    static const int64_t one = 1;
    return (tn_operand){.data = data, .sizes = size, .strides = &one, .ndim = 1,
                        .dtype = wide ? TN_FLOAT64 : TN_FLOAT32};
}

static void run(batch *b)
{
    int64_t all = b->keys * count_of(b);
    tn_operand none = {.flags = TN_OPERAND_ABSENT}, x = operand(b->x, &all, b->wide);
    tn_operand mean = operand(b->mean, &b->keys, true), spread = operand(b->spread, &b->keys, true);
    tn_scalar layout[8] = {{.i = b->keys}, {.i = b->outer}, {.i = b->width}, {.i = b->last}};
    layout[7].d = 1e-5;
    tn_operand forward[] = {operand(b->y, &all, b->wide), mean, spread, none, none,
                            x, none, none, none, none};
    tn_launch_desc launch = {.op = TN_OP_batch_norm, .num_outputs = 5, .num_operands = 10,
                             .operands = forward, .num_scalars = 8, .scalars = layout};
    TN_CHECK_OK(tn_kernel_of(launch.op)(&launch));
    tn_operand backward[] = {operand(b->dx, &all, b->wide), none, none, none, none,
                             operand(b->g, &all, b->wide), x, mean, spread, none, none, none, none};
    layout[4].i = 2;
    layout[5].i = 1;
    launch.op = TN_OP_batch_norm_backward;
    launch.num_operands = 13;
    launch.operands = backward;
    launch.num_scalars = 7;
    TN_CHECK_OK(tn_kernel_of(launch.op)(&launch));
}

static batch create(int64_t keys, int64_t outer, int64_t width, bool last, bool wide)
{
    batch b = {.keys = keys, .outer = outer, .width = width, .last = last, .wide = wide};
    b.x = numbers(&b, 1);
    b.g = numbers(&b, 2);
    b.y = numbers(&b, 3);
    b.dx = numbers(&b, 4);
    b.mean = calloc((size_t)keys, sizeof *b.mean);
    b.spread = calloc((size_t)keys, sizeof *b.spread);
    return b;
}

static void destroy(batch *b)
{
    void *all[] = {b->x, b->g, b->y, b->dx, b->mean, b->spread};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static void check_key(const batch *b, int64_t key)
{
    int64_t n = count_of(b), wrong = 0;
    double mean = 0, m2 = 0, sum = 0, dot = 0, tolerance = b->wide ? 1e-12 : 2e-6;
    for (int64_t i = 0; i < n; i++)
        mean += at(b, b->x, index_of(b, key, i)) / (double)n;
    for (int64_t i = 0; i < n; i++) {
        double off = at(b, b->x, index_of(b, key, i)) - mean, g = at(b, b->g, index_of(b, key, i));
        m2 += off * off;
        sum += g;
        dot += g * off;
    }
    double r = 1 / sqrt(m2 / (double)n + 1e-5);
    TN_CHECK(fabs(b->mean[key] - mean) <= 1e-12 * fabs(mean));
    TN_CHECK(fabs(b->spread[key] - r) <= 1e-10 * r);
    for (int64_t i = 0; i < n; i++) {
        int64_t k = index_of(b, key, i);
        double off = at(b, b->x, k) - mean;
        double dx = r * (at(b, b->g, k) - sum / (double)n - off * r * r * dot / (double)n);
        wrong += !(fabs(at(b, b->y, k) - off * r) <= tolerance * (1 + fabs(off * r)));
        wrong += !(fabs(at(b, b->dx, k) - dx) <= 4 * tolerance * (1 + r));
    }
    TN_CHECK_INT(wrong, 0);
}

static void check(int64_t keys, int64_t outer, int64_t width, bool last)
{
    for (int wide = 0; wide < 2; wide++) {
        batch b = create(keys, outer, width, last, wide != 0);
        run(&b);
        for (int64_t key = 0; key < keys; key++)
            check_key(&b, key);
        destroy(&b);
    }
}

TN_CASE(rows)
{
    check(3, 4, 7, false);
    check(20, 3, 49, false);
    check(2, 2, 70000, false);
    check(9, 5, 600, false);
}

TN_CASE(columns)
{
    check(1, 9, 1, true);
    check(3, 1003, 3, true);
    check(64, 33, 64, true);
    check(513, 20, 513, true);
    check(5, 40000, 5, true);
}

/* Eight keys are taken one by one, the first four of them alone in phases. */
TN_CASE(both_ways_give_the_same_bits)
{
    batch eight = create(8, 1, 5000, false, false), four = create(4, 1, 5000, false, false);
    memcpy(four.x, eight.x, 4 * 5000 * sizeof(float));
    memcpy(four.g, eight.g, 4 * 5000 * sizeof(float));
    run(&eight);
    run(&four);
    TN_CHECK(memcmp(four.y, eight.y, 4 * 5000 * sizeof(float)) == 0);
    TN_CHECK(memcmp(four.dx, eight.dx, 4 * 5000 * sizeof(float)) == 0);
    TN_CHECK(memcmp(four.mean, eight.mean, 4 * sizeof(double)) == 0);
    TN_CHECK(memcmp(four.spread, eight.spread, 4 * sizeof(double)) == 0);
    destroy(&eight);
    destroy(&four);
}

TN_CASES_END

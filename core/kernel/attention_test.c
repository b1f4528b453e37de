/* Attention against the plain formula in double, forward and backward, at sizes around the blocks. */
#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/pool.h"
#include "kernel/kernel.h"
#include "tn/op/attention.h"

enum { B = 2 };

/* [B, heads, length, size], all fp32; sizes and strides are filled by tensor(). */
typedef struct tensor {
    float *data;
    int64_t sizes[4], strides[4];
} tensor;

static uint32_t state = 1;

static float next_value(void)
{
    state = state * 1664525 + 1013904223;
    return (float)(state >> 8) * 0x1p-23f - 1;
}

/* Heads beside each other in memory, as a projection to all heads leaves them. */
static tensor make(int64_t heads, int64_t length, int64_t size)
{
    tensor t = {malloc((size_t)(B * heads * length * size) * sizeof(float)),
                {B, heads, length, size},
                {heads * length * size, size, heads * size, 1}};
    for (int64_t i = 0; i < B * heads * length * size; i++)
        t.data[i] = next_value();
    return t;
}

static float *at(const tensor *t, int64_t b, int64_t h, int64_t i, int64_t d)
{
    return t->data + b * t->strides[0] + h * t->strides[1] + i * t->strides[2] + d;
}

static tn_operand operand_of(const tensor *t, int ndim)
{
    return (tn_operand){.data = t->data, .sizes = t->sizes, .strides = t->strides, .ndim = ndim,
                        .dtype = TN_FLOAT32};
}

typedef struct problem {
    tensor q, k, v, out, lse, grad, dq, dk, dv;
    int64_t heads, groups, queries, keys, size, value_size;
    bool causal;
    double dropout;
    uint64_t random[2];
} problem;

static tn_status run(problem *p, bool backward)
{
    static const int64_t none;
    tensor lse = {p->lse.data, {B, p->heads, p->queries, 0}, {p->heads * p->queries, p->queries, 1, 0}};
    tn_operand seed = {.data = &p->random[0], .sizes = &none, .strides = &none, .dtype = TN_INT64};
    tn_operand offset = seed, absent = {.flags = TN_OPERAND_ABSENT};
    offset.data = &p->random[1];
    tn_operand q = operand_of(&p->q, 4), k = operand_of(&p->k, 4), v = operand_of(&p->v, 4);
    tn_operand out = operand_of(&p->out, 4), sums = operand_of(&lse, 3), grad = operand_of(&p->grad, 4);
    tn_operand forward[] = {out, sums, seed, offset, q, k, v, absent};
    tn_operand gradients[] = {operand_of(&p->dq, 4), operand_of(&p->dk, 4), operand_of(&p->dv, 4),
                              q, k, v, absent, grad, out, sums, seed, offset};
    tn_scalar scalars[] = {{.d = 0.3, .kind = TN_SCALAR_FLOAT},
                           {.i = p->causal, .kind = TN_SCALAR_BOOL},
                           {.d = p->dropout, .kind = TN_SCALAR_FLOAT}};
    tn_launch_desc launch = {.op = TN_OP_attention, .num_outputs = 4, .num_operands = 8,
                             .operands = forward, .num_scalars = 3, .scalars = scalars,
                             .rng_seed = 5, .rng_offset = 8};
    if (backward) {
        launch.op = TN_OP_attention_backward;
        launch.num_outputs = 3;
        launch.num_operands = 12;
        launch.operands = gradients;
    }
    return tn_kernel_of(launch.op)(&launch);
}

static problem create(int64_t heads, int64_t groups, int64_t queries, int64_t keys, int64_t size,
                      int64_t value_size, bool causal)
{
    problem p = {.heads = heads, .groups = groups, .queries = queries, .keys = keys, .size = size,
                 .value_size = value_size, .causal = causal};
    p.q = make(heads, queries, size);
    p.k = make(groups, keys, size);
    p.v = make(groups, keys, value_size);
    p.out = make(heads, queries, value_size);
    p.lse = make(heads, queries, 1);
    p.grad = make(heads, queries, value_size);
    p.dq = make(heads, queries, size);
    p.dk = make(groups, keys, size);
    p.dv = make(groups, keys, value_size);
    return p;
}

static void destroy(problem *p)
{
    tensor *all[] = {&p->q, &p->k, &p->v, &p->out, &p->lse, &p->grad, &p->dq, &p->dk, &p->dv};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]->data);
}

static double dot(const float *x, const float *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * y[i];
    return sum;
}

/* The probabilities of one query; those it may not see are 0. */
static void probabilities(const problem *p, int64_t b, int64_t h, int64_t i, double *out)
{
    int64_t group = h / (p->heads / p->groups);
    double sum = 0;
    for (int64_t j = 0; j < p->keys; j++) {
        bool hidden = p->causal && j > i;
        out[j] = hidden ? 0 : exp(0.3 * dot(at(&p->q, b, h, i, 0), at(&p->k, b, group, j, 0), p->size));
        sum += out[j];
    }
    for (int64_t j = 0; j < p->keys; j++)
        out[j] /= sum;
}

static void check_near(const tensor *t, const double *expected)
{
    int64_t wrong = 0, i = 0;
    for (int64_t b = 0; b < B; b++)
        for (int64_t h = 0; h < t->sizes[1]; h++)
            for (int64_t r = 0; r < t->sizes[2]; r++)
                for (int64_t d = 0; d < t->sizes[3]; d++, i++)
                    wrong += !(fabs(*at(t, b, h, r, d) - expected[i]) <= 2e-5 * (1 + fabs(expected[i])));
    TN_CHECK_INT(wrong, 0);
}

static void check(int64_t heads, int64_t groups, int64_t queries, int64_t keys, int64_t size,
                  int64_t value_size, bool causal)
{
    problem p = create(heads, groups, queries, keys, size, value_size, causal);
    TN_CHECK_OK(run(&p, false));
    TN_CHECK_OK(run(&p, true));
    double *out = calloc((size_t)(B * heads * queries * value_size), sizeof *out);
    double *dq = calloc((size_t)(B * heads * queries * size), sizeof *dq);
    double *dk = calloc((size_t)(B * groups * keys * size), sizeof *dk);
    double *dv = calloc((size_t)(B * groups * keys * value_size), sizeof *dv);
    double *weight = calloc((size_t)keys, sizeof *weight), *slope = calloc((size_t)keys, sizeof *slope);
    for (int64_t row = 0; row < B * heads * queries; row++) {
        int64_t b = row / queries / heads, h = row / queries % heads, i = row % queries;
        int64_t group = h / (heads / groups), shared = (b * groups + group) * keys;
        const float *grad = at(&p.grad, b, h, i, 0);
        double mean = 0;
        probabilities(&p, b, h, i, weight);
        for (int64_t j = 0; j < keys; j++) {
            slope[j] = dot(grad, at(&p.v, b, group, j, 0), value_size);
            mean += weight[j] * slope[j];
            for (int64_t d = 0; d < value_size; d++) {
                out[row * value_size + d] += weight[j] * *at(&p.v, b, group, j, d);
                dv[(shared + j) * value_size + d] += weight[j] * grad[d];
            }
        }
        for (int64_t j = 0; j < keys; j++) {
            double s = 0.3 * weight[j] * (slope[j] - mean);
            for (int64_t d = 0; d < size; d++) {
                dq[row * size + d] += s * *at(&p.k, b, group, j, d);
                dk[(shared + j) * size + d] += s * *at(&p.q, b, h, i, d);
            }
        }
    }
    check_near(&p.out, out);
    check_near(&p.dq, dq);
    check_near(&p.dk, dk);
    check_near(&p.dv, dv);
    free(out);
    free(dq);
    free(dk);
    free(dv);
    free(weight);
    free(slope);
    destroy(&p);
}

TN_CASE(block_edges)
{
    static const int64_t lengths[][2] = {{1, 1}, {63, 64}, {64, 65}, {65, 257}, {130, 256}, {5, 300}};
    for (int i = 0; i < 6; i++) {
        check(2, 2, lengths[i][0], lengths[i][1], 16, 16, false);
        check(2, 2, lengths[i][0], lengths[i][1], 33, 7, true);
    }
}

TN_CASE(heads_share_keys)
{
    check(6, 2, 70, 40, 8, 8, true);
    check(4, 1, 10, 90, 64, 64, false);
}

TN_CASE(dropout_drops_the_same_scores_backward)
{
    problem p = create(2, 2, 70, 300, 8, 8, false);
    p.dropout = 0.25;
    TN_CHECK_OK(run(&p, false));
    TN_CHECK_INT(p.random[0], 5);
    TN_CHECK_OK(run(&p, true));
    /* out is linear in v for fixed weights: sum(grad * out) = sum(dv * v). */
    double left = dot(p.grad.data, p.out.data, B * 2 * 70 * 8);
    double right = dot(p.dv.data, p.v.data, B * 2 * 300 * 8);
    TN_CHECK(fabs(left - right) <= 1e-4 * (1 + fabs(left)));
    destroy(&p);
}

TN_CASE(same_bits_for_any_number_of_threads)
{
    problem p = create(4, 2, 200, 300, 32, 32, true);
    size_t bytes = (size_t)(B * 2 * 300 * 32) * sizeof(float);
    float *first = malloc(bytes);
    for (int threads = 1; threads <= 4; threads++) {
        tn_pool_set_size(threads);
        TN_CHECK_OK(run(&p, false));
        TN_CHECK_OK(run(&p, true));
        if (threads == 1)
            memcpy(first, p.dk.data, bytes);
        TN_CHECK_INT(memcmp(first, p.dk.data, bytes), 0);
    }
    free(first);
    destroy(&p);
}

TN_CASES_END

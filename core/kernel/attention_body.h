/* Attention in one element type (GEMM_DOUBLE): `real` is fp32, for fp32, bf16 and fp16, or fp64.
 *
 * Scores are kept transposed, [keys, queries]: the softmax then runs along vectors of queries without
 * sums across lanes, and k and v are read by the products as they lie in memory. Work is cut into
 * blocks of QUERIES queries; keys pass in blocks of KEYS. All cuts follow from the shape. */
#ifndef TN_KERNEL_ATTENTION_BODY_H
#define TN_KERNEL_ATTENTION_BODY_H

#include <math.h>
#include <string.h>

#include "base/pool.h"
#include "kernel/attention.h"
#include "kernel/gemm_elements.h"
#include "kernel/philox.h"
#include "tn/tile/math.h"

typedef element real;
#define REAL_DTYPE GEMM_DTYPE

enum { QUERIES = 64, KEYS = 256, SLOT = 2 };
enum { GRAIN_FLOPS = 2000000 };

/* One block of scores: keys [key, key + keys) by queries [query, query + queries). */
typedef struct block {
    const tn_attention *a;
    int64_t batch, head, query, queries, key, keys;
} block;

static inline real exp_real(real x)
{
#if GEMM_DOUBLE
    return exp(x);
#else
    return tn_exp_f32(x);
#endif
}

static tn_matrix plain(real *data, int64_t columns)
{
    return (tn_matrix){data, columns, 1, REAL_DTYPE};
}

static void multiply(const tn_attention *a, int64_t m, int64_t n, int64_t k, tn_matrix left,
                     tn_matrix right, tn_matrix out, double alpha, double beta)
{
    tn_gemm g = {.m = m, .n = n, .k = k, .a = left, .b = right, .c = out, .out = out,
                 .alpha = alpha, .beta = beta};
    if (tn_gemm_run(&g) != TN_OK)
        ((tn_attention *)a)->status = TN_ERROR_OUT_OF_MEMORY;
}

static int64_t group_of(const tn_attention *a, int64_t head)
{
    return head / (a->heads / a->groups);
}

/* Keys that a block of queries can see. */
static int64_t visible_keys(const tn_attention *a, int64_t query, int64_t queries)
{
    return a->causal && query + queries < a->keys ? query + queries : a->keys;
}

/* ---- masks and dropout ----------------------------------------------------------------------- */

static void apply_causal(const block *b, real *scores)
{
    for (int64_t i = 0; i < b->keys; i++) {
        int64_t hidden = b->key + i - b->query; /* queries before the key */
        for (int64_t j = 0; j < hidden && j < b->queries; j++)
            scores[i * QUERIES + j] = -(real)INFINITY;
    }
}

static int64_t mask_stride(const tn_operand *mask, int from_right)
{
    int d = mask->ndim - from_right;
    return d < 0 || mask->sizes[d] == 1 ? 0 : mask->strides[d];
}

static void apply_mask(const block *b, real *scores)
{
    const tn_operand *mask = b->a->mask;
    int64_t by_query = mask_stride(mask, 2), by_key = mask_stride(mask, 1);
    int64_t first = b->batch * mask_stride(mask, 4) + b->head * mask_stride(mask, 3) +
                    b->query * by_query + b->key * by_key;
    for (int64_t i = 0; i < b->keys; i++) {
        real *row = scores + i * QUERIES;
        int64_t at = first + i * by_key;
        if (mask->dtype == TN_BOOL) {
            const uint8_t *seen = (const uint8_t *)mask->data + at;
            for (int64_t j = 0; j < b->queries; j++)
                row[j] = seen[j * by_query] ? row[j] : -(real)INFINITY;
        } else if (mask->dtype == REAL_DTYPE) {
            const real *bias = (const real *)mask->data + at;
            for (int64_t j = 0; j < b->queries; j++)
                row[j] += bias[j * by_query];
        } else {
            const char *bias = mask->data;
            int64_t bytes = (int64_t)tn_dtype_size(mask->dtype);
            for (int64_t j = 0; j < b->queries; j++)
                row[j] += (real)tn_element_as_double(bias + (at + j * by_query) * bytes, mask->dtype);
        }
    }
}

/* scores = scale k q' with what the queries may not see at -inf. */
static void compute_scores(const block *b, real *scores)
{
    const tn_attention *a = b->a;
    tn_matrix q = tn_head_matrix(a->q, b->batch, b->head, b->query);
    tn_matrix k = tn_head_matrix(a->k, b->batch, group_of(a, b->head), b->key);
    multiply(a, b->keys, b->queries, a->size, k, tn_matrix_transposed(q), plain(scores, QUERIES),
             a->scale, 0);
    if (a->mask)
        apply_mask(b, scores);
    if (a->causal && b->key + b->keys > b->query)
        apply_causal(b, scores);
}

/* factors = 0 with probability p, else 1 / (1 - p): a number of its own for every score, whatever the
 * blocks are. */
static void draw_dropout(const block *b, real *factors)
{
    enum { WORDS = 4 * TN_PHILOX_ROW };
    const tn_attention *a = b->a;
    uint32_t words[WORDS];
    int64_t row_groups = (a->keys + 3) / 4;
    real kept = a->dropout < 1 ? (real)(1 / (1 - a->dropout)) : 0;
    for (int64_t j = 0; j < b->queries; j++) {
        int64_t row = (b->batch * a->heads + b->head) * a->queries + b->query + j;
        uint64_t group = (uint64_t)(row * row_groups + b->key / 4);
        for (int64_t i = 0; i < b->keys; i++) {
            if (i % WORDS == 0)
                tn_philox_row(a->seed, a->offset, group + (uint64_t)i / 4, words);
            factors[i * QUERIES + j] = (double)tn_uniform24(words[i % WORDS]) < a->dropout ? 0 : kept;
        }
    }
}

static void scale_by(const block *b, real *values, const real *factors)
{
    for (int64_t i = 0; i < b->keys; i++)
        for (int64_t j = 0; j < b->queries; j++)
            values[i * QUERIES + j] *= factors[i * QUERIES + j];
}

/* ---- forward ---------------------------------------------------------------------------------- */

/* Running softmax of one block of queries. */
typedef struct softmax {
    real largest[QUERIES], sum[QUERIES];
} softmax;

/* scores -> exp(scores - largest); sum and the rows of `weighted` are brought to the new largest. */
static void accumulate_softmax(const block *b, softmax *s, real *scores, real *weighted)
{
    int64_t width = b->a->value_size;
    real largest[QUERIES], base[QUERIES];
    memcpy(largest, s->largest, sizeof largest);
    for (int64_t i = 0; i < b->keys; i++)
        for (int64_t j = 0; j < b->queries; j++)
            largest[j] = scores[i * QUERIES + j] > largest[j] ? scores[i * QUERIES + j] : largest[j];
    for (int64_t j = 0; j < b->queries; j++) {
        base[j] = largest[j] == -(real)INFINITY ? 0 : largest[j];
        real shrink = b->key == 0 ? 0 : exp_real(s->largest[j] - base[j]);
        s->sum[j] *= shrink;
        s->largest[j] = largest[j];
        for (int64_t d = 0; b->key > 0 && shrink != 1 && d < width; d++)
            weighted[j * width + d] *= shrink;
    }
    for (int64_t i = 0; i < b->keys; i++) {
        real *row = scores + i * QUERIES;
        for (int64_t j = 0; j < b->queries; j++)
            row[j] = exp_real(row[j] - base[j]);
        for (int64_t j = 0; j < b->queries; j++)
            s->sum[j] += row[j];
    }
}

static void store_output(const block *b, const softmax *s, real *weighted)
{
    const tn_attention *a = b->a;
    tn_matrix out = tn_head_matrix(a->out, b->batch, b->head, b->query);
    real *lse = (real *)a->lse->data + (b->batch * a->heads + b->head) * a->queries + b->query;
    for (int64_t j = 0; j < b->queries; j++) {
        real *row = weighted + j * a->value_size;
        real inverse = s->sum[j] == 0 ? 0 : 1 / s->sum[j];
        for (int64_t d = 0; d < a->value_size; d++)
            row[d] = s->sum[j] == 0 ? 0 : row[d] * inverse;
        write_elements(&out, j * out.row, out.column, a->value_size, row);
        lse[j] = (real)((double)s->largest[j] + log((double)s->sum[j]));
    }
}

static void run_queries(const tn_attention *a, int64_t item, real *scratch)
{
    int64_t blocks = (a->queries - 1) / QUERIES + 1, query = item % blocks * QUERIES;
    int64_t head = item / blocks % a->heads;
    block b = {a, item / blocks / a->heads, head, query, 0, 0, 0};
    b.queries = a->queries - query < QUERIES ? a->queries - query : QUERIES;
    real *scores = scratch, *factors = scores + KEYS * QUERIES, *weighted = factors + KEYS * QUERIES;
    softmax s;
    for (int j = 0; j < QUERIES; j++) {
        s.largest[j] = -(real)INFINITY;
        s.sum[j] = 0;
    }
    memset(weighted, 0, (size_t)(QUERIES * a->value_size) * sizeof *weighted);
    int64_t keys = visible_keys(a, query, b.queries);
    for (; b.key < keys; b.key += KEYS) {
        b.keys = keys - b.key < KEYS ? keys - b.key : KEYS;
        compute_scores(&b, scores);
        accumulate_softmax(&b, &s, scores, weighted);
        if (a->dropout > 0) {
            draw_dropout(&b, factors);
            scale_by(&b, scores, factors);
        }
        multiply(a, b.queries, a->value_size, b.keys, tn_matrix_transposed(plain(scores, QUERIES)),
                 tn_head_matrix(a->v, b.batch, group_of(a, head), b.key),
                 plain(weighted, a->value_size), 1, 1);
    }
    store_output(&b, &s, weighted);
}

static void run_forward(void *context, int64_t begin, int64_t end)
{
    tn_attention *a = context;
    size_t elements = (size_t)(2 * KEYS * QUERIES + QUERIES * a->value_size);
    real *scratch = tn_scratch(SLOT, elements * sizeof(real));
    if (!scratch) {
        a->status = TN_ERROR_OUT_OF_MEMORY;
        return;
    }
    for (int64_t item = begin; item < end; item++)
        run_queries(a, item, scratch);
}

static tn_status finish(const tn_attention *a)
{
    return a->status == TN_OK ? TN_OK
                              : tn_fail(TN_ERROR_OUT_OF_MEMORY,
                                        "attention: out of host memory for scratch");
}

static int64_t grain_of(const tn_attention *a, int64_t queries)
{
    int64_t flops = 4 * queries * a->keys * (a->size + a->value_size) + 1;
    return GRAIN_FLOPS / flops + 1;
}

static tn_status forward(tn_attention *a)
{
    int64_t blocks = a->queries > 0 ? (a->queries - 1) / QUERIES + 1 : 0;
    int64_t queries = a->queries < QUERIES ? a->queries : QUERIES;
    tn_parallel_for(a->batch * a->heads * blocks, grain_of(a, queries), run_forward, a);
    return finish(a);
}

/* ---- backward --------------------------------------------------------------------------------- */

/* Scratch of one group of heads that share k and v: their gradients are summed here. */
typedef struct group {
    real *scores, *slopes, *factors; /* [KEYS, QUERIES] */
    real *dk, *dv;                   /* [keys, size], [keys, value_size] */
    real *dq;                        /* [QUERIES, size] */
} group;

static real row_dot(const tn_matrix *x, const tn_matrix *y, int64_t row, int64_t n)
{
    enum { PIECE = 64 };
    real a[PIECE], b[PIECE], sum = 0;
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t piece = n - i < PIECE ? n - i : PIECE;
        read_elements(x, row * x->row + i * x->column, x->column, piece, a);
        read_elements(y, row * y->row + i * y->column, y->column, piece, b);
        for (int64_t j = 0; j < piece; j++)
            sum += a[j] * b[j];
    }
    return sum;
}

/* Per query: sum of grad * out, and the logsumexp, +inf where nothing was seen, so that exp gives 0. */
static void load_rows(const block *b, real *dots, real *lse)
{
    const tn_attention *a = b->a;
    tn_matrix grad = tn_head_matrix(a->grad, b->batch, b->head, b->query);
    tn_matrix out = tn_head_matrix(a->out, b->batch, b->head, b->query);
    const real *stored = (const real *)a->lse->data +
                         (b->batch * a->heads + b->head) * a->queries + b->query;
    for (int64_t j = 0; j < b->queries; j++) {
        dots[j] = row_dot(&grad, &out, j, a->value_size);
        lse[j] = stored[j] == -(real)INFINITY ? (real)INFINITY : stored[j];
    }
}

/* scores -> probabilities; slopes -> gradient of the scores. */
static void differentiate(const block *b, group *g, const real *dots, const real *lse)
{
    bool drops = b->a->dropout > 0;
    if (drops) {
        draw_dropout(b, g->factors);
        scale_by(b, g->slopes, g->factors);
    }
    for (int64_t i = 0; i < b->keys; i++) {
        real *p = g->scores + i * QUERIES, *slope = g->slopes + i * QUERIES;
        for (int64_t j = 0; j < b->queries; j++)
            p[j] = exp_real(p[j] - lse[j]);
        for (int64_t j = 0; j < b->queries; j++)
            slope[j] = p[j] * (slope[j] - dots[j]);
    }
    if (drops)
        scale_by(b, g->scores, g->factors);
}

static void run_gradient_block(const block *b, group *g, const real *dots, const real *lse)
{
    const tn_attention *a = b->a;
    int64_t shared = group_of(a, b->head);
    tn_matrix q = tn_head_matrix(a->q, b->batch, b->head, b->query);
    tn_matrix k = tn_head_matrix(a->k, b->batch, shared, b->key);
    tn_matrix v = tn_head_matrix(a->v, b->batch, shared, b->key);
    tn_matrix grad = tn_head_matrix(a->grad, b->batch, b->head, b->query);
    tn_matrix scores = plain(g->scores, QUERIES), slopes = plain(g->slopes, QUERIES);
    compute_scores(b, g->scores);
    multiply(a, b->keys, b->queries, a->value_size, v, tn_matrix_transposed(grad), slopes, 1, 0);
    differentiate(b, g, dots, lse);
    multiply(a, b->keys, a->value_size, b->queries, scores, grad,
             plain(g->dv + b->key * a->value_size, a->value_size), 1, 1);
    multiply(a, b->keys, a->size, b->queries, slopes, q, plain(g->dk + b->key * a->size, a->size),
             a->scale, 1);
    multiply(a, b->queries, a->size, b->keys, tn_matrix_transposed(slopes), k, plain(g->dq, a->size),
             a->scale, 1);
}

static void store_rows(const tn_operand *to, int64_t batch, int64_t head, int64_t row, int64_t rows,
                       const real *from, int64_t columns)
{
    tn_matrix matrix = tn_head_matrix(to, batch, head, row);
    for (int64_t i = 0; i < rows; i++)
        write_elements(&matrix, i * matrix.row, matrix.column, columns, from + i * columns);
}

static void run_head(const tn_attention *a, int64_t batch, int64_t head, group *g)
{
    real dots[QUERIES], lse[QUERIES];
    block b = {.a = a, .batch = batch, .head = head};
    for (b.query = 0; b.query < a->queries; b.query += QUERIES) {
        b.queries = a->queries - b.query < QUERIES ? a->queries - b.query : QUERIES;
        memset(g->dq, 0, (size_t)(QUERIES * a->size) * sizeof(real));
        load_rows(&b, dots, lse);
        int64_t keys = visible_keys(a, b.query, b.queries);
        for (b.key = 0; b.key < keys; b.key += KEYS) {
            b.keys = keys - b.key < KEYS ? keys - b.key : KEYS;
            run_gradient_block(&b, g, dots, lse);
        }
        store_rows(a->dq, batch, head, b.query, b.queries, g->dq, a->size);
    }
}

static void run_backward(void *context, int64_t begin, int64_t end)
{
    tn_attention *a = context;
    int64_t per_key = a->size + a->value_size, tile = KEYS * QUERIES;
    size_t elements = (size_t)(3 * tile + a->keys * per_key + QUERIES * a->size);
    group g = {.scores = tn_scratch(SLOT, elements * sizeof(real))};
    if (!g.scores) {
        a->status = TN_ERROR_OUT_OF_MEMORY;
        return;
    }
    g.slopes = g.scores + tile;
    g.factors = g.slopes + tile;
    g.dk = g.factors + tile;
    g.dv = g.dk + a->keys * a->size;
    g.dq = g.dv + a->keys * a->value_size;
    int64_t heads = a->heads / a->groups;
    for (int64_t item = begin; item < end; item++) {
        int64_t batch = item / a->groups, shared = item % a->groups;
        memset(g.dk, 0, (size_t)(a->keys * per_key) * sizeof(real));
        for (int64_t h = 0; h < heads; h++)
            run_head(a, batch, shared * heads + h, &g);
        store_rows(a->dk, batch, shared, 0, a->keys, g.dk, a->size);
        store_rows(a->dv, batch, shared, 0, a->keys, g.dv, a->value_size);
    }
}

/* Few groups are run one after the other; their products then share the pool. */
static tn_status backward(tn_attention *a)
{
    enum { FEW = 6 };
    int64_t groups = a->batch * a->groups, heads = a->heads / a->groups;
    tn_parallel_for(groups, groups < FEW ? groups : grain_of(a, 2 * heads * a->queries), run_backward, a);
    return finish(a);
}

#endif

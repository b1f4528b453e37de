/* Convolution and its gradients against their definition: every product of an input and a filter element
 * adds to an output, and with the output's gradient to the gradients of the two. */
#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/pool.h"
#include "kernel/kernel.h"
#include "tn/op/conv.h"

typedef struct shape {
    int64_t batch, channels, filters, groups; /* channels and filters in all */
    int64_t in[2], kernel[2], stride[2], padding[2], dilation[2];
} shape;

typedef struct tensor {
    float *data;
    int64_t sizes[4], strides[4], numel;
} tensor;

static uint32_t state = 3;

static tensor make(int64_t a, int64_t b, int64_t c, int64_t d, bool channels_last)
{
    tensor t = {NULL, {a, b, c, d}, {b * c * d, c * d, d, 1}, a * b * c * d};
    if (channels_last) {
        t.strides[1] = 1;
        t.strides[2] = d * b;
        t.strides[3] = b;
    }
    t.data = malloc((size_t)t.numel * sizeof(float) + 64);
    for (int64_t i = 0; i < t.numel; i++) {
        state = state * 1664525 + 1013904223;
        t.data[i] = (float)(state >> 8) * 0x1p-23f - 1;
    }
    return t;
}

static float *at(const tensor *t, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return t->data + a * t->strides[0] + b * t->strides[1] + c * t->strides[2] + d * t->strides[3];
}

static tn_operand operand_of(const tensor *t)
{
    return (tn_operand){.data = t->data, .sizes = t->sizes, .strides = t->strides, .ndim = 4,
                        .dtype = TN_FLOAT32};
}

static void run(int op, const shape *s, const tensor *out, const tensor *a, const tensor *b)
{
    tn_operand operands[] = {operand_of(out), operand_of(a), operand_of(b),
                             {.flags = TN_OPERAND_ABSENT}};
    const int64_t numbers[] = {1, s->stride[0], s->stride[1], 0, s->padding[0], s->padding[1],
                               1, s->dilation[0], s->dilation[1], s->groups};
    tn_scalar scalars[10];
    for (int i = 0; i < 10; i++)
        scalars[i] = (tn_scalar){.i = numbers[i], .kind = TN_SCALAR_INT};
    tn_launch_desc launch = {.op = (uint16_t)op, .num_outputs = 1, .operands = operands,
                             .num_operands = op == TN_OP_conv_filter ? 3 : 4, .num_scalars = 10,
                             .scalars = scalars};
    TN_CHECK_OK(tn_kernel_of(op)(&launch));
}

/* Adds one term of the definition to each of the three results. */
typedef struct sums {
    double *out, *dx, *dw;
} sums;

static int64_t index_of(const tensor *t, const float *p)
{
    return p - t->data;
}

static void define(const shape *s, const tensor *x, const tensor *w, const tensor *dy, const sums *r)
{
    int64_t per_group = s->filters / s->groups, channels = s->channels / s->groups;
    for (int64_t i = 0; i < dy->numel * channels * s->kernel[0] * s->kernel[1]; i++) {
        int64_t rest = i, kx = rest % s->kernel[1], ky = (rest /= s->kernel[1]) % s->kernel[0];
        int64_t c = (rest /= s->kernel[0]) % channels, ox = (rest /= channels) % dy->sizes[3];
        int64_t oy = (rest /= dy->sizes[3]) % dy->sizes[2], f = (rest /= dy->sizes[2]) % s->filters;
        int64_t n = rest / s->filters;
        int64_t y = oy * s->stride[0] + ky * s->dilation[0] - s->padding[0];
        int64_t z = ox * s->stride[1] + kx * s->dilation[1] - s->padding[1];
        if (y < 0 || y >= s->in[0] || z < 0 || z >= s->in[1])
            continue;
        const float *px = at(x, n, f / per_group * channels + c, y, z), *pw = at(w, f, c, ky, kx);
        const float *py = at(dy, n, f, oy, ox);
        r->out[index_of(dy, py)] += (double)*px * *pw;
        r->dx[index_of(x, px)] += (double)*py * *pw;
        r->dw[index_of(w, pw)] += (double)*py * *px;
    }
}

static void check_near(const tensor *t, const double *expected)
{
    int64_t wrong = 0;
    for (int64_t i = 0; i < t->numel; i++)
        wrong += !(fabs(t->data[i] - expected[i]) <= 1e-4);
    TN_CHECK_INT(wrong, 0);
}

static void check(const shape *s, bool channels_last)
{
    int64_t out[2];
    for (int i = 0; i < 2; i++)
        out[i] = (s->in[i] + 2 * s->padding[i] - s->dilation[i] * (s->kernel[i] - 1) - 1) / s->stride[i] + 1;
    tensor x = make(s->batch, s->channels, s->in[0], s->in[1], channels_last);
    tensor w = make(s->filters, s->channels / s->groups, s->kernel[0], s->kernel[1], false);
    tensor y = make(s->batch, s->filters, out[0], out[1], channels_last);
    tensor dy = make(s->batch, s->filters, out[0], out[1], channels_last);
    tensor dx = make(s->batch, s->channels, s->in[0], s->in[1], channels_last);
    tensor dw = make(s->filters, s->channels / s->groups, s->kernel[0], s->kernel[1], false);
    sums r = {calloc((size_t)y.numel, 8), calloc((size_t)x.numel, 8), calloc((size_t)w.numel, 8)};
    define(s, &x, &w, &dy, &r);
    run(TN_OP_conv, s, &y, &x, &w);
    run(TN_OP_conv_input, s, &dx, &dy, &w);
    run(TN_OP_conv_filter, s, &dw, &dy, &x);
    check_near(&y, r.out);
    check_near(&dx, r.dx);
    check_near(&dw, r.dw);
    const tensor *all[] = {&x, &w, &y, &dy, &dx, &dw};
    for (int i = 0; i < 6; i++)
        free(all[i]->data);
    free(r.out);
    free(r.dx);
    free(r.dw);
}

static const shape shapes[] = {
    {2, 3, 5, 1, {9, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {3, 4, 6, 2, {8, 7}, {3, 2}, {2, 1}, {0, 1}, {1, 2}},
    {2, 6, 6, 6, {10, 10}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {2, 4, 8, 4, {12, 9}, {5, 3}, {2, 3}, {2, 4}, {2, 1}},
    {2, 8, 16, 1, {6, 5}, {1, 1}, {1, 1}, {0, 0}, {1, 1}},
    {1, 8, 16, 2, {6, 5}, {1, 1}, {2, 2}, {1, 0}, {1, 1}},
    {1, 2, 3, 1, {1, 40}, {1, 7}, {1, 1}, {0, 3}, {1, 1}},
    {2, 2, 3, 1, {40, 1}, {3, 1}, {1, 1}, {1, 0}, {1, 1}},
    {9, 16, 20, 1, {25, 26}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
};

TN_CASE(agrees_with_the_definition)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check(&shapes[i], false);
        check(&shapes[i], true);
    }
}

TN_CASE(agrees_with_one_thread)
{
    tn_pool_set_size(1);
    check(&shapes[8], false);
    tn_pool_set_size(3);
    check(&shapes[8], true);
    tn_pool_set_size(2);
}

TN_CASES_END

/* Kernels when memory runs out in any one of their allocations, on any thread: the launch says so,
 * or its results are those of an undisturbed one. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/pool.h"
#include "kernel/kernel.h"
#include "tn/op/batch_norm.h"
#include "tn/op/layer_norm.h"
#include "tn/op/reduce.h"
#include "tn/op/softmax.h"
#include "tn/op/weight_norm.h"

enum { ROWS = 96, STEP = 1024, ATTEMPTS = 8, MAX_OPERANDS = 10 };

typedef struct problem {
    int op, outputs, count, scalar_count;
    tn_operand operands[MAX_OPERANDS];
    int64_t sizes[MAX_OPERANDS][2];
    tn_scalar scalars[8];
} problem;

/* An fp32 operand [rows, n]; rows 0: a vector of n; n 0: absent. */
static void add(problem *p, int64_t rows, int64_t n)
{
    int k = p->count++;
    if (n == 0) {
        p->operands[k] = (tn_operand){.flags = TN_OPERAND_ABSENT, .dtype = TN_DTYPE_NONE};
        return;
    }
    size_t elements = (size_t)((rows ? rows : 1) * n);
    float *data = malloc(elements * sizeof *data);
    for (size_t i = 0; i < elements; i++)
        data[i] = (float)((i * 2654435761u + (size_t)k) % 1000) / 250 - 1.5f;
    int64_t *sizes = p->sizes[k], *strides = malloc(2 * sizeof *strides);
    strides[0] = rows ? n : 1;
    strides[1] = 1;
    sizes[0] = rows ? rows : n;
    sizes[1] = n;
    p->operands[k] = (tn_operand){.data = data, .sizes = sizes, .strides = strides,
                                  .ndim = rows ? 2 : 1, .dtype = TN_FLOAT32};
}

static void integer(problem *p, int64_t value)
{
    p->scalars[p->scalar_count++] = (tn_scalar){.i = value, .kind = TN_SCALAR_INT};
}

static void number(problem *p, double value)
{
    p->scalars[p->scalar_count++] = (tn_scalar){.d = value, .kind = TN_SCALAR_FLOAT};
}

static void destroy(problem *p)
{
    for (int k = 0; k < p->count; k++) {
        free(p->operands[k].data);
        free((void *)p->operands[k].strides);
    }
    free(p);
}

static tn_status run(problem *p)
{
    tn_launch_desc launch = {.op = (uint16_t)p->op, .num_outputs = (uint16_t)p->outputs,
                             .num_operands = (uint16_t)p->count, .operands = p->operands,
                             .num_scalars = (uint16_t)p->scalar_count, .scalars = p->scalars,
                             .compute_dtype = TN_FLOAT32};
    return tn_kernel_of(p->op)(&launch);
}

static size_t bytes_of(const tn_operand *operand)
{
    return operand->flags & TN_OPERAND_ABSENT ? 0
                                              : (size_t)tn_operand_numel(operand) * sizeof(float);
}

/* Copies of all outputs, one behind the other. */
static char *snapshot(const problem *p, size_t *out_bytes)
{
    size_t bytes = 0;
    for (int k = 0; k < p->outputs; k++)
        bytes += bytes_of(&p->operands[k]);
    char *copy = malloc(bytes), *at = copy;
    for (int k = 0; k < p->outputs; at += bytes_of(&p->operands[k]), k++)
        if (bytes_of(&p->operands[k]))
            memcpy(at, p->operands[k].data, bytes_of(&p->operands[k]));
    *out_bytes = bytes;
    return copy;
}

/* Every attempt is larger than all before, so that the scratch of no thread is large enough. */
static void check(problem *(*make)(int64_t n))
{
    static int64_t n;
    int64_t reported = 0;
    tn_pool_set_size(2);
    for (int64_t attempt = 0; attempt < ATTEMPTS; attempt++) {
        int64_t failing = 1 + attempt % 4;
        problem *p = make(n += STEP);
        tn_alloc_fail_at(failing);
        tn_status status = run(p);
        tn_alloc_fail_at(0);
        if (status == TN_OK) {
            size_t bytes;
            char *disturbed = snapshot(p, &bytes);
            TN_CHECK_OK(run(p));
            char *expected = snapshot(p, &bytes);
            TN_CHECK(memcmp(disturbed, expected, bytes) == 0);
            free(disturbed);
            free(expected);
        } else {
            TN_CHECK_INT(status, TN_ERROR_OUT_OF_MEMORY);
            TN_CHECK_INT(tn_last_error()->status, TN_ERROR_OUT_OF_MEMORY);
            reported++;
        }
        destroy(p);
    }
    TN_CHECK(reported > 0);
}

static problem *create(int op, int outputs)
{
    problem *p = calloc(1, sizeof *p);
    p->op = op;
    p->outputs = outputs;
    return p;
}

static problem *softmax(int64_t n)
{
    problem *p = create(TN_OP_softmax, 1);
    add(p, ROWS, n);
    add(p, ROWS, n);
    integer(p, n);
    integer(p, 1);
    return p;
}

static problem *log_softmax_backward(int64_t n)
{
    problem *p = create(TN_OP_log_softmax_backward, 1);
    for (int k = 0; k < 3; k++)
        add(p, ROWS, n);
    integer(p, n);
    integer(p, 1);
    return p;
}

static problem *layer_norm(int64_t n)
{
    problem *p = create(TN_OP_layer_norm, 3);
    add(p, ROWS, n);
    add(p, 0, ROWS);
    add(p, 0, ROWS);
    add(p, ROWS, n);
    add(p, 0, n);
    add(p, 0, n);
    integer(p, n);
    number(p, 1e-5);
    return p;
}

static problem *layer_norm_backward(int64_t n)
{
    problem *p = create(TN_OP_layer_norm_backward, 3);
    add(p, ROWS, n);
    add(p, 0, n);
    add(p, 0, n);
    add(p, ROWS, n);
    add(p, ROWS, n);
    add(p, 0, ROWS);
    add(p, 0, ROWS);
    add(p, 0, n);
    integer(p, n);
    return p;
}

static problem *column_sums(int64_t n)
{
    problem *p = create(TN_OP_sum, 1);
    add(p, 0, n);
    add(p, ROWS, n);
    integer(p, 1);
    return p;
}

/* The layout of channels.h with channels innermost. */
static void columns(problem *p, int64_t n)
{
    integer(p, n);
    integer(p, ROWS);
    integer(p, n);
    integer(p, 1);
}

static problem *batch_norm(int64_t n)
{
    problem *p = create(TN_OP_batch_norm, 5);
    add(p, ROWS, n);
    for (int k = 0; k < 2; k++)
        add(p, 0, n);
    for (int k = 0; k < 2; k++)
        add(p, 0, 0);
    add(p, ROWS, n);
    for (int k = 0; k < 2; k++)
        add(p, 0, n);
    for (int k = 0; k < 2; k++)
        add(p, 0, 0);
    columns(p, n);
    integer(p, 0);
    integer(p, 0);
    number(p, 0.1);
    number(p, 1e-5);
    return p;
}

static problem *weight_norm_backward(int64_t n)
{
    problem *p = create(TN_OP_weight_norm_backward, 2);
    add(p, ROWS, n);
    add(p, 0, n);
    for (int k = 0; k < 2; k++)
        add(p, ROWS, n);
    for (int k = 0; k < 2; k++)
        add(p, 0, n);
    columns(p, n);
    return p;
}

/* In this order: the scratch of the first does not grow with n, that of the next ones does in steps
 * of a page only as long as it is small. */
TN_CASE(column_sums_report_it) { check(column_sums); }
TN_CASE(batch_norm_reports_it) { check(batch_norm); }
TN_CASE(weight_norm_backward_reports_it) { check(weight_norm_backward); }
TN_CASE(softmax_reports_it) { check(softmax); }
TN_CASE(log_softmax_backward_reports_it) { check(log_softmax_backward); }
TN_CASE(layer_norm_reports_it) { check(layer_norm); }
TN_CASE(layer_norm_backward_reports_it) { check(layer_norm_backward); }

TN_CASES_END

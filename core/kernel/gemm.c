/* Matrix products: the choice of element type, and the matmul kernel over batches and vectors.
 *
 * Operands: out, a, b, ?c. Each is a matrix, a batch of matrices [B, rows, columns], or a vector: a is
 * then a row, b and out a column (out a row where only a is a vector). Batch and c broadcast. */
#include "base/pool.h"
#include "kernel/gemm.h"

tn_status tn_gemm_run(const tn_gemm *gemm)
{
    switch (gemm->a.dtype) {
    case TN_FLOAT64:
        return tn_gemm_double(gemm);
    case TN_FLOAT32:
    case TN_BFLOAT16:
    case TN_FLOAT16:
        return tn_gemm_float(gemm);
    default:
        return tn_gemm_integer(gemm);
    }
}

typedef struct batch {
    tn_gemm first;
    int64_t count, a, b, c, out; /* bytes from matrix to matrix */
    _Atomic(int) status;
} batch;

static tn_status run_one(const batch *all, int64_t index)
{
    tn_gemm g = all->first;
    g.a.data = (char *)g.a.data + index * all->a;
    g.b.data = (char *)g.b.data + index * all->b;
    g.out.data = (char *)g.out.data + index * all->out;
    if (g.c.data)
        g.c.data = (char *)g.c.data + index * all->c;
    return tn_gemm_run(&g);
}

static void run_range(void *context, int64_t begin, int64_t end)
{
    batch *all = context;
    for (int64_t i = begin; i < end; i++) {
        tn_status status = run_one(all, i);
        if (status != TN_OK)
            all->status = (int)status;
    }
}

/* Large matrices share the pool one after the other; small ones are dealt out. */
static tn_status run_batch(batch *all)
{
    static const double alone_flops = 1.6e7, grain_flops = 1e6;
    const tn_gemm *g = &all->first;
    double flops = 2.0 * (double)g->m * (double)g->n * (double)(g->k + 1);
    if (all->count == 1)
        return tn_gemm_run(g);
    bool one_by_one = flops >= alone_flops;
    int64_t grain = one_by_one ? all->count : (int64_t)(grain_flops / (flops + 1)) + 1;
    if (one_by_one)
        run_range(all, 0, all->count);
    else
        tn_parallel_for(all->count, grain, run_range, all);
    if (all->status != TN_OK)
        return tn_fail(TN_ERROR_OUT_OF_MEMORY, "matmul: out of host memory for scratch");
    return TN_OK;
}

static int64_t stride_of(const tn_operand *operand, int d)
{
    return d < 0 || operand->sizes[d] == 1 ? 0 : operand->strides[d];
}

/* The last two dimensions; a stride of a dimension of one element is 0, which broadcasts. */
static tn_matrix matrix_of(const tn_operand *operand, bool is_row)
{
    tn_matrix m = {operand->data, 0, 0, operand->dtype};
    int last = operand->ndim - 1;
    if (operand->ndim >= 2) {
        m.row = stride_of(operand, last - 1);
        m.column = stride_of(operand, last);
    } else if (is_row) {
        m.column = stride_of(operand, last);
    } else {
        m.row = stride_of(operand, last);
    }
    return m;
}

static int64_t batch_bytes(const tn_operand *operand)
{
    return operand->ndim < 3 ? 0
                             : stride_of(operand, operand->ndim - 3) *
                                   (int64_t)tn_dtype_size((tn_dtype)operand->dtype);
}

/* A dimension of one element may take any stride: the one that reads as contiguous. */
static void settle(tn_matrix *matrix, int64_t rows, int64_t columns)
{
    if (columns == 1)
        matrix->column = 1;
    if (rows == 1)
        matrix->row = columns > 1 && matrix->column == 1 ? columns : 1;
}

tn_status TN_KERNEL(matmul)(const tn_launch_desc *launch)
{
    const tn_operand *out = tn_output(launch, 0), *a = tn_input(launch, 0), *b = tn_input(launch, 1);
    const tn_operand *c = launch->num_operands > 3 ? tn_input(launch, 2) : NULL;
    batch all = {.count = out->ndim >= 3 ? out->sizes[out->ndim - 3] : 1};
    tn_gemm *g = &all.first;
    g->k = a->sizes[a->ndim - 1];
    g->m = a->ndim >= 2 ? a->sizes[a->ndim - 2] : 1;
    g->n = b->ndim >= 2 ? b->sizes[b->ndim - 1] : 1;
    g->a = matrix_of(a, true);
    g->b = matrix_of(b, false);
    g->out = matrix_of(out, a->ndim < 2);
    settle(&g->a, g->m, g->k);
    settle(&g->b, g->k, g->n);
    settle(&g->out, g->m, g->n);
    all.a = batch_bytes(a);
    all.b = batch_bytes(b);
    all.out = batch_bytes(out);
    if (c && !(c->flags & TN_OPERAND_ABSENT)) {
        g->c = matrix_of(c, b->ndim >= 2);
        if (g->n == 1)
            g->c.column = 1;
        all.c = batch_bytes(c);
    }
    tn_scalar beta = launch->num_scalars > 0 ? launch->scalars[0] : (tn_scalar){.i = 1};
    tn_scalar alpha = launch->num_scalars > 1 ? launch->scalars[1] : (tn_scalar){.i = 1};
    g->alpha = tn_scalar_as_double(alpha);
    g->beta = tn_scalar_as_double(beta);
    g->alpha_integer = tn_scalar_as_int(alpha);
    g->beta_integer = tn_scalar_as_int(beta);
    return g->m > 0 && g->n > 0 && all.count > 0 ? run_batch(&all) : TN_OK;
}

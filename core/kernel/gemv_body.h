/* Matrix times vector, for one floating element type: n is 1, memory speed is the limit.
 *
 * k is cut into chunks; each gives partial sums of its own, added in order. A matrix that is contiguous
 * along k is read row by row (dot products), one that is contiguous along m column by column. */
#ifndef TN_KERNEL_GEMV_BODY_H
#define TN_KERNEL_GEMV_BODY_H

#include "kernel/gemm_body.h"

enum { DOT_CHUNK = 16384, DOT_ROWS = 4, DOT_PIECE = 512, AXPY_CHUNK = 1024, AXPY_ROWS = 1024, AXPY_COLUMNS = 4 };
enum { GEMV_GRAIN_ELEMENTS = 65536 };

typedef struct gemv {
    const tn_gemm *g;
    const element *x; /* b, contiguous */
    element *partial; /* [chunks][m] */
    int64_t chunk, chunks, row_blocks, block_rows;
} gemv;

static inline element sum_lanes(vec v)
{
    element lanes[LANES];
    store(lanes, v);
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lanes[i] += lanes[i + half];
    return lanes[0];
}

static inline __attribute__((always_inline)) void dot(const int rows, const element *a, int64_t row,
                                                      const element *x, int64_t n, vec sums[][2])
{
    int64_t i = 0;
    for (; i + COLUMNS <= n; i += COLUMNS) {
        vec x0 = load(x + i), x1 = load(x + i + LANES);
        GEMM_UNROLL
        for (int r = 0; r < rows; r++) {
            sums[r][0] = fma_vec(load(a + r * row + i), x0, sums[r][0]);
            sums[r][1] = fma_vec(load(a + r * row + i + LANES), x1, sums[r][1]);
        }
    }
    GEMM_UNROLL
    for (int part = 0; part < 2; part++, i += LANES) {
        if (i >= n)
            break;
        vec tail = load_partial(x + i, n - i);
        GEMM_UNROLL
        for (int r = 0; r < rows; r++)
            sums[r][part] = fma_vec(load_partial(a + r * row + i, n - i), tail, sums[r][part]);
    }
}

/* Rows [row, row + rows) over one chunk of k; narrow dtypes are widened piece by piece. */
static inline __attribute__((always_inline)) void dot_rows(const gemv *v, const int rows, int64_t row,
                                                           int64_t first_k, int64_t n, element *out)
{
    const tn_matrix *a = &v->g->a;
    vec sums[DOT_ROWS][2];
    for (int r = 0; r < DOT_ROWS; r++)
        sums[r][0] = sums[r][1] = (vec){0};
    if (a->dtype == GEMM_DTYPE) {
        dot(rows, (const element *)a->data + row * a->row + first_k, a->row, v->x + first_k, n, sums);
    } else {
        element wide[DOT_ROWS * DOT_PIECE];
        for (int64_t i = 0; i < n; i += DOT_PIECE) {
            int64_t piece = n - i < DOT_PIECE ? n - i : DOT_PIECE;
            for (int r = 0; r < rows; r++)
                read_elements(a, (row + r) * a->row + first_k + i, 1, piece, wide + r * DOT_PIECE);
            dot(rows, wide, DOT_PIECE, v->x + first_k + i, piece, sums);
        }
    }
    for (int r = 0; r < rows; r++)
        out[row + r] = sum_lanes(sums[r][0] + sums[r][1]);
}

static void dot_block(const gemv *v, int64_t row, int64_t end, int64_t first_k, int64_t n,
                      element *out)
{
    for (; row + DOT_ROWS <= end; row += DOT_ROWS)
        dot_rows(v, DOT_ROWS, row, first_k, n, out);
    for (; row < end; row++)
        dot_rows(v, 1, row, first_k, n, out);
}

/* Adds `count` columns, one after the other, to out[0 .. rows). */
static inline __attribute__((always_inline)) void axpy(const int count, const element *const *columns,
                                                       const element *x, int64_t rows, element *out)
{
    for (int64_t i = 0; i < rows; i += LANES) {
        vec sum = load_partial(out + i, rows - i);
        GEMM_UNROLL
        for (int c = 0; c < count; c++)
            sum = fma_vec(load_partial(columns[c] + i, rows - i), broadcast(x[c]), sum);
        store_partial(out + i, sum, rows - i);
    }
}

static void axpy_block(const gemv *v, int64_t row, int64_t end, int64_t first_k, int64_t n,
                       element *out)
{
    const tn_matrix *a = &v->g->a;
    const element *columns[AXPY_COLUMNS];
    element wide[AXPY_COLUMNS][AXPY_ROWS];
    memset(out + row, 0, (size_t)(end - row) * sizeof *out);
    for (int64_t k = 0; k < n; k += AXPY_COLUMNS) {
        int count = n - k < AXPY_COLUMNS ? (int)(n - k) : AXPY_COLUMNS;
        for (int c = 0; c < count; c++) {
            int64_t offset = (first_k + k + c) * a->column + row;
            columns[c] = (const element *)a->data + offset;
            if (a->dtype != GEMM_DTYPE) {
                read_elements(a, offset, 1, end - row, wide[c]);
                columns[c] = wide[c];
            }
        }
        const element *x = v->x + first_k + k;
        if (count == AXPY_COLUMNS)
            axpy(AXPY_COLUMNS, columns, x, end - row, out + row);
        for (int c = 0; count < AXPY_COLUMNS && c < count; c++)
            axpy(1, columns + c, x + c, end - row, out + row);
    }
}

static void run_gemv_items(void *context, int64_t begin, int64_t end)
{
    const gemv *v = context;
    for (int64_t item = begin; item < end; item++) {
        int64_t chunk = item / v->row_blocks, block = item % v->row_blocks;
        int64_t row = block * v->block_rows, first_k = chunk * v->chunk;
        int64_t row_end = row + v->block_rows < v->g->m ? row + v->block_rows : v->g->m;
        int64_t n = v->g->k - first_k < v->chunk ? v->g->k - first_k : v->chunk;
        element *out = v->partial + chunk * v->g->m;
        if (v->g->a.column == 1)
            dot_block(v, row, row_end, first_k, n, out);
        else
            axpy_block(v, row, row_end, first_k, n, out);
    }
}

static void store_gemv(const gemv *v)
{
    const tn_gemm *g = v->g;
    bool adds = g->c.data && g->beta != 0;
    for (int64_t i = 0; i < g->m; i++) {
        element sum = v->partial[i], addend;
        for (int64_t chunk = 1; chunk < v->chunks; chunk++)
            sum += v->partial[chunk * g->m + i];
        sum *= (element)g->alpha;
        if (adds) {
            read_elements(&g->c, i * g->c.row, 1, 1, &addend);
            sum += (element)g->beta * addend;
        }
        write_elements(&g->out, i * g->out.row, 1, 1, &sum);
    }
}

static bool is_gemv(const tn_gemm *g)
{
    return g->n == 1 && g->k > 0 && (g->a.column == 1 || g->a.row == 1);
}

static tn_status run_gemv(const tn_gemm *g)
{
    gemv v = {.g = g, .x = (const element *)g->b.data};
    bool by_dots = g->a.column == 1;
    v.chunk = by_dots ? DOT_CHUNK : AXPY_CHUNK;
    v.chunks = divide_up(g->k, v.chunk);
    v.block_rows = by_dots ? divide_up(GEMV_GRAIN_ELEMENTS / 4, g->k < v.chunk ? g->k : v.chunk)
                           : AXPY_ROWS;
    v.block_rows = divide_up(v.block_rows, DOT_ROWS) * DOT_ROWS;
    v.row_blocks = divide_up(g->m, v.block_rows);
    bool copies_x = g->b.dtype != GEMM_DTYPE || (g->b.row != 1 && g->k > 1);
    int64_t elements = v.chunks * g->m + (copies_x ? g->k : 0);
    element small[SMALL_ELEMENTS / 4];
    v.partial = small;
    if (elements > SMALL_ELEMENTS / 4 &&
        !(v.partial = tn_scratch(SLOT_PANELS, (size_t)elements * sizeof(element))))
        return TN_ERROR_OUT_OF_MEMORY;
    if (copies_x) {
        element *x = v.partial + v.chunks * g->m;
        read_elements(&g->b, 0, g->b.row, g->k, x);
        v.x = x;
    }
    int64_t items = v.chunks * v.row_blocks, per_item = v.block_rows * v.chunk;
    tn_parallel_for(items, divide_up(GEMV_GRAIN_ELEMENTS, per_item), run_gemv_items, &v);
    store_gemv(&v);
    return TN_OK;
}

#endif

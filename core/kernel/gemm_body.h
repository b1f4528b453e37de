/* The macro-kernel of one floating element type.
 *
 * The result is cut into super-blocks of at most BLOCK x BLOCK, k into equal pieces of at most DEPTH.
 * For each piece b is packed into panels of COLUMNS columns, and a, where reading it in place would be
 * slow, into panels of at most ROWS rows (panel_rows with padding); then tasks, each a rectangle of tiles, run over the pool.
 * All cuts follow from the shape. Packing absorbs transposes, strides and narrow dtypes.
 *
 * Results of another dtype than `element` are summed over the pieces of k in `sums` and rounded once. */
#ifndef TN_KERNEL_GEMM_BODY_H
#define TN_KERNEL_GEMM_BODY_H

#include "base/pool.h"
#include "kernel/gemm_elements.h"
#include "kernel/gemm_micro.h"

enum { BLOCK = 2048, DEPTH = 512, TASK_ROWS = 96, TASK_COLUMNS = 128, MIN_TASKS = 24 };
enum { SMALL_ELEMENTS = 32768 / sizeof(element) }; /* packed on the stack */
enum { SLOT_PANELS = 0, SLOT_SUMS = 1 };
static const double serial_flops = 1e6, least_task_flops = 5e5;

typedef struct plan {
    tn_matrix a, b, c, out; /* of this super-block */
    double alpha, beta;
    int64_t m, n, k;
    int64_t row_panels, column_panels, panel_rows;
    int64_t task_rows, task_columns;         /* in panels */
    int64_t row_tasks, column_tasks;
    int64_t first_k, depth;                  /* the current piece of k */
    element *packed_a, *packed_b, *sums;     /* packed_a is NULL where a is read in place */
    bool is_first, is_last;
} plan;

static inline int64_t divide_up(int64_t x, int64_t y)
{
    return (x + y - 1) / y;
}

static int64_t panel_row(const plan *p, int64_t panel)
{
    return panel * p->m / p->row_panels;
}

/* ---- packing -------------------------------------------------------------------------------- */

/* n <= LANES neighbouring elements, widened if need be; zeros beyond them. */
static inline vec load_line(const tn_matrix *from, int64_t offset, int64_t n)
{
    if (from->dtype == GEMM_DTYPE)
        return load_partial((const element *)from->data + offset, n);
    element line[LANES];
    read_elements(from, offset, 1, n, line);
    return load_partial(line, n);
}

/* Lines run along the rows (row stride 1): squares of LANES x LANES are transposed in registers. */
static void pack_across(const tn_matrix *from, int64_t row, int64_t rows, int64_t column,
                        int64_t columns, element *to, int64_t step)
{
    for (int64_t r = 0; r < rows; r += LANES) {
        int64_t n = rows - r < LANES ? rows - r : LANES;
        for (int64_t j = 0; j < columns; j += LANES) {
            int64_t offset = row + r + (column + j) * from->column;
            vec square[LANES];
            GEMM_UNROLL
            for (int i = 0; i < LANES; i++)
                square[i] = i < columns - j ? load_line(from, offset + i * from->column, n) : (vec){0};
            transpose(square);
            GEMM_UNROLL
            for (int i = 0; i < LANES; i++)
                if (i < n)
                    store(to + (r + i) * step + j, square[i]);
        }
    }
}

/* Lines run along the columns, or neither: row after row. */
static void pack_along(const tn_matrix *from, int64_t row, int64_t rows, int64_t column,
                       int64_t columns, element *to, int64_t step)
{
    int64_t offset = row * from->row + column * from->column;
    for (int64_t r = 0; r < rows; r++, offset += from->row, to += step) {
        if (from->column == 1) {
            for (int64_t j = 0; j < columns; j += LANES)
                store(to + j, load_line(from, offset + j, columns - j < LANES ? columns - j : LANES));
            continue;
        }
        read_elements(from, offset, from->column, columns, to);
        for (int64_t j = columns; j % LANES != 0; j++)
            to[j] = 0;
    }
}

/* `rows` rows of `columns` elements, `step` apart, each filled up with zeros to whole vectors. */
static void pack(const tn_matrix *from, int64_t row, int64_t rows, int64_t column, int64_t columns,
                 element *to, int64_t step)
{
    if (from->row == 1 && from->column != 1)
        pack_across(from, row, rows, column, columns, to, step);
    else
        pack_along(from, row, rows, column, columns, to, step);
}

static void pack_b_panel(const plan *p, int64_t panel)
{
    element *to = p->packed_b + panel * COLUMNS * p->depth;
    int64_t column = panel * COLUMNS, columns = p->n - column < COLUMNS ? p->n - column : COLUMNS;
    pack(&p->b, p->first_k, p->depth, column, columns, to, COLUMNS);
}

static void pack_a_panel(const plan *p, int64_t panel)
{
    int64_t row = panel_row(p, panel), rows = panel_row(p, panel + 1) - row;
    tn_matrix across = tn_matrix_transposed(p->a);
    pack(&across, p->first_k, p->depth, row, rows, p->packed_a + panel * p->panel_rows * p->depth,
         p->panel_rows);
}

/* Panels of b, then of a. */
static void pack_panels(void *context, int64_t begin, int64_t end)
{
    const plan *p = context;
    for (int64_t i = begin; i < end; i++)
        if (i < p->column_panels)
            pack_b_panel(p, i);
        else
            pack_a_panel(p, i - p->column_panels);
}

/* ---- storing a tile ------------------------------------------------------------------------- */

/* out = alpha tile + beta c, rows of neighbouring elements of the GEMM's own type. */
static void store_plain(const plan *p, const element *tile, int64_t row, int64_t rows,
                        int64_t column, int64_t columns, const tn_matrix *c, double beta)
{
    vec alpha = broadcast((element)p->alpha), factor = broadcast((element)beta);
    element *to = (element *)p->out.data + row * p->out.row + column;
    const element *addend = c ? (const element *)c->data + row * c->row + column : NULL;
    for (int64_t i = 0; i < rows; i++, tile += COLUMNS, to += p->out.row) {
        for (int64_t j = 0; j < columns; j += LANES) {
            vec v = load(tile + j) * alpha;
            if (addend)
                v = fma_vec(factor, load_partial(addend + i * c->row + j, columns - j), v);
            store_partial(to + j, v, columns - j);
        }
    }
}

/* The same for any strides and dtypes. */
static void store_any(const plan *p, const element *tile, int64_t row, int64_t rows, int64_t column,
                      int64_t columns, const tn_matrix *c, double beta)
{
    element line[COLUMNS], addend[COLUMNS];
    for (int64_t i = row; i < row + rows; i++, tile += COLUMNS) {
        for (int64_t j = 0; j < columns; j++)
            line[j] = tile[j] * (element)p->alpha;
        if (c) {
            read_elements(c, i * c->row + column * c->column, c->column, columns, addend);
            for (int64_t j = 0; j < columns; j++)
                line[j] += (element)beta * addend[j];
        }
        write_elements(&p->out, i * p->out.row + column * p->out.column, p->out.column, columns,
                       line);
    }
}

static bool is_plain(const tn_matrix *matrix)
{
    return matrix->dtype == GEMM_DTYPE && matrix->column == 1;
}

static void store_tile(const plan *p, element *tile, int64_t row, int64_t rows, int64_t column,
                       int64_t columns)
{
    for (int64_t i = 0; p->sums && i < rows; i++) {
        element *sum = p->sums + (row + i) * p->n + column, *line = tile + i * COLUMNS;
        for (int64_t j = 0; !p->is_first && j < columns; j++)
            line[j] += sum[j];
        for (int64_t j = 0; !p->is_last && j < columns; j++)
            sum[j] = line[j];
    }
    if (p->sums && !p->is_last)
        return;
    const tn_matrix *c = p->c.data && p->beta != 0 ? &p->c : NULL;
    double beta = p->beta;
    if (!p->is_first && !p->sums) {
        c = &p->out;
        beta = 1;
    }
    if (is_plain(&p->out) && (!c || is_plain(c)))
        store_plain(p, tile, row, rows, column, columns, c, beta);
    else
        store_any(p, tile, row, rows, column, columns, c, beta);
}

/* ---- computing ------------------------------------------------------------------------------ */

static void run_tile(const plan *p, int64_t row_panel, int64_t column_panel)
{
    _Alignas(64) element tile[ROWS * COLUMNS];
    int64_t row = panel_row(p, row_panel), rows = panel_row(p, row_panel + 1) - row;
    int64_t column = column_panel * COLUMNS;
    int64_t columns = p->n - column < COLUMNS ? p->n - column : COLUMNS;
    const element *a = (const element *)p->a.data + row * p->a.row + p->first_k * p->a.column;
    int64_t a_row = p->a.row, a_step = p->a.column;
    if (p->packed_a) {
        a = p->packed_a + row_panel * p->panel_rows * p->depth;
        a_row = 1;
        a_step = p->panel_rows;
    }
    micros[rows - 1][columns > LANES](p->depth, a, a_row, a_step,
                                      p->packed_b + column_panel * COLUMNS * p->depth, tile);
    store_tile(p, tile, row, rows, column, columns);
}

static void run_tasks(void *context, int64_t begin, int64_t end)
{
    const plan *p = context;
    for (int64_t task = begin; task < end; task++) {
        int64_t r = task / p->column_tasks, c = task % p->column_tasks;
        int64_t row_end = (r + 1) * p->row_panels / p->row_tasks;
        int64_t column_end = (c + 1) * p->column_panels / p->column_tasks;
        for (int64_t j = c * p->column_panels / p->column_tasks; j < column_end; j++)
            for (int64_t i = r * p->row_panels / p->row_tasks; i < row_end; i++)
                run_tile(p, i, j);
    }
}

/* Reading a in place is slow where its rows collide in the cache, or where k runs across lines. */
static bool wants_packed_a(const tn_matrix *a, int64_t m)
{
    if (a->dtype != GEMM_DTYPE)
        return true;
    if (m < 4)
        return false;
    return a->column != 1 || a->row * (int64_t)sizeof(element) % 2048 == 0;
}

static void cut_tasks(plan *p)
{
    p->row_panels = divide_up(p->m, ROWS);
    p->column_panels = divide_up(p->n, COLUMNS);
    p->panel_rows = divide_up(divide_up(p->m, p->row_panels), LANES) * LANES;
    p->row_tasks = divide_up(p->m, TASK_ROWS);
    p->column_tasks = divide_up(p->n, TASK_COLUMNS);
    double flops = 2.0 * (double)p->m * (double)p->n * (double)p->depth;
    while (p->row_tasks * p->column_tasks < MIN_TASKS &&
           flops > 2 * least_task_flops * (double)(p->row_tasks * p->column_tasks)) {
        bool rows_left = p->row_tasks * 2 <= p->row_panels;
        bool columns_left = p->column_tasks * 2 <= p->column_panels;
        if (!rows_left && !columns_left)
            break;
        if (rows_left && (!columns_left || p->m / p->row_tasks >= p->n / p->column_tasks))
            p->row_tasks *= 2;
        else
            p->column_tasks *= 2;
    }
}

static tn_status run_block(plan *p)
{
    int64_t pieces = p->k > 0 ? divide_up(p->k, DEPTH) : 1, most = divide_up(p->k, pieces);
    p->depth = most;
    cut_tasks(p);
    bool packs_a = wants_packed_a(&p->a, p->m);
    int64_t b_elements = p->column_panels * COLUMNS * most;
    int64_t elements = b_elements + (packs_a ? p->row_panels * p->panel_rows * most : 0);
    _Alignas(64) element small[SMALL_ELEMENTS];
    p->packed_b = small;
    if (elements > SMALL_ELEMENTS &&
        !(p->packed_b = tn_scratch(SLOT_PANELS, (size_t)elements * sizeof(element))))
        return TN_ERROR_OUT_OF_MEMORY;
    p->packed_a = packs_a ? p->packed_b + b_elements : NULL;
    p->sums = NULL;
    if (pieces > 1 && p->out.dtype != GEMM_DTYPE &&
        !(p->sums = tn_scratch(SLOT_SUMS, (size_t)(p->m * p->n) * sizeof(element))))
        return TN_ERROR_OUT_OF_MEMORY;
    bool serial = 2.0 * (double)p->m * (double)p->n * (double)p->k <= serial_flops;
    int64_t panels = p->column_panels + (packs_a ? p->row_panels : 0);
    int64_t tasks = p->row_tasks * p->column_tasks;
    for (int64_t i = 0; i < pieces; i++) {
        p->first_k = i * p->k / pieces;
        p->depth = (i + 1) * p->k / pieces - p->first_k;
        p->is_first = i == 0;
        p->is_last = i == pieces - 1;
        int64_t pack_grain = serial ? panels : divide_up(16384, COLUMNS * (p->depth + 1));
        tn_parallel_for(panels, pack_grain, pack_panels, p);
        tn_parallel_for(tasks, serial ? tasks : 1, run_tasks, p);
    }
    return TN_OK;
}

static void shift(tn_matrix *matrix, int64_t row, int64_t column)
{
    if (matrix->data)
        matrix->data = (char *)matrix->data + (row * matrix->row + column * matrix->column) *
                                                  (int64_t)tn_dtype_size(matrix->dtype);
}

static tn_status run_blocks(const tn_gemm *g)
{
    for (int64_t row = 0; row < g->m; row += BLOCK) {
        for (int64_t column = 0; column < g->n; column += BLOCK) {
            plan p = {.a = g->a, .b = g->b, .c = g->c, .out = g->out, .alpha = g->alpha,
                      .beta = g->beta, .k = g->k};
            p.m = g->m - row < BLOCK ? g->m - row : BLOCK;
            p.n = g->n - column < BLOCK ? g->n - column : BLOCK;
            shift(&p.a, row, 0);
            shift(&p.b, 0, column);
            shift(&p.c, row, column);
            shift(&p.out, row, column);
            tn_status status = run_block(&p);
            if (status != TN_OK)
                return status;
        }
    }
    return TN_OK;
}

#endif

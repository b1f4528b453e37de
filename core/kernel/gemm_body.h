/* The macro-kernel of one floating element type.
 *
 * The result is cut into super-blocks of at most BLOCK x BLOCK, k into equal pieces of at most DEPTH.
 * As many pieces as fit GROUP_ELEMENTS go together: their b is packed into panels of COLUMNS columns, then
 * tasks, each a rectangle of tiles, run over the pool. Where reading a in place would be slow, it is copied
 * into panels of at most ROWS rows: by the task that needs them where rows run along k, else beforehand and
 * in the order of the lines in memory. All cuts follow from the shape. Packing absorbs transposes, strides
 * and narrow dtypes.
 *
 * Results of another dtype than `element` are summed over the pieces of k in `sums` and rounded once. */
#ifndef TN_KERNEL_GEMM_BODY_H
#define TN_KERNEL_GEMM_BODY_H

#include "base/pool.h"
#include "kernel/gemm_elements.h"
#include "kernel/gemm_micro.h"

enum { BLOCK = 2048, DEPTH = 512, TASK_ROWS = 96, TASK_COLUMNS = 128, MIN_TASKS = 24 };
enum { PANEL_ROWS = (ROWS + LANES - 1) / LANES * LANES };
/* From row to row of a packed panel of rows; not a power of two, whose lines would collide in the cache. */
enum { ROW_STEP = DEPTH + LANES };
enum { GROUP_ELEMENTS = 1 << 20 }; /* of packed b: stays in the last cache */
enum { SMALL_ELEMENTS = 32768 / sizeof(element) }; /* packed on the stack */
enum { SLOT_PANELS = 0, SLOT_SUMS = 1 };
static const double serial_flops = 1e6, least_task_flops = 5e5;

typedef enum a_mode { A_IN_PLACE, A_ROWS, A_SIDE_BY_SIDE } a_mode;

typedef struct plan {
    tn_matrix a, b, c, out; /* of this super-block */
    double alpha, beta;
    int64_t m, n, k;
    int64_t row_panels, column_panels;
    int64_t task_rows, task_columns;         /* in panels */
    int64_t row_tasks, column_tasks;
    int64_t pieces, first_piece, last_piece; /* of k; the current group [first, last) */
    int64_t most_depth;                      /* of a piece */
    a_mode a_mode;
    int64_t first_packed; /* panel of b; those before are read in place */
    element *packed_b, *sums;
} plan;

/* A piece of k. */
typedef struct k_piece {
    int64_t number, first_k, depth;
    element *packed_b;
} k_piece;

static inline int64_t divide_up(int64_t x, int64_t y)
{
    return (x + y - 1) / y;
}

static int64_t panel_row(const plan *p, int64_t panel)
{
    return panel * p->m / p->row_panels;
}

static k_piece piece_of(const plan *p, int64_t number)
{
    int64_t first = number * p->k / p->pieces, place = number - p->first_piece;
    return (k_piece){number, first, (number + 1) * p->k / p->pieces - first,
                     p->packed_b + place * (p->column_panels - p->first_packed) * COLUMNS * p->most_depth};
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

static void pack_b_panel(const plan *p, const k_piece *at, int64_t panel)
{
    int64_t column = panel * COLUMNS, columns = p->n - column < COLUMNS ? p->n - column : COLUMNS;
    pack(&p->b, at->first_k, at->depth, column, columns,
         at->packed_b + (panel - p->first_packed) * COLUMNS * at->depth, COLUMNS);
}

/* Panels of b, one piece after the other. */
static void run_packing(void *context, int64_t begin, int64_t end)
{
    const plan *p = context;
    int64_t panels = p->column_panels - p->first_packed;
    for (int64_t i = begin; i < end; i++) {
        k_piece at = piece_of(p, p->first_piece + i / panels);
        pack_b_panel(p, &at, p->first_packed + i % panels);
    }
}

/* Some rows of a over one piece of k. */
typedef struct a_panel {
    const element *data;
    int64_t row, step; /* strides in elements */
} a_panel;

static a_panel read_a(const plan *p, const k_piece *at, int64_t panel, element *buffer)
{
    int64_t row = panel_row(p, panel), rows = panel_row(p, panel + 1) - row;
    if (p->a_mode == A_SIDE_BY_SIDE) {
        tn_matrix across = tn_matrix_transposed(p->a);
        pack_along(&across, at->first_k, at->depth, row, rows, buffer, PANEL_ROWS);
        return (a_panel){buffer, 1, PANEL_ROWS};
    }
    if (p->a_mode == A_ROWS) {
        pack_along(&p->a, row, rows, at->first_k, at->depth, buffer, ROW_STEP);
        return (a_panel){buffer, ROW_STEP, 1};
    }
    return (a_panel){(const element *)p->a.data + row * p->a.row + at->first_k * p->a.column, p->a.row,
                     p->a.column};
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

static void store_tile(const plan *p, int64_t piece_number, element *tile, int64_t row, int64_t rows,
                       int64_t column, int64_t columns)
{
    bool is_first = piece_number == 0, is_last = piece_number == p->pieces - 1;
    for (int64_t i = 0; p->sums && i < rows; i++) {
        element *sum = p->sums + (row + i) * p->n + column, *line = tile + i * COLUMNS;
        for (int64_t j = 0; !is_first && j < columns; j++)
            line[j] += sum[j];
        for (int64_t j = 0; !is_last && j < columns; j++)
            sum[j] = line[j];
    }
    if (p->sums && !is_last)
        return;
    const tn_matrix *c = p->c.data && p->beta != 0 ? &p->c : NULL;
    double beta = p->beta;
    if (!is_first && !p->sums) {
        c = &p->out;
        beta = 1;
    }
    if (is_plain(&p->out) && (!c || is_plain(c)))
        store_plain(p, tile, row, rows, column, columns, c, beta);
    else
        store_any(p, tile, row, rows, column, columns, c, beta);
}

/* ---- computing ------------------------------------------------------------------------------ */

static void run_tile(const plan *p, const k_piece *at, const a_panel *a, int64_t row, int64_t rows,
                     int64_t column_panel)
{
    _Alignas(64) element tile[ROWS * COLUMNS];
    int64_t column = column_panel * COLUMNS;
    int64_t columns = p->n - column < COLUMNS ? p->n - column : COLUMNS;
    const element *b = (const element *)p->b.data + at->first_k * p->b.row + column;
    int64_t b_step = p->b.row;
    if (column_panel >= p->first_packed) {
        b = at->packed_b + (column_panel - p->first_packed) * COLUMNS * at->depth;
        b_step = COLUMNS;
    }
    micros[rows - 1][columns > LANES](at->depth, a->data, a->row, a->step, b, b_step, tile);
    store_tile(p, at->number, tile, row, rows, column, columns);
}

static void run_task(const plan *p, const k_piece *at, int64_t task)
{
    _Alignas(64) element buffer[PANEL_ROWS * ROW_STEP];
    int64_t r = task / p->column_tasks, c = task % p->column_tasks;
    int64_t row_end = (r + 1) * p->row_panels / p->row_tasks;
    int64_t column_end = (c + 1) * p->column_panels / p->column_tasks;
    for (int64_t i = r * p->row_panels / p->row_tasks; i < row_end; i++) {
        int64_t row = panel_row(p, i), rows = panel_row(p, i + 1) - row;
        a_panel a = read_a(p, at, i, buffer);
        for (int64_t j = c * p->column_panels / p->column_tasks; j < column_end; j++)
            run_tile(p, at, &a, row, rows, j);
    }
}

static void run_tasks(void *context, int64_t begin, int64_t end)
{
    const plan *p = context;
    for (int64_t task = begin; task < end; task++)
        for (int64_t number = p->first_piece; number < p->last_piece; number++) {
            k_piece at = piece_of(p, number);
            run_task(p, &at, task);
        }
}

/* Lines of the GEMM's own type so short that reading across them leaves caches and page tables at ease. */
static bool has_near_lines(const tn_matrix *matrix, int64_t line)
{
    return matrix->dtype == GEMM_DTYPE && line * (int64_t)sizeof(element) <= 1024;
}

/* Reading a in place is slow where its rows collide in the cache, or where k runs across long lines. */
static a_mode choose_a_mode(const tn_matrix *a, int64_t m)
{
    if (a->column != 1) {
        bool in_place = m < 4 ? a->dtype == GEMM_DTYPE : a->row == 1 && has_near_lines(a, a->column);
        return in_place ? A_IN_PLACE : A_SIDE_BY_SIDE;
    }
    bool collides = m >= 4 && a->row * (int64_t)sizeof(element) % 2048 == 0;
    return collides || a->dtype != GEMM_DTYPE ? A_ROWS : A_IN_PLACE;
}

/* Whole panels of a narrow b with k from line to line are read in place. */
static int64_t count_in_place(const tn_matrix *b, int64_t n)
{
    return b->column == 1 && has_near_lines(b, b->row) ? n / COLUMNS : 0;
}

static void cut_tasks(plan *p)
{
    p->row_panels = divide_up(p->m, ROWS);
    p->column_panels = divide_up(p->n, COLUMNS);
    p->row_tasks = divide_up(p->m, TASK_ROWS);
    p->column_tasks = divide_up(p->n, TASK_COLUMNS);
    double flops = 2.0 * (double)p->m * (double)p->n * (double)p->most_depth;
    while (p->row_tasks * p->column_tasks < MIN_TASKS &&
           flops > 2 * least_task_flops * (double)(p->row_tasks * p->column_tasks)) {
        bool rows_left = p->row_tasks * 2 <= p->row_panels;
        bool columns_left = p->column_tasks * 2 <= p->column_panels;
        if (!rows_left && !columns_left)
            break;
        if (rows_left && (!columns_left || p->a_mode == A_SIDE_BY_SIDE || p->m / p->row_tasks >= p->n / p->column_tasks))
            p->row_tasks *= 2;
        else
            p->column_tasks *= 2;
    }
}

static tn_status run_block(plan *p)
{
    p->pieces = p->k > 0 ? divide_up(p->k, DEPTH) : 1;
    p->most_depth = divide_up(p->k, p->pieces);
    p->a_mode = choose_a_mode(&p->a, p->m);
    cut_tasks(p);
    p->first_packed = count_in_place(&p->b, p->n);
    int64_t b_elements = (p->column_panels - p->first_packed) * COLUMNS * p->most_depth;
    int64_t group = b_elements > 0 ? GROUP_ELEMENTS / b_elements : p->pieces;
    group = group < 1 ? 1 : group > p->pieces ? p->pieces : group;
    _Alignas(64) element small[SMALL_ELEMENTS];
    p->packed_b = small;
    int64_t elements = group * b_elements;
    if (elements > SMALL_ELEMENTS &&
        !(p->packed_b = tn_scratch(SLOT_PANELS, (size_t)elements * sizeof(element))))
        return TN_ERROR_OUT_OF_MEMORY;
    p->sums = NULL;
    if (p->pieces > 1 && p->out.dtype != GEMM_DTYPE &&
        !(p->sums = tn_scratch(SLOT_SUMS, (size_t)(p->m * p->n) * sizeof(element))))
        return TN_ERROR_OUT_OF_MEMORY;
    bool serial = 2.0 * (double)p->m * (double)p->n * (double)p->k <= serial_flops;
    int64_t tasks = p->row_tasks * p->column_tasks;
    for (p->first_piece = 0; p->first_piece < p->pieces; p->first_piece = p->last_piece) {
        p->last_piece = p->first_piece + group < p->pieces ? p->first_piece + group : p->pieces;
        int64_t jobs = (p->column_panels - p->first_packed) * (p->last_piece - p->first_piece);
        int64_t grain = serial ? jobs : divide_up(16384, COLUMNS * (p->most_depth + 1));
        if (jobs > 0)
            tn_parallel_for(jobs, grain, run_packing, p);
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

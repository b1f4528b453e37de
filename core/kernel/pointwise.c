/* The pointwise kernel: runs one tile primitive over operands of any strides and dtypes.
 *
 * The iteration space is cut into units by shape alone: pieces of rows, or blocks of whole rows where rows
 * are short. In each unit an input is used where it lies, if it is dense and of the tile's class, or loaded
 * into a buffer; what is the same for all units (numbers, rows broadcast over everything) is loaded once. */
#include <math.h>

#include "base/cpu.h"
#include "base/pool.h"
#include "kernel/pointwise.h"
#include "kernel/tile_io.h"
#include "kernel/walk.h"
#include "op/op.h"
#include "tn/op.h"

#define PROBE_pointwise , 1
#define SECOND_(a, b, ...) b
#define SECOND(...) SECOND_(__VA_ARGS__)
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define DECLARE_0(name)
#define DECLARE_1(name) extern const tn_tile_op TN_TILE_OP(name);
#define ROW_0(name)
#define ROW_1(name) [TN_OP_##name] = &TN_TILE_OP(name),

#define OP(name, kernel, outputs, inputs, cost, aten, scalars)                                     \
    PASTE(DECLARE_, SECOND(PROBE_##kernel, 0, 0))(name)
#include "op/ops.def"
#undef OP

const tn_tile_op *const TN_ISA_NAME(tn_tile_ops)[TN_OP_COUNT] = {
#define OP(name, kernel, outputs, inputs, cost, aten, scalars)                                     \
    PASTE(ROW_, SECOND(PROBE_##kernel, 0, 0))(name)
#include "op/ops.def"
#undef OP
};

enum {
    MAX_OPERANDS = TN_TILE_MAX_IN + TN_TILE_MAX_OUT,
    DIRECT_ELEMENTS = 8192,      /* of a unit that needs no buffers */
    SHORT_ROW = TN_TILE_ELEMENTS / 2,
    GRAIN_ELEMENTS = 16384,
};

typedef enum access_mode {
    DIRECT,   /* used where it lies */
    BUFFERED, /* loaded or stored unit by unit */
    STREAMED, /* an output that goes past the caches */
    ONCE,     /* the same in every unit */
} access_mode;

typedef struct plan {
    const tn_launch_desc *launch;
    const tn_tile_op *op;
    tn_tile_fn fn;
    tn_tile_class class;
    int inputs, outputs, count; /* of operands, numbers that come as scalars included */
    int first_scalar;           /* that is no operand */
    bool flat;                  /* one row, no walk: all operands are dense or one element */
    bool dense[MAX_OPERANDS];   /* rows follow each other without gaps */
    access_mode mode[MAX_OPERANDS];
    int64_t rows, columns;      /* of the iteration space */
    int64_t unit_rows, unit_columns, units_per_row;
    tn_operand numbers[TN_TILE_MAX_IN]; /* scalars that stand for operands */
    const tn_operand *operands[MAX_OPERANDS];
    tn_walk walk;
} plan;

typedef struct buffers {
    _Alignas(64) char tile[MAX_OPERANDS][TN_TILE_ELEMENTS * 16];
    _Alignas(64) char raw[TN_TILE_ELEMENTS * 16];
} buffers;

/* ---- planning -------------------------------------------------------------------------------- */

/* Comparisons with a number take it as a scalar where others take an operand. */
static void collect_operands(plan *p)
{
    const tn_launch_desc *launch = p->launch;
    p->outputs = launch->num_outputs;
    p->inputs = p->op->inputs;
    p->count = p->inputs + p->outputs;
    p->first_scalar = 0;
    for (int k = 0; k < p->count; k++) {
        if (k < launch->num_operands) {
            p->operands[k] = &launch->operands[k];
            continue;
        }
        tn_operand *number = &p->numbers[p->first_scalar];
        *number = (tn_operand){.dtype = launch->compute_dtype, .flags = TN_OPERAND_IMMEDIATE,
                               .value = launch->scalars[p->first_scalar]};
        p->first_scalar++;
        p->operands[k] = number;
    }
}

/* One element: a number, or a tensor of one (unless everything has one). */
static bool is_single(const tn_operand *operand)
{
    return operand->flags & TN_OPERAND_NO_DATA || tn_operand_numel(operand) == 1;
}

static bool try_flat(plan *p, int64_t n)
{
    for (int k = 0; k < p->count; k++) {
        const tn_operand *operand = p->operands[k];
        if (k >= p->outputs && is_single(operand) && n > 1)
            continue;
        if (operand->flags & TN_OPERAND_NO_DATA)
            continue;
        if (tn_operand_numel(operand) != n || !tn_operand_is_contiguous(operand))
            return false;
        p->dense[k] = true;
    }
    p->rows = 1;
    p->columns = n;
    return true;
}

static void plan_walk(plan *p)
{
    tn_walk *walk = &p->walk;
    tn_walk_init(walk, p->operands, p->count, true);
    p->columns = walk->sizes[walk->ndim - 1];
    p->rows = 1;
    for (int d = 0; d < walk->ndim - 1; d++)
        p->rows *= walk->sizes[d];
    for (int k = 0; k < p->count; k++) {
        int64_t expected = (int64_t)tn_dtype_size((tn_dtype)p->operands[k]->dtype);
        bool dense = !(p->operands[k]->flags & TN_OPERAND_NO_DATA);
        for (int d = walk->ndim - 1; d >= 0 && dense; d--) {
            dense = walk->strides[k][d] == expected;
            expected *= walk->sizes[d];
        }
        p->dense[k] = dense;
    }
}

/* Whether rows repeat: nothing but the column decides the value. */
static bool is_row_invariant(const plan *p, int k)
{
    for (int d = 0; d < p->walk.ndim - 1; d++)
        if (p->walk.strides[k][d] != 0)
            return false;
    return true;
}

static bool needs_rounding(const plan *p, int k)
{
    const tn_operand *operand = p->operands[k];
    uint8_t compute = p->launch->compute_dtype;
    return (compute == TN_BFLOAT16 || compute == TN_FLOAT16) && operand->dtype != compute &&
           operand->dtype != TN_BOOL && !(p->op->flags & TN_TILE_OPMATH && is_single(operand));
}

static bool is_usable_in_place(const plan *p, int k, bool short_rows)
{
    const tn_operand *operand = p->operands[k];
    if (!tn_tile_is_native(p->class, operand->dtype) ||
        operand->flags & (TN_OPERAND_CONJ | TN_OPERAND_NEG | TN_OPERAND_NO_DATA))
        return false;
    if (p->dense[k])
        return true;
    return !p->flat && !short_rows &&
           p->walk.strides[k][p->walk.ndim - 1] == (int64_t)tn_tile_element_bytes(p->class);
}

static void choose_modes(plan *p, bool short_rows, bool whole_rows)
{
    for (int k = 0; k < p->count; k++) {
        bool input = k >= p->outputs;
        if (input && is_single(p->operands[k]) && !p->dense[k])
            p->mode[k] = ONCE;
        else if (is_usable_in_place(p, k, short_rows))
            p->mode[k] = DIRECT;
        else if (input && !p->flat && whole_rows && is_row_invariant(p, k))
            p->mode[k] = ONCE;
        else
            p->mode[k] = BUFFERED;
    }
}

/* Output beyond the last cache is written around it, unless the op reads it too. */
static void choose_streaming(plan *p)
{
    const tn_operand *out = p->operands[0];
    size_t bytes = (size_t)(p->rows * p->columns) * tn_dtype_size((tn_dtype)out->dtype);
    if (bytes < (1u << 22) || bytes < tn_cpu_get()->l3_bytes || !p->dense[0])
        return;
    for (int k = 1; k < p->count; k++)
        if (p->operands[k]->data == out->data)
            return;
    p->mode[0] = STREAMED;
}

static void plan_units(plan *p)
{
    bool short_rows = p->rows > 1 && p->columns < SHORT_ROW;
    choose_modes(p, short_rows, p->columns <= TN_TILE_ELEMENTS);
    choose_streaming(p);
    bool buffered = false;
    for (int k = 0; k < p->count; k++)
        buffered |= p->mode[k] != DIRECT;
    p->unit_rows = 1;
    p->unit_columns = buffered ? TN_TILE_ELEMENTS : DIRECT_ELEMENTS;
    if (short_rows) {
        p->unit_rows = TN_TILE_ELEMENTS / p->columns;
        p->unit_columns = p->columns;
    }
    p->units_per_row = (p->columns + p->unit_columns - 1) / p->unit_columns;
}

/* ---- running --------------------------------------------------------------------------------- */

static void apply_flags(tn_tile_class class, uint8_t flags, void *tile, int64_t n)
{
    double *wide = tile;
    if (flags & TN_OPERAND_CONJ && class == TN_TILE_C128)
        for (int64_t i = 0; i < n; i++)
            wide[2 * i + 1] = -wide[2 * i + 1];
    if (!(flags & TN_OPERAND_NEG))
        return;
    if (class == TN_TILE_F32)
        for (int64_t i = 0; i < n; i++)
            ((float *)tile)[i] = -((float *)tile)[i];
    else if (class == TN_TILE_I64)
        for (int64_t i = 0; i < n; i++)
            ((uint64_t *)tile)[i] = 0 - ((uint64_t *)tile)[i];
    else
        for (int64_t i = 0; i < (class == TN_TILE_C128 ? 2 * n : n); i++)
            wide[i] = -wide[i];
}

/* A number that CPU torch would first cast to the half-width common dtype. */
static void round_tile(const plan *p, int k, void *tile, int64_t n)
{
    uint16_t narrow[TN_TILE_ELEMENTS];
    if (!needs_rounding(p, k))
        return;
    tn_tile_store(TN_TILE_F32, p->launch->compute_dtype, narrow, tile, n);
    tn_tile_load(TN_TILE_F32, p->launch->compute_dtype, tile, narrow, n);
}

/* `rows` rows of `columns` elements from a place in the walk, gathered into dense memory. */
static void gather_block(const plan *p, int k, const int64_t *start, int64_t column, int64_t rows,
                         int64_t columns, char *dense)
{
    const tn_operand *operand = p->operands[k];
    size_t size = tn_dtype_size((tn_dtype)operand->dtype);
    int64_t index[TN_MAX_DIMS], stride = p->walk.strides[k][p->walk.ndim - 1];
    memcpy(index, start, (size_t)(p->walk.ndim - 1) * sizeof *index);
    for (int64_t r = 0; r < rows; r++) {
        const char *row = (const char *)operand->data + tn_walk_offset(&p->walk, k, index);
        tn_gather_run(dense, row + column * stride, stride, columns, size);
        dense += (size_t)columns * size;
        tn_walk_next(&p->walk, index);
    }
}

static void scatter_block(const plan *p, int k, const int64_t *start, int64_t column, int64_t rows,
                          int64_t columns, const char *dense)
{
    const tn_operand *operand = p->operands[k];
    size_t size = tn_dtype_size((tn_dtype)operand->dtype);
    int64_t index[TN_MAX_DIMS], stride = p->walk.strides[k][p->walk.ndim - 1];
    memcpy(index, start, (size_t)(p->walk.ndim - 1) * sizeof *index);
    for (int64_t r = 0; r < rows; r++) {
        char *row = (char *)operand->data + tn_walk_offset(&p->walk, k, index);
        tn_scatter_run(row + column * stride, stride, dense, columns, size);
        dense += (size_t)columns * size;
        tn_walk_next(&p->walk, index);
    }
}

typedef struct unit {
    int64_t row, column, rows, columns, n;
    int64_t index[TN_MAX_DIMS]; /* of its first row; unused where the plan is flat */
} unit;

static void locate(const plan *p, int64_t number, unit *out_unit)
{
    unit *u = out_unit;
    u->row = number / p->units_per_row * p->unit_rows;
    u->column = number % p->units_per_row * p->unit_columns;
    u->rows = p->rows - u->row < p->unit_rows ? p->rows - u->row : p->unit_rows;
    u->columns = p->columns - u->column < p->unit_columns ? p->columns - u->column : p->unit_columns;
    u->n = u->rows * u->columns;
    if (!p->flat)
        tn_walk_seek(&p->walk, u->row, u->index);
}

static char *address(const plan *p, int k, const unit *u)
{
    const tn_operand *operand = p->operands[k];
    char *data = operand->data;
    if (p->dense[k])
        return data + (u->row * p->columns + u->column) *
                          (int64_t)tn_dtype_size((tn_dtype)operand->dtype);
    return data + tn_walk_offset(&p->walk, k, u->index) +
           u->column * p->walk.strides[k][p->walk.ndim - 1];
}

static void load(const plan *p, int k, const unit *u, char *tile, char *raw)
{
    const tn_operand *operand = p->operands[k];
    const char *dense = raw;
    if (p->dense[k])
        dense = address(p, k, u);
    else
        gather_block(p, k, u->index, u->column, u->rows, u->columns, raw);
    tn_tile_load(p->class, operand->dtype, tile, dense, u->n);
    if (operand->flags & (TN_OPERAND_CONJ | TN_OPERAND_NEG))
        apply_flags(p->class, operand->flags, tile, u->n);
    if (operand->dtype != p->launch->compute_dtype)
        round_tile(p, k, tile, u->n);
}

/* A bound that was not given. */
static tn_scalar infinite_bound(tn_tile_class class, bool high)
{
    tn_scalar bound = {.kind = TN_SCALAR_FLOAT, .d = high ? INFINITY : -INFINITY};
    if (class == TN_TILE_I64)
        bound = (tn_scalar){.kind = TN_SCALAR_INT, .i = high ? INT64_MAX : INT64_MIN};
    return bound;
}

static void load_single(const plan *p, int k, int64_t n, char *tile)
{
    const tn_operand *operand = p->operands[k];
    if (operand->flags & TN_OPERAND_ABSENT) {
        tn_tile_set(p->class, tile, infinite_bound(p->class, k > p->outputs + 1));
    } else if (operand->flags & TN_OPERAND_IMMEDIATE) {
        tn_tile_set(p->class, tile, operand->value);
    } else {
        tn_tile_load(p->class, operand->dtype, tile, operand->data, 1);
        apply_flags(p->class, operand->flags, tile, 1);
    }
    round_tile(p, k, tile, 1);
    tn_tile_fill(p->class, tile, n);
}

static void store(const plan *p, int k, const unit *u, const char *tile, char *raw)
{
    const tn_operand *operand = p->operands[k];
    uint8_t dtype = operand->dtype;
    if (p->mode[k] == STREAMED) {
        bool native = tn_tile_is_native(p->class, dtype);
        if (!native)
            tn_tile_store(p->class, dtype, raw, tile, u->n);
        tn_stream_out(address(p, k, u), native ? tile : raw,
                      (size_t)u->n * tn_dtype_size((tn_dtype)dtype));
    } else if (p->dense[k]) {
        tn_tile_store(p->class, dtype, address(p, k, u), tile, u->n);
    } else {
        tn_tile_store(p->class, dtype, raw, tile, u->n);
        scatter_block(p, k, u->index, u->column, u->rows, u->columns, raw);
    }
}

typedef struct job {
    const plan *plan;
    uint8_t fault; /* as of tn_tile_call */
} job;

static void run_units(void *context, int64_t begin, int64_t end)
{
    job *j = context;
    const plan *p = j->plan;
    buffers b;
    uint8_t fault = 0;
    unit u;
    tn_tile_call call = {.scalars = p->launch->scalars + p->first_scalar,
                         .num_scalars = p->launch->num_scalars - p->first_scalar,
                         .compute_dtype = p->launch->compute_dtype,
                         .seed = p->launch->rng_seed,
                         .offset = p->launch->rng_offset,
                         .fault = &fault};
    int64_t all = p->rows * p->columns, largest = p->unit_rows * p->unit_columns;
    locate(p, begin, &u);
    for (int k = p->outputs; k < p->count; k++) {
        if (p->mode[k] != ONCE)
            continue;
        if (is_single(p->operands[k]))
            load_single(p, k, all < largest ? all : largest, b.tile[k]);
        else
            load(p, k, &u, b.tile[k], b.raw);
        call.in[k - p->outputs] = b.tile[k];
    }
    for (int64_t number = begin;;) {
        for (int k = p->outputs; k < p->count; k++) {
            if (p->mode[k] == DIRECT)
                call.in[k - p->outputs] = address(p, k, &u);
            else if (p->mode[k] == BUFFERED)
                load(p, k, &u, b.tile[k], b.raw), call.in[k - p->outputs] = b.tile[k];
        }
        for (int k = 0; k < p->outputs; k++)
            call.out[k] = p->mode[k] == DIRECT ? address(p, k, &u) : b.tile[k];
        call.base = u.row * p->columns + u.column;
        p->fn(&call, u.n);
        for (int k = 0; k < p->outputs; k++)
            if (p->mode[k] != DIRECT)
                store(p, k, &u, b.tile[k], b.raw);
        if (++number == end)
            break;
        locate(p, number, &u);
    }
    if (p->mode[0] == STREAMED)
        tn_stream_fence();
    if (fault)
        __atomic_store_n(&j->fault, fault, __ATOMIC_RELAXED);
}

static tn_status status_of(const tn_launch_desc *launch, uint8_t fault)
{
    if (!fault)
        return TN_OK;
    if (launch->op == TN_OP_cross_entropy)
        return tn_fail(TN_ERROR_RUNTIME, "all elements of %s should be between 0 and 1",
                       fault == 1 ? "input" : "target");
    return tn_fail(TN_ERROR_RUNTIME, "ZeroDivisionError");
}

/* Whether every operand is a plain dense tensor of n elements in the class's own dtype. */
static bool is_plain(const tn_launch_desc *launch, const tn_tile_op *op, tn_tile_class class, int64_t n)
{
    if (launch->num_operands != launch->num_outputs + op->inputs)
        return false;
    for (int k = 0; k < launch->num_operands; k++) {
        const tn_operand *operand = &launch->operands[k];
        if (operand->flags || !tn_tile_is_native(class, operand->dtype))
            return false;
        int64_t expected = 1;
        for (int d = operand->ndim - 1; d >= 0; d--) {
            if (operand->strides[d] != expected && operand->sizes[d] != 1)
                return false;
            expected *= operand->sizes[d];
        }
        if (expected != n)
            return false;
    }
    return true;
}

/* One unit that needs no plan: what small eager operators are. */
static tn_status run_plain(const tn_launch_desc *launch, tn_tile_fn fn, int64_t n)
{
    uint8_t fault = 0;
    tn_tile_call call = {.scalars = launch->scalars,
                         .num_scalars = launch->num_scalars,
                         .compute_dtype = launch->compute_dtype,
                         .seed = launch->rng_seed,
                         .offset = launch->rng_offset,
                         .fault = &fault};
    for (int k = 0; k < launch->num_outputs; k++)
        call.out[k] = launch->operands[k].data;
    for (int k = launch->num_outputs; k < launch->num_operands; k++)
        call.in[k - launch->num_outputs] = launch->operands[k].data;
    fn(&call, n);
    return status_of(launch, fault);
}

tn_status TN_KERNEL(pointwise)(const tn_launch_desc *launch)
{
    return tn_pointwise_run(launch, TN_ISA_NAME(tn_tile_ops)[launch->op]);
}

tn_status tn_pointwise_run(const tn_launch_desc *launch, const tn_tile_op *op)
{
    plan p;
    p.launch = launch;
    p.op = op;
    p.class = tn_tile_class_of(launch->compute_dtype);
    p.fn = p.op->fn[p.class];
    if (!p.fn)
        return tn_fail(TN_ERROR_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'",
                       tn_op_name(launch->op), tn_dtype_name((tn_dtype)launch->compute_dtype));
    int64_t n = tn_operand_numel(tn_output(launch, 0));
    if (n == 0)
        return TN_OK;
    if (n <= DIRECT_ELEMENTS && is_plain(launch, op, p.class, n))
        return run_plain(launch, p.fn, n);
    collect_operands(&p);
    memset(p.dense, 0, sizeof p.dense);
    p.flat = try_flat(&p, n);
    if (!p.flat)
        plan_walk(&p);
    plan_units(&p);
    int64_t units = (p.rows + p.unit_rows - 1) / p.unit_rows * p.units_per_row;
    int64_t unit_elements = p.unit_rows * (p.columns < p.unit_columns ? p.columns : p.unit_columns);
    int64_t grain = 1 + GRAIN_ELEMENTS / unit_elements;
    job j = {&p, 0};
    tn_parallel_for(units, grain, run_units, &j);
    return status_of(launch, j.fault);
}

/* Copies and fills of any strides and dtypes.
 *
 * Equal dtypes move raw elements: one memory copy where both sides are dense, row by row where rows are,
 * in square blocks where one side's rows are the other's columns. Everything that converts is the identity
 * primitive of the pointwise kernel between the tile loader and storer. */
#include "base/cpu.h"
#include "base/pool.h"
#include "kernel/pointwise.h"
#include "kernel/tile_io.h"
#include "kernel/walk.h"

enum { GRAIN_BYTES = 1 << 16, BLOCK = 32 };

TN_TILE_DEFINE(identity_f32, float, 1, (void)0, a)
TN_TILE_DEFINE(identity_f64, double, 1, (void)0, a)
TN_TILE_DEFINE(identity_i64, int64_t, 1, (void)0, a)
TN_TILE_DEFINE(identity_c128, tn_complex, 1, (void)0, a)
static const tn_tile_op identity = {
    .fn = {identity_f32, identity_f64, identity_i64, identity_c128}, .inputs = 1};

typedef struct move {
    tn_walk walk; /* operand 0 is written, operand 1 read */
    char *to;
    const char *from;
    size_t size;
    int64_t columns;  /* of the innermost dimension */
    int across;       /* dimension along which the source is dense, in block transposes */
    int64_t blocks;   /* of rows per plane there */
    uint64_t value[2]; /* of fills */
} move;

static void move_bytes(void *context, int64_t begin, int64_t end)
{
    const move *m = context;
    memcpy(m->to + begin, m->from + begin, (size_t)(end - begin));
}

/* For what the last cache cannot hold: the destination is not read first. */
static void stream_bytes(void *context, int64_t begin, int64_t end)
{
    const move *m = context;
    int64_t whole = (end - begin) / 64 * 64;
    tn_stream_out(m->to + begin, m->from + begin, (size_t)whole);
    tn_stream_fence();
    memcpy(m->to + begin + whole, m->from + begin + whole, (size_t)(end - begin - whole));
}

/* ---- rows ------------------------------------------------------------------------------------- */

typedef struct element16 {
    uint64_t half[2];
} element16;

#define MOVE_STRIDED(T)                                                                            \
    for (int64_t i = 0; i < n; i++)                                                                \
        *(T *)(to + i * to_stride) = *(const T *)(from + i * from_stride);                         \
    break

static void move_strided(char *to, int64_t to_stride, const char *from, int64_t from_stride, int64_t n,
                         size_t size)
{
    if (to_stride == (int64_t)size && from_stride == to_stride) {
        memcpy(to, from, (size_t)n * size);
        return;
    }
    switch (size) {
    case 1: MOVE_STRIDED(uint8_t);
    case 2: MOVE_STRIDED(uint16_t);
    case 4: MOVE_STRIDED(uint32_t);
    case 8: MOVE_STRIDED(uint64_t);
    default: MOVE_STRIDED(element16);
    }
}

static void move_rows(void *context, int64_t begin, int64_t end)
{
    const move *m = context;
    const tn_walk *walk = &m->walk;
    int inner = walk->ndim - 1;
    int64_t index[TN_MAX_DIMS];
    tn_walk_seek(walk, begin, index);
    for (int64_t row = begin; row < end; row++) {
        move_strided(m->to + tn_walk_offset(walk, 0, index), walk->strides[0][inner],
                     m->from + tn_walk_offset(walk, 1, index), walk->strides[1][inner], m->columns,
                     m->size);
        tn_walk_next(walk, index);
    }
}

/* ---- block transposes -------------------------------------------------------------------------- */

/* Read along dimension `across`, written along the innermost one, through a small block: each cache line is
 * touched once, even where a power of two as pitch would map whole columns to one set of the cache. */
#define MOVE_BLOCK(T)                                                                              \
    {                                                                                              \
        T block[BLOCK][BLOCK + 1];                                                                 \
        for (int64_t c = 0; c < columns; c++)                                                      \
            for (int64_t r = 0; r < rows; r++)                                                     \
                block[c][r] = *(const T *)(from + r * (int64_t)sizeof(T) + c * from_column);       \
        for (int64_t r = 0; r < rows; r++)                                                         \
            for (int64_t c = 0; c < columns; c++)                                                  \
                *(T *)(to + r * to_row + c * to_column) = block[c][r];                             \
        break;                                                                                     \
    }

static void move_block(const move *m, char *to, const char *from, int64_t rows, int64_t columns)
{
    int inner = m->walk.ndim - 1;
    int64_t to_row = m->walk.strides[0][m->across], to_column = m->walk.strides[0][inner];
    int64_t from_column = m->walk.strides[1][inner];
    switch (m->size) {
    case 1: MOVE_BLOCK(uint8_t)
    case 2: MOVE_BLOCK(uint16_t)
    case 4: MOVE_BLOCK(uint32_t)
    case 8: MOVE_BLOCK(uint64_t)
    default: MOVE_BLOCK(element16)
    }
}

/* A unit is BLOCK rows of one plane; planes are counted by the other dimensions. */
static void move_planes(void *context, int64_t begin, int64_t end)
{
    const move *m = context;
    const tn_walk *walk = &m->walk;
    int inner = walk->ndim - 1;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t plane = unit / m->blocks, row = unit % m->blocks * BLOCK;
        int64_t all = walk->sizes[m->across], rows = all - row < BLOCK ? all - row : BLOCK;
        char *to = m->to + row * walk->strides[0][m->across];
        const char *from = m->from + row * walk->strides[1][m->across];
        for (int d = inner - 1; d >= 0; d--) {
            if (d == m->across)
                continue;
            int64_t i = plane % walk->sizes[d];
            plane /= walk->sizes[d];
            to += i * walk->strides[0][d];
            from += i * walk->strides[1][d];
        }
        for (int64_t c = 0; c < m->columns; c += BLOCK) {
            int64_t columns = m->columns - c < BLOCK ? m->columns - c : BLOCK;
            move_block(m, to + c * walk->strides[0][inner], from + c * walk->strides[1][inner], rows,
                       columns);
        }
    }
}

/* The dimension along which the source is dense, if it is not the innermost one. */
static int find_across(const move *m)
{
    const tn_walk *walk = &m->walk;
    int inner = walk->ndim - 1;
    if (walk->strides[1][inner] == (int64_t)m->size || walk->strides[1][inner] == 0)
        return -1;
    for (int d = inner - 1; d >= 0; d--)
        if (walk->strides[1][d] == (int64_t)m->size && walk->sizes[d] > 1)
            return d;
    return -1;
}

static void move_elements(const tn_operand *out, const tn_operand *in, int64_t n)
{
    move m = {.to = out->data, .from = in->data, .size = tn_dtype_size((tn_dtype)out->dtype)};
    if (tn_operand_numel(in) == n && tn_operand_is_contiguous(out) && tn_operand_is_contiguous(in)) {
        int64_t bytes = n * (int64_t)m.size;
        bool streams = (size_t)bytes > tn_cpu_get()->l3_bytes;
        tn_parallel_for(bytes, GRAIN_BYTES, streams ? stream_bytes : move_bytes, &m);
        return;
    }
    const tn_operand *operands[] = {out, in};
    tn_walk_init(&m.walk, operands, 2, true);
    m.columns = m.walk.sizes[m.walk.ndim - 1];
    m.across = find_across(&m);
    if (m.across >= 0) {
        m.blocks = (m.walk.sizes[m.across] + BLOCK - 1) / BLOCK;
        int64_t planes = n / m.columns / m.walk.sizes[m.across];
        int64_t unit_bytes = m.columns * BLOCK * (int64_t)m.size;
        tn_parallel_for(planes * m.blocks, 1 + GRAIN_BYTES / unit_bytes, move_planes, &m);
        return;
    }
    tn_parallel_for(n / m.columns, 1 + GRAIN_BYTES / (m.columns * (int64_t)m.size), move_rows, &m);
}

tn_status TN_KERNEL(copy)(const tn_launch_desc *launch)
{
    const tn_operand *out = tn_output(launch, 0), *in = tn_input(launch, 0);
    int64_t n = tn_operand_numel(out);
    if (n == 0)
        return TN_OK;
    if (out->dtype == in->dtype && !(in->flags & ~TN_OPERAND_HOST)) {
        move_elements(out, in, n);
        return TN_OK;
    }
    tn_launch_desc convert = *launch;
    convert.compute_dtype = in->dtype;
    if (in->dtype == TN_UINT64 && tn_tile_class_of(out->dtype) != TN_TILE_I64) /* has no int64 */
        convert.compute_dtype = tn_dtype_size((tn_dtype)out->dtype) > 4 ? TN_FLOAT64 : TN_FLOAT32;
    return tn_pointwise_run(&convert, &identity);
}

/* ---- fills --------------------------------------------------------------------------------------- */

#define FILL(T)                                                                                    \
    {                                                                                              \
        T value;                                                                                   \
        memcpy(&value, m->value, sizeof value);                                                    \
        if (stride == (int64_t)sizeof value)                                                       \
            for (int64_t i = 0; i < n; i++)                                                        \
                ((T *)to)[i] = value;                                                              \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                        \
                *(T *)(to + i * stride) = value;                                                   \
        break;                                                                                     \
    }

static void fill_run(const move *m, char *to, int64_t stride, int64_t n)
{
    switch (m->size) {
    case 1: FILL(uint8_t)
    case 2: FILL(uint16_t)
    case 4: FILL(uint32_t)
    case 8: FILL(uint64_t)
    default: FILL(element16)
    }
}

static void fill_dense(void *context, int64_t begin, int64_t end)
{
    const move *m = context;
    if (m->value[0] == 0 && m->value[1] == 0)
        memset(m->to + begin * (int64_t)m->size, 0, (size_t)(end - begin) * m->size);
    else
        fill_run(m, m->to + begin * (int64_t)m->size, (int64_t)m->size, end - begin);
}

static void fill_rows(void *context, int64_t begin, int64_t end)
{
    const move *m = context;
    int64_t index[TN_MAX_DIMS];
    tn_walk_seek(&m->walk, begin, index);
    for (int64_t row = begin; row < end; row++) {
        fill_run(m, m->to + tn_walk_offset(&m->walk, 0, index), m->walk.strides[0][m->walk.ndim - 1],
                 m->columns);
        tn_walk_next(&m->walk, index);
    }
}

tn_status TN_KERNEL(fill)(const tn_launch_desc *launch)
{
    const tn_operand *out = tn_output(launch, 0);
    int64_t n = tn_operand_numel(out);
    if (n == 0)
        return TN_OK;
    tn_tile_class class = tn_tile_class_of(out->dtype);
    move m = {.to = out->data, .size = tn_dtype_size((tn_dtype)out->dtype)};
    uint64_t wide[2] = {0};
    tn_tile_set(class, wide, launch->scalars[0]);
    tn_tile_store(class, out->dtype, m.value, wide, 1);
    if (tn_operand_is_contiguous(out)) {
        tn_parallel_for(n, GRAIN_BYTES * 4 / (int64_t)m.size, fill_dense, &m);
        return TN_OK;
    }
    tn_walk_init(&m.walk, &out, 1, true);
    m.columns = m.walk.sizes[m.walk.ndim - 1];
    tn_parallel_for(n / m.columns, 1 + GRAIN_BYTES / (m.columns * (int64_t)m.size), fill_rows, &m);
    return TN_OK;
}

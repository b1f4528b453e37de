/* Sums per channel and affine maps per channel (channels.h). The loops are in channels_typed.h.
 *
 * Moments: differences from a center are summed beside their squares, so that one reading of the
 * tensor gives both. The center is the key's first element, exact in fp64. fp64 tensors, whose sums
 * round, are read again around the mean that the first reading found.
 *
 * A pass runs in one of two ways, with the same bits: key by key, each thread taking whole keys
 * through sums, finish and map while their elements are in its cache; or in phases, each of which
 * cuts keys too. */
#include "kernel/channels.h"

#include <math.h>
#include <string.h>

#include "base/pool.h"
#include "kernel/lanes.h"
#include "kernel/rows.h"

enum {
    TILE = 512,
    PIECE = 1 << 16, /* elements of a chunk */
    MAX_CHUNKS = 64,
    GRAIN = 1 << 14, /* elements that are worth a thread */
    MIN_UNITS = 8,   /* fewer keys are worked off in phases */
    CACHE_BYTES = 1 << 20,
    SLOT_PARTIAL = 0,
    SLOT_VECTORS = 1
};

/* Dtype arguments of the row functions for a dense row. */
#define TILE_ROW(operand) (int64_t) tn_dtype_size((operand)->dtype), (operand)->dtype

typedef struct job {
    const tn_channel_pass *pass;
    bool wide;              /* fp64 */
    int64_t chunks, length; /* pieces per key; what they cut: elements of a key, or rows */
    int64_t blocks;         /* of columns, per matrix */
    int64_t pieces;         /* of a key's elements in the map */
    int64_t together;
    double *partial;     /* [chunks, keys, 2] */
} job;

static int64_t smallest(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t largest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static char *element(const tn_operand *operand, int64_t index)
{
    return (char *)operand->data + index * (int64_t)tn_dtype_size(operand->dtype);
}

#define T float
#define DTYPE TN_FLOAT32
#define NAME(x) x##_f32
#define ROW tn_row_f32
#define STORE TN_ISA_NAME(tn_store_f32)
#include "kernel/channels_typed.h"
#undef T
#undef DTYPE
#undef NAME
#undef ROW
#undef STORE
#define T double
#define DTYPE TN_FLOAT64
#define NAME(x) x##_f64
#define ROW tn_row_f64
#define STORE TN_ISA_NAME(tn_store_f64)
#include "kernel/channels_typed.h"
#undef T
#undef DTYPE
#undef NAME
#undef ROW
#undef STORE

/* ---- one key
 * ------------------------------------------------------------------------------------- */

static int64_t cut(const job *j, int64_t chunk)
{
    return j->length * chunk / j->chunks;
}

/* One chunk of a key, or of a block of columns that starts with it. */
static void sum_chunk(const job *j, int64_t key, int64_t chunk, double *out)
{
    int64_t begin = cut(j, chunk), end = cut(j, chunk + 1);
    if (j->pass->channels.last)
        (j->wide ? sum_columns_f64 : sum_columns_f32)(j, key, begin, end, out);
    else
        (j->wide ? sum_rows_f64 : sum_rows_f32)(j, key, begin, end, out);
}

/* The center that moments are first taken around. */
static void find_center(const tn_channel_pass *p, int64_t key)
{
    const tn_channels *c = &p->channels;
    int64_t first =
        c->last ? key / c->width * c->outer * c->width + key % c->width : key * c->width;
    TN_ISA_NAME(tn_load_f64)(element(p->x, first), 0, p->x->dtype, &p->center[key], 1);
    if (!isfinite(p->center[key]))
        p->center[key] = 0;
}

/* Turns the two sums of a key into what the pass is to deliver. */
static void settle(const tn_channel_pass *p, int64_t key, double first, double second)
{
    if (p->sums == TN_CHANNEL_MOMENTS) {
        double off = first / (double)tn_channels_count(&p->channels), m2 = second - off * first;
        first = p->center[key] + off;
        second = m2 < 0 ? 0 : m2;
    }
    p->first[key] = first;
    p->second[key] = second;
}

/* fp64 moments are taken twice. */
static int rounds(const job *j)
{
    return j->pass->sums == TN_CHANNEL_MOMENTS && j->wide ? 2 : 1;
}

static void recenter(const tn_channel_pass *p, int64_t key)
{
    p->center[key] = isfinite(p->first[key]) ? p->first[key] : 0;
}

static void whole_key(const job *j, int64_t key)
{
    const tn_channel_pass *p = j->pass;
    for (int round = 0; round < rounds(j); round++) {
        if (p->sums == TN_CHANNEL_MOMENTS && round == 0)
            find_center(p, key);
        else if (round > 0)
            recenter(p, key);
        double first = 0, second = 0;
        for (int64_t chunk = 0; chunk < j->chunks; chunk++) {
            double sums[2];
            sum_chunk(j, key, chunk, sums);
            first += sums[0];
            second += sums[1];
        }
        settle(p, key, first, second);
    }
}

static void run_keys(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    const tn_channel_pass *p = j->pass;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t from = unit * j->together, to = from + j->together;
        for (int64_t key = from; key < to; key++)
            whole_key(j, key);
        if (p->finish)
            p->finish(p->context, from, to);
        for (int64_t key = from; tn_is_present(p->y) && key < to; key++)
            (j->wide ? map_rows_f64 : map_rows_f32)(j, key, 0, j->length);
    }
}

/* ---- phases
 * -------------------------------------------------------------------------------------- */

static void sum_units(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    const tn_channels *c = &j->pass->channels;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t chunk = unit % j->chunks, key = unit / j->chunks;
        if (c->last)
            key = key / j->blocks * c->width + key % j->blocks * TILE;
        sum_chunk(j, key, chunk, j->partial + 2 * (chunk * c->keys + key));
    }
}

static tn_status sum_phase(job *j, int64_t work)
{
    const tn_channel_pass *p = j->pass;
    const tn_channels *c = &p->channels;
    j->partial = tn_scratch(SLOT_PARTIAL, (size_t)(j->chunks * c->keys * 2) * sizeof(double));
    if (!j->partial)
        return TN_ERROR_OUT_OF_MEMORY;
    int64_t units = (c->last ? c->keys / c->width * j->blocks : c->keys) * j->chunks;
    for (int round = 0; round < rounds(j); round++) {
        for (int64_t key = 0; p->sums == TN_CHANNEL_MOMENTS && key < c->keys; key++)
            if (round == 0)
                find_center(p, key);
            else
                recenter(p, key);
        tn_parallel_for(units, 1 + GRAIN / largest(1, work / j->chunks), sum_units, j);
        for (int64_t key = 0; key < c->keys; key++) {
            double first = 0, second = 0;
            for (int64_t chunk = 0; chunk < j->chunks; chunk++) {
                const double *sums = j->partial + 2 * (chunk * c->keys + key);
                first += sums[0];
                second += sums[1];
            }
            settle(p, key, first, second);
        }
    }
    return TN_OK;
}

static void map_units(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t key = unit / j->pieces, piece = unit % j->pieces, count = j->length;
        (j->wide ? map_rows_f64 : map_rows_f32)(j, key, count * piece / j->pieces,
                                                count * (piece + 1) / j->pieces);
    }
}

static void map_phase(job *j)
{
    const tn_channels *c = &j->pass->channels;
    if (c->last) {
        tn_parallel_for(c->keys / c->width * c->outer, 1 + GRAIN / c->width,
                        j->wide ? map_columns_f64 : map_columns_f32, j);
        return;
    }
    j->pieces = j->length / GRAIN + 1;
    tn_parallel_for(c->keys * j->pieces, 1 + GRAIN / (1 + j->length / j->pieces), map_units, j);
}

tn_status TN_ISA_NAME(tn_channel_run)(const tn_channel_pass *p)
{
    const tn_channels *c = &p->channels;
    const tn_operand *x = p->sums == TN_CHANNEL_NONE ? p->map_x : p->x;
    job j = {.pass = p, .wide = x->dtype == TN_FLOAT64, .length = tn_channels_count(c)};
    int64_t work = j.length * (c->last ? smallest(c->width, TILE) : 1);
    j.chunks = largest(1, smallest(smallest(work / PIECE, MAX_CHUNKS), j.length));
    j.blocks = (c->width + TILE - 1) / TILE;
    j.together = largest(1, p->together);
    int64_t unit = j.length * j.together, bytes = unit * (int64_t)tn_dtype_size(x->dtype);
    bytes *= (p->sums == TN_CHANNEL_PRODUCTS ? 2 : 1) + tn_is_present(p->y);
    if (!c->last && p->sums != TN_CHANNEL_NONE && c->keys / j.together >= MIN_UNITS &&
        bytes <= CACHE_BYTES) {
        tn_parallel_for(c->keys / j.together, 1 + GRAIN / unit, run_keys, &j);
        return TN_OK;
    }
    tn_status status = p->sums == TN_CHANNEL_NONE ? TN_OK : sum_phase(&j, work);
    if (status != TN_OK)
        return status;
    if (p->finish)
        p->finish(p->context, 0, c->keys);
    if (tn_is_present(p->y))
        map_phase(&j);
    return TN_OK;
}

/* ---- vectors
 * ------------------------------------------------------------------------------------- */

double *TN_ISA_NAME(tn_channel_vectors)(int64_t n, int64_t count)
{
    return tn_scratch(SLOT_VECTORS, (size_t)(n * count) * sizeof(double));
}

void TN_ISA_NAME(tn_channel_load)(const tn_operand *operand, double *out, int64_t n)
{
    if (tn_is_present(operand))
        TN_ISA_NAME(tn_load_f64)
        (operand->data, (int64_t)tn_dtype_size(operand->dtype), operand->dtype, out, n);
}

void TN_ISA_NAME(tn_channel_store)(const tn_operand *operand, const double *values, int64_t n)
{
    if (tn_is_present(operand))
        TN_ISA_NAME(tn_store_f64)(operand->data, (int64_t)tn_dtype_size(operand->dtype),
                                  operand->dtype, values, n);
}

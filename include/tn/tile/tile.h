/* Tile primitives: what a pointwise operator is.
 *
 * A primitive maps k input tiles to m output tiles of n elements each. Tiles are dense arrays of their
 * class's element type; strides, broadcasts and conversions are the loader's business. An output tile may
 * be one of the input tiles. One function per (operator, class, instruction set).
 *
 * Classes: fp32 (also bf16 and fp16, rounded by the storer), fp64, int64 (all integers and bool, cut by
 * the storer: exact modulo 2^bits) and complex128 (also complex64). */
#ifndef TN_TILE_TILE_H
#define TN_TILE_TILE_H

#include "tn/base.h"
#include "tn/tile/simd.h"

typedef enum tn_tile_class {
    TN_TILE_F32 = 0,
    TN_TILE_F64 = 1,
    TN_TILE_I64 = 2,
    TN_TILE_C128 = 3,
    TN_TILE_CLASSES = 4
} tn_tile_class;

typedef struct tn_complex {
    double re, im;
} tn_complex;

enum { TN_TILE_MAX_IN = 5, TN_TILE_MAX_OUT = 2 };

typedef struct tn_tile_call {
    void *out[TN_TILE_MAX_OUT];
    const void *in[TN_TILE_MAX_IN];
    const tn_scalar *scalars;
    int32_t num_scalars;
    uint8_t compute_dtype; /* tn_dtype */
    int64_t base;          /* linear index of the tile's first element */
    uint64_t seed, offset; /* of the launch's random numbers */
    uint8_t *fault;        /* set where only the data can tell: 1, or 2 for a second kind */
} tn_tile_call;

typedef void (*tn_tile_fn)(const tn_tile_call *call, int64_t n);

typedef struct tn_tile_op {
    tn_tile_fn fn[TN_TILE_CLASSES]; /* NULL: not served */
    uint8_t inputs; /* tiles read; the last ones may come as scalars instead of operands */
    uint8_t flags;
} tn_tile_op;

enum {
    TN_TILE_BOOL = 1,        /* the int64 primitive serves bool too */
    TN_TILE_OPMATH = 2,      /* numbers beside bf16 and fp16 tensors keep fp32 precision */
    TN_TILE_FLOAT_ONLY = 4,  /* fp32 and fp64 but neither bf16 nor fp16 */
    TN_TILE_BOUNDS = 8,      /* input 1, if absent, is the lowest value, input 2 the highest */
    TN_TILE_UNSIGNED = 16,   /* the int64 primitive serves uint16, uint32 and uint64 too */
};

/* ---- scalars of a call ----------------------------------------------------------------------- */

TN_INLINE double tn_call_double(const tn_tile_call *call, int index)
{
    return tn_scalar_as_double(call->scalars[index]);
}

TN_INLINE int64_t tn_call_int(const tn_tile_call *call, int index)
{
    return tn_scalar_as_int(call->scalars[index]);
}

/* ---- writing a primitive --------------------------------------------------------------------- */

/* Defines NAME(call, n) for element type T with K inputs: `out` = VALUE of lanes a, b, c, d. SETUP
 * declares what is the same for all lanes. A tail runs through a padded block, so that it is computed by
 * the same code as everything else. */
#define TN_TILE_DEFINE(NAME, T, K, SETUP, VALUE)                                                    \
    static void NAME(const tn_tile_call *call, int64_t n)                                           \
    {                                                                                               \
        SETUP;                                                                                      \
        T pad[(K) + 1][TN_LANE_COUNT];                                                              \
        for (int64_t i = 0; i < n; i += TN_LANE_COUNT) {                                            \
            const T *in[4];                                                                         \
            T *out = (T *)call->out[0] + i;                                                         \
            size_t left = (size_t)(n - i);                                                          \
            for (int k = 0; k < (K); k++)                                                           \
                in[k] = (const T *)call->in[k] + i;                                                 \
            if (left < TN_LANE_COUNT) {                                                             \
                memset(pad, 0, sizeof pad);                                                         \
                for (int k = 0; k < (K); k++)                                                       \
                    in[k] = memcpy(pad[k], in[k], left * sizeof(T));                                \
                out = pad[K];                                                                       \
            }                                                                                       \
            const T *in_a = in[0], *in_b = in[(K) > 1 ? 1 : 0], *in_c = in[(K) > 2 ? 2 : 0];        \
            const T *in_d = in[(K) > 3 ? 3 : 0];                                                    \
            TN_LANES(l)                                                                             \
            {                                                                                       \
                T a = in_a[l], b = in_b[l], c = in_c[l], d = in_d[l];                               \
                (void)a, (void)b, (void)c, (void)d;                                                 \
                out[l] = (VALUE);                                                                   \
            }                                                                                       \
            if (left < TN_LANE_COUNT)                                                               \
                memcpy((T *)call->out[0] + i, out, left * sizeof(T));                               \
        }                                                                                           \
    }

/* The same, one element at a time: for libm's functions and integer divisions. */
#define TN_TILE_DEFINE_SCALAR(NAME, T, K, SETUP, VALUE)                                             \
    static void NAME(const tn_tile_call *call, int64_t n)                                           \
    {                                                                                               \
        SETUP;                                                                                      \
        const T *in_a = call->in[0], *in_b = call->in[(K) > 1 ? 1 : 0];                             \
        const T *in_c = call->in[(K) > 2 ? 2 : 0], *in_d = call->in[(K) > 3 ? 3 : 0];               \
        T *out = call->out[0];                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                           \
            T a = in_a[i], b = in_b[i], c = in_c[i], d = in_d[i];                                   \
            (void)a, (void)b, (void)c, (void)d;                                                     \
            out[i] = (VALUE);                                                                       \
        }                                                                                           \
    }

/* Defines NAME for element type T as LANES, but elements x for which TEST holds get OTHER(x). */
#define TN_TILE_EXCEPT(NAME, T, LANES, TEST, OTHER)                                                 \
    static void NAME(const tn_tile_call *call, int64_t n)                                           \
    {                                                                                               \
        const T *in = call->in[0];                                                                  \
        T *out = call->out[0], kept[TN_LANE_COUNT];                                                 \
        for (int64_t i = 0; i < n; i += TN_LANE_COUNT) {                                            \
            int64_t m = n - i < TN_LANE_COUNT ? n - i : TN_LANE_COUNT;                              \
            int any = 0;                                                                            \
            for (int64_t l = 0; l < m; l++) {                                                       \
                T x = in[i + l];                                                                    \
                any |= (TEST);                                                                      \
            }                                                                                       \
            if (any)                                                                                \
                memcpy(kept, in + i, (size_t)m * sizeof *in);                                       \
            tn_tile_call block = {.in = {in + i}, .out = {out + i}};                                \
            LANES(&block, m);                                                                       \
            for (int64_t l = 0; any && l < m; l++) {                                                \
                T x = kept[l];                                                                      \
                if (TEST)                                                                           \
                    out[i + l] = OTHER((double)x);                                                  \
            }                                                                                       \
        }                                                                                           \
    }

#endif

/* Conversions between dtypes and tile classes, one dense loop each. Rare pairs go through a second class
 * that holds every value of the source, so that no result is rounded twice where torch rounds once. */
#include "kernel/tile_io.h"

#include "kernel/float8.h"

/* ---- one direction, one dtype ---------------------------------------------------------------- */

#define LOAD(NAME, TILE, T, VALUE)                                                                 \
    static void NAME(void *tile, const void *memory, int64_t n)                                    \
    {                                                                                              \
        const T *restrict in = memory;                                                             \
        TILE *restrict out = tile;                                                                 \
        for (int64_t i = 0; i < n; i++) {                                                          \
            T x = in[i];                                                                           \
            out[i] = (TILE)(VALUE);                                                                \
        }                                                                                          \
    }

#define STORE(NAME, TILE, T, VALUE)                                                                \
    static void NAME(void *memory, const void *tile, int64_t n)                                    \
    {                                                                                              \
        const TILE *restrict in = tile;                                                            \
        T *restrict out = memory;                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                          \
            TILE x = in[i];                                                                        \
            out[i] = (T)(VALUE);                                                                   \
        }                                                                                          \
    }

/* Integers: NAME, type, how a float gets there (torch goes through int64 for unsigned ones). */
#define INTEGERS(X)                                                                                \
    X(u8, uint8_t, int64_t)                                                                        \
    X(i8, int8_t, int32_t)                                                                         \
    X(i16, int16_t, int32_t)                                                                       \
    X(u16, uint16_t, int64_t)                                                                      \
    X(i32, int32_t, int32_t)                                                                       \
    X(u32, uint32_t, int64_t)                                                                      \
    X(i64, int64_t, int64_t)                                                                       \
    X(u64, uint64_t, uint64_t)

#define INTEGER_PAIRS(NAME, T, VIA)                                                                \
    LOAD(load_f32_##NAME, float, T, x)                                                             \
    LOAD(load_f64_##NAME, double, T, x)                                                            \
    LOAD(load_i64_##NAME, int64_t, T, x)                                                           \
    STORE(store_f32_##NAME, float, T, (VIA)x)                                                      \
    STORE(store_f64_##NAME, double, T, (VIA)x)                                                     \
    STORE(store_i64_##NAME, int64_t, T, x)
INTEGERS(INTEGER_PAIRS)

LOAD(load_f32_bool, float, uint8_t, x != 0)
LOAD(load_f64_bool, double, uint8_t, x != 0)
LOAD(load_i64_bool, int64_t, uint8_t, x != 0)
STORE(store_f32_bool, float, uint8_t, x != 0)
STORE(store_f64_bool, double, uint8_t, x != 0)
STORE(store_i64_bool, int64_t, uint8_t, x != 0)

LOAD(load_f32_f32, float, float, x)
STORE(store_f32_f32, float, float, x)
LOAD(load_f32_f64, float, double, x)
STORE(store_f32_f64, float, double, x)
LOAD(load_f64_f32, double, float, x)
STORE(store_f64_f32, double, float, x)
LOAD(load_f64_f64, double, double, x)
STORE(store_f64_f64, double, double, x)
STORE(store_i64_f32, int64_t, float, x)
STORE(store_i64_f64, int64_t, double, x)

LOAD(load_f32_bf16, float, uint16_t, tn_bf16_to_float(x))
STORE(store_f32_bf16, float, uint16_t, tn_float_to_bf16(x))

LOAD(load_f32_e5m2, float, uint8_t, tn_fp16_to_float((uint16_t)(x << 8)))
LOAD(load_f32_e4m3fn, float, uint8_t, tn_e4m3fn_to_float(x))
LOAD(load_f32_e5m2fnuz, float, uint8_t, tn_fnuz_to_float(x, 2, 16))
LOAD(load_f32_e4m3fnuz, float, uint8_t, tn_fnuz_to_float(x, 3, 8))
LOAD(load_f32_e8m0, float, uint8_t, tn_e8m0_to_float(x))
STORE(store_f32_e5m2, float, uint8_t, tn_float_to_e5m2(x))
STORE(store_f32_e4m3fn, float, uint8_t, tn_float_to_e4m3fn(x))
STORE(store_f32_e5m2fnuz, float, uint8_t, tn_float_to_fnuz(x, 2, 16))
STORE(store_f32_e4m3fnuz, float, uint8_t, tn_float_to_fnuz(x, 3, 8))
STORE(store_f32_e8m0, float, uint8_t, tn_float_to_e8m0(x))

#if defined(__F16C__)
static void load_f32_f16(void *tile, const void *memory, int64_t n)
{
    const uint16_t *in = memory;
    float *out = tile;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(in + i))));
    for (; i < n; i++)
        out[i] = _cvtsh_ss(in[i]);
}

static void store_f32_f16(void *memory, const void *tile, int64_t n)
{
    const float *in = tile;
    uint16_t *out = memory;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(out + i), _mm256_cvtps_ph(_mm256_loadu_ps(in + i), 0));
    for (; i < n; i++)
        out[i] = _cvtss_sh(in[i], 0);
}
#else
LOAD(load_f32_f16, float, uint16_t, tn_fp16_to_float(x))
STORE(store_f32_f16, float, uint16_t, tn_float_to_fp16(x))
#endif

static void load_c128_c64(void *tile, const void *memory, int64_t n)
{
    load_f64_f32(tile, memory, 2 * n);
}

static void load_c128_c128(void *tile, const void *memory, int64_t n)
{
    memcpy(tile, memory, (size_t)n * 16);
}

static void load_c128_c32(void *tile, const void *memory, int64_t n)
{
    float wide[2 * TN_TILE_ELEMENTS];
    load_f32_f16(wide, memory, 2 * n);
    load_f64_f32(tile, wide, 2 * n);
}

static void store_c128_c64(void *memory, const void *tile, int64_t n)
{
    store_f64_f32(memory, tile, 2 * n);
}

static void store_c128_c128(void *memory, const void *tile, int64_t n)
{
    memcpy(memory, tile, (size_t)n * 16);
}

static void store_c128_c32(void *memory, const void *tile, int64_t n)
{
    float wide[2 * TN_TILE_ELEMENTS];
    store_f64_f32(wide, tile, 2 * n);
    store_f32_f16(memory, wide, 2 * n);
}

static void store_c128_bool(void *memory, const void *tile, int64_t n)
{
    const tn_complex *in = tile;
    uint8_t *out = memory;
    for (int64_t i = 0; i < n; i++)
        out[i] = in[i].re != 0 || in[i].im != 0;
}

/* ---- tables: an empty entry goes through another class ---------------------------------------- */

typedef void (*load_fn)(void *tile, const void *memory, int64_t n);
typedef void (*store_fn)(void *memory, const void *tile, int64_t n);

#define INTEGER_ROWS(PREFIX)                                                                       \
    [TN_UINT8] = PREFIX##u8, [TN_INT8] = PREFIX##i8, [TN_INT16] = PREFIX##i16,                     \
    [TN_UINT16] = PREFIX##u16, [TN_INT32] = PREFIX##i32, [TN_UINT32] = PREFIX##u32,                \
    [TN_INT64] = PREFIX##i64, [TN_UINT64] = PREFIX##u64, [TN_BOOL] = PREFIX##bool
#define REAL_ROWS(PREFIX)                                                                          \
    INTEGER_ROWS(PREFIX), [TN_FLOAT32] = PREFIX##f32, [TN_FLOAT64] = PREFIX##f64
#define SMALL_ROWS(PREFIX)                                                                         \
    [TN_FLOAT16] = PREFIX##f16, [TN_BFLOAT16] = PREFIX##bf16, [TN_FLOAT8_E5M2] = PREFIX##e5m2,     \
    [TN_FLOAT8_E4M3FN] = PREFIX##e4m3fn, [TN_FLOAT8_E5M2FNUZ] = PREFIX##e5m2fnuz,                  \
    [TN_FLOAT8_E4M3FNUZ] = PREFIX##e4m3fnuz, [TN_FLOAT8_E8M0FNU] = PREFIX##e8m0
#define COMPLEX_ROWS(PREFIX)                                                                       \
    [TN_COMPLEX32] = PREFIX##c32, [TN_COMPLEX64] = PREFIX##c64, [TN_COMPLEX128] = PREFIX##c128

static const load_fn loads[TN_TILE_CLASSES][TN_DTYPE_COUNT] = {
    [TN_TILE_F32] = {REAL_ROWS(load_f32_), SMALL_ROWS(load_f32_)},
    [TN_TILE_F64] = {REAL_ROWS(load_f64_)},
    [TN_TILE_I64] = {INTEGER_ROWS(load_i64_)},
    [TN_TILE_C128] = {COMPLEX_ROWS(load_c128_)},
};

static const store_fn stores[TN_TILE_CLASSES][TN_DTYPE_COUNT] = {
    [TN_TILE_F32] = {REAL_ROWS(store_f32_), SMALL_ROWS(store_f32_)},
    [TN_TILE_F64] = {REAL_ROWS(store_f64_)},
    [TN_TILE_I64] = {REAL_ROWS(store_i64_)},
    [TN_TILE_C128] = {COMPLEX_ROWS(store_c128_), [TN_BOOL] = store_c128_bool},
};

static void load_through(tn_tile_class class, uint8_t dtype, void *tile, const void *memory, int64_t n)
{
    tn_complex between[TN_TILE_ELEMENTS];
    tn_tile_class from = tn_tile_class_of(dtype);
    if (from == TN_TILE_C128) { /* the real part */
        load_fn load = loads[TN_TILE_C128][dtype];
        double reals[TN_TILE_ELEMENTS];
        load(between, memory, n);
        for (int64_t i = 0; i < n; i++)
            reals[i] = between[i].re;
        tn_tile_load(class, TN_FLOAT64, tile, reals, n);
    } else if (class == TN_TILE_C128) {
        double *reals = (double *)between;
        tn_complex *out = tile;
        tn_tile_load(TN_TILE_F64, dtype, reals, memory, n);
        for (int64_t i = 0; i < n; i++)
            out[i] = (tn_complex){reals[i], 0};
    } else { /* small floats to fp64 or int64, floats to int64 */
        tn_tile_load(from, dtype, between, memory, n);
        if (class == TN_TILE_I64)
            tn_tile_store(from, TN_INT64, tile, between, n);
        else
            tn_tile_load(class, TN_FLOAT32, tile, between, n);
    }
}

static void store_through(tn_tile_class class, uint8_t dtype, void *memory, const void *tile, int64_t n)
{
    double between[2 * TN_TILE_ELEMENTS];
    if (class == TN_TILE_C128) {
        const tn_complex *in = tile;
        for (int64_t i = 0; i < n; i++)
            between[i] = in[i].re;
        tn_tile_store(TN_TILE_F64, dtype, memory, between, n);
    } else if (tn_tile_class_of(dtype) == TN_TILE_C128) {
        double reals[TN_TILE_ELEMENTS];
        tn_tile_store(class, TN_FLOAT64, reals, tile, n);
        for (int64_t i = 0; i < n; i++) {
            between[2 * i] = reals[i];
            between[2 * i + 1] = 0;
        }
        tn_tile_store(TN_TILE_C128, dtype, memory, between, n);
    } else { /* fp64 or int64 to small floats: through fp32, as torch does */
        tn_tile_store(class, TN_FLOAT32, between, tile, n);
        tn_tile_store(TN_TILE_F32, dtype, memory, between, n);
    }
}

void tn_tile_load(tn_tile_class class, uint8_t dtype, void *tile, const void *memory, int64_t n)
{
    load_fn load = loads[class][dtype];
    if (load)
        load(tile, memory, n);
    else
        load_through(class, dtype, tile, memory, n);
}

void tn_tile_store(tn_tile_class class, uint8_t dtype, void *memory, const void *tile, int64_t n)
{
    store_fn store = stores[class][dtype];
    if (store)
        store(memory, tile, n);
    else
        store_through(class, dtype, memory, tile, n);
}

/* ---- strides ---------------------------------------------------------------------------------- */

typedef struct element16 {
    uint64_t half[2];
} element16;

#define GATHER(T)                                                                                  \
    for (int64_t i = 0; i < n; i++)                                                                \
        ((T *)dense)[i] = *(const T *)(from + i * stride);                                         \
    break
#define SCATTER(T)                                                                                 \
    for (int64_t i = 0; i < n; i++)                                                                \
        *(T *)(to + i * stride) = ((const T *)dense)[i];                                           \
    break

void tn_gather_run(void *dense, const void *memory, int64_t stride, int64_t n, size_t size)
{
    const char *from = memory;
    if (stride == (int64_t)size) {
        memcpy(dense, memory, (size_t)n * size);
        return;
    }
    switch (size) {
    case 1: GATHER(uint8_t);
    case 2: GATHER(uint16_t);
    case 4: GATHER(uint32_t);
    case 8: GATHER(uint64_t);
    default: GATHER(element16);
    }
}

void tn_scatter_run(void *memory, int64_t stride, const void *dense, int64_t n, size_t size)
{
    char *to = memory;
    if (stride == (int64_t)size) {
        memcpy(memory, dense, (size_t)n * size);
        return;
    }
    switch (size) {
    case 1: SCATTER(uint8_t);
    case 2: SCATTER(uint16_t);
    case 4: SCATTER(uint32_t);
    case 8: SCATTER(uint64_t);
    default: SCATTER(element16);
    }
}

void tn_tile_fill(tn_tile_class class, void *tile, int64_t n)
{
    if (class == TN_TILE_F32) {
        float *values = tile, first = values[0];
        for (int64_t i = 1; i < n; i++)
            values[i] = first;
    } else if (class == TN_TILE_C128) {
        tn_complex *values = tile, first = values[0];
        for (int64_t i = 1; i < n; i++)
            values[i] = first;
    } else {
        uint64_t *values = tile, first = values[0];
        for (int64_t i = 1; i < n; i++)
            values[i] = first;
    }
}

void tn_stream_out(void *memory, const void *dense, size_t bytes)
{
#if defined(__x86_64__)
    if ((uintptr_t)memory % 64 == 0 && bytes % 64 == 0) {
        const char *from = dense;
        char *to = memory;
        for (size_t i = 0; i < bytes; i += 16)
            _mm_stream_si128((__m128i *)(to + i), _mm_loadu_si128((const __m128i *)(from + i)));
        return;
    }
#endif
    memcpy(memory, dense, bytes);
}

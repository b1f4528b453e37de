/* Vectors of the GEMM's element type, chosen by GEMM_DOUBLE (0 or 1): `element`, `vec`, LANES, and
 * the few operations that the microkernels and the packing need. Partial loads read zeros beyond n. */
#ifndef TN_KERNEL_GEMM_VECTOR_H
#define TN_KERNEL_GEMM_VECTOR_H

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if GEMM_DOUBLE
typedef double element;
#define GEMM_DTYPE TN_FLOAT64
#else
typedef float element;
#define GEMM_DTYPE TN_FLOAT32
#endif

/* ROWS x (2 * LANES) accumulators, two vectors of b and one element of a fill the register file. */
#if defined(TN_ISA_AVX512)
#define GEMM_LANES (16 >> GEMM_DOUBLE)
enum { ROWS = 14 };
#elif defined(TN_ISA_AVX2)
#define GEMM_LANES (8 >> GEMM_DOUBLE)
enum { ROWS = 6 };
#else
#define GEMM_LANES (4 >> GEMM_DOUBLE)
enum { ROWS = 6 };
#endif
enum { LANES = GEMM_LANES, COLUMNS = 2 * LANES, VECTOR_BYTES = LANES * (int)sizeof(element) };

typedef element vec __attribute__((vector_size(VECTOR_BYTES)));

#if GEMM_DOUBLE
#define GEMM_512(name, ...) _mm512_##name##_pd(__VA_ARGS__)
#define GEMM_256(name, ...) _mm256_##name##_pd(__VA_ARGS__)
typedef unsigned char gemm_mask;
#else
#define GEMM_512(name, ...) _mm512_##name##_ps(__VA_ARGS__)
#define GEMM_256(name, ...) _mm256_##name##_ps(__VA_ARGS__)
typedef unsigned short gemm_mask;
#endif

static inline vec load(const element *p)
{
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void store(element *p, vec v)
{
    memcpy(p, &v, sizeof v);
}

#if defined(TN_ISA_AVX512)

static inline vec broadcast(element x)
{
    return GEMM_512(set1, x);
}
static inline vec fma_vec(vec a, vec b, vec c)
{
    return GEMM_512(fmadd, a, b, c);
}
static inline vec load_partial(const element *p, int64_t n)
{
    if (n >= LANES)
        return load(p);
    return GEMM_512(maskz_loadu, (gemm_mask)((1u << n) - 1), p);
}
static inline void store_partial(element *p, vec v, int64_t n)
{
    GEMM_512(mask_storeu, p, (gemm_mask)(n >= LANES ? -1 : (1 << n) - 1), v);
}

#else

#if defined(TN_ISA_AVX2)
static inline vec broadcast(element x)
{
    return GEMM_256(set1, x);
}
static inline vec fma_vec(vec a, vec b, vec c)
{
    return GEMM_256(fmadd, a, b, c);
}
#else
static inline vec broadcast(element x)
{
    vec v;
    for (int i = 0; i < LANES; i++)
        v[i] = x;
    return v;
}
static inline vec fma_vec(vec a, vec b, vec c)
{
    return a * b + c;
}
#endif

static inline vec load_partial(const element *p, int64_t n)
{
    if (n >= LANES)
        return load(p);
    vec v = {0};
    for (int i = 0; i < n; i++)
        v[i] = p[i];
    return v;
}
static inline void store_partial(element *p, vec v, int64_t n)
{
    if (n >= LANES)
        store(p, v);
    else
        for (int i = 0; i < n; i++)
            p[i] = v[i];
}

#endif

#if defined(__clang__)
#define GEMM_UNROLL _Pragma("clang loop unroll(full)")
#else
#define GEMM_UNROLL _Pragma("GCC unroll 16")
#endif

/* a0 b0 a1 b1 ..., of the lower and of the upper halves of two vectors. */
static inline vec interleave_low(vec a, vec b)
{
#if GEMM_LANES == 16
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
#elif GEMM_LANES == 8
    return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
#elif GEMM_LANES == 4
    return __builtin_shufflevector(a, b, 0, 4, 1, 5);
#else
    return __builtin_shufflevector(a, b, 0, 2);
#endif
}

static inline vec interleave_high(vec a, vec b)
{
#if GEMM_LANES == 16
    return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
#elif GEMM_LANES == 8
    return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
#elif GEMM_LANES == 4
    return __builtin_shufflevector(a, b, 2, 6, 3, 7);
#else
    return __builtin_shufflevector(a, b, 1, 3);
#endif
}

/* Each pass deals the two halves of the square into one another; log2(LANES) passes transpose it. */
static inline __attribute__((always_inline)) void transpose(vec square[LANES])
{
    vec dealt[LANES];
    GEMM_UNROLL
    for (int done = 1; done < LANES; done *= 2) {
        GEMM_UNROLL
        for (int i = 0; i < LANES / 2; i++) {
            dealt[2 * i] = interleave_low(square[i], square[i + LANES / 2]);
            dealt[2 * i + 1] = interleave_high(square[i], square[i + LANES / 2]);
        }
        GEMM_UNROLL
        for (int i = 0; i < LANES; i++)
            square[i] = dealt[i];
    }
}

#endif

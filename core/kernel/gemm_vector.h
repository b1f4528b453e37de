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
enum { VECTOR_BYTES = 64, ROWS = 14 };
#elif defined(TN_ISA_AVX2)
enum { VECTOR_BYTES = 32, ROWS = 6 };
#else
enum { VECTOR_BYTES = 16, ROWS = 6 };
#endif
enum { LANES = VECTOR_BYTES / sizeof(element), COLUMNS = 2 * LANES };

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

#endif

/* The vector layer: 16 logical lanes, whatever the registers' width.
 *
 * Lane code is scalar C inside TN_LANES loops of exactly 16 iterations, free of branches; the compiler
 * maps one loop to a zmm, two ymm or four xmm registers. All lanes run the same operations in the same
 * order, so a result never depends on the lane, the tail or the vector width. tn_fma* is the only way to
 * a fused multiply-add (the build forbids contraction); without hardware FMA it is a multiply and an add,
 * so bits are promised per instruction set, not across them. */
#ifndef TN_TILE_SIMD_H
#define TN_TILE_SIMD_H

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { TN_LANE_COUNT = 16 };

#define TN_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define TN_INDEPENDENT TN_PRAGMA(clang loop vectorize(assume_safety))
#define TN_KEEP_LOOP TN_PRAGMA(clang loop unroll(disable))
#else
#define TN_INDEPENDENT TN_PRAGMA(GCC ivdep)
#define TN_KEEP_LOOP TN_PRAGMA(GCC unroll 1)
#endif

/* Iterations are independent of each other, even where an output is an input. A loop over lanes must reach
 * the vectorizer as a loop: unrolled before it, it would become scalar code. */
#define TN_LANES(l) TN_INDEPENDENT TN_KEEP_LOOP for (int l = 0; l < TN_LANE_COUNT; l++)
#define TN_EACH(i, n) TN_INDEPENDENT for (int64_t i = 0; i < (n); i++)

#define TN_INLINE static inline __attribute__((always_inline, unused))

TN_INLINE float tn_fmaf(float a, float b, float c)
{
#if defined(__FMA__)
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

TN_INLINE double tn_fma(double a, double b, double c)
{
#if defined(__FMA__)
    return __builtin_fma(a, b, c);
#else
    return a * b + c;
#endif
}

TN_INLINE float tn_as_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

TN_INLINE uint32_t tn_as_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

TN_INLINE double tn_as_double(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

TN_INLINE uint64_t tn_as_bits64(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

TN_INLINE float tn_absf(float x)
{
    return tn_as_float(tn_as_bits(x) & 0x7fffffff);
}

TN_INLINE double tn_abs(double x)
{
    return tn_as_double(tn_as_bits64(x) & ~(1ull << 63));
}

TN_INLINE float tn_copysignf(float magnitude, float sign)
{
    return tn_as_float((tn_as_bits(magnitude) & 0x7fffffff) | (tn_as_bits(sign) & 0x80000000));
}

TN_INLINE double tn_copysign(double magnitude, double sign)
{
    uint64_t top = 1ull << 63;
    return tn_as_double((tn_as_bits64(magnitude) & ~top) | (tn_as_bits64(sign) & top));
}

/* NaN if one of them is, as torch's maximum, minimum, clamp and relu. */
TN_INLINE float tn_maxf(float a, float b)
{
    float larger = a > b ? a : b; /* b if unordered */
    return a != a ? a : larger;
}

TN_INLINE float tn_minf(float a, float b)
{
    float smaller = a < b ? a : b;
    return a != a ? a : smaller;
}

TN_INLINE double tn_max(double a, double b)
{
    double larger = a > b ? a : b;
    return a != a ? a : larger;
}

TN_INLINE double tn_min(double a, double b)
{
    double smaller = a < b ? a : b;
    return a != a ? a : smaller;
}

#endif

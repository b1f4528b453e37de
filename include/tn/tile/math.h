/* Elementary functions of one lane, branch-free so that lane loops become vector code.
 *
 * Largest errors found in samples of the whole range, against correctly rounded values, in fp32 ULPs
 * (tests/test_pointwise.py holds every function to them):
 *   exp exp2 log log2 log10 log1p sinh cosh asinh acosh atanh pow 1 · expm1 erf 1.5 · sin cos 2 ·
 *   tanh sigmoid 2.5 · tan 3
 * fp64 is in double.h, or libm's. Functions that matter most work in fp32; where that costs accuracy the lane is
 * widened to fp64, which is exact enough to round once. */
#ifndef TN_TILE_MATH_H
#define TN_TILE_MATH_H

#include <math.h>

#include "tn/tile/simd.h"

/* Adding it rounds to an integer and leaves that integer in the low bits. */
#define TN_ROUNDER_F32 0x1.8p23f
#define TN_ROUNDER_F64 0x1.8p52

/* x * 2^k for k in [-252, 254], in two steps so that subnormal results are rounded once. */
TN_INLINE float tn_scale_f32(float x, int32_t k)
{
    int32_t half = k >> 1;
    return x * tn_as_float((uint32_t)(half + 127) << 23) *
           tn_as_float((uint32_t)(k - half + 127) << 23);
}

/* exp(r) - 1 for |r| <= ln(2)/2. */
TN_INLINE float tn_expm1_reduced_f32(float r)
{
    float p = 0x1.6db4e0p-10f;
    p = tn_fmaf(p, r, 0x1.123be0p-7f);
    p = tn_fmaf(p, r, 0x1.55545ep-5f);
    p = tn_fmaf(p, r, 0x1.55548ep-3f);
    p = tn_fmaf(p, r, 0x1.000000p-1f);
    return tn_fmaf(p * r, r, r);
}

/* x = *out_k ln 2 + result. */
TN_INLINE float tn_exp_reduce_f32(float x, int32_t *out_k)
{
    float t = tn_fmaf(x, 0x1.715476p0f, TN_ROUNDER_F32), n = t - TN_ROUNDER_F32;
    *out_k = (int32_t)(tn_as_bits(t) - tn_as_bits(TN_ROUNDER_F32));
    return tn_fmaf(n, -0x1.7f7d1cp-20f, tn_fmaf(n, -0x1.62e400p-1f, x));
}

TN_INLINE float tn_exp_f32(float x)
{
    int32_t k;
    float low = x < -104.0f ? -104.0f : x, clamped = low > 89.0f ? 89.0f : low;
    float r = tn_exp_reduce_f32(clamped, &k);
    float y = tn_scale_f32(tn_expm1_reduced_f32(r) + 1.0f, k);
    return x != x ? x : y;
}

TN_INLINE float tn_expm1_f32(float x)
{
    int32_t k;
    float low = x < -30.0f ? -30.0f : x, clamped = low > 89.0f ? 89.0f : low;
    float r = tn_exp_reduce_f32(clamped, &k);
    float q = tn_expm1_reduced_f32(r);
    float half = tn_as_float((uint32_t)(k - 1 + 127) << 23); /* 2^(k-1): 2^128 has no fp32 */
    float y = 2.0f * tn_fmaf(half, q, half - 0.5f);
    float tiny = tn_absf(x) < 0x1p-13f ? tn_fmaf(0.5f * x, x, x) : y;
    return x != x ? x : x == 0 ? x : tiny;
}

TN_INLINE float tn_sigmoid_f32(float x)
{
    return 1.0f / (1.0f + tn_exp_f32(-x));
}

/* tanh|x| = -e / (e + 2) with e = exp(-2|x|) - 1. */
TN_INLINE float tn_tanh_f32(float x)
{
    float e = tn_expm1_f32(-2.0f * tn_absf(x));
    return tn_copysignf(-e / (e + 2.0f), x);
}

TN_INLINE float tn_log_f32(float x)
{
    float normal = x < 0x1p-126f ? x * 0x1p25f : x;
    int32_t shift = x < 0x1p-126f ? -25 : 0;
    uint32_t offset = tn_as_bits(normal) - 0x3f3504f3; /* of sqrt(1/2): mantissa in [0.707, 1.414) */
    int32_t k = ((int32_t)offset >> 23) + shift;
    float m = tn_as_float((offset & 0x7fffff) + 0x3f3504f3), f = m - 1.0f;
    float p = 0x1.1456bap-4f;
    p = tn_fmaf(p, f, -0x1.de3bd6p-4f);
    p = tn_fmaf(p, f, 0x1.e6f0b6p-4f);
    p = tn_fmaf(p, f, -0x1.fc2216p-4f);
    p = tn_fmaf(p, f, 0x1.233764p-3f);
    p = tn_fmaf(p, f, -0x1.555c4cp-3f);
    p = tn_fmaf(p, f, 0x1.99a4b6p-3f);
    p = tn_fmaf(p, f, -0x1.000006p-2f);
    p = tn_fmaf(p, f, 0x1.555548p-2f);
    float s = f * f, e = (float)k;
    float tail = tn_fmaf(s * f, p, e * 0x1.7f7d1cp-20f);
    float y = tn_fmaf(e, 0x1.62e400p-1f, f + tn_fmaf(-0.5f, s, tail));
    y = x == (float)INFINITY ? x : y;
    y = x == 0 ? -(float)INFINITY : y;
    return x < 0 ? (float)NAN : x != x ? x : y;
}

/* ---- widened to fp64 ------------------------------------------------------------------------- */

/* exp(x), relative error below 1e-13; x is clamped to what fp32 results can need. */
TN_INLINE double tn_exp_wide(double x)
{
    double low = x < -160 ? -160 : x, clamped = low > 160 ? 160 : low;
    double t = tn_fma(clamped, 0x1.71547652b82fep0, TN_ROUNDER_F64), n = t - TN_ROUNDER_F64;
    double r = tn_fma(n, -0x1.abc9e3b39803fp-56, tn_fma(n, -0x1.62e42fefa39efp-1, clamped));
    double p = 1.0 / 39916800;
    p = tn_fma(p, r, 1.0 / 3628800);
    p = tn_fma(p, r, 1.0 / 362880);
    p = tn_fma(p, r, 1.0 / 40320);
    p = tn_fma(p, r, 1.0 / 5040);
    p = tn_fma(p, r, 1.0 / 720);
    p = tn_fma(p, r, 1.0 / 120);
    p = tn_fma(p, r, 1.0 / 24);
    p = tn_fma(p, r, 1.0 / 6);
    p = tn_fma(p, r, 0.5);
    p = tn_fma(p * r, r, r) + 1;
    uint64_t k = tn_as_bits64(t) - tn_as_bits64(TN_ROUNDER_F64);
    double y = p * tn_as_double((k + 1023) << 52);
    return x != x ? x : y;
}

/* log(x) of a normal or zero, infinite or negative double, error below 1e-13 relative to max(|y|, |f|). */
TN_INLINE double tn_log_wide(double x)
{
    uint64_t offset = tn_as_bits64(x) - 0x3fe6a09e667f3bcd; /* of sqrt(1/2) */
    int64_t k = (int64_t)offset >> 52;
    double m = tn_as_double((offset & 0xfffffffffffff) + 0x3fe6a09e667f3bcd);
    double s = (m - 1) / (m + 1), z = s * s;
    double p = 2.0 / 17;
    p = tn_fma(p, z, 2.0 / 15);
    p = tn_fma(p, z, 2.0 / 13);
    p = tn_fma(p, z, 2.0 / 11);
    p = tn_fma(p, z, 2.0 / 9);
    p = tn_fma(p, z, 2.0 / 7);
    p = tn_fma(p, z, 2.0 / 5);
    p = tn_fma(p, z, 2.0 / 3);
    double log_m = tn_fma(s * z, p, 2 * s);
    double y = tn_fma((double)(int32_t)k, 0x1.62e42fefa39efp-1, log_m);
    y = x == (double)INFINITY ? x : y;
    y = x == 0 ? -(double)INFINITY : y;
    return x < 0 ? (double)NAN : x != x ? x : y;
}

/* The same of a finite x > 0 with an error below 1e-10, which is enough where one rounding to fp32 follows. */
TN_INLINE double tn_log_short(double x)
{
    uint64_t offset = tn_as_bits64(x) - 0x3fe6a09e667f3bcd; /* of sqrt(1/2) */
    int64_t k = (int64_t)offset >> 52;
    double m = tn_as_double((offset & 0xfffffffffffff) + 0x3fe6a09e667f3bcd);
    double s = (m - 1) / (m + 1), z = s * s;
    double p = 2.0 / 11;
    p = tn_fma(p, z, 2.0 / 9);
    p = tn_fma(p, z, 2.0 / 7);
    p = tn_fma(p, z, 2.0 / 5);
    p = tn_fma(p, z, 2.0 / 3);
    double log_m = tn_fma(s * z, p, 2 * s);
    return tn_fma((double)(int32_t)k, 0x1.62e42fefa39efp-1, log_m);
}

/* log(1 + x) for an fp32 x, accurate near 0 too. */
TN_INLINE double tn_log1p_wide(double x)
{
    double near = x * (1 - x * (0.5 - x * (1.0 / 3)));
    double y = tn_log_short(1 + x);
    y = x == -1 ? -(double)INFINITY : x == (double)INFINITY ? x : y;
    y = x < -1 ? (double)NAN : y;
    return tn_abs(x) < 1e-4 ? near : x != x ? x : y;
}

TN_INLINE float tn_exp2_f32(float x)
{
    return (float)tn_exp_wide(x * 0x1.62e42fefa39efp-1);
}

TN_INLINE float tn_log2_f32(float x)
{
    return (float)(tn_log_wide(x) * 0x1.71547652b82fep0);
}

TN_INLINE float tn_log10_f32(float x)
{
    return (float)(tn_log_wide(x) * 0x1.bcb7b1526e50ep-2);
}

TN_INLINE float tn_log1p_f32(float x)
{
    float y = (float)tn_log1p_wide(x);
    return x == 0 ? x : y;
}

TN_INLINE float tn_sinh_f32(float x)
{
    double a = tn_abs(x), e = tn_exp_wide(a), s = a * a;
    double near = a * (1 + s * (1.0 / 6 + s * (1.0 / 120 + s * (1.0 / 5040))));
    double y = a < 0.3 ? near : 0.5 * (e - 1 / e);
    return x != x ? x : tn_copysignf((float)y, x);
}

TN_INLINE float tn_cosh_f32(float x)
{
    double e = tn_exp_wide(tn_abs(x));
    return (float)(0.5 * (e + 1 / e));
}

TN_INLINE float tn_asinh_f32(float x)
{
    double a = tn_abs(x);
    double y = tn_log1p_wide(a + a * a / (1 + __builtin_sqrt(a * a + 1)));
    return tn_copysignf((float)(a > 1e30 ? tn_log_wide(a) + 0x1.62e42fefa39efp-1 : y), x);
}

TN_INLINE float tn_acosh_f32(float x)
{
    double t = (double)x - 1;
    double y = tn_log1p_wide(t + __builtin_sqrt(t * (t + 2)));
    y = x == (float)INFINITY ? (double)x : y;
    return x < 1 ? (float)NAN : (float)y;
}

TN_INLINE float tn_atanh_f32(float x)
{
    double a = tn_abs(x);
    double y = 0.5 * tn_log1p_wide(2 * a / (1 - a));
    return a > 1 ? (float)NAN : tn_copysignf((float)y, x);
}

/* a^b: exp(b log|a|) in fp64; the sign of a negative base follows from an integral exponent's parity. */
TN_INLINE float tn_pow_f32(float a, float b)
{
    double magnitude = tn_exp_wide((double)b * tn_log_wide(tn_abs(a)));
    float half = 0.5f * b;
    float whole_b = __builtin_floorf(b), whole_half = __builtin_floorf(half);
    int is_whole = whole_b == b, is_odd = is_whole & (whole_half != half);
    uint32_t sign = is_odd ? tn_as_bits(a) & 0x80000000 : 0;
    float y = tn_as_float(tn_as_bits((float)magnitude) | sign);
    int undefined = (a < 0) & !is_whole & (a != -(float)INFINITY);
    y = undefined ? (float)NAN : y;
    float one = tn_as_float(0x3f800000 | sign);
    int unit = (tn_absf(a) == 1) & is_whole; /* +-infinity is even */
    y = unit ? one : y;
    y = a == 1 ? 1.0f : y;
    return b == 0 ? 1.0f : y;
}

/* ---- error function -------------------------------------------------------------------------- */

TN_INLINE float tn_erf_f32(float x)
{
    float a = tn_absf(x), s = x * x;
    float near = 0x1.4ae4bap-14f;
    near = tn_fmaf(near, s, -0x1.a485e4p-11f);
    near = tn_fmaf(near, s, 0x1.5419f4p-8f);
    near = tn_fmaf(near, s, -0x1.b7fbb4p-6f);
    near = tn_fmaf(near, s, 0x1.ce2d20p-4f);
    near = tn_fmaf(near, s, -0x1.81273ep-2f);
    near = tn_fmaf(near, s, 0x1.06eba8p-3f);
    near = tn_fmaf(near, x, x);
    float t = a > 4.0f ? 4.0f : a; /* erf(4) is 1 in fp32 */
    float far = -0x1.2914f8p-18f;
    far = tn_fmaf(far, t, 0x1.49ac56p-15f);
    far = tn_fmaf(far, t, 0x1.576ea6p-14f);
    far = tn_fmaf(far, t, -0x1.8bdf62p-9f);
    far = tn_fmaf(far, t, 0x1.75e894p-6f);
    far = tn_fmaf(far, t, -0x1.afbc4cp-4f);
    far = tn_fmaf(far, t, -0x1.456700p-1f);
    far = tn_fmaf(far, t, -0x1.074e9ap-3f);
    far = 1.0f - tn_exp_f32(tn_fmaf(far, t, -t));
    far = tn_copysignf(far, x);
    float y = a < 1.0f ? near : far;
    return x != x ? x : y;
}

/* erf(x) with an absolute error below 1e-7, for what goes on with 1 + erf(x): a third less work. */
TN_INLINE float tn_erf_absolute_f32(float x)
{
    float t = tn_absf(x);
    t = t > 4.0f ? 4.0f : t; /* erf(4) is 1 in fp32 */
    float p = -0x1.07ba18p-15f; /* t p(t) = log(1 - erf(t)) */
    p = tn_fmaf(p, t, 0x1.43ca38p-12f);
    p = tn_fmaf(p, t, -0x1.0ea0b2p-10f);
    p = tn_fmaf(p, t, -0x1.198a68p-11f);
    p = tn_fmaf(p, t, 0x1.40dd50p-6f);
    p = tn_fmaf(p, t, -0x1.a58f10p-4f);
    p = tn_fmaf(p, t, -0x1.45f024p-1f);
    p = tn_fmaf(p, t, -0x1.20dd88p+0f);
    int32_t k;
    float r = tn_exp_reduce_f32(p * t, &k); /* in [-17, 0]: no overflow, no subnormal result */
    float power = tn_as_float((uint32_t)(k + 127) << 23);
    return tn_copysignf(1.0f - tn_fmaf(tn_expm1_reduced_f32(r), power, power), x);
}

/* ---- circular functions ---------------------------------------------------------------------- */

/* Beyond it the fp64 reduction runs out of bits; tiles recompute such lanes with libm. */
#define TN_TRIG_LIMIT 0x1p28f

/* x = *out_quadrant pi/2 + result, |result| <= pi/4. */
TN_INLINE float tn_trig_reduce_f32(float x, int32_t *out_quadrant)
{
    double t = tn_fma(x, 0x1.45f306dc9c883p-1, TN_ROUNDER_F64), n = t - TN_ROUNDER_F64;
    double r = tn_fma(n, -0x1.921fb54442d18p0, x); /* exact for small n only with FMA ... */
#if !defined(__FMA__)
    r = x - n * 0x1.921fb50000000p0; /* ... so without it the head has 27 bits */
    r = r - n * 0x1.110b460000000p-26;
    r = r - n * 0x1.1a62633145c07p-54;
#else
    r = tn_fma(n, -0x1.1a62633145c07p-54, r);
#endif
    *out_quadrant = (int32_t)(uint32_t)tn_as_bits64(t);
    return (float)r;
}

TN_INLINE float tn_sin_poly_f32(float r)
{
    float s = r * r, p = 0x1.6cd5eap-19f;
    p = tn_fmaf(p, s, -0x1.a00f94p-13f);
    p = tn_fmaf(p, s, 0x1.111108p-7f);
    p = tn_fmaf(p, s, -0x1.555556p-3f);
    return tn_fmaf(p * s, r, r);
}

TN_INLINE float tn_cos_poly_f32(float r)
{
    float s = r * r, p = -0x1.242906p-22f;
    p = tn_fmaf(p, s, 0x1.a01118p-16f);
    p = tn_fmaf(p, s, -0x1.6c16b8p-10f);
    p = tn_fmaf(p, s, 0x1.555556p-5f);
    return tn_fmaf(p * s, s, tn_fmaf(-0.5f, s, 1.0f));
}

TN_INLINE float tn_sin_quadrant_f32(float r, int32_t quadrant)
{
    float sine = tn_sin_poly_f32(r), cosine = tn_cos_poly_f32(r);
    float y = quadrant & 1 ? cosine : sine;
    return tn_as_float(tn_as_bits(y) ^ ((uint32_t)(quadrant & 2) << 30));
}

TN_INLINE float tn_sin_f32(float x)
{
    int32_t quadrant;
    float r = tn_trig_reduce_f32(x, &quadrant);
    float y = tn_sin_quadrant_f32(r, quadrant);
    return x == 0 ? x : y;
}

TN_INLINE float tn_cos_f32(float x)
{
    int32_t quadrant;
    float r = tn_trig_reduce_f32(x, &quadrant);
    return tn_sin_quadrant_f32(r, quadrant + 1);
}

#endif

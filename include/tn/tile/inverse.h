/* Inverse circular functions, the complementary and the inverse error function, sinc, the logarithm
 * of gamma and its derivative of one fp32 lane, branch-free like those of math.h. Errors, measured
 * in the same way, in ULPs: atan atan2 asin acos 2 · erfc 3 · erfinv 4 · sinc 3 · lgamma digamma 1
 * (arguments above 0).
 * The polynomials interpolate at Chebyshev nodes; domains and identities are beside them. */
#ifndef TN_TILE_INVERSE_H
#define TN_TILE_INVERSE_H

#include "tn/tile/double.h"
#include "tn/tile/math.h"

#define TN_HALF_PI_F32 0x1.921fb6p0f
#define TN_HALF_PI_LOW_F32 -0x1.777a5cp-25f

/* atan(t) for t in [0, 1]. */
TN_INLINE float tn_atan_unit_f32(float t)
{
    float s = t * t, p = 0x1.86406cp-10f;
    p = tn_fmaf(p, s, -0x1.2ba6b6p-7f);
    p = tn_fmaf(p, s, 0x1.aefb2cp-6f);
    p = tn_fmaf(p, s, -0x1.9115a4p-5f);
    p = tn_fmaf(p, s, 0x1.2006f8p-4f);
    p = tn_fmaf(p, s, -0x1.6dd8fep-4f);
    p = tn_fmaf(p, s, 0x1.c62cdap-4f);
    p = tn_fmaf(p, s, -0x1.248952p-3f);
    p = tn_fmaf(p, s, 0x1.999956p-3f);
    p = tn_fmaf(p, s, -0x1.555556p-2f);
    return tn_fmaf(p * s, t, t);
}

/* pi/2 - x, pi/2 in two parts. */
TN_INLINE float tn_complement_f32(float x)
{
    return TN_HALF_PI_F32 - x + TN_HALF_PI_LOW_F32;
}

TN_INLINE float tn_atan_f32(float x)
{
    float a = tn_absf(x), inverse = 1.0f / a;
    float t = a > 1.0f ? inverse : a;
    float r = tn_atan_unit_f32(t), far = tn_complement_f32(r);
    float y = a > 1.0f ? far : r;
    return x != x ? x : tn_copysignf(y, x);
}

/* The angle of the first octant from the smaller over the larger part, then by symmetry. */
TN_INLINE float tn_atan2_f32(float y, float x)
{
    float a = tn_absf(x), b = tn_absf(y);
    float larger = a > b ? a : b, smaller = a > b ? b : a;
    float quotient = smaller / larger;
    float t = larger == 0 ? 0.0f : smaller == (float)INFINITY ? 1.0f : quotient;
    float octant = tn_atan_unit_f32(t), other = tn_complement_f32(octant);
    float quadrant = b > a ? other : octant;
    float turned = 2 * TN_HALF_PI_F32 - quadrant + 2 * TN_HALF_PI_LOW_F32;
    float angle = tn_as_bits(x) >> 31 ? turned : quadrant;
    angle = tn_copysignf(angle, y);
    return x != x ? x : y != y ? y : angle;
}

/* asin(t) for t in [0, 1/2], t^2 given. */
TN_INLINE float tn_asin_half_f32(float t, float s)
{
    float p = 0x1.13fed4p-5f;
    p = tn_fmaf(p, s, 0x1.18f91ep-6f);
    p = tn_fmaf(p, s, 0x1.fd8da2p-6f);
    p = tn_fmaf(p, s, 0x1.6d5bbap-5f);
    p = tn_fmaf(p, s, 0x1.333430p-4f);
    p = tn_fmaf(p, s, 0x1.555554p-3f);
    return tn_fmaf(p * s, t, t);
}

/* Beyond 1/2 by asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)). */
TN_INLINE float tn_asin_f32(float x)
{
    float a = tn_absf(x), rest = 0.5f * (1.0f - a);
    int far = a > 0.5f;
    float root = __builtin_sqrtf(rest), t = far ? root : a, s = far ? rest : a * a;
    float r = tn_asin_half_f32(t, s), complement = tn_complement_f32(2.0f * r);
    return tn_copysignf(far ? complement : r, x);
}

TN_INLINE float tn_acos_f32(float x)
{
    float a = tn_absf(x), rest = 0.5f * (1.0f - a);
    int far = a > 0.5f;
    float root = __builtin_sqrtf(rest), t = far ? root : a, s = far ? rest : a * a;
    float r = tn_asin_half_f32(t, s), twice = 2.0f * r;
    float mirrored = 2 * TN_HALF_PI_F32 - twice + 2 * TN_HALF_PI_LOW_F32;
    float near = tn_complement_f32(tn_copysignf(r, x));
    float y = far ? (x < 0 ? mirrored : twice) : near;
    return x != x ? x : y;
}

/* exp(-a^2) times a polynomial of u = 4 / (4 + a), for a up to 10.1, where fp32 ends. The square is
 * taken exactly of the head of a, so that the exponential loses nothing. */
TN_INLINE float tn_erfc_f32(float x)
{
    float a = tn_absf(x), t = a > 10.1f ? 10.1f : a;
    double u = 4 / (4 + (double)t);
    double p = -0x1.bca963030a7b3p-7;
    p = tn_fma(p, u, -0x1.a1e5c1e66c57bp-4);
    p = tn_fma(p, u, 0x1.7bb41c51b3c91p-1);
    p = tn_fma(p, u, -0x1.835972935c75dp+0);
    p = tn_fma(p, u, 0x1.03e20859cf7ebp+1);
    p = tn_fma(p, u, -0x1.8b63ba1d358b3p+0);
    p = tn_fma(p, u, 0x1.04ea34843f64ep+0);
    p = tn_fma(p, u, -0x1.f7eb698d6d821p-3);
    p = tn_fma(p, u, 0x1.cc03d2daadf66p-3);
    p = tn_fma(p, u, 0x1.ea52c896593acp-4);
    p = tn_fma(p, u, 0x1.246eecf566961p-3);
    p = tn_fma(p, u, 0x1.20b3870e9bd94p-3);
    float head = tn_as_float(tn_as_bits(t) & 0xfffff000), tail = (t - head) * (t + head);
    float y = tn_exp_f32(-head * head) * (float)(p * u);
    y = tn_fmaf(y, tn_expm1_reduced_f32(-tail), y);
    y = a > 10.1f ? 0.0f : y;
    y = x < 0 ? 2.0f - y : y;
    return x != x ? x : y;
}

/* x times a polynomial of w = -log(1 - x^2), or of its root in the tails. */
TN_INLINE float tn_erfinv_f32(float x)
{
    float a = tn_absf(x), w = -tn_log_f32((1.0f - a) * (1.0f + a));
    float v = w - 2.5f, r = __builtin_sqrtf(w) - 3.1f;
    float p = 0x1.00d79ap-31f;
    p = tn_fmaf(p, v, -0x1.2c4526p-27f);
    p = tn_fmaf(p, v, 0x1.129bb8p-26f);
    p = tn_fmaf(p, v, 0x1.f3bcf6p-22f);
    p = tn_fmaf(p, v, -0x1.cb7b9ep-19f);
    p = tn_fmaf(p, v, -0x1.4cd6dcp-18f);
    p = tn_fmaf(p, v, 0x1.c9b83ap-13f);
    p = tn_fmaf(p, v, -0x1.486688p-10f);
    p = tn_fmaf(p, v, -0x1.11c3ccp-8f);
    p = tn_fmaf(p, v, 0x1.f91e8cp-3f);
    p = tn_fmaf(p, v, 0x1.805c5cp0f);
    float q = -0x1.03e134p-15f;
    q = tn_fmaf(q, r, 0x1.11c85cp-13f);
    q = tn_fmaf(q, r, -0x1.29a76p-13f);
    q = tn_fmaf(q, r, -0x1.2d28a4p-12f);
    q = tn_fmaf(q, r, 0x1.5a990cp-10f);
    q = tn_fmaf(q, r, -0x1.64a692p-9f);
    q = tn_fmaf(q, r, 0x1.0e122p-8f);
    q = tn_fmaf(q, r, -0x1.754174p-8f);
    q = tn_fmaf(q, r, 0x1.e8e71ap-8f);
    q = tn_fmaf(q, r, 0x1.00dbf2p0f);
    q = tn_fmaf(q, r, 0x1.777422p1f);
    float y = (w < 5.0f ? p : q) * x;
    y = a == 1.0f ? tn_copysignf((float)INFINITY, x) : y;
    return a > 1.0f ? (float)NAN : y;
}

/* sin(pi x) / (pi x) for |x| < 2^20: half turns are taken off exactly. */
TN_INLINE float tn_sinc_f32(float x)
{
    float halves = 2.0f * x, t = halves + TN_ROUNDER_F32, whole = t - TN_ROUNDER_F32;
    int32_t quadrant = (int32_t)(tn_as_bits(t) - tn_as_bits(TN_ROUNDER_F32));
    float y = tn_sin_quadrant_f32((halves - whole) * TN_HALF_PI_F32, quadrant) /
              (halves * TN_HALF_PI_F32);
    return x == 0 ? 1.0f : y;
}

/* For x > 0. Up to 2.5: (x - 1)(x - 2) times a polynomial, below 1/2 after one step of the
 * recurrence. Beyond: Stirling's series (DLMF 5.11.1) at x + 6 and six steps of the recurrence. */
TN_INLINE float tn_lgamma_f32(float number)
{
    double x = number, step = x < 0.5 ? x + 1 : x, t = step - 1.5;
    double p = -0x1.f41d1f5ced38bp-13;
    p = tn_fma(p, t, 0x1.875e7c8c80165p-12);
    p = tn_fma(p, t, 0x1.ff7e58772ac0cp-12);
    p = tn_fma(p, t, -0x1.8e4112bf6319bp-11);
    p = tn_fma(p, t, -0x1.b1e5344ed1faep-11);
    p = tn_fma(p, t, 0x1.549d9090dcdd4p-10);
    p = tn_fma(p, t, -0x1.6c361d42263a2p-17);
    p = tn_fma(p, t, 0x1.79d0f3cb20f4ap-15);
    p = tn_fma(p, t, -0x1.5a72ee652ac34p-10);
    p = tn_fma(p, t, 0x1.1c2e6af864d63p-9);
    p = tn_fma(p, t, -0x1.a0d81d0dd8650p-9);
    p = tn_fma(p, t, 0x1.61b00b388ac7ep-8);
    p = tn_fma(p, t, -0x1.34f67e16ea262p-7);
    p = tn_fma(p, t, 0x1.1348ea1df63fdp-6);
    p = tn_fma(p, t, -0x1.007a677684f77p-5);
    p = tn_fma(p, t, 0x1.01af301ec3609p-4);
    p = tn_fma(p, t, -0x1.2aed05b57dd99p-3);
    p = tn_fma(p, t, 0x1.eeb95b1d4dfa5p-2);
    double near = p * (step - 1) * (step - 2);
    double z = x + 6, inverse = 1 / z, w = inverse * inverse;
    double series = inverse * (1.0 / 12 - w * (1.0 / 360 - w * (1.0 / 1260 - w * (1.0 / 1680))));
    double stirling =
        (z - 0.5) * tn_log_short(z) - z + 0x1.d67f1c864beb5p-1 + series; /* ln(2 pi) / 2 */
    double product = x * (x + 1) * ((x + 2) * (x + 3)) * ((x + 4) * (x + 5));
    int is_near = x < 2.5;
    double factor = is_near ? (x < 0.5 ? x : 1.0) : product;
    double y = (is_near ? near : stirling) - tn_log_short(factor);
    y = x == (double)INFINITY ? x : y;
    return x != x ? number : (float)y;
}

/* For x > 0: eight steps of the recurrence, then the asymptotic series (DLMF 5.11.2) at x + 8. */
TN_INLINE float tn_digamma_f32(float number)
{
    double x = number, z = x + 8, w = 1 / (z * z), half = 0.5 / z;
    double steps = (2 * x + 1) / (x * (x + 1)) + (2 * x + 5) / ((x + 2) * (x + 3)) +
                   (2 * x + 9) / ((x + 4) * (x + 5)) + (2 * x + 13) / ((x + 6) * (x + 7));
    double series =
        w * (1.0 / 12 -
             w * (1.0 / 120 -
                  w * (1.0 / 252 -
                       w * (1.0 / 240 - w * (1.0 / 132 - w * (691.0 / 32760 - w * (1.0 / 12)))))));
    double y = tn_log_f64(z) - half - series - steps;
    y = x > 1e30 ? tn_log_f64(x) : y;
    return (float)y;
}

#endif

/* Elementary functions of one fp64 lane, branch-free. Largest errors found in samples of the whole
 * range, in ULPs (tests/test_pointwise.py holds them to these): exp log sin cos 1 · sigmoid 2.5 ·
 * tanh 3 · pow 1.5 (with FMA; without it tiles call libm).
 *
 * Series are Taylor's, cut where the next term no longer matters; arguments are reduced with
 * constants whose heads leave room for an exact product. */
#ifndef TN_TILE_DOUBLE_H
#define TN_TILE_DOUBLE_H

#include <math.h>

#include "tn/tile/math.h"

#define TN_LN2_HEAD 0x1.62e42fee00000p-1 /* 32 bits */
#define TN_LN2_TAIL 0x1.a39ef35793c76p-33

/* 2^n for a whole n in [-1022, 1023]. */
TN_INLINE double tn_power_of_two(double n)
{
    return tn_as_double((tn_as_bits64(n + TN_ROUNDER_F64) - tn_as_bits64(TN_ROUNDER_F64) + 1023)
                        << 52);
}

/* x 2^n for a whole n in [-1100, 1100], rounded once where the result is subnormal. */
TN_INLINE double tn_scale_f64(double x, double n)
{
    double half = 0.5 * n + TN_ROUNDER_F64 - TN_ROUNDER_F64;
    return x * tn_power_of_two(half) * tn_power_of_two(n - half);
}

/* exp(r) - 1 for |r| <= ln(2) / 2. */
TN_INLINE double tn_expm1_reduced_f64(double r)
{
    double p = 1.0 / 6227020800;
    p = tn_fma(p, r, 1.0 / 479001600);
    p = tn_fma(p, r, 1.0 / 39916800);
    p = tn_fma(p, r, 1.0 / 3628800);
    p = tn_fma(p, r, 1.0 / 362880);
    p = tn_fma(p, r, 1.0 / 40320);
    p = tn_fma(p, r, 1.0 / 5040);
    p = tn_fma(p, r, 1.0 / 720);
    p = tn_fma(p, r, 1.0 / 120);
    p = tn_fma(p, r, 1.0 / 24);
    p = tn_fma(p, r, 1.0 / 6);
    p = tn_fma(p, r, 0.5);
    return tn_fma(p * r, r, r);
}

/* exp(x + tail) for a tail that is small beside x. */
TN_INLINE double tn_exp_parts_f64(double x, double tail)
{
    double low = x < -746 ? -746 : x, clamped = low > 710 ? 710 : low;
    double n = clamped * 0x1.71547652b82fep0 + TN_ROUNDER_F64 - TN_ROUNDER_F64;
    double r = clamped - n * TN_LN2_HEAD - n * TN_LN2_TAIL + (clamped == x ? tail : 0);
    return tn_scale_f64(1 + tn_expm1_reduced_f64(r), n);
}

TN_INLINE double tn_exp_f64(double x)
{
    double y = tn_exp_parts_f64(x, 0);
    return x != x ? x : y;
}

TN_INLINE double tn_sigmoid_f64(double x)
{
    return 1 / (1 + tn_exp_f64(-x));
}

/* tanh|x| = -e / (e + 2) with e = exp(-2|x|) - 1. */
TN_INLINE double tn_tanh_f64(double x)
{
    double a = tn_abs(x), t = -2 * (a > 22 ? 22 : a);
    double n = t * 0x1.71547652b82fep0 + TN_ROUNDER_F64 - TN_ROUNDER_F64;
    double q = tn_expm1_reduced_f64(t - n * TN_LN2_HEAD - n * TN_LN2_TAIL),
           power = tn_power_of_two(n);
    double e = tn_fma(power, q, power - 1);
    double y = tn_copysign(-e / (e + 2), x);
    return x != x ? x : y;
}

/* ---- logarithm ------------------------------------------------------------------------------- */

/* x = 2^out_k * result, the result in [sqrt(1/2), sqrt(2)); for finite x > 0. */
TN_INLINE double tn_split_f64(double x, double *out_k)
{
    int small = x < 0x1p-1022;
    uint64_t bits = tn_as_bits64(small ? x * 0x1p54 : x) - 0x3fe6a09e667f3bcd;
    double k = tn_as_double((bits + (1024ull << 52)) >> 52 | 0x4330000000000000) - (0x1p52 + 1024);
    *out_k = small ? k - 54 : k;
    return tn_as_double((bits & 0xfffffffffffff) + 0x3fe6a09e667f3bcd);
}

/* 2/3 + 2/5 z + ...: log((1 + s) / (1 - s)) = 2s + s z times it, z = s^2. */
TN_INLINE double tn_log_series(double z)
{
    double p = 2.0 / 21;
    p = tn_fma(p, z, 2.0 / 19);
    p = tn_fma(p, z, 2.0 / 17);
    p = tn_fma(p, z, 2.0 / 15);
    p = tn_fma(p, z, 2.0 / 13);
    p = tn_fma(p, z, 2.0 / 11);
    p = tn_fma(p, z, 2.0 / 9);
    p = tn_fma(p, z, 2.0 / 7);
    p = tn_fma(p, z, 2.0 / 5);
    return tn_fma(p, z, 2.0 / 3);
}

/* With f = m - 1, s = f / (2 + f): log m = f - f^2/2 + s (f^2/2 + series), whose large parts are
 * exact. */
TN_INLINE double tn_log_f64(double x)
{
    double k, f = tn_split_f64(x, &k) - 1, s = f / (2 + f), z = s * s, half_square = 0.5 * f * f;
    double series = z * tn_log_series(z);
    double tail = tn_fma(s, half_square + series, k * TN_LN2_TAIL);
    double y = k * TN_LN2_HEAD - (half_square - tail - f);
    y = x == (double)INFINITY ? x : y;
    y = x == 0 ? -(double)INFINITY : y;
    return x < 0 ? (double)NAN : x != x ? x : y;
}

/* ---- circular functions ---------------------------------------------------------------------- */

/* Beyond it the product with the head of pi/2 is not exact; tiles recompute such lanes with libm.
 */
#define TN_TRIG_LIMIT_F64 0x1p20

/* x = *out_quadrant pi/2 + result + *out_tail, pi/2 in three parts of 33, 33 and 53 bits. */
TN_INLINE double tn_trig_reduce_f64(double x, double *out_tail, uint64_t *out_quadrant)
{
    double t = x * 0x1.45f306dc9c883p-1 + TN_ROUNDER_F64, n = t - TN_ROUNDER_F64;
    double head = x - n * 0x1.921fb54400000p0, middle = n * 0x1.0b4611a600000p-34;
    double r = head - middle, lost = head - r - middle - n * 0x1.3198a2e037073p-69;
    double y = r + lost;
    *out_tail = r - y + lost;
    *out_quadrant = tn_as_bits64(t);
    return y;
}

TN_INLINE double tn_sin_quadrant_f64(double r, double tail, uint64_t quadrant)
{
    double z = r * r, p = 1.0 / 355687428096000, q = 1.0 / 20922789888000;
    p = tn_fma(p, z, -1.0 / 1307674368000);
    p = tn_fma(p, z, 1.0 / 6227020800);
    p = tn_fma(p, z, -1.0 / 39916800);
    p = tn_fma(p, z, 1.0 / 362880);
    p = tn_fma(p, z, -1.0 / 5040);
    p = tn_fma(p, z, 1.0 / 120);
    p = tn_fma(p, z, -1.0 / 6);
    q = tn_fma(q, z, -1.0 / 87178291200);
    q = tn_fma(q, z, 1.0 / 479001600);
    q = tn_fma(q, z, -1.0 / 3628800);
    q = tn_fma(q, z, 1.0 / 40320);
    q = tn_fma(q, z, -1.0 / 720);
    q = tn_fma(q, z, 1.0 / 24);
    double half = 0.5 * z, sine = r + tn_fma(p * z, r, tail * (1 - half));
    double rest = 1 - half, cosine = rest + (1 - rest - half + tn_fma(q * z, z, -r * tail));
    double y = quadrant & 1 ? cosine : sine;
    return tn_as_double(tn_as_bits64(y) ^ (quadrant & 2) << 62);
}

TN_INLINE double tn_sin_f64(double x)
{
    uint64_t quadrant;
    double tail, r = tn_trig_reduce_f64(x, &tail, &quadrant);
    double y = tn_sin_quadrant_f64(r, tail, quadrant);
    return x == 0 ? x : y;
}

TN_INLINE double tn_cos_f64(double x)
{
    uint64_t quadrant;
    double tail, r = tn_trig_reduce_f64(x, &tail, &quadrant);
    return tn_sin_quadrant_f64(r, tail, quadrant + 1);
}

/* ---- powers: the logarithm to 65 bits and more, in two parts --------------------------------- */

#if defined(__FMA__)

/* log x = result + *out_tail for finite x > 0. */
TN_INLINE double tn_log_parts_f64(double x, double *out_tail)
{
    double k, m = tn_split_f64(x, &k), f = m - 1, d = m + 1, d_tail = m - (d - 1);
    double s = f / d, s_tail = (tn_fma(-s, d, f) - s * d_tail) / d;
    double z = s * s, z_tail = tn_fma(s, s, -z) + 2 * s * s_tail;
    double c = z * s, c_tail = tn_fma(z, s, -c) + z_tail * s + z * s_tail;
    double t = c * (2.0 / 3),
           t_tail = tn_fma(c, 2.0 / 3, -t) + c_tail * (2.0 / 3) + c * 0x1.5555555555555p-55;
    double p = 2.0 / 23;
    p = tn_fma(p, z, 2.0 / 21);
    p = tn_fma(p, z, 2.0 / 19);
    p = tn_fma(p, z, 2.0 / 17);
    p = tn_fma(p, z, 2.0 / 15);
    p = tn_fma(p, z, 2.0 / 13);
    p = tn_fma(p, z, 2.0 / 11);
    p = tn_fma(p, z, 2.0 / 9);
    p = tn_fma(p, z, 2.0 / 7);
    p = tn_fma(p, z, 2.0 / 5);
    double base = k * TN_LN2_HEAD, first = base + 2 * s, first_tail = base - first + 2 * s;
    double sum = first + t, sum_tail = first - sum + t;
    double tail = tn_fma(c * z, p, first_tail + sum_tail + 2 * s_tail + t_tail + k * TN_LN2_TAIL);
    double y = sum + tail;
    *out_tail = sum - y + tail;
    return y;
}

/* a^b; the sign of a negative base follows from a whole exponent's parity. */
TN_INLINE double tn_pow_f64(double a, double b)
{
    double size = tn_abs(a), tail, log_a = tn_log_parts_f64(size, &tail);
    int at_end = (size == 0) | (size == (double)INFINITY);
    log_a = at_end ? (size == 0 ? -(double)INFINITY : size) : log_a;
    double product = b * log_a, product_tail = tn_fma(b, log_a, -product) + b * tail;
    int is_finite = tn_abs(product) < 1000;
    double magnitude = tn_exp_parts_f64(product, is_finite ? product_tail : 0);
    double half = 0.5 * b, whole_b = __builtin_floor(b), whole_half = __builtin_floor(half);
    int is_whole = whole_b == b, is_odd = is_whole & (whole_half != half);
    uint64_t sign = is_odd ? tn_as_bits64(a) & (1ull << 63) : 0;
    double y = tn_as_double(tn_as_bits64(magnitude) | sign);
    int undefined = (a < 0) & !is_whole & (a != -(double)INFINITY);
    y = (a != a) | (b != b) | undefined ? (double)NAN : y;
    double one = tn_as_double(0x3ff0000000000000 | sign);
    y = (size == 1) & is_whole ? one : y;
    y = a == 1 ? 1 : y;
    return b == 0 ? 1 : y;
}

#endif

#endif

/* Special functions of one fp64 number that more than one operator needs.
 *
 * Sources: NIST Digital Library of Mathematical Functions (DLMF) chapters 5, 7, 8 and 25;
 * Abramowitz and Stegun (A&S), 26.2.23. Relative errors are near 1e-15 away from zeros, a few 1e-14
 * in the tails. */
#ifndef TN_KERNEL_SPECIAL_H
#define TN_KERNEL_SPECIAL_H

#include <math.h>
#include <stdbool.h>

#include "kernel/special_tables.h"
#include "tn/tile/simd.h"

#define TN_PI 0x1.921fb54442d18p1
#define TN_ROOT_HALF 0x1.6a09e667f3bcdp-1

/* Clenshaw's recurrence for sum of c[k] T_k(2u - 1). */
TN_INLINE double tn_chebyshev(const double *c, int count, double u)
{
    double t = 4 * u - 2, b = 0, older = 0;
    for (int k = count - 1; k > 0; k--) {
        double next = t * b - older + c[k];
        older = b;
        b = next;
    }
    return 0.5 * t * b - older + c[0];
}
#define TN_CHEBYSHEV(name, u)                                                                      \
    tn_chebyshev(table_##name, (int)(sizeof table_##name / sizeof *table_##name), u)

/* ---- error functions ------------------------------------------------------------------------- */

/* exp(x^2) with the rounding error of the square put back. */
TN_INLINE double tn_exp_square(double x)
{
    double square = x * x;
    return square > 710 ? INFINITY : exp(square) * (1 + fma(x, x, -square));
}

/* exp(x^2) erfc(x). */
static inline double tn_erfcx(double x)
{
    if (x < 0)
        return 2 * tn_exp_square(x) - tn_erfcx(-x);
    double u = 4 / (4 + x);
    return x != x ? x : u * TN_CHEBYSHEV(erfcx, u);
}

/* Winitzki's approximation (the tangent where it cancels), then Halley's steps on the function that
 * is small there. */
static inline double tn_erfinv(double y)
{
    if (!(fabs(y) < 1))
        return fabs(y) == 1 ? copysign(INFINITY, y) : NAN;
    double rest = log1p(-y * y), k = 4.330746750799873 + 0.5 * rest; /* 2 / (pi 0.147) */
    double x = copysign(sqrt(sqrt(k * k - rest / 0.147) - k), y);
    if (fabs(y) < 0.1)
        x = y * 0x1.c5bf891b4ef6bp-1; /* sqrt(pi) / 2 */
    for (int i = 0; i < 3; i++) {
        double far = (1 - fabs(y)) - erfc(fabs(x));
        double error = fabs(y) < 0.5 ? erf(x) - y : y < 0 ? -far : far;
        double step = error / (0x1.20dd750429b6dp0 * exp(-x * x)); /* 2 / sqrt(pi) */
        x -= step / (1 + x * step);
    }
    return y == 0 ? y : x;
}

/* Logarithm of the normal distribution function. */
static inline double tn_log_ndtr(double x)
{
    if (x < -1)
        return log(0.5 * tn_erfcx(-x * TN_ROOT_HALF)) - 0.5 * x * x;
    return log1p(-0.5 * erfc(x * TN_ROOT_HALF));
}

/* Inverse of the normal distribution function: in the tail A&S 26.2.23, then Newton's steps on its
 * logarithm, whose slope is sqrt(2/pi) / erfcx(-x / sqrt 2). */
static inline double tn_ndtri(double p)
{
    if (!(p > 0 && p < 1))
        return p == 0 ? -INFINITY : p == 1 ? INFINITY : NAN;
    if (p > 0.25 && p < 0.75)
        return tn_erfinv(2 * p - 1) / TN_ROOT_HALF;
    double tail = p < 0.5 ? p : 1 - p, log_tail = log(tail), t = sqrt(-2 * log_tail);
    double above = 2.515517 + t * (0.802853 + t * 0.010328);
    double below = 1 + t * (1.432788 + t * (0.189269 + t * 0.001308)), x = above / below - t;
    for (int i = 0; i < 2; i++)
        x -= (tn_log_ndtr(x) - log_tail) * tn_erfcx(-x * TN_ROOT_HALF) * 0x1.40d931ff62705p0;
    return p < 0.5 ? x : -x;
}

/* ---- gamma functions ------------------------------------------------------------------------- */

static inline double tn_lgamma(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}

/* Reflection for negative arguments, recurrence up to 10, then the series of DLMF 5.11.2. */
static inline double tn_digamma(double x)
{
    if (x == 0)
        return copysign(INFINITY, -x);
    if (x < 0) {
        double whole = trunc(x);
        if (x == whole)
            return NAN;
        return tn_digamma(1 - x) - TN_PI / tan(TN_PI * (x - whole));
    }
    double sum = 0;
    for (; x < 10; x += 1)
        sum -= 1 / x;
    double z = 1 / (x * x);
    double tail =
        z * (1.0 / 12 -
             z * (1.0 / 120 -
                  z * (1.0 / 252 -
                       z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z * (1.0 / 12)))))));
    return sum + log(x) - 0.5 / x - (x < 1e17 ? tail : 0);
}

/* Hurwitz's zeta function of s > 1, q > 0 by Euler's and Maclaurin's formula (DLMF 25.11.5): ten
 * terms, the integral of the rest, and corrections by Bernoulli numbers B(2j) / (2j)!. */
static inline double tn_zeta_positive(double s, double q)
{
    static const double bernoulli[] = {1.0 / 12,
                                       -1.0 / 720,
                                       1.0 / 30240,
                                       -1.0 / 1209600,
                                       1.0 / 47900160,
                                       -691.0 / 1307674368000,
                                       1.0 / 74724249600,
                                       -3617.0 / 10670622842880000,
                                       43867.0 / 5109094217170944000,
                                       -174611.0 / 802857662698291200000.0};
    double sum = 0;
    for (int k = 0; k < 10; k++, q += 1) {
        double term = pow(q, -s);
        sum += term;
        if (term < 1e-18 * sum)
            return sum;
    }
    double last = pow(q, -s);
    sum += last * q / (s - 1) + 0.5 * last;
    double factor = s * last / q;
    for (int j = 0; j < 10; j++) {
        double term = bernoulli[j] * factor;
        sum += term;
        if (fabs(term) < 1e-17 * fabs(sum))
            break;
        factor *= (s + 2 * j + 1) / q * ((s + 2 * j + 2) / q);
    }
    return sum;
}

/* For negative q the terms of negative base are two zeta functions too, if s is whole. */
static inline double tn_zeta(double s, double q)
{
    if (s == 1)
        return INFINITY;
    if (!(s > 1) || q != q)
        return NAN;
    if (q > 0)
        return q == (double)INFINITY ? 0 : tn_zeta_positive(s, q);
    double below = floor(q), f = q - below;
    if (f == 0)
        return INFINITY;
    if (s != floor(s))
        return NAN;
    double near = tn_zeta_positive(s, f), above = tn_zeta_positive(s, below + 1 - q);
    double far = tn_zeta_positive(s, 1 - q);
    return fmod(s, 2) == 0 ? near + above - far : near - above + far;
}

#endif

/* Gamma and error functions: logarithm and derivatives of gamma, zeta, the incomplete gamma
 * functions, and the scaled, inverse and normal forms of the error function. What they share is in
 * special.h.
 *
 * Incomplete gamma: P by its power series (DLMF 8.7.1) left of a + 1, Q by its continued fraction
 * (8.9.2) right of it, Q of small a without cancellation by 8.7.3, and for a beyond 1e4 the uniform
 * expansion (8.12). The common factor x^a e^-x / Gamma(a + 1) is C. Loader's saddle-point form
 * (2000). */
#include "kernel/pointwise_math.h"
#include "kernel/special.h"

enum { LARGE_SHAPE = 10000, SADDLE_SHAPE = 20, MAX_TERMS = 4000 };

/* ---- incomplete gamma ------------------------------------------------------------------------ */

/* m - log(1 + m), without cancellation near 0. */
static double excess(double m)
{
    if (fabs(m) > 0.5)
        return m - log1p(m);
    double v = m / (2 + m), square = v * v, power = v * square, sum = 0;
    for (int k = 3; k < 60; k += 2, power *= square) {
        double next = sum + power / k;
        if (next == sum)
            break;
        sum = next;
    }
    return m * v - 2 * sum;
}

/* x^a e^-x / Gamma(a + 1). */
static double gamma_density(double a, double x)
{
    if (a < SADDLE_SHAPE)
        return exp(a * log(x) - x - tn_lgamma(a + 1));
    double z = 1 / (a * a);
    double stirling =
        (1.0 / 12 - z * (1.0 / 360 - z * (1.0 / 1260 - z * (1.0 / 1680 - z / 1188)))) / a;
    return exp(-stirling - a * excess((x - a) / a)) / sqrt(2 * TN_PI * a);
}

static double lower_series(double a, double x)
{
    double term = 1, sum = 1;
    for (int k = 1; k < MAX_TERMS; k++) {
        term *= x / (a + k);
        sum += term;
        if (term < 1e-17 * sum)
            break;
    }
    return gamma_density(a, x) * sum;
}

/* Lentz's method, modified by Thompson and Barnett. */
static double upper_fraction(double a, double x)
{
    double b = x + 1 - a, c = 1e300, d = 1 / b, value = d;
    for (int k = 1; k < MAX_TERMS; k++) {
        double numerator = k * (a - k);
        b += 2;
        d = numerator * d + b;
        d = 1 / (fabs(d) < 1e-300 ? 1e-300 : d);
        c = b + numerator / c;
        c = fabs(c) < 1e-300 ? 1e-300 : c;
        value *= c * d;
        if (fabs(c * d - 1) < 1e-16)
            break;
    }
    return gamma_density(a, x) * a * value;
}

/* log Gamma(1 + a) for 0 < a < 1, accurate relative to a. */
static double lgamma_one_plus(double a)
{
    if (a > 1e-3)
        return tn_lgamma(1 + a);
    return a * (-0x1.2788cfc6fb619p-1 +
                a * (0x1.a51a6625307d3p-1 -
                     a * (0x1.9a4d55beab2d7p-2 -
                          a * (0x1.151322ac7d847p-2 - a * 0x1.a8b9c17aa614ap-3))));
}

/* Q(a, x) for a < 1 and x < 1.5, where P may be all but 1. */
static double upper_series(double a, double x)
{
    double exponent = a * log(x) - lgamma_one_plus(a), term = 1, sum = 0;
    for (int k = 1; k < 60; k++) {
        term *= -x / k;
        sum += term / (a + k);
    }
    return -expm1(exponent) - a * exp(exponent) * sum;
}

/* Q(a, x) for large a, two terms of DLMF 8.12.4; P(a, x) with `lower`. */
static double uniform_expansion(double a, double x, bool lower)
{
    double m = (x - a) / a, half_square = excess(m), eta = copysign(sqrt(2 * half_square), m);
    double first, second;
    if (fabs(eta) < 0.02) {
        first = -1.0 / 3 +
                eta * (1.0 / 12 -
                       eta * (2.0 / 135 -
                              eta * (1.0 / 864 + eta * (1.0 / 2835 - eta * (139.0 / 777600)))));
        second = -1.0 / 540 - eta * (1.0 / 288 - eta / 378);
    } else {
        first = 1 / m - 1 / eta;
        second = 1 / (eta * eta * eta) - 1 / (m * m * m) - 1 / (m * m) - 1 / (12 * m);
    }
    double rest = exp(-a * half_square) / sqrt(2 * TN_PI * a) * (first + second / a);
    double argument = eta * sqrt(0.5 * a);
    return lower ? 0.5 * erfc(-argument) - rest : 0.5 * erfc(argument) + rest;
}

/* P(a, x) with `lower`, else Q(a, x). */
static double incomplete_gamma(double a, double x, bool lower)
{
    if (!(a >= 0) || !(x >= 0) || (a == 0 && x == 0) || (isinf(a) && isinf(x)))
        return NAN;
    if (a == 0 || isinf(x))
        return lower;
    if (x == 0 || isinf(a))
        return !lower;
    if (a > LARGE_SHAPE)
        return uniform_expansion(a, x, lower);
    if (a < 1 && x < 1.5 && !lower)
        return upper_series(a, x);
    bool is_lower = x < a + 1;
    double value = is_lower ? lower_series(a, x) : upper_fraction(a, x);
    return is_lower == lower ? value : 1 - value;
}

REAL_SCALAR(igamma, 2, NO_SETUP, (real)incomplete_gamma(a, b, true))
OPERATOR_R(igamma, 2, 0);
REAL_SCALAR(igammac, 2, NO_SETUP, (real)incomplete_gamma(a, b, false))
OPERATOR_R(igammac, 2, 0);

/* ---- gamma, its derivatives, zeta ------------------------------------------------------------ */

TN_TILE_DEFINE(lgamma_lanes, float, 1, NO_SETUP, tn_lgamma_f32(a))
TN_TILE_DEFINE_SCALAR(lgamma_f64, double, 1, NO_SETUP, tn_lgamma(a))
static float lgamma_of_negative(double x)
{
    return (float)tn_lgamma(x);
}
TN_TILE_EXCEPT(lgamma_f32, float, lgamma_lanes, x <= 0, lgamma_of_negative)
OPERATOR_R(lgamma, 1, 0);
TN_TILE_DEFINE(digamma_lanes, float, 1, NO_SETUP, tn_digamma_f32(a))
TN_TILE_DEFINE_SCALAR(digamma_f64, double, 1, NO_SETUP, tn_digamma(a))
static float digamma_of_others(double x)
{
    return (float)tn_digamma(x);
}
TN_TILE_EXCEPT(digamma_f32, float, digamma_lanes, !(x > 0), digamma_of_others)
OPERATOR_R(digamma, 1, 0);
REAL_SCALAR(zeta, 2, NO_SETUP, (real)tn_zeta(a, b))
OPERATOR_R(zeta, 2, 0);

/* DLMF 5.15.1: (-1)^(n+1) n! zeta(n + 1, x). */
#define ORDER                                                                                      \
    int64_t order = tn_call_int(call, 0);                                                          \
    double factor = order & 1 ? tgamma((double)order + 1) : -tgamma((double)order + 1)
REAL_SCALAR(polygamma, 1, ORDER,
            (real)(order == 0 ? tn_digamma(a) : factor * tn_zeta((double)order + 1, a)))
OPERATOR_R(polygamma, 1, 0);

/* ---- error functions ------------------------------------------------------------------------- */

REAL_LIBM(erfinv, 1, NO_SETUP, BY_TYPE(a, tn_erfinv_f32, tn_erfinv)(a))
OPERATOR_R(erfinv, 1, 0);
REAL_SCALAR(erfcx, 1, NO_SETUP, (real)tn_erfcx(a))
OPERATOR_R(erfcx, 1, 0);
REAL_SCALAR(ndtri, 1, NO_SETUP, (real)tn_ndtri(a))
OPERATOR_R(ndtri, 1, 0);
REAL_SCALAR(log_ndtr, 1, NO_SETUP, (real)tn_log_ndtr(a))
OPERATOR_R(log_ndtr, 1, 0);

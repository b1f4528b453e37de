/* Bessel functions of orders 0 and 1, the modified ones with their scaled forms, the spherical one
 * of order 0, and Airy's function of the first kind.
 *
 * Near the origin: the power series, summed as one Chebyshev expansion, with the logarithm of the
 * second kind taken out (DLMF 10.8, 10.31). Far from it: the exponential or the two phase factors
 * of the asymptotic expansions (DLMF 10.17, 10.40, 9.7), which are smooth in the inverse argument.
 */
#include "kernel/pointwise_math.h"
#include "kernel/special.h"

#define TWO_OVER_PI 0x1.45f306dc9c883p-1

/* ---- the first and second kind --------------------------------------------------------------- */

typedef struct phases {
    double p, q, sine, cosine, scale; /* of a Bessel function at x >= 8 */
} phases;

static inline phases phases_of(int order, double x)
{
    double ratio = 8 / x, u = ratio * ratio;
    double p = order == 0 ? TN_CHEBYSHEV(p0, u) : TN_CHEBYSHEV(p1, u);
    double q = order == 0 ? TN_CHEBYSHEV(q0, u) : TN_CHEBYSHEV(q1, u);
    return (phases){p, q * ratio, sin(x), cos(x), 1 / sqrt(TN_PI * x)};
}

static double bessel_j0_of(double x)
{
    x = fabs(x);
    if (x < 8)
        return TN_CHEBYSHEV(j0_near, x * x / 64);
    if (x == (double)INFINITY)
        return 0;
    phases f = phases_of(0, x);
    return f.scale * (f.p * (f.cosine + f.sine) - f.q * (f.sine - f.cosine));
}

static double bessel_j1_of(double x)
{
    double a = fabs(x);
    if (a < 8)
        return x * TN_CHEBYSHEV(j1_near, x * x / 64);
    if (a == (double)INFINITY)
        return 0;
    phases f = phases_of(1, a);
    double y = f.scale * (f.p * (f.sine - f.cosine) + f.q * (f.sine + f.cosine));
    return x < 0 ? -y : y;
}

static double bessel_y0_of(double x)
{
    if (!(x > 0))
        return x == 0 ? -INFINITY : NAN;
    if (x < 8)
        return TN_CHEBYSHEV(y0_near, x * x / 64) + TWO_OVER_PI * log(x) * bessel_j0_of(x);
    if (x == (double)INFINITY)
        return 0;
    phases f = phases_of(0, x);
    return f.scale * (f.p * (f.sine - f.cosine) + f.q * (f.sine + f.cosine));
}

static double bessel_y1_of(double x)
{
    if (!(x > 0))
        return x == 0 ? -INFINITY : NAN;
    if (x < 8)
        return x * TN_CHEBYSHEV(y1_near, x * x / 64) +
               TWO_OVER_PI * (log(x) * bessel_j1_of(x) - 1 / x);
    if (x == (double)INFINITY)
        return 0;
    phases f = phases_of(1, x);
    return f.scale * (f.q * (f.sine - f.cosine) - f.p * (f.sine + f.cosine));
}

/* ---- modified -------------------------------------------------------------------------------- */

static double scaled_i0_of(double x)
{
    x = fabs(x);
    return x < 8 ? TN_CHEBYSHEV(i0_near, x / 8) : TN_CHEBYSHEV(i0_far, 8 / x) / sqrt(x);
}

static double scaled_i1_of(double x)
{
    double a = fabs(x);
    double y = a < 8 ? a * TN_CHEBYSHEV(i1_near, a / 8) : TN_CHEBYSHEV(i1_far, 8 / a) / sqrt(a);
    return copysign(y, x);
}

/* exp(|x|) y in two steps: the exponential alone may overflow before the product. */
static double unscaled(double x, double y)
{
    double half = exp(0.5 * fabs(x));
    return y == 0 ? y : y * half * half;
}

static double modified_i0_of(double x)
{
    return isinf(x) ? INFINITY : unscaled(x, scaled_i0_of(x));
}

static double modified_i1_of(double x)
{
    return isinf(x) ? x : unscaled(x, scaled_i1_of(x));
}

/* K of an order at 0 < x < 2. */
static double near_k0(double x)
{
    return TN_CHEBYSHEV(k0_near, x * x / 4) - log(0.5 * x) * modified_i0_of(x);
}

static double near_k1(double x)
{
    return x * TN_CHEBYSHEV(k1_near, x * x / 4) + log(0.5 * x) * modified_i1_of(x) + 1 / x;
}

#define DEFINE_K(order)                                                                            \
    static double scaled_k##order##_of(double x)                                                   \
    {                                                                                              \
        if (!(x > 0))                                                                              \
            return x == 0 ? INFINITY : NAN;                                                        \
        return x < 2 ? exp(x) * near_k##order(x) : TN_CHEBYSHEV(k##order##_far, 2 / x) / sqrt(x);  \
    }                                                                                              \
    static double modified_k##order##_of(double x)                                                 \
    {                                                                                              \
        if (!(x > 0))                                                                              \
            return x == 0 ? INFINITY : NAN;                                                        \
        return x < 2 ? near_k##order(x) : exp(-x) * scaled_k##order##_of(x);                       \
    }
DEFINE_K(0)
DEFINE_K(1)

/* ---- others ---------------------------------------------------------------------------------- */

static double spherical_j0_of(double x)
{
    return x == 0 ? 1 : isinf(x) ? 0 : sin(x) / x;
}

static double airy_of(double x)
{
    double a = fabs(x), root = sqrt(a), zeta = 2.0 / 3 * a * root;
    if (x != x)
        return x;
    if (x >= -4 && x <= 2)
        return TN_CHEBYSHEV(airy_near, (x + 4) / 6);
    if (isinf(x))
        return 0;
    if (x > 0)
        return exp(-zeta) * TN_CHEBYSHEV(airy_far, 2 / a * (sqrt(2) / root)) /
               (2 * sqrt(TN_PI * root));
    double ratio = 8 / (a * root), u = ratio * ratio, sine = sin(zeta), cosine = cos(zeta);
    double even = TN_CHEBYSHEV(airy_cosine, u), odd = ratio * TN_CHEBYSHEV(airy_sine, u);
    return (even * (cosine + sine) + odd * (sine - cosine)) / sqrt(2 * TN_PI * root);
}

#define FUNCTION(name, of)                                                                         \
    REAL_SCALAR(name, 1, NO_SETUP, (real)of(a))                                                    \
    OPERATOR_R(name, 1, 0);
FUNCTION(bessel_j0, bessel_j0_of)
FUNCTION(bessel_j1, bessel_j1_of)
FUNCTION(bessel_y0, bessel_y0_of)
FUNCTION(bessel_y1, bessel_y1_of)
FUNCTION(i0, modified_i0_of)
FUNCTION(i0e, scaled_i0_of)
FUNCTION(i1, modified_i1_of)
FUNCTION(i1e, scaled_i1_of)
FUNCTION(bessel_k0, modified_k0_of)
FUNCTION(bessel_k1, modified_k1_of)
FUNCTION(scaled_bessel_k0, scaled_k0_of)
FUNCTION(scaled_bessel_k1, scaled_k1_of)
FUNCTION(spherical_bessel_j0, spherical_j0_of)
FUNCTION(airy_ai, airy_of)

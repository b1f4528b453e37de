/* Functions of one or two complex numbers, in fp64 for both complex dtypes: libm's where C has
 * them, else by the identities beside them. Infinities and NaN follow C's Annex G. */
#ifndef TN_KERNEL_COMPLEX_MATH_H
#define TN_KERNEL_COMPLEX_MATH_H

#include <complex.h>
#include <math.h>
#include <string.h>

#include "tn/tile/tile.h"

/* Names that are wanted here. */
#undef complex
#undef I

TN_INLINE double _Complex complex_to_c(tn_complex a)
{
    double _Complex z;
    memcpy(&z, &a, sizeof z);
    return z;
}

TN_INLINE tn_complex complex_from_c(double _Complex z)
{
    return (tn_complex){creal(z), cimag(z)};
}

TN_INLINE tn_complex complex_of(double re, double im)
{
    return (tn_complex){re, im};
}

TN_INLINE tn_complex complex_add(tn_complex a, tn_complex b)
{
    return complex_of(a.re + b.re, a.im + b.im);
}

TN_INLINE tn_complex complex_sub(tn_complex a, tn_complex b)
{
    return complex_of(a.re - b.re, a.im - b.im);
}

TN_INLINE tn_complex complex_mul(tn_complex a, tn_complex b)
{
    return complex_of(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
}

TN_INLINE tn_complex complex_scale(tn_complex a, double factor)
{
    return complex_of(a.re * factor, a.im * factor);
}

/* Smith's method: no overflow where the quotient has none. */
TN_INLINE tn_complex complex_div(tn_complex a, tn_complex b)
{
    if (fabs(b.re) >= fabs(b.im)) {
        if (b.re == 0 && b.im == 0)
            return complex_of(a.re / fabs(b.re), a.im / fabs(b.im));
        double ratio = b.im / b.re, scale = 1 / (b.re + b.im * ratio);
        return complex_of((a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale);
    }
    double ratio = b.re / b.im, scale = 1 / (b.re * ratio + b.im);
    return complex_of((a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale);
}

/* A scalar of a call; `otherwise` if it was not given. */
TN_INLINE tn_complex complex_scalar(const tn_tile_call *call, int index, double otherwise)
{
    if (index >= call->num_scalars)
        return complex_of(otherwise, 0);
    tn_scalar s = call->scalars[index];
    return complex_of(s.kind == TN_SCALAR_COMPLEX ? s.c[0] : tn_scalar_as_double(s),
                      s.kind == TN_SCALAR_COMPLEX ? s.c[1] : 0);
}

#define COMPLEX_FROM_LIBM(name, FN)                                                                \
    TN_INLINE tn_complex complex_##name(tn_complex a)                                              \
    {                                                                                              \
        return complex_from_c(FN(complex_to_c(a)));                                                \
    }
COMPLEX_FROM_LIBM(exp, cexp)
COMPLEX_FROM_LIBM(log, clog)
COMPLEX_FROM_LIBM(sqrt, csqrt)
COMPLEX_FROM_LIBM(sin, csin)
COMPLEX_FROM_LIBM(cos, ccos)
COMPLEX_FROM_LIBM(tan, ctan)
COMPLEX_FROM_LIBM(asin, casin)
COMPLEX_FROM_LIBM(acos, cacos)
COMPLEX_FROM_LIBM(atan, catan)
COMPLEX_FROM_LIBM(sinh, csinh)
COMPLEX_FROM_LIBM(cosh, ccosh)
COMPLEX_FROM_LIBM(tanh, ctanh)
COMPLEX_FROM_LIBM(asinh, casinh)
COMPLEX_FROM_LIBM(acosh, cacosh)
COMPLEX_FROM_LIBM(atanh, catanh)

TN_INLINE tn_complex complex_exp2(tn_complex a)
{
    return complex_exp(complex_scale(a, 0x1.62e42fefa39efp-1));
}

/* e^x cos y - 1 = (e^x - 1) cos y - 2 sin^2(y / 2). */
TN_INLINE tn_complex complex_expm1(tn_complex a)
{
    if (a.im == 0)
        return complex_of(expm1(a.re), a.im);
    double half = sin(0.5 * a.im);
    return complex_of(expm1(a.re) * cos(a.im) - 2 * half * half, exp(a.re) * sin(a.im));
}

TN_INLINE tn_complex complex_log2(tn_complex a)
{
    return complex_scale(complex_log(a), 0x1.71547652b82fep0);
}

TN_INLINE tn_complex complex_log10(tn_complex a)
{
    return complex_scale(complex_log(a), 0x1.bcb7b1526e50ep-2);
}

/* |1 + a|^2 = 1 + x (2 + x) + y^2, where that is small; else the logarithm itself. */
TN_INLINE tn_complex complex_log1p(tn_complex a)
{
    double size = fmax(fabs(a.re), fabs(a.im));
    if (!(size < 0.5))
        return complex_log(complex_of(1 + a.re, a.im));
    return complex_of(0.5 * log1p(a.re * (2 + a.re) + a.im * a.im), atan2(a.im, 1 + a.re));
}

TN_INLINE tn_complex complex_reciprocal(tn_complex a)
{
    return complex_div(complex_of(1, 0), a);
}

TN_INLINE tn_complex complex_rsqrt(tn_complex a)
{
    return complex_reciprocal(complex_sqrt(a));
}

TN_INLINE tn_complex complex_sigmoid(tn_complex a)
{
    return complex_reciprocal(complex_add(complex_of(1, 0), complex_exp(complex_of(-a.re, -a.im))));
}

TN_INLINE tn_complex complex_sinc(tn_complex a)
{
    tn_complex x = complex_scale(a, 0x1.921fb54442d18p1);
    return a.re == 0 && a.im == 0 ? complex_of(1, 0) : complex_div(complex_sin(x), x);
}

/* C's cpow, but small whole and half powers by products and roots. */
static inline tn_complex complex_pow(tn_complex a, tn_complex b)
{
    if (b.im == 0 && b.re == 2)
        return complex_mul(a, a);
    if (b.im == 0 && b.re == 3)
        return complex_mul(complex_mul(a, a), a);
    if (b.im == 0 && b.re == 0.5)
        return complex_sqrt(a);
    if (b.re == 0 && b.im == 0)
        return complex_of(1, 0);
    return complex_from_c(cpow(complex_to_c(a), complex_to_c(b)));
}

/* log(exp a + exp b) from the one with the larger real part. */
static inline tn_complex complex_logaddexp(tn_complex a, tn_complex b)
{
    bool first = a.re >= b.re;
    tn_complex large = first ? a : b, small = first ? b : a;
    if (isinf(large.re) && large.re == small.re)
        return large.re > 0 ? complex_log(complex_add(complex_exp(a), complex_exp(b))) : large;
    return complex_add(large, complex_log1p(complex_exp(complex_sub(small, large))));
}

#endif

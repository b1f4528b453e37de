/* Orthogonal polynomials of degree n, a number like x: Chebyshev's of the four kinds on [-1, 1] and
 * on [0, 1], Hermite's, Laguerre's and Legendre's. Low degrees follow the three-term recurrences
 * (DLMF 18.9), high ones of Chebyshev's the closed forms by circular or hyperbolic functions
 * (DLMF 18.5). */
#include "kernel/pointwise_math.h"

enum { RECURRENCE_DEGREE = 64 };

/* Degrees are cut towards 0 to whole numbers; below 0 the polynomial is 0. */
static int64_t degree_of(double n)
{
    return n > -1 ? (n < 0x1p62 ? (int64_t)n : (int64_t)1 << 62) : -1;
}

/* ---- Chebyshev: kinds differ in the polynomial of degree 1, slope x + offset ----------------- */

typedef enum chebyshev_kind { KIND_T, KIND_U, KIND_V, KIND_W } chebyshev_kind;

/* In [-1, 1], from the angle; where the divisor is 0, the limit. */
static double circular_form(chebyshev_kind kind, double x, double n)
{
    double angle = acos(x), half = n + 0.5;
    bool odd = fmod(n, 2) != 0;
    switch (kind) {
    case KIND_T:
        return cos(n * angle);
    case KIND_U:
        return fabs(x) == 1 ? (x < 0 && odd ? -(n + 1) : n + 1) : sin((n + 1) * angle) / sin(angle);
    case KIND_V:
        return x == -1 ? (odd ? -(2 * n + 1) : 2 * n + 1) : cos(half * angle) / cos(0.5 * angle);
    default:
        return x == 1 ? 2 * n + 1 : sin(half * angle) / sin(0.5 * angle);
    }
}

/* Beyond 1; a negative argument gives the same or, for V and W, the other kind's value with the
 * parity of n. */
static double hyperbolic_form(chebyshev_kind kind, double x, double n)
{
    double t = acosh(fabs(x)), half = n + 0.5;
    if (x < 0) {
        chebyshev_kind mirrored = kind == KIND_V ? KIND_W : kind == KIND_W ? KIND_V : kind;
        double y = hyperbolic_form(mirrored, -x, n);
        return fmod(n, 2) != 0 ? -y : y;
    }
    switch (kind) {
    case KIND_T:
        return cosh(n * t);
    case KIND_U:
        return sinh((n + 1) * t) / sinh(t);
    case KIND_V:
        return cosh(half * t) / cosh(0.5 * t);
    default:
        return sinh(half * t) / sinh(0.5 * t);
    }
}

static double chebyshev_of(chebyshev_kind kind, double x, double number)
{
    int64_t n = degree_of(number);
    if (n <= 0 || x != x)
        return n < 0 ? 0 : n == 0 ? 1 : x;
    if (n > RECURRENCE_DEGREE)
        return fabs(x) <= 1 ? circular_form(kind, x, (double)n)
                            : hyperbolic_form(kind, x, (double)n);
    double older = 1, y = kind == KIND_T ? x : 2 * x + (kind == KIND_V ? -1 : kind == KIND_W);
    for (int64_t k = 1; k < n; k++) {
        double next = 2 * x * y - older;
        older = y;
        y = next;
    }
    return y;
}

#define POLYNOMIAL(name, VALUE)                                                                    \
    REAL_SCALAR(name, 2, NO_SETUP, (real)VALUE)                                                    \
    OPERATOR_R(name, 2, 0);
POLYNOMIAL(chebyshev_t, chebyshev_of(KIND_T, a, b))
POLYNOMIAL(chebyshev_u, chebyshev_of(KIND_U, a, b))
POLYNOMIAL(chebyshev_v, chebyshev_of(KIND_V, a, b))
POLYNOMIAL(chebyshev_w, chebyshev_of(KIND_W, a, b))
POLYNOMIAL(shifted_chebyshev_t, chebyshev_of(KIND_T, a + a - 1, b))
POLYNOMIAL(shifted_chebyshev_u, chebyshev_of(KIND_U, a + a - 1, b))
POLYNOMIAL(shifted_chebyshev_v, chebyshev_of(KIND_V, a + a - 1, b))
POLYNOMIAL(shifted_chebyshev_w, chebyshev_of(KIND_W, a + a - 1, b))

/* ---- the others: y(k+1) = FACTOR y(k) - WEIGHT y(k-1), all from x and k ---------------------- */

#define DEFINE_RECURRENCE(name, FIRST, FACTOR, WEIGHT)                                             \
    static double name##_of(double x, double number)                                               \
    {                                                                                              \
        int64_t n = degree_of(number);                                                             \
        if (n <= 0)                                                                                \
            return n < 0 ? 0 : 1;                                                                  \
        double older = 1, y = (FIRST);                                                             \
        for (int64_t i = 1; i < n && y == y; i++) {                                                \
            double k = (double)i, next = (FACTOR) * y - (WEIGHT) * older;                          \
            older = y;                                                                             \
            y = next;                                                                              \
        }                                                                                          \
        return y;                                                                                  \
    }                                                                                              \
    POLYNOMIAL(name, name##_of(a, b))
DEFINE_RECURRENCE(hermite_h, 2 * x, 2 * x, 2 * k)
DEFINE_RECURRENCE(hermite_he, x, x, k)
DEFINE_RECURRENCE(laguerre_l, 1 - x, (2 * k + 1 - x) / (k + 1), k / (k + 1))
DEFINE_RECURRENCE(legendre_p, x, (2 * k + 1) / (k + 1) * x, k / (k + 1))

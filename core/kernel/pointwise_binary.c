/* Arithmetic of two and three operands: sums, products, quotients, powers, extremes, bits, selection. */
#include "kernel/pointwise_math.h"

/* int64 arithmetic wraps: unsigned arithmetic says so without undefined behaviour. */
#define WRAP(expression) ((int64_t)(expression))
#define U(x) ((uint64_t)(x))

/* ---- sums and products ------------------------------------------------------------------------ */

#define ALPHA real alpha = call->num_scalars ? (real)rounded_scalar(call, 0) : 1
#define ALPHA_I64 int64_t alpha = call->num_scalars ? tn_call_int(call, 0) : 1
#define ALPHA_C128 tn_complex alpha = complex_scalar(call, 0, 1)

REAL(add, 2, ALPHA, a + alpha * b)
WHOLE(add, 2, ALPHA_I64, WRAP(U(a) + U(alpha) * U(b)))
COMPLEX(add, 2, ALPHA_C128, complex_add(a, complex_mul(alpha, b)))
OPERATOR_RIC(add, 2, TN_TILE_BOOL);

REAL(sub, 2, ALPHA, a - alpha * b)
WHOLE(sub, 2, ALPHA_I64, WRAP(U(a) - U(alpha) * U(b)))
COMPLEX(sub, 2, ALPHA_C128, complex_sub(a, complex_mul(alpha, b)))
OPERATOR_RIC(sub, 2, 0);

REAL(rsub, 2, ALPHA, b - alpha * a)
WHOLE(rsub, 2, ALPHA_I64, WRAP(U(b) - U(alpha) * U(a)))
COMPLEX(rsub, 2, ALPHA_C128, complex_sub(b, complex_mul(alpha, a)))
OPERATOR_RIC(rsub, 2, 0);

REAL(mul, 2, NO_SETUP, a * b)
WHOLE(mul, 2, NO_SETUP, WRAP(U(a) * U(b)))
COMPLEX(mul, 2, NO_SETUP, complex_mul(a, b))
OPERATOR_RIC(mul, 2, TN_TILE_BOOL | TN_TILE_OPMATH | TN_TILE_UNSIGNED);

REAL(div, 2, NO_SETUP, a / b)
COMPLEX(div, 2, NO_SETUP, complex_div(a, b))
OPERATOR_RC(div, 2, TN_TILE_OPMATH);

#define VALUE_SCALAR real value = (real)tn_call_double(call, 0)
#define VALUE_I64 int64_t value = tn_call_int(call, 0)
REAL(addcmul, 3, VALUE_SCALAR, a + value * b * c)
WHOLE(addcmul, 3, VALUE_I64, WRAP(U(a) + U(value) * U(b) * U(c)))
#define VALUE_C128 tn_complex value = complex_scalar(call, 0, 1)
COMPLEX(addcmul, 3, VALUE_C128, complex_add(a, complex_mul(complex_mul(value, b), c)))
OPERATOR_RIC(addcmul, 3, TN_TILE_OPMATH);
REAL(addcdiv, 3, VALUE_SCALAR, a + value * b / c)
COMPLEX(addcdiv, 3, VALUE_C128, complex_add(a, complex_div(complex_mul(value, b), c)))
OPERATOR_RC(addcdiv, 3, TN_TILE_OPMATH);

/* From the nearer end, so that weight 1 gives exactly `end`. */
#define LERP(w) (ABS(w) < (real)0.5 ? a + (w) * (b - a) : b - (b - a) * (1 - (w)))
static inline tn_complex complex_lerp(tn_complex a, tn_complex b, tn_complex weight)
{
    tn_complex way = complex_sub(b, a);
    if (hypot(weight.re, weight.im) < 0.5)
        return complex_add(a, complex_mul(weight, way));
    return complex_sub(b, complex_mul(way, complex_sub(complex_of(1, 0), weight)));
}
REAL(lerp, 3, NO_SETUP, LERP(c))
COMPLEX(lerp, 3, NO_SETUP, complex_lerp(a, b, c))
OPERATOR_RC(lerp, 3, TN_TILE_OPMATH);
REAL(lerp_scalar, 2, real weight = (real)tn_call_double(call, 0), LERP(weight))
COMPLEX(lerp_scalar, 2, tn_complex weight = complex_scalar(call, 0, 1), complex_lerp(a, b, weight))
OPERATOR_RC(lerp_scalar, 2, TN_TILE_OPMATH);

/* ---- quotients with a rounding, and remainders ------------------------------------------------- */

#define DEFINE_FLOOR_DIV(T, NAME)                                                                  \
    static inline T NAME(T a, T b)                                                                 \
    {                                                                                              \
        if (b == 0)                                                                                \
            return a / b;                                                                          \
        T rest = FMOD(a, b), quotient = (a - rest) / b;                                            \
        if (rest != 0 && (b < 0) != (rest < 0))                                                    \
            quotient -= 1;                                                                         \
        if (quotient == 0)                                                                         \
            return COPYSIGN((T)0, a / b);                                                          \
        T whole = FLOOR(quotient);                                                                 \
        return quotient - whole > (T)0.5 ? whole + 1 : whole;                                      \
    }
DEFINE_FLOOR_DIV(float, floor_div_f32)
DEFINE_FLOOR_DIV(double, floor_div_f64)
#define FLOOR_DIV(a, b) BY_TYPE(a, floor_div_f32, floor_div_f64)(a, b)

static inline int64_t trunc_div_i64(const tn_tile_call *call, int64_t a, int64_t b)
{
    if (b == 0)
        *call->fault = 1;
    return b == 0 ? 0 : b == -1 ? WRAP(0 - U(a)) : a / b;
}

static inline int64_t floor_div_i64(const tn_tile_call *call, int64_t a, int64_t b)
{
    int64_t quotient = trunc_div_i64(call, a, b);
    bool inexact = b != 0 && b != -1 && a % b != 0;
    return inexact && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

static inline int64_t fmod_i64_of(const tn_tile_call *call, int64_t a, int64_t b)
{
    if (b == 0)
        *call->fault = 1;
    return b == 0 || b == -1 ? 0 : a % b;
}

static inline int64_t remainder_i64_of(const tn_tile_call *call, int64_t a, int64_t b)
{
    int64_t rest = fmod_i64_of(call, a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

REAL_SCALAR(floor_divide, 2, NO_SETUP, FLOOR_DIV(a, b))
WHOLE_SCALAR(floor_divide, 2, NO_SETUP, floor_div_i64(call, a, b))
OPERATOR_RI(floor_divide, 2, 0);

enum { MODE_NONE = 0, MODE_FLOOR = 1, MODE_TRUNC = 2 };
#define MODE int64_t mode = tn_call_int(call, 0)
REAL_SCALAR(div_mode, 2, MODE,
            mode == MODE_FLOOR ? FLOOR_DIV(a, b) : mode == MODE_TRUNC ? TRUNC(a / b) : a / b)
WHOLE_SCALAR(div_mode, 2, MODE,
             mode == MODE_FLOOR ? floor_div_i64(call, a, b) : trunc_div_i64(call, a, b))
OPERATOR_RI(div_mode, 2, 0);

REAL_SCALAR(fmod, 2, NO_SETUP, FMOD(a, b))
WHOLE_SCALAR(fmod, 2, NO_SETUP, fmod_i64_of(call, a, b))
OPERATOR_RI(fmod, 2, 0);

#define DEFINE_REMAINDER(T, NAME)                                                                  \
    static inline T NAME(T a, T b)                                                                 \
    {                                                                                              \
        T rest = FMOD(a, b);                                                                       \
        return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;                               \
    }
DEFINE_REMAINDER(float, remainder_of_f32)
DEFINE_REMAINDER(double, remainder_of_f64)
REAL_SCALAR(remainder, 2, NO_SETUP, BY_TYPE(a, remainder_of_f32, remainder_of_f64)(a, b))
WHOLE_SCALAR(remainder, 2, NO_SETUP, remainder_i64_of(call, a, b))
OPERATOR_RI(remainder, 2, 0);

static inline int64_t gcd_of(int64_t a, int64_t b)
{
    uint64_t x = a < 0 ? 0 - U(a) : U(a), y = b < 0 ? 0 - U(b) : U(b);
    while (y) {
        uint64_t rest = x % y;
        x = y;
        y = rest;
    }
    return WRAP(x);
}

static inline int64_t lcm_of(int64_t a, int64_t b)
{
    int64_t divisor = gcd_of(a, b);
    int64_t product = divisor == 0 ? 0 : WRAP(U(a / divisor) * U(b));
    return product < 0 ? WRAP(0 - U(product)) : product;
}

WHOLE_SCALAR(gcd, 2, NO_SETUP, gcd_of(a, b))
OPERATOR_I(gcd, 2, 0);
WHOLE_SCALAR(lcm, 2, NO_SETUP, lcm_of(a, b))
OPERATOR_I(lcm, 2, 0);

/* ---- powers ------------------------------------------------------------------------------------ */

static inline int64_t pow_i64_of(int64_t base, int64_t exponent)
{
    if (exponent < 0)
        return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
    uint64_t result = 1, square = U(base);
    for (; exponent; exponent >>= 1) {
        result *= exponent & 1 ? square : 1;
        square *= square;
    }
    return WRAP(result);
}

REAL(pow, 2, NO_SETUP, POW(a, b))
WHOLE_SCALAR(pow, 2, NO_SETUP, pow_i64_of(a, b))
COMPLEX(pow, 2, NO_SETUP, complex_pow(a, b))
OPERATOR_RIC(pow, 2, 0);

/* A number as exponent: the usual ones are products and roots. */
REAL(pow_square, 1, NO_SETUP, a * a)
REAL(pow_cube, 1, NO_SETUP, a * a * a)
REAL(pow_root, 1, NO_SETUP, SQRT(a))
REAL(pow_inverse_root, 1, NO_SETUP, 1 / SQRT(a))
REAL(pow_inverse, 1, NO_SETUP, 1 / a)
REAL(pow_inverse_square, 1, NO_SETUP, 1 / (a * a))
REAL(pow_same, 1, NO_SETUP, a)
REAL(pow_any, 1, real exponent = (real)rounded_scalar(call, 0), POW(a, exponent))
WHOLE_SCALAR(pow_scalar, 1, int64_t exponent = tn_call_int(call, 0), pow_i64_of(a, exponent))

#define DEFINE_POW_SCALAR(TYPE)                                                                    \
    static void pow_scalar_##TYPE(const tn_tile_call *call, int64_t n)                             \
    {                                                                                              \
        double exponent = tn_call_double(call, 0);                                                 \
        tn_tile_fn fn = exponent == 2      ? pow_square_##TYPE                                     \
                        : exponent == 3    ? pow_cube_##TYPE                                       \
                        : exponent == 0.5  ? pow_root_##TYPE                                       \
                        : exponent == -0.5 ? pow_inverse_root_##TYPE                               \
                        : exponent == -1   ? pow_inverse_##TYPE                                    \
                        : exponent == -2   ? pow_inverse_square_##TYPE                             \
                        : exponent == 1    ? pow_same_##TYPE                                       \
                                           : pow_any_##TYPE;                                       \
        fn(call, n);                                                                               \
    }
DEFINE_POW_SCALAR(f32)
DEFINE_POW_SCALAR(f64)
COMPLEX(pow_scalar, 1, tn_complex exponent = complex_scalar(call, 0, 1), complex_pow(a, exponent))
OPERATOR_RIC(pow_scalar, 1, 0);

/* ---- extremes ----------------------------------------------------------------------------------- */

REAL(maximum, 2, NO_SETUP, MAX(a, b))
WHOLE(maximum, 2, NO_SETUP, a > b ? a : b)
OPERATOR_RI(maximum, 2, TN_TILE_BOOL);
REAL(minimum, 2, NO_SETUP, MIN(a, b))
WHOLE(minimum, 2, NO_SETUP, a < b ? a : b)
OPERATOR_RI(minimum, 2, TN_TILE_BOOL);
REAL(fmax, 2, NO_SETUP, b != b ? a : a > b ? a : b)
WHOLE(fmax, 2, NO_SETUP, a > b ? a : b)
OPERATOR_RI(fmax, 2, TN_TILE_BOOL);
REAL(fmin, 2, NO_SETUP, b != b ? a : a < b ? a : b)
WHOLE(fmin, 2, NO_SETUP, a < b ? a : b)
OPERATOR_RI(fmin, 2, TN_TILE_BOOL);

/* Bounds that were not given are infinite. */
#define BOUNDS                                                                                     \
    real low = call->scalars[0].kind ? (real)tn_call_double(call, 0) : (real)-INFINITY;            \
    real high = call->num_scalars > 1 && call->scalars[1].kind ? (real)tn_call_double(call, 1)     \
                                                               : (real)INFINITY
#define BOUNDS_I64                                                                                 \
    int64_t low = call->scalars[0].kind ? tn_call_int(call, 0) : INT64_MIN;                        \
    int64_t high =                                                                                 \
        call->num_scalars > 1 && call->scalars[1].kind ? tn_call_int(call, 1) : INT64_MAX
REAL(clamp, 1, BOUNDS, MIN(MAX(a, low), high))
WHOLE(clamp, 1, BOUNDS_I64, (a < low ? low : a) > high ? high : (a < low ? low : a))
OPERATOR_RI(clamp, 1, 0);
REAL(clamp_tensor, 3, NO_SETUP, MIN(MAX(a, b), c))
WHOLE(clamp_tensor, 3, NO_SETUP, (a < b ? b : a) > c ? c : (a < b ? b : a))
OPERATOR_RI(clamp_tensor, 3, TN_TILE_BOUNDS);

/* ---- bits and truth ------------------------------------------------------------------------------ */

WHOLE(bitwise_and, 2, NO_SETUP, a & b)
OPERATOR_I(bitwise_and, 2, TN_TILE_BOOL | TN_TILE_UNSIGNED);
WHOLE(bitwise_or, 2, NO_SETUP, a | b)
OPERATOR_I(bitwise_or, 2, TN_TILE_BOOL | TN_TILE_UNSIGNED);
WHOLE(bitwise_xor, 2, NO_SETUP, a ^ b)
OPERATOR_I(bitwise_xor, 2, TN_TILE_BOOL | TN_TILE_UNSIGNED);

/* Shifts by the width or more, or by less than 0, push everything out. */
#define WIDTH int64_t width = 8 * (int64_t)tn_dtype_size((tn_dtype)call->compute_dtype)
WHOLE(bitwise_left_shift, 2, WIDTH, b < 0 || b >= width ? 0 : WRAP(U(a) << (b & 63)))
OPERATOR_I(bitwise_left_shift, 2, 0);
WHOLE(bitwise_right_shift, 2, WIDTH, a >> (b < 0 || b >= width ? width - 1 : b))
OPERATOR_I(bitwise_right_shift, 2, 0);

#define NONZERO(x) (((x).re != 0) | ((x).im != 0))
#define LOGICAL(name, op)                                                                          \
    REAL(name, 2, NO_SETUP, (real)((int)(a != 0)op(int)(b != 0)))                                            \
    WHOLE(name, 2, NO_SETUP, (int)(a != 0)op(int)(b != 0))                                                   \
    COMPLEX(name, 2, NO_SETUP, complex_of((int)NONZERO(a) op(int) NONZERO(b), 0))                            \
    OPERATOR_RIC(name, 2, TN_TILE_BOOL);
LOGICAL(logical_and, &)
LOGICAL(logical_or, |)
LOGICAL(logical_xor, !=)

/* ---- comparisons --------------------------------------------------------------------------------- */

#define COMPARE(name, op)                                                                          \
    REAL(name, 2, NO_SETUP, (real)(a op b))                                                        \
    WHOLE(name, 2, NO_SETUP, a op b)
#define ORDER(name, op)                                                                            \
    COMPARE(name, op)                                                                              \
    OPERATOR_RI(name, 2, TN_TILE_BOOL);
ORDER(lt, <)
ORDER(le, <=)
ORDER(gt, >)
ORDER(ge, >=)
COMPARE(eq, ==)
COMPLEX(eq, 2, NO_SETUP, complex_of(a.re == b.re && a.im == b.im, 0))
OPERATOR_RIC(eq, 2, TN_TILE_BOOL | TN_TILE_UNSIGNED);
COMPARE(ne, !=)
COMPLEX(ne, 2, NO_SETUP, complex_of(a.re != b.re || a.im != b.im, 0))
OPERATOR_RIC(ne, 2, TN_TILE_BOOL | TN_TILE_UNSIGNED);

/* ---- selection ----------------------------------------------------------------------------------- */

REAL(where, 3, NO_SETUP, a != 0 ? b : c)
WHOLE(where, 3, NO_SETUP, a != 0 ? b : c)
COMPLEX(where, 3, NO_SETUP, a.re != 0 ? b : c)
OPERATOR_RIC(where, 3, TN_TILE_BOOL);
REAL(masked_fill, 3, NO_SETUP, b != 0 ? c : a)
WHOLE(masked_fill, 3, NO_SETUP, b != 0 ? c : a)
COMPLEX(masked_fill, 3, NO_SETUP, b.re != 0 ? c : a)
OPERATOR_RIC(masked_fill, 3, TN_TILE_BOOL);
REAL(heaviside, 2, NO_SETUP, a == 0 ? b : (real)(a > 0))
WHOLE(heaviside, 2, NO_SETUP, a == 0 ? b : a > 0)
OPERATOR_RI(heaviside, 2, TN_TILE_BOOL);

/* ---- floating functions of two ------------------------------------------------------------------- */

TN_INLINE float hypot_lane(float x, float y)
{
    double root = __builtin_sqrt((double)x * x + (double)y * y);
    int infinite = (int)(tn_absf(x) == (float)INFINITY) | (int)(tn_absf(y) == (float)INFINITY);
    return infinite ? (float)INFINITY : (float)root;
}
#define HYPOT(x, y) BY_TYPE(x, hypot_lane, hypot)(x, y)
#define ATAN2(x, y) BY_TYPE(x, tn_atan2_f32, atan2)(x, y)
#define NEXTAFTER(x, y) BY_TYPE(x, nextafterf, nextafter)(x, y)

REAL_LIBM(atan2, 2, NO_SETUP, ATAN2(a, b))
OPERATOR_R(atan2, 2, 0);
REAL_LIBM(hypot, 2, NO_SETUP, HYPOT(a, b))
OPERATOR_R(hypot, 2, 0);
REAL(copysign, 2, NO_SETUP, COPYSIGN(a, b))
OPERATOR_R(copysign, 2, 0);
REAL_SCALAR(nextafter, 2, NO_SETUP, NEXTAFTER(a, b))
OPERATOR_R(nextafter, 2, TN_TILE_FLOAT_ONLY);

/* log(exp a + exp b) from the larger one; equal infinities are themselves. */
#define LOGADDEXP(LN2)                                                                             \
    (a == b && ABS(a) == (real)INFINITY                                                            \
         ? a                                                                                       \
         : MAX(a, b) + (real)LOG1P((real)EXP((real)(-ABS(a - b) * (LN2)))) / (real)(LN2))
REAL_LIBM(logaddexp, 2, NO_SETUP, LOGADDEXP((real)1))
COMPLEX(logaddexp, 2, NO_SETUP, complex_logaddexp(a, b))
OPERATOR_RC(logaddexp, 2, 0);
REAL_LIBM(logaddexp2, 2, NO_SETUP, LOGADDEXP((real)0x1.62e42fefa39efp-1))
OPERATOR_R(logaddexp2, 2, 0);

REAL_LIBM(xlogy, 2, NO_SETUP, b != b ? (real)NAN : a == 0 ? 0 : a * LOG(b))
OPERATOR_R(xlogy, 2, 0);
REAL_LIBM(xlog1py, 2, NO_SETUP, b != b ? (real)NAN : a == 0 ? 0 : a * LOG1P(b))
OPERATOR_R(xlog1py, 2, 0);

/* ---- complex numbers from real parts ------------------------------------------------------------- */

COMPLEX(complex, 2, NO_SETUP, complex_of(a.re, b.re))
TN_TILE_OPERATOR(complex, 2, 0, NULL, NULL, NULL, complex_c128);
COMPLEX(polar, 2, NO_SETUP, complex_of(a.re * cos(b.re), a.re * sin(b.re)))
TN_TILE_OPERATOR(polar, 2, 0, NULL, NULL, NULL, polar_c128);

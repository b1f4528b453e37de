/* Functions of one operand: signs, roundings, roots, exponentials, logarithms, circular and hyperbolic
 * functions, the error function, predicates. */
#include "kernel/pointwise_math.h"

#define U(x) ((uint64_t)(x))
#define WRAP(x) ((int64_t)(x))

/* ---- signs ------------------------------------------------------------------------------------- */

REAL(neg, 1, NO_SETUP, -a)
WHOLE(neg, 1, NO_SETUP, WRAP(0 - U(a)))
COMPLEX(neg, 1, NO_SETUP, complex_of(-a.re, -a.im))
OPERATOR_RIC(neg, 1, 0);

REAL(abs, 1, NO_SETUP, ABS(a))
WHOLE(abs, 1, NO_SETUP, a < 0 ? WRAP(0 - U(a)) : a)
COMPLEX(abs, 1, NO_SETUP, complex_of(hypot(a.re, a.im), 0))
OPERATOR_RIC(abs, 1, 0);

/* NaN has no sign: 0 for sign() and, like CPU torch, for sgn() of real numbers. */
REAL(sign, 1, NO_SETUP, (real)((a > 0) - (a < 0)))
WHOLE(sign, 1, NO_SETUP, (a > 0) - (a < 0))
OPERATOR_RI(sign, 1, TN_TILE_BOOL);
static inline tn_complex complex_sgn(tn_complex a)
{
    double size = hypot(a.re, a.im);
    return size == 0 ? complex_of(0, 0) : complex_of(a.re / size, a.im / size);
}
COMPLEX(sgn, 1, NO_SETUP, complex_sgn(a))
TN_TILE_OPERATOR(sgn, 1, TN_TILE_BOOL, sign_f32, sign_f64, sign_i64, sgn_c128);

TN_TILE_DEFINE(signbit_f32, float, 1, NO_SETUP, (float)(tn_as_bits(a) >> 31))
TN_TILE_DEFINE(signbit_f64, double, 1, NO_SETUP, (double)(int64_t)(tn_as_bits64(a) >> 63))
WHOLE(signbit, 1, bool is_signed = call->compute_dtype != TN_UINT64, is_signed & (a < 0))
OPERATOR_RI(signbit, 1, TN_TILE_BOOL | TN_TILE_UNSIGNED);

COMPLEX(conj_physical, 1, NO_SETUP, complex_of(a.re, -a.im))
TN_TILE_OPERATOR(conj_physical, 1, 0, NULL, NULL, NULL, conj_physical_c128);

TN_TILE_DEFINE(angle_f32, float, 1, NO_SETUP, a != a ? a : a < 0 ? 0x1.921fb6p1f : 0)
TN_TILE_DEFINE(angle_f64, double, 1, NO_SETUP, a != a ? a : a < 0 ? 0x1.921fb54442d18p1 : 0)
COMPLEX(angle, 1, NO_SETUP, complex_of(atan2(a.im, a.re), 0))
OPERATOR_RC(angle, 1, 0);

/* ---- roundings: integers are whole already ------------------------------------------------------ */

WHOLE(same, 1, NO_SETUP, a)
#define ROUNDING(name, FN)                                                                         \
    REAL(name, 1, NO_SETUP, FN(a))                                                                 \
    TN_TILE_OPERATOR(name, 1, TN_TILE_UNSIGNED, name##_f32, name##_f64, same_i64);
ROUNDING(floor, FLOOR)
ROUNDING(ceil, CEIL)
ROUNDING(trunc, TRUNC)
ROUNDING(round, RINT)
REAL(frac, 1, NO_SETUP, a - TRUNC(a))
OPERATOR_R(frac, 1, 0);

/* Multiplies by the power of ten for positive decimals and divides for negative ones, as CPU torch. */
#define DECIMALS                                                                                   \
    int64_t decimals = tn_call_int(call, 0);                                                       \
    real ten = (real)pow(10, (double)(decimals < 0 ? -decimals : decimals));                       \
    bool negative = decimals < 0
REAL(round_decimals, 1, DECIMALS, negative ? RINT(a / ten) * ten : RINT(a * ten) / ten)
TN_TILE_OPERATOR(round_decimals, 1, 0, round_decimals_f32, round_decimals_f64, same_i64);

/* ---- roots, exponentials, logarithms ------------------------------------------------------------ */

REAL(sqrt, 1, NO_SETUP, SQRT(a))
COMPLEX(sqrt, 1, NO_SETUP, complex_sqrt(a))
OPERATOR_RC(sqrt, 1, 0);
REAL(rsqrt, 1, NO_SETUP, 1 / SQRT(a))
COMPLEX(rsqrt, 1, NO_SETUP, complex_rsqrt(a))
OPERATOR_RC(rsqrt, 1, 0);
REAL(reciprocal, 1, NO_SETUP, 1 / a)
COMPLEX(reciprocal, 1, NO_SETUP, complex_reciprocal(a))
OPERATOR_RC(reciprocal, 1, 0);

/* A lane function for fp32, libm's for fp64, and the complex one of the same name. */
#define FUNCTION(name, F32, F64)                                                                   \
    TN_TILE_DEFINE(name##_f32, float, 1, NO_SETUP, F32(a))                                         \
    TN_TILE_DEFINE_SCALAR(name##_f64, double, 1, NO_SETUP, F64(a))                                 \
    COMPLEX(name, 1, NO_SETUP, complex_##name(a))                                                  \
    OPERATOR_RC(name, 1, 0);

#define LANE_FUNCTION(name, F32, F64)                                                              \
    TN_TILE_DEFINE(name##_f32, float, 1, NO_SETUP, F32(a))                                         \
    TN_TILE_DEFINE(name##_f64, double, 1, NO_SETUP, F64(a))                                        \
    COMPLEX(name, 1, NO_SETUP, complex_##name(a))                                                  \
    OPERATOR_RC(name, 1, 0);

LANE_FUNCTION(exp, tn_exp_f32, tn_exp_f64)
FUNCTION(exp2, tn_exp2_f32, exp2)
FUNCTION(expm1, tn_expm1_f32, expm1)
LANE_FUNCTION(log, tn_log_f32, tn_log_f64)
FUNCTION(log2, tn_log2_f32, log2)
FUNCTION(log10, tn_log10_f32, log10)
FUNCTION(log1p, tn_log1p_f32, log1p)

/* Scalar: the distance from 0 and 1 that the argument is kept at, if given. */
#define EPS                                                                                        \
    bool clamped = call->num_scalars && call->scalars[0].kind;                                     \
    real low = clamped ? (real)tn_call_double(call, 0) : 0;                                        \
    real high = 1 - low
#define KEPT(x) (clamped ? MIN(MAX((x), low), high) : (x))
REAL_LIBM(logit, 1, EPS, LOG(KEPT(a) / (1 - KEPT(a))))
OPERATOR_R(logit, 1, 0);

/* ---- circular and hyperbolic -------------------------------------------------------------------- */

/* Lanes whose argument is too large for the vector reduction are done again by libm. */
#define CIRCULAR_F32(name, VALUE, LIBM)                                                            \
    TN_TILE_DEFINE(name##_lanes_f32, float, 1, NO_SETUP, VALUE(a))                                 \
    static float name##_of_large(double x)                                                         \
    {                                                                                              \
        return (float)LIBM(x);                                                                     \
    }                                                                                              \
    TN_TILE_EXCEPT(name##_f32, float, name##_lanes_f32, !(tn_absf(x) <= TN_TRIG_LIMIT),            \
                   name##_of_large)                                                                \
    COMPLEX(name, 1, NO_SETUP, complex_##name(a))                                                  \
    OPERATOR_RC(name, 1, 0);
#define CIRCULAR_F64(name, VALUE, LIBM)                                                            \
    TN_TILE_DEFINE(name##_lanes_f64, double, 1, NO_SETUP, VALUE(a))                                \
    TN_TILE_EXCEPT(name##_f64, double, name##_lanes_f64, !(tn_abs(x) <= TN_TRIG_LIMIT_F64), LIBM)

TN_INLINE float tan_lane(float x)
{
    int32_t quadrant;
    float r = tn_trig_reduce_f32(x, &quadrant);
    float sine = tn_sin_poly_f32(r), cosine = tn_cos_poly_f32(r);
    float y = quadrant & 1 ? -cosine / sine : sine / cosine;
    return x == 0 ? x : y;
}

CIRCULAR_F64(sin, tn_sin_f64, sin)
CIRCULAR_F32(sin, tn_sin_f32, sin)
CIRCULAR_F64(cos, tn_cos_f64, cos)
CIRCULAR_F32(cos, tn_cos_f32, cos)
TN_TILE_DEFINE_SCALAR(tan_f64, double, 1, NO_SETUP, tan(a))
CIRCULAR_F32(tan, tan_lane, tan)
FUNCTION(asin, tn_asin_f32, asin)
FUNCTION(acos, tn_acos_f32, acos)
FUNCTION(atan, tn_atan_f32, atan)
FUNCTION(sinh, tn_sinh_f32, sinh)
FUNCTION(cosh, tn_cosh_f32, cosh)
LANE_FUNCTION(tanh, tn_tanh_f32, tn_tanh_f64)
FUNCTION(asinh, tn_asinh_f32, asinh)
FUNCTION(acosh, tn_acosh_f32, acosh)
FUNCTION(atanh, tn_atanh_f32, atanh)
LANE_FUNCTION(sigmoid, tn_sigmoid_f32, tn_sigmoid_f64)

static double sinc_of(double x)
{
    double angle = x * 0x1.921fb54442d18p1;
    return x == 0 ? 1 : sin(angle) / angle;
}
static float sinc_of_large(double x)
{
    float angle = (float)x * 0x1.921fb6p1f; /* may overflow to NaN, as on the CPU */
    return (float)(sin((double)angle) / (double)angle);
}
TN_TILE_DEFINE(sinc_lanes, float, 1, NO_SETUP, tn_sinc_f32(a))
TN_TILE_EXCEPT(sinc_f32, float, sinc_lanes, !(tn_absf(x) < 0x1p20f), sinc_of_large)
TN_TILE_DEFINE_SCALAR(sinc_f64, double, 1, NO_SETUP, sinc_of(a))
COMPLEX(sinc, 1, NO_SETUP, complex_sinc(a))
OPERATOR_RC(sinc, 1, 0);

/* ---- error function and entropy ------------------------------------------------------------------ */

REAL_LIBM(erf, 1, NO_SETUP, ERF(a))
OPERATOR_R(erf, 1, 0);
REAL_LIBM(erfc, 1, NO_SETUP, BY_TYPE(a, tn_erfc_f32, erfc)(a))
OPERATOR_R(erfc, 1, 0);

REAL_LIBM(entr, 1, NO_SETUP, a != a ? a : a > 0 ? -a * LOG(a) : a == 0 ? 0 : (real)-INFINITY)
OPERATOR_R(entr, 1, 0);

/* ---- parts of a number: mantissa in [1/2, 1) and exponent, both for the storer to convert ------------ */

#define FREXP(T, SUFFIX)                                                                           \
    static void frexp_##SUFFIX(const tn_tile_call *call, int64_t n)                                \
    {                                                                                              \
        const T *in = call->in[0];                                                                 \
        T *mantissa = call->out[0], *exponent = call->out[1];                                      \
        for (int64_t i = 0; i < n; i++) {                                                          \
            int power = 0;                                                                         \
            double part = frexp((double)in[i], &power);                                            \
            mantissa[i] = (T)part;                                                                 \
            exponent[i] = isfinite(part) ? (T)power : 0;                                           \
        }                                                                                          \
    }
FREXP(float, f32)
FREXP(double, f64)
OPERATOR_R(frexp, 1, 0);

/* ---- predicates --------------------------------------------------------------------------------- */

WHOLE(never, 1, NO_SETUP, 0)

REAL(isnan, 1, NO_SETUP, (real)(a != a))
COMPLEX(isnan, 1, NO_SETUP, complex_of(a.re != a.re || a.im != a.im, 0))
TN_TILE_OPERATOR(isnan, 1, TN_TILE_BOOL | TN_TILE_UNSIGNED, isnan_f32, isnan_f64, never_i64, isnan_c128);
REAL(isposinf, 1, NO_SETUP, (real)(a == (real)INFINITY))
TN_TILE_OPERATOR(isposinf, 1, TN_TILE_BOOL | TN_TILE_UNSIGNED, isposinf_f32, isposinf_f64, never_i64);
REAL(isneginf, 1, NO_SETUP, (real)(a == (real)-INFINITY))
TN_TILE_OPERATOR(isneginf, 1, TN_TILE_BOOL | TN_TILE_UNSIGNED, isneginf_f32, isneginf_f64, never_i64);

REAL(logical_not, 1, NO_SETUP, (real)(a == 0))
WHOLE(logical_not, 1, NO_SETUP, a == 0)
COMPLEX(logical_not, 1, NO_SETUP, complex_of(a.re == 0 && a.im == 0, 0))
OPERATOR_RIC(logical_not, 1, TN_TILE_BOOL);

WHOLE(bitwise_not, 1, bool truth = call->compute_dtype == TN_BOOL, truth ? a == 0 : ~a)
OPERATOR_I(bitwise_not, 1, TN_TILE_BOOL);

/* Scalars: what NaN, infinity and minus infinity become; without one, the dtype's largest numbers. */
static double largest_of(uint8_t dtype)
{
    return dtype == TN_FLOAT64    ? 0x1.fffffffffffffp1023
           : dtype == TN_BFLOAT16 ? 0x1.fep127
           : dtype == TN_FLOAT16  ? 65504
                                  : 0x1.fffffep127;
}
#define REPLACEMENTS                                                                               \
    real nan_to = (real)(call->scalars[0].kind ? tn_call_double(call, 0) : 0);                     \
    real high = (real)(call->scalars[1].kind ? tn_call_double(call, 1)                             \
                                             : largest_of(call->compute_dtype));                   \
    real low = (real)(call->scalars[2].kind ? tn_call_double(call, 2)                              \
                                            : -largest_of(call->compute_dtype))
REAL(nan_to_num, 1, REPLACEMENTS,
     a != a ? nan_to : a == (real)INFINITY ? high : a == (real)-INFINITY ? low : a)
TN_TILE_OPERATOR(nan_to_num, 1, TN_TILE_BOOL | TN_TILE_UNSIGNED, nan_to_num_f32, nan_to_num_f64, same_i64);

/* One spelling for fp32 and fp64 in the values of primitives, and the macros that define a primitive for
 * both: REAL where both are lane code, REAL_LIBM where fp64 calls libm, REAL_SCALAR where both do. */
#ifndef TN_KERNEL_POINTWISE_MATH_H
#define TN_KERNEL_POINTWISE_MATH_H

#include <math.h>

#include "kernel/complex_math.h"
#include "kernel/convert.h"
#include "kernel/pointwise.h"
#include "tn/tile/double.h"
#include "tn/tile/inverse.h"
#include "tn/tile/math.h"

#define BY_TYPE(x, f32, f64) _Generic((x), float: f32, double: f64)
#define ABS(x) BY_TYPE(x, tn_absf, tn_abs)(x)
#define MAX(x, y) BY_TYPE(x, tn_maxf, tn_max)(x, y)
#define MIN(x, y) BY_TYPE(x, tn_minf, tn_min)(x, y)
#define COPYSIGN(x, y) BY_TYPE(x, tn_copysignf, tn_copysign)(x, y)
#define SQRT(x) BY_TYPE(x, __builtin_sqrtf, __builtin_sqrt)(x)
#define FLOOR(x) BY_TYPE(x, __builtin_floorf, __builtin_floor)(x)
#define CEIL(x) BY_TYPE(x, __builtin_ceilf, __builtin_ceil)(x)
#define TRUNC(x) BY_TYPE(x, __builtin_truncf, __builtin_trunc)(x)
#define RINT(x) BY_TYPE(x, __builtin_rintf, __builtin_rint)(x)
#define FMOD(x, y) BY_TYPE(x, fmodf, fmod)(x, y)
#define EXP(x) BY_TYPE(x, tn_exp_f32, tn_exp_f64)(x)
#define EXPM1(x) BY_TYPE(x, tn_expm1_f32, expm1)(x)
#define LOG(x) BY_TYPE(x, tn_log_f32, tn_log_f64)(x)
#define LOG1P(x) BY_TYPE(x, tn_log1p_f32, log1p)(x)
#define TANH(x) BY_TYPE(x, tn_tanh_f32, tn_tanh_f64)(x)
#define ERF(x) BY_TYPE(x, tn_erf_f32, erf)(x)
#define ERF_ABSOLUTE(x) BY_TYPE(x, tn_erf_absolute_f32, erf)(x)
#if defined(__FMA__)
#define POW(x, y) BY_TYPE(x, tn_pow_f32, tn_pow_f64)(x, y)
#else
#define POW(x, y) BY_TYPE(x, tn_pow_f32, pow)(x, y)
#endif
#define SIGMOID(x) BY_TYPE(x, tn_sigmoid_f32, tn_sigmoid_f64)(x)

/* A scalar that CPU torch casts to the tensor's dtype first. */
static inline double rounded_scalar(const tn_tile_call *call, int index)
{
    double value = tn_call_double(call, index);
    if (call->compute_dtype == TN_BFLOAT16)
        return tn_bf16_to_float(tn_float_to_bf16((float)value));
    if (call->compute_dtype == TN_FLOAT16)
        return tn_fp16_to_float(tn_float_to_fp16((float)value));
    return value;
}

#define REAL_SETUP(T, SETUP)                                                                       \
    typedef T real;                                                                                \
    (void)sizeof(real);                                                                            \
    SETUP

#define REAL(NAME, K, SETUP, VALUE)                                                                \
    TN_TILE_DEFINE(NAME##_f32, float, K, REAL_SETUP(float, SETUP), VALUE)                          \
    TN_TILE_DEFINE(NAME##_f64, double, K, REAL_SETUP(double, SETUP), VALUE)
#define REAL_LIBM(NAME, K, SETUP, VALUE)                                                           \
    TN_TILE_DEFINE(NAME##_f32, float, K, REAL_SETUP(float, SETUP), VALUE)                          \
    TN_TILE_DEFINE_SCALAR(NAME##_f64, double, K, REAL_SETUP(double, SETUP), VALUE)
#define REAL_SCALAR(NAME, K, SETUP, VALUE)                                                         \
    TN_TILE_DEFINE_SCALAR(NAME##_f32, float, K, REAL_SETUP(float, SETUP), VALUE)                   \
    TN_TILE_DEFINE_SCALAR(NAME##_f64, double, K, REAL_SETUP(double, SETUP), VALUE)

#define WHOLE(NAME, K, SETUP, VALUE) TN_TILE_DEFINE(NAME##_i64, int64_t, K, SETUP, VALUE)
#define WHOLE_SCALAR(NAME, K, SETUP, VALUE) TN_TILE_DEFINE_SCALAR(NAME##_i64, int64_t, K, SETUP, VALUE)
#define COMPLEX(NAME, K, SETUP, VALUE) TN_TILE_DEFINE_SCALAR(NAME##_c128, tn_complex, K, SETUP, VALUE)

/* Rows of the operator table by the classes that are defined. */
#define OPERATOR_R(name, inputs, flags) TN_TILE_OPERATOR(name, inputs, flags, name##_f32, name##_f64)
#define OPERATOR_RI(name, inputs, flags)                                                           \
    TN_TILE_OPERATOR(name, inputs, flags, name##_f32, name##_f64, name##_i64)
#define OPERATOR_RC(name, inputs, flags)                                                           \
    TN_TILE_OPERATOR(name, inputs, flags, name##_f32, name##_f64, NULL, name##_c128)
#define OPERATOR_RIC(name, inputs, flags)                                                          \
    TN_TILE_OPERATOR(name, inputs, flags, name##_f32, name##_f64, name##_i64, name##_c128)
#define OPERATOR_I(name, inputs, flags) TN_TILE_OPERATOR(name, inputs, flags, NULL, NULL, name##_i64)

#define NO_SETUP (void)0

#endif

/* Activation functions and losses of one element, with their derivatives. Operands and scalars come in the
 * order of ATen's schemas: a backward's first input is the output's gradient. */
#include "kernel/pointwise_math.h"

#define SCALAR(name, index) real name = (real)tn_call_double(call, index)

/* ---- rectifiers ---------------------------------------------------------------------------------- */

REAL(relu, 1, NO_SETUP, a < 0 ? 0 : a)
TN_TILE_DEFINE(relu_i64, int64_t, 1, NO_SETUP, a < 0 ? 0 : a)
OPERATOR_RI(relu, 1, 0);

#define THRESHOLD SCALAR(limit, 0); SCALAR(value, 1)
REAL(threshold, 1, THRESHOLD, a <= limit ? value : a)
TN_TILE_DEFINE(threshold_i64, int64_t, 1,
               int64_t limit = tn_call_int(call, 0); int64_t value = tn_call_int(call, 1),
               a <= limit ? value : a)
OPERATOR_RI(threshold, 1, 0);
REAL(threshold_backward, 2, SCALAR(limit, 0), b <= limit ? 0 : a)
TN_TILE_DEFINE(threshold_backward_i64, int64_t, 2, int64_t limit = tn_call_int(call, 0),
               b <= limit ? 0 : a)
OPERATOR_RI(threshold_backward, 2, 0);

REAL(leaky_relu, 1, SCALAR(slope, 0), a > 0 ? a : a * slope)
OPERATOR_R(leaky_relu, 1, 0);
REAL(leaky_relu_backward, 2, SCALAR(slope, 0), b > 0 ? a : a * slope)
OPERATOR_R(leaky_relu_backward, 2, 0);

REAL(prelu, 2, NO_SETUP, a > 0 ? a : a * b)
OPERATOR_R(prelu, 2, 0);
/* Gradients of the input and of the weight, one element each: inputs are gradient, input, weight. */
#define PRELU_BACKWARD(T, SUFFIX)                                                                  \
    static void prelu_backward_##SUFFIX(const tn_tile_call *call, int64_t n)                       \
    {                                                                                              \
        const T *grad = call->in[0], *x = call->in[1], *weight = call->in[2];                      \
        T *grad_x = call->out[0], *grad_weight = call->out[1];                                     \
        TN_EACH(i, n)                                                                              \
        {                                                                                          \
            T g = grad[i], value = x[i];                                                           \
            grad_x[i] = value > 0 ? g : weight[i] * g;                                             \
            grad_weight[i] = value > 0 ? 0 : value * g;                                            \
        }                                                                                          \
    }
PRELU_BACKWARD(float, f32)
PRELU_BACKWARD(double, f64)
OPERATOR_R(prelu_backward, 3, 0);

REAL(hardtanh, 1, SCALAR(low, 0); SCALAR(high, 1), MIN(MAX(a, low), high))
TN_TILE_DEFINE(hardtanh_i64, int64_t, 1,
               int64_t low = tn_call_int(call, 0); int64_t high = tn_call_int(call, 1),
               (a < low ? low : a) > high ? high : (a < low ? low : a))
OPERATOR_RI(hardtanh, 1, 0);
REAL(hardtanh_backward, 2, SCALAR(low, 0); SCALAR(high, 1), ((b <= low) | (b >= high)) ? 0 : a)
OPERATOR_R(hardtanh_backward, 2, 0);

#define CLIPPED(x) MIN(MAX((x), (real)0), (real)6)
REAL(hardsigmoid, 1, NO_SETUP, CLIPPED(a + 3) / 6)
OPERATOR_R(hardsigmoid, 1, 0);
REAL(hardsigmoid_backward, 2, NO_SETUP, ((b > -3) & (b < 3)) ? a / 6 : 0)
OPERATOR_R(hardsigmoid_backward, 2, 0);
REAL(hardswish, 1, NO_SETUP, a * CLIPPED(a + 3) / 6)
OPERATOR_R(hardswish, 1, 0);
REAL(hardswish_backward, 2, NO_SETUP, b <= -3 ? 0 : b < 3 ? a * (b / 3 + (real)0.5) : a)
OPERATOR_R(hardswish_backward, 2, 0);

REAL(hardshrink, 1, SCALAR(limit, 0), ((a >= -limit) & (a <= limit)) ? 0 : a)
OPERATOR_R(hardshrink, 1, 0);
REAL(shrink_backward, 2, SCALAR(limit, 0), ((b >= -limit) & (b <= limit)) ? 0 : a)
OPERATOR_R(shrink_backward, 2, 0);
REAL(softshrink, 1, SCALAR(limit, 0), a > limit ? a - limit : a < -limit ? a + limit : a != a ? a : 0)
OPERATOR_R(softshrink, 1, 0);

/* ---- exponential units --------------------------------------------------------------------------- */

#define ELU SCALAR(alpha, 0); SCALAR(scale, 1); SCALAR(input_scale, 2)
REAL_LIBM(elu, 1, ELU, a < 0 ? EXPM1(a * input_scale) * alpha * scale : a * scale)
OPERATOR_R(elu, 1, 0);
#define ELU_BACKWARD ELU; bool is_result = tn_call_int(call, 3) != 0
REAL(elu_backward, 2, ELU_BACKWARD,
          b > 0       ? a * scale
          : is_result ? a * input_scale * (b + alpha * scale)
                      : a * input_scale * alpha * scale * EXP(b * input_scale))
OPERATOR_R(elu_backward, 2, 0);

#define SOFTPLUS SCALAR(beta, 0); SCALAR(limit, 1)
REAL_LIBM(softplus, 1, SOFTPLUS, a * beta > limit ? a : LOG1P(EXP(a * beta)) / beta)
OPERATOR_R(softplus, 1, 0);
REAL(softplus_backward, 2, SOFTPLUS, b * beta > limit ? a : a * SIGMOID(b * beta))
OPERATOR_R(softplus_backward, 2, 0);

REAL_LIBM(log_sigmoid, 1, NO_SETUP, MIN(a, (real)0) - LOG1P(EXP(-ABS(a))))
OPERATOR_R(log_sigmoid, 1, 0);
REAL(log_sigmoid_backward, 2, NO_SETUP, a * SIGMOID(-b))
OPERATOR_R(log_sigmoid_backward, 2, 0);

/* Complex gradients are conjugates of the derivatives. */
static inline tn_complex conjugate_product(tn_complex a, tn_complex derivative)
{
    return complex_mul(a, complex_of(derivative.re, -derivative.im));
}
#define ONE_MINUS(x) complex_sub(complex_of(1, 0), x)
REAL(sigmoid_backward, 2, NO_SETUP, a * (1 - b) * b)
COMPLEX(sigmoid_backward, 2, NO_SETUP, conjugate_product(a, complex_mul(ONE_MINUS(b), b)))
OPERATOR_RC(sigmoid_backward, 2, 0);
REAL(tanh_backward, 2, NO_SETUP, a * (1 - b * b))
COMPLEX(tanh_backward, 2, NO_SETUP, conjugate_product(a, ONE_MINUS(complex_mul(b, b))))
OPERATOR_RC(tanh_backward, 2, 0);

REAL(silu, 1, NO_SETUP, a / (1 + EXP(-a)))
COMPLEX(silu, 1, NO_SETUP, complex_mul(a, complex_sigmoid(a)))
OPERATOR_RC(silu, 1, 0);
#define SILU_SLOPE(s) (s) * (1 + b * (1 - (s)))
REAL(silu_backward, 2, NO_SETUP, a * SILU_SLOPE(SIGMOID(b)))
OPERATOR_R(silu_backward, 2, 0);

REAL_LIBM(mish, 1, NO_SETUP, a * TANH(LOG1P(EXP(a))))
OPERATOR_R(mish, 1, 0);
#define MISH_SLOPE(t) ((t) + b * SIGMOID(b) * (1 - (t) * (t)))
REAL_LIBM(mish_backward, 2, NO_SETUP, a * MISH_SLOPE(TANH(LOG1P(EXP(b)))))
OPERATOR_R(mish_backward, 2, 0);

REAL(glu, 2, NO_SETUP, a * SIGMOID(b))
OPERATOR_R(glu, 2, 0);
/* Of the gated half: inputs are gradient, value, gate. */
#define GATE_SLOPE(s) ((s) * (1 - (s)))
REAL(glu_gate_backward, 3, NO_SETUP, a * b * GATE_SLOPE(SIGMOID(c)))
OPERATOR_R(glu_gate_backward, 3, 0);

/* ---- GELU (Hendrycks and Gimpel 2016): x Phi(x), and its tanh form -------------------------------- */

#define ROOT_HALF ((real)0x1.6a09e667f3bcdp-1)
#define ROOT_TWO_OVER_PI ((real)0x1.988453365d5b3p-1)
#define INVERSE_ROOT_TWO_PI ((real)0x1.9884533d43651p-2)
#define CUBIC ((real)0.044715)
#define TANH_OF(x) TANH(ROOT_TWO_OVER_PI * ((x) + CUBIC * (x) * (x) * (x)))
#define TANH_SLOPE(x) (ROOT_TWO_OVER_PI * (1 + 3 * CUBIC * (x) * (x)))

REAL(gelu_erf, 1, NO_SETUP, (real)0.5 * a * (1 + ERF_ABSOLUTE(a * ROOT_HALF)))
REAL_LIBM(gelu_tanh, 1, NO_SETUP, (real)0.5 * a * (1 + TANH_OF(a)))
REAL(gelu_erf_backward, 2, NO_SETUP,
          a * ((real)0.5 * (1 + ERF_ABSOLUTE(b * ROOT_HALF)) +
               b * EXP((real)-0.5 * b * b) * INVERSE_ROOT_TWO_PI))
#define GELU_TANH_SLOPE(t)                                                                         \
    ((real)0.5 * (1 + (t)) + (real)0.5 * b * (1 - (t) * (t)) * TANH_SLOPE(b))
REAL_LIBM(gelu_tanh_backward, 2, NO_SETUP, a * GELU_TANH_SLOPE(TANH_OF(b)))

#define BY_APPROXIMATION(name, suffix)                                                             \
    static void name##suffix(const tn_tile_call *call, int64_t n)                                  \
    {                                                                                              \
        (tn_call_int(call, 0) ? gelu_tanh##suffix : gelu_erf##suffix)(call, n);                    \
    }
BY_APPROXIMATION(gelu, _f32)
BY_APPROXIMATION(gelu, _f64)
BY_APPROXIMATION(gelu, _backward_f32)
BY_APPROXIMATION(gelu, _backward_f64)
OPERATOR_R(gelu, 1, 0);
OPERATOR_R(gelu_backward, 2, 0);

/* ---- losses before their reduction: input, target; backward: gradient, input, target -------------- */

#define SQUARE(x) ((x) * (x))
#define SIGN(x) ((real)(((x) > 0) - ((x) < 0)))
#define FACTOR SCALAR(factor, 0)

REAL(squared_error, 2, NO_SETUP, SQUARE(a - b))
OPERATOR_R(squared_error, 2, 0);
REAL(squared_error_backward, 3, FACTOR, factor * (b - c) * a)
OPERATOR_R(squared_error_backward, 3, 0);

/* Scalars: beta, and for the derivative the factor of the reduction before it. */
#define SMOOTH(z, beta) ((z) < (beta) ? (real)0.5 * (z) * (z) / (beta) : (z) - (real)0.5 * (beta))
REAL(smooth_error, 2, SCALAR(beta, 0), SMOOTH(ABS(a - b), beta))
OPERATOR_R(smooth_error, 2, 0);
REAL(smooth_error_backward, 3, FACTOR; SCALAR(beta, 1),
     factor * a * (ABS(b - c) < beta ? (b - c) / beta : SIGN(b - c)))
OPERATOR_R(smooth_error_backward, 3, 0);

#define HUBER(z) ((z) <= delta ? (real)0.5 * (z) * (z) : delta * ((z) - (real)0.5 * delta))
REAL(huber_error, 2, SCALAR(delta, 0), HUBER(ABS(a - b)))
OPERATOR_R(huber_error, 2, 0);
REAL(huber_error_backward, 3, FACTOR; SCALAR(delta, 1),
     factor * a * (ABS(b - c) <= delta ? b - c : delta * SIGN(b - c)))
OPERATOR_R(huber_error_backward, 3, 0);

/* Binary cross entropy: logarithms are bounded by -100 as torch does; input 2 (3) is the weight. An
 * input (fault 1) or target (fault 2) outside [0, 1] is a fault. */
#define BOUNDED_LOG(x) MAX((x), (real)-100)
REAL_LIBM(probability_entropy, 3, NO_SETUP,
          c * ((b - 1) * BOUNDED_LOG(LOG1P(-a)) - b * BOUNDED_LOG(LOG(a))))
#define CHECKED_ENTROPY(T, SUFFIX)                                                                 \
    static void cross_entropy_##SUFFIX(const tn_tile_call *call, int64_t n)                        \
    {                                                                                              \
        for (int k = 0; k < 2; k++) {                                                              \
            const T *probability = call->in[k];                                                    \
            int outside = 0;                                                                       \
            for (int64_t i = 0; i < n; i++)                                                        \
                outside |= (int)!(probability[i] >= 0) | (int)!(probability[i] <= 1);              \
            if (outside && !*call->fault)                                                          \
                *call->fault = (uint8_t)(k + 1);                                                   \
        }                                                                                          \
        probability_entropy_##SUFFIX(call, n);                                                     \
    }
CHECKED_ENTROPY(float, f32)
CHECKED_ENTROPY(double, f64)
OPERATOR_R(cross_entropy, 3, 0);
REAL(cross_entropy_backward, 4, FACTOR, factor * d * a * (b - c) / MAX((1 - b) * b, (real)1e-12))
OPERATOR_R(cross_entropy_backward, 4, 0);

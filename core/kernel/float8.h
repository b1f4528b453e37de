/* The 8-bit floating formats, bit by bit, rounding to nearest even as torch's conversions do:
 * overflow saturates in e4m3fn, becomes NaN in the fnuz forms and infinity in e5m2. */
#ifndef TN_KERNEL_FLOAT8_H
#define TN_KERNEL_FLOAT8_H

#include "kernel/convert.h"

static inline float tn_e4m3fn_to_float(uint8_t x)
{
    uint32_t rest = x & 0x7f, sign = (uint32_t)(x & 0x80) << 24;
    float value = tn_float_of_bits(rest << 20) * 0x1p120f;
    uint32_t bits = rest == 0x7f ? 0x7fc00000 : tn_bits_of_float(value);
    return tn_float_of_bits(bits | sign);
}

/* No infinities, no negative zero; 0x80 is NaN. */
static inline float tn_fnuz_to_float(uint8_t x, int mantissa, int bias)
{
    uint32_t rest = x & 0x7f, sign = (uint32_t)(x & 0x80) << 24;
    float scale = tn_float_of_bits((uint32_t)(127 + 127 - bias) << 23);
    float value = tn_float_of_bits(rest << (23 - mantissa)) * scale;
    uint32_t bits = x == 0x80 ? 0x7fc00000 : tn_bits_of_float(value) | sign;
    return tn_float_of_bits(bits);
}

/* Powers of two: 2^(x - 127); 255 is NaN. */
static inline float tn_e8m0_to_float(uint8_t x)
{
    return tn_float_of_bits(x == 0 ? 0x00400000 : x == 255 ? 0x7fc00000 : (uint32_t)x << 23);
}

/* The magnitude's bits in a format of `mantissa` bits and `bias`, without regard to overflow beyond what
 * 24 bits of result hold. Subnormals are rounded by adding a power of two whose ULP is theirs. */
static inline uint32_t tn_round_magnitude(uint32_t magnitude, int mantissa, int bias)
{
    uint32_t shift = (uint32_t)(23 - mantissa);
    uint32_t first_normal = (uint32_t)(128 - bias) << 23;
    uint32_t anchor = (uint32_t)(127 + 23 + 1 - bias - mantissa) << 23;
    float spaced = tn_float_of_bits(magnitude) + tn_float_of_bits(anchor);
    uint32_t subnormal = tn_bits_of_float(spaced) - anchor;
    uint32_t odd = (magnitude >> shift) & 1;
    uint32_t rounded = magnitude + (1u << (shift - 1)) - 1 + odd;
    uint32_t normal = (rounded - ((uint32_t)(127 - bias) << 23)) >> shift;
    return magnitude < first_normal ? subnormal : normal;
}

static inline uint8_t tn_float_to_e5m2(float value)
{
    uint32_t bits = tn_bits_of_float(value), magnitude = bits & 0x7fffffff;
    uint32_t result = tn_round_magnitude(magnitude, 2, 15);
    result = result > 0x7c || magnitude >= 0x47800000 ? 0x7c : result;
    result = magnitude > 0x7f800000 ? 0x7f : result;
    return (uint8_t)(result | (bits >> 24 & 0x80));
}

static inline uint8_t tn_float_to_e4m3fn(float value)
{
    uint32_t bits = tn_bits_of_float(value), magnitude = bits & 0x7fffffff;
    uint32_t result = tn_round_magnitude(magnitude, 3, 7);
    result = result > 0x7e || magnitude >= 0x43e00000 ? 0x7e : result;
    result = magnitude > 0x7f800000 ? 0x7f : result;
    return (uint8_t)(result | (bits >> 24 & 0x80));
}

static inline uint8_t tn_float_to_fnuz(float value, int mantissa, int bias)
{
    uint32_t bits = tn_bits_of_float(value), magnitude = bits & 0x7fffffff;
    uint32_t result = tn_round_magnitude(magnitude, mantissa, bias);
    uint32_t sign = result == 0 ? 0 : bits >> 24 & 0x80;
    bool overflows = result > 0x7f || magnitude >= 0x47800000;
    return (uint8_t)(overflows ? 0x80 : result | sign);
}

/* The exponent, rounded by the mantissa to nearest with ties up, except that 2^-127's lowest bits go
 * down; the sign is dropped. */
static inline uint8_t tn_float_to_e8m0(float value)
{
    uint32_t bits = tn_bits_of_float(value), exponent = bits >> 23 & 0xff;
    uint32_t mantissa = bits & 0x7fffff;
    bool up = exponent > 0 ? mantissa >= 0x400000 : mantissa > 0x400000;
    return (uint8_t)(exponent == 255 ? 255 : exponent + up);
}

#endif

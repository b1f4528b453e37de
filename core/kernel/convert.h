/* Narrow floating dtypes to fp32 and back, rounding to nearest even: rows for kernels that widen a chunk
 * at a time, and single elements. */
#ifndef TN_KERNEL_CONVERT_H
#define TN_KERNEL_CONVERT_H

#include <string.h>

#include "tn/base.h"

static inline float tn_float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t tn_bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float tn_bf16_to_float(uint16_t bits)
{
    return tn_float_of_bits((uint32_t)bits << 16);
}

static inline uint16_t tn_float_to_bf16(float value)
{
    uint32_t bits = tn_bits_of_float(value);
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    return value != value ? (uint16_t)0x7fc0 : (uint16_t)rounded;
}

/* fp16's exponent is moved up by 112; subnormals come out right because fp32's scaling is exact. */
static inline float tn_fp16_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff;
    float scaled = tn_float_of_bits(rest << 13) * 0x1p112f;
    uint32_t bits = rest >= 0x7c00 ? (rest << 13) | 0x7f800000 : tn_bits_of_float(scaled);
    return tn_float_of_bits(bits | sign);
}

/* Adding a power of two at the right place lets fp32's own rounding cut the mantissa. */
static inline uint16_t tn_float_to_fp16(float value)
{
    uint32_t bits = tn_bits_of_float(value), sign = (bits >> 16) & 0x8000;
    uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 0x477ff000) /* rounds to more than 65504 */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) { /* below 2^-14: subnormal, spaced 2^-24 */
        float spaced = tn_float_of_bits(magnitude) + 0.5f;
        return (uint16_t)(sign | (tn_bits_of_float(spaced) - 0x3f000000));
    }
    uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
    return (uint16_t)(sign | ((rounded - 0x38000000) >> 13));
}

/* Rows of TN_BFLOAT16 or TN_FLOAT16. */
static inline void tn_half_to_float(const uint16_t *in, uint8_t dtype, float *out, int64_t n)
{
    if (dtype == TN_BFLOAT16)
        for (int64_t i = 0; i < n; i++)
            out[i] = tn_bf16_to_float(in[i]);
    else
        for (int64_t i = 0; i < n; i++)
            out[i] = tn_fp16_to_float(in[i]);
}

static inline void tn_float_to_half(const float *in, uint8_t dtype, uint16_t *out, int64_t n)
{
    if (dtype == TN_BFLOAT16)
        for (int64_t i = 0; i < n; i++)
            out[i] = tn_float_to_bf16(in[i]);
    else
        for (int64_t i = 0; i < n; i++)
            out[i] = tn_float_to_fp16(in[i]);
}

/* One element of a floating dtype. */
static inline double tn_element_as_double(const void *data, uint8_t dtype)
{
    switch (dtype) {
    case TN_FLOAT64:
        return *(const double *)data;
    case TN_BFLOAT16:
        return tn_bf16_to_float(*(const uint16_t *)data);
    case TN_FLOAT16:
        return tn_fp16_to_float(*(const uint16_t *)data);
    case TN_INT64:
        return (double)*(const int64_t *)data;
    case TN_INT32:
        return *(const int32_t *)data;
    default:
        return *(const float *)data;
    }
}

#endif

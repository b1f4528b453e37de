/* Elements as unsigned keys whose order is the order of a sort: NaN behind every number, -0 equal to 0.
 * A descending sort is an ascending one of the complemented keys, so both are stable. */
#ifndef TN_KERNEL_ORDER_H
#define TN_KERNEL_ORDER_H

#include "kernel/convert.h"
#include "kernel/kernel.h"

#define TN_KEY_NAN UINT64_MAX

static inline uint64_t tn_float_key(float value)
{
    uint32_t bits = tn_bits_of_float(value + 0.0f);
    if (value != value)
        return TN_KEY_NAN;
    return bits & 0x80000000u ? (uint32_t)~bits : bits | 0x80000000u;
}

static inline uint64_t tn_double_key(double value)
{
    uint64_t bits;
    value += 0.0;
    memcpy(&bits, &value, sizeof bits);
    if (value != value)
        return TN_KEY_NAN;
    return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}

static inline uint64_t tn_int_key(int64_t value)
{
    return (uint64_t)value ^ (uint64_t)1 << 63;
}

static inline uint64_t tn_key_of(const char *p, uint8_t dtype)
{
    const void *at = p;
    switch (dtype) {
    case TN_FLOAT32: return tn_float_key(*(const float *)at);
    case TN_FLOAT64: return tn_double_key(*(const double *)at);
    case TN_BFLOAT16: return tn_float_key(tn_bf16_to_float(*(const uint16_t *)at));
    case TN_FLOAT16: return tn_float_key(tn_fp16_to_float(*(const uint16_t *)at));
    case TN_INT64: return tn_int_key(*(const int64_t *)at);
    case TN_INT32: return tn_int_key(*(const int32_t *)at);
    case TN_INT16: return tn_int_key(*(const int16_t *)at);
    case TN_INT8: return tn_int_key(*(const int8_t *)at);
    case TN_UINT64: return *(const uint64_t *)at;
    case TN_UINT32: return *(const uint32_t *)at;
    case TN_UINT16: return *(const uint16_t *)at;
    case TN_BOOL: return *p != 0;
    default: return *(const uint8_t *)at;
    }
}

static inline bool tn_is_floating(uint8_t dtype)
{
    return dtype == TN_FLOAT32 || dtype == TN_FLOAT64 || dtype == TN_FLOAT16 || dtype == TN_BFLOAT16;
}

/* An element's key and where it came from. */
typedef struct tn_ranked {
    uint64_t key;
    int64_t index;
} tn_ranked;

static inline bool tn_ranked_before(tn_ranked a, tn_ranked b)
{
    return a.key < b.key || (a.key == b.key && a.index < b.index);
}

/* Stable sort by key; `other` is as long. Returns where the result is, items or other. sort.c. */
tn_ranked *TN_ISA_NAME(tn_rank)(tn_ranked *items, tn_ranked *other, int64_t n);
#define tn_rank TN_ISA_NAME(tn_rank)

#endif

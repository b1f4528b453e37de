/* One set of row functions per dtype (accumulate.h). */
#include "kernel/accumulate.h"

#include <complex.h>
#include <math.h>

#include "kernel/convert.h"

#define IDENTITY_LOAD(value) (value)
#define BOOL_STORE(value) ((uint8_t)((value) != 0))

static int64_t floor_divide(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

#define REAL_DIVIDE(value, divisor, Wide) ((value) / (Wide)(divisor))
#define INT_DIVIDE(value, divisor, Wide) floor_divide(value, divisor)
#define REAL_ADD(a, b) ((a) + (b))
#define REAL_MUL(a, b) ((a) * (b))
/* 64-bit integers wrap. */
#define INT_ADD(a, b) (int64_t)((uint64_t)(a) + (uint64_t)(b))
#define INT_MUL(a, b) (int64_t)((uint64_t)(a) * (uint64_t)(b))
#define MAX_REAL(a, b) ((a) != (a) || (a) > (b) ? (a) : (b))
#define MIN_REAL(a, b) ((a) != (a) || (a) < (b) ? (a) : (b))

#define ROW_COMBINE(name, what, Narrow, Wide, LOAD, EXPRESSION)                                   \
    static void name##_##what(void *accumulators, const char *in, int64_t stride, int64_t n)      \
    {                                                                                             \
        Wide *acc = accumulators;                                                                 \
        for (int64_t i = 0; i < n; i++) {                                                         \
            Wide a = acc[i], b = (Wide)LOAD(*(const Narrow *)(const void *)(in + i * stride));     \
            acc[i] = EXPRESSION;                                                                  \
        }                                                                                         \
    }

#define ROW_BASE(name, Narrow, Wide, LOAD, STORE, DIVIDE, ADD, MUL)                                       \
    static void name##_load(void *accumulators, const char *in, int64_t stride, int64_t n)        \
    {                                                                                             \
        Wide *acc = accumulators;                                                                 \
        for (int64_t i = 0; i < n; i++)                                                           \
            acc[i] = (Wide)LOAD(*(const Narrow *)(const void *)(in + i * stride));                 \
    }                                                                                             \
    static void name##_store(char *out, int64_t stride, const void *accumulators, int64_t n)      \
    {                                                                                             \
        const Wide *acc = accumulators;                                                           \
        for (int64_t i = 0; i < n; i++)                                                           \
            *(Narrow *)(void *)(out + i * stride) = (Narrow)STORE(acc[i]);                         \
    }                                                                                             \
    static void name##_divide(void *accumulators, int64_t divisor, int64_t n)                     \
    {                                                                                             \
        Wide *acc = accumulators;                                                                 \
        for (int64_t i = 0; i < n; i++)                                                           \
            acc[i] = DIVIDE(acc[i], divisor, Wide);                                               \
    }                                                                                             \
    ROW_COMBINE(name, add, Narrow, Wide, LOAD, ADD(a, b))                                             \
    ROW_COMBINE(name, mul, Narrow, Wide, LOAD, MUL(a, b))

#define ROW_ORDERED(name, Narrow, Wide, LOAD, STORE, KIND, LOWEST, HIGHEST)                     \
    ROW_BASE(name, Narrow, Wide, LOAD, STORE, KIND##_DIVIDE, KIND##_ADD, KIND##_MUL)                                           \
    ROW_COMBINE(name, max, Narrow, Wide, LOAD, MAX_REAL(a, b))                                    \
    ROW_COMBINE(name, min, Narrow, Wide, LOAD, MIN_REAL(a, b))                                    \
    static void name##_identity(void *accumulator, tn_combine combine)                            \
    {                                                                                             \
        *(Wide *)accumulator = combine == TN_COMBINE_MUL   ? (Wide)1                              \
                               : combine == TN_COMBINE_MAX ? (Wide)(LOWEST)                       \
                               : combine == TN_COMBINE_MIN ? (Wide)(HIGHEST)                      \
                                                           : (Wide)0;                             \
    }                                                                                             \
    static const tn_accumulator name = {                                                          \
        sizeof(Wide),  name##_load,  {name##_load, name##_add, name##_mul, name##_max, name##_min}, \
        name##_store, name##_divide, name##_identity};

#define ROW_COMPLEX(name, Wide)                                                                   \
    ROW_BASE(name, Wide, Wide, IDENTITY_LOAD, IDENTITY_LOAD, REAL_DIVIDE, REAL_ADD, REAL_MUL)                         \
    static void name##_identity(void *accumulator, tn_combine combine)                            \
    {                                                                                             \
        *(Wide *)accumulator = combine == TN_COMBINE_MUL ? 1 : 0;                                 \
    }                                                                                             \
    static const tn_accumulator name = {sizeof(Wide),                                             \
                                        name##_load,                                              \
                                        {name##_load, name##_add, name##_mul, NULL, NULL},        \
                                        name##_store,                                             \
                                        name##_divide,                                            \
                                        name##_identity};

#define ROW_INT(name, Narrow)                                                                     \
    ROW_ORDERED(name, Narrow, int64_t, IDENTITY_LOAD, IDENTITY_LOAD, INT, INT64_MIN,       \
                INT64_MAX)
#define ROW_REAL(name, Narrow, Wide, LOAD, STORE)                                                 \
    ROW_ORDERED(name, Narrow, Wide, LOAD, STORE, REAL, -INFINITY, INFINITY)

ROW_REAL(float32, float, float, IDENTITY_LOAD, IDENTITY_LOAD)
ROW_REAL(float64, double, double, IDENTITY_LOAD, IDENTITY_LOAD)
ROW_REAL(bfloat16, uint16_t, float, tn_bf16_to_float, tn_float_to_bf16)
ROW_REAL(float16, uint16_t, float, tn_fp16_to_float, tn_float_to_fp16)
ROW_INT(int8, int8_t)
ROW_INT(uint8, uint8_t)
ROW_INT(int16, int16_t)
ROW_INT(uint16, uint16_t)
ROW_INT(int32, int32_t)
ROW_INT(uint32, uint32_t)
ROW_INT(int64, int64_t)
ROW_ORDERED(boolean, uint8_t, int64_t, BOOL_STORE, BOOL_STORE, INT, 0, 1)
ROW_COMPLEX(complex64, float complex)
ROW_COMPLEX(complex128, double complex)

const tn_accumulator *tn_accumulator_of(uint8_t dtype)
{
    switch (dtype) {
    case TN_FLOAT32: return &float32;
    case TN_FLOAT64: return &float64;
    case TN_BFLOAT16: return &bfloat16;
    case TN_FLOAT16: return &float16;
    case TN_INT8: return &int8;
    case TN_UINT8: return &uint8;
    case TN_INT16: return &int16;
    case TN_UINT16: return &uint16;
    case TN_INT32: return &int32;
    case TN_UINT32: return &uint32;
    case TN_INT64:
    case TN_UINT64: return &int64;
    case TN_BOOL: return &boolean;
    case TN_COMPLEX64: return &complex64;
    case TN_COMPLEX128: return &complex128;
    default: return NULL;
    }
}

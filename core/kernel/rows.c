/* Loads and stores of rows, every dtype to and from fp32, fp64 and int64. */
#include "kernel/convert.h"
#include "kernel/rows.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

#define AS_IS(x) (x)
#define IS_SET(x) ((x) != 0)

/* One switch arm: a dense loop that becomes vector code, and a strided one. */
#define LOAD(DTYPE, S, T, CONVERT)                                                                 \
    case DTYPE:                                                                                    \
        if (stride == sizeof(S)) {                                                                 \
            const S *dense = (const S *)in;                                                        \
            for (int64_t i = 0; i < n; i++)                                                        \
                out[i] = (T)CONVERT(dense[i]);                                                     \
        } else {                                                                                   \
            for (int64_t i = 0; i < n; i++)                                                        \
                out[i] = (T)CONVERT(*(const S *)(in + i * stride));                                \
        }                                                                                          \
        break;

#define LOAD_INTEGERS(T, CONVERT)                                                                  \
    LOAD(TN_BOOL, uint8_t, T, IS_SET)                                                              \
    LOAD(TN_UINT8, uint8_t, T, CONVERT)                                                            \
    LOAD(TN_INT8, int8_t, T, CONVERT)                                                              \
    LOAD(TN_INT16, int16_t, T, CONVERT)                                                            \
    LOAD(TN_UINT16, uint16_t, T, CONVERT)                                                          \
    LOAD(TN_INT32, int32_t, T, CONVERT)                                                            \
    LOAD(TN_UINT32, uint32_t, T, CONVERT)                                                          \
    LOAD(TN_INT64, int64_t, T, CONVERT)                                                            \
    LOAD(TN_UINT64, uint64_t, T, CONVERT)

#define LOAD_ANY(T)                                                                                \
    LOAD_INTEGERS(T, AS_IS)                                                                        \
    LOAD(TN_FLOAT32, float, T, AS_IS)                                                              \
    LOAD(TN_FLOAT64, double, T, AS_IS)                                                             \
    LOAD(TN_BFLOAT16, uint16_t, T, tn_bf16_to_float)                                               \
    LOAD(TN_FLOAT16, uint16_t, T, tn_fp16_to_float)

#if defined(__F16C__)
static void load_fp16(const uint16_t *in, float *out, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(in + i))));
    for (; i < n; i++)
        out[i] = tn_fp16_to_float(in[i]);
}
#endif

void TN_ISA_NAME(tn_load_f32)(const char *in, int64_t stride, uint8_t dtype, float *out, int64_t n)
{
#if defined(__F16C__)
    if (dtype == TN_FLOAT16 && stride == sizeof(uint16_t)) {
        load_fp16((const uint16_t *)in, out, n);
        return;
    }
#endif
    switch (dtype) {
        LOAD_ANY(float)
    default:
        break;
    }
}

void TN_ISA_NAME(tn_load_f64)(const char *in, int64_t stride, uint8_t dtype, double *out, int64_t n)
{
    switch (dtype) {
        LOAD_ANY(double)
    default:
        break;
    }
}

void TN_ISA_NAME(tn_load_i64)(const char *in, int64_t stride, uint8_t dtype, int64_t *out, int64_t n)
{
    switch (dtype) {
        LOAD_ANY(int64_t)
    default:
        break;
    }
}

static bool half_is_set(uint16_t bits)
{
    return (bits & 0x7fff) != 0;
}

void TN_ISA_NAME(tn_load_nonzero)(const char *in, int64_t stride, uint8_t dtype, int64_t *out,
                                  int64_t n)
{
    switch (dtype) {
        LOAD_INTEGERS(int64_t, IS_SET)
        LOAD(TN_FLOAT32, float, int64_t, IS_SET)
        LOAD(TN_FLOAT64, double, int64_t, IS_SET)
        LOAD(TN_BFLOAT16, uint16_t, int64_t, half_is_set)
        LOAD(TN_FLOAT16, uint16_t, int64_t, half_is_set)
    case TN_COMPLEX64:
        for (int64_t i = 0; i < n; i++) {
            const float *pair = (const float *)(in + i * stride);
            out[i] = pair[0] != 0 || pair[1] != 0;
        }
        break;
    case TN_COMPLEX128:
        for (int64_t i = 0; i < n; i++) {
            const double *pair = (const double *)(in + i * stride);
            out[i] = pair[0] != 0 || pair[1] != 0;
        }
        break;
    default:
        break;
    }
}

#define STORE(DTYPE, S, CONVERT)                                                                   \
    case DTYPE:                                                                                    \
        if (stride == sizeof(S)) {                                                                 \
            S *dense = (S *)out;                                                                   \
            for (int64_t i = 0; i < n; i++)                                                        \
                dense[i] = (S)CONVERT(in[i]);                                                      \
        } else {                                                                                   \
            for (int64_t i = 0; i < n; i++)                                                        \
                *(S *)(out + i * stride) = (S)CONVERT(in[i]);                                      \
        }                                                                                          \
        break;

#define TO_BF16(x) tn_float_to_bf16((float)(x))
#define TO_FP16(x) tn_float_to_fp16((float)(x))
#define AS_INTEGER(x) ((int64_t)(x))

#define STORE_ANY(INTEGER)                                                                         \
    STORE(TN_BOOL, uint8_t, IS_SET)                                                                \
    STORE(TN_UINT8, uint8_t, INTEGER)                                                              \
    STORE(TN_INT8, int8_t, INTEGER)                                                                \
    STORE(TN_INT16, int16_t, INTEGER)                                                              \
    STORE(TN_UINT16, uint16_t, INTEGER)                                                            \
    STORE(TN_INT32, int32_t, INTEGER)                                                              \
    STORE(TN_UINT32, uint32_t, INTEGER)                                                            \
    STORE(TN_INT64, int64_t, INTEGER)                                                              \
    STORE(TN_UINT64, uint64_t, INTEGER)                                                            \
    STORE(TN_FLOAT32, float, AS_IS)                                                                \
    STORE(TN_FLOAT64, double, AS_IS)                                                               \
    STORE(TN_BFLOAT16, uint16_t, TO_BF16)                                                          \
    STORE(TN_FLOAT16, uint16_t, TO_FP16)

#if defined(__F16C__)
static void store_fp16(uint16_t *out, const float *in, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(out + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < n; i++)
        out[i] = tn_float_to_fp16(in[i]);
}
#endif

void TN_ISA_NAME(tn_store_f32)(char *out, int64_t stride, uint8_t dtype, const float *in, int64_t n)
{
#if defined(__F16C__)
    if (dtype == TN_FLOAT16 && stride == sizeof(uint16_t)) {
        store_fp16((uint16_t *)out, in, n);
        return;
    }
#endif
    switch (dtype) {
        STORE_ANY(AS_INTEGER)
    default:
        break;
    }
}

void TN_ISA_NAME(tn_store_f64)(char *out, int64_t stride, uint8_t dtype, const double *in, int64_t n)
{
    switch (dtype) {
        STORE_ANY(AS_INTEGER)
    default:
        break;
    }
}

void TN_ISA_NAME(tn_store_i64)(char *out, int64_t stride, uint8_t dtype, const int64_t *in,
                               int64_t n)
{
    switch (dtype) {
        STORE_ANY(AS_IS)
    default:
        break;
    }
}

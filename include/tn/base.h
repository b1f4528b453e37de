/* Status, error, dtype and scalar: the vocabulary that every other header uses. */
#ifndef TN_BASE_H
#define TN_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(TN_BUILDING) && defined(__GNUC__)
#define TN_API __attribute__((visibility("default")))
#else
#define TN_API
#endif

#if defined(__GNUC__)
#define TN_PRINTF(format_index, first_index) \
    __attribute__((format(printf, format_index, first_index)))
#else
#define TN_PRINTF(format_index, first_index)
#endif

/* What a fallible function returns. The glue maps each to the exception that CPU torch raises
 * (docs/errors.md); the numbers are part of the ABI. */
typedef enum tn_status {
    TN_OK = 0,
    TN_ERROR_RUNTIME = 1,         /* RuntimeError */
    TN_ERROR_VALUE = 2,           /* ValueError */
    TN_ERROR_TYPE = 3,            /* TypeError */
    TN_ERROR_INDEX = 4,           /* IndexError */
    TN_ERROR_NOT_IMPLEMENTED = 5, /* NotImplementedError */
    TN_ERROR_OUT_OF_MEMORY = 6,   /* torch.OutOfMemoryError */
    TN_ERROR_DEVICE = 7,          /* torch.AcceleratorError */
    TN_ERROR_FORKED = 8,          /* RuntimeError: the device was used before fork() */
    TN_TIMEOUT = 9,               /* a bounded wait ended first; not an error */
} tn_status;

#define TN_ERROR_MESSAGE_BYTES 1024

/* Detail of the last failure on this thread. A function that returns TN_OK leaves it alone. */
typedef struct tn_error {
    tn_status status;
    uint32_t source_line; /* id from the source hook (prof.h), 0 = unknown */
    char message[TN_ERROR_MESSAGE_BYTES];
} tn_error;

/* Never NULL; belongs to the calling thread and is overwritten by the next failure. */
TN_API const tn_error *tn_last_error(void);

/* Records a failure for this thread and returns `status`, so that callers can write
 * `return tn_fail(TN_ERROR_VALUE, "...", ...)`. */
TN_API tn_status tn_fail(tn_status status, const char *format, ...) TN_PRINTF(2, 3);

/* Element types. The numbers are torch's c10::ScalarType, so that the glue converts by a cast. */
typedef enum tn_dtype {
    TN_UINT8 = 0,
    TN_INT8 = 1,
    TN_INT16 = 2,
    TN_INT32 = 3,
    TN_INT64 = 4,
    TN_FLOAT16 = 5,
    TN_FLOAT32 = 6,
    TN_FLOAT64 = 7,
    TN_COMPLEX32 = 8,
    TN_COMPLEX64 = 9,
    TN_COMPLEX128 = 10,
    TN_BOOL = 11,
    TN_BFLOAT16 = 15,
    TN_FLOAT8_E5M2 = 23,
    TN_FLOAT8_E4M3FN = 24,
    TN_FLOAT8_E5M2FNUZ = 25,
    TN_FLOAT8_E4M3FNUZ = 26,
    TN_UINT16 = 27,
    TN_UINT32 = 28,
    TN_UINT64 = 29,
    TN_FLOAT8_E8M0FNU = 44,
    TN_DTYPE_COUNT = 48,
    TN_DTYPE_NONE = 255
} tn_dtype;

TN_API size_t tn_dtype_size(tn_dtype dtype);      /* bytes per element, 0 if unknown */
TN_API const char *tn_dtype_name(tn_dtype dtype); /* "float32", ... never NULL */

/* A typed scalar argument of a launch: which member is valid follows from `kind`. */
typedef enum tn_scalar_kind {
    TN_SCALAR_NONE = 0,
    TN_SCALAR_INT = 1,    /* i */
    TN_SCALAR_FLOAT = 2,  /* d */
    TN_SCALAR_BOOL = 3,   /* i: 0 or 1 */
    TN_SCALAR_COMPLEX = 4 /* c */
} tn_scalar_kind;

typedef struct tn_scalar {
    union {
        int64_t i;
        uint64_t u;
        double d;
        double c[2];
    };
    tn_scalar_kind kind;
} tn_scalar;

static inline double tn_scalar_as_double(tn_scalar s)
{
    return s.kind == TN_SCALAR_FLOAT ? s.d : s.kind == TN_SCALAR_COMPLEX ? s.c[0] : (double)s.i;
}

static inline int64_t tn_scalar_as_int(tn_scalar s)
{
    return s.kind == TN_SCALAR_FLOAT     ? (int64_t)s.d
           : s.kind == TN_SCALAR_COMPLEX ? (int64_t)s.c[0]
                                         : s.i;
}

#ifdef __cplusplus
}
#endif
#endif

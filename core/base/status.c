/* Status, the thread's last error, and the dtype table. */
#include <stdarg.h>
#include <stdio.h>

#include "base/status.h"

static _Thread_local tn_error last_error;

const tn_error *tn_last_error(void)
{
    return &last_error;
}

tn_status tn_fail(tn_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error.message, sizeof last_error.message, format, arguments);
    va_end(arguments);
    last_error.status = status;
    last_error.source_line = 0;
    return status;
}

tn_status tn_fail_again(const tn_error *error)
{
    last_error = *error;
    return error->status;
}

static const struct {
    const char *name;
    size_t bytes;
} dtypes[TN_DTYPE_COUNT] = {
    [TN_UINT8] = {"uint8", 1},
    [TN_INT8] = {"int8", 1},
    [TN_INT16] = {"int16", 2},
    [TN_INT32] = {"int32", 4},
    [TN_INT64] = {"int64", 8},
    [TN_FLOAT16] = {"float16", 2},
    [TN_FLOAT32] = {"float32", 4},
    [TN_FLOAT64] = {"float64", 8},
    [TN_COMPLEX32] = {"complex32", 4},
    [TN_COMPLEX64] = {"complex64", 8},
    [TN_COMPLEX128] = {"complex128", 16},
    [TN_BOOL] = {"bool", 1},
    [TN_BFLOAT16] = {"bfloat16", 2},
    [TN_FLOAT8_E5M2] = {"float8_e5m2", 1},
    [TN_FLOAT8_E4M3FN] = {"float8_e4m3fn", 1},
    [TN_FLOAT8_E5M2FNUZ] = {"float8_e5m2fnuz", 1},
    [TN_FLOAT8_E4M3FNUZ] = {"float8_e4m3fnuz", 1},
    [TN_UINT16] = {"uint16", 2},
    [TN_UINT32] = {"uint32", 4},
    [TN_UINT64] = {"uint64", 8},
    [TN_FLOAT8_E8M0FNU] = {"float8_e8m0fnu", 1},
};

size_t tn_dtype_size(tn_dtype dtype)
{
    return (unsigned)dtype < TN_DTYPE_COUNT ? dtypes[dtype].bytes : 0;
}

const char *tn_dtype_name(tn_dtype dtype)
{
    const char *name = (unsigned)dtype < TN_DTYPE_COUNT ? dtypes[dtype].name : NULL;
    return name ? name : "unknown";
}

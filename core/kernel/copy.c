/* Copies and fills: any strides, any pair of dtypes, one element at a time in row-major order. */
#include <string.h>

#include "base/pool.h"
#include "kernel/convert.h"
#include "kernel/kernel.h"

/* Wide enough for every dtype: integers keep all bits, floats and complex numbers their value. */
typedef struct element {
    double real, imaginary;
    int64_t integer;
    bool is_integer;
} element;

static element load(const char *p, uint8_t dtype)
{
    element e = {0, 0, 0, true};
    switch (dtype) {
    case TN_UINT8: e.integer = *(const uint8_t *)p; break;
    case TN_BOOL: e.integer = *(const uint8_t *)p != 0; break;
    case TN_INT8: e.integer = *(const int8_t *)p; break;
    case TN_INT16: e.integer = *(const int16_t *)p; break;
    case TN_UINT16: e.integer = *(const uint16_t *)p; break;
    case TN_INT32: e.integer = *(const int32_t *)p; break;
    case TN_UINT32: e.integer = *(const uint32_t *)p; break;
    case TN_INT64:
    case TN_UINT64: memcpy(&e.integer, p, 8); break;
    case TN_COMPLEX64:
        e = (element){((const float *)p)[0], ((const float *)p)[1], 0, false};
        break;
    case TN_COMPLEX128:
        e = (element){((const double *)p)[0], ((const double *)p)[1], 0, false};
        break;
    default: e = (element){tn_element_as_double(p, dtype), 0, 0, false};
    }
    if (e.is_integer)
        e.real = (double)e.integer;
    return e;
}

static void store(char *p, uint8_t dtype, element e)
{
    int64_t integer = e.is_integer ? e.integer : (int64_t)e.real;
    switch (dtype) {
    case TN_BOOL: *p = e.is_integer ? e.integer != 0 : e.real != 0 || e.imaginary != 0; break;
    case TN_UINT8:
    case TN_INT8: *p = (char)integer; break;
    case TN_INT16:
    case TN_UINT16: *(int16_t *)p = (int16_t)integer; break;
    case TN_INT32:
    case TN_UINT32: *(int32_t *)p = (int32_t)integer; break;
    case TN_INT64:
    case TN_UINT64: memcpy(p, &integer, 8); break;
    case TN_FLOAT32: *(float *)p = (float)e.real; break;
    case TN_FLOAT64: *(double *)p = e.real; break;
    case TN_BFLOAT16: *(uint16_t *)p = tn_float_to_bf16((float)e.real); break;
    case TN_FLOAT16: *(uint16_t *)p = tn_float_to_fp16((float)e.real); break;
    case TN_COMPLEX64:
        ((float *)p)[0] = (float)e.real;
        ((float *)p)[1] = (float)e.imaginary;
        break;
    case TN_COMPLEX128:
        ((double *)p)[0] = e.real;
        ((double *)p)[1] = e.imaginary;
        break;
    default: break;
    }
}

tn_status TN_KERNEL(copy)(const tn_launch_desc *launch)
{
    const tn_operand *out = tn_output(launch, 0), *in = tn_input(launch, 0);
    size_t out_size = tn_dtype_size(out->dtype), in_size = tn_dtype_size(in->dtype);
    int64_t n = tn_operand_numel(out), index[TN_MAX_DIMS] = {0};
    bool plain = out->dtype == in->dtype && in->flags == (in->flags & TN_OPERAND_HOST);
    if (plain && tn_operand_is_contiguous(out) && tn_operand_is_contiguous(in) &&
        tn_operand_numel(in) == n) {
        memcpy(out->data, in->data, (size_t)n * out_size);
        return TN_OK;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t to = 0, from = 0;
        for (int d = 0; d < out->ndim; d++) {
            int e = d - (out->ndim - in->ndim);
            to += index[d] * out->strides[d];
            if (e >= 0 && in->sizes[e] != 1)
                from += index[d] * in->strides[e];
        }
        const char *source = (const char *)in->data + from * (int64_t)in_size;
        char *target = (char *)out->data + to * (int64_t)out_size;
        if (plain) {
            memcpy(target, source, out_size);
        } else {
            element e = load(source, in->dtype);
            if (in->flags & TN_OPERAND_CONJ)
                e.imaginary = -e.imaginary;
            if (in->flags & TN_OPERAND_NEG)
                e.real = -e.real, e.imaginary = -e.imaginary, e.integer = -e.integer;
            store(target, out->dtype, e);
        }
        for (int d = out->ndim - 1; d >= 0 && ++index[d] == out->sizes[d]; d--)
            index[d] = 0;
    }
    return TN_OK;
}

tn_status TN_KERNEL(fill)(const tn_launch_desc *launch)
{
    const tn_operand *out = tn_output(launch, 0);
    tn_scalar s = launch->scalars[0];
    element e = {tn_scalar_as_double(s), s.kind == TN_SCALAR_COMPLEX ? s.c[1] : 0, tn_scalar_as_int(s),
                 s.kind == TN_SCALAR_INT || s.kind == TN_SCALAR_BOOL};
    size_t size = tn_dtype_size(out->dtype);
    char value[16];
    store(value, out->dtype, e);
    int64_t n = tn_operand_numel(out), index[TN_MAX_DIMS] = {0};
    for (int64_t i = 0; i < n; i++) {
        int64_t to = 0;
        for (int d = 0; d < out->ndim; d++)
            to += index[d] * out->strides[d];
        memcpy((char *)out->data + to * (int64_t)size, value, size);
        for (int d = out->ndim - 1; d >= 0 && ++index[d] == out->sizes[d]; d--)
            index[d] = 0;
    }
    return TN_OK;
}

/* Sums (and products, minima, maxima) of elements of any dtype in a wider type: fp32 for bf16, fp16 and
 * fp32, fp64, int64 for integers and bool, complex. A row of accumulators is loaded, combined with as
 * many rows as there are, and rounded once when it is stored. */
#ifndef TN_KERNEL_ACCUMULATE_H
#define TN_KERNEL_ACCUMULATE_H

#include "kernel/kernel.h"

typedef enum tn_combine {
    TN_COMBINE_SET = 0,
    TN_COMBINE_ADD = 1,
    TN_COMBINE_MUL = 2,
    TN_COMBINE_MAX = 3, /* NaN wins */
    TN_COMBINE_MIN = 4, /* NaN wins */
    TN_COMBINE_COUNT = 5
} tn_combine;

typedef void (*tn_row_load_fn)(void *accumulators, const char *in, int64_t stride, int64_t n);
typedef void (*tn_row_store_fn)(char *out, int64_t stride, const void *accumulators, int64_t n);
typedef void (*tn_row_scale_fn)(void *accumulators, int64_t divisor, int64_t n);

typedef struct tn_accumulator {
    size_t size; /* of one accumulator */
    tn_row_load_fn load;
    tn_row_load_fn combine[TN_COMBINE_COUNT]; /* SET is load */
    tn_row_store_fn store;
    tn_row_scale_fn divide; /* integers round towards minus infinity */
    void (*identity)(void *accumulator, tn_combine combine);
} tn_accumulator;

/* NULL for dtypes that cannot be summed (fp8). Minima and maxima are NULL for complex. */
const tn_accumulator *TN_ISA_NAME(tn_accumulator_of)(uint8_t dtype);
#define tn_accumulator_of TN_ISA_NAME(tn_accumulator_of)

#endif

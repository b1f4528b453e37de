/* Separable resampling: along one dimension, output i is a weighted sum of a few inputs (its taps).
 *
 * Interpolation, average pooling and padding by reflection or repetition differ in their taps only;
 * their gradients use the transposed taps. */
#ifndef TN_KERNEL_TAPS_H
#define TN_KERNEL_TAPS_H

#include "kernel/kernel.h"

typedef enum tn_tap_kind {
    TN_TAP_NEAREST = 0,       /* scale or 0 */
    TN_TAP_NEAREST_EXACT = 1, /* scale or 0 */
    TN_TAP_LINEAR = 2,        /* scale or 0 */
    TN_TAP_CUBIC = 3,         /* scale or 0 */
    TN_TAP_AVERAGE = 4,       /* kernel, stride, padding */
    TN_TAP_ADAPTIVE = 5,
    TN_TAP_REFLECT = 6,  /* padding in front */
    TN_TAP_REPLICATE = 7, /* padding in front */
    TN_TAP_LINEAR_ANTIALIASED = 8, /* scale or 0 */
    TN_TAP_CUBIC_ANTIALIASED = 9,  /* scale or 0 */
    TN_TAP_LANCZOS = 10,           /* scale or 0; always antialiased */
} tn_tap_kind;

typedef struct tn_tap_rule {
    tn_tap_kind kind;
    bool align_corners;     /* LINEAR, CUBIC, antialiased or not, LANCZOS */
    bool narrow;            /* positions and weights in fp32 */
    bool count_include_pad; /* AVERAGE */
    bool weightless;        /* AVERAGE: sum only (divisor_override) */
    double parameters[3];
} tn_tap_rule;

/* Taps of output i: entries starts[i] .. starts[i + 1] of index and weight. */
typedef struct tn_taps {
    int64_t *starts, *index;
    double *weight;
} tn_taps;

/* Builds the taps of `outputs` outputs over `inputs` inputs, or with `transposed` the taps of the inputs
 * over the outputs, in scratch slot `slot`. */
tn_status TN_ISA_NAME(tn_taps_build)(const tn_tap_rule *rule, int64_t inputs, int64_t outputs,
                                     bool transposed, int slot, tn_taps *out_taps);
#define tn_taps_build TN_ISA_NAME(tn_taps_build)

#endif

/* What batch, group and instance normalisation share: sums per channel, and maps that are affine per
 * channel.
 *
 * A tensor is seen in one of two contiguous layouts. Rows: [outer, keys, width], the elements of key k are
 * the rows (o, k). Last: [keys / width, outer, width], where every column of each matrix is a key's.
 * All tensors of a call share the layout; their dtypes may differ (fp32, bf16, fp16, or fp64 alone).
 *
 * Sums are taken in fp64: 16 lanes and a tree within a piece of work, pieces in order. How the work is cut
 * follows from the layout's three numbers alone. */
#ifndef TN_KERNEL_CHANNELS_H
#define TN_KERNEL_CHANNELS_H

#include "kernel/kernel.h"

typedef struct tn_channels {
    int64_t keys, outer, width;
    bool last;
} tn_channels;

static inline int64_t tn_channels_count(const tn_channels *c)
{
    return c->last ? c->outer : c->outer * c->width; /* elements per key */
}

/* Mean, and sum of squared differences from it, of every key. */
tn_status TN_ISA_NAME(tn_channel_moments)(const tn_channels *c, const tn_operand *x, double *out_mean,
                                          double *out_m2);

/* Sums of g and of g (x - mean) of every key. */
tn_status TN_ISA_NAME(tn_channel_products)(const tn_channels *c, const tn_operand *g,
                                           const tn_operand *x, const double *mean, double *out_sum,
                                           double *out_dot);

/* y = (x - mean) scale + shift. */
tn_status TN_ISA_NAME(tn_channel_normalize)(const tn_channels *c, const tn_operand *x,
                                            const double *mean, const double *scale,
                                            const double *shift, const tn_operand *y);

/* dx = g scale - ((x - mean) slope + level). */
tn_status TN_ISA_NAME(tn_channel_gradient)(const tn_channels *c, const tn_operand *g,
                                           const tn_operand *x, const double *mean, const double *scale,
                                           const double *slope, const double *level,
                                           const tn_operand *dx);

/* A vector parameter of n elements as doubles in `buffer`; NULL when absent. */
const double *TN_ISA_NAME(tn_channel_parameter)(const tn_operand *operand, double *buffer, int64_t n);

static inline bool tn_is_present(const tn_operand *operand)
{
    return !(operand->flags & TN_OPERAND_ABSENT);
}

#endif

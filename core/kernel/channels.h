/* What batch, group, instance and weight normalisation share: two sums per channel, something that
 * follows from them, and a map that is affine per channel.
 *
 * A tensor is seen in one of two contiguous layouts. Rows: [outer, keys, width], the elements of
 * key k are the rows (o, k). Last: [keys / width, outer, width], where every column of each matrix
 * is a key's. All tensors of a pass share the layout; their dtypes may differ (fp32, bf16, fp16, or
 * fp64 alone).
 *
 * Sums are taken in fp64: 16 lanes and a tree within a chunk, chunks in order. How a key is cut
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

/* Scalars 0 to 3 of the ops that work on channels. */
static inline tn_channels tn_channels_of(const tn_launch_desc *launch)
{
    const tn_scalar *s = launch->scalars;
    return (tn_channels){.keys = s[0].i, .outer = s[1].i, .width = s[2].i, .last = s[3].i != 0};
}

typedef enum tn_channel_sums {
    TN_CHANNEL_NONE,
    TN_CHANNEL_MOMENTS, /* first: mean of x; second: sum of squared differences from it; sets center
                         */
    TN_CHANNEL_PRODUCTS /* first: sum of g; second: sum of g (x - center) */
} tn_channel_sums;

/* One pass over a tensor. Vectors are [keys], the caller's. Where a key's elements fit into a
 * cache, they are mapped as soon as their sums are known. */
typedef struct tn_channel_pass {
    tn_channels channels;
    tn_channel_sums sums;
    const tn_operand *g, *x; /* what is summed */
    double *center, *first, *second;
    /* Called when the sums of keys [begin, end) are known, multiples of `together` (0: 1); sets the
     * map's vectors of these keys. May be NULL. Several threads call it, each for keys of its
     * own. */
    void (*finish)(void *context, int64_t begin, int64_t end);
    void *context;
    int64_t together;
    /* y = (map_x - mean) scale + shift, or, with map_g, y = map_g scale - ((map_x - mean) slope +
     * shift). An absent y: no map. */
    const tn_operand *map_g, *map_x, *y;
    const double *mean, *scale, *slope, *shift;
} tn_channel_pass;

tn_status TN_ISA_NAME(tn_channel_run)(const tn_channel_pass *pass);

/* `count` vectors over n keys; NULL, with the error recorded, when there is no memory. They are
 * valid for one kernel call. */
double *TN_ISA_NAME(tn_channel_vectors)(int64_t n, int64_t count);

/* A parameter of n elements as doubles in `out`, which an absent one leaves alone. */
void TN_ISA_NAME(tn_channel_load)(const tn_operand *operand, double *out, int64_t n);

/* Rounds n doubles to the operand, unless it is absent. */
void TN_ISA_NAME(tn_channel_store)(const tn_operand *operand, const double *values, int64_t n);

static inline bool tn_is_present(const tn_operand *operand)
{
    return !(operand->flags & TN_OPERAND_ABSENT);
}

#endif

/* What the reductions share: the plan of one launch, made once and read by all threads.
 *
 * The order of combination is fixed by shape and strides alone: blocks of TN_REDUCE_BLOCK elements
 * along the reduced axes are reduced in TN_REDUCE_LANES lanes, blocks are combined pairwise, and
 * long reductions are first cut into segments, whose results are combined pairwise too. */
#ifndef TN_KERNEL_REDUCE_H
#define TN_KERNEL_REDUCE_H

#include "kernel/axes.h"

enum {
    TN_REDUCE_BLOCK = 2048,
    TN_REDUCE_LANES = 64,
    TN_REDUCE_TILE = 256,     /* outputs that one call works on, at most */
    TN_REDUCE_SEGMENT = 32768 /* elements of a segment, about */
};

typedef struct tn_reduce_plan {
    tn_axes axes;
    const char *in;
    uint8_t in_dtype;
    bool columns;        /* vector code runs across the innermost kept axis, not along a row */
    int64_t tile;        /* outputs per tile: a run of the innermost kept axis */
    int64_t tiles;       /* of all outputs */
    int64_t inner_tiles; /* per run of the innermost kept axis */
    int64_t segment;     /* reduced indices per segment */
    int64_t segments;
    double exponent;     /* of the p-norm */
    double correction;   /* of the variance */
} tn_reduce_plan;

/* Fills in everything but in and in_dtype from `axes`. */
static inline void tn_reduce_cut(tn_reduce_plan *plan, int64_t item_bytes)
{
    const tn_axes *axes = &plan->axes;
    int64_t inner = tn_axes_inner_size(axes->kept, axes->num_kept);
    int64_t kept_stride = tn_axes_inner_stride(axes->kept, axes->num_kept, 0);
    int64_t row_stride = tn_axes_inner_stride(axes->reduced, axes->num_reduced, 0);
    plan->columns = kept_stride == item_bytes && inner >= 8 && row_stride != item_bytes;
    int64_t tile = TN_REDUCE_TILE;
    plan->segment = axes->count;
    if (plan->columns) {
        tile = inner < tile ? inner : tile;
        int64_t rows = (TN_REDUCE_SEGMENT * 2 / tile + 31) / 32 * 32;
        if (axes->count > 2 * rows)
            plan->segment = rows;
    } else {
        int64_t fit = TN_REDUCE_SEGMENT / (axes->count > 0 ? axes->count : 1);
        tile = fit < 1 ? 1 : fit < tile ? fit : tile;
        tile = inner < tile ? inner : tile;
        if (axes->count > 2 * TN_REDUCE_SEGMENT)
            plan->segment = TN_REDUCE_SEGMENT;
    }
    plan->tile = tile < 1 ? 1 : tile;
    plan->inner_tiles = (inner + plan->tile - 1) / plan->tile;
    plan->tiles = inner > 0 ? axes->outputs / inner * plan->inner_tiles : 0;
    plan->segments = plan->segment > 0 ? (axes->count + plan->segment - 1) / plan->segment : 1;
}

/* One tile: `width` outputs from kept index `outer` of all axes but the innermost. */
typedef struct tn_reduce_tile {
    int64_t width;
    int64_t first; /* dense index of the tile's first output, in the plan's order */
    int64_t offset[TN_AXES_TENSORS];
} tn_reduce_tile;

static inline tn_reduce_tile tn_reduce_tile_at(const tn_reduce_plan *plan, int64_t index)
{
    const tn_axes *axes = &plan->axes;
    int64_t inner = tn_axes_inner_size(axes->kept, axes->num_kept);
    int64_t outer = index / plan->inner_tiles, begin = index % plan->inner_tiles * plan->tile;
    tn_reduce_tile tile = {.first = outer * inner + begin};
    tile.width = inner - begin < plan->tile ? inner - begin : plan->tile;
    for (int t = 0; t < axes->num_tensors; t++)
        tile.offset[t] = tn_axes_offset(axes->kept, axes->num_kept, t, tile.first);
    return tile;
}

/* Both are kernels; sums, means and products of complex numbers pass from the one to the other. */
tn_status TN_KERNEL(reduce)(const tn_launch_desc *launch);
tn_status TN_KERNEL(reduce_complex)(const tn_launch_desc *launch);

/* Tiles (or segments of tiles) that are worth a thread. */
static inline int64_t tn_reduce_grain(const tn_reduce_plan *plan)
{
    int64_t work = plan->tile * (plan->segment > 0 ? plan->segment : 1);
    return work >= TN_REDUCE_SEGMENT ? 1 : TN_REDUCE_SEGMENT / work;
}

static inline tn_status tn_reduce_outcome(bool failed)
{
    return failed ? tn_fail(TN_ERROR_OUT_OF_MEMORY, "reduction: out of host memory for partial results")
                  : TN_OK;
}

#endif

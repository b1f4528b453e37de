/* Sampling of an image at the points of a grid: forward, and the gradients of image and grid.
 *
 * grid_sample:          out [N, C, P...]; image [N, C, S...], grid [N, P..., s]
 * grid_sample_backward: ?grad_image, ?grad_grid; grad [N, C, P...], image, grid
 * s = 2 or 3 spatial dimensions; the grid's numbers are x, y, z, from the innermost dimension
 * outwards, and -1 to 1 spans the image. out, grad and the gradients are contiguous; image and grid
 * take any strides. All are fp32 or all fp64; narrower dtypes are converted by the caller. */
#ifndef TN_KERNEL_GRID_SAMPLE_H
#define TN_KERNEL_GRID_SAMPLE_H

#include "kernel/kernel.h"

enum {
    TN_GRID_SPATIAL = 3,
    TN_GRID_BLOCK = 64,   /* points that are worked on together */
    TN_GRID_TAPS = 16,    /* image elements that one point reads, at most */
    TN_GRID_CHANNELS = 8, /* that share the taps of a block in the image's gradient */
};

typedef enum tn_grid_mode {
    TN_GRID_LINEAR = 0,
    TN_GRID_NEAREST = 1,
    TN_GRID_CUBIC = 2
} tn_grid_mode;
typedef enum tn_grid_padding {
    TN_GRID_ZEROS = 0,
    TN_GRID_BORDER = 1,
    TN_GRID_REFLECTION = 2
} tn_grid_padding;

typedef struct tn_grid_job {
    const tn_operand *image, *grid;
    char *out;        /* of the forward pass */
    const char *grad; /* of it, in the backward pass */
    char *grad_image, *grad_grid;
    int spatial;
    int mode, padding;
    bool align_corners;
    int64_t batch, channels, points, pixels; /* points of the grid, pixels of the image */
    int64_t sizes[TN_GRID_SPATIAL];          /* of the image, outermost first */
    int64_t grid_sizes[TN_GRID_SPATIAL];
    int64_t blocks; /* per image of the batch */
} tn_grid_job;

#endif

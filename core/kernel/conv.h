/* What the convolution kernels of both element types share: the problem in three spatial dimensions
 * (absent ones have size 1), and where its images lie. */
#ifndef TN_KERNEL_CONV_H
#define TN_KERNEL_CONV_H

#include "kernel/gemm.h"

/* An image [N, C, D, H, W] of any strides. */
typedef struct tn_image {
    void *data;
    uint8_t dtype;
    int64_t batch, channel, space[3]; /* strides in elements */
    int64_t size[3];
} tn_image;

/* `large` is the side that the filter slides over (a convolution's input), `small` the other one. */
typedef struct tn_conv {
    int64_t batch, groups, large_channels, small_channels; /* channels per group */
    tn_image large, small;
    void *filter; /* [groups * small_channels, large_channels, kernel], contiguous */
    uint8_t filter_dtype;
    const tn_operand *bias; /* NULL, or one number per channel of the result */
    int64_t kernel[3], stride[3], padding[3], dilation[3];
    int64_t taps, positions; /* kernel elements; elements of one small image */
    _Atomic(int) status;
} tn_conv;

#define tn_conv_forward_float TN_ISA_NAME(tn_conv_forward_float)
#define tn_conv_forward_double TN_ISA_NAME(tn_conv_forward_double)
#define tn_conv_input_float TN_ISA_NAME(tn_conv_input_float)
#define tn_conv_input_double TN_ISA_NAME(tn_conv_input_double)
#define tn_conv_filter_float TN_ISA_NAME(tn_conv_filter_float)
#define tn_conv_filter_double TN_ISA_NAME(tn_conv_filter_double)
tn_status tn_conv_forward_float(tn_conv *c); /* small = filter over large */
tn_status tn_conv_forward_double(tn_conv *c);
tn_status tn_conv_input_float(tn_conv *c); /* large = gradient of it, or transposed convolution */
tn_status tn_conv_input_double(tn_conv *c);
tn_status tn_conv_filter_float(tn_conv *c); /* filter = gradient from small and large */
tn_status tn_conv_filter_double(tn_conv *c);

#endif

/* Convolution in one to three dimensions: the forward pass, and the gradients of its input and its
 * filter. A transposed convolution is the gradient of the input with the images' roles exchanged.
 *
 *     conv         out [N,C',..]; x [N,C,..], filter [C',C/groups,..], ?bias
 *     conv_input   dx [N,C,..];   dy [N,C',..], filter, ?bias [C]
 *     conv_filter  dfilter;       dy, x
 *
 * Filters are contiguous, images have any strides, results are dense in one memory format. */
#include "kernel/conv.h"

static tn_image image_of(const tn_operand *operand)
{
    tn_image image = {.data = operand->data, .dtype = operand->dtype,
                      .batch = operand->strides[0], .channel = operand->strides[1]};
    for (int i = 0; i < 3; i++) {
        int d = operand->ndim - 3 + i;
        image.size[i] = d < 2 ? 1 : operand->sizes[d];
        image.space[i] = d < 2 ? 0 : operand->strides[d];
    }
    if (image.size[2] == 1) /* positions are spaced by the last dimension that has several */
        image.space[2] = image.size[1] > 1 ? image.space[1] : image.space[0];
    return image;
}

static void describe(tn_conv *c, const tn_launch_desc *launch, const tn_operand *large,
                     const tn_operand *small, const tn_operand *filter)
{
    c->large = image_of(large);
    c->small = image_of(small);
    c->filter = filter->data;
    c->filter_dtype = filter->dtype;
    c->groups = launch->scalars[9].i;
    c->batch = large->sizes[0];
    c->large_channels = filter->sizes[1];
    c->small_channels = filter->sizes[0] / c->groups;
    c->taps = c->positions = 1;
    for (int i = 0; i < 3; i++) {
        int d = filter->ndim - 3 + i;
        c->kernel[i] = d < 2 ? 1 : filter->sizes[d];
        c->stride[i] = launch->scalars[i].i;
        c->padding[i] = launch->scalars[3 + i].i;
        c->dilation[i] = launch->scalars[6 + i].i;
        c->taps *= c->kernel[i];
        c->positions *= c->small.size[i];
    }
}

static const tn_operand *optional(const tn_operand *operand)
{
    return operand->flags & TN_OPERAND_ABSENT ? NULL : operand;
}

tn_status TN_KERNEL(conv)(const tn_launch_desc *launch)
{
    tn_conv c = {.bias = optional(tn_input(launch, 2))};
    describe(&c, launch, tn_input(launch, 0), tn_output(launch, 0), tn_input(launch, 1));
    return c.filter_dtype == TN_FLOAT64 ? tn_conv_forward_double(&c) : tn_conv_forward_float(&c);
}

tn_status TN_KERNEL(conv_input)(const tn_launch_desc *launch)
{
    tn_conv c = {.bias = optional(tn_input(launch, 2))};
    describe(&c, launch, tn_output(launch, 0), tn_input(launch, 0), tn_input(launch, 1));
    return c.filter_dtype == TN_FLOAT64 ? tn_conv_input_double(&c) : tn_conv_input_float(&c);
}

tn_status TN_KERNEL(conv_filter)(const tn_launch_desc *launch)
{
    tn_conv c = {.bias = NULL};
    describe(&c, launch, tn_input(launch, 1), tn_input(launch, 0), tn_output(launch, 0));
    return c.filter_dtype == TN_FLOAT64 ? tn_conv_filter_double(&c) : tn_conv_filter_float(&c);
}

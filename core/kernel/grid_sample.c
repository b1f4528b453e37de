/* The kernels grid_sample and grid_sample_backward; the work is in grid_sample_body.h. */
#include "kernel/grid_sample.h"

#include <math.h>
#include <string.h>

#include "base/pool.h"

#define T float
#define NAME(x) TN_PASTE(x, f32)
#include "kernel/grid_sample_body.h"
#undef T
#undef NAME
#define T double
#define NAME(x) TN_PASTE(x, f64)
#include "kernel/grid_sample_body.h"

static void *data_of(const tn_operand *operand)
{
    return operand->flags & TN_OPERAND_ABSENT ? NULL : operand->data;
}

/* Scalars: mode, padding, align_corners. */
static tn_grid_job make_job(const tn_launch_desc *launch, const tn_operand *image,
                            const tn_operand *grid)
{
    tn_grid_job job = {.image = image, .grid = grid};
    job.spatial = image->ndim - 2;
    job.mode = (int)tn_scalar_as_int(launch->scalars[0]);
    job.padding = (int)tn_scalar_as_int(launch->scalars[1]);
    job.align_corners = tn_scalar_as_int(launch->scalars[2]) != 0;
    job.batch = image->sizes[0];
    job.channels = image->sizes[1];
    job.points = job.pixels = 1;
    for (int d = 0; d < job.spatial; d++) {
        job.sizes[d] = image->sizes[2 + d];
        job.grid_sizes[d] = grid->sizes[1 + d];
        job.pixels *= job.sizes[d];
        job.points *= job.grid_sizes[d];
    }
    job.blocks = (job.points + TN_GRID_BLOCK - 1) / TN_GRID_BLOCK;
    return job;
}

tn_status TN_KERNEL(grid_sample)(const tn_launch_desc *launch)
{
    const tn_operand *image = tn_input(launch, 0);
    tn_grid_job job = make_job(launch, image, tn_input(launch, 1));
    job.out = tn_output(launch, 0)->data;
    if (image->dtype == TN_FLOAT64)
        sample_f64(&job);
    else
        sample_f32(&job);
    return TN_OK;
}

tn_status TN_KERNEL(grid_sample_backward)(const tn_launch_desc *launch)
{
    const tn_operand *image = tn_input(launch, 1);
    tn_grid_job job = make_job(launch, image, tn_input(launch, 2));
    job.grad = tn_input(launch, 0)->data;
    job.grad_image = data_of(tn_output(launch, 0));
    job.grad_grid = data_of(tn_output(launch, 1));
    if (image->dtype == TN_FLOAT64)
        gradients_f64(&job);
    else
        gradients_f32(&job);
    return TN_OK;
}

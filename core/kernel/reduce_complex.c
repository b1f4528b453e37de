/* Sums, means and products of complex numbers. Sums are those of the real and the imaginary parts:
 * the same tensors seen with one more dimension of two real numbers. Products are folded in fp64,
 * in index order. */
#include "base/pool.h"
#include "kernel/complex_math.h"
#include "kernel/reduce.h"
#include "tn/op/reduce.h"

enum { PRODUCT_GRAIN = 4096 };

/* ---- sums ------------------------------------------------------------------------------------ */

typedef struct real_view {
    int64_t sizes[TN_MAX_DIMS], strides[TN_MAX_DIMS];
} real_view;

static uint8_t real_dtype(uint8_t dtype)
{
    return dtype == TN_COMPLEX64 ? TN_FLOAT32 : TN_FLOAT64;
}

static void view_as_real(tn_operand *operand, real_view *view)
{
    int n = operand->ndim;
    for (int d = 0; d < n; d++) {
        view->sizes[d] = operand->sizes[d];
        view->strides[d] = 2 * operand->strides[d];
    }
    view->sizes[n] = 2;
    view->strides[n] = 1;
    operand->sizes = view->sizes;
    operand->strides = view->strides;
    operand->ndim = n + 1;
    operand->dtype = real_dtype(operand->dtype);
}

static tn_status reduce_parts(const tn_launch_desc *launch)
{
    real_view views[2];
    tn_operand operands[2] = {*tn_output(launch, 0), *tn_input(launch, 0)};
    tn_launch_desc real = *launch;
    for (int k = 0; k < 2; k++) {
        if (operands[k].ndim >= TN_MAX_DIMS)
            return tn_fail(TN_ERROR_RUNTIME,
                           "a sum of complex numbers takes fewer than %d dimensions", TN_MAX_DIMS);
        view_as_real(&operands[k], &views[k]);
    }
    tn_scalar scalars[1] = {launch->scalars[0]}; /* a number has no dimension 0, its view has */
    scalars[0].u &= tn_axes_all(tn_input(launch, 0)->ndim);
    real.scalars = scalars;
    real.num_scalars = 1;
    real.operands = operands;
    real.compute_dtype = real_dtype(launch->compute_dtype);
    return TN_KERNEL(reduce)(&real);
}

/* ---- products -------------------------------------------------------------------------------- */

typedef struct product {
    tn_axes axes;
    const tn_operand *in, *out;
} product;

static tn_complex load(const char *at, uint8_t dtype)
{
    if (dtype == TN_COMPLEX64)
        return complex_of(((const float *)at)[0], ((const float *)at)[1]);
    return complex_of(((const double *)at)[0], ((const double *)at)[1]);
}

static void store(char *at, uint8_t dtype, tn_complex value)
{
    if (dtype == TN_COMPLEX64) {
        ((float *)at)[0] = (float)value.re;
        ((float *)at)[1] = (float)value.im;
    } else {
        ((double *)at)[0] = value.re;
        ((double *)at)[1] = value.im;
    }
}

static void multiply_range(void *context, int64_t begin, int64_t end)
{
    const product *p = context;
    const tn_axes *axes = &p->axes;
    int64_t run = tn_axes_inner_size(axes->reduced, axes->num_reduced);
    int64_t stride = tn_axes_inner_stride(axes->reduced, axes->num_reduced, 0);
    for (int64_t o = begin; o < end; o++) {
        const char *in =
            (const char *)p->in->data + tn_axes_offset(axes->kept, axes->num_kept, 0, o);
        tn_complex value = complex_of(1, 0);
        for (int64_t i = 0; i < axes->count; i += run) {
            const char *row = in + tn_axes_offset(axes->reduced, axes->num_reduced, 0, i);
            for (int64_t j = 0; j < run; j++)
                value = complex_mul(value, load(row + j * stride, p->in->dtype));
        }
        char *out = (char *)p->out->data + tn_axes_offset(axes->kept, axes->num_kept, 1, o);
        store(out, p->out->dtype, value);
    }
}

static tn_status reduce_product(const tn_launch_desc *launch)
{
    product p = {.in = tn_input(launch, 0), .out = tn_output(launch, 0)};
    const tn_operand *tensors[2] = {p.in, p.out};
    TN_ISA_NAME(tn_axes_split)(&p.axes, tensors, 2, launch->scalars[0].u, true);
    int64_t grain = 1 + PRODUCT_GRAIN / (p.axes.count + 1);
    tn_parallel_for(p.axes.outputs, grain, multiply_range, &p);
    return TN_OK;
}

/* Input and output complex, the input of compute_dtype and without a pending conjugation. */
tn_status TN_KERNEL(reduce_complex)(const tn_launch_desc *launch)
{
    return launch->op == TN_OP_prod ? reduce_product(launch) : reduce_parts(launch);
}

/* Negative log likelihood: input [N, C, S] (S positions per sample), target [N, S], optional weight [C].
 * Sums run in fp64 in index order, on one thread: the work is one gather per target. */
#include "base/pool.h"
#include "kernel/convert.h"
#include "kernel/kernel.h"

enum { REDUCTION_NONE = 0, REDUCTION_MEAN = 1 };

static double get(const tn_operand *operand, int64_t i, int64_t j, int64_t k)
{
    int64_t at = i * operand->strides[0];
    at += operand->ndim > 1 ? j * operand->strides[1] : 0;
    at += operand->ndim > 2 ? k * operand->strides[2] : 0;
    const char *data = operand->data;
    return tn_element_as_double(data + at * (int64_t)tn_dtype_size(operand->dtype), operand->dtype);
}

static void put(const tn_operand *operand, int64_t element, double value)
{
    switch (operand->dtype) {
    case TN_FLOAT64:
        ((double *)operand->data)[element] = value;
        break;
    case TN_BFLOAT16:
        ((uint16_t *)operand->data)[element] = tn_float_to_bf16((float)value);
        break;
    case TN_FLOAT16:
        ((uint16_t *)operand->data)[element] = tn_float_to_fp16((float)value);
        break;
    default:
        ((float *)operand->data)[element] = (float)value;
    }
}

static int64_t target_at(const tn_operand *target, int64_t n, int64_t s)
{
    int64_t at = n * target->strides[0] + s * target->strides[1];
    return target->dtype == TN_UINT8 ? ((const uint8_t *)target->data)[at]
                                     : ((const int64_t *)target->data)[at];
}

static double weight_of(const tn_operand *weight, int64_t class)
{
    return weight->flags & TN_OPERAND_ABSENT ? 1 : get(weight, class, 0, 0);
}

static tn_status bad_target(int64_t class)
{
    return tn_fail(TN_ERROR_INDEX, "Target %lld is out of bounds.", (long long)class);
}

/* Outputs: loss ([N, S] contiguous or one element), total weight (one element). Scalars: reduction,
 * ignored target. */
tn_status TN_KERNEL(nll_loss)(const tn_launch_desc *launch)
{
    const tn_operand *out = tn_output(launch, 0), *total = tn_output(launch, 1);
    const tn_operand *x = tn_input(launch, 0), *target = tn_input(launch, 1);
    const tn_operand *weight = tn_input(launch, 2);
    int64_t reduction = launch->scalars[0].i, ignored = launch->scalars[1].i;
    int64_t classes = x->sizes[1], positions = x->sizes[2];
    double sum = 0, weights = 0;
    tn_status status = TN_OK;
    for (int64_t n = 0; n < x->sizes[0]; n++)
        for (int64_t s = 0; s < positions; s++) {
            int64_t class = target_at(target, n, s);
            double loss = 0, w = 0;
            if (class != ignored && class >= 0 && class < classes) {
                w = weight_of(weight, class);
                loss = -w * get(x, n, class, s);
            } else if (class != ignored && status == TN_OK) {
                status = bad_target(class);
            }
            if (reduction == REDUCTION_NONE)
                put(out, n * positions + s, loss);
            sum += loss;
            weights += w;
        }
    if (reduction != REDUCTION_NONE)
        put(out, 0, reduction == REDUCTION_MEAN ? sum / weights : sum);
    put(total, 0, reduction == REDUCTION_NONE ? 0 : weights);
    return status;
}

/* Output: grad_x [N, C, S] contiguous and already zero; inputs: grad, target, ?weight, total weight. */
tn_status TN_KERNEL(nll_loss_backward)(const tn_launch_desc *launch)
{
    const tn_operand *out = tn_output(launch, 0), *grad = tn_input(launch, 0);
    const tn_operand *target = tn_input(launch, 1), *weight = tn_input(launch, 2);
    int64_t reduction = launch->scalars[0].i, ignored = launch->scalars[1].i;
    int64_t classes = out->sizes[1], positions = out->sizes[2];
    double scale = 1;
    if (reduction != REDUCTION_NONE)
        scale = tn_element_as_double(grad->data, grad->dtype);
    if (reduction == REDUCTION_MEAN)
        scale /= tn_element_as_double(tn_input(launch, 3)->data, tn_input(launch, 3)->dtype);
    tn_status status = TN_OK;
    for (int64_t n = 0; n < out->sizes[0]; n++)
        for (int64_t s = 0; s < positions; s++) {
            int64_t class = target_at(target, n, s);
            if (class == ignored)
                continue;
            if (class < 0 || class >= classes) {
                status = bad_target(class);
                continue;
            }
            double g = reduction == REDUCTION_NONE ? get(grad, n, s, 0) : scale;
            put(out, (n * classes + class) * positions + s, -weight_of(weight, class) * g);
        }
    return status;
}

/* Optimizer steps in one launch over all tensors, and the loss scaler's two ops.
 *
 * Operands of a step are lists of equal length n, one after the other: the lists that the step writes
 * (parameters, gradients, state), then what it only reads (state steps), then three optional tensors:
 * gradient scale, found-inf flag, learning rate. Member i of every list has the same number of elements
 * in the same order of memory, dense; that is checked by the caller.
 *
 * The tensors are cut into chunks of CHUNK elements, which are what the threads share out. A chunk of
 * bf16 or fp16 is widened to fp32, stepped and rounded once. */
#include <math.h>
#include <string.h>

#include "base/pool.h"
#include "kernel/convert.h"
#include "kernel/kernel.h"

enum { CHUNK = 4096, MAX_LISTS = 5 };

typedef struct step {
    const tn_launch_desc *launch;
    int lists;         /* lists that are read and written */
    int length;        /* tensors per list */
    const tn_operand *steps; /* [length] or NULL */
    double grad_scale; /* gradients are divided by it */
    double rate;
    bool scaled;
    void (*run)(const struct step *step, int tensor, double **lists, int64_t n);
    void (*run_float)(const struct step *step, int tensor, float **lists, int64_t n);
    double option[8];
} step;

enum { PARAMETER = 0, GRADIENT = 1 };

static double scalar_of(const tn_operand *operand, double otherwise)
{
    if (operand->flags & TN_OPERAND_ABSENT)
        return otherwise;
    if (operand->flags & TN_OPERAND_IMMEDIATE)
        return tn_scalar_as_double(operand->value);
    return tn_element_as_double(operand->data, operand->dtype);
}

static double step_count(const step *s, int tensor)
{
    return scalar_of(&s->steps[tensor], 1);
}

/* ---- the rules, once per precision --------------------------------------------------------- */

/* Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019). Options: beta1, beta2, weight decay,
 * eps, amsgrad, maximize, decoupled. Lists: parameter, gradient, exp_avg, exp_avg_sq, maximum. */
#define DEFINE_ADAM(T, NAME, SQRT, FMAX)                                                           \
    static void NAME(const step *s, int tensor, T **lists, int64_t n)                              \
    {                                                                                              \
        T *restrict p = lists[0], *restrict grad = lists[1], *restrict m = lists[2];               \
        T *restrict v = lists[3], *restrict peak = s->option[4] != 0 ? lists[4] : NULL;            \
        double beta1 = s->option[0], beta2 = s->option[1], count = step_count(s, tensor);          \
        bool decoupled = s->option[6] != 0;                                                        \
        T sign = s->option[5] != 0 ? -1 : 1, decay = decoupled ? 0 : (T)s->option[2];              \
        T keep = decoupled ? (T)(1 - s->rate * s->option[2]) : 1;                                  \
        T w1 = (T)(1 - beta1), b2 = (T)beta2, w2 = (T)(1 - beta2), eps = (T)s->option[3];          \
        T size = (T)(s->rate / (1 - pow(beta1, count)));                                           \
        T root = (T)sqrt(1 - pow(beta2, count));                                                   \
        for (int64_t i = 0; i < n; i++) {                                                          \
            T g = sign * grad[i];                                                                  \
            T x = p[i] * keep;                                                                     \
            g = g + decay * x;                                                                     \
            m[i] = m[i] + w1 * (g - m[i]);                                                         \
            v[i] = v[i] * b2 + w2 * g * g;                                                         \
            T second = v[i];                                                                       \
            if (peak)                                                                              \
                second = peak[i] = FMAX(peak[i], second);                                          \
            p[i] = x - size * (m[i] / (SQRT(second) / root + eps));                                \
        }                                                                                          \
    }
DEFINE_ADAM(float, adam_float, sqrtf, fmaxf)
DEFINE_ADAM(double, adam_double, sqrt, fmax)

/* SGD with momentum (Sutskever et al. 2013, as PyTorch states it). Options: weight decay, momentum,
 * dampening, nesterov, maximize, first step. Lists: parameter, gradient, momentum buffer if any. */
#define DEFINE_SGD(T, NAME)                                                                        \
    static void NAME(const step *s, int tensor, T **lists, int64_t n)                              \
    {                                                                                              \
        T *restrict p = lists[0], *restrict grad = lists[1];                                       \
        T *restrict buffer = s->lists > 2 ? lists[2] : NULL;                                       \
        T sign = s->option[4] != 0 ? -1 : 1, decay = (T)s->option[0];                              \
        T momentum = (T)s->option[1], rate = (T)s->rate;                                           \
        bool nesterov = s->option[3] != 0, first = s->option[5] != 0;                              \
        T keep = first ? 0 : momentum, take = first ? 1 : (T)(1 - s->option[2]);                   \
        for (int64_t i = 0; i < n; i++) {                                                          \
            T g = sign * grad[i] + decay * p[i];                                                   \
            if (buffer) {                                                                          \
                buffer[i] = (first ? 0 : keep * buffer[i]) + take * g;                             \
                g = nesterov ? g + momentum * buffer[i] : buffer[i];                               \
            }                                                                                      \
            p[i] -= rate * g;                                                                      \
        }                                                                                          \
    }
DEFINE_SGD(float, sgd_float)
DEFINE_SGD(double, sgd_double)

/* Adagrad (Duchi et al. 2011). Options: learning-rate decay, weight decay, eps, maximize. Lists:
 * parameter, gradient, sum of squares. */
#define DEFINE_ADAGRAD(T, NAME, SQRT)                                                              \
    static void NAME(const step *s, int tensor, T **lists, int64_t n)                              \
    {                                                                                              \
        T *restrict p = lists[0], *restrict grad = lists[1], *restrict sum = lists[2];             \
        T sign = s->option[3] != 0 ? -1 : 1, decay = (T)s->option[1], eps = (T)s->option[2];       \
        T rate = (T)(s->rate / (1 + (step_count(s, tensor) - 1) * s->option[0]));                  \
        for (int64_t i = 0; i < n; i++) {                                                          \
            T g = sign * grad[i] + decay * p[i];                                                   \
            sum[i] += g * g;                                                                       \
            p[i] -= rate * (g / (SQRT(sum[i]) + eps));                                             \
        }                                                                                          \
    }
DEFINE_ADAGRAD(float, adagrad_float, sqrtf)
DEFINE_ADAGRAD(double, adagrad_double, sqrt)

/* ---- chunks -------------------------------------------------------------------------------- */

static const tn_operand *member(const step *s, int list, int tensor)
{
    return &s->launch->operands[list * s->length + tensor];
}

static int64_t chunks_of(const step *s, int tensor)
{
    return (tn_operand_numel(member(s, PARAMETER, tensor)) + CHUNK - 1) / CHUNK;
}

static void step_double(const step *s, int tensor, int64_t begin, int64_t n)
{
    double *lists[MAX_LISTS];
    for (int l = 0; l < s->lists; l++)
        lists[l] = (double *)member(s, l, tensor)->data + begin;
    if (s->scaled)
        for (int64_t i = 0; i < n; i++)
            lists[GRADIENT][i] /= s->grad_scale;
    s->run(s, tensor, lists, n);
}

/* fp32 members are stepped where they lie, narrower ones through a buffer. */
static void step_float(const step *s, int tensor, int64_t begin, int64_t n)
{
    float buffers[MAX_LISTS][CHUNK];
    float *lists[MAX_LISTS];
    for (int l = 0; l < s->lists; l++) {
        const tn_operand *operand = member(s, l, tensor);
        if (operand->dtype == TN_FLOAT32) {
            lists[l] = (float *)operand->data + begin;
        } else {
            lists[l] = buffers[l];
            tn_half_to_float((const uint16_t *)operand->data + begin, operand->dtype, lists[l], n);
        }
    }
    float scale = (float)s->grad_scale;
    if (s->scaled)
        for (int64_t i = 0; i < n; i++)
            lists[GRADIENT][i] /= scale;
    s->run_float(s, tensor, lists, n);
    for (int l = 0; l < s->lists; l++) {
        const tn_operand *operand = member(s, l, tensor);
        if (operand->dtype != TN_FLOAT32 && (l != GRADIENT || s->scaled))
            tn_float_to_half(lists[l], operand->dtype, (uint16_t *)operand->data + begin, n);
    }
}

static void run_chunks(void *context, int64_t begin, int64_t end)
{
    const step *s = context;
    int64_t first = 0; /* index of the tensor's first chunk */
    for (int t = 0; t < s->length && first < end; t++) {
        int64_t count = chunks_of(s, t), numel = tn_operand_numel(member(s, PARAMETER, t));
        int64_t from = begin > first ? begin - first : 0;
        int64_t to = end - first < count ? end - first : count;
        for (int64_t c = from; c < to; c++) {
            int64_t n = numel - c * CHUNK < CHUNK ? numel - c * CHUNK : CHUNK;
            if (member(s, PARAMETER, t)->dtype == TN_FLOAT64)
                step_double(s, t, c * CHUNK, n);
            else
                step_float(s, t, c * CHUNK, n);
        }
        first += count;
    }
}

/* `s->lists`, the rule and its options are set; scalar 0 is the learning rate, the rest are options. */
static tn_status run_step(step *s, const tn_launch_desc *launch, bool has_steps)
{
    const tn_operand *optional = &launch->operands[launch->num_operands - 3];
    s->launch = launch;
    s->length = launch->num_outputs / s->lists;
    s->steps = has_steps ? &launch->operands[launch->num_outputs] : NULL;
    if (scalar_of(&optional[1], 0) != 0) /* an overflow was found: the step is skipped */
        return TN_OK;
    s->scaled = !(optional[0].flags & TN_OPERAND_ABSENT);
    s->grad_scale = scalar_of(&optional[0], 1);
    s->rate = scalar_of(&optional[2], tn_scalar_as_double(launch->scalars[0]));
    for (int i = 1; i < launch->num_scalars; i++)
        s->option[i - 1] = tn_scalar_as_double(launch->scalars[i]);
    int64_t chunks = 0;
    for (int t = 0; t < s->length; t++)
        chunks += chunks_of(s, t);
    tn_parallel_for(chunks, 8, run_chunks, s);
    return TN_OK;
}

tn_status TN_KERNEL(fused_adam)(const tn_launch_desc *launch)
{
    step s = {.lists = launch->scalars[5].i ? 5 : 4, .run = adam_double, .run_float = adam_float};
    return run_step(&s, launch, true);
}

tn_status TN_KERNEL(fused_sgd)(const tn_launch_desc *launch)
{
    step s = {.lists = launch->scalars[2].d != 0 ? 3 : 2, .run = sgd_double, .run_float = sgd_float};
    return run_step(&s, launch, false);
}

tn_status TN_KERNEL(fused_adagrad)(const tn_launch_desc *launch)
{
    step s = {.lists = 3, .run = adagrad_double, .run_float = adagrad_float};
    return run_step(&s, launch, true);
}

/* ---- the loss scaler ----------------------------------------------------------------------- */

/* Outputs: found_inf, then the gradients; input: the inverse scale. Dense gradients. */
tn_status TN_KERNEL(amp_unscale)(const tn_launch_desc *launch)
{
    float *found = tn_output(launch, 0)->data;
    float inverse = (float)scalar_of(tn_input(launch, 0), 1);
    bool bad = false;
    for (int t = 1; t < launch->num_outputs; t++) {
        const tn_operand *grad = tn_output(launch, t);
        int64_t numel = tn_operand_numel(grad);
        for (int64_t begin = 0; begin < numel; begin += CHUNK) {
            float buffer[CHUNK], *values = buffer;
            int64_t n = numel - begin < CHUNK ? numel - begin : CHUNK;
            double sum = 0; /* of value * 0: not finite exactly when one value is not */
            if (grad->dtype == TN_FLOAT64) {
                double *wide = (double *)grad->data + begin;
                for (int64_t i = 0; i < n; i++) {
                    sum += wide[i] * 0;
                    wide[i] *= inverse;
                }
            } else {
                if (grad->dtype == TN_FLOAT32)
                    values = (float *)grad->data + begin;
                else
                    tn_half_to_float((const uint16_t *)grad->data + begin, grad->dtype, values, n);
                for (int64_t i = 0; i < n; i++) {
                    sum += (double)values[i] * 0;
                    values[i] *= inverse;
                }
                if (grad->dtype != TN_FLOAT32)
                    tn_float_to_half(values, grad->dtype, (uint16_t *)grad->data + begin, n);
            }
            bad |= !(sum == 0);
        }
    }
    if (bad)
        *found = 1;
    return TN_OK;
}

/* Outputs: scale (fp32), growth tracker (int32); input: found_inf. Scalars: growth factor, backoff
 * factor, growth interval. */
tn_status TN_KERNEL(amp_update_scale)(const tn_launch_desc *launch)
{
    float *scale = tn_output(launch, 0)->data;
    int32_t *tracker = tn_output(launch, 1)->data;
    if (scalar_of(tn_input(launch, 0), 0) != 0) {
        *scale = (float)(*scale * launch->scalars[1].d);
        *tracker = 0;
    } else if (++*tracker == launch->scalars[2].i) {
        float grown = (float)(*scale * launch->scalars[0].d);
        if (isfinite(grown)) /* the scale never grows past fp32's range */
            *scale = grown;
        *tracker = 0;
    }
    return TN_OK;
}

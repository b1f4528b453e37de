/* Taps of every kind of separable resampling (taps.h). */
#include "kernel/taps.h"

#include <math.h>
#include <string.h>

#include "kernel/nest.h"

/* fp32 arithmetic by rounding each double result: the same bits, because double carries more than twice
 * the digits. */
static double rounded(const tn_tap_rule *rule, double value)
{
    return rule->narrow ? (double)(float)value : value;
}

static double scale_of(const tn_tap_rule *rule, int64_t inputs, int64_t outputs)
{
    if (rule->align_corners)
        return outputs > 1 ? rounded(rule, (double)(inputs - 1) / (double)(outputs - 1)) : 0;
    if (rule->parameters[0] > 0)
        return rounded(rule, 1.0 / rule->parameters[0]);
    return rounded(rule, (double)inputs / (double)outputs);
}

static double source_position(const tn_tap_rule *rule, double scale, int64_t i)
{
    if (rule->align_corners)
        return rounded(rule, scale * (double)i);
    double position = rounded(rule, rounded(rule, scale * ((double)i + 0.5)) - 0.5);
    return rule->kind == TN_TAP_LINEAR && position < 0 ? 0 : position;
}

static int nearest_taps(const tn_tap_rule *rule, int64_t inputs, int64_t outputs, int64_t i,
                        int64_t *index, double *weight)
{
    float scale = rule->parameters[0] > 0 ? (float)(1.0 / rule->parameters[0])
                                          : (float)inputs / (float)outputs;
    float position = ((float)i + (rule->kind == TN_TAP_NEAREST ? 0 : 0.5f)) * scale;
    index[0] = tn_min((int64_t)floorf(position), inputs - 1);
    weight[0] = 1;
    return 1;
}

static int linear_taps(const tn_tap_rule *rule, int64_t inputs, int64_t outputs, int64_t i,
                       int64_t *index, double *weight)
{
    double position = source_position(rule, scale_of(rule, inputs, outputs), i);
    int64_t low = tn_min((int64_t)position, inputs - 1);
    double share = rounded(rule, position - (double)low);
    share = share < 0 ? 0 : share > 1 ? 1 : share;
    index[0] = low;
    index[1] = low + (low < inputs - 1);
    weight[0] = rounded(rule, 1 - share);
    weight[1] = share;
    return 2;
}

/* Keys' cubic with a = -0.75 at distance x. */
static double cubic_near(double x)
{
    return ((1.25 * x - 2.25) * x) * x + 1;
}

static double cubic_far(double x)
{
    return ((-0.75 * x + 3.75) * x - 6) * x + 3;
}

static int cubic_taps(const tn_tap_rule *rule, int64_t inputs, int64_t outputs, int64_t i,
                      int64_t *index, double *weight)
{
    double position = source_position(rule, scale_of(rule, inputs, outputs), i);
    double low = floor(position), t = rounded(rule, position - low);
    double weights[4] = {cubic_far(t + 1), cubic_near(t), cubic_near(1 - t), cubic_far(2 - t)};
    for (int k = 0; k < 4; k++) {
        index[k] = tn_max(0, tn_min(inputs - 1, (int64_t)low - 1 + k));
        weight[k] = rounded(rule, weights[k]);
    }
    return 4;
}

static int64_t span_taps(int64_t start, int64_t end, double weight, int64_t *index, double *weights)
{
    for (int64_t j = start; j < end; j++) {
        index[j - start] = j;
        weights[j - start] = weight;
    }
    return tn_max(0, end - start);
}

static int64_t average_taps(const tn_tap_rule *rule, int64_t inputs, int64_t i, int64_t *index,
                            double *weight)
{
    int64_t kernel = (int64_t)rule->parameters[0], stride = (int64_t)rule->parameters[1];
    int64_t padding = (int64_t)rule->parameters[2], start = i * stride - padding;
    int64_t end = tn_min(start + kernel, inputs + padding), padded = end - start;
    start = tn_max(start, 0);
    end = tn_min(end, inputs);
    int64_t count = rule->count_include_pad ? padded : end - start;
    return span_taps(start, end, rule->weightless ? 1 : 1.0 / (double)count, index, weight);
}

static int64_t adaptive_taps(int64_t inputs, int64_t outputs, int64_t i, int64_t *index, double *weight)
{
    int64_t start = i * inputs / outputs, end = ((i + 1) * inputs + outputs - 1) / outputs;
    return span_taps(start, end, 1.0 / (double)(end - start), index, weight);
}

/* Keys' cubic with a = -0.5, the filter that goes with antialiasing. */
static double smooth_cubic(double x)
{
    return x < 1 ? (1.5 * x - 2.5) * x * x + 1 : x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
}

static double triangle(double x)
{
    return x < 1 ? 1 - x : 0;
}

/* sinc(x) sinc(x / 3). */
static double lanczos(double x)
{
    double angle = 0x1.921fb54442d18p1 * x;
    return x == 0 ? 1 : x < 3 ? sin(angle) * sin(angle / 3) * 3 / (angle * angle) : 0;
}

static bool is_antialiased(const tn_tap_rule *rule)
{
    return rule->kind == TN_TAP_LINEAR_ANTIALIASED || rule->kind == TN_TAP_CUBIC_ANTIALIASED ||
           rule->kind == TN_TAP_LANCZOS;
}

/* Half the width of the filter, in inputs: it grows where the image shrinks. */
static double filter_reach(const tn_tap_rule *rule, double scale)
{
    double reach = rule->kind == TN_TAP_LINEAR_ANTIALIASED ? 1 : rule->kind == TN_TAP_LANCZOS ? 3 : 2;
    return scale > 1 ? reach * scale : reach;
}

static int64_t antialiased_taps(const tn_tap_rule *rule, int64_t inputs, int64_t outputs, int64_t i,
                                int64_t *index, double *weight)
{
    double scale = scale_of(rule, inputs, outputs), stretch = scale > 1 ? 1 / scale : 1;
    double center = scale * ((double)i + 0.5), reach = filter_reach(rule, scale), total = 0;
    int64_t start = tn_max((int64_t)(center - reach + 0.5), 0);
    int64_t end = tn_min((int64_t)(center + reach + 0.5), inputs);
    for (int64_t j = start; j < end; j++) {
        double x = fabs(((double)j - center + 0.5) * stretch);
        double w = rule->kind == TN_TAP_CUBIC_ANTIALIASED ? smooth_cubic(x)
                   : rule->kind == TN_TAP_LANCZOS         ? lanczos(x)
                                                          : triangle(x);
        index[j - start] = j;
        weight[j - start] = w;
        total += w;
    }
    for (int64_t j = 0; j < end - start && total != 0; j++)
        weight[j] = rounded(rule, weight[j] / total);
    return tn_max(0, end - start);
}

static int64_t reflected(int64_t i, int64_t inputs)
{
    int64_t last = inputs - 1;
    i = i < 0 ? -i : i;
    return i > last ? 2 * last - i : i;
}

static int64_t taps_at(const tn_tap_rule *rule, int64_t inputs, int64_t outputs, int64_t i,
                       int64_t *index, double *weight)
{
    int64_t shifted = i - (int64_t)rule->parameters[0];
    switch (rule->kind) {
    case TN_TAP_NEAREST:
    case TN_TAP_NEAREST_EXACT: return nearest_taps(rule, inputs, outputs, i, index, weight);
    case TN_TAP_LINEAR: return linear_taps(rule, inputs, outputs, i, index, weight);
    case TN_TAP_CUBIC: return cubic_taps(rule, inputs, outputs, i, index, weight);
    case TN_TAP_AVERAGE: return average_taps(rule, inputs, i, index, weight);
    case TN_TAP_ADAPTIVE: return adaptive_taps(inputs, outputs, i, index, weight);
    case TN_TAP_LINEAR_ANTIALIASED:
    case TN_TAP_CUBIC_ANTIALIASED:
    case TN_TAP_LANCZOS: return antialiased_taps(rule, inputs, outputs, i, index, weight);
    case TN_TAP_REFLECT: index[0] = reflected(shifted, inputs); break;
    case TN_TAP_REPLICATE: index[0] = tn_max(0, tn_min(inputs - 1, shifted)); break;
    }
    weight[0] = 1;
    return 1;
}

static int64_t most_taps(const tn_tap_rule *rule, int64_t inputs, int64_t outputs)
{
    if (rule->kind == TN_TAP_AVERAGE)
        return tn_min((int64_t)rule->parameters[0], inputs);
    if (rule->kind == TN_TAP_ADAPTIVE)
        return inputs / outputs + 2;
    if (is_antialiased(rule))
        return tn_min((int64_t)(2 * filter_reach(rule, scale_of(rule, inputs, outputs))) + 2, inputs);
    return 4;
}

static tn_taps carve(char *memory, int64_t starts, int64_t entries)
{
    tn_taps taps = {.starts = (int64_t *)(void *)memory};
    taps.index = taps.starts + starts + 1;
    taps.weight = (double *)(void *)(taps.index + entries);
    return taps;
}

static void transpose(const tn_taps *from, int64_t inputs, int64_t outputs, tn_taps *to)
{
    memset(to->starts, 0, sizeof *to->starts * (size_t)(inputs + 1));
    for (int64_t k = 0; k < from->starts[outputs]; k++)
        to->starts[from->index[k] + 1]++;
    for (int64_t i = 0; i < inputs; i++)
        to->starts[i + 1] += to->starts[i];
    for (int64_t i = 0; i < outputs; i++)
        for (int64_t k = from->starts[i]; k < from->starts[i + 1]; k++) {
            int64_t at = to->starts[from->index[k]]++;
            to->index[at] = i;
            to->weight[at] = from->weight[k];
        }
    for (int64_t i = inputs; i > 0; i--)
        to->starts[i] = to->starts[i - 1];
    to->starts[0] = 0;
}

tn_status tn_taps_build(const tn_tap_rule *rule, int64_t inputs, int64_t outputs, bool transposed,
                        int slot, tn_taps *out_taps)
{
    int64_t most = outputs * most_taps(rule, inputs, outputs);
    size_t one = sizeof(int64_t) * (size_t)(tn_max(inputs, outputs) + 1 + 2 * most);
    char *memory = tn_scratch(slot, 2 * one);
    if (!memory)
        return TN_ERROR_OUT_OF_MEMORY;
    tn_taps taps = carve(memory, outputs, most);
    taps.starts[0] = 0;
    for (int64_t i = 0; i < outputs; i++) {
        int64_t at = taps.starts[i];
        taps.starts[i + 1] =
            at + taps_at(rule, inputs, outputs, i, taps.index + at, taps.weight + at);
    }
    *out_taps = taps;
    if (transposed) {
        *out_taps = carve(memory + one, inputs, most);
        transpose(&taps, inputs, outputs, out_taps);
    }
    return TN_OK;
}

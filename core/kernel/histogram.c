/* Counting elements into bins: bincount and histc.
 *
 * The elements are cut into parts by their number; every part fills a table of its own, and the tables are
 * added in the order of the parts, so that sums of weights have the same bits for any number of threads. */
#include <math.h>
#include <string.h>

#include "base/pool.h"
#include "kernel/nest.h"
#include "kernel/rows.h"
#include "tn/op/histogram.h"

enum { CHUNK = 512, PART = 1 << 16, MAX_PARTS = 16 };

typedef struct histogram_job {
    const tn_operand *values, *weights; /* weights: NULL, fp32 or fp64 */
    int64_t numel, bins, part;
    double low, high;
    void *tables; /* [parts][bins]: int64_t, or double for weights */
} histogram_job;

/* ---- bincount ----------------------------------------------------------------------------------- */

static void count_part(const histogram_job *job, int64_t part, int64_t begin, int64_t end)
{
    int64_t *counts = (int64_t *)job->tables + part * job->bins, bin[CHUNK];
    double *sums = (double *)job->tables + part * job->bins, weight[CHUNK];
    int64_t size = tn_operand_itemsize(job->values), n;
    for (int64_t i = begin; i < end; i += n) {
        n = tn_min(CHUNK, end - i);
        TN_ISA_NAME(tn_load_i64)((const char *)job->values->data + i * size, size, job->values->dtype, bin, n);
        if (!job->weights) {
            for (int64_t k = 0; k < n; k++)
                if ((uint64_t)bin[k] < (uint64_t)job->bins)
                    counts[bin[k]]++;
            continue;
        }
        int64_t width = tn_operand_itemsize(job->weights);
        TN_ISA_NAME(tn_load_f64)
        ((const char *)job->weights->data + i * width, width, job->weights->dtype, weight, n);
        for (int64_t k = 0; k < n; k++)
            if ((uint64_t)bin[k] < (uint64_t)job->bins)
                sums[bin[k]] += weight[k];
    }
}

/* ---- histc ---------------------------------------------------------------------------------------- */

/* The bin is found in the elements' own precision, as a linear position between the edges. */
#define DEFINE_BINS(NAME, T, LOAD)                                                                 \
    static void NAME(const histogram_job *job, int64_t part, int64_t begin, int64_t end)           \
    {                                                                                              \
        int64_t *counts = (int64_t *)job->tables + part * job->bins, n;                            \
        int64_t size = tn_operand_itemsize(job->values);                                           \
        T x[CHUNK], low = (T)job->low, high = (T)job->high, bins = (T)job->bins;                   \
        for (int64_t i = begin; i < end; i += n) {                                                 \
            n = tn_min(CHUNK, end - i);                                                            \
            LOAD((const char *)job->values->data + i * size, size, job->values->dtype, x, n);      \
            for (int64_t k = 0; k < n; k++) {                                                      \
                if (!(x[k] >= low && x[k] <= high))                                                \
                    continue;                                                                      \
                int64_t bin = (int64_t)((x[k] - low) * bins / (high - low));                       \
                counts[bin < job->bins ? bin : job->bins - 1]++;                                   \
            }                                                                                      \
        }                                                                                          \
    }
DEFINE_BINS(bin_part_f32, float, TN_ISA_NAME(tn_load_f32))
DEFINE_BINS(bin_part_f64, double, TN_ISA_NAME(tn_load_f64))

static void find_range(histogram_job *job)
{
    int64_t size = tn_operand_itemsize(job->values), n;
    double x[CHUNK], low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < job->numel; i += n) {
        n = tn_min(CHUNK, job->numel - i);
        TN_ISA_NAME(tn_load_f64)((const char *)job->values->data + i * size, size, job->values->dtype, x, n);
        for (int64_t k = 0; k < n; k++) {
            low = x[k] < low || x[k] != x[k] ? x[k] : low;
            high = x[k] > high || x[k] != x[k] ? x[k] : high;
        }
    }
    job->low = job->numel > 0 ? low : 0;
    job->high = job->numel > 0 ? high : 0;
}

/* ---- both ----------------------------------------------------------------------------------------- */

typedef void (*part_fn)(const histogram_job *job, int64_t part, int64_t begin, int64_t end);

typedef struct parts_job {
    const histogram_job *job;
    part_fn fill;
} parts_job;

static void fill_parts(void *context, int64_t begin, int64_t end)
{
    const parts_job *parts = context;
    const histogram_job *job = parts->job;
    for (int64_t p = begin; p < end; p++) {
        memset((char *)job->tables + p * job->bins * 8, 0, (size_t)job->bins * 8);
        parts->fill(job, p, p * job->part, tn_min(job->numel, (p + 1) * job->part));
    }
}

static tn_status fill_and_add(histogram_job *job, part_fn fill, const tn_operand *out)
{
    int64_t parts = tn_min(MAX_PARTS, tn_min(job->numel / PART, 4 * job->numel / tn_max(job->bins, 1)));
    parts = tn_max(parts, 1);
    job->part = (job->numel + parts - 1) / parts;
    job->tables = tn_scratch(0, (size_t)tn_max(parts * job->bins, 1) * 8);
    if (!job->tables)
        return TN_ERROR_OUT_OF_MEMORY;
    parts_job all = {job, fill};
    tn_parallel_for(parts, 1, fill_parts, &all);
    double *sums = job->tables;
    int64_t *counts = job->tables, size = tn_operand_itemsize(out);
    for (int64_t p = 1; p < parts; p++)
        for (int64_t b = 0; b < job->bins; b++) {
            if (job->weights)
                sums[b] += sums[p * job->bins + b];
            else
                counts[b] += counts[p * job->bins + b];
        }
    if (job->weights)
        TN_ISA_NAME(tn_store_f64)(out->data, size, out->dtype, sums, job->bins);
    else
        TN_ISA_NAME(tn_store_i64)(out->data, size, out->dtype, counts, job->bins);
    return TN_OK;
}

/* Output [bins] int64, or fp32 or fp64 with weights; inputs values (integers), ?weights of the output's dtype;
 * all contiguous. Values outside the bins are passed over. */
tn_status TN_KERNEL(bincount)(const tn_launch_desc *launch)
{
    const tn_operand *weights = tn_input(launch, 1);
    histogram_job job = {.values = tn_input(launch, 0),
                         .weights = weights->flags & TN_OPERAND_ABSENT ? NULL : weights,
                         .numel = tn_operand_numel(tn_input(launch, 0)),
                         .bins = tn_operand_numel(tn_output(launch, 0))};
    return fill_and_add(&job, count_part, tn_output(launch, 0));
}

/* Output [bins] of the input's dtype; scalars the outer edges, equal ones for those of the data. */
tn_status TN_KERNEL(histc)(const tn_launch_desc *launch)
{
    histogram_job job = {.values = tn_input(launch, 0),
                         .numel = tn_operand_numel(tn_input(launch, 0)),
                         .bins = tn_operand_numel(tn_output(launch, 0)),
                         .low = tn_scalar_as_double(launch->scalars[0]),
                         .high = tn_scalar_as_double(launch->scalars[1])};
    if (job.low == job.high)
        find_range(&job);
    if (!isfinite(job.low) || !isfinite(job.high))
        return tn_fail(TN_ERROR_RUNTIME, "torch.histc: range of [%g, %g] is not finite", job.low, job.high);
    if (job.low == job.high) {
        job.low -= 1;
        job.high += 1;
    }
    uint8_t dtype = job.values->dtype;
    bool narrow = dtype == TN_FLOAT32 || dtype == TN_BFLOAT16 || dtype == TN_FLOAT16;
    return fill_and_add(&job, narrow ? bin_part_f32 : bin_part_f64, tn_output(launch, 0));
}

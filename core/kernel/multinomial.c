/* multinomial: indices drawn from rows of unnormalised probabilities. Input [rows, categories]
 * contiguous, output [rows, samples] int64 contiguous; one row is drawn by one thread.
 *
 * With replacement: a uniform is looked up in the row's running sum. Without: categories are ordered by
 * an exponential race (Efraimidis and Spirakis 2006: key log(u) / p, largest first). */
#include <math.h>
#include <stdlib.h>

#include "base/pool.h"
#include "kernel/convert.h"
#include "kernel/kernel.h"
#include "kernel/philox.h"

typedef struct racer {
    double key;
    int64_t category;
} racer;

typedef struct drawing {
    const tn_launch_desc *launch;
    int64_t rows, categories, samples;
    bool replacement;
    char *fault; /* [rows]: 1 bad element, 2 sum not positive, 3 no memory, 4 too few categories */
} drawing;

static double probability(const drawing *d, int64_t row, int64_t category)
{
    const tn_operand *p = tn_input(d->launch, 0);
    size_t size = tn_dtype_size(p->dtype);
    return tn_element_as_double((const char *)p->data + (size_t)(row * d->categories + category) * size,
                                p->dtype);
}

static double uniform(const drawing *d, int64_t row, int64_t draw, int64_t draws)
{
    uint32_t words[4];
    tn_philox(d->launch->rng_seed, d->launch->rng_offset, (uint64_t)(row * draws + draw), words);
    return tn_uniform53(words[0], words[1]);
}

static void draw_with_replacement(const drawing *d, int64_t row, const double *sums, int64_t *out)
{
    double total = sums[d->categories - 1];
    for (int64_t s = 0; s < d->samples; s++) {
        double target = uniform(d, row, s, d->samples) * total;
        int64_t low = 0, high = d->categories - 1;
        while (low < high) { /* the first category whose running sum exceeds the target */
            int64_t middle = (low + high) / 2;
            if (sums[middle] > target)
                high = middle;
            else
                low = middle + 1;
        }
        out[s] = low;
    }
}

static int compare_racers(const void *left, const void *right)
{
    const racer *a = left, *b = right;
    if (a->key != b->key)
        return a->key > b->key ? -1 : 1;
    return a->category < b->category ? -1 : 1;
}

/* Categories of no probability come last. */
static void draw_without_replacement(const drawing *d, int64_t row, racer *race, int64_t *out)
{
    for (int64_t c = 0; c < d->categories; c++) {
        double p = probability(d, row, c), u = uniform(d, row, c, d->categories) + 0x1p-53;
        race[c].key = p > 0 ? tn_fixed_log(u) / p : -INFINITY;
        race[c].category = c;
    }
    qsort(race, (size_t)d->categories, sizeof *race, compare_racers);
    for (int64_t s = 0; s < d->samples; s++)
        out[s] = race[s].category;
}

static char draw_row(const drawing *d, int64_t row)
{
    int64_t *out = (int64_t *)tn_output(d->launch, 0)->data + row * d->samples;
    double *sums = tn_scratch(0, (size_t)d->categories * sizeof *sums), sum = 0;
    if (!sums)
        return 3;
    for (int64_t c = 0; c < d->categories; c++) {
        double p = probability(d, row, c);
        if (!(p >= 0) || isinf(p))
            return 1;
        sums[c] = sum += p;
    }
    if (!(sum > 0))
        return 2;
    if (d->replacement) {
        draw_with_replacement(d, row, sums, out);
        return 0;
    }
    racer *race = tn_scratch(1, (size_t)d->categories * sizeof *race);
    if (!race)
        return 3;
    draw_without_replacement(d, row, race, out);
    return 0;
}

static void draw_rows(void *context, int64_t begin, int64_t end)
{
    drawing *d = context;
    for (int64_t row = begin; row < end; row++)
        d->fault[row] = draw_row(d, row);
}

tn_status TN_KERNEL(multinomial)(const tn_launch_desc *launch)
{
    const tn_operand *p = tn_input(launch, 0);
    drawing d = {.launch = launch, .samples = launch->scalars[0].i};
    d.replacement = launch->scalars[1].i != 0;
    d.categories = p->sizes[p->ndim - 1];
    d.rows = p->ndim == 2 ? p->sizes[0] : 1;
    d.fault = tn_scratch(2, (size_t)d.rows);
    if (!d.fault)
        return TN_ERROR_OUT_OF_MEMORY;
    tn_parallel_for(d.rows, 1 + 16384 / (d.categories + 1), draw_rows, &d);
    for (int64_t row = 0; row < d.rows; row++)
        switch (d.fault[row]) {
        case 1:
            return tn_fail(TN_ERROR_RUNTIME,
                           "probability tensor contains either `inf`, `nan` or element < 0");
        case 2:
            return tn_fail(TN_ERROR_RUNTIME,
                           "invalid multinomial distribution (sum of probabilities <= 0)");
        case 3:
            return tn_fail(TN_ERROR_OUT_OF_MEMORY, "multinomial: out of host memory for %lld categories",
                           (long long)d.categories);
        default:
            break;
        }
    return TN_OK;
}

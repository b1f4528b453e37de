/* Looking values up and comparing them: searchsorted, isin, the runs of equal neighbours that unique is made
 * of, whether two tensors are equal.
 * Values are compared by their keys (order.h); NaN equals nothing. */
#include "kernel/order.h"

#include "kernel/nest.h"

enum { GRAIN = 1 << 12 };

/* ---- searchsorted ---------------------------------------------------------------------------- */

typedef struct search_job {
    const tn_operand *out, *sorted, *values, *sorter;
    int64_t length, lanes; /* of the sorted lines; values per line */
    uint64_t *keys;        /* of all lines in their order, or NULL where there are few values */
    bool right;
} search_job;

static uint64_t sorted_key(const search_job *job, int64_t line, int64_t place)
{
    int64_t at = job->sorter ? ((const int64_t *)job->sorter->data)[line + place] : place;
    const char *data = job->sorted->data;
    return tn_key_of(data + (line + at) * tn_operand_itemsize(job->sorted), job->sorted->dtype);
}

/* First position whose element is not before (right: is behind) the key. */
static int64_t bound_of_keys(const uint64_t *keys, int64_t length, bool right, uint64_t key)
{
    const uint64_t *base = keys;
    while (length > 1) {
        int64_t half = length / 2;
        int64_t behind = (base[half - 1] < key) | (right & (base[half - 1] == key));
        base += half & -behind; /* no branch: which way it goes is as good as random */
        length -= half;
    }
    return base - keys + ((*base < key) | (right & (*base == key)));
}

static int64_t bound(const search_job *job, int64_t line, uint64_t key)
{
    int64_t low = 0, high = job->length;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        uint64_t found = sorted_key(job, line, middle);
        if (found < key || (job->right && found == key))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void make_keys(void *context, int64_t begin, int64_t end)
{
    const search_job *job = context;
    for (int64_t i = begin; i < end; i++)
        job->keys[i] = sorted_key(job, i / job->length * job->length, i % job->length);
}

static void search_part(void *context, int64_t begin, int64_t end)
{
    const search_job *job = context;
    int64_t size = tn_operand_itemsize(job->values);
    for (int64_t i = begin; i < end; i++) {
        int64_t line = job->sorted->ndim > 1 ? i / job->lanes * job->length : 0;
        uint64_t key = tn_key_of((const char *)job->values->data + i * size, job->values->dtype);
        int64_t found = job->keys ? bound_of_keys(job->keys + line, job->length, job->right, key)
                                  : bound(job, line, key);
        if (job->out->dtype == TN_INT32)
            ((int32_t *)job->out->data)[i] = (int32_t)found;
        else
            ((int64_t *)job->out->data)[i] = found;
    }
}

/* Output int64 or int32; inputs sorted (not empty), values, ?sorter; all contiguous; scalar right. */
tn_status TN_KERNEL(searchsorted)(const tn_launch_desc *launch)
{
    search_job job = {.out = tn_output(launch, 0),
                      .sorted = tn_input(launch, 0),
                      .values = tn_input(launch, 1),
                      .sorter = tn_input(launch, 2),
                      .right = launch->scalars[0].i != 0,
                      .lanes = 1};
    int64_t elements = tn_operand_numel(job.sorted), count = tn_operand_numel(job.out);
    job.length = job.sorted->ndim ? job.sorted->sizes[job.sorted->ndim - 1] : 1;
    if (job.values->ndim > 0)
        job.lanes = job.values->sizes[job.values->ndim - 1];
    if (job.sorter->flags & TN_OPERAND_ABSENT)
        job.sorter = NULL;
    if (count >= elements / 4) {
        job.keys = tn_scratch(0, sizeof *job.keys * (size_t)elements);
        if (!job.keys)
            return TN_ERROR_OUT_OF_MEMORY;
        tn_parallel_for(elements, GRAIN, make_keys, &job);
    }
    tn_parallel_for(count, GRAIN, search_part, &job);
    return TN_OK;
}

/* ---- isin ------------------------------------------------------------------------------------ */

typedef struct member_job {
    const tn_ranked *sorted;
    int64_t count;
    uint8_t dtype;
    bool invert;
} member_job;

static bool is_member(const member_job *job, uint64_t key)
{
    int64_t low = 0, high = job->count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (job->sorted[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    bool number = key != TN_KEY_NAN || !tn_is_floating(job->dtype);
    return low < job->count && job->sorted[low].key == key && number;
}

static void member_row(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    const member_job *job = context;
    for (int64_t i = 0; i < n; i++)
        data[0][i * strides[0]] =
            is_member(job, tn_key_of(data[1] + i * strides[1], job->dtype)) != job->invert;
}

/* Output bool of the elements' shape; inputs elements, tests (any shape, contiguous, the same dtype);
 * scalar invert. */
tn_status TN_KERNEL(isin)(const tn_launch_desc *launch)
{
    const tn_operand *tests = tn_input(launch, 1);
    const tn_operand *both[] = {tn_output(launch, 0), tn_input(launch, 0)};
    int64_t count = tn_operand_numel(tests), size = tn_operand_itemsize(tests);
    tn_ranked *items = tn_scratch(0, sizeof *items * 2 * (size_t)tn_max(count, 1));
    if (!items)
        return TN_ERROR_OUT_OF_MEMORY;
    for (int64_t i = 0; i < count; i++)
        items[i] = (tn_ranked){tn_key_of((const char *)tests->data + i * size, tests->dtype), i};
    member_job job = {.sorted = tn_rank(items, items + count, count),
                      .count = count,
                      .dtype = tests->dtype,
                      .invert = launch->scalars[0].i != 0};
    tn_nest nest;
    tn_nest_of(&nest, 2, both);
    tn_nest_run(&nest, GRAIN, member_row, &job);
    return TN_OK;
}

/* ---- runs of equal neighbours ------------------------------------------------------------------ */

typedef struct rows {
    const char *data;
    int64_t count, bytes, itemsize; /* rows; bytes of a row */
    uint8_t dtype;
} rows;

/* Rows are what the first dimension counts; contiguous. */
static rows rows_of(const tn_operand *values)
{
    rows r = {.data = values->data, .count = values->sizes[0], .itemsize = tn_operand_itemsize(values),
              .dtype = values->dtype};
    r.bytes = r.count > 0 ? tn_operand_numel(values) / r.count * r.itemsize : 0;
    return r;
}

/* Below, at or above 0; the first elements that differ decide. */
static int compare_rows(const rows *r, int64_t a, int64_t b)
{
    const char *x = r->data + a * r->bytes, *y = r->data + b * r->bytes;
    for (int64_t i = 0; i < r->bytes; i += r->itemsize) {
        uint64_t key = tn_key_of(x + i, r->dtype), other = tn_key_of(y + i, r->dtype);
        if (key != other)
            return key < other ? -1 : 1;
    }
    return 0;
}

static bool same_rows(const rows *r, int64_t a, int64_t b)
{
    const char *x = r->data + a * r->bytes, *y = r->data + b * r->bytes;
    for (int64_t i = 0; i < r->bytes; i += r->itemsize) {
        uint64_t key = tn_key_of(x + i, r->dtype);
        if (key != tn_key_of(y + i, r->dtype) || (key == TN_KEY_NAN && tn_is_floating(r->dtype)))
            return false;
    }
    return true;
}

/* Output order [n] int64: where the rows stand when sorted (stable); input [n, m] contiguous. */
tn_status TN_KERNEL(sort_rows)(const tn_launch_desc *launch)
{
    rows r = rows_of(tn_input(launch, 0));
    int64_t *out = tn_output(launch, 0)->data, *from = out;
    int64_t *to = tn_scratch(0, sizeof *to * (size_t)tn_max(r.count, 1));
    if (!to)
        return TN_ERROR_OUT_OF_MEMORY;
    for (int64_t i = 0; i < r.count; i++)
        out[i] = i;
    for (int64_t width = 1; width < r.count; width *= 2) {
        for (int64_t start = 0; start < r.count; start += 2 * width) {
            int64_t middle = tn_min(start + width, r.count), end = tn_min(middle + width, r.count);
            for (int64_t i = start, j = middle, k = start; k < end; k++) {
                bool right = i == middle || (j < end && compare_rows(&r, from[j], from[i]) < 0);
                to[k] = right ? from[j++] : from[i++];
            }
        }
        int64_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != out)
        memcpy(out, from, sizeof *out * (size_t)r.count);
    return TN_OK;
}

/* Output runs [n + 1] int64: the run that each row belongs to, then their number; inputs [n, ...] contiguous,
 * ?order [n] to visit them in. */
tn_status TN_KERNEL(run_numbers)(const tn_launch_desc *launch)
{
    rows r = rows_of(tn_input(launch, 0));
    const tn_operand *order = tn_input(launch, 1);
    const int64_t *visit = order->flags & TN_OPERAND_ABSENT ? NULL : order->data;
    int64_t *runs = tn_output(launch, 0)->data, run = -1;
    for (int64_t i = 0; i < r.count; i++) {
        int64_t at = visit ? visit[i] : i, before = visit && i > 0 ? visit[i - 1] : i - 1;
        run += i == 0 || !same_rows(&r, at, before);
        runs[i] = run;
    }
    runs[r.count] = run + 1;
    return TN_OK;
}

/* Outputs where each run's first row came from, the lengths, the run of each row in its original place; inputs
 * runs [n + 1], ?order [n] (where the rows came from). All contiguous. */
tn_status TN_KERNEL(run_values)(const tn_launch_desc *launch)
{
    const tn_operand *order = tn_input(launch, 1);
    const int64_t *runs = tn_input(launch, 0)->data, *from = order->data;
    int64_t *firsts = tn_output(launch, 0)->data, *lengths = tn_output(launch, 1)->data;
    int64_t *inverse = tn_output(launch, 2)->data, start = 0;
    int64_t n = tn_operand_numel(tn_output(launch, 2));
    for (int64_t i = 0; i < n; i++) {
        int64_t origin = order->flags & TN_OPERAND_ABSENT ? i : from[i];
        inverse[origin] = runs[i];
        if (i == 0 || runs[i] != runs[i - 1]) {
            firsts[runs[i]] = origin;
            start = i;
        }
        lengths[runs[i]] = i - start + 1;
    }
    return TN_OK;
}

/* ---- equality of two tensors ------------------------------------------------------------------- */

typedef struct equal_job {
    uint8_t dtype;
    int differ; /* set by whichever part finds a difference; the others may then stop */
} equal_job;

#define DIFFERS(T)                                                                                 \
    for (int64_t i = 0; i < n; i++)                                                                \
        differ |= *(const T *)(const void *)(data[0] + i * strides[0]) !=                          \
                  *(const T *)(const void *)(data[1] + i * strides[1])

static void compare_row(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    equal_job *job = context;
    int differ = 0;
    if (__atomic_load_n(&job->differ, __ATOMIC_RELAXED))
        return;
    if (job->dtype == TN_FLOAT32) {
        DIFFERS(float);
    } else if (job->dtype == TN_FLOAT64) {
        DIFFERS(double);
    } else if (tn_is_floating(job->dtype)) {
        for (int64_t i = 0; i < n; i++) {
            uint64_t a = tn_key_of(data[0] + i * strides[0], job->dtype);
            differ |= a == TN_KEY_NAN || a != tn_key_of(data[1] + i * strides[1], job->dtype);
        }
    } else {
        switch (tn_dtype_size((tn_dtype)job->dtype)) {
        case 1: DIFFERS(uint8_t); break;
        case 2: DIFFERS(uint16_t); break;
        case 4: DIFFERS(uint32_t); break;
        default: DIFFERS(uint64_t); break;
        }
    }
    if (differ)
        __atomic_store_n(&job->differ, 1, __ATOMIC_RELAXED);
}

/* Output bool of one element; inputs of one shape and one real dtype. */
tn_status TN_KERNEL(equal)(const tn_launch_desc *launch)
{
    const tn_operand *both[] = {tn_input(launch, 0), tn_input(launch, 1)};
    equal_job job = {.dtype = both[0]->dtype};
    tn_nest nest;
    tn_nest_of(&nest, 2, both);
    tn_nest_sort(&nest);
    tn_nest_run(&nest, GRAIN * 4, compare_row, &job);
    *(bool *)tn_output(launch, 0)->data = !job.differ;
    return TN_OK;
}

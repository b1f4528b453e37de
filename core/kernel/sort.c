/* sort, topk, kthvalue, the medians and the mode along one dimension.
 *
 * A line's elements become (key, index) pairs (order.h). Short lines are sorted by merging runs, longer
 * ones by radix, very long ones in blocks that are merged pairwise; all of it is stable and cut by the
 * length alone. Ties of topk and kthvalue go to the lower index. */
#include "kernel/order.h"

#include "kernel/nest.h"
#include "kernel/move_rows.h"

enum { RUN = 16, MERGE_LIMIT = 768, BLOCK = 1 << 16, GRAIN = 1 << 13 };

/* ---- sorting pairs ---------------------------------------------------------------------------- */

static void insertion_sort(tn_ranked *items, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        tn_ranked item = items[i];
        int64_t j = i;
        for (; j > 0 && item.key < items[j - 1].key; j--)
            items[j] = items[j - 1];
        items[j] = item;
    }
}

static void merge(const tn_ranked *a, int64_t na, const tn_ranked *b, int64_t nb, tn_ranked *out)
{
    int64_t i = 0, j = 0;
    while (i < na && j < nb)
        *out++ = b[j].key < a[i].key ? b[j++] : a[i++];
    memcpy(out, a + i, sizeof *a * (size_t)(na - i));
    memcpy(out + (na - i), b + j, sizeof *b * (size_t)(nb - j));
}

static tn_ranked *merge_sort(tn_ranked *items, tn_ranked *other, int64_t n)
{
    for (int64_t i = 0; i < n; i += RUN)
        insertion_sort(items + i, tn_min(RUN, n - i));
    for (int64_t width = RUN; width < n; width *= 2) {
        for (int64_t i = 0; i < n; i += 2 * width) {
            int64_t middle = tn_min(width, n - i), rest = tn_min(width, n - i - middle);
            merge(items + i, middle, items + i + middle, rest, other + i);
        }
        tn_ranked *swap = items;
        items = other;
        other = swap;
    }
    return items;
}

static tn_ranked *radix_sort(tn_ranked *items, tn_ranked *other, int64_t n)
{
    uint64_t varying = 0;
    for (int64_t i = 1; i < n; i++)
        varying |= items[i].key ^ items[0].key;
    for (int shift = 0; shift < 64; shift += 8) {
        int64_t starts[256] = {0}, sum = 0;
        if ((varying >> shift & 255) == 0)
            continue;
        for (int64_t i = 0; i < n; i++)
            starts[items[i].key >> shift & 255]++;
        for (int b = 0; b < 256; b++) {
            int64_t bucket = starts[b];
            starts[b] = sum;
            sum += bucket;
        }
        for (int64_t i = 0; i < n; i++)
            other[starts[items[i].key >> shift & 255]++] = items[i];
        tn_ranked *swap = items;
        items = other;
        other = swap;
    }
    return items;
}

typedef struct blocks_job {
    tn_ranked *items, *other;
    int64_t n, width;
} blocks_job;

static void sort_blocks(void *context, int64_t begin, int64_t end)
{
    const blocks_job *job = context;
    for (int64_t b = begin; b < end; b++) {
        int64_t first = b * BLOCK, n = tn_min(BLOCK, job->n - first);
        tn_ranked *sorted = radix_sort(job->items + first, job->other + first, n);
        if (sorted != job->items + first)
            memcpy(job->items + first, sorted, sizeof *sorted * (size_t)n);
    }
}

static void merge_blocks(void *context, int64_t begin, int64_t end)
{
    const blocks_job *job = context;
    for (int64_t b = begin; b < end; b++) {
        int64_t first = 2 * b * job->width, left = tn_min(job->width, job->n - first);
        int64_t right = tn_min(job->width, job->n - first - left);
        merge(job->items + first, left, job->items + first + left, right, job->other + first);
    }
}

tn_ranked *tn_rank(tn_ranked *items, tn_ranked *other, int64_t n)
{
    if (n <= MERGE_LIMIT)
        return merge_sort(items, other, n);
    if (n <= 2 * BLOCK)
        return radix_sort(items, other, n);
    blocks_job job = {items, other, n, BLOCK};
    tn_parallel_for((n + BLOCK - 1) / BLOCK, 1, sort_blocks, &job);
    for (; job.width < n; job.width *= 2) {
        tn_parallel_for((n + 2 * job.width - 1) / (2 * job.width), 1, merge_blocks, &job);
        tn_ranked *swap = job.items;
        job.items = job.other;
        job.other = swap;
    }
    return job.items;
}

/* ---- lines ------------------------------------------------------------------------------------ */

typedef enum line_op { LINE_SORT, LINE_TOPK, LINE_KTH, LINE_MEDIAN, LINE_NANMEDIAN, LINE_MODE } line_op;

typedef struct line_job {
    tn_nest lanes; /* operands values, indices, self */
    int64_t strides[3];
    int64_t length, k, itemsize;
    uint64_t flip; /* all ones: descending */
    uint8_t dtype;
    line_op op;
    bool failed;
} line_job;

static void load_line(const line_job *job, const char *self, tn_ranked *items)
{
    int64_t stride = job->strides[2];
    for (int64_t i = 0; i < job->length; i++)
        items[i] = (tn_ranked){tn_key_of(self + i * stride, job->dtype) ^ job->flip, i};
}

static void put(const line_job *job, char *const *data, int64_t at, int64_t index)
{
    tn_row_copy(data[0] + at * job->strides[0], job->itemsize, data[2] + index * job->strides[2],
                job->itemsize, 1, job->itemsize);
    *(int64_t *)(void *)(data[1] + at * job->strides[1]) = index;
}

static void sift_down(tn_ranked *heap, int64_t k, int64_t at)
{
    tn_ranked item = heap[at];
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= k)
            break;
        if (child + 1 < k && tn_ranked_before(heap[child], heap[child + 1]))
            child++;
        if (!tn_ranked_before(item, heap[child]))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = item;
}

/* The k first pairs in `items`, sorted, by a heap whose top is the worst of them. */
static tn_ranked *select_first(const line_job *job, const char *self, tn_ranked *items)
{
    int64_t k = job->k, stride = job->strides[2];
    for (int64_t i = 0; i < k; i++)
        items[i] = (tn_ranked){tn_key_of(self + i * stride, job->dtype) ^ job->flip, i};
    for (int64_t i = k / 2 - 1; i >= 0; i--)
        sift_down(items, k, i);
    for (int64_t i = k; i < job->length; i++) {
        uint64_t key = tn_key_of(self + i * stride, job->dtype) ^ job->flip;
        if (key < items[0].key) {
            items[0] = (tn_ranked){key, i};
            sift_down(items, k, 0);
        }
    }
    /* Equal keys must come in the order of their indices, and the heap has lost it. */
    for (int64_t i = k - 1; i > 0; i--) {
        tn_ranked worst = items[0];
        items[0] = items[i];
        sift_down(items, i, 0);
        items[i] = worst;
    }
    return items;
}

static int64_t median_rank(const line_job *job, const tn_ranked *sorted)
{
    int64_t n = job->length, numbers = n;
    if (tn_is_floating(job->dtype))
        while (numbers > 0 && sorted[numbers - 1].key == TN_KEY_NAN)
            numbers--;
    if (job->op == LINE_MEDIAN)
        return numbers < n ? numbers : (n - 1) / 2;
    return numbers > 0 ? (numbers - 1) / 2 : 0;
}

/* The last element of the longest run of equals, the smallest of such values. */
static int64_t mode_rank(const line_job *job, const tn_ranked *sorted)
{
    int64_t longest = 0, start = 0, rank = 0;
    for (int64_t i = 0; i < job->length; i++) {
        bool nan = sorted[i].key == TN_KEY_NAN && tn_is_floating(job->dtype);
        if (i > 0 && (nan || sorted[i].key != sorted[i - 1].key))
            start = i;
        if (i - start + 1 > longest) {
            longest = i - start + 1;
            rank = i;
        }
    }
    return rank;
}

static void one_line(line_job *job, char *const *data, tn_ranked *items)
{
    tn_ranked *other = items + job->length, *sorted;
    int64_t count = job->op == LINE_SORT ? job->length : job->op == LINE_TOPK ? job->k : 1, first = 0;
    if (job->op == LINE_TOPK && job->k <= job->length / 8) {
        sorted = select_first(job, data[2], items);
    } else {
        load_line(job, data[2], items);
        sorted = tn_rank(items, other, job->length);
    }
    if (job->op == LINE_KTH)
        first = job->k - 1;
    else if (job->op == LINE_MEDIAN || job->op == LINE_NANMEDIAN)
        first = median_rank(job, sorted);
    else if (job->op == LINE_MODE)
        first = mode_rank(job, sorted);
    for (int64_t i = 0; i < count; i++)
        put(job, data, i, sorted[first + i].index);
}

static void run_lines(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    line_job *job = context;
    tn_ranked *items = tn_scratch(0, sizeof *items * 2 * (size_t)tn_max(job->length, 1));
    if (!items) {
        __atomic_store_n(&job->failed, true, __ATOMIC_RELAXED);
        return;
    }
    for (int64_t lane = 0; lane < n; lane++) {
        char *line[3] = {data[0] + lane * strides[0], data[1] + lane * strides[1],
                         data[2] + lane * strides[2]};
        one_line(job, line, items);
    }
}

/* Outputs values and indices (int64) with self's other dimensions; scalars dim, k, descending, op. */
tn_status TN_KERNEL(sort)(const tn_launch_desc *launch)
{
    const tn_operand *values = tn_output(launch, 0), *indices = tn_output(launch, 1);
    const tn_operand *self = tn_input(launch, 0);
    int64_t dim = launch->scalars[0].i, size = tn_operand_itemsize(self);
    line_job job = {.length = 1,
                    .k = launch->scalars[1].i,
                    .itemsize = size,
                    .flip = launch->scalars[2].i ? UINT64_MAX : 0,
                    .dtype = self->dtype,
                    .op = (line_op)launch->scalars[3].i};
    tn_nest_init(&job.lanes, 3);
    for (int d = self->ndim - 1; d >= 0; d--) {
        int64_t strides[3] = {values->strides[d] * size, indices->strides[d] * 8, self->strides[d] * size};
        if (d == dim) {
            job.length = self->sizes[d];
            memcpy(job.strides, strides, sizeof strides);
        } else {
            tn_nest_push(&job.lanes, self->sizes[d], strides);
        }
    }
    job.lanes.data[0] = values->data;
    job.lanes.data[1] = indices->data;
    job.lanes.data[2] = self->data;
    tn_nest_run(&job.lanes, tn_max(1, GRAIN / tn_max(job.length, 1)), run_lines, &job);
    return job.failed ? tn_fail(TN_ERROR_OUT_OF_MEMORY, "sort: out of host memory for a line of %lld",
                                (long long)job.length)
                      : TN_OK;
}

/* What a mask selects: nonzero, masked_select, masked_scatter.
 *
 * The mask is cut into chunks of fixed length. A first pass counts each chunk; the exclusive sums tell
 * every chunk where its results begin, so that the second pass writes in parallel and in order. The size
 * of the result is the last sum, which the caller reads before it allocates. */
#include "kernel/nest.h"
#include "kernel/move_rows.h"

enum { CHUNK = 4096 };

static inline bool is_set(const char *p, uint8_t dtype)
{
    const void *at = p;
    switch (dtype) {
    case TN_FLOAT64: return *(const double *)at != 0;
    case TN_FLOAT32: return *(const float *)at != 0;
    case TN_FLOAT16:
    case TN_BFLOAT16: return (*(const uint16_t *)at & 0x7fff) != 0;
    case TN_COMPLEX64: return ((const float *)at)[0] != 0 || ((const float *)at)[1] != 0;
    case TN_COMPLEX128: return ((const double *)at)[0] != 0 || ((const double *)at)[1] != 0;
    case TN_INT64:
    case TN_UINT64: return *(const int64_t *)at != 0;
    case TN_INT32:
    case TN_UINT32: return *(const int32_t *)at != 0;
    case TN_INT16:
    case TN_UINT16: return *(const int16_t *)at != 0;
    default: return *p != 0;
    }
}

typedef struct count_job {
    const tn_nest *nest; /* operand 0 is the mask */
    int64_t *counts;
    uint8_t dtype;
} count_job;

typedef struct counter {
    int64_t count;
    uint8_t dtype;
} counter;

static void count_row(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    counter *c = context;
    const char *p = data[0];
    int64_t count = 0, stride = strides[0];
    if (c->dtype == TN_BOOL && stride == 1) {
        for (int64_t i = 0; i < n; i++)
            count += p[i] != 0;
    } else {
        for (int64_t i = 0; i < n; i++)
            count += is_set(p + i * stride, c->dtype);
    }
    c->count += count;
}

static void count_chunks(void *context, int64_t begin, int64_t end)
{
    const count_job *job = context;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        counter c = {0, job->dtype};
        int64_t stop = tn_min((chunk + 1) * CHUNK, job->nest->numel);
        tn_nest_range(job->nest, chunk * CHUNK, stop, count_row, &c);
        job->counts[chunk] = c.count;
    }
}

static int64_t chunks_of(int64_t numel)
{
    return (numel + CHUNK - 1) / CHUNK;
}

/* counts [chunks + 1]: exclusive sums, the last one is the total. */
static void count_and_sum(const tn_nest *nest, uint8_t dtype, int64_t *counts)
{
    count_job job = {nest, counts, dtype};
    int64_t chunks = chunks_of(nest->numel), sum = 0;
    tn_parallel_for(chunks, 8, count_chunks, &job);
    for (int64_t i = 0; i < chunks; i++) {
        int64_t count = counts[i];
        counts[i] = sum;
        sum += count;
    }
    counts[chunks] = sum;
}

/* Output counts [ceil(numel / 4096) + 1] int64, contiguous; input the mask. */
tn_status TN_KERNEL(mask_count)(const tn_launch_desc *launch)
{
    const tn_operand *mask = tn_input(launch, 0);
    tn_nest nest;
    tn_nest_of(&nest, 1, &mask);
    count_and_sum(&nest, mask->dtype, tn_output(launch, 0)->data);
    return TN_OK;
}

typedef struct write_job {
    const tn_nest *nest; /* operand 0 the mask, 1 what is selected or overwritten */
    const int64_t *counts;
    const tn_operand *mask;
    char *out; /* nonzero: [n, ndim]; masked_select: [n]; masked_scatter: the source */
    int64_t out_stride, out_inner, itemsize, limit;
    bool scatter;
} write_job;

typedef struct writer {
    const write_job *job;
    int64_t at;     /* next result */
    int64_t linear; /* nonzero: row-major position of the next mask element */
} writer;

static void write_coordinates(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    writer *w = context;
    const write_job *job = w->job;
    const tn_operand *mask = job->mask;
    for (int64_t i = 0; i < n; i++, w->linear++) {
        if (!is_set(data[0] + i * strides[0], mask->dtype) || w->at >= job->limit)
            continue;
        char *row = job->out + w->at++ * job->out_stride;
        int64_t rest = w->linear;
        for (int d = mask->ndim - 1; d >= 0; d--) {
            *(int64_t *)(void *)(row + d * job->out_inner) = rest % mask->sizes[d];
            rest /= mask->sizes[d];
        }
    }
}

static void write_elements(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    writer *w = context;
    const write_job *job = w->job;
    size_t size = (size_t)job->itemsize;
    for (int64_t i = 0; i < n; i++) {
        if (!data[0][i * strides[0]] || w->at >= job->limit)
            continue;
        char *element = data[1] + i * strides[1], *packed = job->out + w->at++ * job->out_stride;
        if (job->scatter)
            memcpy(element, packed, size);
        else
            memcpy(packed, element, size);
    }
}

static void write_chunks(const write_job *job, int64_t begin, int64_t end, tn_nest_body body)
{
    for (int64_t chunk = begin; chunk < end; chunk++) {
        writer w = {job, job->counts[chunk], chunk * CHUNK};
        if (job->counts[chunk + 1] == job->counts[chunk])
            continue;
        tn_nest_range(job->nest, chunk * CHUNK, tn_min((chunk + 1) * CHUNK, job->nest->numel), body, &w);
    }
}

static void nonzero_chunks(void *context, int64_t begin, int64_t end)
{
    write_chunks(context, begin, end, write_coordinates);
}

static void element_chunks(void *context, int64_t begin, int64_t end)
{
    write_chunks(context, begin, end, write_elements);
}

/* Output [n, ndim] int64; inputs the mask and its counts. */
tn_status TN_KERNEL(nonzero)(const tn_launch_desc *launch)
{
    const tn_operand *out = tn_output(launch, 0), *mask = tn_input(launch, 0);
    tn_nest nest;
    tn_nest_of(&nest, 1, &mask);
    write_job job = {.nest = &nest,
                     .counts = tn_input(launch, 1)->data,
                     .mask = mask,
                     .out = out->data,
                     .out_stride = out->strides[0] * 8,
                     .out_inner = mask->ndim ? out->strides[1] * 8 : 0,
                     .limit = out->sizes[0]};
    tn_parallel_for(chunks_of(nest.numel), 4, nonzero_chunks, &job);
    return TN_OK;
}

/* Output [n]; inputs self and mask of one shape, counts of the mask. */
tn_status TN_KERNEL(masked_select)(const tn_launch_desc *launch)
{
    const tn_operand *out = tn_output(launch, 0), *self = tn_input(launch, 0);
    const tn_operand *both[] = {tn_input(launch, 1), self};
    tn_nest nest;
    tn_nest_of(&nest, 2, both);
    write_job job = {.nest = &nest,
                     .counts = tn_input(launch, 2)->data,
                     .out = out->data,
                     .itemsize = tn_operand_itemsize(self),
                     .out_stride = out->strides[0] * tn_operand_itemsize(self),
                     .limit = out->sizes[0]};
    tn_parallel_for(chunks_of(nest.numel), 4, element_chunks, &job);
    return TN_OK;
}

/* Output self (read and written); inputs mask of its shape, source [n] contiguous. */
tn_status TN_KERNEL(masked_scatter)(const tn_launch_desc *launch)
{
    const tn_operand *self = tn_output(launch, 0), *source = tn_input(launch, 1);
    const tn_operand *both[] = {tn_input(launch, 0), self};
    tn_nest nest;
    tn_nest_of(&nest, 2, both);
    int64_t chunks = chunks_of(nest.numel);
    int64_t *counts = tn_scratch(0, (size_t)(chunks + 1) * sizeof *counts);
    if (!counts)
        return TN_ERROR_OUT_OF_MEMORY;
    count_and_sum(&nest, TN_BOOL, counts);
    write_job job = {.nest = &nest,
                     .counts = counts,
                     .out = source->data,
                     .itemsize = tn_operand_itemsize(self),
                     .out_stride = tn_operand_itemsize(self),
                     .limit = tn_operand_numel(source),
                     .scatter = true};
    tn_parallel_for(chunks, 4, element_chunks, &job);
    if (counts[chunks] > job.limit)
        return tn_fail(TN_ERROR_RUNTIME,
                       "Number of elements of source < number of ones in mask: %lld < %lld",
                       (long long)job.limit, (long long)counts[chunks]);
    return TN_OK;
}

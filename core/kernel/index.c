/* Whole rows addressed by index tensors: index, index_select, take, embedding and their inverses.
 *
 * The index tensors share one shape of `count` positions; position i names the element of self at
 * offsets[i] in the indexed dimensions. What is left of self's dimensions is a *block*, split into an
 * inner contiguous-as-possible row and a prefix nest. So every op here is: for each prefix, for each
 * position, one row between self and the other tensor (the result of a get, the values of a put).
 *
 * Puts are ordered by destination: positions are sorted by offset (stable), a group of equal offsets is
 * one unit of work, and combines its rows in the order of positions. That gives the bits of a serial loop
 * whatever the number of threads; sums of bf16 and fp16 are rounded once per group. */
#include "kernel/accumulate.h"
#include "kernel/nest.h"
#include "kernel/move_rows.h"

enum { ROW_GRAIN_BYTES = 1 << 16, SERIAL_POSITIONS = 2048 };

/* How an index is read and what its fault is called; the first scalar of every op here. */
typedef enum index_rule {
    RULE_INDEX = 0,  /* negative wraps; "index 5 is out of bounds for dimension 0 with size 3" */
    RULE_SELECT = 1, /* no wrap; "index out of range in self" */
    RULE_TAKE = 2,   /* wraps over all elements */
    RULE_COPY = 3,   /* no wrap; index_copy_'s text */
    RULE_ADD = 4     /* no wrap; RULE_INDEX's text as a RuntimeError */
} index_rule;

typedef struct plan {
    int64_t count;          /* index positions */
    int64_t *offsets;       /* [count] bytes into self, -1: skipped */
    int64_t *other_offsets; /* [count] bytes into the other tensor */
    int64_t row, row_self, row_other; /* elements of a row and its byte strides */
    tn_nest prefix;                   /* operand 0 self, operand 1 the other */
    int64_t itemsize;
    char *self, *other;
} plan;

/* ---- offsets --------------------------------------------------------------------------------- */

typedef struct read_job {
    int64_t *offsets;
    const int64_t *first; /* start of offsets */
    int64_t size, stride; /* of the indexed dimension */
    int64_t skip;         /* an index that is passed over, or INT64_MIN */
    const tn_operand *self; /* RULE_TAKE: offset of a linear element */
    index_rule rule;
    uint8_t dtype;
    tn_fault fault;
} read_job;

static int64_t linear_offset(const tn_operand *self, int64_t element)
{
    int64_t offset = 0;
    for (int d = self->ndim - 1; d >= 0; d--) {
        offset += element % self->sizes[d] * self->strides[d];
        element /= self->sizes[d];
    }
    return offset * tn_operand_itemsize(self);
}

static void read_indices(void *context, int64_t n, char *const *data, const int64_t *strides)
{
    read_job *job = context;
    int64_t *offsets = (int64_t *)(void *)data[0];
    for (int64_t i = 0; i < n; i++) {
        int64_t index = tn_index_at(data[1] + i * strides[1], job->dtype);
        if (index == job->skip) {
            offsets[i] = -1;
            continue;
        }
        int64_t wrapped = index;
        if (index < 0 && (job->rule == RULE_INDEX || job->rule == RULE_TAKE))
            wrapped += job->size;
        if (wrapped < 0 || wrapped >= job->size) {
            tn_fault_at(&job->fault, offsets + i - job->first);
            offsets[i] = -1;
        } else if (offsets[i] >= 0) {
            offsets[i] += job->self ? linear_offset(job->self, wrapped) : wrapped * job->stride;
        }
    }
}

static tn_status index_fault(index_rule rule, int64_t index, int64_t dim, int64_t size)
{
    long long i = (long long)index, d = (long long)dim, s = (long long)size;
    switch (rule) {
    case RULE_SELECT: return tn_fail(TN_ERROR_INDEX, "index out of range in self");
    case RULE_TAKE:
        return tn_fail(TN_ERROR_INDEX,
                       "out of range: tried to access index %lld on a tensor of %lld elements.", i, s);
    case RULE_COPY:
        return tn_fail(TN_ERROR_INDEX,
                       "index_copy_(): index %lld is out of bounds for dimension %lld with size %lld",
                       i, d, s);
    default:
        return tn_fail(rule == RULE_ADD ? TN_ERROR_RUNTIME : TN_ERROR_INDEX,
                       "index %lld is out of bounds for dimension %lld with size %lld", i, d, s);
    }
}

/* Adds one index tensor's share to every offset. `shape` has the common shape of all of them. */
static tn_status add_index(plan *p, const tn_operand *shape, const tn_operand *index, index_rule rule,
                           int64_t dim, const tn_operand *self, int64_t skip)
{
    tn_nest nest;
    tn_nest_init(&nest, 2);
    int64_t step = 8;
    for (int d = shape->ndim - 1; d >= 0; d--) {
        int64_t strides[2] = {step, tn_broadcast_stride(index, d, shape->ndim)};
        tn_nest_push(&nest, shape->sizes[d], strides);
        step *= shape->sizes[d];
    }
    nest.data[0] = (char *)p->offsets;
    nest.data[1] = index->data;
    read_job job = {.offsets = p->offsets,
                    .first = p->offsets,
                    .skip = skip,
                    .rule = rule,
                    .dtype = index->dtype,
                    .fault = {INT64_MAX}};
    if (rule == RULE_TAKE) {
        job.size = tn_operand_numel(self);
        job.self = self;
        if (tn_operand_is_contiguous(self)) {
            job.self = NULL;
            job.stride = p->itemsize;
        }
    } else {
        job.size = self->ndim ? self->sizes[dim] : 1;
        job.stride = self->ndim ? self->strides[dim] * p->itemsize : 0;
    }
    tn_nest_run(&nest, 1 << 15, read_indices, &job);
    if (job.fault.position == INT64_MAX)
        return TN_OK;
    const char *at = nest.data[1] + tn_nest_offset(&nest, 1, job.fault.position);
    return index_fault(rule, tn_index_at(at, index->dtype), dim, job.size);
}

/* ---- the plan -------------------------------------------------------------------------------- */

/* The common broadcast shape of the index tensors; sizes is caller's storage. */
static tn_operand common_shape(const tn_operand *indices, int count, int64_t *sizes)
{
    tn_operand shape = {.sizes = sizes};
    for (int i = 0; i < count; i++)
        shape.ndim = (int32_t)tn_max(shape.ndim, indices[i].ndim);
    for (int d = 0; d < shape.ndim; d++)
        sizes[d] = 1;
    for (int i = 0; i < count; i++)
        for (int d = 0; d < indices[i].ndim; d++)
            if (indices[i].sizes[d] != 1)
                sizes[d + shape.ndim - indices[i].ndim] = indices[i].sizes[d];
    return shape;
}

/* Dimensions of the other tensor: index dimensions stand at the first indexed dimension when the indexed
 * ones are neighbours, else in front. They are described by [start, start + shape->ndim). */
static int index_start(const int64_t *dims, int count)
{
    for (int i = 1; i < count; i++)
        if (dims[i] != dims[i - 1] + 1)
            return 0;
    return (int)dims[0];
}

static void fill_other_offsets(plan *p, const tn_operand *shape, const tn_operand *other, int start,
                               int other_ndim)
{
    int64_t index[TN_MAX_DIMS] = {0}, offset = 0;
    for (int64_t i = 0; i < p->count; i++) {
        p->other_offsets[i] = offset;
        for (int d = shape->ndim - 1; d >= 0; d--) {
            int64_t stride = tn_broadcast_stride(other, start + d, other_ndim);
            offset += stride;
            if (++index[d] < shape->sizes[d])
                break;
            offset -= stride * shape->sizes[d];
            index[d] = 0;
        }
    }
}

/* The dimensions of self that are not indexed, innermost first, as a nest with a row cut off. */
static void cut_rows(plan *p, const tn_operand *self, const tn_operand *other, const int64_t *dims,
                     int dim_count, int index_ndim, int start, int other_ndim)
{
    tn_nest *nest = &p->prefix;
    tn_nest_init(nest, 2);
    for (int d = self->ndim - 1; d >= 0; d--) {
        int before = 0;
        bool indexed = false;
        for (int i = 0; i < dim_count; i++) {
            indexed = indexed || dims[i] == d;
            before += dims[i] < d;
        }
        if (indexed)
            continue;
        int other_dim = d - before; /* among the dimensions that are left */
        if (other_dim >= start)
            other_dim += index_ndim;
        int64_t strides[2] = {self->strides[d] * p->itemsize,
                              tn_broadcast_stride(other, other_dim, other_ndim)};
        tn_nest_push(nest, self->sizes[d], strides);
    }
    p->row = 1;
    if (nest->ndim > 0) {
        p->row = nest->sizes[0];
        p->row_self = nest->strides[0][0];
        p->row_other = nest->strides[0][1];
        nest->ndim--;
        nest->numel /= p->row > 0 ? p->row : 1;
        for (int d = 0; d < nest->ndim; d++) {
            nest->sizes[d] = nest->sizes[d + 1];
            nest->strides[d][0] = nest->strides[d + 1][0];
            nest->strides[d][1] = nest->strides[d + 1][1];
        }
    } else {
        p->row_self = p->row_other = p->itemsize;
    }
}

/* scalars: rule, then one dimension of self per index tensor. The fault of a bad index comes back in
 * *out_fault; the plan then skips its position. */
static tn_status make_plan(plan *p, const tn_operand *self, const tn_operand *other,
                           const tn_operand *indices, int index_count, const tn_scalar *scalars,
                           int64_t skip, tn_status *out_fault)
{
    int64_t sizes[TN_MAX_DIMS], dims[TN_MAX_DIMS];
    index_rule rule = (index_rule)scalars[0].i;
    for (int i = 0; i < index_count; i++)
        dims[i] = scalars[1 + i].i;
    tn_operand shape = common_shape(indices, index_count, sizes);
    p->itemsize = tn_operand_itemsize(self);
    p->self = self->data;
    p->other = other->data;
    p->count = tn_operand_numel(&shape);
    p->offsets = tn_scratch(0, (size_t)p->count * 16);
    if (!p->offsets)
        return TN_ERROR_OUT_OF_MEMORY;
    p->other_offsets = p->offsets + p->count;
    memset(p->offsets, 0, (size_t)p->count * 8);
    *out_fault = TN_OK;
    for (int i = 0; i < index_count; i++) {
        tn_status status = add_index(p, &shape, &indices[i], rule, dims[i], self, skip);
        *out_fault = *out_fault == TN_OK ? status : *out_fault;
    }
    bool all = rule == RULE_TAKE || self->ndim == 0;
    int start = all ? 0 : index_start(dims, index_count);
    int left = all ? 0 : self->ndim - index_count, other_ndim = shape.ndim + left;
    fill_other_offsets(p, &shape, other, start, other_ndim);
    if (all) {
        tn_nest_init(&p->prefix, 2);
        p->row = 1;
        p->row_self = p->row_other = p->itemsize;
    } else {
        cut_rows(p, self, other, dims, index_count, shape.ndim, start, other_ndim);
    }
    return TN_OK;
}

static int64_t row_grain(const plan *p)
{
    int64_t bytes = p->row * p->itemsize;
    return tn_max(1, ROW_GRAIN_BYTES / tn_max(bytes, 16));
}

/* ---- get -------------------------------------------------------------------------------------- */

static void get_rows(void *context, int64_t begin, int64_t end)
{
    const plan *p = context;
    while (begin < end) {
        int64_t outer = begin / p->count, i = begin % p->count;
        int64_t stop = tn_min(p->count, i + end - begin);
        const char *self = p->self + tn_nest_offset(&p->prefix, 0, outer);
        char *out = p->other + tn_nest_offset(&p->prefix, 1, outer);
        begin += stop - i;
        if (p->row == 1 && p->itemsize == 4) {
            for (; i < stop; i++)
                if (p->offsets[i] >= 0)
                    memcpy(out + p->other_offsets[i], self + p->offsets[i], 4);
        } else {
            for (; i < stop; i++)
                if (p->offsets[i] >= 0)
                    tn_row_copy(out + p->other_offsets[i], p->row_other, self + p->offsets[i],
                                p->row_self, p->row, p->itemsize);
        }
    }
}

tn_status TN_KERNEL(index_get)(const tn_launch_desc *launch)
{
    plan p;
    tn_status fault;
    tn_status status = make_plan(&p, tn_input(launch, 0), tn_output(launch, 0), tn_input(launch, 1),
                                 launch->num_operands - 2, launch->scalars, INT64_MIN, &fault);
    if (status != TN_OK)
        return status;
    if (p.count > 0 && p.row > 0)
        tn_parallel_for(p.count * p.prefix.numel, row_grain(&p), get_rows, &p);
    return fault;
}

/* ---- put -------------------------------------------------------------------------------------- */

typedef struct put_job {
    plan p;
    const int64_t *order; /* positions sorted by offset; NULL: in order, serial */
    const tn_accumulator *accumulator;
    tn_combine combine;
    bool mean; /* divide each group by the number of rows that it combines */
    bool include_self; /* what was there is one of them */
    bool failed;
} put_job;

/* One group of positions with equal offsets. */
static void put_group(const put_job *job, const int64_t *group, int64_t count, char *self,
                      const char *values, void *accumulators)
{
    const plan *p = &job->p;
    char *out = self + p->offsets[group[0]];
    if (job->combine == TN_COMBINE_SET) {
        const char *last = values + p->other_offsets[group[count - 1]];
        tn_row_copy(out, p->row_self, last, p->row_other, p->row, p->itemsize);
        return;
    }
    if (job->include_self)
        job->accumulator->load(accumulators, out, p->row_self, p->row);
    else
        for (int64_t i = 0; i < p->row; i++)
            job->accumulator->identity((char *)accumulators + (size_t)i * job->accumulator->size,
                                       job->combine);
    for (int64_t i = 0; i < count; i++)
        job->accumulator->combine[job->combine](accumulators, values + p->other_offsets[group[i]],
                                                p->row_other, p->row);
    if (job->mean)
        job->accumulator->divide(accumulators, count + job->include_self, p->row);
    job->accumulator->store(out, p->row_self, accumulators, p->row);
}

/* Sorted positions [begin, end) of one prefix; a group belongs to the range in which it begins. */
static void put_segment(const put_job *job, int64_t outer, int64_t begin, int64_t end,
                        void *accumulators)
{
    const plan *p = &job->p;
    const int64_t *order = job->order;
    char *self = p->self + tn_nest_offset(&p->prefix, 0, outer);
    const char *values = p->other + tn_nest_offset(&p->prefix, 1, outer);
    while (begin > 0 && begin < end && p->offsets[order[begin]] == p->offsets[order[begin - 1]])
        begin++;
    while (begin < end) {
        int64_t stop = begin + 1;
        while (stop < p->count && p->offsets[order[stop]] == p->offsets[order[begin]])
            stop++;
        if (p->offsets[order[begin]] >= 0)
            put_group(job, order + begin, stop - begin, self, values, accumulators);
        begin = stop;
    }
}

static void put_rows(void *context, int64_t begin, int64_t end)
{
    put_job *job = context;
    void *accumulators = NULL;
    if (job->combine != TN_COMBINE_SET) {
        accumulators = tn_scratch(1, job->accumulator->size * (size_t)job->p.row);
        if (!accumulators) {
            __atomic_store_n(&job->failed, true, __ATOMIC_RELAXED);
            return;
        }
    }
    while (begin < end) {
        int64_t outer = begin / job->p.count, i = begin % job->p.count;
        int64_t stop = tn_min(job->p.count, i + end - begin);
        put_segment(job, outer, i, stop, accumulators);
        begin += stop - i;
    }
}

/* Stable least-significant-digit radix sort of positions by offset (bytes that all share are skipped). */
static int64_t *sort_positions(const plan *p)
{
    int64_t *order = tn_scratch(2, (size_t)p->count * 16), *other = order + p->count, varying = 0;
    if (!order)
        return NULL;
    for (int64_t i = 0; i < p->count; i++) {
        order[i] = i;
        varying |= p->offsets[i] ^ p->offsets[0];
    }
    for (int shift = 0; shift < 64; shift += 8) {
        int64_t starts[256] = {0}, sum = 0;
        if (((uint64_t)varying >> shift & 255) == 0)
            continue;
        for (int64_t i = 0; i < p->count; i++)
            starts[(uint64_t)p->offsets[i] >> shift & 255]++;
        for (int b = 0; b < 256; b++) {
            int64_t bucket = starts[b];
            starts[b] = sum;
            sum += bucket;
        }
        for (int64_t i = 0; i < p->count; i++)
            other[starts[(uint64_t)p->offsets[order[i]] >> shift & 255]++] = order[i];
        int64_t *swap = order;
        order = other;
        other = swap;
    }
    return order;
}

/* Overwriting in the order of positions leaves the last one, as the sorted way does. */
static void put_in_order(const plan *p)
{
    for (int64_t outer = 0; outer < p->prefix.numel; outer++) {
        char *self = p->self + tn_nest_offset(&p->prefix, 0, outer);
        const char *values = p->other + tn_nest_offset(&p->prefix, 1, outer);
        for (int64_t i = 0; i < p->count; i++)
            if (p->offsets[i] >= 0)
                tn_row_copy(self + p->offsets[i], p->row_self, values + p->other_offsets[i],
                            p->row_other, p->row, p->itemsize);
    }
}

/* Output self (read and written); inputs values (broadcast to the indexed shape), indices...;
 * scalars rule, combine, mean, include_self, skip (an index to pass over, -1: none), dims... */
tn_status TN_KERNEL(index_put)(const tn_launch_desc *launch)
{
    const tn_scalar *s = launch->scalars;
    const tn_operand *self = tn_output(launch, 0);
    int index_count = launch->num_operands - 2;
    tn_scalar rule_and_dims[1 + TN_MAX_DIMS];
    rule_and_dims[0] = s[0];
    for (int i = 0; i < index_count; i++)
        rule_and_dims[1 + i] = s[5 + i];
    put_job job = {.combine = (tn_combine)s[1].i, .mean = s[2].i != 0, .include_self = s[3].i != 0};
    tn_status fault;
    tn_status status = make_plan(&job.p, self, tn_input(launch, 0), tn_input(launch, 1), index_count,
                                 rule_and_dims, s[4].i < 0 ? INT64_MIN : s[4].i, &fault);
    if (status != TN_OK)
        return status;
    job.accumulator = tn_accumulator_of(self->dtype);
    if (job.combine != TN_COMBINE_SET && (!job.accumulator || !job.accumulator->combine[job.combine]))
        return tn_fail(TN_ERROR_NOT_IMPLEMENTED, "\"index_put\" not implemented for '%s'",
                       tn_dtype_name((tn_dtype)self->dtype));
    if (job.p.count == 0 || job.p.row == 0)
        return fault;
    if (job.combine == TN_COMBINE_SET &&
        job.p.count * job.p.prefix.numel * tn_max(job.p.row, 4) < SERIAL_POSITIONS) {
        put_in_order(&job.p);
        return fault;
    }
    job.order = sort_positions(&job.p);
    if (!job.order)
        return TN_ERROR_OUT_OF_MEMORY;
    tn_parallel_for(job.p.count * job.p.prefix.numel, row_grain(&job.p), put_rows, &job);
    return job.failed ? tn_fail(TN_ERROR_OUT_OF_MEMORY, "out of host memory for a row of sums") : fault;
}

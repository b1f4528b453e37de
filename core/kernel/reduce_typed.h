/* The reduction engine for one compute type. Included once per type by reduce.c, with
 *   T         the compute type           NAME(x)   x with the type's suffix
 *   LOAD      its row loader (tn_load_*)  ROW       its row in place or loaded (tn_row_*)
 *   STORE     its row store
 * defined by the includer. */

typedef struct NAME(rule) {
    T identity;
    T (*block)(const T *x, int64_t n);                   /* lanes, then their tree */
    void (*fold)(T *acc, const T *x, int64_t n);         /* acc[j] = acc[j] op x[j] */
    void (*fold4)(T *acc, const T *const *x, int64_t n); /* four rows at once, as a tree */
    /* NULL, or applied to what is loaded; center: of output j at center[j * step] */
    void (*map)(const tn_reduce_plan *plan, const T *x, T *y, int64_t n, const T *center, int step);
    void (*finish)(const tn_reduce_plan *plan, T *acc, int64_t n); /* or NULL */
    bool nonzero; /* loads 0 or 1 instead of the value */
} NAME(rule);

typedef struct NAME(job) {
    const tn_reduce_plan *plan;
    const NAME(rule) *rule;
    const tn_operand *out; /* stored as the plan's tensor `slot`, or NULL */
    int slot;
    const T *center; /* per output, or NULL */
    T *partials;     /* [segments][outputs] */
    T *results;      /* [outputs], when not stored to `out` */
    bool *failed;    /* set by a thread that finds no memory */
} NAME(job);

/* Pairwise combination of a sequence of unknown length: partial[l] stands for 2^l of its members. */
typedef struct NAME(cascade) {
    T partial[48];
    uint64_t count;
} NAME(cascade);

static void NAME(push)(NAME(cascade) *cascade, const NAME(rule) *rule, T value)
{
    int level = 0;
    for (uint64_t c = cascade->count; c & 1; c >>= 1, level++) {
        T sum = cascade->partial[level];
        rule->fold(&sum, &value, 1);
        value = sum;
    }
    cascade->partial[level] = value;
    cascade->count++;
}

static T NAME(total)(const NAME(cascade) *cascade, const NAME(rule) *rule)
{
    T value = rule->identity;
    bool any = false;
    for (int level = 0; level < 48; level++) {
        if (!(cascade->count >> level & 1))
            continue;
        T sum = cascade->partial[level];
        if (any)
            rule->fold(&sum, &value, 1);
        value = sum;
        any = true;
    }
    return value;
}

static const T *NAME(load)(const NAME(job) *job, const char *in, int64_t stride, T *buffer,
                           int64_t n)
{
    return ROW(in, stride, job->plan->in_dtype, buffer, n, job->rule->nonzero);
}

/* Elements [begin, begin + n) of the reduced axes of one output, dense and mapped. */
static const T *NAME(gather)(const NAME(job) *job, const char *in, int64_t begin, int64_t n,
                             T *buffer, const T *center)
{
    const tn_axes *axes = &job->plan->axes;
    int64_t run = tn_axes_inner_size(axes->reduced, axes->num_reduced);
    int64_t stride = tn_axes_inner_stride(axes->reduced, axes->num_reduced, 0);
    const T *row = buffer;
    if (begin / run == (begin + n - 1) / run) {
        const char *first = in + tn_axes_offset(axes->reduced, axes->num_reduced, 0, begin);
        row = NAME(load)(job, first, stride, buffer, n);
    } else {
        for (int64_t done = 0; done < n;) {
            int64_t at = begin + done, left = run - at % run;
            int64_t piece = left < n - done ? left : n - done;
            const char *first = in + tn_axes_offset(axes->reduced, axes->num_reduced, 0, at);
            const T *part = NAME(load)(job, first, stride, buffer + done, piece);
            if (part != buffer + done)
                memcpy(buffer + done, part, (size_t)piece * sizeof(T));
            done += piece;
        }
    }
    if (!job->rule->map)
        return row;
    job->rule->map(job->plan, row, buffer, n, center, 0);
    return buffer;
}

static T NAME(reduce_row)(const NAME(job) *job, const char *in, int64_t begin, int64_t count,
                          const T *center)
{
    T buffer[TN_REDUCE_BLOCK];
    if (count <= 0)
        return job->rule->identity;
    if (count <= TN_REDUCE_BLOCK)
        return job->rule->block(NAME(gather)(job, in, begin, count, buffer, center), count);
    NAME(cascade) cascade;
    cascade.count = 0;
    for (int64_t done = 0; done < count; done += TN_REDUCE_BLOCK) {
        int64_t n = count - done < TN_REDUCE_BLOCK ? count - done : TN_REDUCE_BLOCK;
        const T *row = NAME(gather)(job, in, begin + done, n, buffer, center);
        NAME(push)(&cascade, job->rule, job->rule->block(row, n));
    }
    return NAME(total)(&cascade, job->rule);
}

/* ---- across columns ---------------------------------------------------------------------------- */

/* Folds up to 32 rows of `width` columns, four at a time, into acc. */
static void NAME(fold_rows)(const NAME(job) *job, const char *in, int64_t begin, int64_t rows,
                            int64_t width, const T *center, T *acc)
{
    const tn_axes *axes = &job->plan->axes;
    int64_t run = tn_axes_inner_size(axes->reduced, axes->num_reduced);
    int64_t stride = tn_axes_inner_stride(axes->reduced, axes->num_reduced, 0);
    int64_t item = (int64_t)tn_dtype_size((tn_dtype)job->plan->in_dtype);
    T buffer[4][TN_REDUCE_TILE];
    const T *loaded[4];
    const char *row = NULL;
    int64_t left = 0, held = 0;
    for (int64_t r = 0; r < rows; r++, row += stride, left--) {
        if (left == 0) {
            row = in + tn_axes_offset(axes->reduced, axes->num_reduced, 0, begin + r);
            left = run - (begin + r) % run;
        }
        loaded[held] = NAME(load)(job, row, item, buffer[held], width);
        if (job->rule->map) {
            job->rule->map(job->plan, loaded[held], buffer[held], width, center, 1);
            loaded[held] = buffer[held];
        }
        if (++held == 4) {
            job->rule->fold4(acc, loaded, width);
            held = 0;
        }
    }
    for (int64_t h = 0; h < held; h++)
        job->rule->fold(acc, loaded[h], width);
}

static void NAME(reduce_columns)(const NAME(job) *job, const char *in, int64_t begin, int64_t count,
                                 int64_t width, const T *center, T *out)
{
    enum { GROUP = 32 };
    int64_t groups = (count + GROUP - 1) / GROUP;
    int levels = 1;
    while ((int64_t)1 << levels <= groups)
        levels++;
    T small[2][TN_REDUCE_TILE];
    T *partial = levels <= 1 ? small[1] : tn_scratch(1, (size_t)(levels * width) * sizeof(T));
    T *acc = small[0];
    for (int64_t j = 0; j < width; j++)
        out[j] = job->rule->identity;
    if (!partial) {
        __atomic_store_n(job->failed, true, __ATOMIC_RELAXED);
        return;
    }
    for (int64_t g = 0; g < groups; g++) {
        int64_t rows = count - g * GROUP < GROUP ? count - g * GROUP : GROUP;
        for (int64_t j = 0; j < width; j++)
            acc[j] = job->rule->identity;
        NAME(fold_rows)(job, in, begin + g * GROUP, rows, width, center, acc);
        int level = 0;
        for (int64_t c = g; c & 1; c >>= 1, level++) {
            job->rule->fold(partial + level * width, acc, width);
            memcpy(acc, partial + level * width, (size_t)width * sizeof(T));
        }
        memcpy(partial + level * width, acc, (size_t)width * sizeof(T));
    }
    bool any = false;
    for (int level = 0; level < levels; level++) {
        if (!(groups >> level & 1))
            continue;
        if (any)
            job->rule->fold(partial + level * width, out, width);
        memcpy(out, partial + level * width, (size_t)width * sizeof(T));
        any = true;
    }
}

/* ---- tiles and segments -------------------------------------------------------------------------- */

/* Reduced indices [begin, begin + count) of the tile's outputs. */
static void NAME(reduce_tile)(const NAME(job) *job, const tn_reduce_tile *tile, int64_t begin,
                              int64_t count, const T *center, T *out)
{
    const tn_reduce_plan *plan = job->plan;
    const tn_axes *axes = &plan->axes;
    const char *in = plan->in + tile->offset[0];
    if (plan->columns) {
        NAME(reduce_columns)(job, in, begin, count, tile->width, center, out);
        return;
    }
    int64_t stride = tn_axes_inner_stride(axes->kept, axes->num_kept, 0);
    for (int64_t i = 0; i < tile->width; i++)
        out[i] = NAME(reduce_row)(job, in + i * stride, begin, count, center ? center + i : NULL);
}

static void NAME(deliver)(const NAME(job) *job, const tn_reduce_tile *tile, T *results)
{
    const tn_axes *axes = &job->plan->axes;
    if (job->rule->finish)
        job->rule->finish(job->plan, results, tile->width);
    if (job->results)
        memcpy(job->results + tile->first, results, (size_t)tile->width * sizeof(T));
    if (job->out)
        STORE((char *)job->out->data + tile->offset[job->slot],
              tn_axes_inner_stride(axes->kept, axes->num_kept, job->slot), job->out->dtype,
              results, tile->width);
}

static void NAME(run_tiles)(void *context, int64_t begin, int64_t end)
{
    const NAME(job) *job = context;
    T results[TN_REDUCE_TILE];
    for (int64_t i = begin; i < end; i++) {
        tn_reduce_tile tile = tn_reduce_tile_at(job->plan, i);
        const T *center = job->center ? job->center + tile.first : NULL;
        NAME(reduce_tile)(job, &tile, 0, job->plan->axes.count, center, results);
        NAME(deliver)(job, &tile, results);
    }
}

static void NAME(run_segments)(void *context, int64_t begin, int64_t end)
{
    const NAME(job) *job = context;
    const tn_reduce_plan *plan = job->plan;
    for (int64_t i = begin; i < end; i++) {
        int64_t s = i % plan->segments, first = s * plan->segment;
        int64_t left = plan->axes.count - first;
        tn_reduce_tile tile = tn_reduce_tile_at(plan, i / plan->segments);
        const T *center = job->center ? job->center + tile.first : NULL;
        NAME(reduce_tile)(job, &tile, first, left < plan->segment ? left : plan->segment, center,
                          job->partials + s * plan->axes.outputs + tile.first);
    }
}

static void NAME(combine_segments)(const NAME(job) *job)
{
    const tn_reduce_plan *plan = job->plan;
    T results[TN_REDUCE_TILE];
    for (int64_t i = 0; i < plan->tiles; i++) {
        tn_reduce_tile tile = tn_reduce_tile_at(plan, i);
        for (int64_t j = 0; j < tile.width; j++) {
            NAME(cascade) cascade;
            cascade.count = 0;
            for (int64_t s = 0; s < plan->segments; s++)
                NAME(push)(&cascade, job->rule,
                           job->partials[s * plan->axes.outputs + tile.first + j]);
            results[j] = NAME(total)(&cascade, job->rule);
        }
        NAME(deliver)(job, &tile, results);
    }
}

static tn_status NAME(reduce)(NAME(job) *job)
{
    const tn_reduce_plan *plan = job->plan;
    bool failed = false;
    job->failed = &failed;
    if (plan->segments <= 1) {
        tn_parallel_for(plan->tiles, tn_reduce_grain(plan), NAME(run_tiles), job);
        return tn_reduce_outcome(failed);
    }
    job->partials = tn_scratch(0, (size_t)(plan->segments * plan->axes.outputs) * sizeof(T));
    if (!job->partials)
        return tn_last_error()->status;
    tn_parallel_for(plan->tiles * plan->segments, tn_reduce_grain(plan), NAME(run_segments), job);
    NAME(combine_segments)(job);
    return tn_reduce_outcome(failed);
}

/* The search for extrema with their places, for one compute type and one direction. Included by
 * arg_reduce.c, which defines
 *   T       the compute type             NAME(x)   x with the instance's suffix
 *   PLACE   an integer as wide as T      RELATION  > or <
 *   ROW     a row in place or loaded     STORE     a row's store
 *   IS_NAN  whether a value is NaN
 *
 * A NaN beats every number and nothing beats a NaN, so among equals the first wins: any cut of the work
 * finds the same element. */

#define BEATS(v, best) (((v)RELATION(best)) | (IS_NAN(v) & !IS_NAN(best)))

static T NAME(extremum)(const T *x, int64_t n)
{
    T best = x[0];
    int64_t i = 0;
    if (n >= LANES) {
        T lane[LANES];
        memcpy(lane, x, sizeof lane);
        for (i = LANES; i + LANES <= n; i += LANES)
            TN_EACH(l, LANES)
            {
                T v = x[i + l];
                lane[l] = ((v RELATION lane[l]) | IS_NAN(v)) ? v : lane[l];
            }
        best = lane[0];
        for (int l = 1; l < LANES; l++)
            best = BEATS(lane[l], best) ? lane[l] : best;
    }
    for (; i < n; i++)
        best = BEATS(x[i], best) ? x[i] : best;
    return best;
}

/* Where the extremum, or else a NaN, is first. */
static int64_t NAME(find)(const T *x, int64_t n, T extremum)
{
    int64_t i = 0;
    if (IS_NAN(extremum)) {
        while (!IS_NAN(x[i]))
            i++;
        return i;
    }
    for (; i + LANES <= n; i += LANES) {
        int hits = 0;
        TN_EACH(l, LANES) hits |= x[i + l] == extremum;
        if (hits)
            break;
    }
    while (x[i] != extremum)
        i++;
    return i;
}

/* Elements [begin, begin + count) along the reduced axes of one output. */
static void NAME(search_row)(const arg_job *job, const char *in, int64_t begin, int64_t count, T *best,
                             int64_t *place)
{
    const tn_axes *axes = &job->plan.axes;
    int64_t run = tn_axes_inner_size(axes->reduced, axes->num_reduced);
    int64_t stride = tn_axes_inner_stride(axes->reduced, axes->num_reduced, 0);
    T buffer[BLOCK];
    *place = -1;
    for (int64_t at = begin, n; at < begin + count; at += n) {
        n = run - at % run;
        n = n < BLOCK ? n : BLOCK;
        n = n < begin + count - at ? n : begin + count - at;
        const char *first = in + tn_axes_offset(axes->reduced, axes->num_reduced, 0, at);
        const T *x = ROW(first, stride, job->plan.in_dtype, buffer, n);
        T extremum = NAME(extremum)(x, n);
        if (*place < 0 || BEATS(extremum, *best)) {
            *best = extremum;
            *place = at + NAME(find)(x, n, extremum);
        }
    }
}

/* The same for `width` neighbouring outputs at once. */
static void NAME(search_columns)(const arg_job *job, const char *in, int64_t begin, int64_t count,
                                 int64_t width, T *best, int64_t *place)
{
    const tn_axes *axes = &job->plan.axes;
    int64_t stride = tn_axes_inner_stride(axes->kept, axes->num_kept, 0);
    T buffer[TN_REDUCE_TILE];
    PLACE at[TN_REDUCE_TILE] = {0};
    for (int64_t k = 0; k < count; k++) {
        const char *first = in + tn_axes_offset(axes->reduced, axes->num_reduced, 0, begin + k);
        const T *x = ROW(first, stride, job->plan.in_dtype, buffer, width);
        if (k == 0)
            memcpy(best, x, sizeof *x * (size_t)width);
        TN_EACH(j, width)
        {
            T v = x[j], old = best[j];
            bool better = BEATS(v, old);
            best[j] = better ? v : old;
            at[j] = better ? (PLACE)k : at[j];
        }
    }
    for (int64_t j = 0; j < width; j++)
        place[j] = begin + at[j];
}

static void NAME(store)(const arg_job *job, const tn_reduce_tile *tile, const T *best,
                        const int64_t *place)
{
    const tn_axes *axes = &job->plan.axes;
    int t = 1;
    if (job->values) {
        STORE((char *)job->values->data + tile->offset[t],
              tn_axes_inner_stride(axes->kept, axes->num_kept, t), job->values->dtype, best, tile->width);
        t++;
    }
    TN_ISA_NAME(tn_store_i64)
    ((char *)job->indices->data + tile->offset[t], tn_axes_inner_stride(axes->kept, axes->num_kept, t),
     TN_INT64, place, tile->width);
}

/* A unit is one segment of one tile. */
static void NAME(search_units)(void *context, int64_t begin, int64_t end)
{
    const arg_job *job = context;
    const tn_reduce_plan *plan = &job->plan;
    int64_t row = tn_axes_inner_stride(plan->axes.kept, plan->axes.num_kept, 0);
    for (int64_t unit = begin; unit < end; unit++) {
        tn_reduce_tile tile = tn_reduce_tile_at(plan, unit / plan->segments);
        int64_t segment = unit % plan->segments, first = segment * plan->segment;
        int64_t left = plan->axes.count - first, count = left < plan->segment ? left : plan->segment;
        T best[TN_REDUCE_TILE];
        int64_t place[TN_REDUCE_TILE];
        const char *in = plan->in + tile.offset[0];
        if (plan->columns)
            NAME(search_columns)(job, in, first, count, tile.width, best, place);
        else
            for (int64_t j = 0; j < tile.width; j++)
                NAME(search_row)(job, in + j * row, first, count, &best[j], &place[j]);
        if (plan->segments == 1) {
            NAME(store)(job, &tile, best, place);
            continue;
        }
        int64_t at = segment * plan->axes.outputs + tile.first;
        memcpy((T *)job->partial_values + at, best, sizeof *best * (size_t)tile.width);
        memcpy(job->partial_places + at, place, sizeof *place * (size_t)tile.width);
    }
}

static void NAME(join_segments)(const arg_job *job)
{
    const tn_reduce_plan *plan = &job->plan;
    for (int64_t t = 0; t < plan->tiles; t++) {
        tn_reduce_tile tile = tn_reduce_tile_at(plan, t);
        T *best = (T *)job->partial_values + tile.first;
        int64_t *place = job->partial_places + tile.first;
        for (int64_t s = 1; s < plan->segments; s++)
            for (int64_t j = 0; j < tile.width; j++) {
                int64_t other = s * plan->axes.outputs + j;
                if (BEATS(best[other], best[j])) {
                    best[j] = best[other];
                    place[j] = place[other];
                }
            }
        NAME(store)(job, &tile, best, place);
    }
}

static tn_status NAME(search)(arg_job *job)
{
    const tn_reduce_plan *plan = &job->plan;
    if (plan->segments > 1) {
        size_t cells = (size_t)(plan->segments * plan->axes.outputs);
        job->partial_places = tn_scratch(0, cells * (sizeof(int64_t) + sizeof(T)));
        if (!job->partial_places)
            return TN_ERROR_OUT_OF_MEMORY;
        job->partial_values = job->partial_places + cells;
    }
    tn_parallel_for(plan->tiles * plan->segments, tn_reduce_grain(plan), NAME(search_units), job);
    if (plan->segments > 1)
        NAME(join_segments)(job);
    return TN_OK;
}

#undef BEATS
#undef NAME
#undef RELATION

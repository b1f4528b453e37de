/* The scan for one rule. Included by scan.c, which defines
 *   T      the compute type                     NAME(x)  x with the rule's suffix
 *   LOAD   a row's load (tn_load_*)             STORE    its store (tn_store_*)
 *   START  what a row begins with               INDEXED  whether the rule has indices
 *   STEP(acc, best, v, k)  takes element v at index k; joins a segment's total just so
 *   REORDERED  whether a total may be found in any order that the shape fixes */

typedef struct NAME(state) {
    T acc[LANES];
    int64_t best[LANES];
    T row[LANES][CHUNK + PADDING];
    int64_t place[LANES][CHUNK + PADDING];
} NAME(state);

static void NAME(store)(const scan_job *job, const int64_t *offset, int64_t k, const int64_t *stride,
                        const T *row, const int64_t *place, int64_t n)
{
    STORE(job->values + offset[1] + k * job->stride[1], stride[1], job->dtype, row, n);
    if (INDEXED)
        TN_ISA_NAME(tn_store_i64)
        (job->indices + offset[2] + k * job->stride[2], stride[2], TN_INT64, place, n);
}

static void NAME(start)(const scan_job *job, int64_t begin, int64_t count, NAME(state) *state)
{
    for (int64_t j = 0; j < LANES; j++) {
        bool joined = job->totals && !job->only_totals && j < count;
        state->acc[j] = joined ? ((const T *)job->totals)[begin + j] : START;
        state->best[j] = joined ? job->places[begin + j] : 0;
    }
}

static void NAME(step_lane)(NAME(state) *state, int64_t j, int64_t k, int64_t n)
{
    T acc = state->acc[j];
    int64_t best = state->best[j];
    for (int64_t i = 0; i < n; i++) {
        STEP(acc, best, state->row[j][i], k + i);
        state->row[j][i] = acc;
        if (INDEXED)
            state->place[j][i] = best;
    }
    state->acc[j] = acc;
    state->best[j] = best;
}

/* A total alone, in vector lanes. */
static void NAME(add_total)(NAME(state) *state, int64_t j, int64_t k, int64_t n)
{
    T lane[TN_LANE_COUNT];
    int64_t best[TN_LANE_COUNT] = {0}, i = 0;
    if (!REORDERED) {
        NAME(step_lane)(state, j, k, n);
        return;
    }
    for (int l = 0; l < TN_LANE_COUNT; l++)
        lane[l] = START;
    for (; i + TN_LANE_COUNT <= n; i += TN_LANE_COUNT)
        TN_LANES(l) STEP(lane[l], best[l], state->row[j][i + l], k);
    for (int l = 0; i + l < n; l++)
        STEP(lane[l], best[l], state->row[j][i + l], k);
    for (int l = 0; l < TN_LANE_COUNT; l++)
        STEP(state->acc[j], state->best[j], lane[l], k);
}

/* All lanes by turns: their chains of dependent steps overlap. */
static void NAME(step_lanes)(NAME(state) *state, const int64_t *k, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        for (int j = 0; j < LANES; j++) {
            STEP(state->acc[j], state->best[j], state->row[j][i], k[j] + i);
            state->row[j][i] = state->acc[j];
            if (INDEXED)
                state->place[j][i] = state->best[j];
        }
}

/* A unit is LANES lanes. */
static void NAME(scan_lanes)(void *context, int64_t begin_unit, int64_t end_unit)
{
    const scan_job *job = context;
    for (int64_t unit = begin_unit; unit < end_unit; unit++) {
        int64_t begin = unit * LANES, left = job->axes.outputs * job->segments - begin;
        int64_t count = left < LANES ? left : LANES, k[LANES];
        scan_lane lane[LANES];
        NAME(state) state;
        NAME(start)(job, begin, count, &state);
        for (int64_t j = 0; j < count; j++)
            lane[j] = lane_at(job, begin + j);
        for (int64_t from = 0; from < job->segment; from += CHUNK) {
            bool even = count == LANES && !(REORDERED && job->only_totals);
            for (int64_t j = 0; j < count; j++) {
                k[j] = lane[j].first + from;
                LOAD(job->in + lane[j].offset[0] + from * job->stride[0], job->stride[0], job->in_dtype,
                     state.row[j], chunk_of(&lane[j], from));
                even = even && chunk_of(&lane[j], from) == chunk_of(&lane[0], from);
            }
            if (even)
                NAME(step_lanes)(&state, k, chunk_of(&lane[0], from));
            for (int64_t j = 0; j < count; j++) {
                int64_t n = chunk_of(&lane[j], from);
                if (!even && job->only_totals)
                    NAME(add_total)(&state, j, k[j], n);
                else if (!even)
                    NAME(step_lane)(&state, j, k[j], n);
                if (!job->only_totals && n > 0)
                    NAME(store)(job, lane[j].offset, from, job->stride, state.row[j], state.place[j], n);
            }
        }
        for (int64_t j = 0; j < count && job->only_totals; j++) {
            ((T *)job->totals)[begin + j] = state.acc[j];
            job->places[begin + j] = state.best[j];
        }
    }
}

/* Totals become the starts of their segments. */
static void NAME(join)(const scan_job *job)
{
    T *totals = job->totals;
    for (int64_t row = 0; row < job->axes.outputs; row++) {
        T acc = START;
        int64_t best = 0;
        for (int64_t s = row * job->segments; s < (row + 1) * job->segments; s++) {
            T total = totals[s];
            int64_t place = job->places[s];
            totals[s] = acc;
            job->places[s] = best;
            STEP(acc, best, total, place);
        }
    }
}

/* A unit is a tile of neighbouring columns. */
static void NAME(scan_columns)(void *context, int64_t begin, int64_t end)
{
    const scan_job *job = context;
    const tn_axes *axes = &job->axes;
    int64_t run = tn_axes_inner_size(axes->kept, axes->num_kept), across[3];
    for (int t = 0; t < 3; t++)
        across[t] = tn_axes_inner_stride(axes->kept, axes->num_kept, t);
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t first = unit % job->tiles_per_run * COLUMNS, offset[3] = {0};
        int64_t width = run - first < COLUMNS ? run - first : COLUMNS;
        T row[COLUMNS], acc[COLUMNS];
        int64_t best[COLUMNS] = {0};
        for (int64_t j = 0; j < width; j++)
            acc[j] = START;
        for (int t = 0; t < axes->num_tensors; t++)
            offset[t] = tn_axes_offset(axes->kept, axes->num_kept, t,
                                       unit / job->tiles_per_run * run + first);
        for (int64_t k = 0; k < axes->count; k++) {
            LOAD(job->in + offset[0] + k * job->stride[0], across[0], job->in_dtype, row, width);
            for (int64_t j = 0; j < width; j++)
                STEP(acc[j], best[j], row[j], k);
            NAME(store)(job, offset, k, across, acc, best, width);
        }
    }
}

static tn_status NAME(scan)(scan_job *job)
{
    const tn_axes *axes = &job->axes;
    if (job->tiles_per_run > 0) {
        int64_t tiles = axes->outputs / tn_axes_inner_size(axes->kept, axes->num_kept) * job->tiles_per_run;
        tn_parallel_for(tiles, grain(axes->count * COLUMNS), NAME(scan_columns), job);
        return TN_OK;
    }
    int64_t lanes = axes->outputs * job->segments, units = (lanes + LANES - 1) / LANES;
    if (job->segments > 1) {
        job->places = tn_scratch(0, (size_t)lanes * (sizeof(T) + sizeof(int64_t)));
        if (!job->places)
            return TN_ERROR_OUT_OF_MEMORY;
        job->totals = job->places + lanes;
        job->only_totals = true;
        tn_parallel_for(units, 1, NAME(scan_lanes), job);
        job->only_totals = false;
        NAME(join)(job);
    }
    tn_parallel_for(units, grain(job->segment * LANES), NAME(scan_lanes), job);
    return TN_OK;
}

#undef NAME
#undef START
#undef STEP
#undef REORDERED

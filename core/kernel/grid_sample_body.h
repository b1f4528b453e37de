/* The work of grid_sample for one type. Included twice by grid_sample.c, which defines T and
 * NAME(x).
 *
 * Each point becomes a short list of taps: image elements with their weights, the products of one
 * list per dimension. A tap outside the image has index -1 and counts as 0. Taps are laid out by
 * tap and then by point, so that loops over the points of a block are vector code. */
/* The taps of one point along one dimension; slopes are the weights' derivatives by the grid's
 * number. */
typedef struct NAME(axis) {
    int64_t at[4];
    T weight[4], slope[4];
} NAME(axis);

typedef struct NAME(taps) {
    int64_t index[TN_GRID_TAPS][TN_GRID_BLOCK]; /* elements from the image's plane, or -1 */
    T weight[TN_GRID_TAPS][TN_GRID_BLOCK];
    T slope[TN_GRID_SPATIAL][TN_GRID_TAPS][TN_GRID_BLOCK]; /* by x, y, z; for gradients alone */
    int count;
} NAME(taps);

/* ---- coordinates ----------------------------------------------------------------------------- */

/* Into [0, size - 1]; NaN to 0. The slope of what is cut off is 0. */
static T NAME(clip)(T x, int64_t size, T *slope)
{
    T last = (T)(size - 1);
    if (!(x > 0) || x >= last)
        *slope = 0;
    return x > 0 ? (x < last ? x : last) : 0;
}

/* Mirrored at the image's outermost pixels, or at their outer edges. */
static T NAME(reflect)(const tn_grid_job *job, T x, int64_t size, T *slope)
{
    T low = job->align_corners ? 0 : (T)-0.5;
    T span = job->align_corners ? (T)(size - 1) : (T)size;
    if (span <= 0) {
        *slope = 0;
        return 0;
    }
    T distance = x - low;
    if (distance < 0) {
        distance = -distance;
        *slope = -*slope;
    }
    T rest = (T)fmod((double)distance, (double)span), turns = (T)floor((double)(distance / span));
    bool odd = fmod((double)turns, 2) != 0;
    if (odd)
        *slope = -*slope;
    return odd ? span - rest + low : rest + low;
}

static T NAME(padded)(const tn_grid_job *job, T x, int64_t size, T *slope)
{
    if (job->padding == TN_GRID_ZEROS)
        return x;
    if (job->padding == TN_GRID_REFLECTION)
        x = NAME(reflect)(job, x, size, slope);
    return NAME(clip)(x, size, slope);
}

static T NAME(position)(const tn_grid_job *job, T number, int64_t size, T *slope)
{
    *slope = (T)(job->align_corners ? size - 1 : size) / 2;
    return job->align_corners ? (number + 1) / 2 * (T)(size - 1) : ((number + 1) * (T)size - 1) / 2;
}

static int64_t NAME(inside)(T x, int64_t size)
{
    return x >= 0 && x <= (T)(size - 1) ? (int64_t)x : -1;
}

/* ---- taps ------------------------------------------------------------------------------------ */

/* Keys' cubic convolution with a = -3/4, by the distance of each tap. */
static void NAME(cubic_weights)(T t, T slope, NAME(axis) * axis)
{
    const T a = (T)-0.75;
    for (int k = 0; k < 4; k++) {
        T x = k == 0 ? t + 1 : k == 1 ? t : k == 2 ? 1 - t : 2 - t; /* distance */
        T sign = k < 2 ? 1 : -1;
        bool near = k == 1 || k == 2;
        axis->weight[k] =
            near ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
        T by_distance =
            near ? (3 * (a + 2) * x - 2 * (a + 3)) * x : (3 * a * x - 10 * a) * x + 8 * a;
        axis->slope[k] = sign * slope * by_distance;
    }
}

static int NAME(axis_taps)(const tn_grid_job *job, T number, int64_t size, NAME(axis) * axis)
{
    T slope, unused = 0, x = NAME(position)(job, number, size, &slope);
    if (job->mode == TN_GRID_CUBIC) {
        T whole = (T)floor((double)x);
        NAME(cubic_weights)(x - whole, slope, axis);
        for (int k = 0; k < 4; k++)
            axis->at[k] = NAME(inside)(NAME(padded)(job, whole + (T)(k - 1), size, &unused), size);
        return 4;
    }
    x = NAME(padded)(job, x, size, &slope);
    if (job->mode == TN_GRID_NEAREST) {
        axis->at[0] = NAME(inside)((T)nearbyint((double)x), size);
        axis->weight[0] = 1;
        axis->slope[0] = 0;
        return 1;
    }
    T whole = (T)floor((double)x);
    axis->at[0] = NAME(inside)(whole, size);
    axis->at[1] = NAME(inside)(whole + 1, size);
    axis->weight[0] = whole + 1 - x;
    axis->weight[1] = x - whole;
    axis->slope[0] = -slope;
    axis->slope[1] = slope;
    return 2;
}

/* The product of the lists of all dimensions, z slowest; `strides` of the image in elements. */
static void NAME(combine)(const tn_grid_job *job, const NAME(axis) * axes, const int64_t *strides,
                          int taps, int point, bool slopes, NAME(taps) * out)
{
    int s = job->spatial, total = 1;
    for (int d = 0; d < s; d++)
        total *= taps;
    for (int t = 0; t < total; t++) {
        int k[TN_GRID_SPATIAL], rest = t;
        int64_t index = 0;
        T weight = 1;
        for (int d = 0; d < s; d++, rest /= taps) { /* d = 0 is x */
            k[d] = rest % taps;
            int64_t at = axes[d].at[k[d]];
            index = at < 0 || index < 0 ? -1 : index + at * strides[s - 1 - d];
            weight *= axes[d].weight[k[d]];
        }
        out->index[t][point] = index;
        out->weight[t][point] = weight;
        for (int d = 0; d < s && slopes; d++) {
            T slope = axes[d].slope[k[d]];
            for (int e = 0; e < s; e++)
                slope *= e == d ? 1 : axes[e].weight[k[e]];
            out->slope[d][t][point] = slope;
        }
    }
    out->count = total;
}

/* The taps of points [begin, begin + n) of image `batch`. */
static void NAME(build_taps)(const tn_grid_job *job, int64_t batch, int64_t begin, int64_t n,
                             const int64_t *strides, bool slopes, NAME(taps) * out)
{
    const tn_operand *grid = job->grid;
    int s = job->spatial;
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = begin + i, offset = batch * grid->strides[0];
        for (int d = s - 1; d >= 0; d--) {
            offset += rest % job->grid_sizes[d] * grid->strides[1 + d];
            rest /= job->grid_sizes[d];
        }
        const T *numbers = (const T *)grid->data + offset;
        NAME(axis) axes[TN_GRID_SPATIAL];
        int taps = 0;
        for (int d = 0; d < s; d++)
            taps = NAME(axis_taps)(job, numbers[d * grid->strides[1 + s]], job->sizes[s - 1 - d],
                                   &axes[d]);
        NAME(combine)(job, axes, strides, taps, (int)i, slopes, out);
    }
}

static const T *NAME(plane)(const tn_operand *image, int64_t batch, int64_t channel)
{
    return (const T *)image->data + batch * image->strides[0] + channel * image->strides[1];
}

static int64_t NAME(block_points)(const tn_grid_job *job, int64_t begin)
{
    return job->points - begin < TN_GRID_BLOCK ? job->points - begin : TN_GRID_BLOCK;
}

/* ---- forward --------------------------------------------------------------------------------- */

static void NAME(sample_blocks)(void *context, int64_t first, int64_t end)
{
    const tn_grid_job *job = context;
    NAME(taps) taps;
    for (int64_t b = first; b < end; b++) {
        int64_t batch = b / job->blocks, begin = b % job->blocks * TN_GRID_BLOCK;
        int64_t n = NAME(block_points)(job, begin);
        NAME(build_taps)(job, batch, begin, n, job->image->strides + 2, false, &taps);
        for (int64_t c = 0; c < job->channels; c++) {
            const T *plane = NAME(plane)(job->image, batch, c);
            T *out = (T *)job->out + (batch * job->channels + c) * job->points + begin;
            T sum[TN_GRID_BLOCK] = {0};
            for (int t = 0; t < taps.count; t++)
                for (int64_t i = 0; i < n; i++) {
                    int64_t index = taps.index[t][i];
                    T value = plane[index < 0 ? 0 : index];
                    sum[i] += (index < 0 ? 0 : value) * taps.weight[t][i];
                }
            memcpy(out, sum, (size_t)n * sizeof(T));
        }
    }
}

static void NAME(sample)(const tn_grid_job *job)
{
    int64_t grain = 1 + (1 << 14) / (TN_GRID_BLOCK * (job->channels + 8));
    tn_parallel_for(job->batch * job->blocks, grain, NAME(sample_blocks), (void *)job);
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* A group of channels of one image belongs to one thread, which adds in the order of the points. */
static void NAME(scatter_groups)(void *context, int64_t first, int64_t end)
{
    const tn_grid_job *job = context;
    int64_t groups = (job->channels + TN_GRID_CHANNELS - 1) / TN_GRID_CHANNELS;
    int64_t dense[TN_GRID_SPATIAL] = {1, 1, 1};
    for (int d = job->spatial - 2; d >= 0; d--)
        dense[d] = dense[d + 1] * job->sizes[d + 1];
    NAME(taps) taps;
    for (int64_t g = first; g < end; g++) {
        int64_t batch = g / groups, from = g % groups * TN_GRID_CHANNELS;
        int64_t to =
            job->channels - from < TN_GRID_CHANNELS ? job->channels : from + TN_GRID_CHANNELS;
        T *planes = (T *)job->grad_image + batch * job->channels * job->pixels;
        memset(planes + from * job->pixels, 0, (size_t)((to - from) * job->pixels) * sizeof(T));
        for (int64_t begin = 0; begin < job->points; begin += TN_GRID_BLOCK) {
            int64_t n = NAME(block_points)(job, begin);
            NAME(build_taps)(job, batch, begin, n, dense, false, &taps);
            for (int64_t c = from; c < to; c++) {
                const T *grad =
                    (const T *)job->grad + (batch * job->channels + c) * job->points + begin;
                T *plane = planes + c * job->pixels;
                for (int64_t i = 0; i < n; i++)
                    for (int t = 0; t < taps.count; t++)
                        if (taps.index[t][i] >= 0)
                            plane[taps.index[t][i]] += taps.weight[t][i] * grad[i];
            }
        }
    }
}

static void NAME(slope_blocks)(void *context, int64_t first, int64_t end)
{
    const tn_grid_job *job = context;
    int s = job->spatial;
    NAME(taps) taps;
    for (int64_t b = first; b < end; b++) {
        int64_t batch = b / job->blocks, begin = b % job->blocks * TN_GRID_BLOCK;
        int64_t n = NAME(block_points)(job, begin);
        T sum[TN_GRID_SPATIAL][TN_GRID_BLOCK] = {{0}};
        NAME(build_taps)(job, batch, begin, n, job->image->strides + 2, true, &taps);
        for (int64_t c = 0; c < job->channels; c++) {
            const T *plane = NAME(plane)(job->image, batch, c);
            const T *grad =
                (const T *)job->grad + (batch * job->channels + c) * job->points + begin;
            for (int t = 0; t < taps.count; t++)
                for (int64_t i = 0; i < n; i++) {
                    int64_t index = taps.index[t][i];
                    T value = plane[index < 0 ? 0 : index],
                      product = (index < 0 ? 0 : value) * grad[i];
                    for (int d = 0; d < s; d++)
                        sum[d][i] += taps.slope[d][t][i] * product;
                }
        }
        T *out = (T *)job->grad_grid + (batch * job->points + begin) * s;
        for (int64_t i = 0; i < n; i++)
            for (int d = 0; d < s; d++)
                out[i * s + d] = sum[d][i];
    }
}

static void NAME(gradients)(const tn_grid_job *job)
{
    int64_t groups = (job->channels + TN_GRID_CHANNELS - 1) / TN_GRID_CHANNELS;
    if (job->grad_image)
        tn_parallel_for(job->batch * groups, 1, NAME(scatter_groups), (void *)job);
    if (job->grad_grid) {
        int64_t grain = 1 + (1 << 14) / (TN_GRID_BLOCK * (job->channels + 8));
        tn_parallel_for(job->batch * job->blocks, grain, NAME(slope_blocks), (void *)job);
    }
}

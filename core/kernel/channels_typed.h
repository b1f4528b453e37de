/* Sums and affine maps per channel for one compute type. Included once per type by channels.c, with
 *   T      the compute type      NAME(x)  x with the type's suffix     DTYPE  its dtype
 *   ROW    its row in place or loaded (tn_row_*)                       STORE  its row store
 * defined by the includer. */

/* The two running sums of a piece of a key's elements. */
typedef struct NAME(lanes) {
    double first[TN_LANE_COUNT], second[TN_LANE_COUNT];
} NAME(lanes);

/* Adds u and u v over n elements of a row, where u, v are expressions of i. */
#define ADD_LANES(U, V)                                                                            \
    double first[TN_LANE_COUNT], second[TN_LANE_COUNT];                                            \
    memcpy(first, sums->first, sizeof first);                                                      \
    memcpy(second, sums->second, sizeof second);                                                   \
    int64_t whole = n / TN_LANE_COUNT * TN_LANE_COUNT;                                             \
    for (int64_t block = 0; block < whole; block += TN_LANE_COUNT)                                 \
        TN_LANES(l)                                                                                \
        {                                                                                          \
            int64_t i = block + l;                                                                 \
            double u = (U), v = (V);                                                               \
            first[l] += u;                                                                         \
            second[l] += u * v;                                                                    \
        }                                                                                          \
    for (int64_t i = whole; i < n; i++) {                                                          \
        double u = (U), v = (V);                                                                   \
        first[i - whole] += u;                                                                     \
        second[i - whole] += u * v;                                                                \
    }                                                                                              \
    memcpy(sums->first, first, sizeof first);                                                      \
    memcpy(sums->second, second, sizeof second)

static void NAME(add_moments)(NAME(lanes) *sums, const T *x, double center, int64_t n)
{
    ADD_LANES((double)x[i] - center, (double)x[i] - center);
}

static void NAME(add_products)(NAME(lanes) *sums, const T *g, const T *x, double center, int64_t n)
{
    ADD_LANES((double)g[i], (double)x[i] - center);
}
#undef ADD_LANES

/* One piece of one key in the rows layout: elements [begin, end) of the key. */
static void NAME(sum_rows)(const channel_sums *s, int64_t key, int64_t begin, int64_t end, double *out)
{
    const tn_channels *c = s->channels;
    NAME(lanes) sums = {{0}, {0}};
    T x_buffer[TILE], g_buffer[TILE];
    int64_t column = begin % c->width, at = (begin / c->width * c->keys + key) * c->width;
    for (int64_t i = begin, n; i < end; i += n) {
        n = smallest(TILE, smallest(c->width - column, end - i));
        const T *x = ROW(element(s->x, at + column), TILE_ROW(s->x), x_buffer, n);
        if (s->g) {
            const T *g = ROW(element(s->g, at + column), TILE_ROW(s->g), g_buffer, n);
            NAME(add_products)(&sums, g, x, s->center[key], n);
        } else {
            NAME(add_moments)(&sums, x, s->center[key], n);
        }
        column += n;
        if (column == c->width) {
            column = 0;
            at += c->keys * c->width;
        }
    }
    out[0] = tn_lanes_fold_f64(sums.first);
    out[1] = tn_lanes_fold_f64(sums.second);
}

/* One piece of a block of up to TILE columns that start at key `key`: rows [begin, end). */
static void NAME(sum_columns)(const channel_sums *s, int64_t key, int64_t begin, int64_t end,
                              double *out)
{
    const tn_channels *c = s->channels;
    int64_t batch = key / c->width, column = key % c->width, n = smallest(TILE, c->width - column);
    double first[TILE] = {0}, second[TILE] = {0};
    const double *center = s->center + key;
    T x_buffer[TILE], g_buffer[TILE];
    for (int64_t row = batch * c->outer + begin; row < batch * c->outer + end; row++) {
        const T *x = ROW(element(s->x, row * c->width + column), TILE_ROW(s->x), x_buffer, n);
        if (s->g) {
            const T *g = ROW(element(s->g, row * c->width + column), TILE_ROW(s->g), g_buffer, n);
            TN_EACH(j, n) first[j] += (double)g[j];
            TN_EACH(j, n) second[j] += (double)g[j] * ((double)x[j] - center[j]);
        } else {
            TN_EACH(j, n) first[j] += (double)x[j] - center[j];
            TN_EACH(j, n) second[j] += ((double)x[j] - center[j]) * ((double)x[j] - center[j]);
        }
    }
    for (int64_t j = 0; j < n; j++) {
        out[2 * j] = first[j];
        out[2 * j + 1] = second[j];
    }
}

static void NAME(sum_units)(void *context, int64_t begin, int64_t end)
{
    const channel_sums *s = context;
    const tn_channels *c = s->channels;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t chunk = unit % s->chunks, block = unit / s->chunks;
        int64_t first = s->length * chunk / s->chunks, last = s->length * (chunk + 1) / s->chunks;
        int64_t key = block;
        if (c->last)
            key = block / s->blocks * c->width + block % s->blocks * TILE;
        double *out = s->partial + 2 * (chunk * c->keys + key);
        (c->last ? NAME(sum_columns) : NAME(sum_rows))(s, key, first, last, out);
    }
}

/* ---- maps --------------------------------------------------------------------------------------- */

/* The parameters of a row's key, or of its first column's. */
typedef struct NAME(affine) {
    const T *mean, *scale, *slope, *shift;
} NAME(affine);

static void NAME(map_row)(const T *x, const T *g, const NAME(affine) *a, T *y, int64_t n)
{
    T mean = *a->mean, scale = *a->scale, shift = *a->shift;
    if (!g) {
        TN_EACH(i, n) y[i] = (x[i] - mean) * scale + shift;
        return;
    }
    T slope = *a->slope;
    TN_EACH(i, n) y[i] = g[i] * scale - ((x[i] - mean) * slope + shift);
}

static void NAME(map_columns)(const T *x, const T *g, const NAME(affine) *a, T *y, int64_t n)
{
    const T *mean = a->mean, *scale = a->scale, *slope = a->slope, *shift = a->shift;
    if (g)
        TN_EACH(i, n) y[i] = g[i] * scale[i] - ((x[i] - mean[i]) * slope[i] + shift[i]);
    else
        TN_EACH(i, n) y[i] = (x[i] - mean[i]) * scale[i] + shift[i];
}

/* Elements [begin, end) in memory order. */
static void NAME(map_range)(void *context, int64_t begin, int64_t end)
{
    const channel_map *m = context;
    const tn_channels *c = m->channels;
    T x_buffer[TILE], g_buffer[TILE], y_buffer[TILE];
    bool direct = m->y->dtype == DTYPE;
    int64_t row = begin / c->width, column = begin % c->width, base = first_key(c, row);
    for (int64_t i = begin, n; i < end; i += n) {
        n = smallest(TILE, smallest(c->width - column, end - i));
        const T *p = (const T *)m->parameters + base + (c->last ? column : 0);
        NAME(affine) a = {p, p + c->keys, m->g ? p + 3 * c->keys : NULL, p + 2 * c->keys};
        const T *x = ROW(element(m->x, i), TILE_ROW(m->x), x_buffer, n);
        const T *g = m->g ? ROW(element(m->g, i), TILE_ROW(m->g), g_buffer, n) : NULL;
        T *y = direct ? (T *)(void *)element(m->y, i) : y_buffer;
        (c->last ? NAME(map_columns) : NAME(map_row))(x, g, &a, y, n);
        if (!direct)
            STORE(element(m->y, i), TILE_ROW(m->y), y, n);
        column += n;
        if (column == c->width) {
            column = 0;
            base = first_key(c, ++row);
        }
    }
}

/* Parameters arrive as doubles and are rounded once. */
static T *NAME(round_parameters)(const double *const *values, int count, int64_t keys)
{
    T *rounded = tn_scratch(SLOT_PARAMETERS, (size_t)(keys * count) * sizeof(T));
    for (int k = 0; rounded && k < count; k++)
        TN_EACH(i, keys) rounded[k * keys + i] = (T)values[k][i];
    return rounded;
}

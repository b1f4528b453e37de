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

/* ---- rows
 * ---------------------------------------------------------------------------------------- */

/* Elements [begin, end) of a key: for each piece of a row, `at` is where it starts and n its
 * length. */
#define EACH_PIECE(BODY)                                                                           \
    int64_t column = begin % c->width,                                                             \
            at = (begin / c->width * c->keys + key) * c->width + column;                           \
    for (int64_t i = begin, n; i < end; i += n) {                                                  \
        n = smallest(TILE, smallest(c->width - column, end - i));                                  \
        BODY;                                                                                      \
        at += n;                                                                                   \
        column += n;                                                                               \
        if (column == c->width) {                                                                  \
            column = 0;                                                                            \
            at += (c->keys - 1) * c->width;                                                        \
        }                                                                                          \
    }

static void NAME(sum_rows)(const job *j, int64_t key, int64_t begin, int64_t end, double *out)
{
    const tn_channel_pass *p = j->pass;
    const tn_channels *c = &p->channels;
    NAME(lanes) sums = {{0}, {0}};
    T x_buffer[TILE], g_buffer[TILE];
    if (p->sums == TN_CHANNEL_PRODUCTS) {
        EACH_PIECE({
            const T *x = ROW(element(p->x, at), TILE_ROW(p->x), x_buffer, n);
            const T *g = ROW(element(p->g, at), TILE_ROW(p->g), g_buffer, n);
            NAME(add_products)(&sums, g, x, p->center[key], n);
        })
    } else {
        EACH_PIECE({
            const T *x = ROW(element(p->x, at), TILE_ROW(p->x), x_buffer, n);
            NAME(add_moments)(&sums, x, p->center[key], n);
        })
    }
    out[0] = tn_lanes_fold_f64(sums.first);
    out[1] = tn_lanes_fold_f64(sums.second);
}

static void NAME(map_rows)(const job *j, int64_t key, int64_t begin, int64_t end)
{
    const tn_channel_pass *p = j->pass;
    const tn_channels *c = &p->channels;
    T x_buffer[TILE], g_buffer[TILE], y_buffer[TILE];
    T mean = (T)p->mean[key], scale = (T)p->scale[key], shift = (T)p->shift[key];
    T slope = p->map_g ? (T)p->slope[key] : 0;
    bool direct = p->y->dtype == DTYPE;
    EACH_PIECE({
        const T *x = ROW(element(p->map_x, at), TILE_ROW(p->map_x), x_buffer, n);
        T *y = direct ? (T *)(void *)element(p->y, at) : y_buffer;
        if (p->map_g) {
            const T *g = ROW(element(p->map_g, at), TILE_ROW(p->map_g), g_buffer, n);
            TN_EACH(k, n) y[k] = g[k] * scale - ((x[k] - mean) * slope + shift);
        } else {
            TN_EACH(k, n) y[k] = (x[k] - mean) * scale + shift;
        }
        if (!direct)
            STORE(element(p->y, at), TILE_ROW(p->y), y, n);
    })
}
#undef EACH_PIECE

/* ---- columns
 * ------------------------------------------------------------------------------------- */

/* A block of up to TILE columns that starts at key `key`: rows [begin, end) of its matrix. */
static void NAME(sum_columns)(const job *j, int64_t key, int64_t begin, int64_t end, double *out)
{
    const tn_channel_pass *p = j->pass;
    const tn_channels *c = &p->channels;
    int64_t batch = key / c->width, column = key % c->width, n = smallest(TILE, c->width - column);
    double first[TILE] = {0}, second[TILE] = {0};
    const double *center = p->center + key;
    T x_buffer[TILE], g_buffer[TILE];
    for (int64_t row = batch * c->outer + begin; row < batch * c->outer + end; row++) {
        const T *x = ROW(element(p->x, row * c->width + column), TILE_ROW(p->x), x_buffer, n);
        if (p->sums == TN_CHANNEL_PRODUCTS) {
            const T *g = ROW(element(p->g, row * c->width + column), TILE_ROW(p->g), g_buffer, n);
            TN_EACH(k, n)
            {
                first[k] += (double)g[k];
                second[k] += (double)g[k] * ((double)x[k] - center[k]);
            }
        } else {
            TN_EACH(k, n)
            {
                double difference = (double)x[k] - center[k];
                first[k] += difference;
                second[k] += difference * difference;
            }
        }
    }
    for (int64_t k = 0; k < n; k++) {
        out[2 * k] = first[k];
        out[2 * k + 1] = second[k];
    }
}

/* Whole rows of all matrices, with the vectors rounded to T: mean, scale, shift, slope. */
static void NAME(map_columns)(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    const tn_channel_pass *p = j->pass;
    const tn_channels *c = &p->channels;
    T x_buffer[TILE], g_buffer[TILE], y_buffer[TILE];
    bool direct = p->y->dtype == DTYPE;
    for (int64_t row = begin; row < end; row++)
        for (int64_t column = 0; column < c->width; column += TILE) {
            int64_t n = smallest(TILE, c->width - column), at = row * c->width + column;
            const T *mean = (const T *)j->rounded + row / c->outer * c->width + column;
            const T *scale = mean + c->keys, *shift = scale + c->keys, *slope = shift + c->keys;
            const T *x = ROW(element(p->map_x, at), TILE_ROW(p->map_x), x_buffer, n);
            T *y = direct ? (T *)(void *)element(p->y, at) : y_buffer;
            if (p->map_g) {
                const T *g = ROW(element(p->map_g, at), TILE_ROW(p->map_g), g_buffer, n);
                TN_EACH(k, n) y[k] = g[k] * scale[k] - ((x[k] - mean[k]) * slope[k] + shift[k]);
            } else {
                TN_EACH(k, n) y[k] = (x[k] - mean[k]) * scale[k] + shift[k];
            }
            if (!direct)
                STORE(element(p->y, at), TILE_ROW(p->y), y, n);
        }
}

static void *NAME(round_vectors)(const tn_channel_pass *p)
{
    const double *values[] = {p->mean, p->scale, p->shift, p->slope};
    int64_t keys = p->channels.keys;
    int count = p->map_g ? 4 : 3;
    T *rounded = tn_scratch(SLOT_ROUNDED, (size_t)(keys * count) * sizeof(T));
    for (int k = 0; rounded && k < count; k++)
        TN_EACH(i, keys) rounded[k * keys + i] = (T)values[k][i];
    return rounded;
}

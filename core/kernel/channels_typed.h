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

/* Columns are walked in spans of up to TILE elements: a part of a row, or, of a narrow matrix,
 * several whole rows, which then have sums of their own until the end. */

/* Adds the span of n elements that starts at element `at`. */
static void NAME(add_span)(const tn_channel_pass *p, int64_t at, int64_t n, const double *center,
                           double *first, double *second)
{
    T x_buffer[TILE], g_buffer[TILE];
    const T *x = ROW(element(p->x, at), TILE_ROW(p->x), x_buffer, n);
    if (p->sums == TN_CHANNEL_PRODUCTS) {
        const T *g = ROW(element(p->g, at), TILE_ROW(p->g), g_buffer, n);
        TN_EACH(k, n)
        {
            first[k] += (double)g[k];
            second[k] += (double)g[k] * ((double)x[k] - center[k]);
        }
        return;
    }
    TN_EACH(k, n)
    {
        double difference = (double)x[k] - center[k];
        first[k] += difference;
        second[k] += difference * difference;
    }
}

/* The same for four spans, `step` elements apart, with one update of the sums. */
static void NAME(add_four_spans)(const tn_channel_pass *p, int64_t at, int64_t step, int64_t n,
                                 const double *center, double *first, double *second)
{
    T x_buffer[4][TILE], g_buffer[4][TILE];
    const T *x[4], *g[4];
    bool products = p->sums == TN_CHANNEL_PRODUCTS;
    for (int r = 0; r < 4; r++) {
        x[r] = ROW(element(p->x, at + r * step), TILE_ROW(p->x), x_buffer[r], n);
        if (products)
            g[r] = ROW(element(p->g, at + r * step), TILE_ROW(p->g), g_buffer[r], n);
    }
    const T *x0 = x[0], *x1 = x[1], *x2 = x[2], *x3 = x[3];
    if (products) {
        const T *g0 = g[0], *g1 = g[1], *g2 = g[2], *g3 = g[3];
        TN_EACH(k, n)
        {
            double a = (double)g0[k], b = (double)g1[k], c = (double)g2[k], d = (double)g3[k];
            first[k] += (a + b) + (c + d);
            second[k] += (a * ((double)x0[k] - center[k]) + b * ((double)x1[k] - center[k])) +
                         (c * ((double)x2[k] - center[k]) + d * ((double)x3[k] - center[k]));
        }
        return;
    }
    TN_EACH(k, n)
    {
        double a = (double)x0[k] - center[k], b = (double)x1[k] - center[k];
        double c = (double)x2[k] - center[k], d = (double)x3[k] - center[k];
        first[k] += (a + b) + (c + d);
        second[k] += (a * a + b * b) + (c * c + d * d);
    }
}

/* A block of up to TILE columns that starts at key `key`: rows [begin, end) of its matrix. */
static void NAME(sum_columns)(const job *j, int64_t key, int64_t begin, int64_t end, double *out)
{
    const tn_channel_pass *p = j->pass;
    const tn_channels *c = &p->channels;
    int64_t column = key % c->width, n = smallest(TILE, c->width - column), rows = end - begin;
    int64_t repeat = n == c->width ? smallest(TILE / n, rows) : 1, span = n * repeat;
    int64_t step = repeat * c->width, spans = rows / repeat, i = 0;
    int64_t at = (key / c->width * c->outer + begin) * c->width + column;
    double first[TILE], second[TILE], center[TILE];
    for (int64_t k = 0; k < span; k++) {
        first[k] = second[k] = 0;
        center[k] = p->center[key + k % n];
    }
    for (; i + 4 <= spans; i += 4)
        NAME(add_four_spans)(p, at + i * step, step, span, center, first, second);
    for (; i < spans; i++)
        NAME(add_span)(p, at + i * step, span, center, first, second);
    if (rows > spans * repeat)
        NAME(add_span)(p, at + i * step, (rows - spans * repeat) * n, center, first, second);
    for (int64_t k = 0; k < n; k++) {
        out[2 * k] = first[k];
        out[2 * k + 1] = second[k];
        for (int64_t r = 1; r < repeat; r++) {
            out[2 * k] += first[r * n + k];
            out[2 * k + 1] += second[r * n + k];
        }
    }
}

/* The map of the span that starts at element `at`; vectors hold mean, scale, shift and slope. */
static void NAME(map_span)(const tn_channel_pass *p, int64_t at, int64_t n, T (*vectors)[TILE])
{
    T x_buffer[TILE], g_buffer[TILE], y_buffer[TILE];
    const T *mean = vectors[0], *scale = vectors[1], *shift = vectors[2], *slope = vectors[3];
    const T *x = ROW(element(p->map_x, at), TILE_ROW(p->map_x), x_buffer, n);
    bool direct = p->y->dtype == DTYPE;
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

/* Rows [begin, end) of one matrix, a block of columns at a time. */
static void NAME(map_matrix)(const tn_channel_pass *p, int64_t batch, int64_t begin, int64_t end)
{
    const tn_channels *c = &p->channels;
    const double *values[4] = {p->mean, p->scale, p->shift, p->map_g ? p->slope : NULL};
    T vectors[4][TILE];
    for (int64_t column = 0; column < c->width; column += TILE) {
        int64_t n = smallest(TILE, c->width - column), rows = end - begin;
        int64_t repeat = n == c->width ? smallest(TILE / n, rows) : 1;
        int64_t at = (batch * c->outer + begin) * c->width + column,
                key = batch * c->width + column;
        for (int v = 0; v < 4 && values[v]; v++)
            for (int64_t k = 0; k < n * repeat; k++)
                vectors[v][k] = (T)values[v][key + k % n];
        for (int64_t row = 0; row < rows; row += repeat)
            NAME(map_span)(p, at + row * c->width, n * smallest(repeat, rows - row), vectors);
    }
}

/* Rows of all matrices. */
static void NAME(map_columns)(void *context, int64_t begin, int64_t end)
{
    const tn_channel_pass *p = ((const job *)context)->pass;
    int64_t outer = p->channels.outer;
    for (int64_t row = begin, next; row < end; row = next) {
        next = smallest(end, (row / outer + 1) * outer);
        NAME(map_matrix)(p, row / outer, row % outer, row % outer + next - row);
    }
}

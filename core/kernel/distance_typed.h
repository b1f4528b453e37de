/* Distances and their gradients for one type. Included by distance.c, which defines
 *   T          the type          NAME(x)  x with its suffix
 *   MAGNITUDE, LARGER, POWER, ROOT of the type */

#define JOIN_LANES(JOIN)                                                                           \
    for (int w = LANES / 2; w > 0; w /= 2)                                                         \
        for (int l = 0; l < w; l++)                                                                \
            lane[l] = JOIN(lane[l], lane[l + w])
#define SUM_LANES(VALUE, JOIN)                                                                     \
    do {                                                                                           \
        for (; i + LANES <= n; i += LANES)                                                         \
            TN_LANES(l)                                                                            \
            {                                                                                      \
                T d = MAGNITUDE(a[i + l] - b[i + l]), v = (VALUE);                                 \
                lane[l] = JOIN(lane[l], v);                                                        \
            }                                                                                      \
        for (int l = 0; i + l < n; l++) {                                                          \
            T d = MAGNITUDE(a[i + l] - b[i + l]), v = (VALUE);                                     \
            lane[l] = JOIN(lane[l], v);                                                            \
        }                                                                                          \
        JOIN_LANES(JOIN);                                                                          \
    } while (0)
#define PLUS(x, y) ((x) + (y))

static T NAME(distance)(const distance_job *job, const T *a, const T *b)
{
    int64_t i = 0, n = job->width;
    T lane[LANES] = {0}, p = (T)job->p;
    switch (job->kind) {
    case NORM_0:
        SUM_LANES(d != 0 ? (T)1 : (T)0, PLUS);
        return lane[0];
    case NORM_1:
        SUM_LANES(d, PLUS);
        return lane[0];
    case NORM_2:
        SUM_LANES(d * d, PLUS);
        return ROOT(lane[0]);
    case NORM_MAX:
        SUM_LANES(d, LARGER);
        return lane[0];
    default:
        for (; i < n; i++)
            lane[i % LANES] += POWER(MAGNITUDE(a[i] - b[i]), p);
        JOIN_LANES(PLUS);
        return POWER(lane[0], 1 / p);
    }
}

static void NAME(distances)(void *context, int64_t begin, int64_t end)
{
    const distance_job *job = context;
    const T *a = job->a, *b = job->b;
    T *out = job->out;
    pair at = pair_at(job, begin);
    for (int64_t k = begin; k < end; k++) {
        out[k] = NAME(distance)(job, a + at.i * job->width, b + at.j * job->width);
        if (!job->within) {
            at = k + 1 < end ? pair_at(job, k + 1) : at;
        } else if (++at.j == job->rows_a) {
            at.i++;
            at.j = at.i + 1;
        }
    }
}

/* Adds the gradient of one distance with respect to `a`. A difference of zero has none. */
#define ADD_TERMS(TERM)                                                                            \
    TN_EACH(m, job->width)                                                                         \
    {                                                                                              \
        T d = a[m] - b[m], size = MAGNITUDE(d), sign = d > 0 ? (T)1 : d < 0 ? (T) - 1 : (T)0;      \
        (void)size, (void)sign;                                                                    \
        sum[m] += (TERM);                                                                          \
    }

static void NAME(add_gradient)(const distance_job *job, const T *a, const T *b, T grad, T distance, T *sum)
{
    T p = (T)job->p;
    switch (job->kind) {
    case NORM_0:
        return;
    case NORM_1:
        ADD_TERMS(grad * sign);
        return;
    case NORM_2:
        if (distance != 0)
            ADD_TERMS(grad * d / distance);
        return;
    case NORM_MAX:
        ADD_TERMS(size == distance ? grad * sign : 0);
        return;
    default:
        if (distance == 0)
            return;
        grad = grad / POWER(distance, p - 1);
        for (int64_t m = 0; m < job->width; m++) {
            T d = a[m] - b[m];
            if (d != 0)
                sum[m] += grad * POWER(MAGNITUDE(d), p - 1) * (d > 0 ? (T)1 : (T) - 1);
        }
    }
}

static void NAME(gradients)(void *context, int64_t begin, int64_t end)
{
    const distance_job *job = context;
    const T *grad = job->grad, *distance = job->distance;
    for (int64_t row = begin; row < end; row++) {
        const T *a = (const T *)job->a + row * job->width;
        int64_t batch = row / job->rows_a, i = row % job->rows_a, n = job->rows_a;
        T *sum = (T *)job->out + row * job->width;
        memset(sum, 0, sizeof *sum * (size_t)job->width);
        for (int64_t j = 0; j < job->rows_b; j++) {
            int64_t k = row * job->rows_b + j;
            if (job->within && i == j)
                continue;
            if (job->within)
                k = i < j ? pair_start(n, i) + j - i - 1 : pair_start(n, j) + i - j - 1;
            const T *b = (const T *)job->b + (batch * job->rows_b + j) * job->width;
            NAME(add_gradient)(job, a, b, grad[k], distance[k], sum);
        }
    }
}

#undef JOIN_LANES
#undef SUM_LANES
#undef PLUS
#undef ADD_TERMS

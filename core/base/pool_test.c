/* The thread pool: coverage, nesting, resizing, shutdown, several callers at once. */
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/check.h"
#include "base/pool.h"
#include "base/thread.h"

enum { COUNT = 10000 };

typedef struct tally {
    _Atomic(uint8_t) seen[COUNT];
    _Atomic(int) calls, short_calls;
    int64_t grain;
} tally;

static void mark(void *context, int64_t begin, int64_t end)
{
    tally *t = context;
    t->calls++;
    if (end - begin < t->grain && end != COUNT)
        t->short_calls++;
    for (int64_t i = begin; i < end; i++)
        t->seen[i]++;
}

static void check_covers(int64_t grain)
{
    tally *t = calloc(1, sizeof *t);
    t->grain = grain;
    tn_parallel_for(COUNT, grain, mark, t);
    int wrong = 0;
    for (int i = 0; i < COUNT; i++)
        wrong += t->seen[i] != 1;
    TN_CHECK_INT(wrong, 0);
    TN_CHECK_INT(t->short_calls, 0);
    free(t);
}

TN_CASE(every_index_once)
{
    for (int threads = 1; threads <= 4; threads++) {
        tn_pool_set_size(threads);
        TN_CHECK_INT(tn_pool_size(), threads);
        for (int64_t grain = 1; grain <= COUNT * 2; grain *= 7)
            check_covers(grain);
    }
}

TN_CASE(parking_and_waking)
{
    tn_pool_set_size(4);
    for (int i = 0; i < 20; i++) {
        check_covers(100);
        nanosleep(&(struct timespec){.tv_nsec = 300000 * (i % 3)}, NULL);
    }
}

TN_CASE(restarts_after_shutdown)
{
    tn_pool_set_size(3);
    for (int i = 0; i < 10; i++) {
        check_covers(10);
        tn_pool_shutdown();
    }
    tn_pool_shutdown();
    check_covers(10);
}

static void nest(void *context, int64_t begin, int64_t end)
{
    (void)context;
    for (int64_t i = begin; i < end; i++)
        check_covers(1000);
}

TN_CASE(nested_calls_run)
{
    tn_pool_set_size(3);
    tn_parallel_for(8, 1, nest, NULL);
}

static void *call_often(void *unused)
{
    (void)unused;
    for (int i = 0; i < 50; i++)
        check_covers(1 + i * 20);
    return NULL;
}

TN_CASE(callers_at_once)
{
    pthread_t threads[4];
    tn_pool_set_size(3);
    for (int i = 0; i < 4; i++)
        TN_CHECK(tn_thread_start("caller", call_often, NULL, &threads[i]));
    for (int i = 0; i < 20; i++)
        tn_pool_set_size(1 + i % 4);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

TN_CASE(scratch_is_aligned_and_grows)
{
    char *small = tn_scratch(0, 100);
    TN_CHECK(small && (uintptr_t)small % 64 == 0);
    TN_CHECK(tn_scratch(0, 50) == small);
    char *large = tn_scratch(0, 3 << 20);
    TN_CHECK(large && (uintptr_t)large % 64 == 0);
    memset(large, 1, 3 << 20);
    TN_CHECK(tn_scratch(1, 100) != large);
    tn_pool_shutdown();
}

TN_CASES_END

/* The thread pool. It owns the workers and the one job that may be running.
 *
 * A job is a range cut into shares of whole chunks, one per thread. A thread claims the chunks of its own
 * share by fetch-add, then helps with the others'. So whoever worked on some part of a tensor most likely
 * gets the same part in the next job, while it is still in its core's cache.
 *
 * The gate says who may touch it: (epoch << 32) | open | active. A worker joins by a
 * compare-and-swap that raises `active` while the job is open; the caller, out of chunks, closes
 * the job and waits for active == 0. So a worker that wakes late finds a closed gate and never sees
 * a dead job's context.
 *
 * Waking a sleeper costs its waker tens of microseconds. So when workers sleep the caller first
 * runs one grain alone, and wakes as many as the rest of the work, judged by that grain, is worth. Short
 * jobs in close succession add up until one of them wakes a worker, which then spins from job to job.
 *
 * Parking is Dekker's: a worker announces itself in `parked`, then looks at the gate again before
 * it sleeps; the caller opens the gate, then looks at `parked`. Both sides are sequentially
 * consistent. */
#include <limits.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/futex.h"
#include "base/pool.h"
#include "base/thread.h"

enum { MAX_THREADS = 256, CHUNKS_PER_THREAD = 4 };
enum { WORKER_SPIN_NS = 20000, CALLER_SPIN_NS = 20000, SPINS_PER_LOOK = 32 };
enum { WAKE_WORTH_NS = 50000 }; /* of remaining work per thread woken */
enum { SOON_NS = 100000 };      /* jobs that follow so closely are judged together */

static const uint64_t GATE_OPEN = (uint64_t)1 << 31;
static const uint64_t GATE_ACTIVE = ((uint64_t)1 << 31) - 1;

typedef struct share {
    _Alignas(64) _Atomic(int64_t) next;
    int64_t end;
} share;

static struct {
    tn_parallel_body body;
    void *context;
    int64_t count, chunk;
    int share_count;
    int64_t last_start, missed_ns; /* work that jobs in close succession did without help */
    _Atomic(uint32_t) max_helpers; /* a late worker may look while the next job is set up */
    _Alignas(64) _Atomic(uint64_t) gate;
    _Alignas(64) _Atomic(uint32_t) wake_word; /* bumped with each job; workers park on it */
    _Atomic(uint32_t) parked;
    _Alignas(64) _Atomic(uint32_t) done_word; /* bumped when the last helper leaves */
    _Atomic(uint32_t) caller_parked;
    _Atomic(uint32_t) busy; /* whoever holds it owns the job and `workers` */
    _Atomic(bool) stopping;
    int workers;
    pthread_t threads[MAX_THREADS];
    share shares[MAX_THREADS];
    _Atomic(int) size; /* 0: not chosen yet */
} pool;

static _Thread_local bool inside_job;

static int default_size(void)
{
    const char *text = getenv("TORCH_NEURONX_NUM_THREADS");
    int size = text ? atoi(text) : 0;
    if (size < 1) {
        text = getenv("LOCAL_WORLD_SIZE");
        int ranks = text ? atoi(text) : 1;
        size = tn_cpu_get()->physical_cores / (ranks < 1 ? 1 : ranks);
    }
    return size < 1 ? 1 : size > MAX_THREADS ? MAX_THREADS : size;
}

int tn_pool_size(void)
{
    int size = atomic_load_explicit(&pool.size, memory_order_relaxed);
    if (size == 0) {
        tn_clock_init();
        size = default_size();
        atomic_store_explicit(&pool.size, size, memory_order_relaxed);
    }
    return size;
}

void tn_pool_set_size(int threads)
{
    int size = threads < 1 ? 1 : threads > MAX_THREADS ? MAX_THREADS : threads;
    tn_clock_init();
    atomic_store_explicit(&pool.size, size, memory_order_relaxed);
}

/* Spins on `look` (true ends it) for about `limit_ns`; pointless where there is one core only. */
static bool spin_until(bool (*look)(uint32_t), uint32_t argument, int64_t limit_ns)
{
    if (tn_cpu_get()->logical_cores < 2)
        return look(argument);
    int64_t end = tn_now_ns() + limit_ns;
    do {
        for (int i = 0; i < SPINS_PER_LOOK; i++) {
            if (look(argument))
                return true;
            tn_cpu_relax();
        }
    } while (tn_now_ns() < end);
    return false;
}

static bool gate_moved(uint32_t epoch)
{
    return (uint32_t)(atomic_load(&pool.gate) >> 32) != epoch || atomic_load(&pool.stopping);
}

static bool helpers_gone(uint32_t unused)
{
    (void)unused;
    return (atomic_load(&pool.gate) & GATE_ACTIVE) == 0;
}

/* The caller is number 0, worker w is w + 1. */
static void run_chunks(int number)
{
    for (int i = 0; i < pool.share_count; i++) {
        share *from = &pool.shares[(number + i) % pool.share_count];
        int64_t begin;
        while ((begin = atomic_fetch_add_explicit(&from->next, pool.chunk, memory_order_relaxed)) < from->end)
            pool.body(pool.context, begin,
                      from->end - begin > pool.chunk ? begin + pool.chunk : from->end);
    }
}

/* Takes part in the open job, if there is one with room; returns the gate's epoch. */
static uint32_t join_job(int number)
{
    uint64_t gate = atomic_load(&pool.gate);
    do {
        if (!(gate & GATE_OPEN) || (gate & GATE_ACTIVE) >= pool.max_helpers)
            return (uint32_t)(gate >> 32);
    } while (!atomic_compare_exchange_weak(&pool.gate, &gate, gate + 1));
    run_chunks(number);
    uint64_t left = atomic_fetch_sub(&pool.gate, 1) - 1;
    if (!(left & GATE_OPEN) && (left & GATE_ACTIVE) == 0 && atomic_load(&pool.caller_parked)) {
        atomic_fetch_add(&pool.done_word, 1);
        tn_futex_wake(&pool.done_word, 1);
    }
    return (uint32_t)(left >> 32);
}

/* The argument holds the gate's epoch and, above it, the worker's number. */
static void *run_worker(void *argument)
{
    uint32_t seen = (uint32_t)(uintptr_t)argument;
    int number = (int)((uint64_t)(uintptr_t)argument >> 32);
    inside_job = true;
    while (!atomic_load(&pool.stopping)) {
        if (!spin_until(gate_moved, seen, WORKER_SPIN_NS)) {
            uint32_t word = atomic_load(&pool.wake_word);
            atomic_fetch_add(&pool.parked, 1);
            if (!gate_moved(seen))
                tn_futex_wait(&pool.wake_word, word, -1);
            atomic_fetch_sub(&pool.parked, 1);
            continue;
        }
        seen = join_job(number);
    }
    return NULL;
}

static void start_workers(int count)
{
    uint64_t epoch = atomic_load(&pool.gate) >> 32;
    for (; pool.workers < count; pool.workers++) {
        uint64_t argument = (uint64_t)(pool.workers + 1) << 32 | epoch;
        if (!tn_thread_start("tn-pool", run_worker, (void *)(uintptr_t)argument,
                             &pool.threads[pool.workers]))
            return;
    }
}

static void cut_shares(int64_t chunks, int threads)
{
    pool.share_count = chunks < threads ? (int)chunks : threads;
    for (int i = 0; i < pool.share_count; i++) {
        int64_t end = chunks * (i + 1) / pool.share_count * pool.chunk;
        atomic_store_explicit(&pool.shares[i].next, chunks * i / pool.share_count * pool.chunk,
                              memory_order_relaxed);
        pool.shares[i].end = end < pool.count ? end : pool.count;
    }
}

static void open_gate(void)
{
    uint64_t epoch = (uint32_t)((atomic_load(&pool.gate) >> 32) + 1);
    atomic_store(&pool.gate, (epoch << 32) | GATE_OPEN);
    atomic_fetch_add(&pool.wake_word, 1);
}

/* With sleepers around: runs the first grain, then wakes those that are worth it. */
static void wake_for_rest(int64_t grain, int helpers)
{
    share *own = &pool.shares[0];
    int64_t begin = atomic_fetch_add_explicit(&own->next, grain, memory_order_relaxed);
    if (begin >= own->end)
        return;
    int64_t start = tn_now_ns();
    if (start - pool.last_start > SOON_NS)
        pool.missed_ns = 0;
    pool.last_start = start;
    int64_t end = own->end - begin > grain ? begin + grain : own->end;
    pool.body(pool.context, begin, end);
    int64_t per_grain = tn_now_ns() - start;
    pool.missed_ns += per_grain * ((pool.count - end) / grain);
    int64_t worth = pool.missed_ns / WAKE_WORTH_NS;
    if (worth == 0)
        return;
    pool.missed_ns = 0;
    tn_futex_wake(&pool.wake_word, worth < helpers ? (int)worth : helpers);
}

static void close_gate(void)
{
    atomic_fetch_and(&pool.gate, ~GATE_OPEN);
    if (spin_until(helpers_gone, 0, CALLER_SPIN_NS))
        return;
    atomic_store(&pool.caller_parked, 1);
    for (;;) {
        uint32_t word = atomic_load(&pool.done_word);
        if (helpers_gone(0))
            break;
        tn_futex_wait(&pool.done_word, word, -1);
    }
    atomic_store(&pool.caller_parked, 0);
}

static bool take_job(void)
{
    return !atomic_exchange_explicit(&pool.busy, 1, memory_order_acquire);
}

void tn_parallel_for(int64_t count, int64_t grain, tn_parallel_body body, void *context)
{
    if (count <= 0)
        return;
    if (grain < 1)
        grain = 1;
    int threads;
    if (count <= grain || inside_job || (threads = tn_pool_size()) < 2 || !take_job()) {
        body(context, 0, count);
        return;
    }
    int64_t grains = (count - 1) / grain + 1, pieces = (int64_t)threads * CHUNKS_PER_THREAD;
    pool.chunk = grain * ((grains - 1) / pieces + 1);
    int64_t chunks = (count - 1) / pool.chunk + 1;
    pool.body = body;
    pool.context = context;
    pool.count = count;
    cut_shares(chunks, threads);
    uint32_t helpers = (uint32_t)pool.share_count - 1;
    atomic_store_explicit(&pool.max_helpers, helpers, memory_order_relaxed);
    start_workers(threads - 1);
    inside_job = true;
    open_gate();
    if (atomic_load(&pool.parked) > 0)
        wake_for_rest(grain, (int)helpers);
    run_chunks(0);
    close_gate();
    inside_job = false;
    atomic_store_explicit(&pool.busy, 0, memory_order_release);
}

void tn_pool_shutdown(void)
{
    while (!take_job())
        tn_cpu_relax();
    atomic_store(&pool.stopping, true);
    atomic_fetch_add(&pool.wake_word, 1);
    tn_futex_wake(&pool.wake_word, INT_MAX);
    for (int i = 0; i < pool.workers; i++)
        pthread_join(pool.threads[i], NULL);
    pool.workers = 0;
    atomic_store(&pool.stopping, false);
    atomic_store_explicit(&pool.busy, 0, memory_order_release);
}

void tn_pool_forget_threads(void)
{
    pool.workers = 0;
    atomic_store(&pool.parked, 0);
    atomic_store(&pool.busy, 0);
}

/* Executors: the threads that run streams nobody else runs. They start when the first stream is
 * submitted and park when there is nothing to do.
 *
 * `ready` lists submitted streams, high priority (small numbers) first. There are never more ready
 * streams than idle executors unless MAX_EXECUTORS are busy, so slow streams overlap. */
#include <limits.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/thread.h"
#include "runtime/stream.h"

enum { MAX_EXECUTORS = 8, SPIN_NS = 20000, SPINS_PER_LOOK = 32 };

static struct {
    tn_spin lock;
    tn_stream *ready;
    int threads; /* started or being started */
    int idle;    /* of them, looking for a stream */
    int parked;  /* of the idle, asleep */
    bool stopping;
    _Atomic(int) ready_count;
    _Atomic(int) spare; /* idle + threads that may still start */
    _Atomic(uint32_t) wake_word;
    pthread_t handles[MAX_EXECUTORS];
} executors = {.spare = MAX_EXECUTORS};

static pthread_mutex_t lifecycle = PTHREAD_MUTEX_INITIALIZER; /* starting and joining threads */

bool tn_executor_is_contended(void)
{
    return atomic_load_explicit(&executors.ready_count, memory_order_relaxed) > 0 &&
           atomic_load_explicit(&executors.spare, memory_order_relaxed) == 0;
}

static void count_spare(void)
{
    atomic_store_explicit(&executors.spare, executors.idle + MAX_EXECUTORS - executors.threads,
                          memory_order_relaxed);
}

static void push_ready(tn_stream *stream)
{
    tn_stream **link = &executors.ready;
    while (*link && (*link)->priority <= stream->priority)
        link = &(*link)->ready_next;
    stream->ready_next = *link;
    *link = stream;
    atomic_fetch_add_explicit(&executors.ready_count, 1, memory_order_relaxed);
}

static tn_stream *pop_ready(void)
{
    tn_stream *stream = executors.ready;
    if (stream) {
        executors.ready = stream->ready_next;
        atomic_fetch_sub_explicit(&executors.ready_count, 1, memory_order_relaxed);
    }
    return stream;
}

/* Runs a submitted stream unless somebody else took its token first. */
static void run_submitted(tn_stream *stream)
{
    tn_spin_lock(&stream->lock);
    stream->scheduled = false;
    bool mine = !stream->running && !stream->parked && !tn_queue_is_empty(&stream->queue);
    if (mine)
        stream->running = true;
    tn_spin_unlock(&stream->lock);
    if (mine)
        tn_stream_run(stream, UINT64_MAX, TN_RUN_SHARING);
}

/* Looks for work a little longer before the thread sleeps: waking it would take longer. */
static void spin_for_work(void)
{
    if (tn_cpu_get()->logical_cores < 2)
        return;
    int64_t end = tn_now_ns() + SPIN_NS;
    do {
        for (int i = 0; i < SPINS_PER_LOOK; i++) {
            if (atomic_load_explicit(&executors.ready_count, memory_order_relaxed) > 0)
                return;
            tn_cpu_relax();
        }
    } while (tn_now_ns() < end);
}

/* The next stream to run; NULL when the executors stop. This thread counts as idle meanwhile. */
static tn_stream *next_stream(void)
{
    bool spun = false;
    tn_spin_lock(&executors.lock);
    for (;;) {
        tn_stream *stream = pop_ready();
        if (stream || executors.stopping) {
            executors.idle--;
            count_spare();
            tn_spin_unlock(&executors.lock);
            return stream;
        }
        if (!spun) {
            tn_spin_unlock(&executors.lock);
            spin_for_work();
            spun = true;
            tn_spin_lock(&executors.lock);
            continue;
        }
        uint32_t word = atomic_load_explicit(&executors.wake_word, memory_order_relaxed);
        executors.parked++;
        tn_spin_unlock(&executors.lock);
        tn_futex_wait(&executors.wake_word, word, -1);
        tn_spin_lock(&executors.lock);
        executors.parked--;
    }
}

static void *run_executor(void *unused)
{
    (void)unused;
    for (tn_stream *stream; (stream = next_stream());) {
        run_submitted(stream);
        tn_spin_lock(&executors.lock);
        executors.idle++;
        count_spare();
        tn_spin_unlock(&executors.lock);
    }
    return NULL;
}

/* Starts one more thread; it counts as idle from now on. */
static void start_one(void)
{
    pthread_mutex_lock(&lifecycle);
    tn_spin_lock(&executors.lock);
    int index = executors.threads;
    bool wanted = index < MAX_EXECUTORS && executors.ready_count > executors.idle;
    if (wanted) {
        executors.threads++;
        executors.idle++;
        count_spare();
    }
    tn_spin_unlock(&executors.lock);
    if (wanted && !tn_thread_start("tn-executor", run_executor, NULL, &executors.handles[index])) {
        tn_spin_lock(&executors.lock);
        executors.threads--;
        executors.idle--;
        count_spare();
        tn_spin_unlock(&executors.lock);
    }
    pthread_mutex_unlock(&lifecycle);
}

/* When no thread can be started at all, whoever submits has to run what is ready. */
static void run_without_threads(void)
{
    for (;;) {
        tn_spin_lock(&executors.lock);
        tn_stream *stream = executors.threads == 0 ? pop_ready() : NULL;
        tn_spin_unlock(&executors.lock);
        if (!stream)
            return;
        run_submitted(stream);
    }
}

void tn_executor_submit(tn_stream *stream)
{
    tn_spin_lock(&executors.lock);
    push_ready(stream);
    bool start = executors.ready_count > executors.idle && executors.threads < MAX_EXECUTORS;
    bool wake = executors.parked > 0;
    if (wake)
        atomic_fetch_add_explicit(&executors.wake_word, 1, memory_order_relaxed);
    tn_spin_unlock(&executors.lock);
    if (wake)
        tn_futex_wake(&executors.wake_word, 1);
    if (start) {
        start_one();
        run_without_threads();
    }
}

void tn_executor_quiesce(void)
{
    pthread_mutex_lock(&lifecycle);
    tn_spin_lock(&executors.lock);
    executors.stopping = true;
    atomic_fetch_add_explicit(&executors.wake_word, 1, memory_order_relaxed);
    int threads = executors.threads;
    tn_spin_unlock(&executors.lock);
    tn_futex_wake(&executors.wake_word, INT_MAX);
    for (int i = 0; i < threads; i++)
        pthread_join(executors.handles[i], NULL);
    tn_spin_lock(&executors.lock);
    executors.threads = executors.idle = executors.parked = 0;
    executors.stopping = false;
    count_spare();
    bool left = executors.ready_count > 0; /* submitted while the threads were ending */
    tn_spin_unlock(&executors.lock);
    pthread_mutex_unlock(&lifecycle);
    if (left)
        start_one();
}

void tn_executor_forget_threads(void)
{
    executors.threads = executors.idle = executors.parked = 0;
    executors.ready = NULL;
    executors.ready_count = 0;
    executors.spare = MAX_EXECUTORS;
    executors.lock.held = 0;
    pthread_mutex_init(&lifecycle, NULL);
}

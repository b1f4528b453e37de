/* Streams, events, faults and launches from the outside, with the ops sleep, fill and add. */
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/thread.h"
#include "runtime/stream.h"
#include "tn/op/copy.h"
#include "tn/op/pointwise.h"
#include "tn/op/sleep.h"

static const int64_t ms = 1000000;

static tn_status sleep_on(tn_stream *stream, double milliseconds)
{
    tn_scalar cycles = {.i = (int64_t)(milliseconds * 1.4e6), .kind = TN_SCALAR_INT};
    tn_launch_desc launch = {.op = TN_OP_sleep,
                             .compute_dtype = TN_DTYPE_NONE,
                             .stream = stream,
                             .num_scalars = 1,
                             .scalars = &cycles};
    return tn_launch(&launch);
}

static tn_operand operand_of(tn_block *block, const int64_t *size)
{
    static const int64_t stride = 1;
    return (tn_operand){.block = block, .sizes = size, .strides = &stride, .ndim = 1,
                        .dtype = TN_FLOAT32};
}

/* a += b, element by element. */
static tn_status add_on(tn_stream *stream, tn_block *a, tn_block *b)
{
    const int64_t size = (int64_t)(a->bytes / sizeof(float));
    tn_scalar alpha = {.d = 1, .kind = TN_SCALAR_FLOAT};
    tn_operand operands[] = {operand_of(a, &size), operand_of(a, &size), operand_of(b, &size)};
    tn_launch_desc launch = {.op = TN_OP_add,
                             .compute_dtype = TN_FLOAT32,
                             .num_outputs = 1,
                             .num_operands = 3,
                             .operands = operands,
                             .num_scalars = 1,
                             .scalars = &alpha,
                             .stream = stream};
    return tn_launch(&launch);
}

/* Host writes are ordered after nothing on the stream: only for blocks of a stream with nothing
 * queued. */
static tn_block *floats(int64_t count, float value, tn_stream *stream)
{
    tn_block *block;
    TN_CHECK_OK(tn_block_alloc(0, (size_t)count * sizeof(float), stream, &block));
    for (int64_t i = 0; i < count; i++)
        ((float *)block->data)[i] = value;
    return block;
}

static tn_stream *default_stream(void)
{
    tn_stream *stream = NULL;
    TN_CHECK_OK(tn_stream_default(0, &stream));
    return stream;
}

static tn_stream *new_stream(void)
{
    tn_stream *stream = NULL;
    TN_CHECK_OK(tn_stream_create(0, 0, &stream));
    return stream;
}

TN_CASE(small_work_runs_inline)
{
    tn_stream *stream = default_stream();
    tn_block *a = floats(100, 1, stream), *b = floats(100, 2, stream);
    uint64_t generation = a->generation;
    TN_CHECK_OK(add_on(stream, a, b));
    TN_CHECK(tn_stream_query(stream));
    TN_CHECK(((float *)a->data)[99] == 3);
    TN_CHECK(a->generation == generation + 1);
    tn_block_free(a);
    tn_block_free(b);
}

TN_CASE(a_busy_stream_queues_in_order)
{
    enum { ADDS = 300 };
    tn_stream *stream = default_stream();
    tn_block *a = floats(100, 0, stream), *b = floats(100, 1, stream);
    uint64_t launched = tn_op_launches(TN_OP_add);
    TN_CHECK_OK(sleep_on(stream, 100));
    for (int i = 0; i < ADDS; i++)
        TN_CHECK_OK(add_on(stream, a, b));
#ifndef TN_HOSTILE
    TN_CHECK(!tn_stream_query(stream));
    TN_CHECK(((float *)a->data)[0] == 0);
    TN_CHECK_INT(tn_stream_wait(stream, 1 * ms), TN_TIMEOUT);
#endif
    TN_CHECK_OK(tn_stream_wait(stream, -1));
    TN_CHECK(((float *)a->data)[0] == ADDS && ((float *)a->data)[99] == ADDS);
    TN_CHECK_INT(tn_op_launches(TN_OP_add) - launched, ADDS);
    tn_block_free(a);
    tn_block_free(b);
}

TN_CASE(freed_memory_is_reused_in_stream_order)
{
    tn_stream *stream = default_stream();
    tn_block *a = floats(100, 0, stream), *b = floats(100, 1, stream);
    TN_CHECK_OK(sleep_on(stream, 5));
    TN_CHECK_OK(add_on(stream, a, b));
    void *data = b->data;
    tn_block_free(b); /* still to be read by the queued add */
    tn_block *c;
    TN_CHECK_OK(tn_block_alloc(0, 400, stream, &c));
    TN_CHECK(c->data == data);
    TN_CHECK_OK(add_on(stream, c, a));
    TN_CHECK_OK(tn_stream_wait(stream, -1));
    TN_CHECK(((float *)a->data)[5] == 1 && ((float *)c->data)[5] == 2);
    tn_block_free(a);
    tn_block_free(c);
}

TN_CASE(two_slow_streams_overlap)
{
    tn_stream *one = new_stream(), *two = new_stream();
    int64_t start = tn_now_ns();
    TN_CHECK_OK(sleep_on(one, 200));
    TN_CHECK_OK(sleep_on(two, 200));
    TN_CHECK_OK(tn_device_wait(0, -1));
    TN_CHECK(tn_now_ns() - start < 390 * ms);
}

TN_CASE(a_parked_stream_blocks_nobody)
{
    tn_stream *slow = new_stream(), *parked = new_stream(), *third = default_stream();
    tn_block *a = floats(10, 0, parked), *b = floats(10, 1, parked);
    tn_event *event;
    TN_CHECK_OK(tn_event_create(0, false, &event));
    TN_CHECK(tn_event_query(event)); /* never recorded */
    TN_CHECK_OK(sleep_on(slow, 150));
    TN_CHECK_OK(tn_event_record(event, slow));
    TN_CHECK(!tn_event_query(event));
    TN_CHECK_OK(tn_stream_wait_event(parked, event));
    TN_CHECK_OK(add_on(parked, a, b));
    TN_CHECK(!tn_stream_query(parked));
    TN_CHECK_OK(sleep_on(third, 1));
    TN_CHECK_OK(tn_stream_wait(third, -1));
    TN_CHECK(!tn_stream_query(slow));
    TN_CHECK(((float *)a->data)[0] == 0);
    tn_event_destroy(event);
    TN_CHECK_OK(tn_stream_wait(parked, -1));
    TN_CHECK(((float *)a->data)[0] == 1);
    TN_CHECK(tn_stream_query(slow));
    tn_block_free(a);
    tn_block_free(b);
}

TN_CASE(events_measure_time)
{
    tn_stream *stream = new_stream();
    tn_event *start, *end, *silent;
    double elapsed = 0;
    TN_CHECK_OK(tn_event_create(0, true, &start));
    TN_CHECK_OK(tn_event_create(0, true, &end));
    TN_CHECK_OK(tn_event_create(0, false, &silent));
    TN_CHECK_INT(tn_event_elapsed_ms(start, end, &elapsed), TN_ERROR_VALUE);
    TN_CHECK_OK(tn_event_record(start, stream));
    TN_CHECK_OK(sleep_on(stream, 30));
    TN_CHECK_OK(tn_event_record(end, stream));
    TN_CHECK_INT(tn_event_elapsed_ms(start, end, &elapsed), TN_ERROR_RUNTIME);
    TN_CHECK_INT(tn_event_wait(end, 1 * ms), TN_TIMEOUT);
    TN_CHECK_OK(tn_event_wait(end, -1));
    TN_CHECK_OK(tn_event_elapsed_ms(start, end, &elapsed));
    TN_CHECK(elapsed > 29.9 && elapsed < 1000);
    TN_CHECK_INT(tn_event_elapsed_ms(start, silent, &elapsed), TN_ERROR_VALUE);
    tn_event_destroy(start);
    tn_event_destroy(end);
    tn_event_destroy(silent);
}

TN_CASE(a_fault_is_delivered_once)
{
    tn_stream *stream = new_stream(), *other = new_stream();
    tn_block *a = floats(10, 0, stream), *b = floats(10, 1, stream);
    TN_CHECK_INT(sleep_on(stream, -1), TN_ERROR_VALUE); /* inline: at once */
    TN_CHECK_OK(tn_stream_wait(stream, -1));
    TN_CHECK_OK(sleep_on(stream, 5));
    TN_CHECK_OK(sleep_on(stream, -1));
    TN_CHECK_OK(sleep_on(stream, -2));
    TN_CHECK_OK(add_on(stream, a, b));
    TN_CHECK_OK(tn_stream_wait(other, -1));
    TN_CHECK_INT(tn_stream_wait(stream, -1), TN_ERROR_VALUE);
    TN_CHECK(strstr(tn_last_error()->message, "sleep"));
    TN_CHECK(strstr(tn_last_error()->message, "-1400000"));
    TN_CHECK_OK(tn_stream_wait(stream, -1));
    TN_CHECK(((float *)a->data)[9] == 1);
    tn_block_free(a);
    tn_block_free(b);
}

TN_CASE(record_stream_delays_reuse)
{
    tn_stream *owner = default_stream(), *user = new_stream();
    tn_block *a = floats(100, 1, owner), *b;
    void *data = a->data;
    TN_CHECK_OK(sleep_on(user, 20));
    tn_block_record_stream(a, user);
    tn_block_free(a);
    TN_CHECK_OK(tn_block_alloc(0, 400, owner, &b));
    TN_CHECK(b->data != data);
    tn_block_free(b);
    tn_memory_stats stats;
    TN_CHECK_OK(tn_memory_get_stats(0, &stats));
    TN_CHECK_INT(stats.active[TN_POOL_ALL].current, stats.allocation[TN_POOL_ALL].current + 1);
    TN_CHECK_OK(tn_stream_wait(user, -1));
    TN_CHECK_OK(tn_memory_empty_cache(0));
    TN_CHECK_OK(tn_memory_get_stats(0, &stats));
    TN_CHECK_INT(stats.active[TN_POOL_ALL].current, stats.allocation[TN_POOL_ALL].current);
}

TN_CASE(blocking_launches)
{
    tn_stream *stream = new_stream();
    tn_set_launch_blocking(true);
    int64_t start = tn_now_ns();
    TN_CHECK_OK(sleep_on(stream, 10));
    TN_CHECK(tn_now_ns() - start >= 10 * ms && tn_stream_query(stream));
    TN_CHECK_INT(sleep_on(stream, -1), TN_ERROR_VALUE);
    tn_set_launch_blocking(false);
}

static tn_launch_desc copy_of(tn_operand operands[2], tn_stream *stream)
{
    return (tn_launch_desc){.op = TN_OP_copy,
                            .compute_dtype = TN_FLOAT32,
                            .flags = TN_LAUNCH_COMPLETE_HOST,
                            .num_outputs = 1,
                            .num_operands = 2,
                            .operands = operands,
                            .stream = stream};
}

TN_CASE(small_host_inputs_are_staged)
{
    static const int64_t size = 8;
    float host[8];
    tn_stream *stream = new_stream();
    tn_block *a = floats(8, 0, stream);
    tn_operand operands[2] = {operand_of(a, &size), operand_of(a, &size)};
    operands[1].block = NULL;
    operands[1].data = host;
    operands[1].flags = TN_OPERAND_HOST;
    tn_launch_desc launch = copy_of(operands, stream);
    for (int i = 0; i < 8; i++)
        host[i] = 7;
    TN_CHECK_OK(sleep_on(stream, 10));
#ifndef TN_HOSTILE
    TN_CHECK_OK(tn_launch(&launch));
    TN_CHECK(!tn_stream_query(stream));
#else
    tn_status status;
    while ((status = tn_launch(&launch)) == TN_TIMEOUT)
        continue;
    TN_CHECK_OK(status);
#endif
    memset(host, 0, sizeof host);
    TN_CHECK_OK(tn_stream_wait(stream, -1));
    TN_CHECK(((float *)a->data)[0] == 7 && ((float *)a->data)[7] == 7);
    tn_block_free(a);
}

TN_CASE(host_outputs_are_complete)
{
    static const int64_t size = 8;
    float host[8] = {0};
    tn_stream *stream = new_stream();
    tn_block *a = floats(8, 1, stream), *b = floats(8, 2, stream);
    tn_operand operands[2] = {operand_of(a, &size), operand_of(a, &size)};
    operands[0].block = NULL;
    operands[0].data = host;
    operands[0].flags = TN_OPERAND_HOST;
    tn_launch_desc launch = copy_of(operands, stream);
    TN_CHECK_OK(sleep_on(stream, 10));
    TN_CHECK_OK(add_on(stream, a, b));
    TN_CHECK_OK(tn_launch(&launch));
    TN_CHECK(host[0] == 3 && host[7] == 3);
    TN_CHECK_OK(sleep_on(stream, 400));
    int64_t start = tn_now_ns();
    TN_CHECK_INT(tn_launch(&launch), TN_TIMEOUT);
    TN_CHECK(tn_now_ns() - start < 390 * ms && !tn_stream_query(stream));
    tn_status status;
    while ((status = tn_launch(&launch)) == TN_TIMEOUT)
        continue;
    TN_CHECK_OK(status);
    TN_CHECK_OK(sleep_on(stream, 1));
    TN_CHECK_OK(sleep_on(stream, -1));
    TN_CHECK_INT(tn_launch(&launch), TN_ERROR_VALUE);
    TN_CHECK_OK(tn_launch(&launch));
    tn_block_free(a);
    tn_block_free(b);
}

TN_CASE(without_host_memory_for_a_queue)
{
    tn_stream *stream = new_stream(), *other = new_stream();
    tn_event *event;
    TN_CHECK_OK(tn_event_create(0, false, &event));
    tn_alloc_fail_at(1);
    int64_t start = tn_now_ns();
    TN_CHECK_OK(sleep_on(stream, 5)); /* no queue: the caller runs it */
    TN_CHECK(tn_now_ns() - start >= 5 * ms);
    TN_CHECK_OK(sleep_on(stream, 10));
    TN_CHECK_OK(tn_event_record(event, stream));
    tn_alloc_fail_at(1);
    TN_CHECK_OK(tn_stream_wait_event(other, event)); /* the host waits instead */
    TN_CHECK(tn_event_query(event));
    tn_event *none;
    tn_alloc_fail_at(1);
    TN_CHECK_INT(tn_event_create(0, false, &none), TN_ERROR_OUT_OF_MEMORY);
    tn_alloc_fail_at(0);
    tn_event_destroy(event);
}

TN_CASE(events_move_between_streams)
{
    tn_stream *slow = new_stream(), *fast = new_stream(), *waiting = new_stream();
    tn_event *event;
    TN_CHECK_OK(tn_event_create(0, false, &event));
    TN_CHECK_OK(sleep_on(slow, 20));
    TN_CHECK_OK(tn_event_record(event, slow));
    TN_CHECK_OK(tn_stream_wait_event(waiting, event));
    TN_CHECK_OK(tn_event_record(event, fast)); /* idle: complete, but not what was waited for */
    TN_CHECK(tn_event_query(event));
    TN_CHECK(!tn_stream_query(waiting) && !tn_stream_query(slow));
    TN_CHECK_OK(tn_stream_wait(waiting, -1));
    TN_CHECK(tn_stream_query(slow));
    tn_event_destroy(event);
}

TN_CASE(launches_too_large_for_the_queue)
{
    enum { OPERANDS = 12000 };
    static tn_operand operands[OPERANDS];
    static const int64_t size = 4;
    tn_stream *stream = default_stream();
    tn_block *block = floats(4, 1, stream);
    tn_scalar cycles = {.i = 1400, .kind = TN_SCALAR_INT};
    for (int i = 0; i < OPERANDS; i++)
        operands[i] = operand_of(block, &size);
    TN_CHECK_OK(sleep_on(stream, 5));
    tn_launch_desc launch = {.op = TN_OP_sleep, .num_operands = OPERANDS, .operands = operands,
                             .stream = stream, .scalars = &cycles, .num_scalars = 1,
                             .compute_dtype = TN_DTYPE_NONE};
    TN_CHECK_OK(tn_launch(&launch));
    TN_CHECK(tn_stream_query(stream));
    tn_block_free(block);
}

TN_CASE(more_slow_streams_than_executors)
{
    enum { STREAMS = 20 };
    tn_stream *streams[STREAMS];
    for (int i = 0; i < STREAMS; i++) {
        streams[i] = new_stream();
        for (int k = 0; k < 3; k++)
            TN_CHECK_OK(sleep_on(streams[i], 1));
    }
    for (int i = 0; i < STREAMS; i++)
        TN_CHECK_OK(tn_stream_wait(streams[i], -1));
    TN_CHECK_OK(tn_device_wait(0, -1));
}

/* ---- many threads --------------------------------------------------------------------------- */

enum { THREADS = 8, ROUNDS = 400 };

static tn_block *zeros_on(tn_stream *stream)
{
    static const int64_t size = 64;
    tn_scalar zero = {.d = 0, .kind = TN_SCALAR_FLOAT};
    tn_block *block;
    TN_CHECK_OK(tn_block_alloc(0, 64 * sizeof(float), stream, &block));
    tn_operand operand = operand_of(block, &size);
    tn_launch_desc launch = {.op = TN_OP_fill,
                             .compute_dtype = TN_FLOAT32,
                             .num_outputs = 1,
                             .num_operands = 1,
                             .operands = &operand,
                             .num_scalars = 1,
                             .scalars = &zero,
                             .stream = stream};
    TN_CHECK_OK(tn_launch(&launch));
    return block;
}

typedef struct worker {
    tn_stream *shared, *own;
    tn_block *total, *one;
    int id;
} worker;

static void *launch_often(void *argument)
{
    worker *w = argument;
    tn_event *event;
    TN_CHECK_OK(tn_event_create(0, w->id % 2 == 0, &event));
    for (int i = 0; i < ROUNDS; i++) {
        tn_block *mine = zeros_on(w->own);
        TN_CHECK_OK(add_on(w->shared, w->total, w->one));
        TN_CHECK_OK(add_on(w->own, mine, w->one));
        if (i % 50 == w->id)
            TN_CHECK_OK(sleep_on(w->own, 0.2));
        if (i % 20 == 0) {
            TN_CHECK_OK(tn_event_record(event, w->own));
            TN_CHECK_OK(tn_stream_wait_event(w->shared, event));
        }
        if (i % 30 == 0)
            TN_CHECK_OK(tn_stream_wait(w->own, -1));
        tn_block_record_stream(mine, w->shared);
        tn_block_free(mine);
    }
    TN_CHECK_OK(tn_event_wait(event, -1));
    tn_event_destroy(event);
    return NULL;
}

TN_CASE(eight_threads_at_once)
{
    pthread_t threads[THREADS];
    worker workers[THREADS];
    tn_stream *shared = default_stream();
    tn_block *total = floats(64, 0, shared), *one = floats(64, 1, shared);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){shared, new_stream(), total, one, i};
        TN_CHECK(tn_thread_start("worker", launch_often, &workers[i], &threads[i]));
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    TN_CHECK_OK(tn_device_wait(0, -1));
    TN_CHECK(((float *)total->data)[63] == THREADS * ROUNDS);
    tn_block_free(total);
    tn_block_free(one);
}

TN_CASE(quiesce_and_go_on)
{
    tn_stream *one = new_stream(), *two = new_stream();
    for (int i = 0; i < 5; i++) {
        TN_CHECK_OK(sleep_on(one, 2));
        TN_CHECK_OK(sleep_on(two, 2));
        tn_quiesce();
        TN_CHECK(tn_stream_query(one) && tn_stream_query(two));
    }
    TN_CHECK_OK(sleep_on(one, 1));
    TN_CHECK_OK(tn_stream_wait(one, -1));
}

TN_CASE(streams_are_recycled)
{
    tn_stream *stream = NULL, *found;
    for (int i = 0; i < 3 * TN_MAX_STREAMS; i++)
        stream = new_stream();
    TN_CHECK_OK(tn_stream_from_id(0, tn_stream_id(stream), &found));
    TN_CHECK(found == stream && tn_stream_id(stream) != 0);
    TN_CHECK_INT(tn_stream_from_id(0, 1000, &found), TN_ERROR_VALUE);
    TN_CHECK_INT(tn_stream_default(7, &found), TN_ERROR_DEVICE);
}

TN_CASE(a_forked_child_is_refused)
{
    tn_stream *stream = default_stream();
    tn_block *a = floats(10, 1, stream);
    TN_CHECK_OK(sleep_on(stream, 2));
    pid_t child = fork();
    if (child == 0) {
        tn_block *b;
        bool ok = tn_in_bad_fork() && add_on(stream, a, a) == TN_ERROR_FORKED &&
                  tn_block_alloc(0, 10, NULL, &b) == TN_ERROR_FORKED &&
                  tn_stream_wait(stream, -1) == TN_ERROR_FORKED && tn_stream_query(stream) &&
                  tn_block_find(a->data) == NULL && tn_init() == TN_ERROR_FORKED &&
                  strstr(tn_last_error()->message, "'spawn' start method");
        tn_block_free(a);
        tn_quiesce();
        _exit(ok ? 0 : 1);
    }
    int status = -1;
    TN_CHECK(waitpid(child, &status, 0) == child && status == 0);
    TN_CHECK(!tn_in_bad_fork());
    TN_CHECK_OK(add_on(stream, a, a));
    TN_CHECK_OK(tn_stream_wait(stream, -1));
    TN_CHECK(((float *)a->data)[0] == 2);
    tn_block_free(a);
    tn_quiesce();
}

TN_CASES_END

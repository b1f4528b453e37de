/* What the runtime itself costs, in ns: the minimum and the median over rounds.
 *
 *     ninja -C build core/bench_runtime && build/core/bench_runtime */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/pool.h"
#include "kernel/kernel.h"
#include "op/op.h"

enum { ROUNDS = 51 };

static tn_stream *stream;
static tn_block *blocks[3];
static const int64_t size = 8, stride = 1;
static tn_operand operands[3];
static tn_scalar alpha = {.d = 1, .kind = TN_SCALAR_FLOAT};
static tn_launch_desc add;

static void prepare(void)
{
    if (tn_stream_default(0, &stream) != TN_OK)
        abort();
    for (int i = 0; i < 3; i++) {
        if (tn_block_alloc(0, 4096, stream, &blocks[i]) != TN_OK)
            abort();
        operands[i] = (tn_operand){.block = blocks[i], .sizes = &size, .strides = &stride,
                                   .ndim = 1, .dtype = TN_FLOAT32};
    }
    add = (tn_launch_desc){.op = TN_OP_add, .num_outputs = 1, .num_operands = 3,
                           .compute_dtype = TN_FLOAT32, .stream = stream, .operands = operands,
                           .scalars = &alpha, .num_scalars = 1};
    tn_launch(&add);
}

static void sleep_on(tn_stream *on, double milliseconds)
{
    tn_scalar cycles = {.i = (int64_t)(milliseconds * 1.4e6), .kind = TN_SCALAR_INT};
    tn_launch_desc launch = {.op = TN_OP_sleep, .stream = on, .scalars = &cycles,
                             .num_scalars = 1, .compute_dtype = TN_DTYPE_NONE};
    tn_launch(&launch);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(const char *what, double *samples)
{
    qsort(samples, ROUNDS, sizeof *samples, by_value);
    printf("%-44s min %9.1f  median %9.1f\n", what, samples[0], samples[ROUNDS / 2]);
}

/* `repeat` calls of `run` per round. */
static void measure(const char *what, int repeat, void (*run)(void), void (*before)(void),
                    void (*after)(void))
{
    double samples[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        if (before)
            before();
        int64_t start = tn_now_ns();
        for (int i = 0; i < repeat; i++)
            run();
        samples[r] = (double)(tn_now_ns() - start) / repeat;
        if (after)
            after();
    }
    report(what, samples);
}

static void launch_add(void)
{
    tn_launch(&add);
}

static void call_kernel(void)
{
    tn_kernel_of(TN_OP_add)(&add);
}

static void count_cost(void)
{
    tn_cost cost = tn_op_cost(&add);
    __asm__ volatile("" : : "r"(&cost) : "memory");
}

static void alloc_free(void)
{
    tn_block *block;
    if (tn_block_alloc(0, 1000, stream, &block) == TN_OK)
        tn_block_free(block);
}

static void alloc_free_large(void)
{
    tn_block *block;
    if (tn_block_alloc(0, (size_t)64 << 20, stream, &block) == TN_OK)
        tn_block_free(block);
}

static void make_busy(void)
{
    sleep_on(stream, 20);
    usleep(1000);
}

static void wait_all(void)
{
    tn_stream_wait(stream, -1);
}

static void let_park(void)
{
    usleep(2000);
}

/* From the launch of a sleep of no length worth mentioning to its end, run by a parked executor. */
static void wake_executor(void)
{
    uint64_t before = tn_prof_position();
    sleep_on(stream, 0.06);
    while (tn_prof_position() == before)
        continue;
}

static void record_event(void)
{
    static tn_event *event;
    if (!event)
        tn_event_create(0, true, &event);
    tn_event_record(event, stream);
}

static void nothing(void *context, int64_t begin, int64_t end)
{
    (void)context;
    (void)begin;
    (void)end;
}

static void parallel(void)
{
    tn_parallel_for(64, 1, nothing, NULL);
}

int main(void)
{
    prepare();
    measure("kernel call alone, add of 8 floats", 10000, call_kernel, NULL, NULL);
    measure("tn_launch inline, same", 10000, launch_add, NULL, NULL);
    measure("  of it the cost estimate", 10000, count_cost, NULL, NULL);
    measure("tn_launch on a busy stream", 1000, launch_add, make_busy, wait_all);
    measure("tn_block_alloc + free, 1000 bytes", 10000, alloc_free, NULL, NULL);
    measure("tn_block_alloc + free, 64 MiB", 1000, alloc_free_large, NULL, NULL);
    measure("tn_event_record, idle stream, timing", 10000, record_event, NULL, NULL);
    measure("60 us of sleep on a parked executor", 1, wake_executor, let_park, NULL);
    measure("tn_parallel_for, spinning workers", 1000, parallel, NULL, NULL);
    measure("tn_parallel_for, parked workers", 1, parallel, let_park, NULL);
    tn_quiesce();
    return 0;
}

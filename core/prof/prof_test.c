/* The event ring under many writers, and the time model. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/thread.h"
#include "prof/prof.h"

static uint32_t some_line(void)
{
    return 42;
}

TN_CASE(a_record_comes_back)
{
    tn_clock_init();
    tn_prof_event event = {.sequence = 7, .start_ticks = tn_ticks(), .bytes = 4096, .flops = 9,
                           .source_line = 5, .stream_id = 3, .op = 11, .device = 2,
                           .dtype = TN_BFLOAT16, .engine = TN_ENGINE_VECTOR};
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    event.end_ticks = tn_ticks();
    uint64_t first = tn_prof_position(), next, dropped;
    tn_prof_write(&event);
    tn_prof_record row;
    TN_CHECK_INT(tn_prof_read(first, &row, 1, &next, &dropped), 1);
    TN_CHECK(next == first + 1 && dropped == 0);
    TN_CHECK(row.sequence == 7 && row.bytes == 4096 && row.flops == 9 && row.source_line == 5);
    TN_CHECK(row.stream_id == 3 && row.op == 11 && row.device == 2 && row.dtype == TN_BFLOAT16);
    TN_CHECK(row.end_ns - row.start_ns >= 1900000 && row.end_ns - row.start_ns < 100000000);
    TN_CHECK(row.thread_id != 0 && row.modelled_ns > 0);
}

enum { WRITERS = 4, EVENTS = 40000 };

/* Every word says the same number, so that a mixture of two records shows. */
static void *write_events(void *argument)
{
    uint32_t base = (uint32_t)(uintptr_t)argument * EVENTS;
    for (uint32_t i = 1; i <= EVENTS; i++) {
        uint32_t n = base + i;
        tn_prof_event event = {.sequence = n, .bytes = n, .flops = n, .source_line = n,
                               .stream_id = n & 0xffffff};
        tn_prof_write(&event);
    }
    return NULL;
}

TN_CASE(no_torn_records)
{
    enum { CHUNK = 1000 };
    static tn_prof_record rows[CHUNK];
    pthread_t threads[WRITERS];
    uint64_t at = tn_prof_position(), first = at, read = 0, dropped_sum = 0, next, dropped;
    for (int i = 0; i < WRITERS; i++)
        TN_CHECK(tn_thread_start("writer", write_events, (void *)(uintptr_t)i, &threads[i]));
    int torn = 0;
    bool joined = false;
    for (;;) {
        size_t count = tn_prof_read(at, rows, CHUNK, &next, &dropped);
        at = next;
        read += count;
        dropped_sum += dropped;
        for (size_t i = 0; i < count; i++)
            torn += rows[i].sequence != rows[i].bytes || rows[i].bytes != rows[i].flops ||
                    rows[i].source_line != rows[i].bytes ||
                    rows[i].stream_id != (rows[i].bytes & 0xffffff);
        if (joined && at == tn_prof_position())
            break;
        if (!joined && at - first > WRITERS * EVENTS / 2) {
            for (int i = 0; i < WRITERS; i++)
                pthread_join(threads[i], NULL);
            joined = true;
        }
    }
    TN_CHECK_INT(torn, 0);
    TN_CHECK_INT(read + dropped_sum, WRITERS * EVENTS);
    TN_CHECK(read > 0);
}

TN_CASE(source_hook)
{
    TN_CHECK_INT(tn_prof_source_line(), 0);
    tn_prof_set_source_hook(some_line);
    TN_CHECK_INT(tn_prof_source_line(), 42);
    tn_prof_set_source_hook(NULL);
    TN_CHECK(!tn_prof_is_tracing());
    tn_prof_set_tracing(true);
    TN_CHECK(tn_prof_is_tracing());
    tn_prof_set_tracing(false);
}

TN_CASE(model_is_a_roof)
{
    const tn_model *model = tn_model_get();
    TN_CHECK(strcmp(model->name, "trn2") == 0);
    int64_t nothing = tn_model_ns(model, TN_ENGINE_DMA, 0, 0, TN_FLOAT32);
    TN_CHECK_INT(nothing, 2030);
    /* 362.5 MB at 362.5 bytes per ns; arithmetic hides behind it. */
    TN_CHECK_INT(tn_model_ns(model, TN_ENGINE_VECTOR, 362500000, 1000, TN_FLOAT32) - nothing,
                 1000000);
    /* 2 * 4096^3 flop in bf16 at 78643 flop per ns. */
    uint64_t flops = (uint64_t)2 << 36;
    int64_t bf16 = tn_model_ns(model, TN_ENGINE_TENSOR, 3 * 2 << 24, flops, TN_BFLOAT16);
    int64_t fp32 = tn_model_ns(model, TN_ENGINE_TENSOR, 3 * 4 << 24, flops, TN_FLOAT32);
    TN_CHECK(bf16 > 1740000 && bf16 < 1760000);
    TN_CHECK(fp32 * 10 > bf16 * 39 && fp32 * 10 < bf16 * 41);
}

TN_CASES_END

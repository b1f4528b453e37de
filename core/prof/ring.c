/* The event ring: a fixed power of two of one-cache-line slots, many writers, any reader.
 *
 * A writer takes a running index by fetch-add and claims the slot by exchanging its stamp for BUSY;
 * finding BUSY there (a writer that slept for a whole lap) it drops its own event. The stamp
 * becomes index + 1 when the slot is complete. Readers check the stamp before and after copying.
 * All words are atomic, so a torn read is detected, never undefined. */
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "prof/prof.h"

enum { SLOTS = 1 << 15, WORDS = 7 };
static const uint64_t BUSY = ~(uint64_t)0;

typedef struct slot {
    _Alignas(64) _Atomic(uint64_t) stamp; /* 0: never written */
    _Atomic(uint64_t) words[WORDS];
} slot;

static slot ring[SLOTS];
static _Alignas(64) _Atomic(uint64_t) position;

static uint32_t thread_id(void)
{
    static _Thread_local uint32_t id;
    if (id == 0)
        id = (uint32_t)syscall(SYS_gettid);
    return id;
}

void tn_prof_write(const tn_prof_event *event)
{
    uint64_t index = atomic_fetch_add_explicit(&position, 1, memory_order_relaxed);
    slot *at = &ring[index % SLOTS];
    if (atomic_exchange_explicit(&at->stamp, BUSY, memory_order_acquire) == BUSY)
        return;
    const uint64_t words[WORDS] = {
        event->sequence,
        event->start_ticks,
        event->end_ticks,
        event->bytes,
        event->flops,
        (uint64_t)event->source_line << 32 | thread_id(),
        (uint64_t)event->op << 48 | (uint64_t)event->device << 40 | (uint64_t)event->dtype << 32 |
            (uint64_t)event->engine << 24 | (event->stream_id & 0xffffff),
    };
    for (int i = 0; i < WORDS; i++)
        atomic_store_explicit(&at->words[i], words[i], memory_order_relaxed);
    atomic_store_explicit(&at->stamp, index + 1, memory_order_release);
}

uint64_t tn_prof_position(void)
{
    return atomic_load_explicit(&position, memory_order_acquire);
}

static bool read_slot(uint64_t index, uint64_t words[WORDS])
{
    slot *at = &ring[index % SLOTS];
    if (atomic_load_explicit(&at->stamp, memory_order_acquire) != index + 1)
        return false;
    for (int i = 0; i < WORDS; i++)
        words[i] = atomic_load_explicit(&at->words[i], memory_order_acquire);
    return atomic_load_explicit(&at->stamp, memory_order_relaxed) == index + 1;
}

static void decode(const uint64_t words[WORDS], const tn_clock_line *clock, tn_prof_record *row)
{
    tn_engine engine = (tn_engine)(words[6] >> 24 & 0xff);
    *row = (tn_prof_record){.sequence = words[0],
                            .start_ns = tn_clock_to_ns(clock, words[1]),
                            .end_ns = tn_clock_to_ns(clock, words[2]),
                            .bytes = words[3],
                            .flops = words[4],
                            .source_line = (uint32_t)(words[5] >> 32),
                            .thread_id = (uint32_t)words[5],
                            .op = (uint16_t)(words[6] >> 48),
                            .device = (uint8_t)(words[6] >> 40),
                            .dtype = (uint8_t)(words[6] >> 32),
                            .stream_id = (uint32_t)(words[6] & 0xffffff)};
    row->modelled_ns = tn_model_ns(tn_model_get(), engine, row->bytes, row->flops, row->dtype);
}

size_t tn_prof_read(uint64_t first, tn_prof_record *rows, size_t capacity, uint64_t *out_next,
                    uint64_t *out_dropped)
{
    uint64_t end = tn_prof_position(), dropped = 0;
    if (end > SLOTS && first < end - SLOTS) {
        dropped = end - SLOTS - first;
        first = end - SLOTS;
    }
    tn_clock_line clock = tn_clock_calibrate();
    size_t count = 0;
    for (; first < end && count < capacity; first++) {
        uint64_t words[WORDS];
        if (read_slot(first, words))
            decode(words, &clock, &rows[count++]);
        else
            dropped++;
    }
    *out_next = first;
    *out_dropped = dropped;
    return count;
}

/* Time stamps. `tn_ticks` is the cheapest monotonic counter of the machine (the time-stamp counter
 * where it is invariant, else CLOCK_MONOTONIC in ns); ticks become nanoseconds only when somebody
 * reads them, by a line through two (ticks, ns) pairs. */
#ifndef TN_BASE_CLOCK_H
#define TN_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

extern bool tn_clock_has_tsc;

void tn_clock_init(void); /* before the first tn_ticks; idempotent */

static inline int64_t tn_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline uint64_t tn_ticks(void)
{
#if defined(__x86_64__)
    if (tn_clock_has_tsc)
        return __rdtsc();
#endif
    return (uint64_t)tn_now_ns();
}

typedef struct tn_clock_line {
    uint64_t ticks; /* origin */
    int64_t ns;
    double ns_per_tick;
} tn_clock_line;

tn_clock_line tn_clock_calibrate(void); /* sleeps up to 1 ms the first time in a process's life */

static inline int64_t tn_clock_to_ns(const tn_clock_line *line, uint64_t ticks)
{
    return line->ns + (int64_t)((double)(int64_t)(ticks - line->ticks) * line->ns_per_tick);
}

#endif

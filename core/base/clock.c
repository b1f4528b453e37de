/* Calibration of the tick counter against CLOCK_MONOTONIC. */
#include "base/clock.h"

#include <pthread.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

bool tn_clock_has_tsc;

enum { MINIMUM_BASE_NS = 1000000 };
static uint64_t origin_ticks;
static int64_t origin_ns;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool has_invariant_tsc(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & (1u << 8));
#else
    return false;
#endif
}

static void take_pair(uint64_t *out_ticks, int64_t *out_ns)
{
    uint64_t before = tn_ticks();
    *out_ns = tn_now_ns();
    *out_ticks = before + (tn_ticks() - before) / 2;
}

static void open_clock(void)
{
    tn_clock_has_tsc = has_invariant_tsc();
    take_pair(&origin_ticks, &origin_ns);
}

void tn_clock_init(void)
{
    pthread_once(&once, open_clock);
}

tn_clock_line tn_clock_calibrate(void)
{
    tn_clock_init();
    tn_clock_line line = {origin_ticks, origin_ns, 1};
    if (!tn_clock_has_tsc)
        return line;
    int64_t missing = MINIMUM_BASE_NS - (tn_now_ns() - origin_ns);
    if (missing > 0)
        nanosleep(&(struct timespec){.tv_nsec = missing}, NULL);
    uint64_t ticks;
    int64_t ns;
    take_pair(&ticks, &ns);
    line.ns_per_tick = (double)(ns - origin_ns) / (double)(ticks - origin_ticks);
    return line;
}

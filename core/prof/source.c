/* The hook that names the Python line of a launch, and the switch that asks for every line. */
#include <stdatomic.h>
#include <stddef.h>

#include "prof/prof.h"

static _Atomic(tn_source_hook) hook;
static _Atomic(bool) tracing;

void tn_prof_set_source_hook(tn_source_hook new_hook)
{
    atomic_store(&hook, new_hook);
}

uint32_t tn_prof_source_line(void)
{
    tn_source_hook current = atomic_load_explicit(&hook, memory_order_acquire);
    return current ? current() : 0;
}

void tn_prof_set_tracing(bool on)
{
    atomic_store(&tracing, on);
}

bool tn_prof_is_tracing(void)
{
    return atomic_load_explicit(&tracing, memory_order_relaxed);
}

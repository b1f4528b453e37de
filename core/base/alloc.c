/* Host allocation with a hook for fault injection. */
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>

static _Atomic(int64_t) calls, failing_call;

static int fails_now(void)
{
    int64_t call = atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed) + 1;
    return call == atomic_load_explicit(&failing_call, memory_order_relaxed);
}

void *tn_malloc(size_t bytes)
{
    return fails_now() ? NULL : malloc(bytes);
}

void *tn_calloc(size_t count, size_t bytes)
{
    return fails_now() ? NULL : calloc(count, bytes);
}

void *tn_realloc(void *memory, size_t bytes)
{
    return fails_now() ? NULL : realloc(memory, bytes);
}

void *tn_aligned_malloc(size_t alignment, size_t bytes)
{
    return fails_now() ? NULL : aligned_alloc(alignment, bytes);
}

void tn_free(void *memory)
{
    free(memory);
}

void tn_alloc_fail_at(int64_t n)
{
    atomic_store(&failing_call, n);
    atomic_store(&calls, 0);
}

int64_t tn_alloc_count(void)
{
    return atomic_load(&calls);
}

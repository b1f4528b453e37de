/* Serial pool: the first slice. */
#include <stdlib.h>

#include "base/pool.h"

static int pool_size = 1;

void tn_parallel_for(int64_t count, int64_t grain, tn_parallel_body body, void *context)
{
    (void)grain;
    if (count > 0)
        body(context, 0, count);
}

void tn_pool_set_size(int threads)
{
    pool_size = threads < 1 ? 1 : threads;
}

int tn_pool_size(void)
{
    return pool_size;
}

void tn_pool_shutdown(void)
{
}

static _Thread_local struct {
    void *memory;
    size_t bytes;
} scratch[TN_SCRATCH_SLOTS];

void *tn_scratch(int slot, size_t bytes)
{
    if (scratch[slot].bytes < bytes) {
        free(scratch[slot].memory);
        scratch[slot].bytes = (bytes + 4095) & ~(size_t)4095;
        scratch[slot].memory = aligned_alloc(64, scratch[slot].bytes);
        if (!scratch[slot].memory) {
            scratch[slot].bytes = 0;
            tn_fail(TN_ERROR_OUT_OF_MEMORY, "out of host memory for %zu bytes of scratch", bytes);
        }
    }
    return scratch[slot].memory;
}

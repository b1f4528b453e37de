/* Per-thread scratch memory, freed when its thread ends. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/pool.h"

enum { HUGE_PAGE = 2 << 20, SMALL_ALIGNMENT = 64, PAGE = 4096 };

struct slots {
    struct {
        void *memory;
        size_t bytes;
    } slot[TN_SCRATCH_SLOTS];
};

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local struct slots slots;

static void free_slots(void *argument)
{
    struct slots *mine = argument;
    for (int i = 0; i < TN_SCRATCH_SLOTS; i++) {
        tn_free(mine->slot[i].memory);
        mine->slot[i].memory = NULL;
        mine->slot[i].bytes = 0;
    }
}

static void create_key(void)
{
    (void)!pthread_key_create(&key, free_slots);
}

void *tn_scratch(int index, size_t bytes)
{
    if (slots.slot[index].bytes >= bytes && slots.slot[index].memory)
        return slots.slot[index].memory;
    pthread_once(&once, create_key);
    pthread_setspecific(key, &slots);
    tn_free(slots.slot[index].memory);
    /* Packed matrices are read once per pass: huge pages spare them the misses of the TLB. */
    size_t alignment = bytes >= HUGE_PAGE ? HUGE_PAGE : SMALL_ALIGNMENT;
    size_t unit = bytes >= HUGE_PAGE ? HUGE_PAGE : PAGE;
    size_t rounded = bytes == 0 ? unit : (bytes + unit - 1) / unit * unit;
    void *memory = tn_aligned_malloc(alignment, rounded);
    if (memory && alignment == HUGE_PAGE)
        madvise(memory, rounded, MADV_HUGEPAGE);
    slots.slot[index].memory = memory;
    slots.slot[index].bytes = memory ? rounded : 0;
    if (!memory)
        tn_fail(TN_ERROR_OUT_OF_MEMORY, "out of host memory for %zu bytes of scratch", bytes);
    return memory;
}

/* The thread pool that every kernel shares, and per-thread scratch memory.
 *
 * Idle workers spin briefly after a job, then park on a futex; an idle process burns no CPU. The
 * pool starts with the first parallel job and its size may change between jobs. One job runs at a
 * time: a second caller (another stream's executor) runs its job alone on its own thread.
 *
 * Determinism: bodies must give the same bits for any split of [0, count). Whoever reduces must cut
 * the work by shape, never by the number of threads. */
#ifndef TN_BASE_POOL_H
#define TN_BASE_POOL_H

#include "tn/base.h"

typedef void (*tn_parallel_body)(void *context, int64_t begin, int64_t end);

/* Runs body over [0, count) in ranges of at least `grain` indices (the last may be shorter); the
 * calling thread takes part. count <= grain, or one thread: a plain call. Nested calls run
 * serially. */
void tn_parallel_for(int64_t count, int64_t grain, tn_parallel_body body, void *context);

void tn_pool_set_size(int threads); /* >= 1; takes effect at the next job */
int tn_pool_size(void);
void tn_pool_shutdown(void); /* joins the workers; the next job starts them again */
void tn_pool_forget_threads(void); /* in a forked child, which has none of them */

/* Scratch of this thread for one kernel call: 64-byte aligned, contents undefined, valid until the
 * next call with the same slot on this thread. NULL when memory is exhausted (tn_fail is set). */
enum { TN_SCRATCH_SLOTS = 8 };
void *tn_scratch(int slot, size_t bytes);

#endif

/* Futex system calls and the slow path of the spin lock. */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/futex.h"

enum { SPINS_BEFORE_YIELD = 128 };

void tn_spin_lock_slow(tn_spin *lock)
{
    for (;;) {
        for (int i = 0; i < SPINS_BEFORE_YIELD; i++) {
            if (!atomic_load_explicit(&lock->held, memory_order_relaxed) &&
                !atomic_exchange_explicit(&lock->held, 1, memory_order_acquire))
                return;
            tn_cpu_relax();
        }
        sched_yield(); /* the holder was preempted */
    }
}

bool tn_futex_wait(_Atomic(uint32_t) *word, uint32_t expected, int64_t timeout_ns)
{
    struct timespec limit = {.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};
    long result = syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected,
                          timeout_ns < 0 ? NULL : &limit, NULL, 0);
    return !(result < 0 && errno == ETIMEDOUT);
}

void tn_futex_wake(_Atomic(uint32_t) *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

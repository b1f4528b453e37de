/* The two waiting primitives of the core: a spin lock for sections of a few dozen instructions, and
 * the Linux futex for everything longer. Both are built from C11 atomics only (no fences), so that
 * ThreadSanitizer sees every ordering they provide. */
#ifndef TN_BASE_FUTEX_H
#define TN_BASE_FUTEX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Never held across a system call, an allocation, a kernel or another tn_spin of the same kind. */
typedef struct tn_spin {
    _Atomic(uint32_t) held;
} tn_spin;

void tn_spin_lock_slow(tn_spin *lock);

static inline void tn_spin_lock(tn_spin *lock)
{
    if (atomic_exchange_explicit(&lock->held, 1, memory_order_acquire))
        tn_spin_lock_slow(lock);
}

static inline void tn_spin_unlock(tn_spin *lock)
{
    atomic_store_explicit(&lock->held, 0, memory_order_release);
}

static inline void tn_cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Sleeps while *word == expected; returns false when `timeout_ns` (>= 0) ran out. May wake for no
 * reason: callers loop over their own condition. timeout_ns < 0 waits for ever. */
bool tn_futex_wait(_Atomic(uint32_t) *word, uint32_t expected, int64_t timeout_ns);
void tn_futex_wake(_Atomic(uint32_t) *word, int count);

#endif

/* Threads of the core: named, with every signal blocked, so that signals stay with the host's
 * threads. */
#ifndef TN_BASE_THREAD_H
#define TN_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

bool tn_thread_start(const char *name, void *(*run)(void *), void *argument,
                     pthread_t *out_thread);

#endif

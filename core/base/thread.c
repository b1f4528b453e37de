/* Thread creation. */
#include "base/thread.h"

#include <signal.h>

bool tn_thread_start(const char *name, void *(*run)(void *), void *argument, pthread_t *out_thread)
{
    sigset_t all, previous;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &previous) != 0)
        return false;
    bool started = pthread_create(out_thread, NULL, run, argument) == 0;
    pthread_sigmask(SIG_SETMASK, &previous, NULL);
    if (started)
        pthread_setname_np(*out_thread, name);
    return started;
}

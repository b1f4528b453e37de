/* torch.neuron._sleep: keeps its stream busy for a number of cycles without using the CPU. */
#include <errno.h>
#include <time.h>

#include "kernel/kernel.h"
#include "op/op.h"

tn_status TN_KERNEL(sleep)(const tn_launch_desc *launch)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    double ns = (double)tn_scalar_as_int(launch->scalars[0]) / TN_SLEEP_CYCLES_PER_NS;
    int64_t end = until.tv_nsec + (ns > 0 ? (int64_t)ns : 0);
    until.tv_sec += end / 1000000000;
    until.tv_nsec = end % 1000000000;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        continue;
    return TN_OK;
}

/* torch.neuron._sleep: keeps its stream busy for a number of cycles without using the CPU. */
#include <errno.h>
#include <time.h>

#include "kernel/kernel.h"
#include "op/op.h"

tn_status TN_KERNEL(sleep)(const tn_launch_desc *launch)
{
    int64_t cycles = tn_scalar_as_int(launch->scalars[0]);
    if (cycles < 0)
        return tn_fail(TN_ERROR_VALUE, "sleep: cycles must not be negative, got %lld",
                       (long long)cycles);
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t end = until.tv_nsec + (int64_t)((double)cycles / TN_SLEEP_CYCLES_PER_NS);
    until.tv_sec += end / 1000000000;
    until.tv_nsec = end % 1000000000;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        continue;
    return TN_OK;
}

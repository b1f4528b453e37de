/* How much memory the devices of this process may hold. */
#ifndef TN_RUNTIME_LIMIT_H
#define TN_RUNTIME_LIMIT_H

#include <stddef.h>

/* The smaller of the host's memory and the cgroup's limit (v2 or v1), in bytes. */
size_t tn_host_memory(void);

/* The share of one device: host memory less a reserve for the host program, divided by
 * `sharers`. */
size_t tn_device_memory_limit(int sharers);

#endif

/* What the host CPU is: features, caches, cores that this process may use. Read once. */
#ifndef TN_BASE_CPU_H
#define TN_BASE_CPU_H

#include <stdbool.h>
#include <stddef.h>

typedef struct tn_cpu {
    char name[64];
    int physical_cores; /* within the affinity mask and the cgroup's CPU quota, >= 1 */
    int logical_cores;
    size_t l1d_bytes, l2_bytes, l3_bytes; /* of one core; conservative defaults where unknown */
    bool avx2, avx512;                    /* x86-64-v3 and x86-64-v4 */
} tn_cpu;

const tn_cpu *tn_cpu_get(void);

#endif

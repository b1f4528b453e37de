/* CPU detection from cpuid, sysfs, the affinity mask and the cgroup's quota. */
#include "base/cpu.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static tn_cpu cpu;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool read_line(const char *path, char *line, int bytes)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool ok = fgets(line, bytes, file) != NULL;
    fclose(file);
    return ok;
}

static int read_topology(int index, const char *leaf)
{
    char path[96], line[32];
    int value;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/%s", index, leaf);
    return read_line(path, line, sizeof line) && sscanf(line, "%d", &value) == 1 ? value : -1;
}

/* Distinct (package, core) pairs among the CPUs of the affinity mask. */
static void count_cores(void)
{
    cpu_set_t mask;
    int seen[CPU_SETSIZE][2], count = 0;
    if (sched_getaffinity(0, sizeof mask, &mask) != 0) {
        cpu.physical_cores = cpu.logical_cores = 1;
        return;
    }
    cpu.logical_cores = CPU_COUNT(&mask);
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET((size_t)i, &mask))
            continue;
        int package = read_topology(i, "physical_package_id"), core = read_topology(i, "core_id");
        bool fresh = true;
        for (int k = 0; k < count && fresh && core >= 0; k++)
            fresh = seen[k][0] != package || seen[k][1] != core;
        if (fresh) {
            seen[count][0] = package;
            seen[count++][1] = core;
        }
    }
    cpu.physical_cores = count > 0 ? count : 1;
}

/* A container's CPU quota (cgroup v2 at the root of its own view, or v1), rounded up. */
static int quota_cores(void)
{
    char line[64];
    long long quota = -1, period = 0;
    if (read_line("/sys/fs/cgroup/cpu.max", line, sizeof line)) {
        if (sscanf(line, "%lld %lld", &quota, &period) != 2)
            quota = -1;
    } else if (read_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", line, sizeof line) &&
               sscanf(line, "%lld", &quota) == 1 && quota > 0 &&
               read_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us", line, sizeof line)) {
        if (sscanf(line, "%lld", &period) != 1)
            quota = -1;
    }
    return quota > 0 && period > 0 ? (int)((quota + period - 1) / period) : 0;
}

static size_t cache_bytes(int name, size_t fallback)
{
    long value = sysconf(name);
    return value > 0 ? (size_t)value : fallback;
}

static void read_name(void)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "re");
    snprintf(cpu.name, sizeof cpu.name, "unknown");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "model name", 10) != 0)
            continue;
        char *colon = strchr(line, ':');
        if (colon)
            snprintf(cpu.name, sizeof cpu.name, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        break;
    }
    if (file)
        fclose(file);
}

static void read_features(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    cpu.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
               __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    cpu.avx512 = cpu.avx2 && __builtin_cpu_supports("avx512f") &&
                 __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
                 __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
}

static void detect(void)
{
    count_cores();
    int quota = quota_cores();
    if (quota > 0 && quota < cpu.physical_cores)
        cpu.physical_cores = quota;
    cpu.l1d_bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, 32u << 10);
    cpu.l2_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE, 512u << 10);
    cpu.l3_bytes = cache_bytes(_SC_LEVEL3_CACHE_SIZE, 8u << 20);
    read_name();
    read_features();
}

const tn_cpu *tn_cpu_get(void)
{
    pthread_once(&once, detect);
    return &cpu;
}

/* Reads the memory limits that the kernel would enforce by killing the process. */
#include "runtime/limit.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const size_t minimum_reserve = (size_t)256 << 20;
static const size_t maximum_reserve = (size_t)4 << 30;
static const size_t minimum_limit = (size_t)64 << 20;
enum { RESERVE_DIVISOR = 8 };

static size_t read_bytes(const char *path)
{
    unsigned long long value = 0;
    FILE *file = fopen(path, "re");
    if (!file)
        return SIZE_MAX;
    bool ok = fscanf(file, "%llu", &value) == 1; /* "max" does not parse: no limit */
    fclose(file);
    return ok && value > 0 ? (size_t)value : SIZE_MAX;
}

/* The limits of a cgroup and of all its ancestors bind. */
static size_t smallest_upwards(const char *root, char *group, const char *leaf)
{
    size_t smallest = SIZE_MAX;
    for (;;) {
        char path[512];
        snprintf(path, sizeof path, "%s%s/%s", root, group, leaf);
        size_t bytes = read_bytes(path);
        smallest = bytes < smallest ? bytes : smallest;
        char *slash = strrchr(group, '/');
        if (!slash)
            return smallest;
        *slash = 0;
    }
}

static size_t cgroup_limit(void)
{
    size_t smallest = SIZE_MAX;
    char line[320];
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'), *group;
        if (!controllers || !(group = strchr(controllers + 1, ':')))
            continue;
        *group++ = 0;
        if (strcmp(group, "/") == 0)
            *group = 0;
        size_t bytes = SIZE_MAX;
        if (controllers[1] == 0)
            bytes = smallest_upwards("/sys/fs/cgroup", group, "memory.max");
        else if (strstr(controllers + 1, "memory"))
            bytes = smallest_upwards("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
        smallest = bytes < smallest ? bytes : smallest;
    }
    if (file)
        fclose(file);
    return smallest;
}

size_t tn_host_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    size_t host = pages > 0 && page > 0 ? (size_t)pages * (size_t)page : minimum_limit;
    size_t group = cgroup_limit();
    return group < host ? group : host;
}

size_t tn_device_memory_limit(int sharers)
{
#ifdef TN_HOSTILE
    (void)sharers;
    return minimum_limit;
#endif
    size_t total = tn_host_memory(), reserve = total / RESERVE_DIVISOR;
    reserve = reserve < minimum_reserve ? minimum_reserve : reserve;
    reserve = reserve > maximum_reserve ? maximum_reserve : reserve;
    size_t limit = (total > reserve ? total - reserve : 0) / (size_t)(sharers < 1 ? 1 : sharers);
    return limit < minimum_limit ? minimum_limit : limit;
}

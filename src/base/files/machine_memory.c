#include "base/files/machine_memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files/fd.h"

#include "base/banned.h"

#define UNKNOWN (UINT64_C(4) << 30)

static uint64_t less(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t of_machine(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : UNKNOWN;
}

/* UINT64_MAX = no limit ("max"), or no such file. */
static uint64_t limit_of(const char *group)
{
    char path[4200];
    hw_autofree char *text = NULL;
    size_t n;
    (void)snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", group);
    if (hw_file_read(AT_FDCWD, path, 64, &text, &n, NULL) < 0 || text[0] < '0' || text[0] > '9')
        return UINT64_MAX;
    return strtoull(text, NULL, 10);
}

/* Our control group and those above it (version 2). In a container ours is the root it sees. */
static uint64_t of_groups(void)
{
    hw_autofree char *text = NULL;
    size_t n;
    if (hw_file_read(AT_FDCWD, "/proc/self/cgroup", 64u * 1024, &text, &n, NULL) < 0)
        return UINT64_MAX;
    char *group = strstr(text, "0::/");
    if (!group || (group != text && group[-1] != '\n'))
        return limit_of("");
    group += 3;
    group[strcspn(group, "\n")] = '\0';
    uint64_t least = UINT64_MAX;
    for (char *end = group + strlen(group); end; end = strrchr(group, '/')) {
        *end = '\0';
        least = less(least, limit_of(group));
    }
    return least;
}

uint64_t hw_machine_memory(void)
{
    const char *text = secure_getenv("HEAPWISE_MEMORY_MB");
    uint64_t mb = text && text[0] >= '1' && text[0] <= '9' ? strtoull(text, NULL, 10) : 0;
    uint64_t there_is = less(of_machine(), of_groups());
    return mb && mb < there_is >> 20 ? mb << 20 : there_is;
}

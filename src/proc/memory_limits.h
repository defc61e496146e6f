/*
 * memory_limits.h - how much memory a process may still use before allocations fail or it is killed
 *
 * Why:     a profile made just before that moment shows what filled the memory; afterwards the
 *          process is gone.
 * Shapes:  address space and data (ulimit -v, -d), each memory group above the process (cgroup v1
 *          and v2; file pages that could be dropped do not count), the machine (what is available,
 *          swap included). hw_limits_nearest gives the one that is used most.
 * Units:   bytes.
 * Owns:    descriptors of the groups' directories, until hw_limits_done.
 * Errors:  what cannot be read limits nothing.
 * Source:  proc(5), cgroups(7), the kernel's admin-guide/cgroup-v2 and cgroup-v1/memory
 */
#ifndef HW_PROC_MEMORY_LIMITS_H
#define HW_PROC_MEMORY_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HW_LIMITS_GROUPS 16u /* from the process's own up */

struct hw_limits_group {
    int dir; /* owned */
    bool v2;
};

struct hw_limits {
    uint64_t address_space, data; /* UINT64_MAX = none */
    bool has_machine;
    struct hw_limits_group groups[HW_LIMITS_GROUPS];
    size_t n_groups; /* with a limit */
    bool all_groups; /* also those without one: for hw_memory_group_read */
};

struct hw_limit_state {
    const char *what; /* "address space", "data", "memory group", "machine"; NULL = no limit */
    uint64_t limit, used;
};

/* Where the kernel shows memory groups and the machine; others are for tests. */
struct hw_limits_roots {
    const char *cgroup;  /* "/sys/fs/cgroup" */
    const char *meminfo; /* "/proc/meminfo" */
};
extern const struct hw_limits_roots hw_limits_usual;

/* Reads which limits there are. */
void hw_limits_init(struct hw_limits *l, int proc_dir, const struct hw_limits_roots *roots);
void hw_limits_done(struct hw_limits *l);
/* Used of each now. */
struct hw_limit_state hw_limits_nearest(const struct hw_limits *l, int proc_dir,
                                        const struct hw_limits_roots *roots);

/* What all its pages together may still take: the least that its memory groups and the machine
 * have left; UINT64_MAX = nothing limits it. *what (may be NULL): which one. */
uint64_t hw_limits_room(const struct hw_limits *l, const struct hw_limits_roots *roots,
                        const char **what);

/* What the memory group of a process holds, of all its processes. UINT64_MAX = not told. */
struct hw_memory_group {
    uint64_t current, limit; /* no limit: UINT64_MAX */
    uint64_t anon, file, kernel, sock, shmem;
    uint64_t id; /* two processes with the same one are in the same group */
};
/* Of the group that the process is in itself; false: none can be read. */
bool hw_memory_group_read(int proc_dir, const struct hw_limits_roots *roots,
                          struct hw_memory_group *out);

static inline uint32_t hw_limit_percent(const struct hw_limit_state *s)
{
    return s->limit ? (uint32_t)((unsigned __int128)s->used * 100 / s->limit) : 0;
}

#endif

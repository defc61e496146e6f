/*
 * smaps.h - /proc/PID/smaps and smaps_rollup
 *
 * Why:     "what holds memory besides the heap" needs resident, dirty and swapped sizes per
 *          mapping. Reading takes a lock of the target: callers space it out.
 * Units:   kB as in /proc.
 * Owns:    the entries' names lie in text.
 * Cost:    as much as the target has page tables: what is asked for unasked has a limit.
 * Errors:  HW_EGONE, HW_ENOMEM.
 */
#ifndef HW_PROC_SMAPS_H
#define HW_PROC_SMAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"

#define HW_SMAPS_FIELDS(X)                                                                         \
    X(size, "Size:")                                                                               \
    X(rss, "Rss:")                                                                                 \
    X(anonymous, "Anonymous:")                                                                     \
    X(swap, "Swap:")                                                                               \
    X(shared_clean, "Shared_Clean:")                                                               \
    X(shared_dirty, "Shared_Dirty:")                                                               \
    X(private_clean, "Private_Clean:")                                                             \
    X(private_dirty, "Private_Dirty:")                                                             \
    X(referenced, "Referenced:")                                                                   \
    X(locked, "Locked:")                                                                           \
    X(pss, "Pss:")                                                                                 \
    X(pss_dirty, "Pss_Dirty:")                                                                     \
    X(swap_pss, "SwapPss:")                                                                        \
    X(pss_anon, "Pss_Anon:")                                                                       \
    X(pss_file, "Pss_File:")                                                                       \
    X(pss_shmem, "Pss_Shmem:")

struct hw_smaps_entry {
    uint64_t start, end;
    uint32_t flags;                /* enum hw_map_flags */
    bool no_reserve, no_huge;      /* VmFlags nr, nh */
    bool has_fault_handler;        /* um, uw, ui: userfaultfd */
    uint32_t dev_major, dev_minor; /* of its file */
    uint64_t inode;
    const char *path;    /* borrowed from the struct hw_smaps */
    uint64_t n_mappings; /* 1, or how many hw_smaps_sum has made one */
#define X(name, key) uint64_t name##_kb;
    HW_SMAPS_FIELDS(X)
#undef X
};

struct hw_smaps {
    HW_VEC(struct hw_smaps_entry) entries;
    char *text; /* owned */
    bool cut;   /* hw_smaps_read_some: there are more */
};

/* rollup: one entry with the sums. */
int hw_smaps_read(int proc_dir, int rollup, struct hw_smaps *out);
/* The first mappings, by address, as long as their text has at most max_bytes and they have taken
 * at most max_cpu_ns of this thread's time: of a process with a million of them, or with large
 * tables of pages, it takes bounded time. One mapping is always read whole. */
int hw_smaps_read_some(int proc_dir, size_t max_bytes, uint64_t max_cpu_ns, struct hw_smaps *out);
/* One entry for each name, in order of the names, which are copied: for who keeps them. Its place
 * is that of the first. HW_ENOMEM: nothing was changed. */
int hw_smaps_sum(struct hw_smaps *s);
void hw_smaps_done(struct hw_smaps *s);

#endif

/*
 * smaps.h - /proc/PID/smaps and smaps_rollup
 *
 * Why:     "what else holds memory beside the heap" needs resident, dirty and swapped sizes per
 *          mapping. Reading takes a lock of the target: callers space it out.
 * Units:   kB as in /proc.
 * Owns:    the entries' names lie in text.
 * Errors:  HW_EGONE, HW_ENOMEM.
 */
#ifndef HW_PROC_SMAPS_H
#define HW_PROC_SMAPS_H

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
    uint32_t flags;   /* enum hw_map_flags */
    const char *path; /* borrowed from the struct hw_smaps */
#define X(name, key) uint64_t name##_kb;
    HW_SMAPS_FIELDS(X)
#undef X
};

struct hw_smaps {
    HW_VEC(struct hw_smaps_entry) entries;
    char *text; /* owned */
};

/* rollup: one entry with the sums. */
int hw_smaps_read(int proc_dir, int rollup, struct hw_smaps *out);
/* Takes over text (malloc'ed, NUL behind n), also on failure. */
void hw_smaps_done(struct hw_smaps *s);

#endif

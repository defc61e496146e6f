/*
 * shared_maps.h - which shared mappings of a process are memory, and how large its segments are
 *
 * Why:     /dev/shm and a memfd are files to mmap, and shmat is told no size. The kernel knows both,
 *          and to ask it in the program would be a system call of ours there.
 * Shapes:  sorted by address. A file is memory by its name (memfd, /dev/shm, System V, huge pages),
 *          else by the kind of its file system (tmpfs, hugetlbfs, ramfs) in the process's own list
 *          of mounts.
 * Errors:  those of reading /proc. Without the list of mounts names decide alone.
 * Cost:    the whole of /proc/PID/maps; at most HW_SHARED_MAPS_MAX mappings are kept.
 * Threads: pure, but for what it reads of the process; it may block.
 * Source:  proc(5): maps, mountinfo; shmctl(2): a segment's number is its mapping's inode
 */
#ifndef HW_PROC_SHARED_MAPS_H
#define HW_PROC_SHARED_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"

#define HW_SHARED_MAPS_MAX 65536u

struct hw_shared_map {
    uint64_t start, end;
    uint64_t segment;       /* number of a System V segment + 1; 0 = it is none */
    uint64_t segment_bytes; /* of that, as far as this mapping shows it */
    bool is_memory;
};

struct hw_shared_maps {
    HW_VEC(struct hw_shared_map) v;
};

int hw_shared_maps_read(int proc_dir, struct hw_shared_maps *out);
void hw_shared_maps_done(struct hw_shared_maps *m);

enum hw_shared_kind { HW_SHARED_UNKNOWN, HW_SHARED_MEMORY, HW_SHARED_FILE };
enum hw_shared_kind hw_shared_maps_kind(const struct hw_shared_maps *m, uint64_t address);
/* Bytes of the segment, if any mapping shows it; 0 = none does. */
uint64_t hw_shared_maps_segment(const struct hw_shared_maps *m, uint32_t id);

/* The kind of a file system in the text of mountinfo, by its device. */
bool hw_mounts_hold_memory(const char *mountinfo, uint32_t dev_major, uint32_t dev_minor);

#endif

/*
 * memory_owner.h - who owns a mapping that has no name
 *
 * Why:     most of a process's memory has no name in /proc: blocks of malloc, its arenas, stacks of
 *          threads, a runtime's heap. Readers of the sizes need to distinguish them.
 * Shapes:  hw_owners_name gives nameless mappings one of the names below, and divides one that holds
 *          more than one kind: the kernel merges neighbours. Its figures are divided by what is
 *          resident in each part (pagemap), else by size. The sums stay what they were.
 *            [malloc arena]  an arena of glibc: its first bytes say so
 *            [malloc block]  a large block of glibc with pages of its own: its header says so
 *            [allocator]     writable memory without a name, where the allocator is not glibc's
 *            [stack:NAME]    of a living thread; [stack:other]: of one that ended, or that ran
 *            [heapwise]      our client's: where it says, or, of one that does not, by its flags
 *            [heapwise:shared]   memory files that the recorder has made, by device and inode
 *            [heapwise:library]  the client's file: where it says, or, of one that does not, by name
 *            [jit code]      executable, without a file
 *            [go heap]       where Go's runtime puts it
 *            [reserved]      address space without access
 *            [other files]   those beyond the largest HW_OWNERS_MAX_NAMES; likewise [anon:other],
 *                            [anon_shmem:other], /memfd:other, /dev/shm/other, /SYSVother
 * Owns:    names lie in the facts, which must live as long as the mappings.
 * Errors:  HW_ENOMEM. What cannot be read is not divided and keeps its name.
 * Cost:    at most HW_OWNERS_MAX_PROBES readings of 32 bytes, of pages that are in memory, and
 *          HW_OWNERS_MAX_PAGES of the pagemap: a target can have as many terabytes as it likes.
 *          Each mapping has its share of both. Beyond that, they are divided by size.
 * Threads: pure, but for what it reads of the process.
 * Source:  glibc's malloc.c and arena.c (struct malloc_chunk, heap_info), proc(5)
 */
#ifndef HW_PROC_MEMORY_OWNER_H
#define HW_PROC_MEMORY_OWNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "proc/smaps.h"

#define HW_OWNERS_MAX_NAMES   128u
#define HW_OWNERS_MAX_PROBES  65536u
#define HW_OWNERS_MAX_THREADS 512u
#define HW_OWNERS_MAX_PAGES   (UINT64_C(16) << 20) /* of the page map: 64 GiB of addresses */

enum hw_owner_allocator {
    HW_OWNER_GLIBC,
    HW_OWNER_OTHER_ALLOCATOR,
    HW_OWNER_NO_ALLOCATOR, /* none that is known: the program's own, or Go's runtime */
    HW_OWNER_UNREAD        /* any: none of its memory may be read, as that would count as use */
};

struct hw_owner_thread {
    uint64_t sp; /* 0 = it ran, or may not be asked */
    char label[32];
};

/* The profiler's own mappings: as it says itself, and those of files that the recorder has made. */
#define HW_OWNERS_MAX_OWN   192u
#define HW_OWNERS_MAX_FILES 12u
struct hw_owner_file {
    uint32_t dev_major, dev_minor;
    uint64_t inode;
};
struct hw_owner_ranges {
    uint32_t n_files;
    struct hw_owner_file files[HW_OWNERS_MAX_FILES];
    bool by_flags; /* it does not say: memory that is mapped as its own is taken for it */
    uint32_t n;
    struct hw_owner_range {
        uint64_t lo, hi;
    } v[HW_OWNERS_MAX_OWN]; /* in any order */
};

struct hw_owner_facts {
    enum hw_owner_allocator allocator;
    struct hw_owner_ranges own;
    int mem, pagemap; /* of the process; -1 = may not be read; owned */
    HW_VEC(struct hw_owner_thread) threads;
};

/* Opens and reads what there is. */
int hw_owner_facts_read(int proc_dir, enum hw_owner_allocator allocator,
                        struct hw_owner_facts *out);
void hw_owner_facts_done(struct hw_owner_facts *f);

int hw_owners_name(struct hw_smaps *s, const struct hw_owner_facts *f);

/* Of memory as large as a stack: has a thread been on it? On x86-64 a thread's block, at the top, points at itself twice
 * (glibc's tcbhead_t: tcb and self). True also where that cannot be found out. mem, pagemap: of /proc/PID, or -1. */
bool hw_owner_was_stack(int mem, int pagemap, uint64_t start, uint64_t end);

#endif

/*
 * target_memory.h - words of a process's memory, as much of it as is in memory
 *
 * Why:     the heaps of allocators and runtimes are found by following pointers through a process
 *          that runs on. Nothing may be brought into memory by that, and it may take no long time.
 * Shapes:  only pages are read that are in memory, the process's own (anonymous: written at least
 *          once), and not watched by a user-space handler of faults. A read of such a page waits for
 *          nobody. If the process exchanges the page in between, for one of a file system that does
 *          not answer, the read waits as long as that: who reads must be able to leave it behind
 *          (daemon/code/blocking_reader.h).
 *          Two caches: a window for who goes forward through a heap, single pages for who follows
 *          pointers. They keep what was read until hw_target_memory_forget().
 * Units:   addresses.
 * Owns:    nothing; descriptors and mappings are the caller's.
 * Errors:  HW_EGONE: it is not in memory, or not to be read; HW_ETIMEOUT: the CPU time is used up;
 *          HW_EFORMAT: a word's address is no multiple of 8, which the target may cause.
 * Threads: the one that began it: its CPU time counts.
 * Source:  the kernel's admin-guide/mm/pagemap.rst (bits 61, 63), proc(5) (VmFlags um, uw, ui)
 */
#ifndef HW_PROC_HEAPS_TARGET_MEMORY_H
#define HW_PROC_HEAPS_TARGET_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proc/smaps.h"

#define HW_TARGET_PAGE         UINT64_C(4096)
#define HW_TARGET_WINDOW_PAGES 32u
#define HW_TARGET_PAGES        64u
#define HW_TARGET_MAP_PAGES    512u

struct hw_target_memory {
    const struct hw_smaps *mappings; /* borrowed; by address */
    int mem, pagemap;                /* /proc/PID/mem and pagemap */
    uint64_t until_ns;               /* CPU time of this thread */
    struct {
        uint64_t first;
        size_t n;
        uint64_t words[HW_TARGET_MAP_PAGES];
    } map;
    struct {
        uint64_t lo, hi;
        uint8_t bytes[HW_TARGET_WINDOW_PAGES * HW_TARGET_PAGE];
    } window;
    struct {
        uint64_t lo;
        uint8_t bytes[HW_TARGET_PAGE];
    } pages[HW_TARGET_PAGES]; /* by its number */
};

/* In the caller's zeroed memory: it is large. mappings: as the kernel has them, neither named nor summed. */
void hw_target_memory_init(struct hw_target_memory *m, const struct hw_smaps *mappings, int mem,
                           int pagemap, uint64_t max_cpu_ns);
void hw_target_memory_forget(struct hw_target_memory *m);

/* The CPU time is used up. For loops that find what they need in the caches: the target makes them long. */
bool hw_target_is_late(const struct hw_target_memory *m);
bool hw_target_is_present(struct hw_target_memory *m, uint64_t page_number);
/* Bytes of whole pages between the two that are in memory. Too few if it is late afterwards. */
uint64_t hw_target_resident(struct hw_target_memory *m, uint64_t lo, uint64_t hi);
/* All of it was private memory without a file, to be read and written, when the mappings were read: where heaps are. */
bool hw_target_is_heap(const struct hw_target_memory *m, uint64_t lo, uint64_t hi);
/* Likewise, whatever the program may do with it. */
bool hw_target_is_private(const struct hw_target_memory *m, uint64_t lo, uint64_t hi);
/* Forward, and anywhere. */
int hw_target_word(struct hw_target_memory *m, uint64_t at, uint64_t *out);
int hw_target_word_anywhere(struct hw_target_memory *m, uint64_t at, uint64_t *out);
/* Any bytes, past the caches. */
int hw_target_read(struct hw_target_memory *m, uint64_t at, void *out, size_t n);

/* A page in memory, a file's or shared, too, of a process that nothing else is read of: a file system can take it away. */
int hw_target_page(int mem, int pagemap, uint64_t page_number, uint8_t out[HW_TARGET_PAGE]);

/* Private memory that may be read and written. */
bool hw_target_is_data(const struct hw_smaps_entry *e);
/* ...without a file. */
bool hw_target_is_anonymous(const struct hw_smaps_entry *e);

#endif

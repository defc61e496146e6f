/*
 * target_memory.h - words of a process's memory, as much of it as is in memory
 *
 * Why:     the heaps of allocators and runtimes are found by following pointers through a process
 *          that runs on. Nothing may be brought into memory by that, and it may take no long time.
 * Shapes:  two caches: a window for who goes forward through a heap, single pages for who follows
 *          pointers. They keep what was read until hw_target_memory_forget().
 * Units:   addresses.
 * Owns:    nothing; descriptors are the caller's.
 * Errors:  HW_EGONE: it is not in memory, or there is none; HW_ETIMEOUT: the CPU time is used up;
 *          HW_EFORMAT: a word's address is no multiple of 8, which the target may cause.
 * Threads: the one that began it: its CPU time counts.
 */
#ifndef HW_PROC_HEAPS_TARGET_MEMORY_H
#define HW_PROC_HEAPS_TARGET_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HW_TARGET_PAGE         UINT64_C(4096)
#define HW_TARGET_WINDOW_PAGES 32u
#define HW_TARGET_PAGES        64u
#define HW_TARGET_MAP_PAGES    512u

struct hw_target_memory {
    int mem, pagemap;  /* /proc/PID/mem and pagemap */
    uint64_t until_ns; /* CPU time of this thread */
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

/* In the caller's zeroed memory: it is large. */
void hw_target_memory_init(struct hw_target_memory *m, int mem, int pagemap, uint64_t max_cpu_ns);
void hw_target_memory_forget(struct hw_target_memory *m);

/* The CPU time is used up. For loops that find what they need in the caches: the target makes them long. */
bool hw_target_is_late(const struct hw_target_memory *m);
bool hw_target_is_present(struct hw_target_memory *m, uint64_t page_number);
/* Bytes of whole pages between the two that are in memory. Too few if it is late afterwards. */
uint64_t hw_target_resident(struct hw_target_memory *m, uint64_t lo, uint64_t hi);
/* Forward, and anywhere. */
int hw_target_word(struct hw_target_memory *m, uint64_t at, uint64_t *out);
int hw_target_word_anywhere(struct hw_target_memory *m, uint64_t at, uint64_t *out);
/* Any bytes, past the caches. */
int hw_target_read(struct hw_target_memory *m, uint64_t at, void *out, size_t n);

#endif

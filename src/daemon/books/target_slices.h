/*
 * target_slices.h - a target's scopes on their way into the trace
 *
 * Why:     the target sends ids, threads and depths (wire/records.h); the file needs names, tracks
 *          and as many ends as beginnings.
 * Shapes:  main thread only. Names come before the slices that use them; they lie in the feed's
 *          arena, as those of managed frames do.
 * Owns:    its maps.
 */
#ifndef HW_DAEMON_BOOKS_TARGET_SLICES_H
#define HW_DAEMON_BOOKS_TARGET_SLICES_H

#include <stdbool.h>

#include "base/memory/map64.h"
#include "base/memory/vec.h"

struct hw_managed_name;

struct hw_slices_thread {
    uint32_t tid;                 /* as the target knows it */
    HW_VEC(uint32_t) open_depths; /* of scopes that the file has open, rising */
};

struct hw_target_slices {
    struct hw_map64 names; /* id → const struct hw_managed_name * */
    struct hw_map64 by_tid;
    HW_VEC(struct hw_slices_thread) threads;
    uint64_t to_boottime; /* from the target's times; 0 = not known yet */
    uint64_t n_lost;      /* of threads or at depths beyond all reason */
    uint64_t depth_bytes; /* of all threads' open_depths */
};

/* Keeps a name that belongs to slices; false: it is that of a frame. */
bool hw_slices_name(struct hw_target_slices *s, const struct hw_managed_name *n);
void hw_target_slices_done(struct hw_target_slices *s);
uint64_t hw_target_slices_bytes(const struct hw_target_slices *s);

#endif

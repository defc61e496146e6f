/*
 * pace.h - when to poll a ring or a target next
 *
 * Why:     a wake-up costs a hundred times what checking an empty ring does. So rings are checked
 *          together where possible, and one with little in it is left alone for longer.
 * Shapes:  the interval halves when a check found more than an eighth of the ring full, and doubles
 *          when it found less than a sixty-fourth. A small ring is left alone for as long as it
 *          takes to fill an 8 MiB one in 100 ms, until it has been calm for a while. Patient:
 *          nobody waits for the recorder, and samples are so rare that no ring fills within 100 ms:
 *          that would be 11 GB/s of allocations at least (samples of 60 bytes; 64 KiB between two
 *          for a ring of 1 MiB, 256 KiB for one of 256 KiB).
 * Units:   bytes, microseconds, nanoseconds.
 * Threads: the owner's.
 */
#ifndef HW_DAEMON_BOOKS_PACE_H
#define HW_DAEMON_BOOKS_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/ring.h"

#define HW_PACE_MIN_US       1000u
#define HW_PACE_MIN_SMALL_US 100u /* 8 KiB hold a hundred samples */
#define HW_PACE_SMALL_RING   (1u << 20)
#define HW_PACE_MAX_US       100000u
#define HW_PACE_QUICK_US     10000u              /* of a patient one that has met new modules */
#define HW_PACE_CALM         200u                /* checks that found nothing */
#define HW_PACE_CALM_PATIENT 1u                  /* or next to nothing */
#define HW_PACE_RARE         (UINT64_C(1) << 36) /* bytes between two samples * bytes of the ring */
#define HW_PACE_FEW_BYTES    1024u               /* a few samples */

/* A sandbox is entered once, mostly at the start, and the client sees what goes through libc. */
#define HW_PACE_FILTERS_NS   UINT64_C(100000000)
#define HW_PACE_TITLES_MOST  30u
#define HW_PACE_FILTERS_MOST (10 * HW_PACE_FILTERS_NS)
#define HW_PACE_FILTERS_FEW  8u  /* targets; with more of them less often */
#define HW_PACE_FILTERS_AGE  60u /* share of its age: at one minute once a second */

struct hw_pace {
    uint64_t next_ns;
    uint32_t us, n_calm;
    bool patient;
};

static inline uint64_t hw_pace_most_us(uint64_t ring_bytes)
{
    uint64_t most = ring_bytes * HW_PACE_MAX_US / HW_RING_DEFAULT_BYTES;
    return most < HW_PACE_MAX_US ? most : HW_PACE_MAX_US;
}

static inline bool hw_pace_is_rare(uint64_t interval_bytes, uint64_t ring_bytes)
{
    return interval_bytes >= HW_PACE_RARE / ring_bytes;
}

static inline void hw_pace_start(struct hw_pace *p, uint64_t now)
{
    p->us = p->patient ? HW_PACE_QUICK_US : HW_PACE_MIN_US;
    p->next_ns = now;
}

/* Half of it early is as good: a thread that is awake checks everything that would wake it soon. */
static inline bool hw_pace_is_due(const struct hw_pace *p, uint64_t now)
{
    return p->next_ns <= now + p->us * UINT64_C(500);
}

/* After a check that found so many bytes. quick: new modules were met a moment ago. */
static inline void hw_pace_checked(struct hw_pace *p, uint64_t bytes, uint64_t ring_bytes,
                                   bool quick, uint64_t now)
{
    if (bytes > ring_bytes / 8)
        p->us /= 2;
    else if (bytes < ring_bytes / 64)
        p->us *= 2;
    uint64_t few = ring_bytes / 1024 > HW_PACE_FEW_BYTES ? ring_bytes / 1024 : HW_PACE_FEW_BYTES;
    bool calm = bytes <= (p->patient ? few : 0);
    p->n_calm = calm ? p->n_calm + 1 : 0;
    uint64_t most = hw_pace_most_us(p->patient ? 4 * ring_bytes : ring_bytes);
    if (p->n_calm > (p->patient ? HW_PACE_CALM_PATIENT : HW_PACE_CALM))
        most = HW_PACE_MAX_US;
    uint64_t soon = p->patient ? HW_PACE_QUICK_US : HW_PACE_MIN_US;
    if (quick && most > soon)
        most = soon;
    uint32_t least = ring_bytes < HW_PACE_SMALL_RING ? HW_PACE_MIN_SMALL_US : HW_PACE_MIN_US;
    p->us = p->us > most ? (uint32_t)most : p->us;
    p->us = p->us < least ? least : p->us;
    p->next_ns = now + p->us * UINT64_C(1000);
}

/* Between two readings of a target's system call filters: each is a file of /proc. */
static inline uint64_t hw_pace_filters_ns(uint64_t age_ns, size_t n_targets)
{
    uint64_t every = HW_PACE_FILTERS_NS * (n_targets / HW_PACE_FILTERS_FEW + 1);
    uint64_t of_age = age_ns / HW_PACE_FILTERS_AGE;
    every = every > of_age ? every : of_age;
    return every < HW_PACE_FILTERS_MOST ? every : HW_PACE_FILTERS_MOST;
}

/* Titles change early in a program's life: a name that was the same n_same times in a row is
 * read only in every so many scans of /proc, each process in another one. */
static inline bool hw_pace_title_is_due(uint64_t n_looks, int32_t pid, uint32_t n_same)
{
    uint64_t step = n_same < 8 * HW_PACE_TITLES_MOST ? 1 + n_same / 8 : HW_PACE_TITLES_MOST;
    return (n_looks + (uint32_t)pid) % step == 0;
}

#endif

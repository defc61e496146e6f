/*
 * progress.h - how far a long piece of work is, for who waits for it
 *
 * Shapes:  done of total, in the total's unit (bytes of a file). Work in parts says before each one
 *          what share of the whole it is: unpacking a file 0 to 0.3, reading it 0.3 to 1.
 * Threads: one works and tells, any number look; total is set before.
 */
#ifndef HW_BASE_PROGRESS_H
#define HW_BASE_PROGRESS_H

#include <stdatomic.h>
#include <stdint.h>

struct hw_progress {
    uint64_t total;
    atomic_uint_least64_t done;
    double from, share; /* of the part at hand; the worker's own */
};

static inline void hw_progress_init(struct hw_progress *p, uint64_t total)
{
    *p = (struct hw_progress){.total = total, .share = 1};
}

/* p may be NULL in all of them: nobody waits. */
static inline void hw_progress_part(struct hw_progress *p, double from, double to)
{
    if (p) {
        p->from = from;
        p->share = to - from;
    }
}

static inline void hw_progress_at(struct hw_progress *p, uint64_t at, uint64_t of)
{
    if (!p || of == 0)
        return;
    double share = at < of ? (double)at / (double)of : 1;
    /* Relaxed: nothing but the number is told. */
    atomic_store_explicit(&p->done, (uint64_t)((double)p->total * (p->from + p->share * share)),
                          memory_order_relaxed);
}

static inline uint64_t hw_progress_done(const struct hw_progress *p)
{
    return atomic_load_explicit(&p->done, memory_order_relaxed);
}

#endif

/*
 * idle_samples.h - live samples by address, and which of them were not used since the last dump
 *
 * Why:     --idle-allocations. The books know samples by their ids; here they have addresses, as
 *          long as they live. Only kept on request: 48 bytes per live sample.
 * Shapes:  a sample is idle when all pages that it touches are. Addresses and sizes come from the
 *          target: what cannot be in its memory, or is too much, counts as used.
 * Errors:  HW_ENOMEM; those of proc/idle_pages.h.
 * Threads: the live samples belong to the feed's owner, a measurement to the main thread.
 */
#ifndef HW_DAEMON_BOOKS_IDLE_SAMPLES_H
#define HW_DAEMON_BOOKS_IDLE_SAMPLES_H

#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "proc/idle_pages.h"

struct hw_idle_sample {
    uint64_t address, alloc_size, sample_size;
    uint32_t where; /* cell while it lives; stack number in a snapshot */
};

struct hw_idle_live {
    struct hw_map64 index; /* sample id → row of samples */
    HW_VEC(struct hw_idle_sample) samples;
    HW_VEC(uint32_t) empty; /* rows */
};

void hw_idle_live_done(struct hw_idle_live *l);
int hw_idle_live_put(struct hw_idle_live *l, uint64_t id, const struct hw_idle_sample *s);
void hw_idle_live_take(struct hw_idle_live *l, uint64_t id); /* unknown: nothing happens */
static inline size_t hw_idle_live_bytes(const struct hw_idle_live *l)
{
    return hw_map64_bytes(&l->index) + l->samples.cap * sizeof *l->samples.v +
           l->empty.cap * sizeof *l->empty.v;
}

/* idle[i]: sample i was not used since the last measurement. */
int hw_idle_measure(struct hw_idle *x, const struct hw_idle_sample *s, size_t n, bool *idle,
                    struct hw_error *err);

#endif

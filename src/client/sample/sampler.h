/*
 * sampler.h - countdowns to the next sample
 */
#ifndef HW_CLIENT_SAMPLE_SAMPLER_H
#define HW_CLIENT_SAMPLE_SAMPLER_H

#include "client/client.h"

/* The hot path. true = call the slow path; false = the bytes are counted. */
static inline bool hw_due(uint64_t n)
{
    struct hw_tls *t = &hw_here;
    uint64_t left = t->left;
    if (hw_unlikely(t->generation !=
                    atomic_load_explicit(&hw_control.generation, memory_order_relaxed)))
        return true;
    if (hw_unlikely(n >= left))
        return true;
    t->left = left - n;
    return false;
}

#define HW_NOT_SAMPLED UINT64_MAX

/* What this allocation from one of the program's own heaps stands for; 0 = it is not sampled. */
uint64_t hw_sampler_take_heap(struct hw_client_session *s, uint32_t heap_id, uint64_t n);
uint64_t hw_sampler_draw(uint64_t *rng, uint64_t interval); /* geometric, mean interval */
void hw_sampler_start(struct hw_tls *t, struct hw_client_session *s);
void hw_sampler_begin(struct hw_tls *t, uint64_t seed, uint64_t interval); /* a first draw */
uint64_t hw_sampler_mix(uint64_t x); /* a seed from something that is not one */
/* countdown <= 0 after the bytes were subtracted: draws until it is positive. Gives the sampled
 * weight. */
uint64_t hw_sampler_redraw(uint64_t *rng, uint64_t interval, uint64_t missing, uint64_t *countdown);

static inline void hw_sampler_split(struct hw_tls *t, uint64_t countdown)
{
    uint64_t most = t->interval > 1 ? t->interval : 0;
    t->left = countdown < most ? countdown : most;
    t->reserve = countdown - t->left;
}

/* Bytes until a thread that is not sampling checks again without a new generation. */
#define HW_QUIET_BYTES (1ull << 62)

#endif

/*
 * dump_order.c - images of one process, and processes of one number
 *
 * They are written in their order, with times in that order.
 */
#include "daemon/core.h"
#include "daemon/dump/dump_job.h"

#include "base/banned.h"

static bool is_before(const struct hw_target *a, const struct hw_target *t)
{
    return a->session == t->session && a->pid.pid == t->pid.pid && a->key < t->key;
}

static bool is_same_process(const struct hw_target *a, const struct hw_target *t)
{
    return a->pid.start_ticks == t->pid.start_ticks;
}

static bool is_image_before(const struct hw_target *a, const struct hw_target *t)
{
    return is_before(a, t) && is_same_process(a, t);
}

const struct hw_target *hw_dump_number_before(const struct hw_target *t)
{
    for (size_t i = 0; i < t->rec->targets.n; i++) {
        const struct hw_target *a = t->rec->targets.v[i];
        bool lasts = a->phase == HW_PHASE_RUNNING || a->phase == HW_PHASE_FINISHING;
        if (is_before(a, t) && !is_same_process(a, t) && lasts)
            return a;
    }
    return NULL;
}

const struct hw_target *hw_dump_image_before(const struct hw_target *t)
{
    for (size_t i = 0; i < t->rec->targets.n; i++) {
        const struct hw_target *a = t->rec->targets.v[i];
        if (is_image_before(a, t) && a->phase == HW_PHASE_FINISHING)
            return a;
    }
    return hw_dump_number_before(t);
}

/* The next image, and the next process with this number, start after the last dump of this one,
 * even if both are within one tick of the coarse clock, or the end was noticed after the number
 * was reused. */
void hw_dump_begin_next(const struct hw_target *t)
{
    uint64_t last = 0;
    for (size_t i = 0; i < t->heaps.n; i++)
        last = t->heaps.v[i].last_ts_ns > last ? t->heaps.v[i].last_ts_ns : last;
    if (t->end == HW_END_EXECED && last > t->session->last_exec_ns)
        t->session->last_exec_ns = last;
    for (size_t i = 0; i < t->rec->targets.n; i++) {
        struct hw_target *b = t->rec->targets.v[i];
        if (is_before(t, b) && b->since_coarse_ns < last)
            b->since_coarse_ns = last;
    }
}

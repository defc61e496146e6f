/*
 * continuous_guard.h - how many samples continuous recording may cost
 *
 * Why:     everything is recorded all the time, so its price has a limit; but what looks, names and
 *          starting programs cost does not fall with fewer samples, and is not counted.
 * Shapes:  the recorder says how much CPU time samples have taken since the session's begin. Above
 *          the limit the interval is doubled as often as it needs at once; far below it, it is
 *          halved, one step at a time, until it is what was asked for.
 * Units:   ns; millionths of one core.
 * Threads: one owner.
 * Source:  doc/design/service.md
 */
#ifndef HW_RECORD_WEB_CONTINUOUS_GUARD_H
#define HW_RECORD_WEB_CONTINUOUS_GUARD_H

#include <stdbool.h>
#include <stdint.h>

struct hw_continuous_guard {
    uint32_t max_ppm; /* of one core; 0 = no limit */
    uint64_t window_ns;
    uint32_t doublings;       /* of the interval, now */
    uint64_t at_ns, spent_ns; /* when it was looked at last, and how much it was; at_ns 0 = never */
    unsigned n_cheap;         /* windows in a row that were far below the limit */
};

/* A session begins, with the interval that was asked for. */
void hw_continuous_guard_begin(struct hw_continuous_guard *g);
/* spent_ns: since the session's begin. True: doublings has changed. */
bool hw_continuous_guard_step(struct hw_continuous_guard *g, uint64_t now_ns, uint64_t spent_ns);

#endif

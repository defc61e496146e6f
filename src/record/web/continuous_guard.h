/*
 * continuous_guard.h - limits what continuous recording may cost
 *
 * Why:     everything is recorded all the time, so the cost is limited; the cost of snapshots,
 *          symbols and program starts does not fall with fewer samples, and is not counted.
 * Shapes:  the recorder reports the CPU time that samples have taken since the session began. Above
 *          the limit, the interval is doubled as often as needed at once; far below, it is halved
 *          one step at a time down to the configured one.
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
    uint64_t at_ns, spent_ns; /* last check and its value; at_ns 0 = never */
    unsigned n_cheap;         /* consecutive windows far below the limit */
};

/* A session begins, with the configured interval. */
void hw_continuous_guard_begin(struct hw_continuous_guard *g);
/* spent_ns: since the session began. True: doublings has changed. */
bool hw_continuous_guard_step(struct hw_continuous_guard *g, uint64_t now_ns, uint64_t spent_ns);

#endif

/*
 * when.h - conditions: "start when", "dump when", "stop when"
 *
 * Why:     command options, configuration fields and the recorder, which alone sees the process at
 *          the right moment, share these expressions.
 * Shapes:  rss>SIZE    resident memory of one process reached it, once
 *          rss+SIZE    it grew by that much since the profile began, and every time again
 *          time>TIME   since the recording began
 *          samples>N   of all processes
 *          dumps=N     written, for all processes and heaps; to stop only
 *          failure     malloc returned NULL: the dump shows the heap at that very call
 *          signal      SIGUSR1 to the recorder; to start only (it always dumps)
 *          memory-limit[>PERCENT]  so much (90) of what a limit allows is used: address space
 *                      (ulimit -v), data, a memory group above the process, the machine
 * Owns:    text, freed by hw_when_done.
 * Errors:  HW_EINVAL with the expression and the valid ones.
 */
#ifndef HW_CONFIG_WHEN_H
#define HW_CONFIG_WHEN_H

#include <stdbool.h>
#include <stdint.h>

struct hw_error;

enum hw_when_kind {
    HW_WHEN_RSS,
    HW_WHEN_RSS_GROWTH,
    HW_WHEN_TIME,
    HW_WHEN_SAMPLES,
    HW_WHEN_DUMPS,
    HW_WHEN_FAILURE,
    HW_WHEN_MEMORY_LIMIT,
    HW_WHEN_SIGNAL,
    HW_WHEN_KIND_COUNT
};

enum hw_when_act { HW_ACT_START, HW_ACT_DUMP, HW_ACT_STOP, HW_ACT_COUNT };

struct hw_when {
    enum hw_when_kind kind;
    uint64_t limit; /* bytes, ms, count, percent */
    enum hw_when_act act;
    char *text; /* as given; names the dump's cause in the trace */
};

#define HW_WHEN_LIMIT_PERCENT 90u
#define HW_MAX_CONDITIONS     32u
#define HW_WHEN_TEXT_MAX      64u /* longer ones are refused */

int hw_when_parse(const char *text, enum hw_when_act act, struct hw_when *out,
                  struct hw_error *err);
void hw_when_done(struct hw_when *w);

#endif

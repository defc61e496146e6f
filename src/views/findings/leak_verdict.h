/*
 * leak_verdict.h - what the memory of a callstack over time looks like: a leak, a cache, churn
 *
 * Threads: pure.
 * Source:  doc/design/views.md, "Verdicts"
 */
#ifndef HW_VIEWS_FINDINGS_LEAK_VERDICT_H
#define HW_VIEWS_FINDINGS_LEAK_VERDICT_H

#include <stdbool.h>
#include <stddef.h>

struct hw_leak;

enum hw_leak_verdict {
    HW_LEAK_LIKELY, /* tau > 0.7, p < 0.05, < 5 % freed, slope surely above 0, enough samples, and
                       no pause of a third of the time that chance does not explain */
    HW_LEAK_GROWING,
    HW_LEAK_CACHE_LIKE,
    HW_LEAK_START_UP,
    HW_LEAK_CHURN,
    HW_LEAK_NO_TREND,
    HW_LEAK_TOO_LITTLE, /* fewer than four moments */
    HW_LEAK_VERDICT_COUNT
};

/* rough: so few samples that steady growth may be chance. */
enum hw_leak_verdict hw_leak_verdict_of(const struct hw_leak *r, size_t n_moments, bool rough);
const char *hw_leak_verdict_name(enum hw_leak_verdict v); /* "likely leak", … */

#endif

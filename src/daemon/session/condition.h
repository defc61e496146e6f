/*
 * condition.h - evaluates conditions on a process or a session
 *
 * Why:     conditions to start, dump and stop are evaluated alike; start_when.h and trigger.h act
 *          on the result.
 * Threads: main thread only.
 */
#ifndef HW_DAEMON_SESSION_CONDITION_H
#define HW_DAEMON_SESSION_CONDITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"

struct hw_session;
struct hw_target_triggers;

#define HW_TRIGGER_FAILURE    "failure"
#define HW_TRIGGER_NEAR_LIMIT "near-limit"
#define HW_TRIGGER_PRESSURE   "memory-pressure"

/* Not shown when a later dump exists. */
bool hw_trigger_is_checkpoint(const char *trigger);
bool hw_trigger_wants_failures(const struct hw_heapprofd_config *c);

/* Of a process, now: the values that its source's conditions need, else 0. */
struct hw_condition_facts {
    uint64_t rss_bytes;
    uint32_t limit_percent; /* used of its nearest limit */
};
/* limits: asked for also without a condition about them. */
struct hw_condition_facts hw_condition_measure(const struct hw_heapprofd_config *c,
                                               struct hw_target_triggers *g, int proc_dir,
                                               bool limits, uint64_t now);
/* Condition i of those that g remembers; false if it is not about a process. */
bool hw_condition_is_true(struct hw_target_triggers *g, size_t i, const struct hw_when *w,
                          const struct hw_condition_facts *f);
/* What a condition about the session compares with its limit; 0 when it is not about one. */
uint64_t hw_condition_value(const struct hw_session *s, enum hw_when_kind kind, uint64_t now);

#endif

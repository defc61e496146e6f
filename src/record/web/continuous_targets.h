/*
 * continuous_targets.h - the processes of a continuous recording, until their end
 *
 * Shapes:  a process that execs another program is two successive targets with one pid. The last
 *          snapshot of the first may come before or after the first event of the second.
 * Owns:    targets and their contents. Pointers are valid until the next call that adds or drops.
 * Threads: one owner.
 */
#ifndef HW_RECORD_WEB_CONTINUOUS_TARGETS_H
#define HW_RECORD_WEB_CONTINUOUS_TARGETS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/memory/vec.h"
#include "record/web/continuous_file.h"

struct hw_live_source;
struct hw_profile;

struct hw_continuous_target {
    struct hw_continuous_process who;
    struct hw_live_source *source; /* owned; NULL = no snapshot yet */
    struct hw_profile *before;     /* owned; the last snapshot; NULL = none */
    bool broke_off;                /* its last snapshot is on its way, though the process lives */
    bool replaced;                 /* the same, and the process has become another target */
};
typedef HW_VEC(struct hw_continuous_target) hw_continuous_targets;

/* Replaces the target with that pid. NULL: out of memory. */
struct hw_continuous_target *hw_continuous_targets_add(hw_continuous_targets *all, int32_t pid,
                                                       struct hw_bytes name);
/* The current target of that pid; NULL = none. */
struct hw_continuous_target *hw_continuous_targets_find(hw_continuous_targets *all, int32_t pid);
/* The target whose last snapshot is next: the recorder sends them in order of their ends. */
struct hw_continuous_target *hw_continuous_targets_find_ending(hw_continuous_targets *all,
                                                               int32_t pid);
/* False: a snapshot of its pid would show its successor, or nothing. */
bool hw_continuous_target_is_there(const struct hw_continuous_target *t);
/* Drops those that have ended, and those gone whose last snapshot has not come in time. */
void hw_continuous_targets_drop(hw_continuous_targets *all, uint64_t wait_ns);
void hw_continuous_targets_clear(hw_continuous_targets *all);

#endif

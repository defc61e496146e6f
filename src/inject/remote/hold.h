/*
 * hold.h - stops all other threads of a process
 *
 * Why:     code that they may be executing is about to change.
 * Shapes:  take → inspect each, perhaps move it → release. Threads that start meanwhile are
 *          stopped, too; once all are stopped, none can start.
 * Errors:  HW_ETIMEOUT (one did not stop), HW_ELIMIT, HW_EGONE, HW_ENOMEM; then none is held.
 * Threads: as thread.h.
 */
#ifndef HW_INJECT_REMOTE_HOLD_H
#define HW_INJECT_REMOTE_HOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"

struct hw_error;
struct hw_pid;
struct hw_thread;

struct hw_hold {
    HW_VEC(struct hw_thread *) threads; /* owned */
    bool filtered;
    bool execed;
};

/* except: already stopped. On failure it may have been given up. */
int hw_hold_take(const struct hw_pid *pid, struct hw_thread *except, struct hw_hold *out,
                 struct hw_error *err);
void hw_hold_release(struct hw_hold *h);

#endif

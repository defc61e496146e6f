/*
 * exec_control.h - the main thread's side of the watch for execs
 *
 * Threads: main thread only.
 */
#ifndef HW_DAEMON_EXECWATCH_EXEC_CONTROL_H
#define HW_DAEMON_EXECWATCH_EXEC_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/execwatch/exec_watch.h"
#include "daemon/watch.h"

struct hw_exec_watch {
    struct hw_exec_watch_setup setup;
    struct hw_watch talk;
    int order; /* -1 = none */
    int32_t pid;
    bool on, ready, lost;
    uint32_t flags, n_ruled;
};
int hw_exec_watch_init(struct hw_recorder *r, struct hw_error *err);
/* Programs that start behind this call are held, where that can be. */
void hw_exec_watch_add(struct hw_session *s);
void hw_exec_watch_rate(const struct hw_session *s); /* its interval has changed */
void hw_exec_watch_drop(struct hw_session *s);
void hw_exec_watch_follow(const struct hw_session *s, int32_t pid);
void hw_exec_watch_tick(struct hw_recorder *r);
void hw_exec_watch_done(struct hw_recorder *r);

#endif

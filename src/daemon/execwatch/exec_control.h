/*
 * exec_control.h - the main thread's side of the exec watch
 *
 * Threads: main thread only.
 */
#ifndef HW_DAEMON_EXECWATCH_EXEC_CONTROL_H
#define HW_DAEMON_EXECWATCH_EXEC_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/execwatch/exec_watch.h"
#include "daemon/watch.h"

#define HW_EXEC_N_SHARES 64u

/* About a program that should have been held, and has to be attached to instead. */
struct hw_exec_found_share {
    int32_t pid;
    uint32_t share;
    uint64_t until_ns;
};

struct hw_exec_watch {
    struct hw_exec_watch_setup setup;
    struct hw_watch talk;
    int order; /* -1 = none */
    int32_t pid;
    bool on, ready, lost;
    uint32_t flags, n_ruled;
    struct hw_exec_found_share shares[HW_EXEC_N_SHARES]; /* a ring */
    uint32_t n_shares;
};
int hw_exec_watch_init(struct hw_recorder *r, struct hw_error *err);
/* Programs that start after this call are held, if that is possible. */
void hw_exec_watch_add(struct hw_session *s);
void hw_exec_watch_rate(const struct hw_session *s); /* its interval has changed */
void hw_exec_watch_drop(struct hw_session *s);
/* flags: of a message HW_EXEC_FOUND. */
void hw_exec_watch_found(struct hw_exec_watch *w, int32_t pid, uint32_t flags);
/* A process of this session, and armed_token of its hello: it stands for 2^that starts. */
uint32_t hw_exec_watch_share(const struct hw_session *s, int32_t pid, uint64_t token);
void hw_exec_watch_follow(const struct hw_session *s, int32_t pid);
void hw_exec_watch_tick(struct hw_recorder *r);
void hw_exec_watch_done(struct hw_recorder *r);

#endif

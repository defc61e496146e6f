/*
 * attach_injected.h - attaching to processes that were not preloaded
 *
 * Threads: main thread only.
 */
#ifndef HW_DAEMON_REACH_ATTACH_INJECTED_H
#define HW_DAEMON_REACH_ATTACH_INJECTED_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/policy/permission.h"

struct hw_recorder;

struct hw_injected {
    struct hw_session *session;          /* NULL: it is over */
    struct hw_permission_request asking; /* whose it was */
    struct hw_pid pid;                   /* owned */
    uint32_t uid;
    uint64_t code; /* what it executes: another number, other modules */
    uint64_t looked_ns;
    bool leaving;
};
int hw_inject_init(struct hw_recorder *r);
/* The session means this process: the client is put into it. The session is told what forbids
 * it, but not when the process is one of all (quietly). */
void hw_inject_hook(struct hw_session *s, const struct hw_pid *pid, bool quietly);
bool hw_inject_has(const struct hw_recorder *r, int32_t pid);
/* A child of a hooked process has the hooks, too; another image has none. */
void hw_inject_forked(struct hw_session *s, const struct hw_pid *pid);
void hw_inject_execed(struct hw_recorder *r, const struct hw_pid *pid);
/* Its targets are over: takes the hooks out. Gives how many processes still have them. */
size_t hw_inject_leave(struct hw_session *s);
void hw_inject_forget(struct hw_session *s);
void hw_inject_mark_files(struct hw_recorder *r);
bool hw_inject_preparing(const struct hw_recorder *r); /* a tick is due soon */
void hw_inject_tick(struct hw_recorder *r, uint64_t now);
void hw_inject_done(struct hw_recorder *r);

#endif

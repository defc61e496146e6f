/*
 * controller.h - the command's end of a recorder
 *
 * Why:     record, heap_profile, perfetto, dump, stop and ps control a recorder: one embedded in a
 *          child process (this binary under the name heapprofd), or a running service. Both use the
 *          same messages (wire/control.h).
 * Shapes:  hw_controller_next returns events one at a time, in order; `body` is valid until the
 *          next call. The recorder's death is HW_EGONE, never a signal or a hang.
 * Owns:    the socket and, embedded, the child: hw_controller_free closes the socket and waits for
 *          the child (which writes what it has once its controller is gone).
 * Errors:  HW_EGONE, HW_ESYS, HW_EVERSION, HW_ENOTFOUND (no service), HW_EPERM.
 */
#ifndef HW_RECORD_CONTROLLER_H
#define HW_RECORD_CONTROLLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "wire/control.h"

struct hw_error;
struct hw_controller;

struct hw_controller_event {
    enum hw_control_type type;
    uint64_t session;
    struct hw_bytes body;
};

/*
 * Starts an embedded recorder. It listens for clients on hw_controller_socket(): the given socket,
 * or a private one if NULL.
 */
int hw_controller_spawn(const char *socket, struct hw_controller **out, struct hw_error *err);
/* The same with a policy other than this machine's. */
int hw_controller_spawn_with(const char *socket, const char *policy, struct hw_controller **out,
                             struct hw_error *err);
/*
 * The same, for a session that will be detached: it is independent of our terminal and outlives
 * this process. Until then it is our child: long-lived callers must reap it.
 */
int hw_controller_spawn_apart(struct hw_controller **out, struct hw_error *err);
/* Connects to a service's consumer socket; path NULL = the default one. */
int hw_controller_connect(const char *path, struct hw_controller **out, struct hw_error *err);
void hw_controller_free(struct hw_controller *c);
/* Stops waiting for the embedded recorder when this is freed (a second Ctrl-C). */
void hw_controller_abandon(struct hw_controller *c);
/* Kills an embedded recorder that does not exit; its file is valid up to the last packet. */
void hw_controller_kill(struct hw_controller *c);

const char *hw_controller_socket(const struct hw_controller *c); /* where its clients connect */
int hw_controller_pid(const struct hw_controller *c);            /* embedded; 0 for a service */
int hw_controller_fd(const struct hw_controller *c);             /* to poll for reading */

/* Announces the pid of the command to profile; before the start. */
int hw_controller_target(struct hw_controller *c, int pid, struct hw_error *err);
/* Starts a session that writes to fd (O_RDWR, a file). The answer is an event. */
int hw_controller_start(struct hw_controller *c, const struct hw_control_start *start,
                        struct hw_bytes config, int fd, struct hw_error *err);
int hw_controller_stop(struct hw_controller *c, uint64_t session, struct hw_error *err);
int hw_controller_dump(struct hw_controller *c, const int32_t *pids, size_t n,
                       struct hw_error *err);
/*
 * A detached session continues when this connection ends; an attached one ends with it. The answer
 * is an event: DETACHED, ATTACHED or ERROR.
 */
int hw_controller_detach(struct hw_controller *c, const char *key, struct hw_error *err);
int hw_controller_attach(struct hw_controller *c, const char *key, struct hw_error *err);
/*
 * Dumps, then sends a descriptor to copy from: event CLONED, then hw_controller_take_fd. id 0:
 * name.
 */
int hw_controller_clone(struct hw_controller *c, uint64_t id, const char *name,
                        struct hw_error *err);
/* The current heaps of that process: event LIVE_REPLY, then hw_controller_take_fd. */
int hw_controller_live(struct hw_controller *c, int32_t pid, struct hw_error *err);
int hw_controller_request_live(struct hw_controller *c, const struct hw_control_live_request *look,
                               struct hw_error *err);
/* Removes that process from a session, which continues: event LEFT. */
int hw_controller_leave(struct hw_controller *c, uint64_t session, int32_t pid,
                        struct hw_error *err);
/* From now on all intervals of this connection's session are doubled this many times. */
int hw_controller_rate(struct hw_controller *c, uint32_t doublings, struct hw_error *err);
/* Names a moment in a session's file; 0 = the session of this connection. */
int hw_controller_mark(struct hw_controller *c, uint64_t session, uint64_t boottime_ns,
                       const char *text, struct hw_error *err);
/* The descriptor that came with the last event, now the caller's; -1 = none. */
int hw_controller_take_fd(struct hw_controller *c);
int hw_controller_request_status(struct hw_controller *c, struct hw_error *err);

/* 1 = an event, 0 = none within timeout_ms (-1 waits for ever), < 0 = the connection is over. */
int hw_controller_next(struct hw_controller *c, int timeout_ms, struct hw_controller_event *out,
                       struct hw_error *err);

/* The error that HW_CTL_ERROR brings: its text, with the recorder's code or HW_EINVAL. */
int hw_controller_refused(const struct hw_controller_event *e, struct hw_error *err);
/* Waits for an event of this type, dropping others; a refusal is hw_controller_refused. */
int hw_controller_wait(struct hw_controller *c, enum hw_control_type type, int timeout_ms,
                       struct hw_controller_event *out, struct hw_error *err);

/* The fixed part of a body; false if it is too short. */
bool hw_controller_body(const struct hw_controller_event *e, void *out, size_t n);

#endif

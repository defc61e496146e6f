/*
 * command_connection.h - connections of commands, and their requests
 *
 * Threads: main thread only.
 */
#ifndef HW_DAEMON_CONTROL_COMMAND_CONNECTION_H
#define HW_DAEMON_CONTROL_COMMAND_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "daemon/dump/dump.h"
#include "daemon/policy/permission.h"
#include "daemon/watch.h"
#include "proc/pid.h"
#include "wire/control.h"

struct hw_control_conn {
    struct hw_watch watch;
    struct hw_recorder *rec;
    struct hw_session *session; /* NULL = none */
    struct hw_requester who;
    uint32_t uid; /* of who */
    int32_t pid;
    struct hw_pid root;     /* HW_CTL_TARGET before HW_CTL_START; owned; pid -1 = none */
    uint64_t clone_session; /* whose dumps it waits for; 0 = none */
    uint64_t clone_deadline_ns;
    HW_VEC(struct hw_awaited_dumps) awaited;
    uint64_t live_key; /* of the target whose live view it wants; 0 = none */
    bool live_served;  /* that view is being prepared */
    uint64_t live_deadline_ns;
    struct hw_control_live_request live_request;
    struct hw_control_out *out; /* messages that its socket had no room for; owned */
    struct hw_control_out *out_last;
    size_t out_bytes;
    bool controller; /* the one of an embedded recorder */
    bool closed;
};

int hw_control_listen(struct hw_recorder *r, const char *name, struct hw_error *err);
int hw_control_add(struct hw_recorder *r, int fd, bool controller);
/* Refuses a request: HW_CTL_ERROR with the text. */
void hw_control_fail(struct hw_control_conn *c, const char *text);
void hw_control_fail_as(struct hw_control_conn *c, const struct hw_error *err); /* with its code */
/* What answers HW_CTL_STATUS. */
void hw_control_status(struct hw_control_conn *c);
/* A session that this user may control; 0 = the connection's own. NULL: there is none. */
struct hw_session *hw_control_session(struct hw_control_conn *c, uint64_t id);
/* NULL connection: nothing happens. */
void hw_control_send(struct hw_control_conn *c, enum hw_control_type type, uint64_t session,
                     const void *body, size_t n, const char *text);
/* Sends the messages that it had no room for; or its peer no longer reads them. */
void hw_control_flush(struct hw_control_conn *c);
void hw_control_drop_unsent(struct hw_control_conn *c);
void hw_control_done(struct hw_recorder *r);

/* ---- session_detach.c: sessions that outlive their command, and copies of running ones ---- */

void hw_session_detach(struct hw_control_conn *c, struct hw_bytes key);
void hw_session_attach(struct hw_control_conn *c, struct hw_bytes key);
void hw_handle_mark(struct hw_control_conn *c, uint64_t id, struct hw_bytes body); /* mark.c */
/* session_exclude.c: a process that is no longer profiled in a session that continues. */
void hw_handle_exclude(struct hw_control_conn *c, uint64_t id, struct hw_bytes body);
/* rate.c: how many samples all of a session's targets give. */
void hw_handle_rate(struct hw_control_conn *c, uint64_t id, struct hw_bytes body);
void hw_session_clone(struct hw_control_conn *c, uint64_t id, struct hw_bytes name);
void hw_session_detach_tick(struct hw_recorder *r, uint64_t now);

#endif

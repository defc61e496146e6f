/*
 * service.h - the running recorders: the service and those embedded in commands
 *
 * Why:     ps, dump, stop and perfetto --query all ask who records what, and for whom.
 * Shapes:  a recording is named by its number in the service ("3"), or "r" and the pid of its
 *          embedded recorder ("r4211"), which makes only one.
 * Errors:  HW_ENOTFOUND if no service runs.
 */
#ifndef HW_RECORD_SERVICE_H
#define HW_RECORD_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/memory/vec.h"
#include "proc/pid.h"

struct hw_controller;

struct hw_service_target {
    int32_t pid;
    uint64_t samples, dumps;
    uint64_t buffer, buffered;    /* size of its ring, and bytes unread in it */
    char *name;                   /* owned */
    uint64_t live, lost, seconds; /* estimated live bytes; samples; since when */
    char *state;                  /* owned */
};

struct hw_service_session {
    uint64_t id, uid, seconds, samples, lost, dumps, bytes, duration_ms;
    uint64_t interval, stack_mode; /* enum hw_stack_mode */
    bool all, no_running;          /* targets all processes; only new ones */
    int32_t controller_pid;        /* of the command that started it; -1 = gone */
    char ref[24];                  /* the user-visible name: "3", "r4211" */
    char *state;                   /* owned: running, stopping */
    char *file;                    /* owned; "" = unknown */
    char *name;                    /* owned: unique_session_name; "" = none */
    char *detached;                /* owned: its key; "" = not detached */
    HW_VEC(struct hw_service_target) targets;
};

struct hw_service_state {
    int32_t pid;
    char *version;            /* owned */
    char *producer_socket;    /* owned */
    uint64_t waiting_clients; /* preloaded programs no session wants */
    uint64_t refused_clients; /* rejected: their user had too many already */
    HW_VEC(struct hw_service_session) sessions;
};

/* Asks over an open connection. */
int hw_service_refresh(struct hw_controller *controller, struct hw_service_state *out,
                       struct hw_error *err);
/* Parses the text of an answer. */
int hw_service_read(struct hw_bytes reply, struct hw_service_state *out, struct hw_error *err);
void hw_service_state_done(struct hw_service_state *s);

/* The service, if one runs, and this user's embedded recorders (for root, everybody's).
 */
struct hw_recorder_seen {
    struct hw_controller *controller; /* owned */
    struct hw_service_state state;
    bool embedded;
};

struct hw_recorders {
    HW_VEC(struct hw_recorder_seen) all;
    hw_pid_list silent;            /* embedded ones that did not answer in time; owned */
    struct hw_error service_error; /* why there is no service; code 0: there is one */
};

/* Recorders that are exiting are left out. One that is there and does not answer (stopped, or
 * starved) is in `silent`: what it records is not known. */
int hw_recorders_query(struct hw_recorders *out, struct hw_error *err);
/* Only the one embedded in this process; none if it does not answer. */
int hw_recorders_query_one(struct hw_recorders *out, int32_t pid, struct hw_error *err);
void hw_recorders_done(struct hw_recorders *r);
size_t hw_recorders_sessions(const struct hw_recorders *r); /* how many in all */

#endif

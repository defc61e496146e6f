/*
 * service.h - questions to a running service, for the small commands
 *
 * Errors:  HW_ENOTFOUND when no service runs.
 */
#ifndef HW_CLI_SERVICE_H
#define HW_CLI_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"

struct hw_error;
struct hw_controller;

struct hw_service_target {
    int32_t pid;
    char *name;  /* owned */
    char *state; /* owned */
};

struct hw_service_session {
    uint64_t id, seconds, samples, lost, dumps;
    HW_VEC(struct hw_service_target) targets;
};

struct hw_service_state {
    int32_t pid;
    uint64_t waiting_clients; /* preloaded programs that no session wants */
    HW_VEC(struct hw_service_session) sessions;
};

/* *controller stays open for what follows; the caller frees both. */
int hw_service_ask(struct hw_controller **controller, struct hw_service_state *out,
                   struct hw_error *err);
/* The same for a recorder that another command has embedded. */
int hw_service_ask_embedded(int32_t pid, struct hw_controller **controller,
                            struct hw_service_state *out, struct hw_error *err);
void hw_service_state_done(struct hw_service_state *s);

/* Recorders embedded in commands of this user's (of everybody's, for root), by pid. */
typedef HW_VEC(int32_t) hw_recorder_pids;
int hw_embedded_recorders(hw_recorder_pids *out);

#endif

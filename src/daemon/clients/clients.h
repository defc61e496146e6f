/*
 * clients.h - connections of programs that are not profiled (yet)
 *
 * Threads: main thread only.
 */
#ifndef HW_DAEMON_CLIENTS_CLIENTS_H
#define HW_DAEMON_CLIENTS_CLIENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/clients/client_page.h"
#include "daemon/watch.h"
#include "wire/handshake.h"

struct hw_namespace_socket;
struct hw_recorder;
struct hw_target;

struct hw_conn {
    struct hw_watch watch;
    struct hw_recorder *rec;
    const struct hw_namespace_socket *ns_socket; /* the socket it came through */
    uint32_t uid;
    int32_t pid;
    uint64_t since_ns;
    bool has_hello, closed;
    bool waiting;          /* the answer was WAIT: page is its control page */
    struct hw_hello hello; /* its version: agreed on */
    uint32_t share;        /* hw_target.share, of one that becomes a target */
    struct hw_page page;
    struct hw_filters filters;
    uint64_t filters_ns; /* last look */
};

void hw_conn_close(struct hw_conn *c);
/* Its descriptor is now a target's; the connection's object ends. */
void hw_conn_release(struct hw_conn *c);
void hw_clients_tick(struct hw_recorder *r, uint64_t now);
/* A session started: waiting clients are told to make the handshake again. */
void hw_clients_wake(struct hw_recorder *r);
/* Is one of them this process? */
bool hw_clients_know(const struct hw_recorder *r, int32_t pid);
bool hw_clients_called(const struct hw_recorder *r, int32_t pid); /* it waits, and was told */
/* The same for one process, if it waits: its name has changed. */
bool hw_clients_wake_one(struct hw_recorder *r, int32_t pid);
/* Its recording is over, the process is not: it waits for the next one with the same page. */
void hw_clients_take_back(struct hw_target *t);
void hw_clients_done(struct hw_recorder *r);

#endif

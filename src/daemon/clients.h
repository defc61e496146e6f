/*
 * clients.h - connections from targets that are not profiled (yet)
 *
 * Threads: main thread only.
 */
#ifndef HW_DAEMON_CLIENTS_H
#define HW_DAEMON_CLIENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/client_page.h"
#include "daemon/watch.h"
#include "wire/handshake.h"

struct hw_error;
struct hw_target;

struct hw_conn {
    struct hw_watch watch;
    struct hw_recorder *rec;
    const struct hw_namespace_socket *door; /* by which it came */
    uint32_t uid;
    int32_t pid;
    uint64_t since_ns;
    bool heard, closed;
    bool waiting;          /* WAIT was answered: page is its control page */
    struct hw_hello hello; /* its version: agreed on */
    struct hw_page page;
    struct hw_filters filters;
    uint64_t filters_ns; /* last look */
};

/* Of either listening socket. Without descriptors both rest for half a second. */
int hw_accept(struct hw_recorder *r, int listener);
/* How many programs may wait, so that descriptors are left for sessions and commands. */
void hw_clients_limit(struct hw_recorder *r);
/* Those that wait at a listening socket; door NULL = our own. A turn takes some of them: gives
 * whether more may wait. */
bool hw_clients_accept(struct hw_recorder *r, int listener, const struct hw_namespace_socket *door);
/* A turn for all that was said so far, by whichever door, also by who has ended. The same. */
bool hw_clients_hear(struct hw_recorder *r);
int hw_clients_listen(struct hw_recorder *r, const char *name, struct hw_error *err);
void hw_clients_tick(struct hw_recorder *r, uint64_t now);
/* A session began: clients that wait are told to shake hands again. */
void hw_clients_wake(struct hw_recorder *r);
/* Is one of them this process? */
bool hw_clients_know(const struct hw_recorder *r, int32_t pid);
bool hw_clients_called(const struct hw_recorder *r, int32_t pid); /* it waits, and was told */
/* The same for one process, when it waits: its name is another one now. */
bool hw_clients_wake_one(struct hw_recorder *r, int32_t pid);
/* Its recording is over, the process is not: it waits for the next one with the same page. An
 * embedded recorder keeps only those that it records again. */
void hw_clients_take_back(struct hw_target *t);
void hw_clients_done(struct hw_recorder *r);

/* Listening SOCK_SEQPACKET socket on a path or '@name'. */
int hw_listen(const char *name, struct hw_error *err);

#endif

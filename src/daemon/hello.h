/*
 * hello.h - the recorder's sockets for programs, and the first message of their clients
 *
 * Why:     a program that connects is a target of a session, or waits for one (clients/clients.h).
 *          Sessions and targets decide that; neither calls this file, except at a session's end for
 *          those that wait.
 * Threads: main thread only.
 */
#ifndef HW_DAEMON_HELLO_H
#define HW_DAEMON_HELLO_H

#include <stdbool.h>
#include <stdint.h>

struct hw_error;
struct hw_namespace_socket;
struct hw_recorder;

int hw_hello_listen(struct hw_recorder *r, const char *name, struct hw_error *err);
/* How many programs may wait, so that descriptors are left for sessions and commands. */
void hw_hello_limit(struct hw_recorder *r);
/* Of either listening socket. Without descriptors both rest for half a second. */
int hw_accept(struct hw_recorder *r, int listener);
/* Accepts clients that wait at a listening socket; ns_socket NULL = our own. One call takes some of
 * them; true: more may wait. */
bool hw_hello_accept(struct hw_recorder *r, int listener,
                     const struct hw_namespace_socket *ns_socket);
/* A turn for all messages so far, through whichever socket, also from clients that have ended.
 * The same. */
bool hw_hello_read(struct hw_recorder *r);
void hw_hello_tick(struct hw_recorder *r, uint64_t now);

#endif

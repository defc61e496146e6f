/*
 * namespace_socket.h - sockets in namespaces that cannot reach the recorder's own by its name
 *
 * Why:     a path is visible in one mount namespace and root, an abstract name in one network
 *          namespace, and a client trusts only root or its own user, as its user namespace sees
 *          them. A process elsewhere gets a listening socket in its own namespaces: an abstract
 *          name, created by a short-lived child that enters them.
 * Shapes:  one socket for all processes with the same network namespace, user namespace and user. It
 *          is closed 30 s after the last process that used it is gone, since it keeps the namespace
 *          alive. NULL is the recorder's own socket.
 * Owns:    the recorder has them; the name is valid while a connection or target refers to the socket.
 * Errors:  HW_EPERM: that namespace may not be entered; the text says what to do.
 * Threads: main thread.
 * Source:  doc/design/attach.md, "Other namespaces"
 */
#ifndef HW_DAEMON_REACH_NAMESPACE_SOCKET_H
#define HW_DAEMON_REACH_NAMESPACE_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

struct hw_namespace_socket;
struct hw_error;
struct hw_pid;
struct hw_recorder;

/* Accepts clients that wait at a socket (hello.h sets hw_recorder.accept_at); gives whether more
 * may wait. */
typedef bool hw_namespace_socket_accept(struct hw_recorder *r, int listener,
                                        const struct hw_namespace_socket *ns_socket);

/* The one that this process can reach. */
int hw_namespace_socket_for(struct hw_recorder *r, const struct hw_pid *pid,
                            struct hw_namespace_socket **out, struct hw_error *err);
const char *hw_namespace_socket_name(const struct hw_recorder *r,
                                     const struct hw_namespace_socket *d);
bool hw_namespace_socket_is_ours(const struct hw_recorder *r, const char *name);
/* An embedded recorder with an abstract name listens at HW_SOCKET_FILES (wire/handshake.h) + that
 * name, too, for programs that begin in another network namespace. Without it they are not seen. */
void hw_namespace_socket_open_file(struct hw_recorder *r);
/* A turn for those that wait at any of them; gives whether more may wait. */
bool hw_namespace_sockets_accept(struct hw_recorder *r);
/* Without descriptors they rest, as all listening sockets. */
void hw_namespace_sockets_rest(struct hw_recorder *r);
void hw_namespace_sockets_go_on(struct hw_recorder *r);
void hw_namespace_sockets_tick(struct hw_recorder *r, uint64_t now);
void hw_namespace_sockets_done(struct hw_recorder *r);

#endif

/*
 * activation.h - listening sockets passed by the service manager
 *
 * Why:     a client trusts a peer whose uid is root's or its own, and the peer of a listening
 *          socket is whoever called listen. If that was the service manager, the service itself
 *          need not be root.
 * Shapes:  sd_listen_fds(3): descriptors 3 and up, $LISTEN_PID is ours, $LISTEN_FDNAMES says
 *          "producer" or "consumer". Only listening SOCK_SEQPACKET sockets are taken, each once.
 */
#ifndef HW_DAEMON_CLIENTS_ACTIVATION_H
#define HW_DAEMON_CLIENTS_ACTIVATION_H

#include <stddef.h>

/* The descriptor, close-on-exec and non-blocking, and its path; -1 = there is none. */
int hw_activation_take(const char *role, char *path, size_t max);

#endif

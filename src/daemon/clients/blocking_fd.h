/*
 * blocking_fd.h - closes sockets of others, and descriptors sent over them, where blocking does no harm
 *
 * Why:     the last close of a descriptor can take as long as its sender likes: a TCP socket
 *          lingers while its other end does not read, a FUSE file asks its server. One message is
 *          enough to pass us such a descriptor; it is closed if the message is read without
 *          accepting it, or when the socket with the unread message is closed.
 * Shapes:  a thread with its own descriptor table closes it by exiting: the kernel does not linger
 *          on exit, and anything that still blocks only blocks that thread.
 * Units:   uid: of the connected peer. A user who has kept us waiting three times within a minute
 *          is refused, as is one with four stuck threads.
 * Owns:    hw_blocking_fd_close takes the socket. A descriptor given is the caller's.
 * Errors:  HW_EINVAL (several descriptors, or none could be received), HW_EPERM (not writable),
 *          HW_ETIMEOUT; err has a text for the user.
 * Threads: main thread.
 */
#ifndef HW_DAEMON_CLIENTS_BLOCKING_FD_H
#define HW_DAEMON_CLIENTS_BLOCKING_FD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct hw_error;

/* With any unread messages. Our last messages still arrive. */
void hw_blocking_fd_close(int socket);
void hw_blocking_fd_tick(void); /* closes what threads have begun to take */

/* Reads a message that carries one descriptor: of a file that is written without waiting for a
 * process, or of /dev/null. *n: bytes of the message, even if the descriptor is refused; -1 = it
 * is still there. */
int hw_blocking_fd_take(int socket, uint32_t uid, void *message, size_t max, ssize_t *n, int *fd,
                        struct hw_error *err);

/* Of a thread that works on a file of this user's, and does not come back: counts as those of
 * hw_blocking_fd_take do. Whoever ends such a thread says so; any thread. */
void hw_blocking_fd_stuck(uint32_t uid);
void hw_blocking_fd_leave(uint32_t uid);

#endif

/*
 * aside.h - sockets of others, and what they carry, let go where nobody waits
 *
 * Why:     the last close of a descriptor can take as long as who sent it likes: a TCP socket
 *          lingers over data that its other end does not read, a file of FUSE asks its server. A
 *          message is enough to hand such a thing to us; it is closed when the message is read
 *          without taking it, or when the socket is closed in which it waits unread.
 * Shapes:  a thread with a descriptor table of its own takes it with it when it ends: the kernel
 *          does not linger for what ends, and what still waits then is that thread's.
 * Units:   uid: of whoever is connected. Who has kept us waiting three times within a minute is
 *          refused, so is one with four threads that did not come back.
 * Owns:    hw_aside_close takes the socket. A descriptor given is the caller's.
 * Errors:  HW_EINVAL (several descriptors, or none that can be had), HW_EPERM (not to be written
 *          to), HW_ETIMEOUT; err says it to the user.
 * Threads: main thread.
 */
#ifndef HW_DAEMON_CLIENTS_ASIDE_H
#define HW_DAEMON_CLIENTS_ASIDE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct hw_error;

/* With whatever nobody has read of it. Our last words still arrive. */
void hw_aside_close(int socket);
void hw_aside_tick(void); /* closes what threads have begun to take */

/* Reads a message that carries one descriptor: of a file that is written without waiting for a
 * process, or of /dev/null. *n: of the message, also where the descriptor is refused; -1 = it is
 * still there. */
int hw_aside_take(int socket, uint32_t uid, void *message, size_t max, ssize_t *n, int *fd,
                  struct hw_error *err);

#endif

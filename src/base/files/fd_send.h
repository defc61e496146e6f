/*
 * fd_send.h - a message with descriptors over a UNIX socket
 *
 * Owns:    the descriptors stay the caller's.
 * Errors:  HW_ESYS with errno; a message is sent whole or not at all (SOCK_SEQPACKET).
 */
#ifndef HW_BASE_FILES_FD_SEND_H
#define HW_BASE_FILES_FD_SEND_H

#include <stddef.h>

#define HW_FD_SEND_MAX 8u

/* n_fds may be 0. flags: besides MSG_NOSIGNAL. */
int hw_fd_send(int socket, const void *message, size_t n, const int *fds, size_t n_fds, int flags);

#endif

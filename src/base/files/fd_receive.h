/*
 * fd_receive.h - a message that may carry descriptors, from a UNIX socket
 *
 * Why:     descriptors arrive with whatever was sent, also with no bytes, with too many, with a
 *          message that is too long; those that nobody looks for stay open until there are none
 *          left. Every receiving of ours goes through here (tools/check-homes).
 * Shapes:  no more than max of them are ever made; the kernel drops the others.
 * Owns:    descriptors given are the caller's. What is not given is closed.
 * Errors:  -1 with errno; EMSGSIZE: the message was longer than n, or more descriptors came than
 *          max (or could be opened). Nothing is given then. 0: the end, or nothing was said.
 */
#ifndef HW_BASE_FILES_FD_RECEIVE_H
#define HW_BASE_FILES_FD_RECEIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define HW_FD_RECEIVE_MAX 8u

/* Fills fds[0..max) with what came, -1 behind it. flags: besides MSG_CMSG_CLOEXEC. */
ssize_t hw_fd_receive(int socket, void *message, size_t n, int *fds, size_t max, int flags);
/* The next message, which stays there: its first n bytes, and whether descriptors come with it. */
ssize_t hw_fd_peek(int socket, void *message, size_t n, bool *carries);

#endif

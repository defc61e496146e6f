#include "base/files/fd_receive.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "base/files/fd.h"

#include "base/banned.h"

static void close_all(int *fds, size_t max)
{
    for (size_t i = 0; i < max; i++) {
        if (fds[i] >= 0)
            (void)close(fds[i]); /* not asked for */
        fds[i] = -1;
    }
}

/* Gives whether each of them has a place. */
static bool take(struct msghdr *m, int *fds, size_t max)
{
    size_t n = 0;
    bool fits = true;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (n == max) {
                (void)close(fd); /* there is no place for it */
                fits = false;
            } else {
                fds[n++] = fd;
            }
        }
    }
    return fits;
}

ssize_t hw_fd_receive(int socket, void *message, size_t n, int *fds, size_t max, int flags)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * HW_FD_RECEIVE_MAX)];
        struct cmsghdr align;
    } control;
    struct iovec iov = {message, n};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    max = max < HW_FD_RECEIVE_MAX ? max : HW_FD_RECEIVE_MAX;
    for (size_t i = 0; i < max; i++)
        fds[i] = -1;
    ssize_t got;
    do {
        /* The length, not the space: in the padding there would be room for one more. */
        m.msg_control = max ? control.bytes : NULL;
        m.msg_controllen = max ? CMSG_LEN(sizeof(int) * max) : 0;
        got = recvmsg(socket, &m, MSG_CMSG_CLOEXEC | flags);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return -1;
    bool fits = take(&m, fds, max) && !(m.msg_flags & (MSG_TRUNC | MSG_CTRUNC));
    if (got > 0 && fits)
        return got;
    close_all(fds, max);
    if (fits)
        return 0;
    errno = EMSGSIZE;
    return -1;
}

ssize_t hw_fd_peek(int socket, void *message, size_t n, bool *carries)
{
    struct iovec iov = {message, n};
    struct msghdr m;
    ssize_t got;
    do {
        m = (struct msghdr){.msg_iov = &iov, .msg_iovlen = 1}; /* no room for them: none is made */
        got = recvmsg(socket, &m, MSG_PEEK | MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    *carries = got >= 0 && (m.msg_flags & MSG_CTRUNC);
    return got;
}

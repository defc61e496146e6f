#include "base/files/fd_send.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"

#include "base/banned.h"

int hw_fd_send(int socket, const void *message, size_t n, const int *fds, size_t n_fds, int flags)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * HW_FD_SEND_MAX)];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec iov = {(void *)(uintptr_t)message, n};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    if (n_fds > HW_FD_SEND_MAX) {
        errno = EINVAL;
        return HW_ESYS;
    }
    if (n_fds) {
        m.msg_control = control.bytes;
        m.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
    }
    return sendmsg(socket, &m, MSG_NOSIGNAL | flags) == (ssize_t)n ? HW_OK : HW_ESYS;
}

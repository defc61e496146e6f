/* Whatever comes with a message: no descriptor is left open that was not given. */
#include "base/files/fd_receive.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/files/fd.h"

#include "../test.h"

#define MOST 253 /* the kernel's limit, SCM_MAX_FD */

static void send_it(int to, size_t n_bytes, size_t n_fds)
{
    char text[256] = {0};
    union {
        char bytes[CMSG_SPACE(sizeof(int) * MOST)];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec iov = {text, n_bytes};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    if (n_fds) {
        m.msg_control = control.bytes;
        m.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        *c = (struct cmsghdr){CMSG_LEN(sizeof(int) * n_fds), SOL_SOCKET, SCM_RIGHTS};
        for (size_t i = 0; i < n_fds; i++)
            memcpy(CMSG_DATA(c) + i * sizeof(int), &to, sizeof to);
    }
    assert_int_equal(sendmsg(to, &m, 0), n_bytes);
}

static size_t count_open(void)
{
    size_t n = 0;
    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static const struct {
    size_t sent, sent_fds, room, max;
    ssize_t got;
    int error;
    size_t given;
} cases[] = {
    {8, 0, 64, 1, 8, 0, 0},
    {8, 1, 64, 1, 8, 0, 1},
    {8, 2, 64, 4, 8, 0, 2},
    {8, 8, 64, 8, 8, 0, 8},
    {0, 1, 64, 1, 0, 0, 0}, /* nothing said */
    {0, 0, 64, 1, 0, 0, 0},
    {0, MOST, 64, 1, -1, EMSGSIZE, 0},
    {8, 2, 64, 1, -1, EMSGSIZE, 0}, /* the padding of one has room for two */
    {8, MOST, 64, 8, -1, EMSGSIZE, 0},
    {8, 1, 64, 0, -1, EMSGSIZE, 0},
    {65, 1, 64, 1, -1, EMSGSIZE, 0}, /* too long */
};

static void close_what_is_not_given(void **state)
{
    (void)state;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[64];
        int fds[HW_FD_RECEIVE_MAX];
        size_t before = count_open();
        send_it(pair[0], cases[i].sent, cases[i].sent_fds);
        errno = 0;
        ssize_t got = hw_fd_receive(pair[1], text, cases[i].room, fds, cases[i].max, MSG_DONTWAIT);
        if (got != cases[i].got || (got < 0 && errno != cases[i].error))
            fail_msg("case %zu: %zd, %s", i, got, strerror(errno));
        if (count_open() != before + cases[i].given)
            fail_msg("case %zu: %zu are open, %zu were", i, count_open(), before);
        for (size_t k = 0; k < cases[i].max; k++) {
            assert_int_equal(fds[k] >= 0, k < cases[i].given);
            if (fds[k] >= 0)
                assert_int_equal(fcntl(fds[k], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
            hw_autofd_close(&fds[k]);
        }
    }
    char byte;
    int fd;
    assert_int_equal(hw_fd_receive(pair[1], &byte, sizeof byte, &fd, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
    (void)close(pair[0]);
    (void)close(pair[1]);
}

HW_TEST_MAIN(cmocka_unit_test(close_what_is_not_given))

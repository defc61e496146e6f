/* transfers.c - calls that write, or read what is there at once (see eintr.c) */
#include "eintr.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Takes numbers that follow each other, slowly. */
static void take_numbers(void)
{
    static uint32_t want;
    static uint8_t bytes[16384];
    static size_t have;
    pace();
    for (int i = 0; i < 8; i++) {
        ssize_t n = read(fds[0], bytes + have, sizeof bytes - have);
        if (n <= 0)
            _exit(0);
        have += (size_t)n;
        size_t k = 0;
        for (; k + 4 <= have; k += 4, want++)
            if (memcmp(bytes + k, &want, 4) != 0) {
                static const char text[] = "bytes are missing, or there twice\n";
                (void)write(2, text, sizeof text - 1);
                _exit(1);
            }
        memmove(bytes, bytes + k, have - k);
        have -= k;
    }
}

static void fill(void)
{
    for (size_t i = 0; i < BIG; i += 4, sequence++)
        memcpy(big + i, &sequence, 4);
}

static void out_pipe_begin(void)
{
    big = malloc(BIG);
    pipe2(fds, O_CLOEXEC);
    feeder(take_numbers);
    close(fds[0]);
}

static int write_pipe(void)
{
    fill();
    return wants(write(fds[1], big, BIG), BIG);
}

static int writev_pipe(void)
{
    fill();
    struct iovec v[2] = {{big, BIG / 2}, {big + BIG / 2, BIG / 2}};
    return wants(writev(fds[1], v, 2), BIG);
}

static void out_socket_begin(void)
{
    big = malloc(BIG);
    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds);
    set_time(fds[1], SO_SNDTIMEO);
    feeder(take_numbers);
    close(fds[0]);
}

static int send_socket(void)
{
    fill();
    return wants(send(fds[1], big, BIG, MSG_NOSIGNAL), BIG);
}

static int sendmsg_socket(void)
{
    fill();
    struct iovec v[2] = {{big, BIG / 2}, {big + BIG / 2, BIG / 2}};
    struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
    return wants(sendmsg(fds[1], &m, MSG_NOSIGNAL), BIG);
}

static int write_socket(void)
{
    fill();
    return wants(write(fds[1], big, BIG), BIG);
}

static int sendfile_socket(void)
{
    int file = memfd_create("eintr", MFD_CLOEXEC); /* its pages are sent, not copies */
    fill();
    if (pwrite(file, big, BIG, 0) != BIG)
        return -1;
    off_t at = 0;
    int rc = wants(sendfile(fds[1], file, &at, BIG), BIG), error = errno;
    close(file);
    errno = error;
    return rc;
}

static void zero_begin(void)
{
    big = malloc(16 * BIG);
    fds[0] = open("/dev/zero", O_RDONLY | O_CLOEXEC);
}

static int read_zero(void)
{
    return wants(read(fds[0], big, 16 * BIG), 16 * BIG);
}

static int getrandom_(void)
{
    return wants(getrandom(big, BIG, 0), BIG);
}

static void memory_begin(void)
{
    fds[0] = memfd_create("eintr", MFD_CLOEXEC);
}

static int fallocate_(void)
{
    int rc = fallocate(fds[0], 0, 0, 16 * BIG), error = errno;
    (void)ftruncate(fds[0], 0);
    errno = error;
    return rc;
}

const struct mode transfer_modes[] = {
    {"write-pipe", out_pipe_begin, write_pipe, NO_THREAD, NULL},
    {"writev-pipe", out_pipe_begin, writev_pipe, NO_THREAD, NULL},
    {"send", out_socket_begin, send_socket, NO_THREAD, NULL},
    {"sendmsg", out_socket_begin, sendmsg_socket, NO_THREAD, NULL},
    {"write-socket", out_socket_begin, write_socket, NO_THREAD, NULL},
    {"sendfile", out_socket_begin, sendfile_socket, NO_THREAD, NULL},
    {"read-zero", zero_begin, read_zero, 0, NULL},
    {"getrandom", zero_begin, getrandom_, 0, NULL},
    {"fallocate", memory_begin, fallocate_, 0, NULL},
    {NULL, NULL, NULL, 0, NULL},
};

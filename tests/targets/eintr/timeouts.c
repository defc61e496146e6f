/* timeouts.c - calls that end by their time-out (see eintr.c) */
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

static int nanosleep_(void)
{
    return wants(syscall(SYS_nanosleep, &a_wait, NULL), 0);
}

static int nanosleep_rem(void)
{
    struct timespec rem = {0};
    return wants(syscall(SYS_nanosleep, &a_wait, &rem), 0);
}

static int nanosleep_same(void)
{
    struct timespec t = a_wait;
    return wants(syscall(SYS_nanosleep, &t, &t), 0);
}

static int clock_nanosleep_(void)
{
    return wants(syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &a_wait, NULL), 0);
}

static int clock_nanosleep_abs(void)
{
    struct timespec t = later(CLOCK_MONOTONIC);
    return wants(syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL), 0);
}

static int poll_(void)
{
    return wants(poll(NULL, 0, WAIT_MS), 0);
}

static int ppoll_(void)
{
    struct timespec t = a_wait;
    return wants(syscall(SYS_ppoll, NULL, 0, &t, NULL, 8), 0);
}

/* The kernel cannot write down what is left. */
static int ppoll_constant(void)
{
    return wants(syscall(SYS_ppoll, NULL, 0, &a_wait, NULL, 8), 0);
}

static int select_(void)
{
    struct timeval t = {0, WAIT_MS * 1000};
    return wants(syscall(SYS_select, 0, NULL, NULL, NULL, &t), 0);
}

/* The kernel cannot write down what is left. */
static int select_constant(void)
{
    static const struct timeval t = {0, WAIT_MS * 1000};
    return wants(syscall(SYS_select, 0, NULL, NULL, NULL, &t), 0);
}

static int pselect_(void)
{
    struct timespec t = a_wait;
    return wants(syscall(SYS_pselect6, 0, NULL, NULL, NULL, &t, NULL), 0);
}

void epoll_begin(void)
{
    fds[0] = epoll_create1(EPOLL_CLOEXEC);
}

int epoll_wait_(void)
{
    struct epoll_event e;
    return wants(syscall(SYS_epoll_wait, fds[0], &e, 1, WAIT_MS), 0);
}

static int epoll_pwait_(void)
{
    struct epoll_event e;
    uint64_t mask = 1u << (SIGUSR2 - 1);
    return wants(syscall(SYS_epoll_pwait, fds[0], &e, 1, WAIT_MS, &mask, sizeof mask), 0);
}

static int epoll_pwait2_(void)
{
    struct epoll_event e;
    return wants(syscall(SYS_epoll_pwait2, fds[0], &e, 1, &a_wait, NULL, 8), 0);
}

static int futex_wait(void)
{
    uint32_t word = 0;
    return times_out(syscall(SYS_futex, &word, FUTEX_WAIT, 0, &a_wait, NULL, 0), ETIMEDOUT);
}

static int futex_bitset(void)
{
    uint32_t word = 0;
    struct timespec t = later(CLOCK_MONOTONIC);
    return times_out(syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, 0, &t, NULL, ~0u), ETIMEDOUT);
}

static uint32_t *locked;

static void lock_and_wait(void)
{
    if (!*locked)
        syscall(SYS_futex, locked, FUTEX_LOCK_PI, 0, NULL, NULL, 0);
    pace();
}

static void lock_pi_begin(void)
{
    locked = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    feeder(lock_and_wait);
    while (!*(volatile uint32_t *)locked)
        pace();
}

static int lock_pi(void)
{
    struct timespec t = later(CLOCK_REALTIME);
    return times_out(syscall(SYS_futex, locked, FUTEX_LOCK_PI, 0, &t, NULL, 0), ETIMEDOUT);
}

static int waitv(void)
{
    uint32_t word = 0;
    struct {
        uint64_t value, at;
        uint32_t flags, pad;
    } w = {0, (uintptr_t)&word, 2, 0};
    struct timespec t = later(CLOCK_MONOTONIC);
    long rc = syscall(449 /* futex_waitv */, &w, 1, 0, &t, CLOCK_MONOTONIC);
    if (rc < 0 && errno == ENOSYS)
        pace();
    return rc < 0 && errno == ENOSYS ? 0 : times_out(rc, ETIMEDOUT);
}

static int sigtimedwait_(void)
{
    uint64_t set = 1u << (SIGUSR2 - 1);
    return times_out(syscall(SYS_rt_sigtimedwait, &set, NULL, &a_wait, sizeof set), EAGAIN);
}

void sem_begin(void)
{
    fds[0] = semget(IPC_PRIVATE, 1, 0600);
}

void sem_end(void)
{
    semctl(fds[0], 0, IPC_RMID);
}

static int semtimedop_(void)
{
    struct sembuf b = {0, -1, 0};
    return times_out(syscall(SYS_semtimedop, fds[0], &b, 1, &a_wait), EAGAIN);
}

static aio_context_t aio;

static void aio_begin(void)
{
    syscall(SYS_io_setup, 1, &aio);
}

static int getevents(void)
{
    struct io_event e;
    struct timespec t = a_wait;
    return wants(syscall(SYS_io_getevents, aio, 1, 1, &e, &t), 0);
}

static void uring_begin(void)
{
    uint32_t parameters[30] = {0};
    fds[0] = (int)syscall(425 /* io_uring_setup */, 4, parameters);
}

static int uring(void)
{
    struct {
        uint64_t mask;
        uint32_t mask_bytes, pad;
        uint64_t at;
    } more = {0, 8, 0, (uintptr_t)&a_wait};
    if (fds[0] < 0)
        return pace(), 0; /* not here */
    return times_out(syscall(426 /* io_uring_enter */, fds[0], 0, 1, 1 | 8, &more, sizeof more),
                     ETIME);
}

static void mq_begin(void)
{
    char name[32];
    struct mq_attr a = {.mq_maxmsg = 1, .mq_msgsize = 8};
    snprintf(name, sizeof name, "/eintr%d.%d", (int)getpid(), (int)syscall(SYS_gettid));
    fds[0] = mq_open(name, O_RDWR | O_CREAT, 0600, &a);
    mq_unlink(name);
}

static int mq_receive_(void)
{
    char text[8];
    struct timespec t = later(CLOCK_REALTIME);
    return times_out(mq_timedreceive(fds[0], text, sizeof text, NULL, &t), ETIMEDOUT);
}

static int mq_send_(void)
{
    struct timespec t = {0, 0};
    (void)mq_timedsend(fds[0], "x", 1, 0, &t); /* the first fills it */
    t = later(CLOCK_REALTIME);
    return times_out(mq_timedsend(fds[0], "x", 1, 0, &t), ETIMEDOUT);
}

static void timer_begin(void)
{
    fds[0] = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
}

static int read_timer(void)
{
    struct itimerspec t = {.it_value = a_wait};
    uint64_t n;
    timerfd_settime(fds[0], 0, &t, NULL);
    return wants(read(fds[0], &n, sizeof n), sizeof n);
}

const struct mode timeout_modes[] = {
    {"nanosleep", NULL, nanosleep_, NEVER_EARLY, NULL},
    {"nanosleep-rem", NULL, nanosleep_rem, NEVER_EARLY, NULL},
    {"nanosleep-same", NULL, nanosleep_same, NEVER_EARLY, NULL},
    {"clock-nanosleep", NULL, clock_nanosleep_, NEVER_EARLY, NULL},
    {"clock-nanosleep-abs", NULL, clock_nanosleep_abs, NEVER_EARLY, NULL},
    {"poll", NULL, poll_, NEVER_EARLY, NULL},
    {"ppoll", NULL, ppoll_, NEVER_EARLY, NULL},
    {"ppoll-constant", NULL, ppoll_constant, NEVER_EARLY, NULL},
    {"select", NULL, select_, NEVER_EARLY, NULL},
    {"select-constant", NULL, select_constant, NEVER_EARLY, NULL},
    {"pselect", NULL, pselect_, NEVER_EARLY, NULL},
    {"epoll-wait", epoll_begin, epoll_wait_, NEVER_EARLY, NULL},
    {"epoll-pwait", epoll_begin, epoll_pwait_, NEVER_EARLY, NULL},
    {"epoll-pwait2", epoll_begin, epoll_pwait2_, NEVER_EARLY, NULL},
    {"futex-wait", NULL, futex_wait, NEVER_EARLY, NULL},
    {"futex-bitset", NULL, futex_bitset, NEVER_EARLY, NULL},
    {"futex-lock-pi", lock_pi_begin, lock_pi, NEVER_EARLY | NO_THREAD, NULL},
    {"futex-waitv", NULL, waitv, 0, NULL},
    {"sigtimedwait", NULL, sigtimedwait_, NEVER_EARLY, NULL},
    {"semtimedop", sem_begin, semtimedop_, NEVER_EARLY, sem_end},
    {"io-getevents", aio_begin, getevents, NEVER_EARLY | NO_THREAD, NULL},
    {"io-uring", uring_begin, uring, 0, NULL},
    {"mq-receive", mq_begin, mq_receive_, NEVER_EARLY, NULL},
    {"mq-send", mq_begin, mq_send_, NEVER_EARLY, NULL},
    {"timerfd", timer_begin, read_timer, NEVER_EARLY, NULL},
    {NULL, NULL, NULL, 0, NULL},
};

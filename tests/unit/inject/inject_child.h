/* inject_child.h - what a target of inject_test.c does: one call after the other, each reported */
#ifndef HW_TESTS_INJECT_CHILD_H
#define HW_TESTS_INJECT_CHILD_H

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum call { CALL_NANOSLEEP, CALL_EPOLL, CALL_READ, CALL_FUTEX, CALL_POLL, CALL_SPIN, CALL_COUNT };

struct report {
    int64_t rc, error, ms;
    double sum; /* vector registers held over the call */
};

static volatile int handled;

static void on_signal(int s)
{
    handled = s;
}

/* How the report begins that says: the first call is next. */
#define CHILD_BEGINS INT64_C(-77)
/* How long a call takes that ends by itself. */
#define CHILD_MS 150

static int64_t make_call(enum call c, int in, int epoll)
{
    struct timespec t = {0, CHILD_MS * 1000000};
    uint32_t word = 0;
    char byte;
    struct epoll_event e;
    switch (c) {
    case CALL_NANOSLEEP:
        return nanosleep(&t, NULL);
    case CALL_EPOLL:
        return epoll_wait(epoll, &e, 1, CHILD_MS);
    case CALL_READ:
        return read(in, &byte, 1);
    case CALL_FUTEX:
        return syscall(SYS_futex, &word, FUTEX_WAIT, 0, &t, NULL, 0);
    case CALL_POLL:
        return poll(NULL, 0, CHILD_MS);
    default: {
        uint64_t end = hw_now_monotonic_ns() + CHILD_MS * UINT64_C(1000000);
        while (hw_now_monotonic_ns() < end) {
            void *volatile p = malloc(100);
            free(p);
        }
        return 0;
    }
    }
}

static void child(enum call c, int in, int out)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGUSR1, on_signal);
    int epoll =
        epoll_create1(EPOLL_CLOEXEC); /* before all calls, as descriptors are counted meanwhile */
    struct report begins = {.rc = CHILD_BEGINS};
    if (write(out, &begins, sizeof begins) != sizeof begins)
        _exit(0);
    for (;;) {
        uint64_t start = hw_now_monotonic_ns();
        volatile double a = 1.5;
        double b = a * 3;
        errno = 0;
        struct report r = {.rc = make_call(c, in, epoll), .error = errno};
        r.ms = (int64_t)((hw_now_monotonic_ns() - start) / 1000000);
        r.sum = a + b;
        if (write(out, &r, sizeof r) != sizeof r)
            _exit(0);
    }
}

#endif

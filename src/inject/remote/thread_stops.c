/* thread_stops.c - waiting for a traced thread's stops; its registers and its memory, word by word */
#if defined(__x86_64__)

#include "inject/remote/thread_stops.h"

#include <errno.h>
#include <sys/uio.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"

#include "base/banned.h"

/*
 * Another thread's exec ends this one, and that thread takes the first thread's number. It is
 * released as it is: it runs a program that nobody has asked about.
 */
static int take_exec(struct hw_thread *t, bool stands)
{
    if (stands)
        (void)hw_thread_ptrace(PTRACE_DETACH, t, 0, 0); /* else it was killed */
    t->seized = t->saved = t->known = false;
    t->execed = true;
    return HW_EGONE;
}

/* 1 = *status is a stop; HW_EGONE; HW_ETIMEOUT. Stops come within microseconds, so we spin
 * first. */
int hw_thread_wait_stop(struct hw_thread *t, uint64_t timeout_ns, int *status)
{
    uint64_t start = hw_now_monotonic_ns();
    for (;;) {
        int n = waitpid(t->tid, status, __WALL | WNOHANG);
        bool stands = n == t->tid && WIFSTOPPED(*status);
        if (stands && *status >> 16 == PTRACE_EVENT_EXEC)
            return take_exec(t, true);
        if (stands)
            return 1;
        if (n < 0 && errno == ECHILD)
            return take_exec(t, false);
        if (n == t->tid || (n < 0 && errno != EINTR)) {
            t->seized = t->saved = false;
            return HW_EGONE;
        }
        uint64_t spent = hw_now_monotonic_ns() - start;
        if (spent > timeout_ns)
            return HW_ETIMEOUT;
        if (spent > HW_SPIN_NS) {
            struct timespec step = {0, 50000};
            (void)nanosleep(&step, NULL); /* a signal only shortens it */
        }
    }
}

static bool is_group_stop(int status)
{
    return hw_thread_is_event(status) && WSTOPSIG(status) != SIGTRAP;
}

/* Waits until the stop that our interrupt asked for. Signals on the way are passed on. */
int hw_thread_wait_interrupted(struct hw_thread *t)
{
    int status;
    for (;;) {
        int rc = hw_thread_wait_stop(t, HW_STOP_NS, &status);
        if (rc < 0)
            return rc;
        if (hw_thread_is_event(status))
            return is_group_stop(status) ? HW_EUNSUPPORTED : HW_OK;
        int sig = WSTOPSIG(status) & 0x7f;
        bool syscall_stop = WSTOPSIG(status) == (SIGTRAP | 0x80);
        if (hw_thread_ptrace(PTRACE_CONT, t, 0, syscall_stop ? 0 : (uintptr_t)sig) < 0)
            return HW_EGONE;
    }
}

bool hw_thread_set_regs(struct hw_thread *t, const struct user_regs_struct *r)
{
    struct iovec io = {(void *)(uintptr_t)r, sizeof *r};
    return hw_thread_ptrace(PTRACE_SETREGSET, t, 1, (uintptr_t)&io) == 0;
}

bool hw_thread_get_regs(struct hw_thread *t, struct user_regs_struct *r)
{
    struct iovec io = {r, sizeof *r};
    return hw_thread_ptrace(PTRACE_GETREGSET, t, 1, (uintptr_t)&io) == 0;
}

bool hw_thread_read_word(const struct hw_thread *t, uint64_t at, uint64_t *out)
{
    errno = 0;
    *out = (uint64_t)hw_thread_ptrace(PTRACE_PEEKDATA, t, at, 0);
    return errno == 0;
}

bool hw_thread_write_word(const struct hw_thread *t, uint64_t at, uint64_t v)
{
    return hw_thread_ptrace(PTRACE_POKEDATA, t, at, v) == 0;
}

#endif

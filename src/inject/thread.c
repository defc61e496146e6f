/*
 * thread.c - ptrace
 *
 * The last stop before a thread is released must be one inside the kernel's signal delivery: only
 * there the kernel looks whether a system call has to be restarted (rax = -ERESTART…, orig_rax =
 * its number), and so only there the restored registers mean what they meant. Stops of our own
 * system calls are not of that kind; a new interrupt brings one that is.
 *
 * A few system calls are not restarted but give EINTR when a thread is stopped and continued, seen
 * by the program without any signal (epoll_wait and friends, signal(7)). We let them begin anew.
 */
#include "inject/thread.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

#include "base/banned.h"

#if defined(__x86_64__)

#define MS           UINT64_C(1000000)
#define STOP_NS      (500 * MS) /* on a machine that is busy with other things */
#define SYSCALL_NS   (1000 * MS)
#define RUN_TO_NS    (1000 * MS)
#define SPIN_NS      (200 * UINT64_C(1000))
#define NT_X86_STATE 0x202

#ifndef PTRACE_GET_RSEQ_CONFIGURATION
#define PTRACE_GET_RSEQ_CONFIGURATION 0x420f
#endif
struct rseq_config {
    uint64_t pointer;
    uint32_t size, signature, flags, pad;
};

_Static_assert(sizeof(struct user_regs_struct) <= sizeof((struct hw_thread *)0)->words,
               "registers");

static long pt(int request, const struct hw_thread *t, uintptr_t addr, uintptr_t data)
{
    return ptrace(request, t->tid, (void *)addr, (void *)data);
}

static bool is_ours(int signal)
{
    return signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE ||
           signal == SIGTRAP;
}

/* 1 = *status is a stop; HW_EGONE; HW_ETIMEOUT. Stops come within microseconds, so we turn first.
 */
static int wait_stop(struct hw_thread *t, uint64_t timeout_ns, int *status)
{
    uint64_t start = hw_now_monotonic_ns();
    for (;;) {
        int n = waitpid(t->tid, status, __WALL | WNOHANG);
        if (n == t->tid && WIFSTOPPED(*status))
            return 1;
        if (n == t->tid || (n < 0 && errno != EINTR)) {
            t->seized = t->saved = false;
            return HW_EGONE;
        }
        uint64_t spent = hw_now_monotonic_ns() - start;
        if (spent > timeout_ns)
            return HW_ETIMEOUT;
        if (spent > SPIN_NS) {
            struct timespec step = {0, 50000};
            (void)nanosleep(&step, NULL); /* a signal only shortens it */
        }
    }
}

static bool is_event(int status)
{
    return status >> 16 == PTRACE_EVENT_STOP;
}

static bool is_group_stop(int status)
{
    return is_event(status) && WSTOPSIG(status) != SIGTRAP;
}

/* Until the stop that our interrupt has asked for. Signals on the way are handed on. */
static int wait_interrupted(struct hw_thread *t)
{
    int status;
    for (;;) {
        int rc = wait_stop(t, STOP_NS, &status);
        if (rc < 0)
            return rc;
        if (is_event(status))
            return is_group_stop(status) ? HW_EUNSUPPORTED : HW_OK;
        int sig = WSTOPSIG(status) & 0x7f;
        bool syscall_stop = WSTOPSIG(status) == (SIGTRAP | 0x80);
        if (pt(PTRACE_CONT, t, 0, syscall_stop ? 0 : (uintptr_t)sig) < 0)
            return HW_EGONE;
    }
}

int hw_thread_seize_begin(struct hw_thread *t, int32_t pid, int32_t tid, struct hw_error *err)
{
    t->pid = pid;
    t->tid = tid;
    t->seized = t->saved = t->known = t->moved = false;
    if (pt(PTRACE_SEIZE, t, 0, PTRACE_O_TRACESYSGOOD) < 0) {
        if (errno == ESRCH)
            return hw_fail(err, HW_EGONE, 0, "thread %d has ended", tid);
        return hw_fail(err, HW_EPERM, 0,
                       "process %d may not be traced (%s): the same user or CAP_SYS_PTRACE is "
                       "needed, and /proc/sys/kernel/yama/ptrace_scope 0",
                       pid, strerror(errno));
    }
    t->seized = true;
    t->asked_ns = hw_now_monotonic_ns();
    if (pt(PTRACE_INTERRUPT, t, 0, 0) == 0)
        return HW_OK;
    hw_thread_release(t);
    return hw_fail(err, HW_EGONE, 0, "thread %d has ended", tid);
}

int hw_thread_seize_end(struct hw_thread *t, struct hw_error *err)
{
    int rc = wait_interrupted(t);
    t->stopped_ns = hw_now_monotonic_ns();
    if (rc < 0) {
        hw_thread_release(t);
        return hw_fail(err, rc, 0, "thread %d of process %d did not stop", t->tid, t->pid);
    }
    struct iovec io = {t->words, sizeof(struct user_regs_struct)};
    if (pt(PTRACE_GETREGSET, t, 1 /* NT_PRSTATUS */, (uintptr_t)&io) < 0) {
        rc = hw_fail_sys(err, "registers of thread %d", t->tid);
        hw_thread_release(t);
        return rc;
    }
    t->known = true;
    return pt(PTRACE_GETSIGMASK, t, sizeof t->kept_mask, (uintptr_t)&t->kept_mask) < 0
               ? hw_fail_sys(err, "signal mask of thread %d", t->tid)
               : HW_OK;
}

int hw_thread_seize(struct hw_thread *t, int32_t pid, int32_t tid, struct hw_error *err)
{
    int rc = hw_thread_seize_begin(t, pid, tid, err);
    return rc < 0 ? rc : hw_thread_seize_end(t, err);
}

static struct user_regs_struct *regs_of(struct hw_thread *t)
{
    return (struct user_regs_struct *)(void *)t->words;
}

int hw_thread_regs(struct hw_thread *t, struct hw_thread_regs *out)
{
    const struct user_regs_struct *r = regs_of(t);
    *out = (struct hw_thread_regs){r->rip, r->rsp, r->rbp};
    return HW_OK;
}

void hw_thread_move(struct hw_thread *t, uint64_t pc)
{
    regs_of(t)->rip = pc;
    t->moved = true;
}

static bool read_word(const struct hw_thread *t, uint64_t at, uint64_t *out)
{
    errno = 0;
    *out = (uint64_t)pt(PTRACE_PEEKDATA, t, at, 0);
    return errno == 0;
}

bool hw_thread_in_rseq(const struct hw_thread *t, uint64_t pc)
{
    struct rseq_config c;
    uint64_t area, start, bytes;
    if (pt(PTRACE_GET_RSEQ_CONFIGURATION, t, sizeof c, (uintptr_t)&c) < 0 || c.pointer == 0)
        return false;
    return read_word(t, c.pointer + 8, &area) && area != 0 && read_word(t, area + 8, &start) &&
           read_word(t, area + 16, &bytes) && pc - start < bytes;
}

int hw_thread_save(struct hw_thread *t, struct hw_error *err)
{
    struct iovec io = {t->xstate, sizeof t->xstate};
    if (pt(PTRACE_GETREGSET, t, NT_X86_STATE, (uintptr_t)&io) < 0 || io.iov_len >= sizeof t->xstate)
        return hw_fail_sys(err, "vector registers of thread %d", t->tid);
    t->xstate_bytes = io.iov_len;
    uint64_t most = ~UINT64_C(0);
    for (int s = 1; s < 32; s++)
        if (is_ours(s))
            most &= ~(UINT64_C(1) << (s - 1));
    if (pt(PTRACE_SETSIGMASK, t, sizeof most, (uintptr_t)&most) < 0)
        return hw_fail_sys(err, "signal mask of thread %d", t->tid);
    t->saved = true;
    return HW_OK;
}

static bool set_regs(struct hw_thread *t, const struct user_regs_struct *r)
{
    struct iovec io = {(void *)(uintptr_t)r, sizeof *r};
    return pt(PTRACE_SETREGSET, t, 1, (uintptr_t)&io) == 0;
}

static bool get_regs(struct hw_thread *t, struct user_regs_struct *r)
{
    struct iovec io = {r, sizeof *r};
    return pt(PTRACE_GETREGSET, t, 1, (uintptr_t)&io) == 0;
}

/* One of its two stops. */
static int syscall_stop(struct hw_thread *t)
{
    int status;
    for (;;) {
        if (pt(PTRACE_SYSCALL, t, 0, 0) < 0)
            return HW_EGONE;
        int rc = wait_stop(t, SYSCALL_NS, &status);
        if (rc < 0)
            return rc;
        if (WSTOPSIG(status) == (SIGTRAP | 0x80))
            return HW_OK;
        if (!is_event(status)) /* it crashed on the way */
            return HW_ESYS;
    }
}

int hw_thread_syscall(struct hw_thread *t, long n, const uint64_t a[6], int64_t *out)
{
    struct user_regs_struct r = *regs_of(t);
    r.rip = t->syscall_at;
    r.rax = (uint64_t)n;
    r.orig_rax = UINT64_MAX;
    r.rdi = a[0], r.rsi = a[1], r.rdx = a[2], r.r10 = a[3], r.r8 = a[4], r.r9 = a[5];
    if (!set_regs(t, &r))
        return HW_EGONE;
    int rc = syscall_stop(t);
    if (rc == HW_OK)
        rc = syscall_stop(t);
    if (rc == HW_OK && !get_regs(t, &r))
        rc = HW_EGONE;
    if (rc == HW_OK)
        *out = (int64_t)r.rax;
    return rc;
}

static int back_in_delivery(struct hw_thread *t)
{
    if (pt(PTRACE_INTERRUPT, t, 0, 0) < 0)
        return HW_EGONE;
    if (pt(PTRACE_CONT, t, 0, 0) < 0)
        return HW_EGONE;
    int status;
    for (;;) {
        int rc = wait_stop(t, STOP_NS, &status);
        if (rc < 0 || is_event(status))
            return rc < 0 ? rc : HW_OK;
        if (pt(PTRACE_CONT, t, 0, 0) < 0)
            return HW_EGONE;
    }
}

int hw_thread_call(struct hw_thread *t, uint64_t fn, uint64_t a, uint64_t b, uint64_t timeout_ns,
                   uint64_t *out)
{
    struct user_regs_struct r = *regs_of(t);
    int status;
    r.rip = t->code_at;
    r.rax = fn;
    r.rdi = a, r.rsi = b, r.rdx = 0;
    r.rsp = t->stack_top & ~UINT64_C(15);
    r.rbp = 0;
    r.orig_rax = UINT64_MAX;
    r.eflags &= ~UINT64_C(0x500); /* direction, trap */
    if (!set_regs(t, &r))
        return HW_EGONE;
    uint64_t end = hw_now_monotonic_ns() + timeout_ns;
    for (;;) {
        if (pt(PTRACE_CONT, t, 0, 0) < 0)
            return HW_EGONE;
        uint64_t now = hw_now_monotonic_ns();
        int rc = wait_stop(t, end > now ? end - now : 0, &status);
        if (rc == HW_ETIMEOUT) {
            if (pt(PTRACE_INTERRUPT, t, 0, 0) == 0)
                (void)wait_stop(t, STOP_NS, &status); /* what matters now is that it stands */
            return HW_ETIMEOUT;
        }
        if (rc < 0)
            return rc;
        if (is_event(status))
            continue;
        if (!get_regs(t, &r))
            return HW_EGONE;
        if (WSTOPSIG(status) == SIGTRAP && r.rip == t->code_at + 3) {
            *out = r.rax;
            return HW_OK;
        }
        if (is_ours(WSTOPSIG(status)))
            return HW_ESYS;
    }
}

static void debug_register(struct hw_thread *t, int i, uint64_t v)
{
    (void)pt(PTRACE_POKEUSER, t, offsetof(struct user, u_debugreg) + (size_t)i * 8, v);
}

/* A debug register is this thread's alone; a changed instruction would stop all, who have no tracer
 * and would die of it. */
int hw_thread_run_to(struct hw_thread *t, uint64_t at)
{
    int status, rc = HW_ETIMEOUT;
    debug_register(t, 0, at);
    debug_register(t, 7, 1); /* execution, this thread */
    uint64_t end = hw_now_monotonic_ns() + RUN_TO_NS;
    uintptr_t signal = 0;
    while (pt(PTRACE_CONT, t, 0, signal) == 0) {
        uint64_t now = hw_now_monotonic_ns();
        signal = 0;
        rc = wait_stop(t, end > now ? end - now : 0, &status);
        if (rc == HW_ETIMEOUT && pt(PTRACE_INTERRUPT, t, 0, 0) == 0)
            (void)wait_interrupted(t);
        if (rc < 0)
            break;
        struct user_regs_struct r;
        if (!is_event(status) && WSTOPSIG(status) == SIGTRAP && get_regs(t, &r) && r.rip == at)
            break;
        if (!is_event(status))
            signal = (uintptr_t)(WSTOPSIG(status) & 0x7f);
    }
    if (!t->seized)
        return HW_EGONE;
    debug_register(t, 7, 0);
    debug_register(t, 0, 0);
    t->stopped_ns = hw_now_monotonic_ns();
    return get_regs(t, regs_of(t)) && rc == 1 ? HW_OK : HW_ETIMEOUT;
}

/* EINTR without a signal, from being stopped: such a call is begun anew. Those that wait for
 * something and have done nothing yet. */
static bool begins_anew(long n)
{
    static const short list[] = {SYS_epoll_wait, SYS_epoll_pwait,     SYS_epoll_pwait2, SYS_semop,
                                 SYS_semtimedop, SYS_rt_sigtimedwait, SYS_io_getevents, SYS_read,
                                 SYS_readv,      SYS_recvfrom,        SYS_recvmsg,      SYS_accept,
                                 SYS_accept4,    SYS_futex,           SYS_msgrcv};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        if (list[i] == n)
            return true;
    return false;
}

/* A signal that is to be delivered at once makes the EINTR right. */
static bool signal_waits(const struct hw_thread *t)
{
    for (int shared = 0; shared < 2; shared++) {
        struct __ptrace_peeksiginfo_args a = {0, (uint32_t)shared, 8};
        siginfo_t info[8];
        long n = pt(PTRACE_PEEKSIGINFO, t, (uintptr_t)&a, (uintptr_t)info);
        for (long i = 0; i < n; i++)
            if ((t->kept_mask >> (info[i].si_signo - 1) & 1) == 0)
                return true;
    }
    return false;
}

void hw_thread_release(struct hw_thread *t)
{
    if (!t->seized)
        return;
    struct user_regs_struct *r = regs_of(t);
    if (t->saved && back_in_delivery(t) == HW_OK) {
        struct iovec io = {t->xstate, t->xstate_bytes};
        (void)pt(PTRACE_SETREGSET, t, NT_X86_STATE, (uintptr_t)&io); /* what was read is accepted */
        (void)pt(PTRACE_SETSIGMASK, t, sizeof t->kept_mask, (uintptr_t)&t->kept_mask);
    }
    if (t->known) {
        bool again =
            (int64_t)r->rax == -EINTR && begins_anew((long)r->orig_rax) && !signal_waits(t);
        if (again) {
            r->rax = r->orig_rax;
            r->rip -= 2;
            r->orig_rax = UINT64_MAX;
        }
        if (again || t->saved || t->moved)
            (void)set_regs(t, r);
    }
    (void)pt(PTRACE_DETACH, t, 0, 0); /* fails when it has ended */
    t->seized = t->saved = false;
}

#else /* process.c has refused before */

int hw_thread_seize_begin(struct hw_thread *t, int32_t pid, int32_t tid, struct hw_error *err)
{
    (void)t, (void)pid, (void)tid;
    return hw_fail(err, HW_EUNSUPPORTED, 0, "not on this architecture");
}

int hw_thread_seize_end(struct hw_thread *t, struct hw_error *err)
{
    return hw_thread_seize_begin(t, 0, 0, err);
}

int hw_thread_seize(struct hw_thread *t, int32_t pid, int32_t tid, struct hw_error *err)
{
    return hw_thread_seize_begin(t, pid, tid, err);
}

int hw_thread_regs(struct hw_thread *t, struct hw_thread_regs *out)
{
    (void)t, (void)out;
    return HW_EUNSUPPORTED;
}

bool hw_thread_in_rseq(const struct hw_thread *t, uint64_t pc)
{
    (void)t, (void)pc;
    return false;
}

int hw_thread_run_to(struct hw_thread *t, uint64_t at)
{
    (void)t, (void)at;
    return HW_EUNSUPPORTED;
}

void hw_thread_move(struct hw_thread *t, uint64_t pc)
{
    (void)t, (void)pc;
}

int hw_thread_save(struct hw_thread *t, struct hw_error *err)
{
    (void)t, (void)err;
    return HW_EUNSUPPORTED;
}

int hw_thread_syscall(struct hw_thread *t, long n, const uint64_t args[6], int64_t *out)
{
    (void)t, (void)n, (void)args, (void)out;
    return HW_EUNSUPPORTED;
}

int hw_thread_call(struct hw_thread *t, uint64_t fn, uint64_t a, uint64_t b, uint64_t timeout_ns,
                   uint64_t *out)
{
    (void)t, (void)fn, (void)a, (void)b, (void)timeout_ns, (void)out;
    return HW_EUNSUPPORTED;
}

void hw_thread_release(struct hw_thread *t)
{
    (void)t;
}

#endif

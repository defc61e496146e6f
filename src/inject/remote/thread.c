/*
 * thread.c - a thread is taken, stopped, and let go as it was
 *
 * The last stop before a thread is released must be one inside the kernel's signal delivery: only
 * there does the kernel check whether a system call has to be restarted (rax = -ERESTART…, orig_rax
 * = its number), so only there do the restored registers keep their meaning. Stops of our own
 * system calls are not of that kind; another interrupt causes one that is.
 */
#include "inject/remote/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "inject/remote/thread_stops.h"
#include "proc/pid.h"

#include "base/banned.h"

#if defined(__x86_64__)
#include <stddef.h>
#include <sys/uio.h>

#define RUN_TO_NS    (1000 * UINT64_C(1000000))
#define NT_X86_STATE 0x202

#ifndef PTRACE_GET_RSEQ_CONFIGURATION
#define PTRACE_GET_RSEQ_CONFIGURATION 0x420f
#endif
struct rseq_config {
    uint64_t pointer;
    uint32_t size, signature, flags, pad;
};

/* Nobody has waited for it yet: a first thread while others live, a process until its parent comes. */
static bool has_ended(int32_t number)
{
    char path[32];
    struct hw_proc_stat stat;
    (void)snprintf(path, sizeof path, "/proc/%d", number);
    hw_autofd int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int rc = dir < 0 ? HW_EGONE : hw_proc_stat(dir, &stat);
    return rc == HW_EGONE || (rc == HW_OK && (stat.state == 'Z' || stat.state == 'X'));
}

int hw_thread_take(struct hw_thread *t, int32_t pid, int32_t tid, struct hw_error *err)
{
    t->pid = pid;
    t->tid = tid;
    t->slept_ns = t->spare_at = 0;
    t->seized = t->saved = t->known = t->moved = t->gone_on = t->masked = t->execed = false;
    if (hw_thread_ptrace(PTRACE_SEIZE, t, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC) < 0) {
        int why = errno;
        if (why == ESRCH || has_ended(t->number)) /* EPERM then */
            return hw_fail(err, HW_EGONE, 0, "thread %d has ended", tid);
        return hw_fail(err, HW_EPERM, 0,
                       "process %d may not be traced (%s): that takes the same user and "
                       "/proc/sys/kernel/yama/ptrace_scope 0, or root",
                       pid, strerror(why));
    }
    t->seized = true;
    return HW_OK;
}

static int ask_to_stop(struct hw_thread *t, struct hw_error *err)
{
    t->asked_ns = hw_now_monotonic_ns();
    if (hw_thread_ptrace(PTRACE_INTERRUPT, t, 0, 0) == 0)
        return HW_OK;
    (void)hw_thread_release(t);
    return hw_fail(err, HW_EGONE, 0, "thread %d has ended", t->tid);
}

int hw_thread_seize_begin(struct hw_thread *t, int32_t pid, int32_t tid, struct hw_error *err)
{
    int rc = hw_thread_take(t, pid, tid, err);
    return rc < 0 ? rc : ask_to_stop(t, err);
}

int hw_thread_seize_end(struct hw_thread *t, struct hw_error *err)
{
    int rc = hw_thread_wait_interrupted(t);
    t->stopped_ns = hw_now_monotonic_ns();
    if (rc < 0) {
        (void)hw_thread_release(t);
        return hw_fail(err, rc, 0, "thread %d of process %d did not stop", t->tid, t->pid);
    }
    struct iovec io = {t->words, sizeof(struct user_regs_struct)};
    if (hw_thread_ptrace(PTRACE_GETREGSET, t, 1 /* NT_PRSTATUS */, (uintptr_t)&io) < 0) {
        rc = hw_fail_sys(err, "registers of thread %d", t->tid);
        (void)hw_thread_release(t);
        return rc;
    }
    t->known = true;
    return hw_thread_ptrace(PTRACE_GETSIGMASK, t, sizeof t->kept_mask, (uintptr_t)&t->kept_mask) < 0
               ? hw_fail_sys(err, "signal mask of thread %d", t->tid)
               : HW_OK;
}

int hw_thread_stop(struct hw_thread *t, struct hw_error *err)
{
    int rc = ask_to_stop(t, err);
    return rc < 0 ? rc : hw_thread_seize_end(t, err);
}

int hw_thread_regs(struct hw_thread *t, struct hw_thread_regs *out)
{
    const struct user_regs_struct *r = hw_thread_saved_regs(t);
    *out = (struct hw_thread_regs){r->rip, r->rsp, r->rbp, r->fs_base};
    return HW_OK;
}

void hw_thread_move(struct hw_thread *t, uint64_t pc)
{
    hw_thread_saved_regs(t)->rip = pc;
    t->moved = true;
    if (!t->saved) /* at once: the new address means the same, whatever happens to us */
        (void)hw_thread_set_regs(t, hw_thread_saved_regs(t));
}

bool hw_thread_in_rseq(const struct hw_thread *t, uint64_t pc)
{
    struct rseq_config c;
    uint64_t area, start, bytes;
    if (hw_thread_ptrace(PTRACE_GET_RSEQ_CONFIGURATION, t, sizeof c, (uintptr_t)&c) < 0 ||
        c.pointer == 0)
        return false;
    return hw_thread_read_word(t, c.pointer + 8, &area) && area != 0 &&
           hw_thread_read_word(t, area + 8, &start) && hw_thread_read_word(t, area + 16, &bytes) &&
           pc - start < bytes;
}

int hw_thread_save(struct hw_thread *t, struct hw_error *err)
{
    struct iovec io = {t->xstate, sizeof t->xstate};
    if (hw_thread_ptrace(PTRACE_GETREGSET, t, NT_X86_STATE, (uintptr_t)&io) < 0 ||
        io.iov_len >= sizeof t->xstate)
        return hw_fail_sys(err, "vector registers of thread %d", t->tid);
    t->xstate_bytes = io.iov_len;
    t->saved = true;
    return HW_OK;
}

void hw_thread_give_up(struct hw_thread *t)
{
    t->known = t->saved = false;
    t->gone_on = true;
}

static void debug_register(struct hw_thread *t, int i, uint64_t v)
{
    (void)hw_thread_ptrace(PTRACE_POKEUSER, t, offsetof(struct user, u_debugreg) + (size_t)i * 8,
                           v);
}

/* A debug register belongs to this thread alone; a changed instruction would stop all threads,
 * which have no tracer and would die of it. */
int hw_thread_run_to(struct hw_thread *t, uint64_t at)
{
    int status, rc = HW_ETIMEOUT;
    debug_register(t, 0, at);
    debug_register(t, 7, 1); /* execution, this thread */
    uint64_t end = hw_now_monotonic_ns() + RUN_TO_NS;
    uintptr_t signal = 0;
    while (hw_thread_ptrace(PTRACE_CONT, t, 0, signal) == 0) {
        uint64_t now = hw_now_monotonic_ns();
        signal = 0;
        rc = hw_thread_wait_stop(t, end > now ? end - now : 0, &status);
        if (rc == HW_ETIMEOUT && hw_thread_ptrace(PTRACE_INTERRUPT, t, 0, 0) == 0)
            (void)hw_thread_wait_interrupted(t);
        if (rc < 0)
            break;
        struct user_regs_struct r;
        if (!hw_thread_is_event(status) && WSTOPSIG(status) == SIGTRAP &&
            hw_thread_get_regs(t, &r) && r.rip == at)
            break;
        if (!hw_thread_is_event(status))
            signal = (uintptr_t)(WSTOPSIG(status) & 0x7f);
    }
    if (!t->seized)
        return HW_EGONE;
    debug_register(t, 7, 0);
    debug_register(t, 0, 0);
    t->stopped_ns = hw_now_monotonic_ns();
    return hw_thread_get_regs(t, hw_thread_saved_regs(t)) && rc == 1 ? HW_OK : HW_ETIMEOUT;
}

static int back_in_delivery(struct hw_thread *t)
{
    if (hw_thread_ptrace(PTRACE_INTERRUPT, t, 0, 0) < 0)
        return HW_EGONE;
    if (hw_thread_ptrace(PTRACE_CONT, t, 0, 0) < 0)
        return HW_EGONE;
    int status;
    for (;;) {
        int rc = hw_thread_wait_stop(t, HW_STOP_NS, &status);
        if (rc < 0 || hw_thread_is_event(status))
            return rc < 0 ? rc : HW_OK;
        if (hw_thread_ptrace(PTRACE_CONT, t, 0, hw_thread_to_deliver(status)) < 0)
            return HW_EGONE;
    }
}

/* A thread that has not stopped yet cannot be detached: it would stop later, and stay stopped
 * for as long as we live. */
static bool detach(struct hw_thread *t)
{
    int status;
    if (hw_thread_ptrace(PTRACE_DETACH, t, 0, 0) == 0)
        return true;
    int rc = hw_thread_wait_stop(t, HW_STOP_NS, &status);
    if (rc != 1)
        return rc == HW_EGONE;
    bool signal = !hw_thread_is_event(status) && WSTOPSIG(status) != (SIGTRAP | 0x80);
    (void)hw_thread_ptrace(PTRACE_DETACH, t, 0,
                           signal ? (uintptr_t)WSTOPSIG(status) : 0); /* it is stopped */
    return true;
}

/* The number is now another thread's, stopped at the end of its exec: its registers are not ours
 * to set. */
static bool is_replaced(const struct hw_thread *t)
{
    siginfo_t si = {0};
    int rc = waitid(P_PID, (id_t)t->tid, &si, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL);
    return (rc < 0 && errno == ECHILD) || (si.si_pid == t->tid && si.si_code == CLD_TRAPPED &&
                                           si.si_status >> 8 == PTRACE_EVENT_EXEC);
}

bool hw_thread_release(struct hw_thread *t)
{
    int status;
    if (!t->seized)
        return true;
    if (is_replaced(t)) {
        (void)hw_thread_wait_stop(t, 0, &status); /* which detaches it */
        return true;
    }
    struct user_regs_struct *r = hw_thread_saved_regs(t);
    if (t->saved && back_in_delivery(t) == HW_OK) {
        struct iovec io = {t->xstate, t->xstate_bytes};
        (void)hw_thread_ptrace(PTRACE_SETREGSET, t, NT_X86_STATE,
                               (uintptr_t)&io); /* the kernel accepts what it gave */
        (void)hw_thread_ptrace(PTRACE_SETSIGMASK, t, sizeof t->kept_mask, (uintptr_t)&t->kept_mask);
    }
    if (t->known) {
        bool again = hw_thread_restart_call(t, r);
        if (again || t->saved || t->moved)
            (void)hw_thread_set_regs(t, r);
    }
    bool gone = detach(t);
    t->seized = t->saved = false;
    return gone;
}

#else /* process_facts.c has refused already */

int hw_thread_take(struct hw_thread *t, int32_t pid, int32_t tid, struct hw_error *err)
{
    (void)t, (void)pid, (void)tid;
    return hw_fail(err, HW_EUNSUPPORTED, 0,
                   "attaching is not possible on this architecture; start the program with "
                   "'heapwise record --'");
}

int hw_thread_stop(struct hw_thread *t, struct hw_error *err)
{
    return hw_thread_take(t, 0, 0, err);
}

int hw_thread_seize_begin(struct hw_thread *t, int32_t pid, int32_t tid, struct hw_error *err)
{
    return hw_thread_take(t, pid, tid, err);
}

int hw_thread_seize_end(struct hw_thread *t, struct hw_error *err)
{
    return hw_thread_take(t, 0, 0, err);
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

bool hw_thread_release(struct hw_thread *t)
{
    (void)t;
    return true;
}

void hw_thread_give_up(struct hw_thread *t)
{
    (void)t;
}

#endif

/*
 * thread_restart.c - the system call that our stop interrupted continues as if nothing had happened
 *
 * Calls that the kernel would not restart (calls.h) get -ERESTARTNOHAND as their result: the kernel
 * then restarts them, unless a signal handler is to run; in that case EINTR is right.
 */
#include "inject/remote/thread.h"

#if defined(__x86_64__)

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/error.h"
#include "inject/filters/seccomp.h"
#include "inject/remote/calls.h"
#include "inject/remote/thread_stops.h"

#include "base/banned.h"

#define MS      UINT64_C(1000000)
#define NS_IN_S UINT64_C(1000000000)

static uint64_t arg_of(const struct user_regs_struct *r, unsigned i)
{
    const uint64_t args[6] = {r->rdi, r->rsi, r->rdx, r->r10, r->r8, r->r9};
    return args[i];
}

static void set_arg(struct user_regs_struct *r, unsigned i, uint64_t v)
{
    unsigned long long *const args[6] = {&r->rdi, &r->rsi, &r->rdx, &r->r10, &r->r8, &r->r9};
    *args[i] = v;
}

/* EINTR because of our stop: nothing was done yet. */
static bool is_restarted_by_us(int64_t number)
{
    const struct hw_call *c = hw_call_find(number);
    return c && (c->after == HW_CALL_BY_US || c->after == HW_CALL_BY_BLOCK);
}

enum { RESTART_SYS = -512, RESTART_NO_INTR = -513, RESTART_NO_HAND = -514, RESTART_BLOCK = -516 };

static bool is_interrupted(int64_t rc)
{
    return rc == RESTART_SYS || rc == RESTART_NO_INTR || rc == RESTART_NO_HAND ||
           rc == RESTART_BLOCK;
}

/* What the kernel does in a stop of its signal delivery, but not on the way back from a signal
 * frame. */
bool hw_thread_call_restarts(const struct user_regs_struct *r)
{
    int64_t number = (int64_t)r->orig_rax, rc = (int64_t)r->rax;
    return number >= 0 && (is_interrupted(rc) || (rc == -EINTR && is_restarted_by_us(number)));
}

/* ---- its time ---- */

/* restart_syscall has another number, and a filter may kill the program for it. */
static bool restart_syscall_forbidden(const struct hw_thread *t, const struct user_regs_struct *r)
{
    struct seccomp_data call = {
        .nr = SYS_restart_syscall, .arch = AUDIT_ARCH_X86_64, .instruction_pointer = r->rip};
    for (unsigned i = 0; i < 6; i++)
        call.args[i] = arg_of(r, i);
    return hw_seccomp_forbids(t->tid, &call, /* unknown = */ t->filtered);
}

/* Writes what is left of the time-out at `from` to `to`: seconds and parts of one, of unit_ns each. */
static bool shorten_at(const struct hw_thread *t, uint64_t from, uint64_t to, uint64_t unit_ns,
                       uint64_t passed_ns)
{
    uint64_t s, part;
    if (!to || !from || !hw_thread_read_word(t, from, &s) ||
        !hw_thread_read_word(t, from + 8, &part))
        return false;
    if (s > INT32_MAX || part >= NS_IN_S / unit_ns)
        return false; /* nobody waits that long, or the kernel will not accept it */
    uint64_t whole_ns = s * NS_IN_S + part * unit_ns,
             left_ns = whole_ns > passed_ns ? whole_ns - passed_ns : 0;
    return hw_thread_write_word(t, to, left_ns / NS_IN_S) &&
           hw_thread_write_word(t, to + 8, left_ns % NS_IN_S / unit_ns);
}

static bool shorten_spec(const struct hw_thread *t, uint64_t at, uint64_t passed_ns)
{
    return shorten_at(t, at, t->spare_at, 1, passed_ns);
}

/* The same for a mask, its size, and the address of the time-out. */
static bool shorten_ring(const struct hw_thread *t, uint64_t at, uint64_t passed_ns)
{
    uint64_t words[3];
    for (unsigned i = 0; i < 3; i++)
        if (!hw_thread_read_word(t, at + 8 * i, &words[i]))
            return false;
    return shorten_spec(t, words[2], passed_ns) &&
           hw_thread_write_word(t, t->spare_at + 16, words[0]) &&
           hw_thread_write_word(t, t->spare_at + 24, words[1]) &&
           hw_thread_write_word(t, t->spare_at + 32, t->spare_at);
}

static uint64_t stopped_for(const struct hw_thread *t)
{
    return hw_now_monotonic_ns() - t->stopped_ns;
}

/* Subtracts the time that has passed. */
static void shorten(const struct hw_thread *t, struct user_regs_struct *r)
{
    const struct hw_call *c = hw_call_find((int64_t)r->orig_rax);
    uint64_t args[6], passed_ns = t->slept_ns + stopped_for(t);
    for (unsigned i = 0; i < 6; i++)
        args[i] = arg_of(r, i);
    switch (c ? hw_call_time(c, args) : HW_CALL_NO_TIME) {
    case HW_CALL_NO_TIME:
        return;
    case HW_CALL_MS: {
        uint64_t all = (uint32_t)args[c->time_arg], passed = passed_ns / MS;
        set_arg(r, c->time_arg, passed < all ? all - passed : 0);
        return;
    }
    case HW_CALL_SPEC: {
        int left = hw_call_left_arg(c, args);
        if (left >= 0) { /* the kernel knows best */
            (void)shorten_at(t, args[left], args[left], 1, stopped_for(t)); /* else it is late */
            set_arg(r, c->time_arg, args[left]);
        } else if (shorten_spec(t, args[c->time_arg], passed_ns))
            set_arg(r, c->time_arg, t->spare_at);
        return;
    }
    case HW_CALL_VAL:
        if (shorten_at(t, args[c->time_arg], t->spare_at, 1000, passed_ns))
            set_arg(r, c->time_arg, t->spare_at);
        return;
    case HW_CALL_RING:
        if (shorten_ring(t, args[c->time_arg], passed_ns))
            set_arg(r, c->time_arg, t->spare_at + 16);
        return;
    }
}

/*
 * select, pselect6 and ppoll: the kernel has written the rest of the time-out to the program's
 * memory, and restarts the call with that. Subtracts the time that the thread was stopped for.
 */
static void shorten_rest(const struct hw_thread *t, const struct user_regs_struct *r)
{
    const struct hw_call *c = hw_call_find((int64_t)r->orig_rax);
    uint64_t unit_ns = r->orig_rax == SYS_select ? 1000 : 1;
    if (r->orig_rax != SYS_select && r->orig_rax != SYS_pselect6 && r->orig_rax != SYS_ppoll)
        return;
    uint64_t at = arg_of(r, c->time_arg);
    (void)shorten_at(t, at, at, unit_ns, stopped_for(t)); /* else it is late */
}

/* True: its registers have changed. */
bool hw_thread_restart_call(const struct hw_thread *t, struct user_regs_struct *r)
{
    int64_t rc = (int64_t)r->rax;
    if (rc == RESTART_NO_HAND)
        shorten_rest(t, r);
    if ((int64_t)r->orig_rax < 0 || !((rc == -EINTR && is_restarted_by_us((int64_t)r->orig_rax)) ||
                                      (rc == RESTART_BLOCK && restart_syscall_forbidden(t, r))))
        return false;
    shorten(t, r);
    r->rax = (uint64_t)(int64_t)RESTART_NO_HAND;
    return true;
}

/* ---- the rest of a call that was cut ---- */

#define MOST_PIECES 10u /* of a vector, and a struct msghdr in front of them */
#define MESSAGE_AT  (HW_THREAD_SPARE_BYTES - 64u)

_Static_assert(MOST_PIECES * 16 <= MESSAGE_AT, "the spare bytes");

/* Writes what is left of n pieces after `done` bytes to spare_at. Gives their number; 0 = not
 * possible. */
static uint64_t rest_of_vector(const struct hw_thread *t, uint64_t at, uint64_t n, uint64_t done)
{
    uint64_t base, bytes, k = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (!hw_thread_read_word(t, at + 16 * i, &base) ||
            !hw_thread_read_word(t, at + 16 * i + 8, &bytes))
            return 0;
        uint64_t skip = done < bytes ? done : bytes;
        done -= skip;
        if (skip == bytes)
            continue;
        if (k == MOST_PIECES || !hw_thread_write_word(t, t->spare_at + 16 * k, base + skip) ||
            !hw_thread_write_word(t, t->spare_at + 16 * k + 8, bytes - skip))
            return 0;
        k++;
    }
    return k;
}

/* The same message without its control data, which went with the first part. */
static bool rest_of_message(const struct hw_thread *t, struct user_regs_struct *r, uint64_t done)
{
    uint64_t words[7], to = t->spare_at + MESSAGE_AT;
    for (unsigned i = 0; i < 7; i++)
        if (!hw_thread_read_word(t, r->rsi + 8 * i, &words[i]))
            return false;
    words[3] = rest_of_vector(t, words[2], words[3], done);
    words[2] = t->spare_at;
    words[4] = words[5] = 0;
    for (unsigned i = 0; i < 7; i++)
        if (words[3] == 0 || !hw_thread_write_word(t, to + 8 * i, words[i]))
            return false;
    r->rsi = to;
    return true;
}

/* Makes r ask for what is left. */
static bool ask_for_rest(const struct hw_thread *t, const struct hw_call *c,
                         struct user_regs_struct *r, uint64_t done)
{
    uint64_t length = arg_of(r, c->rest_arg), n;
    switch ((enum hw_call_rest)c->rest) {
    case HW_CALL_NO_REST:
        return false;
    case HW_CALL_VECTOR:
        n = t->spare_at ? rest_of_vector(t, r->rsi, length, done) : 0;
        r->rsi = t->spare_at;
        r->rdx = n;
        return n > 0;
    case HW_CALL_MESSAGE:
        return t->spare_at && rest_of_message(t, r, done);
    case HW_CALL_BYTES:
        set_arg(r, c->rest_arg - 1u, arg_of(r, c->rest_arg - 1u) + done);
        break;
    case HW_CALL_MESSAGES:
        set_arg(r, c->rest_arg - 1u, arg_of(r, c->rest_arg - 1u) + done * sizeof(struct mmsghdr));
        break;
    case HW_CALL_LENGTH:
        break;
    }
    set_arg(r, c->rest_arg, length - done);
    return done < length;
}

/* A signal is due before the call could start: ends the call with its count, then delivers it. */
static int give_way(struct hw_thread *t, uintptr_t signal)
{
    if (!hw_thread_set_regs(t, hw_thread_saved_regs(t)) ||
        hw_thread_ptrace(PTRACE_CONT, t, 0, signal) < 0 ||
        hw_thread_ptrace(PTRACE_INTERRUPT, t, 0, 0) < 0)
        return HW_EGONE;
    int rc = hw_thread_wait_interrupted(t);
    return rc == HW_OK && !hw_thread_get_regs(t, hw_thread_saved_regs(t)) ? HW_EGONE : rc;
}

/* Runs it from entry to exit. 1 = it has ended with *out, 0 = not started. Interrupted when it
 * is late. */
static int run_call(struct hw_thread *t, const struct user_regs_struct *r, uint64_t end_ns,
                    int64_t *out)
{
    struct user_regs_struct now;
    int status, n_stops = 0;
    if (!hw_thread_set_regs(t, r))
        return HW_EGONE;
    while (n_stops < 2) {
        if (hw_thread_ptrace(PTRACE_SYSCALL, t, 0, 0) < 0)
            return HW_EGONE;
        uint64_t time = hw_now_monotonic_ns();
        int rc = hw_thread_wait_stop(t, end_ns > time ? end_ns - time : 0, &status);
        if (rc == HW_ETIMEOUT) {
            if (hw_thread_ptrace(PTRACE_INTERRUPT, t, 0, 0) < 0)
                return HW_EGONE;
            rc = hw_thread_wait_stop(t, HW_STOP_NS, &status);
        }
        if (rc < 0)
            return rc;
        if (WSTOPSIG(status) == (SIGTRAP | 0x80))
            n_stops++;
        else if (!hw_thread_is_event(status)) /* before the entry only */
            return give_way(t, (uintptr_t)WSTOPSIG(status));
    }
    if (!hw_thread_get_regs(t, &now))
        return HW_EGONE;
    *out = (int64_t)now.rax;
    return 1;
}

/*
 * The stop has cut the call short, so that it returned a part of what was asked for. Until the rest
 * is done the thread waits in its program's own call, as it would without us.
 */
void hw_thread_finish_call(struct hw_thread *t, const struct hw_pid *pid, uint64_t timeout_ns)
{
    struct user_regs_struct *r = hw_thread_saved_regs(t), rest;
    struct hw_call_now now = {.number = (int64_t)r->orig_rax};
    const struct hw_call *c = hw_call_find(now.number);
    uint64_t end_ns = hw_now_monotonic_ns() + timeout_ns;
    int64_t n = 0;
    for (unsigned i = 0; i < 6; i++)
        now.args[i] = arg_of(r, i);
    if (!c || now.number < 0 || (int64_t)r->rax <= 0 || !hw_call_was_cut(pid, &now))
        return;
    r->orig_rax = UINT64_MAX; /* it returns that count, whatever happens */
    t->moved = true;
    do {
        rest = *r;
        if (!ask_for_rest(t, c, &rest, r->rax))
            break;
        rest.rax = (uint64_t)now.number;
        rest.rip -= 2;
        if (run_call(t, &rest, end_ns, &n) != 1)
            return; /* it is where a signal has led it, or gone */
        if (n > 0)
            r->rax += (uint64_t)n;
        /* recvmmsg stores our stop as an error of the socket, and reports it once */
    } while ((n > 0 || n == -EINTR || n == RESTART_SYS) && hw_now_monotonic_ns() < end_ns);
    (void)hw_thread_set_regs(t, r);
    t->stopped_ns = hw_now_monotonic_ns();
}

#else

void hw_thread_finish_call(struct hw_thread *t, const struct hw_pid *pid, uint64_t timeout_ns)
{
    (void)t, (void)pid, (void)timeout_ns;
}

#endif

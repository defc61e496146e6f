/*
 * thread.c - ptrace
 *
 * The last stop before a thread is released must be one inside the kernel's signal delivery: only
 * there the kernel looks whether a system call has to be restarted (rax = -ERESTART…, orig_rax =
 * its number), and so only there the restored registers mean what they meant. Stops of our own
 * system calls are not of that kind; a new interrupt brings one that is.
 *
 * Calls that the kernel would not begin anew (calls.h) get -ERESTARTNOHAND in the place of their
 * result: the kernel then begins them anew, unless a handler is to run: that makes the EINTR right.
 */
#include "inject/remote/thread.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "inject/filters/seccomp.h"
#include "inject/remote/calls.h"

#include "base/banned.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <ucontext.h>

#define MS           UINT64_C(1000000)
#define NS_IN_S      UINT64_C(1000000000)
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

/*
 * Another thread's exec ends this one, and takes the first thread's number. That thread is let go
 * as it is: it stands in a program that nobody has asked about.
 */
static int take_exec(struct hw_thread *t, bool stands)
{
    if (stands)
        (void)pt(PTRACE_DETACH, t, 0, 0); /* else it was killed */
    t->seized = t->saved = t->known = false;
    t->execed = true;
    return HW_EGONE;
}

/* 1 = *status is a stop; HW_EGONE; HW_ETIMEOUT. Stops come within microseconds, so we turn first.
 */
static int wait_stop(struct hw_thread *t, uint64_t timeout_ns, int *status)
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

/* SIGSTOP cannot be blocked. It is handed on: the thread runs for us all the same, and the kernel
 * remembers for the time after us whether the process is stopped or was continued meanwhile. */
static uintptr_t to_deliver(int status)
{
    return !is_event(status) && WSTOPSIG(status) == SIGSTOP ? SIGSTOP : 0;
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

int hw_thread_take(struct hw_thread *t, int32_t pid, int32_t tid, struct hw_error *err)
{
    t->pid = pid;
    t->tid = tid;
    t->slept_ns = t->spare_at = 0;
    t->seized = t->saved = t->known = t->moved = t->gone_on = t->masked = t->execed = false;
    if (pt(PTRACE_SEIZE, t, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC) < 0) {
        if (errno == ESRCH)
            return hw_fail(err, HW_EGONE, 0, "thread %d has ended", tid);
        return hw_fail(err, HW_EPERM, 0,
                       "process %d may not be traced (%s): that takes the same user and "
                       "/proc/sys/kernel/yama/ptrace_scope 0, or root",
                       pid, strerror(errno));
    }
    t->seized = true;
    return HW_OK;
}

static int ask_to_stop(struct hw_thread *t, struct hw_error *err)
{
    t->asked_ns = hw_now_monotonic_ns();
    if (pt(PTRACE_INTERRUPT, t, 0, 0) == 0)
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
    int rc = wait_interrupted(t);
    t->stopped_ns = hw_now_monotonic_ns();
    if (rc < 0) {
        (void)hw_thread_release(t);
        return hw_fail(err, rc, 0, "thread %d of process %d did not stop", t->tid, t->pid);
    }
    struct iovec io = {t->words, sizeof(struct user_regs_struct)};
    if (pt(PTRACE_GETREGSET, t, 1 /* NT_PRSTATUS */, (uintptr_t)&io) < 0) {
        rc = hw_fail_sys(err, "registers of thread %d", t->tid);
        (void)hw_thread_release(t);
        return rc;
    }
    t->known = true;
    return pt(PTRACE_GETSIGMASK, t, sizeof t->kept_mask, (uintptr_t)&t->kept_mask) < 0
               ? hw_fail_sys(err, "signal mask of thread %d", t->tid)
               : HW_OK;
}

int hw_thread_stop(struct hw_thread *t, struct hw_error *err)
{
    int rc = ask_to_stop(t, err);
    return rc < 0 ? rc : hw_thread_seize_end(t, err);
}

static struct user_regs_struct *regs_of(struct hw_thread *t)
{
    return (struct user_regs_struct *)(void *)t->words;
}

int hw_thread_regs(struct hw_thread *t, struct hw_thread_regs *out)
{
    const struct user_regs_struct *r = regs_of(t);
    *out = (struct hw_thread_regs){r->rip, r->rsp, r->rbp, r->fs_base};
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

void hw_thread_move(struct hw_thread *t, uint64_t pc)
{
    regs_of(t)->rip = pc;
    t->moved = true;
    if (!t->saved) /* at once: what it is moved to means the same, whatever becomes of us */
        (void)set_regs(t, regs_of(t));
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
    t->saved = true;
    return HW_OK;
}

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

/* EINTR from being stopped: nothing was done yet. */
static bool begins_anew(int64_t number)
{
    const struct hw_call *c = hw_call_find(number);
    return c && (c->after == HW_CALL_BY_US || c->after == HW_CALL_BY_BLOCK);
}

/*
 * Ends in no trap: a trap's signal would find the program's own handler once we are gone, and where
 * the program ignores that signal, sending it makes it no longer ignored. The tracer looks at the
 * word instead, and stops the thread in its wait. That is ppoll, since it is begun anew without the
 * kernel's restart block: the one that is there belongs to the call that we have interrupted.
 */
__asm__(".pushsection .rodata\n\t.p2align 4\n\t.globl hw_thread_code\n"
        "hw_thread_code:\n\t"
        "call *%rax\n\tjmp 1f\n"        /* +0: a function */
        ".p2align 3, 0x90\n\tsyscall\n" /* +8: a system call */
        "1:\tmov %rax, 8(%rbx)\n\t"
        "movl $1, (%rbx)\n"
        "2:\tmovq $0, 16(%rbx)\n\tmovq $1000000, 24(%rbx)\n\t" /* the call leaves what is left */
        "xor %edi, %edi\n\txor %esi, %esi\n\tlea 16(%rbx), %rdx\n\t"
        "xor %r10d, %r10d\n\txor %r8d, %r8d\n\tmov $271, %eax\n\tsyscall\n\t" /* ppoll */
        "decl 4(%rbx)\n\tjg 2b\n\t"
        "movl $2, (%rbx)\n\tmov 32(%rbx), %rsp\n\tmov $15, %eax\n\tsyscall\n\t" /* sigreturn */
        "hlt\n"
        "3:\n\t.p2align 2\n\t.globl hw_thread_code_bytes\n"
        "hw_thread_code_bytes:\n\t.long 3b - hw_thread_code\n\t.popsection");

#define CODE_SYSCALL 8u

enum { RUNNING = 0, READY = 1, GONE_ON = 2 };

struct state {
    uint32_t word; /* one of the three above */
    uint32_t n_waits;
    uint64_t result;
    int64_t wait_s, wait_ns; /* a millisecond */
    uint64_t frame_sp;
};
#define FRAME_AT   64u   /* behind it: what rt_sigreturn takes its registers from, */
#define XSTATE_AT  2048u /* and the vector registers */
#define N_WAITS    2000u
#define SW_AT      464u /* of the vector registers' area: what software says of it */
#define FP_MAGIC_1 0x46505853u
#define FP_MAGIC_2 0x46505845u
#define XTILE_DATA (UINT64_C(1) << 18) /* large, and only there for who asked for it */

_Static_assert(FRAME_AT + 8 + sizeof(ucontext_t) < XSTATE_AT, "the frame");

/* Where each part of the vector registers' area ends. Asking the processor takes some 20 us a part
 * in a virtual machine, so it is done while everything runs; all who do it write the same. */
static uint32_t part_ends[63];

void hw_thread_prepare(void)
{
    for (unsigned i = 2; i < 63; i++) {
        unsigned a, b, c, d;
        __cpuid_count(0xd, i, a, b, c, d);
        __atomic_store_n(&part_ends[i], a ? a + b : 0, __ATOMIC_RELAXED);
        if (i == 2 && a == 0)
            return; /* none but the oldest */
    }
}

static uint64_t xstate_size(uint64_t features)
{
    uint64_t size = 576;
    for (unsigned i = 2; i < 63; i++) {
        uint32_t end = __atomic_load_n(&part_ends[i], __ATOMIC_RELAXED);
        if ((features >> i & 1) && end > size)
            size = end;
    }
    return size;
}

enum { RESTART_SYS = -512, RESTART_NO_INTR = -513, RESTART_NO_HAND = -514, RESTART_BLOCK = -516 };

/* A call that would be begun anew by the kernel: sigreturn does not do that. */
static bool is_interrupted(int64_t rc)
{
    return rc == RESTART_SYS || rc == RESTART_NO_INTR || rc == RESTART_NO_HAND ||
           rc == RESTART_BLOCK;
}

size_t hw_thread_state(const struct hw_thread *t, uint64_t at, uint8_t out[HW_THREAD_STATE_BYTES])
{
    size_t n = XSTATE_AT;
    const struct user_regs_struct *r = (const struct user_regs_struct *)(const void *)t->words;
    struct state s = {.n_waits = N_WAITS, .frame_sp = at + FRAME_AT};
    ucontext_t u = {.uc_flags = 7, /* vector registers, and ss as it stands there */
                    .uc_stack = {.ss_flags = 0x7777}}; /* no such stack: the thread keeps its own */
    greg_t *g = u.uc_mcontext.gregs;
    bool again = (int64_t)r->orig_rax >= 0 &&
                 (is_interrupted((int64_t)r->rax) ||
                  ((int64_t)r->rax == -EINTR && begins_anew((int64_t)r->orig_rax)));
    memset(out, 0, XSTATE_AT);
    g[REG_R8] = (greg_t)r->r8, g[REG_R9] = (greg_t)r->r9, g[REG_R10] = (greg_t)r->r10;
    g[REG_R11] = (greg_t)r->r11, g[REG_R12] = (greg_t)r->r12, g[REG_R13] = (greg_t)r->r13;
    g[REG_R14] = (greg_t)r->r14, g[REG_R15] = (greg_t)r->r15, g[REG_RDI] = (greg_t)r->rdi;
    g[REG_RSI] = (greg_t)r->rsi, g[REG_RBP] = (greg_t)r->rbp, g[REG_RBX] = (greg_t)r->rbx;
    g[REG_RDX] = (greg_t)r->rdx, g[REG_RCX] = (greg_t)r->rcx, g[REG_RSP] = (greg_t)r->rsp;
    g[REG_RAX] = (greg_t)(again ? r->orig_rax : r->rax);
    g[REG_RIP] = (greg_t)(again ? r->rip - 2 : r->rip);
    g[REG_EFL] = (greg_t)r->eflags;
    g[REG_CSGSFS] = (greg_t)(r->cs | r->ss << 48);
    memcpy(&u.uc_sigmask, &t->kept_mask, sizeof t->kept_mask);
    uint64_t area = at + XSTATE_AT, features;
    memcpy(&features, t->xstate + SW_AT, sizeof features);
    uint64_t used, size;
    memcpy(&used, t->xstate + 512, sizeof used); /* those that are not as at the beginning */
    features &= used & XTILE_DATA ? ~UINT64_C(0) : ~XTILE_DATA;
    size = xstate_size(features);
    if (size <= t->xstate_bytes && XSTATE_AT + size + 4 <= HW_THREAD_STATE_BYTES) {
        uint32_t about[5] = {FP_MAGIC_1, (uint32_t)size + 4, (uint32_t)features,
                             (uint32_t)(features >> 32), (uint32_t)size};
        uint32_t end = FP_MAGIC_2;
        memcpy(out + XSTATE_AT, t->xstate, size);
        memset(out + XSTATE_AT + SW_AT, 0, 48);
        memcpy(out + XSTATE_AT + SW_AT, about, sizeof about);
        memcpy(out + XSTATE_AT + size, &end, sizeof end);
        n = XSTATE_AT + size + sizeof end;
        memcpy(&u.uc_mcontext.fpregs, &area, sizeof area);
    }
    memcpy(out, &s, sizeof s);
    memcpy(out + FRAME_AT - 8, &t->restorer_at, sizeof t->restorer_at);
    memcpy(out + FRAME_AT, &u, sizeof u);
    return n;
}

static bool state_get(const struct hw_thread *t, struct state *s)
{
    return pread(t->mem, s, sizeof *s, (off_t)t->state_at) == (ssize_t)sizeof *s;
}

static bool state_begin(const struct hw_thread *t)
{
    uint32_t first[2] = {RUNNING, N_WAITS};
    return pwrite(t->mem, first, sizeof first, (off_t)t->state_at) == (ssize_t)sizeof first;
}

#define CODE_MOST 256u

bool hw_thread_waits_in_vain(struct hw_thread *t)
{
    const struct user_regs_struct *r = regs_of(t);
    uint8_t code[CODE_MOST];
    uint32_t n_waits = 0;
    uint64_t page = r->rip & ~UINT64_C(4095);
    if (r->rip - page > CODE_MOST || hw_thread_code_bytes > CODE_MOST ||
        pread(t->mem, code, hw_thread_code_bytes, (off_t)page) != (ssize_t)hw_thread_code_bytes ||
        memcmp(code, hw_thread_code, hw_thread_code_bytes) != 0)
        return false;
    uint64_t at = r->rbx + offsetof(struct state, n_waits);
    (void)!pwrite(t->mem, &n_waits, sizeof n_waits, (off_t)at); /* else it waits its two seconds */
    return true;
}

/* 1 = it stands in its wait, with the result; else as wait_stop, and HW_ESYS: it crashed. */
static int wait_ready(struct hw_thread *t, uint64_t timeout_ns, struct state *s)
{
    uint64_t start = hw_now_monotonic_ns();
    int status, rc;
    for (;;) {
        if (!state_get(t, s))
            return HW_EGONE;
        rc = wait_stop(t, 0, &status);
        if (rc == HW_EGONE)
            return rc;
        if (rc == 1) {
            if (!is_event(status) && is_ours(WSTOPSIG(status)))
                return HW_ESYS;
            if (pt(PTRACE_CONT, t, 0, to_deliver(status)) < 0)
                return HW_EGONE;
            continue;
        }
        uint64_t spent = hw_now_monotonic_ns() - start;
        if (s->word != RUNNING || spent > timeout_ns)
            break;
        if (spent > SPIN_NS) {
            struct timespec step = {0, 50000};
            (void)nanosleep(&step, NULL); /* a signal only shortens it */
        }
    }
    if (pt(PTRACE_INTERRUPT, t, 0, 0) < 0)
        return HW_EGONE;
    do {
        rc = wait_stop(t, STOP_NS, &status);
        if (rc == 1 && !is_event(status) && is_ours(WSTOPSIG(status)))
            return HW_ESYS;
    } while (rc == 1 && !is_event(status) && pt(PTRACE_CONT, t, 0, to_deliver(status)) == 0);
    if (rc < 0 || !state_get(t, s))
        return rc < 0 ? rc : HW_EGONE;
    if (s->word == GONE_ON) { /* we were away for so long that it does not wait any more */
        t->saved = t->known = false;
        t->gone_on = true;
        return HW_EGONE;
    }
    return s->word == READY ? 1 : HW_ETIMEOUT;
}

/* From now on only signals that our own code raises. */
static bool mask_all(struct hw_thread *t)
{
    uint64_t most = ~UINT64_C(0);
    for (int s = 1; s < 32; s++)
        if (is_ours(s))
            most &= ~(UINT64_C(1) << (s - 1));
    if (!t->masked && pt(PTRACE_SETSIGMASK, t, sizeof most, (uintptr_t)&most) < 0)
        return false;
    t->masked = true;
    return true;
}

static int run_code(struct hw_thread *t, struct user_regs_struct *r, uint64_t offset,
                    uint64_t timeout_ns, uint64_t *out)
{
    struct state s;
    r->rip = t->code_at + offset;
    r->rbx = t->state_at;
    r->rsp = t->stack_top & ~UINT64_C(15);
    r->rbp = 0;
    r->orig_rax = UINT64_MAX;
    r->eflags &= ~UINT64_C(0x500); /* direction, trap */
    if (!state_begin(t) || !set_regs(t, r) || pt(PTRACE_CONT, t, 0, 0) < 0)
        return HW_EGONE;
    int rc = wait_ready(t, timeout_ns, &s);
    if (rc == 1)
        *out = s.result;
    return rc == 1 ? HW_OK : rc;
}

/* One of its two stops. */
static int syscall_stop(struct hw_thread *t)
{
    int status;
    uintptr_t signal = 0;
    for (;;) {
        if (pt(PTRACE_SYSCALL, t, 0, signal) < 0)
            return HW_EGONE;
        int rc = wait_stop(t, SYSCALL_NS, &status);
        if (rc < 0)
            return rc;
        if (WSTOPSIG(status) == (SIGTRAP | 0x80))
            return HW_OK;
        signal = to_deliver(status);
        if (!is_event(status) && !signal) /* it crashed on the way */
            return HW_ESYS;
    }
}

int hw_thread_syscall(struct hw_thread *t, long n, const uint64_t a[6], int64_t *out)
{
    struct user_regs_struct r = *regs_of(t);
    if (t->gone_on)
        return HW_EGONE;
    r.rip = t->syscall_at;
    r.rax = (uint64_t)n;
    r.orig_rax = UINT64_MAX;
    r.rdi = a[0], r.rsi = a[1], r.rdx = a[2], r.r10 = a[3], r.r8 = a[4], r.r9 = a[5];
    if (t->code_at) {
        uint64_t result;
        int code = run_code(t, &r, CODE_SYSCALL, SYSCALL_NS, &result);
        if (code == HW_OK)
            *out = (int64_t)result;
        return code;
    }
    if (t->boot_at) { /* when nobody stops it behind the call: ret, and the way back of a signal */
        r.rip = t->syscall_ret_at;
        r.rsp = t->boot_at + FRAME_AT - 8;
    }
    if (!set_regs(t, &r) || !mask_all(t)) /* in this order: a mask alone would stay */
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
        if (pt(PTRACE_CONT, t, 0, to_deliver(status)) < 0)
            return HW_EGONE;
    }
}

int hw_thread_call(struct hw_thread *t, uint64_t fn, uint64_t a, uint64_t b, uint64_t timeout_ns,
                   uint64_t *out)
{
    struct user_regs_struct r = *regs_of(t);
    if (t->gone_on)
        return HW_EGONE;
    r.rax = fn;
    r.rdi = a, r.rsi = b, r.rdx = 0;
    return run_code(t, &r, 0, timeout_ns, out);
}

void hw_thread_give_up(struct hw_thread *t)
{
    t->known = t->saved = false;
    t->gone_on = true;
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

/* Its number would be another one, which a filter may answer with the program's end. */
static bool may_not_go_on(const struct hw_thread *t, const struct user_regs_struct *r)
{
    struct seccomp_data call = {
        .nr = SYS_restart_syscall, .arch = AUDIT_ARCH_X86_64, .instruction_pointer = r->rip};
    for (unsigned i = 0; i < 6; i++)
        call.args[i] = arg_of(r, i);
    return hw_seccomp_forbids(t->tid, &call, /* unknown = */ t->filtered);
}

static bool write_word(const struct hw_thread *t, uint64_t at, uint64_t v)
{
    return pt(PTRACE_POKEDATA, t, at, v) == 0;
}

/* What is left of the time at `at` lies at spare_at then. */
static bool shorten_spec(const struct hw_thread *t, uint64_t at, uint64_t passed_ns)
{
    uint64_t s, ns;
    if (!t->spare_at || !at || !read_word(t, at, &s) || !read_word(t, at + 8, &ns))
        return false;
    if (s > INT32_MAX || ns >= NS_IN_S)
        return false; /* nobody waits for so long, or the kernel will not take it */
    uint64_t whole_ns = s * NS_IN_S + ns, left_ns = whole_ns > passed_ns ? whole_ns - passed_ns : 0;
    return write_word(t, t->spare_at, left_ns / NS_IN_S) &&
           write_word(t, t->spare_at + 8, left_ns % NS_IN_S);
}

/* The same for a mask, its size, and the address of the time. */
static bool shorten_ring(const struct hw_thread *t, uint64_t at, uint64_t passed_ns)
{
    uint64_t words[3];
    for (unsigned i = 0; i < 3; i++)
        if (!read_word(t, at + 8 * i, &words[i]))
            return false;
    return shorten_spec(t, words[2], passed_ns) && write_word(t, t->spare_at + 16, words[0]) &&
           write_word(t, t->spare_at + 24, words[1]) &&
           write_word(t, t->spare_at + 32, t->spare_at);
}

/* What has passed is taken off. */
static void shorten(const struct hw_thread *t, struct user_regs_struct *r)
{
    const struct hw_call *c = hw_call_find((int64_t)r->orig_rax);
    uint64_t args[6], passed_ns = t->slept_ns + (hw_now_monotonic_ns() - t->stopped_ns);
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
        if (left >= 0) /* the kernel knows best */
            set_arg(r, c->time_arg, args[left]);
        else if (shorten_spec(t, args[c->time_arg], passed_ns))
            set_arg(r, c->time_arg, t->spare_at);
        return;
    }
    case HW_CALL_RING:
        if (shorten_ring(t, args[c->time_arg], passed_ns))
            set_arg(r, c->time_arg, t->spare_at + 16);
        return;
    }
}

/* True: its registers are others now. */
static bool begin_anew(const struct hw_thread *t, struct user_regs_struct *r)
{
    int64_t rc = (int64_t)r->rax;
    if ((int64_t)r->orig_rax < 0 || !((rc == -EINTR && begins_anew((int64_t)r->orig_rax)) ||
                                      (rc == RESTART_BLOCK && may_not_go_on(t, r))))
        return false;
    shorten(t, r);
    r->rax = (uint64_t)(int64_t)RESTART_NO_HAND;
    return true;
}

/* ---- the rest of a call that was cut ---- */

#define MOST_PIECES 10u /* of a vector, and a struct msghdr in front of them */
#define MESSAGE_AT  (HW_THREAD_SPARE_BYTES - 64u)

_Static_assert(MOST_PIECES * 16 <= MESSAGE_AT, "the spare bytes");

/* What is left of n pieces behind `done` bytes, at spare_at. Their number; 0 = not possible. */
static uint64_t rest_of_vector(const struct hw_thread *t, uint64_t at, uint64_t n, uint64_t done)
{
    uint64_t base, bytes, k = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (!read_word(t, at + 16 * i, &base) || !read_word(t, at + 16 * i + 8, &bytes))
            return 0;
        uint64_t skip = done < bytes ? done : bytes;
        done -= skip;
        if (skip == bytes)
            continue;
        if (k == MOST_PIECES || !write_word(t, t->spare_at + 16 * k, base + skip) ||
            !write_word(t, t->spare_at + 16 * k + 8, bytes - skip))
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
        if (!read_word(t, r->rsi + 8 * i, &words[i]))
            return false;
    words[3] = rest_of_vector(t, words[2], words[3], done);
    words[2] = t->spare_at;
    words[4] = words[5] = 0;
    for (unsigned i = 0; i < 7; i++)
        if (words[3] == 0 || !write_word(t, to + 8 * i, words[i]))
            return false;
    r->rsi = to;
    return true;
}

/* From now on r asks for what is left. */
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

/* A signal is due before the call could begin: as if it had ended, and then that. */
static int give_way(struct hw_thread *t, uintptr_t signal)
{
    if (!set_regs(t, regs_of(t)) || pt(PTRACE_CONT, t, 0, signal) < 0 ||
        pt(PTRACE_INTERRUPT, t, 0, 0) < 0)
        return HW_EGONE;
    int rc = wait_interrupted(t);
    return rc == HW_OK && !get_regs(t, regs_of(t)) ? HW_EGONE : rc;
}

/* Its entry and its exit. 1 = it has ended with *out, 0 = not begun. Interrupted when it is late.
 */
static int run_call(struct hw_thread *t, const struct user_regs_struct *r, uint64_t end_ns,
                    int64_t *out)
{
    struct user_regs_struct now;
    int status, n_stops = 0;
    if (!set_regs(t, r))
        return HW_EGONE;
    while (n_stops < 2) {
        if (pt(PTRACE_SYSCALL, t, 0, 0) < 0)
            return HW_EGONE;
        uint64_t time = hw_now_monotonic_ns();
        int rc = wait_stop(t, end_ns > time ? end_ns - time : 0, &status);
        if (rc == HW_ETIMEOUT) {
            if (pt(PTRACE_INTERRUPT, t, 0, 0) < 0)
                return HW_EGONE;
            rc = wait_stop(t, STOP_NS, &status);
        }
        if (rc < 0)
            return rc;
        if (WSTOPSIG(status) == (SIGTRAP | 0x80))
            n_stops++;
        else if (!is_event(status)) /* before the entry only */
            return give_way(t, (uintptr_t)WSTOPSIG(status));
    }
    if (!get_regs(t, &now))
        return HW_EGONE;
    *out = (int64_t)now.rax;
    return 1;
}

/*
 * The stop has cut it, so that it gave a part of what was asked for. Until the rest is done the
 * thread waits in a call of its own program, as it would without us.
 */
void hw_thread_finish_call(struct hw_thread *t, const struct hw_pid *pid, uint64_t timeout_ns)
{
    struct user_regs_struct *r = regs_of(t), rest;
    struct hw_call_now now = {.number = (int64_t)r->orig_rax};
    const struct hw_call *c = hw_call_find(now.number);
    uint64_t end_ns = hw_now_monotonic_ns() + timeout_ns;
    int64_t n = 0;
    for (unsigned i = 0; i < 6; i++)
        now.args[i] = arg_of(r, i);
    if (!c || now.number < 0 || (int64_t)r->rax <= 0 || !hw_call_was_cut(pid, &now))
        return;
    r->orig_rax = UINT64_MAX; /* it ends with that count, whatever comes */
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
        /* recvmmsg keeps our stop as an error of the socket, and gives it once. */
    } while ((n > 0 || n == -EINTR || n == RESTART_SYS) && hw_now_monotonic_ns() < end_ns);
    (void)set_regs(t, r);
    t->stopped_ns = hw_now_monotonic_ns();
}

/* Who has not stopped yet cannot be let go: it would stop then, and stand for as long as we live.
 */
static bool detach(struct hw_thread *t)
{
    int status;
    if (pt(PTRACE_DETACH, t, 0, 0) == 0)
        return true;
    int rc = wait_stop(t, STOP_NS, &status);
    if (rc != 1)
        return rc == HW_EGONE;
    bool signal = !is_event(status) && WSTOPSIG(status) != (SIGTRAP | 0x80);
    (void)pt(PTRACE_DETACH, t, 0, signal ? (uintptr_t)WSTOPSIG(status) : 0); /* it stands */
    return true;
}

/* The number is another thread's, which stands at the end of its exec: its registers are not ours
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
        (void)wait_stop(t, 0, &status); /* which lets it go */
        return true;
    }
    struct user_regs_struct *r = regs_of(t);
    if (t->saved && back_in_delivery(t) == HW_OK) {
        struct iovec io = {t->xstate, t->xstate_bytes};
        (void)pt(PTRACE_SETREGSET, t, NT_X86_STATE, (uintptr_t)&io); /* what was read is accepted */
        (void)pt(PTRACE_SETSIGMASK, t, sizeof t->kept_mask, (uintptr_t)&t->kept_mask);
    }
    if (t->known) {
        bool again = begin_anew(t, r);
        if (again || t->saved || t->moved)
            (void)set_regs(t, r);
    }
    bool gone = detach(t);
    t->seized = t->saved = false;
    return gone;
}

#else /* process.c has refused before */

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

void hw_thread_finish_call(struct hw_thread *t, const struct hw_pid *pid, uint64_t timeout_ns)
{
    (void)t, (void)pid, (void)timeout_ns;
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

bool hw_thread_waits_in_vain(struct hw_thread *t)
{
    (void)t;
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

void hw_thread_prepare(void)
{
}

const uint8_t hw_thread_code[1];
const uint32_t hw_thread_code_bytes = 1;

size_t hw_thread_state(const struct hw_thread *t, uint64_t at, uint8_t out[HW_THREAD_STATE_BYTES])
{
    (void)t, (void)at, (void)out;
    return 0;
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

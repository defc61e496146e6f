/*
 * thread_code.c - code that a stopped thread executes for us
 *
 * System calls and functions, run between save and release. The code returns to the program by
 * itself: should we die, the thread waits for two seconds and then resumes.
 */
#include "inject/remote/thread.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "inject/remote/thread_stops.h"

#include "base/banned.h"

#define SYSCALL_NS (1000 * UINT64_C(1000000))

/*
 * Does not end in a trap: a trap's signal would reach the program's own handler once we are gone,
 * and if the program ignores that signal, raising it ends that. The tracer polls a word instead,
 * and stops the thread in its wait. That is ppoll, since it is restarted without the kernel's
 * restart block: the one that is there belongs to the call that we have interrupted.
 */
__asm__(".pushsection .rodata\n\t.p2align 4\n\t.globl hw_thread_code\n"
        "hw_thread_code:\n\t"
        "call *%rax\n\tjmp 1f\n"        /* +0: a function */
        ".p2align 3, 0x90\n\tsyscall\n" /* +8: a system call */
        "1:\tmov %rax, 8(%rbx)\n\t"
        "movl $1, (%rbx)\n"
        "2:\tmovq $0, 16(%rbx)\n\tmovq $1000000, 24(%rbx)\n\t" /* the call leaves the rest here */
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
#define SW_AT      464u /* in the area of the vector registers: what software notes about it */
#define FP_MAGIC_1 0x46505853u
#define FP_MAGIC_2 0x46505845u
#define XTILE_DATA (UINT64_C(1) << 18) /* large, and only there for those who requested it */

_Static_assert(FRAME_AT + 8 + sizeof(ucontext_t) < XSTATE_AT, "the frame");

/* Where each part of the area of the vector registers ends. Asking the processor takes some 20
 * us per part in a virtual machine, so it is done while everything runs; all who do it write the
 * same values. */
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

size_t hw_thread_state(const struct hw_thread *t, uint64_t at, uint8_t out[HW_THREAD_STATE_BYTES])
{
    size_t n = XSTATE_AT;
    const struct user_regs_struct *r = (const struct user_regs_struct *)(const void *)t->words;
    struct state s = {.n_waits = N_WAITS, .frame_sp = at + FRAME_AT};
    ucontext_t u = {.uc_flags = 7,                     /* vector registers, and ss as it is there */
                    .uc_stack = {.ss_flags = 0x7777}}; /* no such stack: the thread keeps its own */
    greg_t *g = u.uc_mcontext.gregs;
    bool again = hw_thread_call_restarts(r); /* sigreturn does not do it */
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
    memcpy(&used, t->xstate + 512, sizeof used); /* those not in their initial state */
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

bool hw_thread_waits_for_dead_recorder(struct hw_thread *t)
{
    const struct user_regs_struct *r = hw_thread_saved_regs(t);
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

/* 1 = it is in its wait, with the result; else as hw_thread_wait_stop, and HW_ESYS: it crashed. */
static int wait_ready(struct hw_thread *t, uint64_t timeout_ns, struct state *s)
{
    uint64_t start = hw_now_monotonic_ns();
    int status, rc;
    for (;;) {
        if (!state_get(t, s))
            return HW_EGONE;
        rc = hw_thread_wait_stop(t, 0, &status);
        if (rc == HW_EGONE)
            return rc;
        if (rc == 1) {
            if (!hw_thread_is_event(status) && hw_thread_is_fault(WSTOPSIG(status)))
                return HW_ESYS;
            if (hw_thread_ptrace(PTRACE_CONT, t, 0, hw_thread_to_deliver(status)) < 0)
                return HW_EGONE;
            continue;
        }
        uint64_t spent = hw_now_monotonic_ns() - start;
        if (s->word != RUNNING || spent > timeout_ns)
            break;
        if (spent > HW_SPIN_NS) {
            struct timespec step = {0, 50000};
            (void)nanosleep(&step, NULL); /* a signal only shortens it */
        }
    }
    if (hw_thread_ptrace(PTRACE_INTERRUPT, t, 0, 0) < 0)
        return HW_EGONE;
    do {
        rc = hw_thread_wait_stop(t, HW_STOP_NS, &status);
        if (rc == 1 && !hw_thread_is_event(status) && hw_thread_is_fault(WSTOPSIG(status)))
            return HW_ESYS;
    } while (rc == 1 && !hw_thread_is_event(status) &&
             hw_thread_ptrace(PTRACE_CONT, t, 0, hw_thread_to_deliver(status)) == 0);
    if (rc < 0 || !state_get(t, s))
        return rc < 0 ? rc : HW_EGONE;
    if (s->word == GONE_ON) { /* we were away for so long that it no longer waits */
        t->saved = t->known = false;
        t->gone_on = true;
        return HW_EGONE;
    }
    return s->word == READY ? 1 : HW_ETIMEOUT;
}

/* From now on only signals that our own code raises are delivered. */
static bool mask_all(struct hw_thread *t)
{
    uint64_t most = ~UINT64_C(0);
    for (int s = 1; s < 32; s++)
        if (hw_thread_is_fault(s))
            most &= ~(UINT64_C(1) << (s - 1));
    if (!t->masked && hw_thread_ptrace(PTRACE_SETSIGMASK, t, sizeof most, (uintptr_t)&most) < 0)
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
    if (!state_begin(t) || !hw_thread_set_regs(t, r) || hw_thread_ptrace(PTRACE_CONT, t, 0, 0) < 0)
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
        if (hw_thread_ptrace(PTRACE_SYSCALL, t, 0, signal) < 0)
            return HW_EGONE;
        int rc = hw_thread_wait_stop(t, SYSCALL_NS, &status);
        if (rc < 0)
            return rc;
        if (WSTOPSIG(status) == (SIGTRAP | 0x80))
            return HW_OK;
        signal = hw_thread_to_deliver(status);
        if (!hw_thread_is_event(status) && !signal) /* it crashed on the way */
            return HW_ESYS;
    }
}

int hw_thread_syscall(struct hw_thread *t, long n, const uint64_t a[6], int64_t *out)
{
    struct user_regs_struct r = *hw_thread_saved_regs(t);
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
    if (t->boot_at) { /* if nobody stops it after the call: ret, and the return from a signal */
        r.rip = t->syscall_ret_at;
        r.rsp = t->boot_at + FRAME_AT - 8;
    }
    if (!hw_thread_set_regs(t, &r) || !mask_all(t)) /* in this order: a mask alone would stay */
        return HW_EGONE;
    int rc = syscall_stop(t);
    if (rc == HW_OK)
        rc = syscall_stop(t);
    if (rc == HW_OK && !hw_thread_get_regs(t, &r))
        rc = HW_EGONE;
    if (rc == HW_OK)
        *out = (int64_t)r.rax;
    return rc;
}

int hw_thread_call(struct hw_thread *t, uint64_t fn, uint64_t a, uint64_t b, uint64_t timeout_ns,
                   uint64_t *out)
{
    struct user_regs_struct r = *hw_thread_saved_regs(t);
    if (t->gone_on)
        return HW_EGONE;
    r.rax = fn;
    r.rdi = a, r.rsi = b, r.rdx = 0;
    return run_code(t, &r, 0, timeout_ns, out);
}

#else

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

bool hw_thread_waits_for_dead_recorder(struct hw_thread *t)
{
    (void)t;
    return false;
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

#endif

/*
 * sandbox.c - noticing that a program restricts its system calls
 *
 * From the moment a filter is set, any call of ours may be the program's last. The recorder sees
 * that in /proc within a second; we see it at once if it goes through libc: prctl, or syscall(2)
 * with the number of seccomp or prctl. Both hooks set our own word first, wait until no other
 * thread can be in a call of ours, and clear the word when the real call failed (programs probe for
 * filters that way). Everything else is a jump to the real function: arguments, frame and return
 * address stay as they are, as vfork by syscall(2) needs.
 *
 * A program that enters the kernel by itself (Go, Chromium's sandbox) is left to the recorder.
 */
#include <errno.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include "client/boot.h"
#include "client/client.h"
#include "client/hooks/memlock.h"
#include "client/hooks/sandbox.h"
#include "client/kernel/sys.h"
#include "client/session/client_session.h"

#define OTHERS_NS  1000000 /* longer than any step of a wait */
#define HANDSHAKES 220     /* how many: one takes 50 ms at most, in an armed process 200 */

typedef int prctl_fn(int, unsigned long, unsigned long, unsigned long, unsigned long);

/* Until the next definitions are known: constructors of libraries run before ours. */
static int raw_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
    return (int)hw_kernel(SYS_prctl, option, a, b, c, d);
}

static prctl_fn *real_prctl = raw_prctl;

void hw_sandbox_init(void)
{
    bool own;
    void *p = hw_boot_find("syscall", &own);
    if (p)
        *(void **)&hw_real_syscall = p;
    p = hw_boot_find("prctl", &own);
    if (p)
        *(void **)&real_prctl = p;
    hw_memlock_init(hw_boot_find("mlockall", &own));
}

static _Atomic uint32_t *begin(bool strict)
{
    hw_client_session_request_last();
    _Atomic uint32_t *word = strict ? &hw_sandbox_stricts : &hw_sandbox_filters;
    (void)atomic_fetch_add(word, 1);
    /* Other threads may be in a step of a wait, and a filter may be set for all threads. A
     * handshake checks the word again when it has the lock. */
    if (atomic_load(&hw_process_page.session) || atomic_load(&hw_process_page.session_lock))
        hw_sys_sleep_ns(OTHERS_NS);
    for (int i = 0; i < HANDSHAKES && atomic_load(&hw_process_page.session_lock); i++)
        hw_sys_sleep_ns(OTHERS_NS);
    return word;
}

__attribute__((noinline)) static int sandbox_prctl(int option, unsigned long mode, unsigned long b,
                                                   unsigned long c, unsigned long d)
{
    _Atomic uint32_t *word = begin(mode == SECCOMP_MODE_STRICT);
    int rc = real_prctl(option, mode, b, c, d);
    if (rc < 0)
        (void)atomic_fetch_sub(word, 1);
    return rc;
}

HW_EXPORT int hook_prctl(int option, unsigned long a, unsigned long b, unsigned long c,
                         unsigned long d) __asm__("prctl");
HW_EXPORT int hook_prctl(int option, unsigned long a, unsigned long b, unsigned long c,
                         unsigned long d)
{
    if (hw_unlikely(option == PR_SET_SECCOMP))
        return sandbox_prctl(option, a, b, c, d);
    return real_prctl(option, a, b, c, d);
}

/* Only for the numbers that hook_syscall selects. */
HW_HIDDEN long hw_sandbox_syscall(long n, long a, long b, long c, long d, long e, long f)
    __attribute__((used));
long hw_sandbox_syscall(long n, long a, long b, long c, long d, long e, long f)
{
    if (n == SYS_mlockall)
        return hw_memlock((int)a, /* by_number = */ true);
    bool strict = n == SYS_seccomp ? a == SECCOMP_SET_MODE_STRICT : b == SECCOMP_MODE_STRICT;
    bool sets = n == SYS_prctl || a == SECCOMP_SET_MODE_STRICT || a == SECCOMP_SET_MODE_FILTER;
    _Atomic uint32_t *word = sets ? begin(strict) : NULL;
    long rc = hw_real_syscall(n, a, b, c, d, e, f);
    if (rc != 0 && word) /* with SECCOMP_FILTER_FLAG_TSYNC also a thread's id; a listener's fd is */
        if (rc < 0 || n == SYS_prctl)
            (void)atomic_fetch_sub(word, 1);
    return rc;
}

#define STR_(x) #x
#define STR(x)  STR_(x)
#if defined(__x86_64__)
__asm__(
    ".text\n\t.p2align 4\n\t.globl syscall\n\t.type syscall, @function\n"
    "syscall:\n\t.cfi_startproc\n\tendbr64\n\t"
    "cmp $" STR(
        __NR_seccomp) ", %rdi\n\tje 1f\n\t"
                      "cmp $" STR(
                          __NR_mlockall) ", %rdi\n\tje 1f\n\t"
                                         "cmp $" STR(
                                             __NR_prctl) ", %rdi\n\tje 2f\n"
                                                         "0:\tjmp *hw_real_syscall(%rip)\n"
                                                         "2:\tcmp $" STR(
                                                             PR_SET_SECCOMP) ", %rsi\n\tjne 0b\n"
                                                                             "1:\tjmp "
                                                                             "hw_sandbox_"
                                                                             "syscall\n\t"
                                                                             ".cfi_endproc\n\t."
                                                                             "size syscall, "
                                                                             ". - syscall");
#elif defined(__i386__)
/* All arguments are on the stack; ecx is caller-saved, and locates our words. */
__asm__(
    ".text\n\t.p2align 4\n\t.globl syscall\n\t.type syscall, @function\n"
    "syscall:\n\t.cfi_startproc\n\tendbr32\n\t"
    "cmpl $" STR(
        __NR_seccomp) ", 4(%esp)\n\tje 1f\n\t"
                      "cmpl $" STR(
                          __NR_mlockall) ", 4(%esp)\n\tje 1f\n\t"
                                         "cmpl $" STR(
                                             __NR_prctl) ", 4(%esp)\n\tje 2f\n"
                                                         "0:\tcall 3f\n\t.cfi_adjust_cfa_offset 4\n"
                                                         "3:\tpop %ecx\n\t.cfi_adjust_cfa_offset "
                                                         "-4\n\t"
                                                         "add $_GLOBAL_OFFSET_TABLE_+(. - 3b), "
                                                         "%ecx\n\tjmp "
                                                         "*hw_real_syscall@GOTOFF(%ecx)\n"
                                                         "2:\tcmpl $" STR(
                                                             PR_SET_SECCOMP) ", 8(%esp)\n\tjne 0b\n"
                                                                             "1:\tjmp "
                                                                             "hw_sandbox_"
                                                                             "syscall\n\t.cfi_"
                                                                             "endproc\n\t."
                                                                             "size syscall, . - "
                                                                             "syscall");
#else
__asm__(".text\n\t.p2align 4\n\t.globl syscall\n\t.type syscall, %function\n"
        "syscall:\n\t.cfi_startproc\n\thint #34\n\t" /* bti c */
        "cmp x0, #" STR(
            __NR_seccomp) "\n\tb.eq 1f\n\t"
                          "cmp x0, #" STR(
                              __NR_mlockall) "\n\tb.eq 1f\n\t"
                                             "cmp x0, #" STR(
                                                 __NR_prctl) "\n\tb.eq 2f\n"
                                                             "0:\tadrp x16, hw_real_syscall\n\tldr "
                                                             "x16, [x16, "
                                                             ":lo12:hw_real_syscall]\n\tbr x16\n"
                                                             "2:\tcmp x1, #" STR(
                                                                 PR_SET_SECCOMP) "\n\tb.ne 0b\n"
                                                                                 "1:\tb "
                                                                                 "hw_sandbox_"
                                                                                 "syscall\n\t"
                                                                                 ".cfi_endproc\n\t."
                                                                                 "size "
                                                                                 "syscall, . - "
                                                                                 "syscall");
#endif

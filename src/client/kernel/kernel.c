/* kernel.c - system calls, and libc's errno afterwards */
#include "client/kernel/kernel.h"

#include <errno.h>

#if defined(__i386__)
/* The sixth argument's register is the frame pointer, which C cannot express. */
__asm__(".text\n\t.p2align 4\n\t.hidden hw_raw_call\n\t.globl hw_raw_call\n\t"
        ".type hw_raw_call, @function\nhw_raw_call:\n\t.cfi_startproc\n\t"
        "push %ebp\n\t.cfi_def_cfa_offset 8\n\t.cfi_offset %ebp, -8\n\t"
        "push %ebx\n\t.cfi_def_cfa_offset 12\n\t.cfi_offset %ebx, -12\n\t"
        "push %esi\n\t.cfi_def_cfa_offset 16\n\t.cfi_offset %esi, -16\n\t"
        "push %edi\n\t.cfi_def_cfa_offset 20\n\t.cfi_offset %edi, -20\n\t"
        "mov 20(%esp), %eax\n\tmov 24(%esp), %ebx\n\tmov 28(%esp), %ecx\n\tmov 32(%esp), %edx\n\t"
        "mov 36(%esp), %esi\n\tmov 40(%esp), %edi\n\tmov 44(%esp), %ebp\n\tint $0x80\n\t"
        "pop %edi\n\t.cfi_def_cfa_offset 16\n\tpop %esi\n\t.cfi_def_cfa_offset 12\n\t"
        "pop %ebx\n\t.cfi_def_cfa_offset 8\n\tpop %ebp\n\t.cfi_def_cfa_offset 4\n\tret\n\t"
        ".cfi_endproc\n\t.size hw_raw_call, . - hw_raw_call");
#endif

long hw_kernel_call(long n, long a, long b, long c, long d, long e, long f)
{
    long rc = hw_raw_call(n, a, b, c, d, e, f);
    if (rc >= -4095 && rc < 0) {
        errno = (int)-rc;
        return -1;
    }
    return rc;
}

/* What the program calls by that name; until it is known, the kernel itself. */
__attribute__((visibility("hidden"), used)) long (*hw_real_syscall)(long, long, long, long, long,
                                                                    long, long) = hw_kernel_call;

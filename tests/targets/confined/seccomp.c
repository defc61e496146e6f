/* seccomp.c - a filter that kills at any system call the program itself does not need */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "target.h"

SITE(fn_before)
SITE(fn_inside)
#define ALLOW(nr)                                                                                  \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

int main(void)
{
    for (int i = 0; i < 1000; i++)
        (void)!fn_before(50);
    setvbuf(stdout, NULL, _IOFBF, 4096);
    printf("filter on\n"); /* fstat of stdout happens here */
    fflush(stdout);
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_write),
        ALLOW(SYS_brk),
        ALLOW(SYS_mmap),
#ifdef SYS_mmap2
        ALLOW(SYS_mmap2),
#endif
        ALLOW(SYS_munmap),
        ALLOW(SYS_mremap),
        ALLOW(SYS_madvise),
        ALLOW(SYS_exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog prog = {.len = sizeof code / sizeof code[0], .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0)
        return 77;
    for (int i = 0; i < 20000; i++) {
        void *p = fn_inside(200 + (i % 100 == 0 ? 200000 : 0));
        if (i % 4)
            FREE_OF(fn_inside, p, 200 + (i % 100 == 0 ? 200000u : 0u));
    }
    expect(&site_fn_before, &site_fn_inside, NULL);
    _exit(0);
}

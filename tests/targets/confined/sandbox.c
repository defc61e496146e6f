/*
 * sandbox.c filter|strict|call - gives up its system calls, then does what its standard input says
 *
 * A byte a step: '.' allocates 400 blocks and keeps every fourth, 'j' none, 's' gives up the calls,
 * 'S' too and allocates much right behind, 'q' ends. Then anything but read, write and what malloc
 * needs (not even that when strict) kills. `call` gives them up by seccomp(2) instead of prctl.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "target.h"

SITE(fn_inside)
#define ALLOW(nr)                                                                                  \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static int give_up_calls(const char *how)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_read),
        ALLOW(SYS_write),
        ALLOW(SYS_brk),
        ALLOW(SYS_mmap),
        ALLOW(SYS_exit),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog prog = {.len = sizeof code / sizeof code[0], .filter = code};
    if (strcmp(how, "strict") == 0)
        return prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    /* Programs ask like this whether there are filters; it fails and changes nothing. */
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0) == 0)
        return -1;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -1;
    return strcmp(how, "call") == 0 ? (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog)
                                    : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

int main(int argc, char **argv)
{
    char c;
    mallopt(M_TOP_PAD, 64 << 20);
    free(malloc(1000));
    printf("ready 1\n");
    fflush(stdout);
    while (read(0, &c, 1) == 1 && c != 'q') {
        if ((c == 's' || c == 'S') && give_up_calls(argc > 1 ? argv[1] : "filter") < 0)
            return 77;
        for (int i = 0; i < 400 && (c == '.' || c == 'j'); i++) {
            void *p = fn_inside(200);
            if (i % 4 || c == 'j')
                FREE_OF(fn_inside, p, 200);
        }
        for (int i = 0; i < 40000 && c == 'S'; i++)
            FREE_OF(fn_inside, fn_inside(100), 100);
        printf("ok\n");
        fflush(stdout);
    }
    expect(&site_fn_inside, NULL);
    syscall(SYS_exit, 0);
}

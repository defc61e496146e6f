/* raw_fork.c - children no fork handler hears of: the bare clone system call, and _Fork */
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "target.h"

pid_t _Fork(void) __attribute__((weak)); /* glibc 2.34 */

SITE(fn_parent)
SITE(fn_child)

int main(void)
{
    void *p[20];
    for (int i = 0; i < 20; i++)
        p[i] = fn_parent(300);
    for (int round = 0; round < 6; round++) {
        fflush(stdout);
        pid_t pid = round % 2 && _Fork ? _Fork() : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (pid == 0) {
            for (int i = 0; i < 20; i++)
                free(p[i]);
            for (int i = 0; i < 1000; i++)
                p[i % 20] = fn_child(300);
            _exit(p[0] ? 9 : 1);
        }
        int st;
        waitpid(pid, &st, 0);
        printf("child ended with %d\n", WEXITSTATUS(st));
        FREE_OF(fn_parent, p[round], 300);
        p[round] = fn_parent(400);
    }
    expect(&site_fn_parent, &site_fn_child, NULL);
    return 0;
}

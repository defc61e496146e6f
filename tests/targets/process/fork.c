/* fork.c - a child of fork() allocates and frees; only the parent's work is the parent's profile */
#include <sys/wait.h>
#include <unistd.h>

#include "target.h"

SITE(fn_parent)
SITE(fn_child)

int main(void)
{
    void *p[100];
    for (int i = 0; i < 100; i++)
        p[i] = fn_parent(1000);
    for (int round = 0; round < 5; round++) {
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            for (int i = 0; i < 100; i++) {
                free(p[i]); /* the child's copy: the parent's block lives on */
                p[i] = fn_child(3000);
            }
            _exit(p[99] ? 3 : 4);
        }
        int st;
        waitpid(pid, &st, 0);
        printf("child ended with %d\n", WEXITSTATUS(st));
        FREE_OF(fn_parent, p[round], 1000);
        p[round] = fn_parent(500);
    }
    expect(&site_fn_parent, &site_fn_child, NULL); /* fn_child: nothing in this process */
    return 0;
}

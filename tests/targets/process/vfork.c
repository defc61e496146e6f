/* vfork.c - a vfork child that allocates: it runs in our memory, so its books are ours */
#include <sys/wait.h>
#include <unistd.h>

#include "target.h"

SITE(fn_parent)
SITE(fn_child)

NOIPA static pid_t spawn(int i)
{
    /* volatile: the child runs on this frame */
    static void *volatile from_child;
    pid_t pid = vfork();
    if (pid == 0) {
        from_child = fn_child(200);
        if (i % 2) {
            FREE_OF(fn_child, from_child, 200);
            execl("/bin/true", "true", (char *)NULL);
        }
        _exit(5);
    }
    return pid;
}

int main(void)
{
    for (int i = 0; i < 20; i++) {
        void *p = fn_parent(100);
        int st;
        pid_t pid = spawn(i);
        waitpid(pid, &st, 0);
        printf("child %d ended with %d\n", i, WEXITSTATUS(st));
        if (i < 10)
            FREE_OF(fn_parent, p, 100);
    }
    expect(&site_fn_parent, &site_fn_child, NULL);
    return 0;
}

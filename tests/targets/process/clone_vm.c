/* clone_vm.c - clone(CLONE_VM) without CLONE_THREAD: another process in our memory, our books */
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "target.h"

SITE(fn_parent)
SITE(fn_child)
static void *from_child[50];

static int child(void *arg)
{
    (void)arg;
    for (int i = 0; i < 50; i++)
        from_child[i] = fn_child(64);
    for (int i = 0; i < 20; i++)
        FREE_OF(fn_child, from_child[i], 64);
    return 6;
}

int main(void)
{
    size_t size = 1 << 18;
    char *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED)
        return 1;
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 10; i++)
            (void)!fn_parent(128);
        int st;
        pid_t pid = clone(child, stack + size, CLONE_VM | SIGCHLD, NULL);
        waitpid(pid, &st, 0);
        printf("child ended with %d\n", WEXITSTATUS(st));
        for (int i = 20; i < 50; i += 2)
            FREE_OF(fn_child, from_child[i], 64);
    }
    expect(&site_fn_parent, &site_fn_child, NULL);
    return 0;
}

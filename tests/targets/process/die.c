/* die.c HOW - ends in the way its argument says, after 100 allocations */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "target.h"

SITE(fn_a)

static void at_exit(void)
{
    (void)!fn_a(10); /* 101st: only where handlers run */
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "return";
    for (int i = 0; i < 100; i++)
        (void)!fn_a(10);
    atexit(at_exit);
    printf("ending by %s\n", how);
    fflush(stdout);
    if (strcmp(how, "exit") == 0)
        exit(7);
    if (strcmp(how, "_exit") == 0)
        _exit(8);
    if (strcmp(how, "quick_exit") == 0)
        quick_exit(9);
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "segv") == 0)
        *(volatile int *)(uintptr_t)argc = 1;
    if (strcmp(how, "kill") == 0)
        kill(getpid(), SIGKILL);
    if (strcmp(how, "term") == 0)
        kill(getpid(), SIGTERM);
    if (strcmp(how, "pthread_exit") == 0)
        pthread_exit(NULL);
    return 6;
}

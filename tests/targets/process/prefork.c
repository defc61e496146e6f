/*
 * prefork.c - a server that forks its workers all at once
 *
 * prefork ROUNDS WORKERS MS LATE: in each round as many workers as said are started together. Each
 * allocates at once in fn_early. After MS milliseconds it does LATE times 20 KiB of fn_late, and
 * ends. Prints the workers' pids.
 */
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "target.h"

SITE(fn_early)
SITE(fn_late)

static void wait_ms(long ms)
{
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0) {
    }
}

static void work(long ms, long n_late)
{
    void *p = fn_early(20 * 1024);
    wait_ms(ms);
    for (long i = 0; i < n_late; i++)
        *(volatile char *)fn_late(20 * 1024) = 1;
    free(p);
    _exit(0);
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 1, n = argc > 2 ? atol(argv[2]) : 4;
    long ms = argc > 3 ? atol(argv[3]) : 10, n_late = argc > 4 ? atol(argv[4]) : 1;
    free(fn_late(20 * 1024)); /* the parent is known */
    for (long r = 0; r < rounds; r++) {
        for (long i = 0; i < n; i++) {
            pid_t pid = fork();
            if (pid == 0)
                work(ms, n_late);
            if (argc > 1)
                printf("pid %d\n", (int)pid);
            fflush(stdout);
        }
        for (long i = 0; i < n; i++)
            wait(NULL);
    }
    return 0;
}

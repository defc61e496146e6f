/*
 * storm.c - starts a program again and again, at a rate
 *
 * usage: storm N RATE PROGRAM [ARG...]     RATE 0: one after the other
 * prints: starts a second, and of posix_spawn + exit + wait the median and the longest in us
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    long n = strtol(argv[1], NULL, 10), rate = strtol(argv[2], NULL, 10);
    double *took = calloc((size_t)n, sizeof *took), begin = now_us();
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
    for (long i = 0; took && i < n; i++) {
        pid_t pid;
        double due = rate ? begin + (double)i * 1e6 / (double)rate : 0, start = now_us();
        if (start < due)
            usleep((useconds_t)(due - start));
        start = now_us();
        if (posix_spawn(&pid, argv[3], &quiet, NULL, argv + 3, environ) != 0)
            return 1;
        waitpid(pid, NULL, 0);
        took[i] = now_us() - start;
    }
    double whole = now_us() - begin;
    if (!took)
        return 1;
    qsort(took, (size_t)n, sizeof *took, compare);
    printf("%.0f %.0f %.0f\n", (double)n * 1e6 / whole, took[n / 2], took[n - 1]);
    return 0;
}

/*
 * turns.c - a program that may be held at its exec, by turns with the same one that cannot be
 *
 * usage: turns N PROGRAM
 * prints: us that posix_spawn + exit + wait of the first takes longer: median and middle half of N
 *
 * The second is a memory file: its file system is mounted nowhere, so nobody is asked about it. What
 * else keeps the machine busy changes more slowly than the two do.
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WARM 10

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

static double start_to_end(char *program)
{
    char name[] = "other", *argv[] = {name, NULL};
    pid_t pid;
    double start = now_us();
    if (posix_spawn(&pid, program, NULL, NULL, argv, environ) != 0)
        exit(1);
    waitpid(pid, NULL, 0);
    return now_us() - start;
}

/* Who has it open for writing must not be there when it is executed. */
static int copy(const char *program, char name[40])
{
    int in = open(program, O_RDONLY | O_CLOEXEC), out = memfd_create("other", 0);
    ssize_t n;
    while ((n = sendfile(out, in, NULL, 1 << 20)) > 0)
        ;
    (void)snprintf(name, 40, "/proc/self/fd/%d", out);
    int again = open(name, O_RDONLY);
    (void)snprintf(name, 40, "/proc/self/fd/%d", again);
    close(in);
    close(out);
    return n < 0 || again < 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
    char memory[40];
    long n = argc == 3 ? strtol(argv[1], NULL, 10) : 0;
    double *longer = calloc((size_t)(n > 0 ? n : 1), sizeof *longer);
    if (n < 4 || !longer || copy(argv[2], memory) < 0)
        return 2;
    for (long i = -WARM; i < n; i++) {
        double first = i % 2 ? start_to_end(memory) : 0;
        double held = start_to_end(argv[2]);
        double other = i % 2 ? first : start_to_end(memory);
        if (i >= 0)
            longer[i] = held - other;
    }
    qsort(longer, (size_t)n, sizeof *longer, compare);
    printf("%.1f %.1f %.1f\n", longer[n / 2], longer[n / 4], longer[n - n / 4]);
    return 0;
}

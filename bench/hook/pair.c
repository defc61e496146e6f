/*
 * pair.c [SIZE [ROUNDS]] - ns of one malloc(SIZE) + free: the best and the median of ROUNDS rounds
 *
 * Thread CPU time, so that a busy machine adds little; the best round is what the code costs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PAIRS = 400000, MAX_ROUNDS = 501 };

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    size_t size = argc > 1 ? strtoul(argv[1], NULL, 0) : 64;
    int rounds = argc > 2 ? atoi(argv[2]) : 41;
    static double ns[MAX_ROUNDS];
    if (rounds < 1 || rounds > MAX_ROUNDS)
        return 2;
    for (int r = 0; r < rounds; r++) {
        double t = now_ns();
        for (int i = 0; i < PAIRS; i++) {
            void *p = malloc(size);
            __asm__ volatile("" : "+r"(p)); /* the pair must not be optimised away */
            free(p);
        }
        ns[r] = (now_ns() - t) / PAIRS;
    }
    qsort(ns, (size_t)rounds, sizeof *ns, order);
    printf("%.2f %.2f\n", ns[0], ns[rounds / 2]);
    return 0;
}

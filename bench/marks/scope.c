/*
 * scope.c [ROUNDS [CALLS PAUSE_US]] - ns of a scope, of a type, and of the empty function around
 * them, best of ROUNDS of CALLS calls with a pause behind each
 *
 * A block of 1 MiB first: with a session it is a sample, after which the thread has its memory.
 */
#include <heapwise/heap_profile.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

__attribute__((noinline)) static void nothing(void)
{
    __asm__ volatile("");
}

__attribute__((noinline)) static void scope(void)
{
    HEAPWISE_TRACE_EVENT("bench", "scope");
    __asm__ volatile("");
}

__attribute__((noinline)) static void type(void)
{
    HEAPWISE_TYPE_SCOPE("type");
    __asm__ volatile("");
}

int main(int argc, char **argv)
{
    static void (*const what[])(void) = {nothing, scope, type};
    static const char *const name[] = {"nothing", "scope", "type"};
    int rounds = argc > 1 ? atoi(argv[1]) : 15;
    int calls = argc > 3 ? atoi(argv[2]) : 1000000;
    long pause_us = argc > 3 ? atol(argv[3]) : 0;
    struct timespec pause = {pause_us / 1000000, pause_us % 1000000 * 1000};
    double best[3] = {1e9, 1e9, 1e9};
    void *volatile block = malloc(1 << 20);
    for (int r = 0; r < rounds; r++)
        for (int w = 0; w < 3; w++) {
            double t = now_ns();
            for (int i = 0; i < calls; i++)
                what[w]();
            t = (now_ns() - t) / calls;
            if (t < best[w])
                best[w] = t;
            if (pause_us)
                (void)nanosleep(&pause, NULL);
        }
    for (int w = 0; w < 3; w++)
        printf("%s %.2f%s", name[w], best[w], w < 2 ? "  " : "\n");
    free(block);
    return 0;
}

/* pairs.c - "N" on stdin: N times malloc and free of 64 bytes; prints the nanoseconds of CPU it took */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t cpu_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* it is there */
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int main(void)
{
    char line[64];
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        long n = strtol(line, NULL, 10);
        uint64_t start = cpu_ns();
        for (long i = 0; i < n; i++) {
            void *volatile p = malloc(64);
            free(p);
        }
        printf("%llu\n", (unsigned long long)(cpu_ns() - start));
        fflush(stdout);
    }
    return 0;
}

/*
 * probed.c - so many bytes on request, for who counts by probes
 *
 * Commands by lines: "run THREADS BLOCKS" allocates BLOCKS blocks in each of THREADS new threads
 * and here, of sizes from 16 bytes to 1 MiB, moves every tenth by realloc and frees all; "keep N"
 * allocates N blocks of 4096 and frees none; "fork THREADS BLOCKS" does a run in a child. The
 * answer to each is what was asked of malloc and realloc together, in bytes.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static _Atomic uint64_t asked;
static unsigned n_blocks;
extern char *probed_kept[];
char *probed_kept[100000];

static void *run(void *arg)
{
    static const size_t sizes[] = {16, 48, 200, 1000, 3000, 20000};
    uint64_t sum = 0;
    enum { WINDOW = 64 };
    char *held[WINDOW] = {NULL};
    (void)arg;
    for (unsigned i = 0; i < n_blocks; i++) {
        char **at = &held[i % WINDOW];
        size_t n = i % 1000 == 999 ? 1024 * 1024 : sizes[i % 6];
        free(*at);
        *at = malloc(n);
        sum += n;
        if (*at && i % 10 == 0) {
            char *q = realloc(*at, 2 * n);
            if (q)
                *at = q;
            sum += 2 * n;
        }
    }
    for (unsigned i = 0; i < WINDOW; i++)
        free(held[i]);
    asked += sum;
    return NULL;
}

static void run_all(unsigned n_threads)
{
    pthread_t threads[16];
    for (unsigned i = 0; i < n_threads; i++)
        if (pthread_create(&threads[i], NULL, run, NULL) != 0)
            abort();
    (void)run(NULL);
    for (unsigned i = 0; i < n_threads; i++)
        (void)pthread_join(threads[i], NULL);
}

int main(void)
{
    char line[64];
    unsigned n_threads, n, n_kept = 0;
    setvbuf(stdout, NULL, _IONBF, 0);
    puts("ready");
    while (fgets(line, sizeof line, stdin)) {
        asked = 0;
        if (sscanf(line, "run %u %u", &n_threads, &n_blocks) == 2 && n_threads <= 16) {
            run_all(n_threads);
        } else if (sscanf(line, "fork %u %u", &n_threads, &n_blocks) == 2 && n_threads <= 16) {
            pid_t child = fork();
            if (child == 0) {
                run_all(n_threads);
                printf("%llu\n", (unsigned long long)asked);
                _exit(0);
            }
            (void)waitpid(child, NULL, 0);
            continue;
        } else if (sscanf(line, "keep %u", &n) == 1) {
            for (; n > 0 && n_kept < 100000; n--) {
                probed_kept[n_kept++] = malloc(4096);
                asked += 4096;
            }
        } else {
            break;
        }
        printf("%llu\n", (unsigned long long)asked);
    }
    return 0;
}

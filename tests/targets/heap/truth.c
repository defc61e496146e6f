/*
 * truth.c - 26 functions fn_a … fn_z that allocate known amounts with known lifetimes
 *
 * Usage: truth [SCALE [THREADS]]: as many threads do all of it at once
 * Function i has an object size of its own and allocates about 16 MiB x SCALE divided by (1 + i %
 * 5). What happens to its objects is i % 4: all are kept, each is freed at once, every second is
 * kept, or all live together and then go. Each is reached through two callers, three quarters and
 * one quarter of the work, so that whole callstacks can be checked.
 */
#include <pthread.h>

#include "target.h"

enum { N = 26 };
static const unsigned sizes[N] = {16,   24,   40,   56,   64,    72,    100,    144,    192,
                                  250,  333,  400,  512,  640,   777,   1024,   1300,   2000,
                                  3072, 4096, 5000, 8192, 12345, 33333, 100000, 1000000};
static _Thread_local void *kept; /* of a thread: nothing is shared but the counters */

NOIPA static void churn(int i, long n, void *(*site)(size_t), struct site *s)
{
    size_t z = sizes[i];
    void *group = NULL;
    for (long k = 0; k < n; k++) {
        void **p = site(z);
        switch (i % 4) {
        case 1:
            free(p);
            site_sub(s, z);
            break;
        case 2:
            if (k & 1) {
                free(p);
                site_sub(s, z);
                break;
            }
            /* fallthrough */
        case 0:
            *p = kept;
            kept = p;
            break;
        case 3:
            *p = group;
            group = p;
            break;
        }
    }
    while (group) {
        void *next = *(void **)group;
        free(group);
        site_sub(s, z);
        group = next;
    }
}

/* clang-format off */
#define LETTERS(X)                                                                                 \
    X(a) X(b) X(c) X(d) X(e) X(f) X(g) X(h) X(i) X(j) X(k) X(l) X(m)                               \
    X(n) X(o) X(p) X(q) X(r) X(s) X(t) X(u) X(v) X(w) X(x) X(y) X(z)
/* clang-format on */
#define DEFINE(c)                                                                                  \
    SITE(fn_##c)                                                                                   \
    NOIPA static void most_##c(int i, long n)                                                      \
    {                                                                                              \
        churn(i, n, fn_##c, &site_fn_##c);                                                         \
        __asm__ volatile("");                                                                      \
    }                                                                                              \
    NOIPA static void rest_##c(int i, long n)                                                      \
    {                                                                                              \
        churn(i, n, fn_##c, &site_fn_##c);                                                         \
        __asm__ volatile("");                                                                      \
    }
LETTERS(DEFINE)

static const struct {
    void (*most)(int, long), (*rest)(int, long);
    struct site *site;
} fns[N] = {
#define ROW(c) {most_##c, rest_##c, &site_fn_##c},
    LETTERS(ROW)
#undef ROW
};

static double scale = 0.05;

NOIPA static void *work(void *arg)
{
    for (int i = 0; i < N; i++) {
        long n = (long)(scale * 16777216.0 / (1 + i % 5) / sizes[i]);
        if (n < 8)
            n = 8;
        fns[i].most(i, n - n / 4);
        fns[i].rest(i, n / 4);
    }
    return arg;
}

int main(int argc, char **argv)
{
    pthread_t t[64];
    int threads = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 0;
    if (argc > 1)
        scale = strtod(argv[1], NULL);
    for (int i = 0; i < threads && i < 64; i++)
        if (pthread_create(&t[i], NULL, work, NULL) != 0)
            return 1;
    for (int i = 0; i < threads && i < 64; i++)
        pthread_join(t[i], NULL);
    if (threads == 0)
        (void)work(NULL);
    for (int i = 0; i < N; i++)
        expect_one(fns[i].site);
    return 0;
}

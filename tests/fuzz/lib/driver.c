/*
 * driver.c - runs a fuzz entry without libFuzzer
 *
 * Why:    `make test` needs nothing but gcc, and the same inputs every time.
 * Usage:  NAME_fuzz [-seconds=N] [-runs=N] [-seed=N] [-max=BYTES] [CORPUS-DIR | FILE]...
 *
 * First every corpus file as it is and cut short at every length up to 512 bytes, then mutations of
 * them until the time is up (HW_FUZZ_SECONDS, default 2). An input that crashes or takes longer
 * than 10 s is written to ./crash-NAME before the process dies, so that `NAME_fuzz crash-NAME`
 * repeats it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv) __attribute__((weak));
void __sanitizer_set_death_callback(void (*cb)(void)) __attribute__((weak));

enum { MAX_SEEDS = 4096, HANG_SECONDS = 10 };

struct seed {
    uint8_t *p;
    size_t n;
};
static struct seed seeds[MAX_SEEDS];
static size_t n_seeds;
static size_t max_bytes = 65536;
static const char *name = "fuzz";
static uint64_t rng_state = 0x9e3779b97f4a7c15u;

/* The input being run, for whoever must write it down. */
static const uint8_t *current;
static size_t current_n;

static uint64_t rnd(void)
{
    uint64_t x = rng_state; /* xorshift64*: same inputs on every machine */
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    rng_state = x;
    return x * 0x2545f4914f6cdd1du;
}

static size_t below(size_t n)
{
    return n ? (size_t)(rnd() % n) : 0;
}

/* Async-signal-safe: open, write, nothing else. */
static void save_current(void)
{
    char path[256] = "crash-";
    strncat(path, name, sizeof path - 8);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return;
    ssize_t w = write(fd, current, current_n);
    static const char said[] = "\ninput saved as ./crash-*\n";
    w += write(2, said, sizeof said - 1);
    (void)w; /* dying anyway */
    close(fd);
}

static void on_signal(int sig)
{
    save_current();
    static const char hang[] = "input takes longer than 10 s\n";
    if (sig == SIGALRM && write(2, hang, sizeof hang - 1) < 0)
        _exit(2);
    signal(sig, SIG_DFL);
    raise(sig == SIGALRM ? SIGABRT : sig);
}

static void run_one(const uint8_t *p, size_t n)
{
    /* Exactly as large as the input, so that ASan sees the first byte read past it. */
    uint8_t *copy = malloc(n ? n : 1);
    if (!copy)
        abort();
    if (n)
        memcpy(copy, p, n);
    current = copy;
    current_n = n;
    alarm(HANG_SECONDS);
    (void)LLVMFuzzerTestOneInput(n ? copy : NULL, n);
    alarm(0);
    free(copy);
}

static void add_seed_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || n_seeds == MAX_SEEDS) {
        if (fd >= 0)
            close(fd);
        return;
    }
    size_t n = (size_t)st.st_size;
    uint8_t *p = malloc(n ? n : 1);
    size_t got = 0;
    while (p && got < n) {
        ssize_t r = read(fd, p + got, n - got);
        if (r <= 0)
            break;
        got += (size_t)r;
    }
    close(fd);
    if (p)
        seeds[n_seeds++] = (struct seed){p, got};
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name); /* not the locale's order: runs repeat */
}

static void add_seeds(const char *path)
{
    struct dirent **list;
    int n = scandir(path, &list, NULL, by_name);
    if (n < 0) {
        add_seed_file(path);
        return;
    }
    for (int i = 0; i < n; i++) {
        char file[4096];
        if (snprintf(file, sizeof file, "%s/%s", path, list[i]->d_name) < (int)sizeof file)
            add_seed_file(file);
        free(list[i]);
    }
    free(list);
}

/* One change to buf of n bytes (room for max_bytes); gives the new length. */
static size_t mutate(uint8_t *buf, size_t n)
{
    static const uint64_t odd[] = {0,         1,          0x7f,       0x80,     0xff,
                                   0x7fff,    0xffff,     0x7fffffff, 1u << 31, UINT32_MAX,
                                   INT64_MAX, UINT64_MAX, 1ull << 63, 4096,     65536};
    size_t at = below(n), len = 1 + below(16);
    switch (below(8)) {
    case 0: /* one bit */
        if (n)
            buf[at] ^= (uint8_t)(1u << below(8));
        return n;
    case 1: /* one byte */
        if (n)
            buf[at] = (uint8_t)rnd();
        return n;
    case 2: { /* a number that is often mistreated, 1-8 bytes */
        uint64_t v = odd[below(sizeof odd / sizeof odd[0])] + below(3) - 1;
        size_t w = (size_t)1 << below(4);
        if (n - at >= w && n)
            memcpy(buf + at, &v, w);
        return n;
    }
    case 3: /* cut out */
        if (len > n - at)
            len = n - at;
        memmove(buf + at, buf + at + len, n - at - len);
        return n - len;
    case 4: /* cut off */
        return at;
    case 5: /* insert */
        if (n + len > max_bytes)
            return n;
        memmove(buf + at + len, buf + at, n - at);
        for (size_t i = 0; i < len; i++)
            buf[at + i] = (uint8_t)(rnd() & 1 ? rnd() : buf[below(n + len)]);
        return n + len;
    case 6: { /* copy a run over another place */
        size_t from = below(n);
        len = 1 + below(64);
        if (len > n - (from > at ? from : at))
            len = n - (from > at ? from : at);
        memmove(buf + at, buf + from, len);
        return n;
    }
    default: { /* the tail of another seed */
        const struct seed *s = &seeds[below(n_seeds)];
        size_t from = below(s->n), take = s->n - from;
        if (take > max_bytes - at)
            take = max_bytes - at;
        if (take)
            memcpy(buf + at, s->p + from, take);
        return at + take;
    }
    }
}

static double now_s(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static uint64_t mutate_until(double end, uint64_t max_runs)
{
    uint8_t *buf = malloc(max_bytes + 8);
    if (!buf)
        abort();
    uint64_t runs = 0;
    while (runs < max_runs && now_s() < end) {
        const struct seed *s = &seeds[below(n_seeds)];
        size_t n = s->n < max_bytes ? s->n : max_bytes;
        if (n)
            memcpy(buf, s->p, n);
        for (size_t k = 1 + below(6); k > 0; k--)
            n = mutate(buf, n);
        run_one(buf, n);
        runs++;
    }
    free(buf);
    return runs;
}

static uint64_t corpus_and_prefixes(double end)
{
    uint64_t runs = 0;
    for (size_t i = 0; i < n_seeds; i++) {
        run_one(seeds[i].p, seeds[i].n);
        runs++;
    }
    for (size_t i = 0; i < n_seeds && now_s() < end; i++)
        for (size_t n = 0; n < seeds[i].n && n < 512 && now_s() < end; n++, runs++)
            run_one(seeds[i].p, n);
    return runs;
}

int main(int argc, char **argv)
{
    const char *env = getenv("HW_FUZZ_SECONDS");
    double seconds = env ? strtod(env, NULL) : 2;
    uint64_t max_runs = UINT64_MAX;
    bool one_file = false;

    if (LLVMFuzzerInitialize)
        LLVMFuzzerInitialize(&argc, &argv);
    name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
    for (int i = 1; i < argc; i++) {
        struct stat st;
        if (strncmp(argv[i], "-seconds=", 9) == 0)
            seconds = strtod(argv[i] + 9, NULL);
        else if (strncmp(argv[i], "-runs=", 6) == 0)
            max_runs = strtoull(argv[i] + 6, NULL, 10);
        else if (strncmp(argv[i], "-seed=", 6) == 0)
            rng_state ^= strtoull(argv[i] + 6, NULL, 10);
        else if (strncmp(argv[i], "-max=", 5) == 0)
            max_bytes = strtoull(argv[i] + 5, NULL, 10);
        else {
            one_file |= stat(argv[i], &st) == 0 && S_ISREG(st.st_mode);
            add_seeds(argv[i]);
        }
    }
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(save_current);
    else
        for (size_t i = 0; i < 5; i++)
            signal((int[]){SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL}[i], on_signal);
    signal(SIGALRM, on_signal);
    if (n_seeds == 0)
        seeds[n_seeds++] = (struct seed){calloc(1, 64), 64};

    double start = now_s();
    uint64_t runs = corpus_and_prefixes(one_file ? start : start + seconds / 2);
    if (!one_file)
        runs += mutate_until(start + seconds, max_runs);
    printf("%s: %llu inputs from %zu seeds in %.1f s\n", name, (unsigned long long)runs, n_seeds,
           now_s() - start);
    for (size_t i = 0; i < n_seeds; i++)
        free(seeds[i].p);
    return 0;
}

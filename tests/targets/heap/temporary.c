/*
 * temporary - blocks with known lives, on three threads
 *
 * fn_at_once: freed in the next line; fn_moved: a chain of realloc, each of which frees the block before, the last one
 * kept; fn_handed: freed by another thread; fn_late: freed after more than a second; fn_kept: never. Behind the usual
 * lines it says of each how much was freed within a second for certain, and at most ("TEMPORARY fn bytes count bytes
 * count"): the clock is read on both sides of every call, as nobody knows how long a busy machine lets a thread wait.
 */
#include <pthread.h>
#include <time.h>

#include "target.h"

enum { THREADS = 3, ROUNDS = 400, LATE = 100, CHAIN = 20 };

static const int64_t second = 1000000000, surely_more = 1004000000;

struct temporary {
    _Atomic uint64_t least, least_objs, most, most_objs;
};

struct block {
    char *p;
    size_t n;
    int64_t before, after; /* the call */
};

static int64_t now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return t.tv_sec * second + t.tv_nsec;
}

SITE(fn_at_once)
SITE(fn_handed)
SITE(fn_late)
SITE(fn_kept)
static struct site site_fn_moved = {.name = "fn_moved"};
static struct temporary at_once, handed, late, moved;

NOIPA static void *fn_moved(void *old, size_t old_n, size_t n)
{
    void *p = realloc(old, n);
    if (old)
        site_sub(&site_fn_moved, old_n);
    return site_add(&site_fn_moved, p, n);
}

static void ends(struct temporary *t, const struct block *b, int64_t before)
{
    if (now() - b->before <= second) {
        t->least += b->n;
        t->least_objs++;
    }
    if (before - b->after < surely_more) {
        t->most += b->n;
        t->most_objs++;
    }
}

static struct block made(void *(*make)(size_t), size_t n)
{
    struct block b = {.n = n, .before = now()};
    b.p = make(n);
    b.after = now();
    return b;
}

static void give_back(struct site *s, struct temporary *t, const struct block *b)
{
    int64_t before = now();
    site_sub(s, b->n);
    free(b->p);
    ends(t, b, before);
}

static void move_on(void)
{
    struct block b = {0};
    for (size_t i = 1; i <= CHAIN; i++) {
        struct block next = {.n = i * 100, .before = now()};
        next.p = fn_moved(b.p, b.n, next.n);
        if (b.p)
            ends(&moved, &b, next.before);
        next.after = now();
        b = next;
    }
}

static struct block to_other[THREADS][ROUNDS];
static pthread_barrier_t barrier;

static void *work(void *arg)
{
    size_t me = (size_t)(uintptr_t)arg;
    struct block later[LATE];
    for (size_t i = 0; i < LATE; i++)
        later[i] = made(fn_late, 50 + i);
    for (size_t i = 0; i < ROUNDS; i++) {
        struct block b = made(fn_at_once, 1 + i % 300);
        give_back(&site_fn_at_once, &at_once, &b);
        to_other[me][i] = made(fn_handed, 32 + me);
    }
    for (size_t i = 0; i < 10; i++) {
        move_on();
        (void)fn_kept(77);
    }
    (void)pthread_barrier_wait(&barrier);
    for (size_t i = 0; i < ROUNDS; i++)
        give_back(&site_fn_handed, &handed, &to_other[(me + 1) % THREADS][i]);
    while (now() - later[LATE - 1].after < surely_more) {
        struct timespec t = {0, 50000000};
        (void)nanosleep(&t, NULL);
    }
    for (size_t i = 0; i < LATE; i++)
        give_back(&site_fn_late, &late, &later[i]);
    return NULL;
}

static void say(const char *name, const struct temporary *t)
{
    printf("TEMPORARY %s %llu %llu %llu %llu\n", name, (unsigned long long)t->least,
           (unsigned long long)t->least_objs, (unsigned long long)t->most,
           (unsigned long long)t->most_objs);
}

int main(void)
{
    pthread_t threads[THREADS];
    (void)pthread_barrier_init(&barrier, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)i) != 0)
            return 1;
    for (size_t i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    say("fn_at_once", &at_once);
    say("fn_handed", &handed);
    say("fn_moved", &moved);
    say("fn_late", &late);
    expect(&site_fn_at_once, &site_fn_handed, &site_fn_moved, &site_fn_late, &site_fn_kept, NULL);
    return 0;
}

/*
 * flood.c - what keeping up with a target costs the recorder
 *
 *     daemon_flood [-n PAIRS] [-l LIVE] [-s STACKS] [-i INTERVAL] [-m MIB] [-r RATE]
 *
 * Without -r: one thread fills the ring, then drains it, and so on; only draining is timed. That is
 * the cost of the records themselves. With -r: another process writes RATE allocations and as many
 * frees a second, in bursts of a millisecond, and drops what finds no room; a real drain thread
 * reads. That is the cost with polling, wake-ups and cold caches, and its losses.
 *
 * The program it imitates keeps LIVE blocks: every allocation takes a random place and frees what
 * was there, as often short-lived (the newest 64 places) as not. Stacks are drawn with a few
 * frequent ones and a long tail.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/arch.h"
#include "base/clock.h"
#include "base/error.h"
#include "daemon/books/drain.h"
#include "daemon/books/ring_consumer.h"
#include "unwind/walk.h"

#define DEPTH   28
#define PAIR_NS 1000 /* of the program's time */

struct options {
    uint64_t n_pairs, n_live, n_stacks, interval, mib, rate;
};

struct load {
    const struct options *o;
    struct hw_ring_writer w;
    uint64_t *live; /* sample ids; 0 = none */
    uint64_t rng, n_done, n_lost, n_allocs;
    uint64_t stacks_sent;
};

static uint64_t rnd(struct load *g)
{
    g->rng ^= g->rng << 13;
    g->rng ^= g->rng >> 7;
    g->rng ^= g->rng << 17;
    return g->rng;
}

static uint64_t put(struct load *g, const void *rec, uint32_t size, enum hw_rec_type type)
{
    uint64_t pos = hw_ring_reserve(&g->w, size);
    if (!pos)
        return 0;
    memcpy((uint8_t *)hw_ring_at(&g->w, pos) + 8, (const uint8_t *)rec + 8, size - 8);
    hw_ring_commit(&g->w, pos, size, type);
    return pos;
}

static uint64_t stack_id(uint64_t i)
{
    return hw_hash_u64(i + 1) | 1;
}

static bool put_stack(struct load *g, uint64_t i)
{
    struct {
        struct hw_rec_stack h;
        uint64_t pcs[DEPTH + 1];
    } r = {.h = {.stack_id = stack_id(i), .n_frames = DEPTH, .stop = HW_STOP_END}};
    for (uint32_t f = 0; f < DEPTH; f++)
        r.pcs[f] = 0x555555554000 + (i >> f) * 64;
    return put(g, &r, sizeof r, HW_REC_STACK) != 0;
}

static uint64_t draw_stack(struct load *g)
{
    uint64_t r = rnd(g), n = g->o->n_stacks;
    return (r & 3) ? (r >> 8) % (n / 16 + 1) : (r >> 8) % n;
}

/* As the client writes it. */
static uint64_t put_alloc(struct load *g, uint64_t size)
{
    uint64_t stack = stack_id(draw_stack(g));
    struct hw_rec_exact e = {.stack_id = stack,
                             .time_ns = g->n_done * PAIR_NS,
                             .size_heap = hw_exact_pack(size, HW_HEAP_ID_LIBC)};
    struct hw_rec_alloc a = {.address = 0x10000,
                             .alloc_size = size,
                             .sample_size = g->o->interval,
                             .stack_id = stack,
                             .time_ns = g->n_done * PAIR_NS,
                             .heap_id = HW_HEAP_ID_LIBC};
    return size >= g->o->interval ? put(g, &e, sizeof e, HW_REC_EXACT)
                                  : put(g, &a, sizeof a, HW_REC_ALLOC);
}

/* One allocation and the free of what was in its place. False: no room. */
static bool put_pair(struct load *g)
{
    uint64_t r = rnd(g), n = g->o->n_live;
    uint64_t near = n < 64 ? n : 64;
    uint64_t place = (r & 1) ? (r >> 8) % n : (g->n_done + (r >> 8) % near) % n;
    if (g->live[place]) {
        struct hw_rec_free f = {.sample_id = g->live[place], .time_ns = g->n_done * PAIR_NS};
        if (!put(g, &f, sizeof f, HW_REC_FREE))
            return false;
        g->live[place] = 0;
    }
    g->live[place] = put_alloc(g, 16 + (r >> 40) % 240);
    if (!g->live[place])
        return false;
    g->n_allocs++;
    return true;
}

static void step(struct load *g)
{
    if (!put_pair(g))
        g->n_lost++;
    g->n_done++;
}

static void begin(struct load *g)
{
    struct hw_rec_heap h = {
        .heap_id = HW_HEAP_ID_LIBC, .interval_bytes = g->o->interval, .name = "libc.malloc"};
    put(g, &h, sizeof h, HW_REC_HEAP);
}

static uint64_t thread_ns(void)
{
    return hw_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static void fill(struct load *g)
{
    const uint64_t room = HW_REC_MAX_BYTES;
    while (hw_ring_free_bytes(&g->w) > room && g->stacks_sent < g->o->n_stacks)
        put_stack(g, g->stacks_sent++);
    while (hw_ring_free_bytes(&g->w) > room && g->n_done < g->o->n_pairs)
        step(g);
}

static void report(const struct load *g, const struct hw_ring_consumer *f, uint64_t ns)
{
    struct rusage u;
    (void)getrusage(RUSAGE_SELF, &u);
    printf("%.1f ns a sample, %.1f ns a record; %llu samples, %llu lost, %llu stacks; peak RSS %ld "
           "MiB\n",
           (double)ns / (double)(f->n_samples ? f->n_samples : 1),
           (double)ns / (double)(f->n_records ? f->n_records : 1), (unsigned long long)f->n_samples,
           (unsigned long long)g->n_lost, (unsigned long long)f->stacks.n, u.ru_maxrss / 1024);
}

static int run_alone(struct load *g, struct hw_ring_consumer *f)
{
    uint64_t warm = g->o->n_live * 2, ns = 0, skipped = 0;
    begin(g);
    for (;;) {
        fill(g);
        uint64_t t0 = thread_ns();
        if (hw_ring_consumer_drain(f, UINT64_MAX, SIZE_MAX, 1) != HW_CONSUMER_EMPTY)
            return 1;
        if (g->n_done <= warm) /* until the live set stands */
            skipped = f->n_samples;
        else
            ns += thread_ns() - t0;
        if (g->n_done == g->o->n_pairs)
            break;
    }
    printf("%llu warm-up samples not timed: ", (unsigned long long)skipped);
    f->n_samples -= skipped;
    f->n_records -= skipped * 2;
    report(g, f, ns);
    return 0;
}

static void write_at_rate(struct load *g)
{
    struct timespec next;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)clock_gettime(CLOCK_MONOTONIC, &next);
    begin(g);
    while (g->stacks_sent < g->o->n_stacks)
        if (put_stack(g, g->stacks_sent))
            g->stacks_sent++;
        else
            (void)usleep(1000);
    uint64_t t0 = hw_now_monotonic_ns();
    while (g->n_done < g->o->n_pairs) {
        uint64_t due = (hw_now_monotonic_ns() - t0) / 1000 * g->o->rate / 1000000;
        if (due > g->n_done + g->o->rate / 20) /* not scheduled for long: no impossible burst */
            t0 += (due - g->n_done) * 1000000 / g->o->rate * 1000;
        for (; g->n_done < due && g->n_done < g->o->n_pairs;)
            step(g);
        (void)usleep(1000);
    }
    double s = (double)(hw_now_monotonic_ns() - t0) / 1e9;
    printf("written in %.2f s: %.0f samples/s, %llu lost\n", s, (double)g->n_allocs / s,
           (unsigned long long)g->n_lost);
    (void)fflush(stdout);
}

static int run_rate(struct load *g, struct hw_ring_consumer *f)
{
    struct hw_message_queue answers;
    struct hw_drain *d;
    if (hw_message_queue_init(&answers) < 0 || hw_drain_new(1, &answers, &d) < 0)
        return 1;
    pid_t writer = fork();
    if (writer == 0) {
        write_at_rate(g);
        _exit(0);
    }
    if (hw_drain_add(d, f, 0) < 0 || waitpid(writer, NULL, 0) < 0 ||
        hw_drain_snap(d, f, 0, HW_SNAP_PEAK, /* final = */ true, /* dead = */ true) < 0)
        return 1;
    for (bool done = false; !done;) {
        (void)usleep(1000);
        for (struct hw_msg *m = hw_message_queue_take(&answers); m;) {
            struct hw_msg *next = m->next;
            if (m->type == HW_DRAINED_SNAP) {
                hw_snapshot_free(m->data);
                done = true;
            } else if (m->type == HW_DRAINED_STACKS) {
                free(m->data);
            }
            free(m);
            m = next;
        }
    }
    hw_drain_free(d);
    struct rusage u;
    (void)getrusage(RUSAGE_SELF, &u); /* all of this process: the thread, and us at the end */
    uint64_t us = (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 +
                  (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
    report(g, f, us * 1000);
    return 0;
}

static uint64_t number(const char *s)
{
    char *end;
    uint64_t v = strtoull(s, &end, 10);
    if (*end == 'k')
        v *= 1000;
    if (*end == 'M')
        v *= 1000000;
    return v;
}

static bool parse(int argc, char **argv, struct options *o)
{
    int c;
    while ((c = getopt(argc, argv, "n:l:s:i:m:r:")) != -1)
        switch (c) {
        case 'n':
            o->n_pairs = number(optarg);
            break;
        case 'l':
            o->n_live = number(optarg);
            break;
        case 's':
            o->n_stacks = number(optarg);
            break;
        case 'i':
            o->interval = number(optarg);
            break;
        case 'm':
            o->mib = number(optarg);
            break;
        case 'r':
            o->rate = number(optarg);
            break;
        default:
            return false;
        }
    return o->n_live && o->n_stacks && o->interval && o->n_pairs;
}

int main(int argc, char **argv)
{
    struct options o = {.n_pairs = 5000000,
                        .n_live = 200000,
                        .n_stacks = 1000,
                        .interval = 1,
                        .mib = HW_RING_DEFAULT_BYTES >> 20};
    struct load g = {.o = &o, .rng = 88172645463325252u};
    struct hw_ring_reader r;
    if (!parse(argc, argv, &o)) {
        (void)fprintf(stderr,
                      "usage: %s [-n PAIRS] [-l LIVE] [-s STACKS] [-i INTERVAL] [-m MIB] "
                      "[-r RATE]; numbers with k, M\n",
                      argv[0]);
        return 2;
    }
    if (hw_ring_create(&r, o.mib << 20) < 0 || hw_ring_attach(r.fd, &g.w) < 0) {
        perror("ring");
        return 1;
    }
    g.live = calloc(o.n_live, sizeof *g.live);
    struct hw_ring_consumer *f = calloc(1, sizeof *f);
    if (!g.live || !f)
        return 1;
    hw_ring_consumer_init(f, &r, /* follow_peak = */ true);
    f->arch = HW_ARCH_HERE;
    int rc = o.rate ? run_rate(&g, f) : run_alone(&g, f);
    hw_ring_consumer_done(f);
    hw_ring_detach(&g.w);
    free(f);
    free(g.live);
    return rc;
}

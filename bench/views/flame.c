/*
 * flame.c [MAX_CALLSITES] - how long the views take, from 10^4 callsites on, by factors of ten
 *
 * Stacks are random walks of a program with 20,000 functions: a quarter of the frames' successors
 * are common ones, so that prefixes are shared as in real traces (30 to 60 frames, about 16 new
 * callsites a stack). Figures are user CPU of the best of three runs. The same on any machine: no
 * time or address in the seeds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "model/profile.h"
#include "views/flame/flame.h"

enum { N_FRAMES = 20000, MAX_DEPTH = 60 };

static uint64_t seed = 88172645463325252u;

static uint32_t next_random(uint32_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)((seed >> 32) * below >> 32);
}

static double cpu_ms(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e3;
}

static void need(int rc)
{
    if (rc < 0) {
        fprintf(stderr, "error %d\n", rc);
        exit(1);
    }
}

static void add_frames(struct hw_profile *p)
{
    for (uint32_t i = 0; i < N_FRAMES; i++) {
        char name[32];
        struct hw_frame f = {.rel_pc = 16 * i};
        struct hw_mapping m = {.start = 4096, .end = 8192};
        hw_frame_id out;
        snprintf(name, sizeof name, i % 50 ? "function_%u" : "xmalloc_%u", i);
        need(hw_profile_str(p, hw_bytes_str(name), &f.name));
        snprintf(name, sizeof name, "/lib/lib%u.so", i % 40);
        need(hw_profile_str(p, hw_bytes_str(name), &m.path));
        need(hw_callsites_mapping(p->callsites, &m, &f.mapping));
        need(hw_callsites_frame(p->callsites, &f, &out));
    }
}

/* Stacks until there are n callsites; a value for each. */
static void add_stacks(struct hw_profile *p, size_t n, hw_values *values)
{
    hw_frame_id path[MAX_DEPTH];
    uint32_t depth = 0;
    while (hw_callsites_count(p->callsites) < n) {
        uint32_t want = 30 + next_random(MAX_DEPTH - 30);
        uint32_t keep = depth ? want * (45 + next_random(40)) / 100 : 0; /* of the stack before */
        for (uint32_t d = keep < depth ? keep : depth; d < want; d++)
            path[d].v = d < 8 ? d : next_random(N_FRAMES);
        depth = want;
        struct hw_callsite_value v = {.v = {.space = 4096 + next_random(1 << 20),
                                            .objects = 3,
                                            .alloc_space = 1 << 21,
                                            .alloc_objects = 9,
                                            .samples = 1,
                                            .alloc_samples = 2,
                                            .variance = 1 << 24}};
        need(hw_callsites_intern(p->callsites, path, depth, &v.callsite));
        if (values->n && values->v[values->n - 1].callsite.v >= v.callsite.v)
            continue; /* seen before */
        need(hw_vec_push(values, v));
    }
}

/* share > 0: inverted, what holds less of the whole is merged. */
static void measure(const struct hw_profile *p, const hw_values *values, unsigned flags, bool sort,
                    double share, double *best, size_t *n_nodes)
{
    struct hw_functions *fns;
    need(hw_functions_new(p->callsites, NULL, &fns));
    for (int i = 0; i < 3; i++) {
        struct hw_flame f;
        double start = cpu_ms();
        const struct hw_flame_input q = {
            .cs = p->callsites, .fns = fns, .values = values, .flags = flags};
        need(share > 0 ? hw_flame_invert(&q, share, HW_METRIC_SPACE, &f) : hw_flame_build_with(&q, &f));
        if (sort)
            need(hw_flame_sort(&f, HW_METRIC_SPACE));
        double took = cpu_ms() - start;
        if (i == 0 || took < *best)
            *best = took;
        *n_nodes = f.v.n;
        hw_flame_done(&f);
    }
    hw_functions_free(fns);
}

int main(int argc, char **argv)
{
    size_t max = argc > 1 ? strtoul(argv[1], NULL, 10) : 10000000;
    printf("%10s %9s %9s %12s %9s %10s %14s %9s %10s %9s\n", "callsites", "stacks", "nodes",
           "top-down ms", "ns/node", "sorted ms", "inverted nodes", "ms", "above 1e-4", "ms");
    for (size_t n = 10000; n <= max; n *= 10) {
        struct hw_profile *p;
        hw_values values = {0};
        double plain, sorted, inverted = 0, large;
        size_t nodes, inverted_nodes = 0, large_nodes;
        need(hw_profile_new(&p));
        add_frames(p);
        add_stacks(p, n, &values);
        measure(p, &values, HW_FLAME_SITES, false, 0, &plain, &nodes);
        measure(p, &values, HW_FLAME_SITES, true, 0, &sorted, &nodes);
        if (n <= 1000000)
            measure(p, &values, HW_FLAME_SITES | HW_FLAME_INVERTED, true, 0, &inverted,
                    &inverted_nodes);
        measure(p, &values, HW_FLAME_SITES, true, 1e-4, &large, &large_nodes);
        printf("%10zu %9zu %9zu %12.1f %9.0f %10.1f %14zu %9.1f %10zu %9.1f\n",
               hw_callsites_count(p->callsites), values.n, nodes, plain,
               plain * 1e6 / (double)nodes, sorted, inverted_nodes, inverted, large_nodes, large);
        fflush(stdout);
        hw_vec_done(&values);
        hw_profile_free(p);
    }
    return 0;
}

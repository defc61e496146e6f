/*
 * Writes traces of a known shape and times how they are loaded.
 *
 *     load gen FILE MEGABYTES STACKS [seed]   STACKS callstacks, as many dumps as fill the file
 *     load day FILE DUMPS STACKS CHANGED [seed]   that many dumps, a minute from one to the next,
 * in each of which CHANGED percent of the callstacks changed load read FILE... seconds, MB/s and
 * peak memory a byte, one line a file
 *
 * The callstacks are random walks down a program of 20,000 functions, 12 to 60 frames deep, that
 * share their upper frames as those of real programs do. In each dump two callstacks in three have
 * changed. `read` forks for each file, so that each has its own peak.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "import/import.h"
#include "model/profile.h"
#include "trace/process_writer.h"
#include "trace/profile_writer.h"
#include "trace/writer.h"

enum { N_FUNCTIONS = 20000, MIN_DEPTH = 12, MAX_DEPTH = 60, PID = 4711 };

struct site {
    hw_callsite_id leaf;
    uint64_t alloc, freed, n_alloc, n_free;
};

struct gen {
    struct hw_callsites *cs;
    struct site *sites;
    size_t n_sites;
    uint64_t random;
    uint64_t step_ns; /* from dump to dump */
    unsigned changed_percent;
};

static void fail(const char *what, const struct hw_error *err)
{
    fprintf(stderr, "load: %s%s%s\n", what, err ? ": " : "", err ? err->text : "");
    exit(1);
}

static uint64_t below(struct gen *g, uint64_t n)
{
    g->random = hw_hash_u64(g->random + 0x9e3779b97f4a7c15u);
    return g->random % n;
}

static void make_stacks(struct gen *g)
{
    hw_frame_id frames[N_FUNCTIONS], path[MAX_DEPTH];
    struct hw_strings *strings = hw_callsites_strings(g->cs);
    struct hw_mapping m = {.start = 0x400000, .end = 0x4000000};
    hw_mapping_id map;
    if (hw_strings_intern(strings, hw_bytes_str("/usr/bin/server"), &m.path) < 0 ||
        hw_strings_intern(strings, hw_bytes_str("01234567890123456789"), &m.build_id) < 0 ||
        hw_callsites_mapping(g->cs, &m, &map) < 0)
        fail("no memory", NULL);
    for (uint64_t i = 0; i < N_FUNCTIONS; i++) {
        char name[64];
        struct hw_frame f = {.mapping = map, .rel_pc = 0x1000 + 48 * i};
        (void)snprintf(name, sizeof name, "server::handle_request_%llu(int)",
                       (unsigned long long)i);
        if (hw_strings_intern(strings, hw_bytes_str(name), &f.name) < 0 ||
            hw_callsites_frame(g->cs, &f, &frames[i]) < 0)
            fail("no memory", NULL);
    }
    size_t depth = 0;
    for (size_t i = 0; i < g->n_sites; i++) { /* keeps most of the last one, as a program does */
        size_t keep = depth ? depth - below(g, depth < 12 ? depth : 12) : 0;
        size_t n = MIN_DEPTH + below(g, MAX_DEPTH - MIN_DEPTH);
        if (n <= keep)
            n = keep + 1 < MAX_DEPTH ? keep + 1 : MAX_DEPTH;
        else if (n > keep + 6)
            n = keep + 6 < MAX_DEPTH ? keep + 6 : MAX_DEPTH;
        for (size_t k = keep < n ? keep : n - 1; k < n; k++)
            path[k] = frames[below(g, N_FUNCTIONS)];
        depth = n;
        if (hw_callsites_intern(g->cs, path, n, &g->sites[i].leaf) < 0)
            fail("no memory", NULL);
    }
}

static void write_dump(struct gen *g, struct hw_profile_writer *pw, uint64_t ts, bool first)
{
    struct hw_error err;
    struct hw_dump_head head = {.pid = PID,
                                .heap_name = "libc.malloc",
                                .timestamp_ns = ts,
                                .start_timestamp_ns = ts - 1000000,
                                .interval_bytes = 4096,
                                .orig_interval_bytes = 4096,
                                .trigger = "continuous",
                                .all_variances = true};
    if (hw_profile_begin(pw, &head, g->cs, 1, &err) < 0)
        fail("dump", &err);
    for (size_t i = 0; i < g->n_sites; i++) {
        struct site *s = &g->sites[i];
        if (first || below(g, 100) < g->changed_percent) {
            uint64_t n = 1 + below(g, 20), freed = below(g, n + 1);
            s->n_alloc += n;
            s->alloc += n * 4096 + below(g, 4096);
            s->n_free += freed;
            s->freed += freed * 4096;
        }
        struct hw_dump_sample sample = {.callsite = s->leaf,
                                        .self_allocated = s->alloc,
                                        .self_freed = s->freed,
                                        .alloc_count = s->n_alloc,
                                        .free_count = s->n_free,
                                        .est_alloc_count = (double)s->n_alloc * 30,
                                        .est_free_count = (double)s->n_free * 30,
                                        .variance_bytes = (double)s->n_alloc * 4096 * 4096,
                                        .variance_objects = (double)s->n_alloc * 900,
                                        .variance_alloc_space = (double)s->n_alloc * 8192 * 4096,
                                        .variance_alloc_objects = (double)s->n_alloc * 1800};
        if (hw_profile_sample(pw, &sample, &err) < 0)
            fail("sample", &err);
    }
    if (hw_profile_end(pw, &err) < 0)
        fail("dump", &err);
}

/* Until the file has so many bytes and dumps. */
static int generate(const char *path, uint64_t bytes, uint64_t n_dumps, struct gen g)
{
    struct hw_trace_writer *w;
    struct hw_profile_writer *pw;
    struct hw_error err;
    static const char *const argv[] = {"/usr/bin/server"};
    struct hw_process_entry self = {.pid = PID, .ppid = 1, .cmdline = argv, .n_cmdline = 1};
    hw_autofd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || !(g.sites = calloc(g.n_sites ? g.n_sites : 1, sizeof *g.sites)) ||
        hw_callsites_new(&g.cs) < 0)
        fail(path, NULL);
    make_stacks(&g);
    if (hw_trace_writer_new(fd, &w, &err) < 0 ||
        hw_trace_write_preamble(w, hw_bytes_of("", 0), 1, 2, 2, &err) < 0 ||
        hw_trace_process_tree(w, hw_trace_writer_sequence(w), 1, &self, 1, NULL, 0, &err) < 0)
        fail(path, &err);
    if (hw_profile_writer_new(w, &pw) < 0)
        fail("no memory", NULL);
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now); /* known clock: cannot fail */
    uint64_t ts = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec, n = 0;
    do
        write_dump(&g, pw, ts += g.step_ns, n++ == 0);
    while (hw_trace_writer_bytes(w) < bytes || n < n_dumps);
    if (hw_trace_write_stats(w, 0, &err) < 0)
        fail(path, &err);
    printf("%s: %.0f MB, %zu callstacks, %zu callsites, %llu dumps\n", path,
           (double)hw_trace_writer_bytes(w) / 1e6, g.n_sites, hw_callsites_count(g.cs),
           (unsigned long long)n);
    hw_profile_writer_free(pw);
    hw_trace_writer_free(w);
    hw_callsites_free(g.cs);
    free(g.sites);
    return 0;
}

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static int load(const char *path)
{
    struct hw_profile *p;
    struct hw_error err;
    struct rusage before, after;
    struct timespec a, b;
    struct stat st;
    (void)getrusage(RUSAGE_SELF, &before); /* of ourselves: cannot fail */
    (void)clock_gettime(CLOCK_MONOTONIC, &a);
    if (hw_import_file(path, &p, &err) < 0 || stat(path, &st) < 0)
        fail(path, &err);
    (void)clock_gettime(CLOCK_MONOTONIC, &b);
    (void)getrusage(RUSAGE_SELF, &after);
    double wall = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
    double user = seconds(after.ru_utime) - seconds(before.ru_utime);
    double sys = seconds(after.ru_stime) - seconds(before.ru_stime);
    double mb = (double)st.st_size / 1e6, peak = (double)after.ru_maxrss * 1024 / 1e6;
    printf("%s: %.0f MB in %.2f s (%.2f user, %.2f system): %.0f MB/s, %.0f MB/s of CPU; "
           "peak %.0f MB = %.2f bytes a byte; %zu rows, %zu callsites\n",
           path, mb, wall, user, sys, mb / wall, mb / (user + sys), peak, peak / mb, p->allocs.n,
           hw_callsites_count(p->callsites));
    hw_profile_free(p);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc >= 5 && strcmp(argv[1], "gen") == 0)
        return generate(argv[2], strtoull(argv[3], NULL, 10) * 1000000, 0,
                        (struct gen){.n_sites = strtoul(argv[4], NULL, 10),
                                     .random = argc > 5 ? strtoull(argv[5], NULL, 10) : 1,
                                     .step_ns = 10000000000u,
                                     .changed_percent = 67});
    if (argc >= 6 && strcmp(argv[1], "day") == 0)
        return generate(argv[2], 0, strtoull(argv[3], NULL, 10),
                        (struct gen){.n_sites = strtoul(argv[4], NULL, 10),
                                     .random = argc > 6 ? strtoull(argv[6], NULL, 10) : 1,
                                     .step_ns = 60000000000u,
                                     .changed_percent = (unsigned)strtoul(argv[5], NULL, 10)});
    if (argc >= 3 && strcmp(argv[1], "read") == 0) {
        int status = 0;
        for (int i = 2; i < argc && status == 0; i++) {
            (void)fflush(stdout); /* else the child prints it again */
            pid_t pid = fork();
            if (pid == 0)
                exit(load(argv[i]));
            if (pid < 0 || waitpid(pid, &status, 0) < 0)
                return 1;
        }
        return status != 0;
    }
    fprintf(stderr, "usage: load gen FILE MEGABYTES STACKS [SEED] | load day FILE DUMPS STACKS "
                    "CHANGED [SEED] | load read FILE...\n");
    return 2;
}

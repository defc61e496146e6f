/*
 * Writes heap graphs of a known shape and times what is asked of them.
 *
 *     graph gen FILE OBJECTS        a trace with one dump
 *     graph read FILE [SQL]...      seconds of CPU for loading, flamegraph, dominators, classes and
 * each query; peak memory
 *     graph load FILE [TIMES]       CPU and wall seconds of loading it that often
 *
 * The shape is that of a server's heap: 3,000 classes with superclasses, 1.4 references an object,
 * one reference in twelve null, of the others most to an object that has no referrer yet (so
 * that nearly all are reachable), the rest to near ones and, one in ten, to any; arrays, some of
 * them long; one object in a hundred a root. Encoded as Android's runtime does: ids as differences,
 * names of references by the types' lists.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory/map64.h"
#include "codec/pb.h"
#include "import/import.h"
#include "model/profile.h"
#include "schema/fields.h"
#include "sql/sql.h"
#include "trace/writer.h"
#include "views/objects/dominators.h"
#include "views/objects/heap_classes.h"
#include "views/objects/heap_tree.h"

enum { N_CLASSES = 3000, PID = 4711, PACKET_BYTES = 400000, STEP = 24 };

#define FIRST_ID 0x12c00000ull

static uint64_t random_state = 1;

static uint64_t below(uint64_t n)
{
    random_state = hw_hash_u64(random_state + 0x9e3779b97f4a7c15u);
    return random_state % n;
}

static void fail(const char *what, const struct hw_error *err)
{
    fprintf(stderr, "graph: %s%s%s\n", what, err ? ": " : "", err ? err->text : "");
    exit(1);
}

/* ---- writing ---- */

struct gen {
    struct hw_trace_writer *w;
    struct hw_pb *pb; /* of the open packet */
    uint32_t sequence;
    uint64_t n, next_child, index;
    uint16_t *class_of; /* by object: what its first referrer expects */
};

static void begin(struct gen *g)
{
    g->pb = hw_trace_begin(g->w, g->sequence, 1000);
    hw_pb_begin(g->pb, HW_F_TracePacket_heap_graph);
    hw_pb_uint(g->pb, HW_F_HeapGraph_pid, PID);
    hw_pb_uint(g->pb, HW_F_HeapGraph_index, g->index++);
}

static void end(struct gen *g, bool continued)
{
    struct hw_error err = {0};
    if (continued)
        hw_pb_uint(g->pb, HW_F_HeapGraph_continued, 1);
    hw_pb_end(g->pb);
    if (hw_trace_end(g->w, &err) < 0)
        fail("cannot write", &err);
}

/* Classes 0 … 9 are arrays, 10 … 599 have no references, others 1 or 2. */
static unsigned fields_of(unsigned class)
{
    return class < 600 ? 0 : 1 + class % 2;
}

/* A field holds objects of one class mostly. */
static uint16_t class_of_field(unsigned owner, size_t field)
{
    uint64_t h = below(50) ? hw_hash_mix(owner, field) : below(UINT32_MAX), c = h >> 8;
    uint64_t kind = owner < 10 ? 3 + h % 97 : h % 100; /* no arrays of arrays */
    return (uint16_t)(kind < 3 ? c % 10 : kind < 53 ? 10 + c % 590 : 600 + c % (N_CLASSES - 600));
}

static uint64_t target(struct gen *g, uint64_t i, size_t field)
{
    uint64_t kind = below(12), to;
    bool short_of_children = g->next_child < i + 1000;
    if (kind < 1 && !short_of_children)
        return 0;
    if ((kind < 11 || short_of_children) && g->next_child < g->n && g->next_child < i + 4000) {
        to = g->next_child++;
        g->class_of[to] = class_of_field(g->class_of[i], field);
    } else if (kind < 12 && below(2))
        to = i > 500 ? i - below(500) : below(g->n);
    else
        to = below(g->n);
    return FIRST_ID + to * STEP;
}

static void put_object(struct gen *g, uint64_t i)
{
    unsigned class = g->class_of[i];
    if (class >= 10 && fields_of(class) == 0 && g->next_child < i + 500)
        class = class % 10; /* an array: what is left is to stay reachable */
    g->class_of[i] = (uint16_t) class;
    size_t n = fields_of(class);
    if (class < 10)
        n = below(100) ? 10 + below(40) : below(200);
    uint64_t targets[200];
    for (size_t k = 0; k < n; k++)
        targets[k] = target(g, i, class < 10 ? 0 : k);
    hw_pb_begin(g->pb, HW_F_HeapGraph_objects);
    if (i == 0)
        hw_pb_uint(g->pb, HW_F_HeapGraphObject_id, FIRST_ID);
    else
        hw_pb_uint(g->pb, HW_F_HeapGraphObject_id_delta, STEP);
    hw_pb_uint(g->pb, HW_F_HeapGraphObject_type_id, class + 1);
    if (n) {
        hw_pb_uint(g->pb, HW_F_HeapGraphObject_reference_field_id_base, FIRST_ID - STEP);
        hw_pb_begin(g->pb, HW_F_HeapGraphObject_reference_object_id);
        for (size_t k = 0; k < n; k++)
            hw_pb_raw_varint(g->pb, targets[k] ? targets[k] - FIRST_ID + STEP : 0);
        hw_pb_end(g->pb);
    }
    if (class < 600)
        hw_pb_uint(g->pb, HW_F_HeapGraphObject_self_size, 16 + 8 * below(30));
    hw_pb_end(g->pb);
}

static void put_types(struct gen *g)
{
    char text[64];
    for (unsigned f = 1; f <= 8; f++) {
        (void)snprintf(text, sizeof text, "java.lang.Object com.example.Base.field%u", f);
        hw_pb_begin(g->pb, HW_F_HeapGraph_field_names);
        hw_pb_uint(g->pb, HW_F_InternedString_iid, f);
        hw_pb_str(g->pb, HW_F_InternedString_str, text);
        hw_pb_end(g->pb);
    }
    for (unsigned c = 0; c < N_CLASSES; c++) {
        (void)snprintf(text, sizeof text, "com.example.p%u.Class%u%s", c % 40, c,
                       c < 10 ? "[]" : "");
        hw_pb_begin(g->pb, HW_F_HeapGraph_types);
        hw_pb_uint(g->pb, HW_F_HeapGraphType_id, c + 1);
        hw_pb_str(g->pb, HW_F_HeapGraphType_class_name, text);
        hw_pb_uint(g->pb, HW_F_HeapGraphType_object_size, 16 + 8 * (c % 5));
        hw_pb_uint(g->pb, HW_F_HeapGraphType_kind, c < 10 ? 4 : c < 600 ? 2 : 1);
        hw_pb_begin(g->pb, HW_F_HeapGraphType_reference_field_id);
        for (unsigned f = 1; f <= fields_of(c); f++)
            hw_pb_raw_varint(g->pb, f);
        hw_pb_end(g->pb);
        hw_pb_end(g->pb);
    }
}

static void put_roots(struct gen *g)
{
    for (unsigned type = 1; type < 5; type++) {
        hw_pb_begin(g->pb, HW_F_HeapGraph_roots);
        hw_pb_begin(g->pb, HW_F_HeapGraphRoot_object_ids);
        for (uint64_t i = 0; i < g->n / 400 + 1; i++)
            hw_pb_raw_varint(g->pb, FIRST_ID + STEP * (i ? below(g->n) : 0));
        hw_pb_end(g->pb);
        hw_pb_uint(g->pb, HW_F_HeapGraphRoot_root_type, type);
        hw_pb_end(g->pb);
    }
}

static int gen(const char *path, uint64_t n)
{
    struct hw_error err = {0};
    struct gen g = {.n = n, .next_child = 1, .class_of = calloc(n + 1, sizeof *g.class_of)};
    if (!g.class_of)
        fail("no memory", NULL);
    for (uint64_t i = 0; i < n; i++)
        g.class_of[i] = (uint16_t)(600 + below(40)); /* roots, and what nothing refers to */
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0 || hw_trace_writer_new(fd, &g.w, &err) < 0)
        fail("cannot create the file", NULL);
    g.sequence = hw_trace_writer_sequence(g.w);
    begin(&g);
    for (uint64_t i = 0; i < n; i++) {
        put_object(&g, i);
        if (hw_pb_view(g.pb).n > PACKET_BYTES) {
            end(&g, true);
            begin(&g);
        }
    }
    end(&g, true);
    begin(&g);
    put_types(&g);
    put_roots(&g);
    end(&g, false);
    printf("%s: %llu objects, %.1f MB\n", path, (unsigned long long)n,
           (double)hw_trace_writer_bytes(g.w) / 1e6);
    hw_trace_writer_free(g.w);
    free(g.class_of);
    return close(fd) < 0;
}

/* ---- reading ---- */

static double cpu_s(void)
{
    struct rusage u;
    (void)getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* What it takes by the clock at least. */
static double thread_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

struct since {
    double all, mine;
};

static struct since now(void)
{
    return (struct since){cpu_s(), thread_s()};
}

static void report(const char *what, struct since *since)
{
    struct rusage u;
    struct since n = now();
    (void)getrusage(RUSAGE_SELF, &u);
    printf("  %-40.40s %7.2f s, %6.2f s by the calling thread, peak %6.0f MB\n", what,
           n.all - since->all, n.mine - since->mine, (double)u.ru_maxrss / 1024);
    (void)fflush(stdout);
    *since = now();
}

static int run_queries(const struct hw_profile *p, char **sql, int n, struct since *since)
{
    struct hw_error err = {0};
    struct hw_sql *db;
    if (hw_sql_open(p, NULL, &db, &err) < 0)
        fail("SQL", &err);
    for (int i = 0; i < n; i++) {
        if (hw_sql_run(db, sql[i], strlen(sql[i]), NULL, NULL, &err) < 0)
            fail(sql[i], &err);
        report(sql[i], since);
    }
    hw_sql_close(db);
    return 0;
}

static int read_graph(const char *path, char **sql, int n_sql)
{
    struct hw_error err = {0};
    struct hw_profile *p;
    struct hw_dominators d;
    hw_heap_tree tree;
    struct since since = now(), start = since;
    if (hw_import_file(path, &p, &err) < 0)
        fail(path, &err);
    if (p->graphs.n == 0)
        fail("no heap graph", NULL);
    const struct hw_heap_graph *g = p->graphs.v[0];
    printf("%s: %u objects, %u references\n", path, g->n_objects, g->n_refs);
    report("load", &since);
    if (hw_heap_tree_flame(p, g, NULL, &tree) < 0)
        fail("flamegraph", NULL);
    report("flamegraph", &since);
    printf("  %-40s %zu\n", "nodes", tree.n);
    hw_vec_done(&tree);
    if (hw_dominators_build(g, &d) < 0)
        fail("dominators", NULL);
    report("dominators", &since);
    printf("  %-40s %7.2f s\n", "together", cpu_s() - start.all);
    struct hw_class_sum *sums = calloc((size_t)g->n_classes + 1, sizeof *sums);
    if (!sums || hw_heap_class_sums(g, &d, sums) < 0)
        fail("classes", NULL);
    report("classes", &since);
    printf("  %-40s %zu\n", "reachable", d.n);
    free(sums);
    hw_dominators_done(&d);
    int rc = run_queries(p, sql, n_sql, &since);
    hw_profile_free(p);
    return rc;
}

static double seconds(const struct timeval *t)
{
    return (double)t->tv_sec + (double)t->tv_usec / 1e6;
}

static int load_graph(const char *path, long times)
{
    struct hw_error err = {0};
    struct hw_profile *p;
    for (long i = 0; i < times; i++) {
        struct rusage a, b;
        struct timespec from, to;
        (void)getrusage(RUSAGE_SELF, &a);
        (void)clock_gettime(CLOCK_MONOTONIC, &from);
        double mine_before = thread_s();
        if (hw_import_file(path, &p, &err) < 0)
            fail(path, &err);
        (void)clock_gettime(CLOCK_MONOTONIC, &to);
        (void)getrusage(RUSAGE_SELF, &b);
        double mine = thread_s() - mine_before;
        double user = seconds(&b.ru_utime) - seconds(&a.ru_utime);
        double system = seconds(&b.ru_stime) - seconds(&a.ru_stime);
        printf("%.3f user %.3f system %.3f together, %.3f by the calling thread, %.3f wall, peak "
               "%ld MB\n",
               user, system, user + system, mine,
               (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9,
               b.ru_maxrss / 1024);
        (void)fflush(stdout);
        hw_profile_free(p);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if ((argc == 3 || argc == 4) && strcmp(argv[1], "load") == 0)
        return load_graph(argv[2], argc == 4 ? strtol(argv[3], NULL, 10) : 1);
    if (argc == 4 && strcmp(argv[1], "gen") == 0)
        return gen(argv[2], strtoull(argv[3], NULL, 10));
    if (argc >= 3 && strcmp(argv[1], "read") == 0)
        return read_graph(argv[2], argv + 3, argc - 3);
    fputs("usage: graph gen FILE OBJECTS | graph read FILE [SQL]... | graph load FILE [TIMES]\n",
          stderr);
    return 2;
}

/*
 * Dumps of random data through the writer and the importer, against a twin that knows what every
 * callsite held at every dump. The file also goes through protoc, which knows nothing of our code.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory/map64.h"
#include "codec/gzip.h"
#include "import/import.h"
#include "model/profile.h"
#include "trace/process_writer.h"
#include "trace/profile_writer.h"
#include "trace/writer.h"

enum { MAX_SITES = 6000, N_HEAPS = 2, MAX_DUMPS = 12 };

static const char *const heap_names[N_HEAPS] = {"libc.malloc", "custom"};

struct values {
    uint64_t alloc, freed, n_alloc, n_free, temporary;
    double est_alloc, est_free, est_temporary;
};

struct twin {
    struct hw_callsites *cs;
    hw_callsite_id leaf[MAX_SITES];
    size_t n_sites;
    struct values now[N_HEAPS][MAX_SITES];
    /* What was true at each dump, and whether the dump is a checkpoint. */
    struct values (*at)[N_HEAPS][MAX_SITES];
    bool checkpoint[MAX_DUMPS];
    size_t n_dumps;
    uint64_t rng;
};

static uint64_t random_below(struct twin *t, uint64_t n)
{
    t->rng = hw_hash_mix(t->rng, 1);
    return t->rng % n;
}

static hw_str_id str(struct hw_callsites *cs, const char *text)
{
    hw_str_id id;
    assert_int_equal(hw_strings_intern(hw_callsites_strings(cs), hw_bytes_str(text), &id), 0);
    return id;
}

/* Callstacks with common prefixes over a few mappings; some frames without mapping or name. */
static void make_sites(struct twin *t, size_t n)
{
    hw_mapping_id maps[4];
    assert_int_equal(hw_callsites_new(&t->cs), 0);
    for (uint32_t i = 0; i < 4; i++) {
        char path[32], id[20];
        memset(id, (int)('a' + i), sizeof id);
        id[3] = 0; /* build ids are any bytes */
        (void)snprintf(path, sizeof path, "/usr/lib/lib%u.so", i);
        struct hw_mapping m = {.path = str(t->cs, path),
                               .start = 0x1000 * (i + 1),
                               .end = 0x1000 * (i + 2),
                               .exact_offset = 0x100 * i,
                               .load_bias = i};
        assert_int_equal(
            hw_strings_intern(hw_callsites_strings(t->cs), hw_bytes_of(id, sizeof id), &m.build_id),
            0);
        assert_int_equal(hw_callsites_mapping(t->cs, &m, &maps[i]), 0);
    }
    for (size_t i = 0; i < n; i++) {
        hw_frame_id path[40];
        size_t depth = 1 + random_below(t, 40);
        for (size_t k = 0; k < depth; k++) {
            uint64_t pc = k + 1 == depth ? 1000 + i : random_below(t, 3);
            char name[32];
            (void)snprintf(name, sizeof name, "f%zu_%llu", k, (unsigned long long)pc);
            struct hw_frame f = {.mapping =
                                     pc % 5 == 4 ? (hw_mapping_id){HW_ID_NONE} : maps[pc % 4],
                                 .name = pc % 7 == 6 ? (hw_str_id){0} : str(t->cs, name),
                                 .rel_pc = pc};
            assert_int_equal(hw_callsites_frame(t->cs, &f, &path[k]), 0);
        }
        assert_int_equal(hw_callsites_intern(t->cs, path, depth, &t->leaf[i]), 0);
    }
    t->n_sites = n;
}

static void let_time_pass(struct twin *t)
{
    for (int h = 0; h < N_HEAPS; h++)
        for (size_t i = 0; i < t->n_sites; i++) {
            struct values *v = &t->now[h][i];
            if (random_below(t, 3) == 0) {
                uint64_t n = 1 + random_below(t, 9);
                v->n_alloc += n;
                v->alloc += n * random_below(t, 100000);
                v->est_alloc += (double)n * 2.5;
            }
            if (random_below(t, 4) == 0 && v->n_free < v->n_alloc) {
                v->n_free++;
                v->freed += random_below(t, v->alloc - v->freed + 1);
                v->est_free += 1.25;
                if (random_below(t, 2)) {
                    v->temporary = v->freed - random_below(t, v->freed - v->temporary + 1);
                    v->est_temporary += 1.25;
                }
            }
        }
}

static void write_dump(struct twin *t, struct hw_profile_writer *pw, uint64_t ts, bool checkpoint,
                       bool last)
{
    struct hw_error err;
    for (int h = 0; h < N_HEAPS; h++) {
        struct hw_dump_head head = {.pid = 4711,
                                    .heap_name = heap_names[h],
                                    .timestamp_ns = ts,
                                    .start_timestamp_ns = ts - 5,
                                    .interval_bytes = 4096,
                                    .orig_interval_bytes = 4096,
                                    .from_startup = true,
                                    .checkpoint = checkpoint,
                                    .list_all = last,
                                    .trigger = last ? "end" : "continuous",
                                    .has_temporary = h == 0,
                                    .heap_samples = 77};
        assert_int_equal(hw_profile_begin(pw, &head, t->cs, 1, &err), 0);
        for (size_t i = 0; i < t->n_sites; i++) {
            const struct values *v = &t->now[h][i];
            struct hw_dump_sample s = {.callsite = t->leaf[i],
                                       .self_allocated = v->alloc,
                                       .self_freed = v->freed,
                                       .alloc_count = v->n_alloc,
                                       .free_count = v->n_free,
                                       .est_alloc_count = v->est_alloc,
                                       .est_free_count = v->est_free,
                                       .temporary_space = v->temporary,
                                       .est_temporary_objects = v->est_temporary};
            if (v->n_alloc)
                assert_int_equal(hw_profile_sample(pw, &s, &err), 0);
        }
        assert_int_equal(hw_profile_end(pw, &err), 0);
    }
    t->checkpoint[t->n_dumps] = checkpoint;
    memcpy(t->at[t->n_dumps++], t->now, sizeof t->now);
}

static void write_trace(struct twin *t, int fd, const char *kinds,
                        enum hw_trace_compression compression)
{
    struct hw_trace_writer *w;
    struct hw_profile_writer *pw;
    struct hw_error err;
    static const char *const argv[] = {"/usr/bin/demo", "--flag"};
    struct hw_process_entry self = {.pid = 4711,
                                    .ppid = 1,
                                    .uid = 1000,
                                    .cmdline = argv,
                                    .n_cmdline = 2,
                                    .start_from_boot_ns = 5};
    assert_int_equal(hw_trace_writer_new(fd, &w, &err), 0);
    hw_trace_writer_set_compression(w, compression, /* level = */ 0);
    assert_int_equal(hw_trace_write_preamble(w, hw_bytes_of("", 0), 1, 2, 2, &err), 0);
    assert_int_equal(hw_trace_process_tree(w, hw_trace_writer_sequence(w), hw_now_boottime_ns(),
                                           &self, 1, NULL, 0, &err),
                     0);
    assert_int_equal(hw_profile_writer_new(w, &pw), 0);
    uint64_t ts = hw_now_monotonic_coarse_ns();
    for (const char *k = kinds; *k; k++) {
        let_time_pass(t);
        write_dump(t, pw, ts += 1000, *k == 'c', k[1] == 0);
    }
    assert_int_equal(hw_trace_write_stats(w, 0, &err), 0);
    hw_profile_writer_free(pw);
    hw_trace_writer_free(w);
}

/* ---- what the importer must say ---- */

static bool same_text(const struct hw_callsites *a, hw_str_id x, const struct hw_callsites *b,
                      hw_str_id y)
{
    return hw_bytes_equal(
        hw_strings_get(hw_callsites_strings((struct hw_callsites *)(uintptr_t)a), x),
        hw_strings_get(hw_callsites_strings((struct hw_callsites *)(uintptr_t)b), y));
}

static void assert_same_stack(const struct hw_callsites *a, hw_callsite_id x,
                              const struct hw_callsites *b, hw_callsite_id y)
{
    hw_frame_id pa[64], pb[64];
    size_t n = hw_callsites_path(a, x, pa, 64);
    assert_int_equal(hw_callsites_path(b, y, pb, 64), n);
    for (size_t i = 0; i < n; i++) {
        const struct hw_frame *f = hw_callsites_get_frame(a, pa[i]);
        const struct hw_frame *g = hw_callsites_get_frame(b, pb[i]);
        assert_int_equal(f->rel_pc, g->rel_pc);
        assert_true(same_text(a, f->name, b, g->name));
        assert_int_equal(f->mapping.v == HW_ID_NONE, g->mapping.v == HW_ID_NONE);
        if (f->mapping.v == HW_ID_NONE)
            continue;
        const struct hw_mapping *m = hw_callsites_get_mapping(a, f->mapping);
        const struct hw_mapping *o = hw_callsites_get_mapping(b, g->mapping);
        assert_int_equal(m->start, o->start);
        assert_int_equal(m->end, o->end);
        assert_int_equal(m->exact_offset, o->exact_offset);
        assert_int_equal(m->load_bias, o->load_bias);
        assert_true(same_text(a, m->path, b, o->path));
        assert_true(same_text(a, m->build_id, b, o->build_id));
    }
}

/* The leaf's rel_pc is 1000 + the twin's index. */
static size_t site_of(const struct twin *t, const struct hw_profile *p, hw_callsite_id id)
{
    const struct hw_callsite *c = hw_callsites_get(p->callsites, id);
    size_t i = (size_t)(hw_callsites_get_frame(p->callsites, c->frame)->rel_pc - 1000);
    assert_true(i < t->n_sites);
    assert_same_stack(t->cs, t->leaf[i], p->callsites, id);
    return i;
}

static void apply(struct values *v, const struct hw_alloc_row *row)
{
    v->temporary += (uint64_t)row->temporary_space;
    v->est_temporary += (double)row->temporary_objects;
    if (row->size >= 0 && row->samples >= 0) {
        v->alloc += (uint64_t)row->size;
        v->n_alloc += (uint64_t)row->samples;
        v->est_alloc += (double)row->count;
    } else {
        v->freed += (uint64_t)-row->size;
        v->n_free += (uint64_t)-row->samples;
        v->est_free += (double)-row->count;
    }
}

static void assert_temporary(const struct values *want, const struct values *got, bool known)
{
    assert_int_equal(known ? want->temporary : 0, got->temporary);
    assert_int_equal(known ? (uint64_t)(want->est_temporary + 0.5) : 0, got->est_temporary);
}

static void assert_values(const struct values *want, const struct values *got)
{
    assert_int_equal(want->alloc, got->alloc);
    assert_int_equal(want->freed, got->freed);
    assert_int_equal(want->n_alloc, got->n_alloc);
    assert_int_equal(want->n_free, got->n_free);
    assert_int_equal((uint64_t)(want->est_alloc + 0.5), got->est_alloc);
    assert_int_equal((uint64_t)(want->est_free + 0.5), got->est_free);
}

static void check_heap(const struct twin *t, const struct hw_profile *p, int heap)
{
    const struct hw_strings *strings = hw_callsites_strings(p->callsites);
    static struct values sum[MAX_SITES];
    memset(sum, 0, sizeof sum);
    size_t dump = 0;
    int64_t last_ts = 0;
    for (uint32_t d = 0; d < p->dumps.n; d++) {
        if (strcmp(hw_strings_cstr(strings, p->dumps.v[d].heap_name), heap_names[heap]) != 0)
            continue;
        while (t->checkpoint[dump] && dump + 1 < t->n_dumps)
            dump++; /* not shown: a later one exists */
        size_t first, n;
        hw_profile_dump_rows(p, d, &first, &n);
        for (size_t i = first; i < first + n; i++) {
            struct hw_alloc_row row = hw_alloc_row_get(&p->allocs, i);
            apply(&sum[site_of(t, p, row.callsite)], &row);
        }
        for (size_t i = 0; i < t->n_sites; i++)
            assert_values(&t->at[dump][heap][i], &sum[i]);
        for (size_t i = 0; i < t->n_sites; i++)
            assert_temporary(&t->at[dump][heap][i], &sum[i], heap == 0);
        assert_int_equal((p->dumps.v[d].flags & HW_DUMP_KNOWS_TEMPORARY) != 0, heap == 0);
        assert_true(p->dumps.v[d].ts_ns > last_ts);
        last_ts = p->dumps.v[d].ts_ns;
        dump++;
    }
    assert_int_equal(dump, t->n_dumps);
}

static void check_no_errors(const struct hw_profile *p)
{
    for (size_t i = 0; i < p->stats.n; i++) {
        const struct hw_stat_row *s = &p->stats.v[i];
        if (s->severity != HW_STAT_INFO && s->value)
            fail_msg("%s = %lld", hw_strings_cstr(hw_callsites_strings(p->callsites), s->name),
                     (long long)s->value);
    }
}

static void check_protoc(const char *path)
{
    char command[4 * 4096]; /* PATH_MAX each */
    (void)snprintf(command, sizeof command,
                   "protoc -I'%s' --decode=perfetto.protos.Trace '%s'/trace.proto "
                   "'%s'/heapwise.proto < %s > %s.txt 2>/dev/null",
                   PROTO_DIR, PROTO_DIR, PROTO_DIR, path, path);
    if (system("protoc --version > /dev/null 2>&1") != 0) {
        print_message("no protoc: the file is not checked by it\n");
        return;
    }
    assert_int_equal(system(command), 0);
    /* Every field has a name: unknown ones would stand there as numbers. */
    (void)snprintf(command, sizeof command,
                   "grep -q 'heap_name: \"libc.malloc\"' %s.txt && ! grep -Eq '^ *[0-9]+[:] ' "
                   "%s.txt",
                   path, path);
    assert_int_equal(system(command), 0);
    (void)snprintf(command, sizeof command, "%s.txt", path);
    (void)unlink(command);
}

static void round_trip(size_t n_sites, const char *kinds, enum hw_trace_compression compression)
{
    struct twin *t = calloc(1, sizeof *t);
    char path[] = "/tmp/hw-roundtrip-XXXXXX";
    int fd = mkstemp(path);
    struct hw_profile *p;
    struct hw_error err = {0};
    assert_non_null(t);
    t->at = calloc(MAX_DUMPS, sizeof *t->at);
    t->rng = n_sites;
    make_sites(t, n_sites);
    write_trace(t, fd, kinds, compression);
    if (hw_import_file(path, &p, &err) < 0)
        fail_msg("%s", err.text);
    check_no_errors(p);
    for (int h = 0; h < N_HEAPS; h++)
        check_heap(t, p, h);
    assert_int_equal(p->processes.n, 2); /* its parent comes first */
    assert_int_equal(p->processes.v[0].pid, 1);
    assert_int_equal(p->processes.v[1].pid, 4711);
    assert_string_equal(hw_strings_cstr(hw_callsites_strings(p->callsites), p->processes.v[1].name),
                        "/usr/bin/demo");
    if (compression == HW_TRACE_PLAIN)
        check_protoc(path);
    hw_profile_free(p);
    hw_callsites_free(t->cs);
    free(t->at);
    free(t);
    close(fd);
    unlink(path);
}

static void one_dump(void **state)
{
    (void)state;
    round_trip(50, "d", HW_TRACE_PLAIN);
}

static void several_dumps(void **state)
{
    (void)state;
    round_trip(200, "dddddddd", HW_TRACE_PLAIN);
}

static void checkpoints_are_folded_into_later_dumps(void **state)
{
    (void)state;
    round_trip(100, "dccdcd", HW_TRACE_PLAIN);
    round_trip(100, "cccd", HW_TRACE_PLAIN);
}

static void the_last_checkpoint_is_shown(void **state)
{
    (void)state;
    round_trip(100, "dcc", HW_TRACE_PLAIN);
    round_trip(100, "c", HW_TRACE_PLAIN);
}

/* Chunked: 6000 callsites are more than 400,000 bytes of interned data. */
static void large_dumps_are_split(void **state)
{
    (void)state;
    round_trip(MAX_SITES, "ddd", HW_TRACE_PLAIN);
}

static void deflated_packets_say_the_same(void **state)
{
    (void)state;
    round_trip(MAX_SITES, "dcd", HW_TRACE_DEFLATE);
    if (hw_zstd_is_here())
        round_trip(MAX_SITES, "dcd", HW_TRACE_ZSTD);
}

HW_TEST_MAIN(cmocka_unit_test(deflated_packets_say_the_same), cmocka_unit_test(one_dump),
             cmocka_unit_test(several_dumps),
             cmocka_unit_test(checkpoints_are_folded_into_later_dumps),
             cmocka_unit_test(the_last_checkpoint_is_shown),
             cmocka_unit_test(large_dumps_are_split))

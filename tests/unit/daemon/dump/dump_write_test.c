/*
 * dump_write_test.c - what is written in turns is what is written at once
 *
 * Random snapshots of several heaps, dumps of every kind, by turns of every length: byte for byte
 * the same trace. The clock that stands in packets is ours (the linker's --wrap).
 */
#include "test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "daemon/core.h"
#include "daemon/dump/dump_write.h"
#include "trace/profile_writer.h"
#include "trace/writer.h"

#define STACKS 3000u
#define HEAPS  3u
#define DUMPS  12

int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    (void)clock;
    *t = (struct timespec){.tv_sec = 4711};
    return 0;
}

static uint64_t random_state;

static uint32_t rnd(uint32_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % n;
}

/* ---- a target of which only the main thread's part is there ---- */

struct made {
    struct hw_heapprofd_config config;
    struct hw_session session;
    struct hw_target target;
    struct hw_trace_writer *trace;
    int out;
};

/* Some stacks are one callsite with another, some have none. */
static void make_frames(struct hw_frames *f)
{
    assert_int_equal(hw_frames_init(f, 0), HW_OK);
    for (uint32_t i = 0; i < STACKS; i++) {
        struct hw_frame frames[2] = {{.mapping = {HW_ID_NONE}, .rel_pc = i % 50},
                                     {.mapping = {HW_ID_NONE}, .rel_pc = 1000 + i / 3}};
        hw_frame_id path[2];
        hw_callsite_id leaf = {HW_ID_NONE};
        for (int k = 0; k < 2; k++)
            assert_int_equal(hw_callsites_frame(f->cs, &frames[k], &path[k]), HW_OK);
        if (i % 100 != 7)
            assert_int_equal(hw_callsites_intern(f->cs, path, 2, &leaf), HW_OK);
        assert_int_equal(hw_vec_push(&f->of_stack, leaf), 0);
    }
}

static void make(struct made *m, bool at_max)
{
    struct hw_error err = {0};
    struct hw_session_source src = {.config = &m->config};
    *m = (struct made){.config = {.default_interval_bytes = 4096, .dump_at_max = at_max},
                       .out = memfd_create("out", MFD_CLOEXEC)};
    assert_int_equal(hw_trace_writer_new(m->out, &m->trace, &err), HW_OK);
    assert_int_equal(hw_profile_writer_new(m->trace, &src.writer), HW_OK);
    assert_int_equal(hw_vec_push(&m->session.sources, src), 0);
    m->target.session = &m->session;
    m->target.pid.pid = 4711;
    m->target.key = 1;
    make_frames(&m->target.frames);
}

static void done(struct made *m)
{
    for (size_t i = 0; i < m->target.heaps.n; i++)
        hw_callsite_totals_done(&m->target.heaps.v[i].tally);
    hw_vec_done(&m->target.heaps);
    hw_frames_done(&m->target.frames);
    hw_profile_writer_free(m->session.sources.v[0].writer);
    hw_vec_done(&m->session.sources);
    hw_trace_writer_free(m->trace);
    close(m->out);
}

/* ---- snapshots ---- */

static struct hw_totals totals_of(uint32_t round)
{
    uint64_t n = (round + 1) * 10, freed = rnd(10);
    return (struct hw_totals){.allocated = n * 16,
                              .freed = freed * 16,
                              .alloc_count = rnd(20) ? n : 0,
                              .free_count = freed,
                              .variance = rnd(2),
                              .variance_objects = rnd(2)};
}

static struct hw_snapshot *make_snapshot(uint32_t round, bool at_max)
{
    struct hw_snapshot *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->ts_ns = 1000 + round * 10;
    for (uint32_t h = 0; h < HEAPS; h++) {
        struct hw_snap_book b = {.heap_id = h + 1, .interval_bytes = 4096};
        b.has_peak = at_max || rnd(2);
        b.peak_ns = s->ts_ns - 5;
        uint32_t step = 1 + rnd(40);
        for (uint32_t i = rnd(step); i < STACKS; i += step) {
            struct hw_snap_cell c = {i, totals_of(round)};
            if (b.has_peak)
                assert_int_equal(hw_vec_push(&b.peak_cells, c), 0);
            c.t.allocated += rnd(3) * 16;
            assert_int_equal(hw_vec_push(&b.cells, c), 0);
        }
        assert_int_equal(hw_vec_push(&s->books, b), 0);
    }
    return s;
}

static void write_one(struct made *m, struct hw_snapshot *s, enum hw_dump_kind kind,
                      size_t most_rows)
{
    struct hw_error err = {0};
    struct hw_dump_writing *x;
    struct hw_dump_order ask = {.kind = kind,
                                .trigger = kind == HW_DUMP_FREED ? "freed-by-exec" : "continuous",
                                .moment_ns = s->ts_ns,
                                .keep_cells = kind == HW_DUMP_LIVE};
    assert_int_equal(hw_dump_writing_new(&m->target, s, m->session.sources.v[0].writer, &ask, &x),
                     HW_OK);
    int rc;
    do {
        /* Not by rnd: the numbers of both must be the same. */
        struct hw_dump_turn turn = {.rows = most_rows, .end_ns = UINT64_MAX};
        rc = hw_dump_writing_turn(x, &turn, &err);
        assert_true(rc >= 0);
        assert_true(rc == 0 || turn.rows == 0);
    } while (rc == 1);
    hw_dump_writing_free(x);
}

static void write_all(struct made *m, uint64_t seed, bool at_max, size_t most_rows)
{
    make(m, at_max);
    random_state = seed;
    for (uint32_t i = 0; i < DUMPS; i++) {
        struct hw_snapshot *s = make_snapshot(i, at_max);
        if (i % 3 == 1)
            write_one(m, s, HW_DUMP_LIVE, most_rows);
        write_one(m, s, i + 1 == DUMPS ? HW_DUMP_ALL : HW_DUMP_CHANGES, most_rows);
        if (i + 1 == DUMPS && !at_max)
            write_one(m, s, HW_DUMP_FREED, most_rows);
        hw_snapshot_free(s);
    }
}

static void check_same(int a, int b)
{
    off_t n = lseek(a, 0, SEEK_END);
    assert_true(n > 1000);
    assert_int_equal(lseek(b, 0, SEEK_END), n);
    void *p = mmap(NULL, (size_t)n, PROT_READ, MAP_PRIVATE, a, 0);
    void *q = mmap(NULL, (size_t)n, PROT_READ, MAP_PRIVATE, b, 0);
    assert_true(p != MAP_FAILED && q != MAP_FAILED);
    assert_memory_equal(p, q, (size_t)n);
    munmap(p, (size_t)n);
    munmap(q, (size_t)n);
}

static void test_turns_as_at_once(void **state)
{
    (void)state;
    static const size_t lengths[] = {1, 2, 63, 64, 65, 1000};
    for (uint64_t seed = 1; seed <= 6; seed++) {
        static struct made once, turns;
        bool at_max = seed % 3 == 0;
        write_all(&once, seed, at_max, SIZE_MAX);
        write_all(&turns, seed, at_max, lengths[seed - 1]);
        check_same(once.out, turns.out);
        done(&once);
        done(&turns);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_turns_as_at_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What of the allocator's mappings is live, and what was never written to. */
#include "test.h"

#include <stdio.h>
#include <string.h>

#include "views/account/memory_parts.h"
#include "views/account/parts_diff.h"
#include "views/fill.h"

#define KIB 1024.0
#define MIB (1024 * KIB)

static void count_at(struct hw_profile *p, const char *name, int64_t ts_ns, double value)
{
    struct hw_counter_row row = {
        .upid = {0}, .name = fill_str(p, name), .ts_ns = ts_ns, .value = value};
    assert_int_equal(hw_vec_push(&p->counters, row), 0);
}

static void count(struct hw_profile *p, const char *name, double value)
{
    count_at(p, name, 200, value);
}

static void map(struct hw_profile *p, const char *path, double size, double rss)
{
    struct hw_smaps_row row = {.upid = {0},
                               .ts_ns = 200,
                               .path = fill_str(p, path),
                               .size_kb = (uint64_t)(size / KIB),
                               .rss_kb = (uint64_t)(rss / KIB),
                               .pss_kb = (uint64_t)(rss / KIB),
                               .swap_kb = 0,
                               .aggregate_count = 1};
    assert_int_equal(hw_vec_push(&p->smaps, row), 0);
}

/* Blocks of one size, all live at 200. */
static struct hw_profile *profile_with(uint64_t n, uint64_t bytes, uint32_t flags)
{
    struct hw_profile *p;
    assert_int_equal(hw_profile_new(&p), 0);
    uint32_t d = fill_dump(p, 5, "libc.malloc", 200, 1, flags);
    fill_row(p, d, "main;work;malloc@/lib/libc.so", (int64_t)n, (int64_t)bytes);
    count(p, "account.live", (double)bytes);
    return p;
}

static struct hw_profile *profile_of(uint64_t n, uint64_t bytes)
{
    return profile_with(n, bytes, HW_DUMP_FROM_STARTUP);
}

static void find(struct hw_profile *p, double rss, struct hw_memory_parts *out)
{
    struct hw_series_list list;
    struct hw_process_view v;
    hw_values values = {0};
    count(p, "account.rss", rss);
    assert_int_equal(hw_profile_freeze(p), 0);
    assert_int_equal(hw_series_list_init(&list, p), 0);
    assert_int_equal(hw_process_view_init(&v, p, &list, (hw_upid){0}), 0);
    assert_int_equal(hw_process_values(p, &list, (hw_upid){0}, 200, /* at_max = */ false, &values),
                     0);
    assert_int_equal(hw_memory_parts_find(p, &v, 200, &values, out), 0);
    hw_vec_done(&values);
    hw_process_view_done(&v);
    hw_series_list_done(&list);
}

static void near(double have, double want)
{
    if (have < want - 64 * KIB || have > want + 64 * KIB)
        fail_msg("%.2f MiB, expected %.2f", have / MIB, want / MIB);
}

/* Half of a large block was never written to: it is live memory that is not there. */
static void untouched_block(void **state)
{
    (void)state;
    struct hw_profile *p = profile_of(1, (uint64_t)(30 * MIB));
    struct hw_memory_parts m;
    map(p, "[heap]", 2 * MIB, 1 * MIB);
    map(p, "[malloc block]", 30 * MIB, 15 * MIB);
    find(p, 16 * MIB, &m);
    near(m.untouched, 15 * MIB);
    near(m.parts[HW_PART_LIVE].rss, 15 * MIB);
    near(m.parts[HW_PART_FREE].rss, 1 * MIB);
    hw_memory_parts_done(&m);
    hw_profile_free(p);
}

/* 10 MiB of a block's mapping are around it, since it is aligned; small blocks lie in an arena. */
static void gaps(void **state)
{
    (void)state;
    struct hw_profile *p = profile_of(1, (uint64_t)(50 * MIB));
    struct hw_memory_parts m;
    map(p, "[heap]", 32 * MIB, 31 * MIB);
    map(p, "[malloc block]", 30 * MIB, 20 * MIB);
    count(p, "account.gaps", 10 * MIB);
    find(p, 51 * MIB, &m);
    near(m.untouched, 0);
    near(m.parts[HW_PART_LIVE].rss, 50 * MIB);
    near(m.parts[HW_PART_FREE].rss, 1 * MIB);
    hw_memory_parts_done(&m);
    hw_profile_free(p);
}

/* Blocks that the profile does not know of are no live memory, touched or not. */
static void foreign_blocks(void **state)
{
    (void)state;
    struct hw_profile *p = profile_of(1, (uint64_t)(20 * MIB));
    struct hw_memory_parts m;
    map(p, "[heap]", 2 * MIB, 1 * MIB);
    map(p, "[malloc block]", 52 * MIB, 20 * MIB);
    find(p, 21 * MIB, &m);
    near(m.untouched, 0);
    near(m.parts[HW_PART_LIVE].rss, 20 * MIB);
    near(m.parts[HW_PART_FREE].rss, 1 * MIB);
    hw_memory_parts_done(&m);
    hw_profile_free(p);
}

/* Another allocator's rounding is a guess: it makes nothing of live memory untouched. */
static void guessed_rounding(void **state)
{
    (void)state;
    struct hw_profile *p = profile_of(1000001, (uint64_t)(24 * MIB)); /* of several sizes */
    struct hw_memory_parts m;
    map(p, "[allocator]", 30 * MIB, 27 * MIB);
    find(p, 27 * MIB, &m);
    near(m.untouched, 0);
    near(m.parts[HW_PART_LIVE].rss, 24 * MIB);
    near(m.parts[HW_PART_ROUNDING].rss, 3 * MIB);
    near(m.parts[HW_PART_MOVED].rss, 0);
    hw_memory_parts_done(&m);
    hw_profile_free(p);
}

/* 200,000 keys of 35 to 40 bytes are in blocks of 48: their mean says no more than that it is 8 to 23 bytes each. */
static void several_sizes(void **state)
{
    (void)state;
    struct hw_profile *p = profile_of(200000, 7888895);
    struct hw_memory_parts m;
    map(p, "[heap]", 9600 * KIB, 9600 * KIB);
    find(p, 9600 * KIB, &m);
    near(m.parts[HW_PART_LIVE].rss, 7888895);
    near(m.parts[HW_PART_ROUNDING].rss, 9600 * KIB - 7888895);
    near(m.parts[HW_PART_MOVED].rss, 0);
    hw_memory_parts_done(&m);
    hw_profile_free(p);
}

/* One size is known: what is missing has moved. */
static void moved(void **state)
{
    (void)state;
    struct hw_profile *p = profile_of(100000, 100000 * 40);
    struct hw_memory_parts m;
    map(p, "[heap]", 4 * MIB, 4 * MIB);
    find(p, 4 * MIB, &m);
    near(m.parts[HW_PART_ROUNDING].rss, 100000 * 8);
    near(m.parts[HW_PART_MOVED].rss, 4 * MIB - 100000 * 48);
    hw_memory_parts_done(&m);
    hw_profile_free(p);
}

/* The dump had other blocks than the reading: what is added to these says nothing of those. */
static void rounding_of_the_reading(void **state)
{
    (void)state;
    struct hw_profile *p = profile_of(1000, 100000);
    struct hw_memory_parts m;
    map(p, "[heap]", 15 * MIB, 15 * MIB);
    count(p, "account.rounding", 2 * MIB);
    find(p, 15 * MIB, &m);
    near(m.parts[HW_PART_LIVE].rss, 100000);
    near(m.parts[HW_PART_ROUNDING].rss, 2 * MIB);
    near(m.parts[HW_PART_FREE].rss, 13 * MIB - 100000);
    hw_memory_parts_done(&m);
    hw_profile_free(p);
}

/* A burst while the mappings were read: they had less than is live behind them. */
static void grew_meanwhile(void **state)
{
    (void)state;
    const struct {
        double before, live, moved;
    } rows[] = {
        {15 * MIB, 20 * MIB, 0}, {24 * MIB, 24 * MIB, -4 * MIB}, {30 * MIB, 30 * MIB, -10 * MIB}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct hw_profile *p = profile_of(1, (uint64_t)(30 * MIB));
        struct hw_memory_parts m;
        count(p, "account.live.before", rows[i].before);
        map(p, "[heap]", 20 * MIB, 20 * MIB);
        find(p, 20 * MIB, &m);
        near(m.requested, rows[i].live);
        near(m.parts[HW_PART_LIVE].rss, rows[i].live);
        near(m.parts[HW_PART_MOVED].rss, rows[i].moved);
        hw_memory_parts_done(&m);
        hw_profile_free(p);
    }
}

/* Attached: the allocator was asked before 20 MiB were allocated, and says 6 MiB in use, 1 of it recorded. */
static void older(bool is_told, struct hw_memory_parts *m)
{
    struct hw_profile *p = profile_with(21, (uint64_t)(21 * MIB), 0);
    map(p, "[heap]", 30 * MIB, 28 * MIB);
    count_at(p, "malloc_info.in_use", -INT64_C(1000000000), 6 * MIB);
    count_at(p, "malloc_info.mmap", -INT64_C(1000000000), 0);
    if (is_told) {
        count_at(p, "account.in_use.live", -INT64_C(1000000000), 1 * MIB);
        count_at(p, "account.in_use.rounding", -INT64_C(1000000000), 0.5 * MIB);
    }
    find(p, 28 * MIB, m);
    near(m->parts[HW_PART_LIVE].rss, 21 * MIB);
    hw_memory_parts_done(m);
    hw_profile_free(p);
}

static void asked_before(void **state)
{
    struct hw_memory_parts m;
    (void)state;
    older(/* is_told = */ true, &m);
    assert_false(m.older_or_free);
    assert_int_equal(m.older_ts_ns, -INT64_C(1000000000));
    near(m.parts[HW_PART_OLDER].rss, 4.5 * MIB);
    near(m.parts[HW_PART_FREE].rss, 2.5 * MIB - 21 * 4 * KIB); /* whole pages each */
    older(/* is_told = */ false, &m); /* by a recorder that does not say what was live then */
    assert_true(m.older_or_free);
    near(m.parts[HW_PART_OLDER].rss, 7 * MIB - 21 * 4 * KIB);
    near(m.parts[HW_PART_FREE].rss, 0);
}

/* A file may have as many readings and names as it likes: to compare each with each would take minutes. */
/* A forked child: what it shares is its parent's, what it allocated is its own. */
static void child(bool has_dump, struct hw_memory_parts *m)
{
    struct hw_profile *p;
    if (has_dump) {
        p = profile_of(1000, (uint64_t)(15 * MIB));
    } else {
        hw_upid upid;
        assert_int_equal(hw_profile_new(&p), 0);
        assert_int_equal(hw_profile_process(p, 5, &upid), 0);
        p->processes.v[upid.v].start_ns = 150;
        p->first_ns = 100;
    }
    map(p, "[heap]", 60 * MIB, 60 * MIB);
    p->smaps.v[0].private_dirty_kb = 20 << 10;
    p->smaps.v[0].pss_kb = 28 << 10; /* five processes share the rest */
    find(p, 60 * MIB, m);
    hw_profile_free(p);
}

static void forked_child(void **state)
{
    (void)state;
    struct hw_memory_parts m;
    child(/* has_dump = */ true, &m);
    near(m.parts[HW_PART_LIVE].pss, 15 * MIB);
    near(m.parts[HW_PART_LIVE].pss + m.parts[HW_PART_ROUNDING].pss + m.parts[HW_PART_FREE].pss,
         28 * MIB);
    hw_memory_parts_done(&m);
    /* One that was not recorded: nobody knows what of it is free. */
    child(/* has_dump = */ false, &m);
    assert_true(m.older_or_free);
    near(m.parts[HW_PART_OLDER].rss, 60 * MIB);
    near(m.parts[HW_PART_OLDER].pss, 28 * MIB);
    near(m.parts[HW_PART_FREE].rss, 0);
    hw_memory_parts_done(&m);
}

/* Whose objects were recorded has arenas that are known: then there was no reading in time. */
static void python_without_a_reading(void **state)
{
    (void)state;
    for (int has_objects = 0; has_objects < 2; has_objects++) {
        struct hw_memory_parts m;
        struct hw_profile *p = profile_of(1, (uint64_t)MIB);
        map(p, "/usr/bin/python3.11", MIB, MIB);
        count(p, "python.heap.state", 2);
        if (has_objects)
            (void)fill_dump(p, 5, "python.alloc", 200, 1, HW_DUMP_FROM_STARTUP);
        find(p, 3 * MIB, &m);
        assert_non_null(m.unsaid);
        assert_non_null(strstr(m.unsaid, has_objects ? "not read in time" : "another version"));
        hw_memory_parts_done(&m);
        hw_profile_free(p);
    }
}

static void many(void **state)
{
    enum { MANY = 500000 };
    (void)state;
    struct hw_profile *p = profile_of(1, 1000);
    struct hw_memory_parts m, again;
    struct hw_parts_diff d;
    for (int i = 0; i < MANY; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "/data/%d", i % (MANY / 2));
        map(p, name, 4 * KIB, 4 * KIB);
    }
    hw_str_id rss = fill_str(p, "account.rss");
    for (int i = 0; i < MANY; i++) {
        struct hw_smaps_row row = p->smaps.v[0];
        struct hw_counter_row reading = {.upid = {0}, .name = rss, .ts_ns = i - MANY, .value = 1};
        row.ts_ns = i - MANY;
        assert_int_equal(hw_vec_push(&p->smaps, row), 0);
        assert_int_equal(hw_vec_push(&p->counters, reading), 0);
    }
    find(p, MANY * 4 * KIB, &m);
    assert_int_equal(m.ts_ns, 200);
    assert_int_equal(m.entries.n, MANY / 2);
    assert_int_equal(m.entries.v[0].n_mappings, 2);
    near(m.parts[HW_PART_FILES].rss, MANY * 4 * KIB);
    again = m;
    struct hw_parts_diff_side a = {p, &m}, b = {p, &again};
    assert_int_equal(hw_parts_diff_make(&a, &b, 0, &d), 0);
    assert_int_equal(d.rows.n, MANY / 2 + HW_PART_COUNT);
    hw_parts_diff_done(&d);
    hw_memory_parts_done(&m);
    hw_profile_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(python_without_a_reading),
                                       cmocka_unit_test(many),
                                       cmocka_unit_test(untouched_block),
                                       cmocka_unit_test(foreign_blocks),
                                       cmocka_unit_test(guessed_rounding),
                                       cmocka_unit_test(rounding_of_the_reading),
                                       cmocka_unit_test(several_sizes),
                                       cmocka_unit_test(moved),
                                       cmocka_unit_test(asked_before),
                                       cmocka_unit_test(forked_child),
                                       cmocka_unit_test(grew_meanwhile),
                                       cmocka_unit_test(gaps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

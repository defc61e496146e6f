/* pace_test.c - how often the recorder wakes up for its rings, counted on a clock of the test's own
 */
#include "test.h"

#include "daemon/books/pace.h"

#define MS   UINT64_C(1000000)
#define SEC  (1000 * MS)
#define MIB  (UINT64_C(1) << 20)
#define MOST 64

struct ring {
    struct hw_pace pace;
    uint64_t size, every_ns, next_ns; /* 64 bytes each so often; 0 = none */
    uint64_t bytes, fullest;
};

static uint64_t soonest(const struct ring *r, size_t n)
{
    uint64_t next = UINT64_MAX;
    for (size_t i = 0; i < n; i++)
        next = r[i].pace.next_ns < next ? r[i].pace.next_ns : next;
    return next;
}

static void write_until(struct ring *r, uint64_t now)
{
    for (; r->every_ns && r->next_ns <= now; r->next_ns += r->every_ns)
        r->bytes += 64;
    r->fullest = r->bytes > r->fullest ? r->bytes : r->fullest;
}

/* Wake-ups in [from, to), as drain.c's thread has them. */
static size_t wake_ups(struct ring *r, size_t n, uint64_t from, uint64_t to)
{
    size_t count = 0;
    for (uint64_t now; (now = soonest(r, n)) < to;) {
        count += now >= from;
        for (size_t i = 0; i < n; i++) {
            if (!hw_pace_is_due(&r[i].pace, now))
                continue;
            write_until(&r[i], now);
            hw_pace_checked(&r[i].pace, r[i].bytes, r[i].size, /* quick = */ false, now);
            r[i].bytes = 0;
        }
    }
    return count;
}

static void start_all(struct ring *r, size_t n, uint64_t size, bool patient)
{
    for (size_t i = 0; i < n; i++) {
        r[i] = (struct ring){.pace = {.patient = patient}, .size = size};
        hw_pace_start(&r[i].pace, i * 37 * MS); /* none in step with another */
    }
}

/* On their own these are 10 each. */
static void test_together(void **state)
{
    (void)state;
    for (int patient = 0; patient < 2; patient++) {
        struct ring r[MOST];
        start_all(r, MOST, MIB, patient);
        size_t n = wake_ups(r, MOST, 10 * SEC, 20 * SEC);
        assert_in_range(n, 100, 150);
    }
}

/* A sample now and then is no reason to look 80 times a second. */
static void test_sparse(void **state)
{
    (void)state;
    struct ring r[20];
    start_all(r, 20, MIB, /* patient = */ true);
    for (size_t i = 0; i < 20; i++)
        r[i].every_ns = (40 + i) * MS;
    assert_in_range(wake_ups(r, 20, 10 * SEC, 20 * SEC), 100, 150);
    start_all(r, 20, MIB, /* patient = */ false); /* 80 a second: samples may come at any rate */
    for (size_t i = 0; i < 20; i++)
        r[i].every_ns = (40 + i) * MS;
    assert_in_range(wake_ups(r, 20, 10 * SEC, 20 * SEC), 800, 1000);
}

/* What continuous recording has: 256 KiB, a sample every 512 KiB. As seldom as a larger one. */
static void test_sparse_small(void **state)
{
    (void)state;
    struct ring r[20];
    assert_true(hw_pace_is_rare(512 << 10, 256 << 10));
    assert_true(hw_pace_is_rare(64 << 10, MIB));
    assert_false(hw_pace_is_rare(64 << 10, 256 << 10));
    assert_false(hw_pace_is_rare(4096, 8 * MIB));
    start_all(r, 20, MIB / 4, /* patient = */ true);
    for (size_t i = 0; i < 20; i++)
        r[i].every_ns = (40 + i) * MS;
    assert_in_range(wake_ups(r, 20, 10 * SEC, 20 * SEC), 100, 150);
}

/* 10 GB/s of allocations out of nothing, each with a stack of its own of 30 frames: some are lost
 * in the first moment, none later. */
static void test_burst_patient(void **state)
{
    (void)state;
    struct ring r;
    start_all(&r, 1, MIB / 4, /* patient = */ true);
    (void)wake_ups(&r, 1, 0, SEC);
    r.every_ns = SEC * 64 / (6 * MIB);
    r.next_ns = SEC;
    (void)wake_ups(&r, 1, 0, 2 * SEC);
    r.fullest = 0;
    (void)wake_ups(&r, 1, 0, 4 * SEC);
    assert_in_range(r.fullest, 1, MIB / 8);
}

/* Program starts: the look at each of them is the one at all others. */
static void test_starts(void **state)
{
    (void)state;
    struct ring r[MOST];
    start_all(r, MOST, MIB, /* patient = */ true);
    for (size_t i = 0; i < MOST; i++)
        hw_pace_start(&r[i].pace, i * 80 * MS);
    assert_in_range(wake_ups(r, MOST, 0, 80 * MOST * MS), 0, 50 * 80 * MOST / 1000);
}

/* 30 MB/s of samples out of nothing: none is lost, and soon an eighth is seldom passed. */
static void test_burst(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {8 * MIB, MIB / 2};
    for (size_t k = 0; k < 2; k++) {
        struct ring r;
        start_all(&r, 1, sizes[k], /* patient = */ k == 0);
        (void)wake_ups(&r, 1, 0, SEC);
        r.every_ns = SEC * 64 / (30 * MIB);
        r.next_ns = SEC;
        (void)wake_ups(&r, 1, 0, 3 * SEC);
        assert_in_range(r.fullest, 1, sizes[k]);
        r.fullest = 0;
        (void)wake_ups(&r, 1, 0, 4 * SEC);
        assert_in_range(r.fullest, 1, sizes[k] / 4);
    }
}

static void test_quick(void **state)
{
    (void)state;
    struct hw_pace p = {.us = HW_PACE_MAX_US};
    hw_pace_checked(&p, 0, 8 * MIB, /* quick = */ true, 0);
    assert_int_equal(p.us, 1000);
    p = (struct hw_pace){.us = HW_PACE_MAX_US, .patient = true};
    hw_pace_checked(&p, 0, 8 * MIB, /* quick = */ true, 0);
    assert_int_equal(p.us, 10000);
}

/* A hundred samples fit: it is looked at every 100 us. */
static void test_small(void **state)
{
    (void)state;
    struct hw_pace p = {0};
    hw_pace_start(&p, 0);
    for (int i = 0; i < 10; i++)
        hw_pace_checked(&p, 4096, 8192, /* quick = */ false, 0);
    assert_int_equal(p.us, 100);
    for (int i = 0; i < 10; i++)
        hw_pace_checked(&p, 0, 8192, /* quick = */ false, 0);
    assert_int_equal(p.us, 100); /* most_us is 97 */
}

/* Looks in the tenth minute of 20 services: 20 a second, not 67. */
static void test_filters(void **state)
{
    (void)state;
    assert_int_equal(hw_pace_filters_ns(0, 1), 100 * MS);
    assert_int_equal(hw_pace_filters_ns(2 * SEC, 20), 300 * MS);
    assert_int_equal(hw_pace_filters_ns(600 * SEC, 1), SEC);
    assert_int_equal(hw_pace_filters_ns(600 * SEC, 1000), SEC);
}

/* A thousand programs of old: a thirtieth of them at a time; a young one each time. */
static void test_titles(void **state)
{
    (void)state;
    size_t n = 0;
    for (int32_t pid = 1; pid <= 1000; pid++)
        for (uint64_t look = 0; look < 30; look++)
            n += hw_pace_title_is_due(look, pid, 255);
    assert_int_equal(n, 1000);
    for (uint64_t look = 0; look < 30; look++)
        assert_true(hw_pace_title_is_due(look, 4711, 7));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_together),     cmocka_unit_test(test_sparse),
        cmocka_unit_test(test_sparse_small), cmocka_unit_test(test_burst_patient),
        cmocka_unit_test(test_starts),       cmocka_unit_test(test_burst),
        cmocka_unit_test(test_quick),        cmocka_unit_test(test_small),
        cmocka_unit_test(test_filters),      cmocka_unit_test(test_titles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

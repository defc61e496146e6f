#include "test.h"

#include "codec/pb.h"
#include "schema/fields.h"
#include "trace/clocks.h"

enum { REALTIME = 1, MONOTONIC = 3, COARSE = 4, BOOTTIME = 6 };

struct reading {
    uint32_t id;
    uint64_t ns, unit;
    bool incremental;
};

static void add(struct hw_clocks *c, uint64_t sequence, uint32_t primary,
                const struct reading *readings, size_t n)
{
    struct hw_pb w = {0};
    for (size_t i = 0; i < n; i++) {
        hw_pb_begin(&w, HW_F_ClockSnapshot_clocks);
        hw_pb_uint(&w, HW_F_ClockSnapshot_Clock_clock_id, readings[i].id);
        hw_pb_uint(&w, HW_F_ClockSnapshot_Clock_timestamp, readings[i].ns);
        hw_pb_uint(&w, HW_F_ClockSnapshot_Clock_unit_multiplier_ns, readings[i].unit);
        hw_pb_uint(&w, HW_F_ClockSnapshot_Clock_is_incremental, readings[i].incremental);
        hw_pb_end(&w);
    }
    if (primary)
        hw_pb_uint(&w, HW_F_ClockSnapshot_primary_trace_clock, primary);
    assert_int_equal(hw_clocks_add(c, hw_pb_view(&w), sequence), 0);
    hw_pb_done(&w);
}

static int64_t converted(struct hw_clocks *c, uint32_t clock, uint64_t sequence, uint64_t value)
{
    int64_t ns = -1;
    assert_int_equal(hw_clocks_convert(c, clock, sequence, value, &ns), HW_CLOCK_OK);
    return ns;
}

static void the_snapshot_before_counts(void **state)
{
    (void)state;
    struct hw_clocks c = {0};
    add(&c, 1, BOOTTIME, (struct reading[]){{BOOTTIME, 1000}, {COARSE, 500}}, 2);
    add(&c, 1, 0, (struct reading[]){{BOOTTIME, 3000}, {COARSE, 1500}}, 2); /* drifted */
    assert_int_equal(converted(&c, COARSE, 0, 400), 900);                   /* before the first */
    assert_int_equal(converted(&c, COARSE, 0, 500), 1000);
    assert_int_equal(converted(&c, COARSE, 0, 1499), 1999);
    assert_int_equal(converted(&c, COARSE, 0, 1500), 3000);
    assert_int_equal(converted(&c, COARSE, 0, 2000), 3500);
    assert_int_equal(converted(&c, BOOTTIME, 0, 7), 7);
    assert_int_equal(converted(&c, 0, 0, 7), 7);
    hw_clocks_done(&c);
}

static void over_a_third_clock(void **state)
{
    (void)state;
    struct hw_clocks c = {0};
    add(&c, 1, 0, (struct reading[]){{COARSE, 100}, {REALTIME, 9100}}, 2);
    add(&c, 1, 0, (struct reading[]){{REALTIME, 9000}, {BOOTTIME, 50}}, 2);
    assert_int_equal(converted(&c, COARSE, 0, 110), 160);
    hw_clocks_done(&c);
}

static void failures_are_told_apart(void **state)
{
    (void)state;
    struct hw_clocks c = {0};
    int64_t ns;
    assert_int_equal(hw_clocks_convert(&c, COARSE, 0, 1, &ns), HW_CLOCK_UNKNOWN_SOURCE);
    add(&c, 1, 0, (struct reading[]){{COARSE, 100}, {MONOTONIC, 1}}, 2);
    assert_int_equal(hw_clocks_convert(&c, COARSE, 0, 1, &ns), HW_CLOCK_UNKNOWN_TARGET);
    add(&c, 1, 0, (struct reading[]){{REALTIME, 9000}, {BOOTTIME, 50}}, 2);
    assert_int_equal(hw_clocks_convert(&c, COARSE, 0, 1, &ns), HW_CLOCK_NO_PATH);
    hw_clocks_done(&c);
}

static void clocks_of_a_sequence(void **state)
{
    (void)state;
    struct hw_clocks c = {0};
    add(&c, 7, BOOTTIME,
        (struct reading[]){{BOOTTIME, 1000000}, {64, 10, 1000}, {65, 10, 1000, true}}, 3);
    assert_int_equal(converted(&c, 64, 7, 12), 1002000);
    assert_int_equal(converted(&c, 65, 7, 2), 1002000); /* deltas add up */
    assert_int_equal(converted(&c, 65, 7, 3), 1005000);
    int64_t ns;
    assert_int_equal(hw_clocks_convert(&c, 64, 8, 12, &ns), HW_CLOCK_UNKNOWN_SOURCE);
    hw_clocks_done(&c);
}

HW_TEST_MAIN(cmocka_unit_test(the_snapshot_before_counts), cmocka_unit_test(over_a_third_clock),
             cmocka_unit_test(failures_are_told_apart), cmocka_unit_test(clocks_of_a_sequence))

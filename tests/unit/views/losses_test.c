#include "test.h"

#include "views/fill.h"
#include "views/findings/losses.h"

static void flags_and_their_stats_are_one_row(void **state)
{
    (void)state;
    struct hw_profile *p;
    assert_int_equal(hw_profile_new(&p), 0);
    uint32_t a = fill_dump(p, 7, "libc.malloc", 1000, 4096, HW_DUMP_BUFFER_OVERRAN);
    fill_row(p, a, "main", 1, 1);
    p->dumps.v[a].lost_samples = 5;
    uint32_t b = fill_dump(p, 7, "libc.malloc", 2000, 8192, HW_DUMP_BUFFER_OVERRAN);
    p->dumps.v[b].orig_interval_bytes = 4096;
    p->dumps.v[b].lost_samples = 12; /* cumulated */
    hw_profile_stat_add(p, "heapprofd_buffer_overran", 7, HW_STAT_DATA_LOSS, 1);
    hw_profile_stat_add(p, "heapprofd_missing_packet", -1, HW_STAT_ERROR, 3);
    hw_profile_stat_add(p, "heapprofd_unwind_time_us", 7, HW_STAT_INFO, 3);
    hw_profile_stat_add(p, "tokenizer_skipped_packets", -1, HW_STAT_ERROR, 0);
    assert_int_equal(hw_profile_freeze(p), 0);
    hw_losses l = {0};
    assert_int_equal(hw_losses_find(p, &l), 0);
    assert_int_equal(l.n, 4);
    static const struct {
        enum hw_loss_kind kind;
        uint64_t count;
        bool incomplete;
    } want[] = {{HW_LOSS_SAMPLES, 12, true},
                {HW_LOSS_OVERRAN, 1, true},
                {HW_LOSS_INTERVAL, 8192, false},
                {HW_LOSS_STAT, 3, true}};
    for (size_t i = 0; i < HW_ARRAY_LEN(want); i++) {
        const struct hw_loss *found = NULL;
        for (size_t k = 0; k < l.n; k++)
            if (l.v[k].kind == want[i].kind)
                found = &l.v[k];
        assert_non_null(found);
        assert_int_equal(found->count, want[i].count);
        assert_int_equal(hw_loss_is_incomplete(found), want[i].incomplete);
    }
    hw_vec_done(&l);
    hw_profile_free(p);
}

/* One row a place: their sum, and where it begins. */
static void places_of_a_json_trace_are_added_up(void **state)
{
    (void)state;
    struct hw_profile *p;
    assert_int_equal(hw_profile_new(&p), 0);
    hw_profile_stat_add(p, "memory_infra_not_json", -1, HW_STAT_ERROR, 4);
    hw_profile_stat_add(p, "memory_infra_not_json", 539, HW_STAT_ERROR, 1);
    hw_profile_stat_add(p, "memory_infra_not_json", 505, HW_STAT_ERROR, 2);
    hw_profile_stat_add(p, "traced_buf_bytes_lost", 0, HW_STAT_DATA_LOSS, 5);
    hw_profile_stat_add(p, "traced_buf_bytes_lost", 1, HW_STAT_DATA_LOSS, 6);
    assert_int_equal(hw_profile_freeze(p), 0);
    hw_losses l = {0};
    assert_int_equal(hw_losses_find(p, &l), 0);
    assert_int_equal(l.n, 2);
    assert_int_equal(l.v[0].count, 7);
    assert_int_equal(l.v[0].place, 505);
    assert_int_equal(l.v[1].count, 11);
    assert_int_equal(l.v[1].place, -1); /* its keys are buffers */
    hw_vec_done(&l);
    hw_profile_free(p);
}

HW_TEST_MAIN(cmocka_unit_test(flags_and_their_stats_are_one_row),
             cmocka_unit_test(places_of_a_json_trace_are_added_up))

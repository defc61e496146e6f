/* Boxes of a track: each slice that overlaps the window is in exactly one, and none too narrow. */
#include "views/time/slice_boxes.h"

#include <stdlib.h>

#include "base/error.h"
#include "model/profile.h"
#include "test.h"

static void test_boxes(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 50; seed++) {
        struct hw_profile *p;
        uint32_t a, b;
        hw_slice_boxes boxes = {0};
        hw_slice_summaries all = {0};
        srand(seed);
        assert_int_equal(hw_profile_new(&p), HW_OK);
        assert_int_equal(hw_slices_named_track(&p->slices, (hw_str_id){1}, &a), HW_OK);
        assert_int_equal(hw_slices_named_track(&p->slices, (hw_str_id){2}, &b), HW_OK);
        int64_t ts = 0;
        for (int i = 0; i < 300; i++) {
            int64_t dur = 1 + rand() % (rand() % 4 ? 20 : 400);
            struct hw_slice_event e = {ts, dur, rand() % 5 ? a : b, HW_SLICE_WHOLE, {0}, {1}};
            assert_int_equal(hw_slices_add(&p->slices, &e), HW_OK);
            e.ts_ns++, e.dur_ns /= 2;
            assert_int_equal(hw_slices_add(&p->slices, &e), HW_OK);
            ts += dur + rand() % 30;
        }
        assert_int_equal(hw_slices_finish(p), HW_OK);
        int64_t from = ts / 4, to = ts / 2, min = 50;
        uint32_t n = 0, want = 0;
        assert_int_equal(hw_slices_boxes(p, a, from, to, min, 10, &boxes), HW_OK);
        int64_t end[2] = {INT64_MIN, INT64_MIN};
        for (size_t i = 0; i < boxes.n; i++) {
            const struct hw_slice_box *k = &boxes.v[i];
            n += k->n;
            assert_true(k->ts_ns >= end[k->depth] && k->end_ns >= k->ts_ns);
            end[k->depth] = k->end_ns;
            if (k->n > 1)
                assert_true(p->slices.rows.v[k->row].dur_ns < min);
        }
        for (size_t i = 0; i < p->slices.rows.n; i++) {
            const struct hw_slice *r = &p->slices.rows.v[i];
            want += r->track == a && r->ts_ns < to && r->ts_ns + r->dur_ns >= from;
        }
        assert_int_equal(n, want);
        assert_int_equal(hw_slices_summaries(p, &all), HW_OK);
        assert_int_equal(all.n, 2);
        assert_int_equal(all.v[0].n_slices + all.v[1].n_slices, p->slices.rows.n);
        assert_int_equal(all.v[0].n_levels, 2);
        hw_vec_done(&boxes);
        hw_vec_done(&all);
        hw_profile_free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_boxes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

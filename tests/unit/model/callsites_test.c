/* Callsites against a twin that keeps every path as an array. */
#include <stdlib.h>
#include <string.h>

#include "test.h"

#include "base/error.h"
#include "base/memory/map64.h"
#include "model/callsites.h"

enum { PATHS = 3000, DEPTH = 20, FRAMES = 40 };

static void same_path_same_number(void **state)
{
    (void)state;
    struct hw_callsites *cs;
    hw_frame_id frames[FRAMES];
    static hw_frame_id paths[PATHS][DEPTH];
    static size_t depth[PATHS];
    static hw_callsite_id ids[PATHS];
    uint64_t rng = 1;
    assert_int_equal(hw_callsites_new(&cs), 0);
    for (uint32_t i = 0; i < FRAMES; i++) {
        struct hw_frame f = {.mapping = {HW_ID_NONE}, .rel_pc = i};
        assert_int_equal(hw_callsites_frame(cs, &f, &frames[i]), 0);
        assert_int_equal(frames[i].v, i);
    }
    for (size_t i = 0; i < PATHS; i++) {
        rng = hw_hash_mix(rng, i);
        depth[i] = 1 + rng % DEPTH;
        for (size_t k = 0; k < depth[i]; k++) {
            rng = hw_hash_mix(rng, k);
            paths[i][k] = frames[rng % (k < 5 ? 2 : FRAMES)];
        }
        assert_int_equal(hw_callsites_intern(cs, paths[i], depth[i], &ids[i]), 0);
    }
    size_t count = hw_callsites_count(cs);
    for (size_t i = 0; i < PATHS; i++) {
        hw_frame_id got[DEPTH];
        hw_callsite_id again;
        assert_int_equal(hw_callsites_path(cs, ids[i], got, DEPTH), depth[i]);
        assert_memory_equal(got, paths[i], depth[i] * sizeof *got);
        assert_int_equal(hw_callsites_intern(cs, paths[i], depth[i], &again), 0);
        assert_int_equal(again.v, ids[i].v);
        for (size_t j = 0; j < i; j += 97) {
            bool same =
                depth[i] == depth[j] && memcmp(paths[i], paths[j], depth[i] * sizeof *got) == 0;
            assert_int_equal(same, ids[i].v == ids[j].v);
        }
    }
    assert_int_equal(hw_callsites_count(cs), count);
    assert_int_equal(hw_callsites_intern(cs, paths[0], 0, &ids[0]), HW_EINVAL);
    hw_callsites_free(cs);
}

/* A frame named later is found by the name it came with. */
static void names_may_come_later(void **state)
{
    (void)state;
    struct hw_callsites *cs;
    struct hw_mapping m = {.start = 1, .end = 2};
    hw_frame_id a, b;
    hw_str_id name;
    assert_int_equal(hw_callsites_new(&cs), 0);
    struct hw_frame f = {.rel_pc = 7};
    assert_int_equal(hw_callsites_mapping(cs, &m, &f.mapping), 0);
    assert_int_equal(hw_callsites_frame(cs, &f, &a), 0);
    assert_int_equal(hw_strings_intern(hw_callsites_strings(cs), hw_bytes_str("malloc"), &name), 0);
    hw_callsites_set_frame_name(cs, a, name);
    assert_int_equal(hw_callsites_frame(cs, &f, &b), 0);
    assert_int_equal(a.v, b.v);
    assert_int_equal(hw_callsites_get_frame(cs, b)->name.v, name.v);
    m.load_bias = 1;
    assert_int_equal(hw_callsites_mapping(cs, &m, &f.mapping), 0);
    assert_int_equal(f.mapping.v, 1);
    hw_callsites_free(cs);
}

HW_TEST_MAIN(cmocka_unit_test(same_path_same_number), cmocka_unit_test(names_may_come_later))

/*
 * live_map_test.c - the table of live samples against an array
 *
 * Ids as rings give them (rising, a few bytes apart, freed soon or late) and scattered ones, which
 * make long runs of strangers.
 */
#include "test.h"

#include <stdlib.h>

#include "base/error.h"
#include "daemon/books/live_map.h"

#define N_PLACES 3000

static uint64_t rng_state;
static uint32_t rnd(uint32_t n)
{
    rng_state = rng_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rng_state >> 33) % n;
}

static void check(const struct hw_live_map *l, size_t n_live)
{
    size_t n = 0;
    assert_int_equal(l->n, n_live);
    for (size_t i = 0; l->slots && i <= l->mask; i++) {
        if (!l->slots[i].key)
            continue;
        size_t away = (i - hw_live_map_home(l, l->slots[i].key - 1)) & l->mask;
        assert_int_equal(l->slots[i].away, away < 255 ? away : 255);
        n++;
    }
    assert_int_equal(n, n_live);
}

static void behaves_as_an_array(unsigned step, unsigned places)
{
    struct hw_live_map l = {0};
    uint64_t *id = calloc(N_PLACES, sizeof *id), pos = 4096;
    size_t n_live = 0;
    struct hw_live_map_slot gone, *s;
    assert_false(hw_live_map_take(&l, 77, &gone));
    for (uint32_t i = 0; i < 60000; i++) {
        uint32_t p = rnd(places);
        bool fresh;
        if (id[p]) {
            assert_true(hw_live_map_take(&l, id[p], &gone));
            assert_int_equal(gone.key, id[p] + 1);
            assert_int_equal(gone.sample_size, id[p] * 3);
            assert_false(hw_live_map_take(&l, id[p], &gone));
            id[p] = 0;
            n_live--;
        } else {
            pos += step ? 8 * (1 + rnd(step)) : (uint64_t)rnd(1u << 30) << 8;
            assert_int_equal(hw_live_map_at(&l, pos, &s, &fresh), HW_OK);
            assert_true(fresh);
            s->sample_size = pos * 3;
            assert_int_equal(hw_live_map_at(&l, pos, &s, &fresh), HW_OK);
            assert_false(fresh);
            assert_int_equal(s->sample_size, pos * 3);
            id[p] = pos;
            n_live++;
        }
        if (i % 5000 == 0)
            check(&l, n_live);
    }
    check(&l, n_live);
    hw_live_map_done(&l);
    free(id);
}

static void test_array(void **state)
{
    (void)state;
    for (unsigned step = 0; step <= 20; step += 5) {
        behaves_as_an_array(step, 50);
        behaves_as_an_array(step, N_PLACES);
    }
}

/* All ids have one home: every entry but a few is further away than its byte can say. */
static void test_far_away(void **state)
{
    (void)state;
    struct hw_live_map l = {0};
    struct hw_live_map_slot *s, gone;
    uint64_t ids[2000], n = 0, id = 0;
    bool fresh;
    assert_int_equal(hw_live_map_at(&l, 1, &s, &fresh), HW_OK);
    assert_true(hw_live_map_take(&l, 1, &gone));
    for (; n < 2000; id += 32) { /* the table's low 3 bits and the hash's next 6 decide at first */
        struct hw_live_map final = {.mask = 4095};
        if ((hw_live_map_home(&final, id) & 4095) > 7)
            continue;
        ids[n++] = id;
        assert_int_equal(hw_live_map_at(&l, id, &s, &fresh), HW_OK);
        assert_true(fresh);
    }
    check(&l, n);
    for (size_t left = n; left > 0; left--) {
        size_t i = rnd((uint32_t)left);
        assert_true(hw_live_map_take(&l, ids[i], &gone));
        assert_int_equal(gone.key, ids[i] + 1);
        ids[i] = ids[left - 1];
        if (left % 100 == 0)
            check(&l, left - 1);
    }
    check(&l, 0);
    hw_live_map_done(&l);
}

static void test_no_id(void **state)
{
    (void)state;
    struct hw_live_map l = {0};
    struct hw_live_map_slot *s;
    bool fresh;
    assert_int_equal(hw_live_map_at(&l, UINT64_MAX, &s, &fresh), HW_ELIMIT);
    assert_int_equal(hw_live_map_at(&l, UINT64_MAX - 1, &s, &fresh), HW_OK);
    assert_int_equal(hw_live_map_at(&l, 0, &s, &fresh), HW_OK);
    struct hw_live_map_slot gone;
    assert_false(hw_live_map_take(&l, UINT64_MAX, &gone));
    assert_true(hw_live_map_take(&l, UINT64_MAX - 1, &gone));
    assert_true(hw_live_map_take(&l, 0, &gone));
    hw_live_map_done(&l);
}

HW_TEST_MAIN(cmocka_unit_test(test_array), cmocka_unit_test(test_far_away),
             cmocka_unit_test(test_no_id))

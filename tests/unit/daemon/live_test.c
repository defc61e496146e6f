/*
 * live_test.c - live samples against an array, with ids as rings give them
 *
 * Programs that free soon, late and never; positions that jump; blocks that are thinned out; the
 * directory's second lap; samples that do not fit a word; ids that come again.
 */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "daemon/books/live_samples.h"
#include "wire/records.h"

#define N_PLACES 20000

static uint64_t rng_state = 1;
static uint32_t rnd(uint32_t n)
{
    rng_state = rng_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rng_state >> 33) % n;
}

struct place {
    uint64_t id; /* 0 = none */
    struct hw_live_sample s;
};

static struct hw_live_sample some_sample(uint32_t odd_of_100)
{
    struct hw_live_sample s = {.alloc_size = rnd(5000), .cell = rnd(1000), .heap_id = 1 + rnd(255)};
    s.sample_size = s.alloc_size;
    if (rnd(100) >= odd_of_100)
        return s;
    switch (rnd(4)) { /* none of these fits a word */
    case 0:
        s.sample_size++;
        break;
    case 1:
        s.interval = 7;
        break;
    case 2:
        s.cell = HW_LIVE_MAX_CELL;
        break;
    default:
        s.alloc_size = s.sample_size = HW_LIVE_MAX_SIZE;
        break;
    }
    return s;
}

static void assert_same(const struct hw_live_sample *a, const struct hw_live_sample *b)
{
    assert_int_equal(a->alloc_size, b->alloc_size);
    assert_int_equal(a->sample_size, b->sample_size);
    assert_int_equal(a->cell, b->cell);
    assert_int_equal(a->interval, b->interval);
    assert_int_equal(a->heap_id, b->heap_id);
}

/* Counts in the directory, words in blocks, and the list of empty blocks agree. */
static void check(const struct hw_live_samples *l, size_t n_live)
{
    size_t n = 0, n_used = 0;
    assert_int_equal(hw_live_samples_count(l), n_live);
    for (uint32_t i = 0; l->dir && i < HW_LIVE_DIR_SLOTS; i++) {
        if (l->dir[i] == 0)
            continue;
        const uint64_t *w = &l->words[(size_t)((l->dir[i] >> 8) - 1) * HW_LIVE_BLOCK_SLOTS];
        uint32_t here = 0;
        for (uint32_t k = 0; k < HW_LIVE_BLOCK_SLOTS; k++)
            here += w[k] != 0;
        assert_int_equal(here, l->dir[i] & 255);
        if (i != l->newest % HW_LIVE_DIR_SLOTS)
            assert_true(here > 0);
        n += here;
        n_used++;
    }
    assert_int_equal(n, l->n_words);
    assert_int_equal(n_used + l->empty.n, l->n_blocks);
    for (size_t i = 0; i < l->empty.n; i++)
        for (uint32_t k = 0; k < HW_LIVE_BLOCK_SLOTS; k++)
            assert_int_equal(l->words[(size_t)l->empty.v[i] * HW_LIVE_BLOCK_SLOTS + k], 0);
}

struct habits {
    uint32_t n_steps, places, soon_of_100; /* blocks that are freed at the next chance */
    uint32_t odd_of_100, jump_of_10000;
    uint64_t jump_bytes;
};

static size_t free_place(struct hw_live_samples *l, struct place *p)
{
    struct hw_live_sample gone;
    if (p->id == 0)
        return 0;
    assert_true(hw_live_samples_take(l, p->id, &gone));
    assert_same(&gone, &p->s);
    assert_false(hw_live_samples_take(l, p->id, &gone));
    p->id = 0;
    return 1;
}

static void behaves_as_an_array(const struct habits *h)
{
    struct hw_live_samples l = {0};
    struct place *places = calloc(h->places, sizeof *places);
    uint64_t pos = 4096;
    size_t n_live = 0;
    struct hw_live_sample was;
    uint32_t last = 0;
    assert_non_null(places);
    for (uint32_t i = 0; i < h->n_steps; i++) {
        uint32_t p = rnd(100) < h->soon_of_100 ? last : rnd(h->places);
        n_live -= free_place(&l, &places[p]);
        pos += 24; /* the free's record */
        if (rnd(10000) < h->jump_of_10000)
            pos += h->jump_bytes;
        places[p] = (struct place){pos, some_sample(h->odd_of_100)};
        assert_int_equal(hw_live_samples_put(&l, pos, &places[p].s, &was), 0);
        const uint64_t *word = hw_live_samples_prefetch(&l, pos);
        assert_true(!word || *word == 0 || hw_live_word_cell(*word) == places[p].s.cell);
        n_live++;
        last = p;
        pos += HW_REC_ALLOC_MIN + 8 * (uint64_t)rnd(4);
        if (i % (h->n_steps / 7) == 0)
            check(&l, n_live);
    }
    check(&l, n_live);
    for (uint32_t p = 0; p < h->places; p++)
        n_live -= free_place(&l, &places[p]);
    check(&l, 0);
    hw_live_samples_done(&l);
    free(places);
}

static void test_array(void **state)
{
    (void)state;
    static const struct habits all[] = {
        {.n_steps = 100000, .places = 50},
        {.n_steps = 100000, .places = N_PLACES},
        {.n_steps = 400000, .places = N_PLACES, .soon_of_100 = 90, .odd_of_100 = 2},
        {.n_steps = 100000, .places = N_PLACES, .odd_of_100 = 100},
        {.n_steps = 100000,
         .places = 300,
         .soon_of_100 = 50,
         .jump_of_10000 = 100,
         .jump_bytes = 1 << 20},
        /* laps of the directory, and more than one at once */
        {.n_steps = 60000, .places = 5000, .jump_of_10000 = 20, .jump_bytes = 1 << 27},
        {.n_steps = 60000, .places = 5000, .jump_of_10000 = 2, .jump_bytes = UINT64_C(1) << 40},
    };
    for (size_t i = 0; i < HW_ARRAY_LEN(all); i++)
        behaves_as_an_array(&all[i]);
}

/* Of a million short-lived samples the memory of a few. */
static void test_blocks_are_used_again(void **state)
{
    (void)state;
    struct hw_live_samples l = {0};
    struct hw_live_sample s = {.alloc_size = 5, .sample_size = 5, .heap_id = 1}, was;
    uint64_t ids[100] = {0};
    for (uint64_t i = 0; i < 1000000; i++) {
        uint64_t id = 4096 + i * 56;
        if (ids[i % 100])
            assert_true(hw_live_samples_take(&l, ids[i % 100], &was));
        ids[i % 100] = id;
        assert_int_equal(hw_live_samples_put(&l, id, &s, &was), 0);
    }
    assert_true(l.n_blocks <= 4);
    assert_int_equal(l.map.n, 0);
    hw_live_samples_done(&l);
}

/* One sample in 200 stays: each would keep a block of 1 KiB. */
static void test_thin_blocks_go(void **state)
{
    (void)state;
    struct hw_live_samples l = {0};
    struct hw_live_sample s = {.alloc_size = 5, .sample_size = 5, .heap_id = 1}, was;
    for (uint64_t i = 0; i < 1000000; i++) {
        uint64_t id = 4096 + i * 56;
        assert_int_equal(hw_live_samples_put(&l, id, &s, &was), 0);
        if (i % 200 != 0)
            assert_true(hw_live_samples_take(&l, id, &was));
    }
    assert_int_equal(hw_live_samples_count(&l), 5000);
    assert_true(l.n_blocks <= HW_LIVE_YOUNG + 2);
    hw_live_samples_done(&l);
}

/* Only a damaged target's ids come again: the newer sample counts, the older one is told. */
static void test_ids_come_again(void **state)
{
    (void)state;
    struct hw_live_samples l = {0};
    struct place *places = calloc(2000, sizeof *places);
    size_t n_live = 0;
    assert_non_null(places);
    for (uint32_t i = 0; i < 50000; i++) {
        uint32_t p = rnd(2000); /* ids of all kinds: not multiples of 8, two in 32 bytes */
        uint64_t id = 1 + p * (uint64_t)(p % 3 ? 13 : 4000);
        struct hw_live_sample s = some_sample(30), was;
        bool known = places[p].id != 0;
        if (rnd(3) == 0) {
            assert_int_equal(hw_live_samples_take(&l, id, &was), known);
            places[p].id = 0;
            n_live -= known;
        } else {
            assert_int_equal(hw_live_samples_put(&l, id, &s, &was), known);
            if (known)
                assert_same(&was, &places[p].s);
            places[p] = (struct place){id, s};
            n_live += !known;
        }
        if (i % 9000 == 0)
            check(&l, n_live);
    }
    hw_live_samples_done(&l);
    free(places);
}

static void test_no_id(void **state)
{
    (void)state;
    struct hw_live_samples l = {0};
    struct hw_live_sample s = {.heap_id = 1}, was;
    assert_false(hw_live_samples_take(&l, 77, &was));
    assert_int_equal(hw_live_samples_put(&l, UINT64_MAX, &s, &was), HW_ELIMIT);
    assert_int_equal(hw_live_samples_put(&l, UINT64_MAX - 7, &s, &was), 0);
    assert_int_equal(hw_live_samples_put(&l, 0, &s, &was), 0);
    assert_false(hw_live_samples_take(&l, UINT64_MAX, &was));
    assert_true(hw_live_samples_take(&l, UINT64_MAX - 7, &was));
    assert_true(hw_live_samples_take(&l, 0, &was));
    assert_int_equal(hw_live_samples_count(&l), 0);
    hw_live_samples_done(&l);
}

HW_TEST_MAIN(cmocka_unit_test(test_array), cmocka_unit_test(test_blocks_are_used_again),
             cmocka_unit_test(test_thin_blocks_go), cmocka_unit_test(test_ids_come_again),
             cmocka_unit_test(test_no_id))

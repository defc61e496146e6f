/*
 * live_test.c - the map of live samples against an array that is searched from end to end
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/boot.h"
#include "client/kernel/process_limits.h"
#include "client/sample/live_direct_map.h"
#include "client/sample/live_set.h"
#include "test.h"

bool hw_fits_address_limit(uint64_t n_bytes, uint32_t share)
{
    (void)n_bytes, (void)share;
    return true;
}

bool hw_locks_future_maps(void)
{
    return false;
}

/* What live.c takes from the rest of the client. */
union hw_control_block hw_control_block;
union hw_process_page_block hw_process_page_block;
_Atomic uint32_t hw_sandbox_filters, hw_sandbox_stricts;

#define TAG  7u
#define MOST 60000u

struct twin {
    uint64_t id, val;
    uint32_t heap;
};

static struct twin *live;
static uint32_t n_live;
static uint64_t rng = 42, n_ids = 0;

static uint64_t next(void)
{
    rng = rng * 6364136223846793005u + 1442695040888963407u;
    return rng >> 33;
}

static uint32_t find(uint32_t heap, uint64_t id)
{
    uint32_t i = 0;
    while (i < n_live && (live[i].id != id || live[i].heap != heap))
        i++;
    return i;
}

static void add(uint32_t heap, uint64_t id, uint64_t size)
{
    struct hw_live_set_slot *s = hw_live_set_claim(heap, id, size);
    assert_non_null(s);
    if (next() % 8 == 0) { /* no room in the ring */
        hw_live_set_unclaim(s);
        return;
    }
    uint64_t val = hw_live_set_val(TAG, 8 * ++n_ids);
    hw_live_set_publish(s, heap, id, val);
    live[n_live++] = (struct twin){id, val, heap};
}

static void take(uint32_t heap, uint64_t id)
{
    uint64_t val = 0;
    uint32_t i = find(heap, id);
    hw_live_set_prefetch_take(heap, id);
    assert_int_equal(hw_live_set_has(heap, id, TAG), i < n_live);
    assert_false(hw_live_set_has(heap, id, TAG + 1));
    struct hw_live_set_slot *s = hw_live_set_take(heap, id, &val);
    assert_int_equal(s != NULL, i < n_live);
    if (!s)
        return;
    assert_false(hw_live_set_has(heap, id, TAG));
    assert_true(hw_live_set_maybe(id));
    assert_int_equal(val, live[i].val);
    assert_null(hw_live_set_take(heap, id, &val)); /* out of sight */
    if (next() % 4 == 0) {
        hw_live_set_put_back(s, heap, id, val);
        return;
    }
    hw_live_set_drop(s, id);
    live[i] = live[--n_live];
}

/* Blocks of 8 bytes up, in regions of which some share a chunk, and ids of a custom heap. */
static uint64_t any_id(uint32_t *heap)
{
    uint64_t region = next() % 3 ? 1000 + next() % 3 : next() % 4096;
    *heap = next() % 16 ? HW_HEAP_ID_LIBC : 2;
    if (*heap == 2)
        return 1 + next() % 100;
    return (region << HW_LIVE_DIRECT_REGION_BITS) + 8 * (next() % 2000) + 4096;
}

static void against_twin(uint32_t steps)
{
    for (uint32_t k = 0; k < steps; k++) {
        uint32_t heap;
        uint64_t id = any_id(&heap);
        if (find(heap, id) < n_live || next() % 3 == 0)
            take(heap, id);
        else if (n_live < MOST)
            add(heap, id, next() % 4 ? 1 + next() % HW_LIVE_DIRECT_SIZE_1 : 100000);
    }
    while (n_live)
        take(live[n_live - 1].heap, live[n_live - 1].id);
}

static void test_without_words(void **state)
{
    (void)state;
    hw_live_set_expect(4096);
    assert_null(atomic_load(&hw_live_direct_words));
    against_twin(20000);
}

static void test_with_words(void **state)
{
    (void)state;
    hw_live_set_expect(1);
    assert_non_null(atomic_load(&hw_live_direct_words));
    against_twin(60000);
}

/* Can a system call read there? */
static bool is_there(const void *at)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    bool there = write(ends[1], at, 1) == 1;
    (void)close(ends[0]);
    (void)close(ends[1]);
    return there;
}

/* What no heap has taken cannot be locked with all of a program's memory. */
static void test_chunks_without_an_owner_are_not_there(void **state)
{
    (void)state;
    hw_live_set_expect(1);
    uint64_t id = 0x7f1230001000;
    uint32_t region = (uint32_t)(id >> HW_LIVE_DIRECT_REGION_BITS) + 1,
             chunk = hw_live_direct_chunk(region);
    const char *words = (const char *)(uintptr_t)atomic_load(&hw_live_direct_words);
    const char *first = words + (8ull * chunk << HW_LIVE_DIRECT_CHUNK_BITS(0));
    const char *second =
        words + 8 * HW_LIVE_DIRECT_LEVEL_WORDS(0) + (8ull * chunk << HW_LIVE_DIRECT_CHUNK_BITS(1));
    assert_false(is_there(first) || is_there(second));
    struct hw_live_set_slot *s = hw_live_set_claim(HW_HEAP_ID_LIBC, id, 16);
    assert_true(hw_live_direct_holds(s));
    assert_true(is_there(first) && is_there(second));
    hw_live_set_unclaim(s);
    atomic_store(&hw_sandbox_filters, 1); /* nor can any be taken where no call may be made */
    s = hw_live_set_claim(HW_HEAP_ID_LIBC, id + (1ull << HW_LIVE_DIRECT_REGION_BITS), 16);
    assert_false(hw_live_direct_holds(s));
    hw_live_set_unclaim(s);
    atomic_store(&hw_sandbox_filters, 0);
}

static bool child_begins(void)
{
    hw_live_set_forked();
    return false;
}

/* A child whose parent was just giving all of it back begins anew, with words of its own. */
static void test_owners_in_a_child(void **state)
{
    (void)state;
    uint64_t id = 0x7f1230001000, val;
    hw_live_set_expect(1);
    struct hw_live_set_slot *s = hw_live_set_claim(HW_HEAP_ID_LIBC, id, 16);
    assert_true(hw_live_direct_holds(s));
    hw_live_set_unclaim(s);
    (void)hw_live_set_give_back(child_begins);
    assert_null(atomic_load(&hw_live_direct_words));
    assert_int_equal(hw_live_set_init(), 0);
    hw_live_set_expect(1);
    assert_null(hw_live_set_take(HW_HEAP_ID_LIBC, id, &val));
    s = hw_live_set_claim(HW_HEAP_ID_LIBC, id, 16);
    assert_true(hw_live_direct_holds(s));
    hw_live_set_unclaim(s);
}

/* A large block must not open a page of words that it has for itself. */
static void test_large_blocks_go_to_the_map(void **state)
{
    (void)state;
    hw_live_set_expect(1);
    uint64_t id = 0x7f0000001000, val;
    struct hw_live_set_slot *s = hw_live_set_claim(HW_HEAP_ID_LIBC, id, 4096);
    assert_false(hw_live_direct_holds(s));
    hw_live_set_publish(s, HW_HEAP_ID_LIBC, id, hw_live_set_val(TAG, 64));
    /* Freed in a way that we do not see, and small now: found where it was. */
    s = hw_live_set_take(HW_HEAP_ID_LIBC, id, &val);
    assert_non_null(s);
    hw_live_set_drop(s, id);
    s = hw_live_set_claim(HW_HEAP_ID_LIBC, id, 16);
    assert_true(hw_live_direct_holds(s));
    hw_live_set_unclaim(s);
}

/* Two blocks of 8 bytes in one word: the second is kept elsewhere, both are found. */
static void test_neighbours_in_one_word(void **state)
{
    (void)state;
    hw_live_set_expect(1);
    uint64_t id = 0x7f0000100000, val;
    for (uint32_t i = 0; i < 4; i++) {
        struct hw_live_set_slot *s = hw_live_set_claim(HW_HEAP_ID_LIBC, id + 8 * i, 8);
        assert_int_equal(hw_live_direct_holds(s), i == 0);
        hw_live_set_publish(s, HW_HEAP_ID_LIBC, id + 8 * i, hw_live_set_val(TAG, 8 * (i + 1)));
    }
    for (uint32_t i = 4; i-- > 0;) {
        struct hw_live_set_slot *s = hw_live_set_take(HW_HEAP_ID_LIBC, id + 8 * i, &val);
        assert_non_null(s);
        assert_int_equal(val, hw_live_set_val(TAG, 8 * (i + 1)));
        hw_live_set_drop(s, id + 8 * i);
        assert_null(hw_live_set_take(HW_HEAP_ID_LIBC, id + 8 * i, &val));
    }
}

static bool inside(void)
{
    uint64_t val;
    assert_int_equal(hw_live_set_epoch() & 1, 1); /* a visit that begins now finds nothing */
    assert_null(hw_live_set_take(HW_HEAP_ID_LIBC, 0x7f0000200000, &val));
    return false;
}

static bool nobody(void)
{
    return !inside();
}

static void one_block(uint64_t id, uint64_t size)
{
    struct hw_live_set_slot *s = hw_live_set_claim(HW_HEAP_ID_LIBC, id, size);
    assert_non_null(s);
    hw_live_set_publish(s, HW_HEAP_ID_LIBC, id, hw_live_set_val(TAG, 8));
    assert_true(hw_live_set_maybe(id));
}

/* While somebody may be inside all stays as it is; then nothing does, and it can begin anew. */
static void test_given_back(void **state)
{
    (void)state;
    uint64_t id = 0x7f0000200000, large = id + 4096, val;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(hw_live_set_init(), 0);
        hw_live_set_expect(1);
        one_block(id, 8);
        one_block(large, 4096);
        uint32_t epoch = hw_live_set_epoch();
        assert_false(hw_live_set_give_back(inside));
        assert_int_equal(hw_live_set_epoch(), epoch);
        struct hw_live_set_slot *s = hw_live_set_take(HW_HEAP_ID_LIBC, id, &val);
        assert_non_null(s);
        hw_live_set_put_back(s, HW_HEAP_ID_LIBC, id, val);
        assert_true(hw_live_set_give_back(nobody));
        assert_int_equal(hw_live_set_epoch(), epoch + 2);
        assert_null(atomic_load(&hw_live_direct_words));
        assert_false(hw_live_set_maybe(id) || hw_live_set_maybe(large));
        assert_null(hw_live_set_take(HW_HEAP_ID_LIBC, large, &val));
        assert_null(hw_live_set_claim(HW_HEAP_ID_LIBC, large, 4096));
        assert_true(hw_live_set_give_back(inside)); /* nothing to give */
    }
    assert_int_equal(hw_live_set_init(), 0);
    one_block(id, 8);
    assert_true(hw_live_set_give_back(nobody));
    assert_false(hw_live_set_maybe(id));
}

/* The last: what is marked is so for good. */
static void test_marked(void **state)
{
    (void)state;
    enum { MARKED = 0x5000 };
    assert_int_equal(hw_live_set_init(), 0);
    hw_live_set_mark(MARKED);
    assert_true(hw_live_set_give_back(nobody));
    assert_true(hw_live_set_maybe(MARKED));
    assert_int_equal(hw_live_set_init(), 0);
}

static uint32_t seen_going; /* by a visit during the first try */

static bool first_try(void)
{
    seen_going = hw_live_set_epoch();
    return false;
}

static bool second_try(void)
{
    assert_false(hw_live_set_is_since(seen_going));
    return true;
}

/* A realloc that lasts from one try to the next: what it holds is unmapped just now. */
static void test_two_tries(void **state)
{
    (void)state;
    assert_int_equal(hw_live_set_init(), 0);
    uint32_t before = hw_live_set_epoch();
    assert_false(hw_live_set_give_back(first_try));
    assert_false(hw_live_set_is_since(seen_going));
    assert_true(hw_live_set_is_since(before));
    assert_true(hw_live_set_give_back(second_try));
    assert_false(hw_live_set_is_since(before));
}

static bool forked(void)
{
    hw_live_set_forked(); /* as if the child had been made here */
    return false;
}

/* A child of that moment does not know what of it is mapped: it begins anew. */
static void test_forked_meanwhile(void **state)
{
    (void)state;
    assert_int_equal(hw_live_set_init(), 0);
    hw_live_set_forked();
    one_block(0x7f0000400000, 4096); /* no such moment: all is there */
    uint32_t epoch = hw_live_set_epoch();
    (void)hw_live_set_give_back(forked); /* of the parent, whose epoch comes back */
    assert_int_equal(hw_live_set_epoch(), epoch);
    assert_int_equal(hw_live_set_init(), 0);
    one_block(0x7f0000500000, 4096);
}

int main(void)
{
    live = calloc(MOST, sizeof *live);
    if (!live || hw_live_set_init() != 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_words),
        cmocka_unit_test(test_chunks_without_an_owner_are_not_there),
        cmocka_unit_test(test_owners_in_a_child),
        cmocka_unit_test(test_large_blocks_go_to_the_map),
        cmocka_unit_test(test_neighbours_in_one_word),
        cmocka_unit_test(test_given_back),
        cmocka_unit_test(test_two_tries),
        cmocka_unit_test(test_forked_meanwhile),
        cmocka_unit_test(test_with_words), /* gives all chunks owners */
        cmocka_unit_test(test_marked),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    free(live);
    return rc;
}

/* map_feed_test.c - mappings that wait for a look at the process, and forks */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "daemon/books/inherited.h"
#include "daemon/books/ring_consumer.h"
#include "proc/maps.h"
#include "unwind/walk.h"

#define PAGE  UINT64_C(4096)
#define BASE  UINT64_C(0x7f0000000000)
#define BYTES 65536u

struct fix {
    struct hw_ring_consumer *feed;
    struct hw_ring_writer w;
};

static void set_up(struct fix *f)
{
    struct hw_ring_reader r;
    assert_int_equal(hw_ring_create(&r, BYTES), HW_OK);
    assert_int_equal(hw_ring_attach(r.fd, &f->w), HW_OK);
    hw_ring_close_fd(&r);
    f->feed = calloc(1, sizeof *f->feed);
    assert_non_null(f->feed);
    hw_ring_consumer_init(f->feed, &r, true);
    f->feed->mappings.heaps = 7;
}

static void tear_down(struct fix *f)
{
    hw_ring_detach(&f->w);
    hw_ring_consumer_done(f->feed);
    free(f->feed);
}

static void put(struct fix *f, const void *rec, uint32_t size, enum hw_rec_type type)
{
    uint64_t pos = hw_ring_reserve(&f->w, size);
    assert_true(pos != 0);
    memcpy((uint8_t *)hw_ring_at(&f->w, pos) + 8, (const uint8_t *)rec + 8, size - 8);
    hw_ring_commit(&f->w, pos, size, type);
}

static void put_map(struct fix *f, uint64_t page, uint64_t n, uint32_t heap, uint32_t flags,
                    uint64_t weight)
{
    struct hw_rec_alloc a = {.address = BASE + page * PAGE,
                             .alloc_size = n * PAGE,
                             .sample_size = weight,
                             .stack_id = HW_STACK_ID_NOT_WALKED,
                             .time_ns = 5,
                             .heap_id = heap,
                             .flags = flags};
    put(f, &a, sizeof a, HW_REC_ALLOC);
}

static void put_unmap(struct fix *f, uint64_t page, uint64_t n)
{
    struct hw_rec_unmap r = {.address = BASE + page * PAGE, .n_bytes = n * PAGE, .time_ns = 6};
    put(f, &r, sizeof r, HW_REC_UNMAP);
}

static enum hw_ring_consumer_status drain(struct fix *f, uint64_t now_ns)
{
    return hw_ring_consumer_drain(f->feed, UINT64_MAX, 1000, now_ns);
}

static uint64_t live(const struct fix *f, uint32_t heap)
{
    const struct hw_book *k = f->feed->books.books[heap];
    return k ? k->live / PAGE : 0;
}

static void answer(struct fix *f, uint32_t ask, const struct hw_shared_map *v, size_t n)
{
    struct hw_shared_maps m = {0};
    for (size_t i = 0; i < n; i++)
        assert_int_equal(hw_vec_push(&m.v, v[i]), 0);
    hw_ring_consumer_take_shared(f->feed, ask, &m);
    hw_shared_maps_done(&m);
}

/* Nothing behind it is booked before; one look answers for all that were there, and for no other. */
static void test_waits(void **state)
{
    static const struct hw_shared_map maps[] = {
        {BASE, BASE + 2 * PAGE, 0, 0, true},
        {BASE + 10 * PAGE, BASE + 14 * PAGE, 0, 0, false},
        {BASE + 20 * PAGE, BASE + 21 * PAGE, 7 + 1, 5 * PAGE, true}};
    struct fix f;
    (void)state;
    set_up(&f);
    put_map(&f, 0, 2, HW_HEAP_ID_FILE, HW_ALLOC_SHARED_FILE, 0);
    put_map(&f, 10, 4, HW_HEAP_ID_FILE, HW_ALLOC_SHARED_FILE, 0);
    put_map(&f, 20, 1, HW_HEAP_ID_SHARED, HW_ALLOC_SEGMENT, 7);
    put_map(&f, 30, 1, HW_HEAP_ID_SHARED, HW_ALLOC_SEGMENT, 8); /* nobody shows it */
    put_map(&f, 40, 3, HW_HEAP_ID_ANON, 0, 0);
    put_unmap(&f, 22, 1);
    assert_int_equal(drain(&f, 1000), HW_CONSUMER_STALLED);
    assert_true(f.feed->shared.wanted);
    assert_int_equal(drain(&f, 2000), HW_CONSUMER_STALLED);
    assert_int_equal(live(&f, HW_HEAP_ID_ANON), 0);
    uint32_t ask = f.feed->shared.ask;
    put_map(&f, 50, 1, HW_HEAP_ID_FILE, HW_ALLOC_SHARED_FILE, 0); /* behind the question */
    answer(&f, ask + 1, maps, 3);
    assert_int_equal(drain(&f, 3000), HW_CONSUMER_STALLED);
    answer(&f, ask, maps, 3);
    assert_int_equal(drain(&f, 4000), HW_CONSUMER_STALLED);
    assert_true(f.feed->shared.ask != ask);
    assert_int_equal(live(&f, HW_HEAP_ID_FILE), 4);
    assert_int_equal(live(&f, HW_HEAP_ID_SHARED), 2 + 5 - 1);
    assert_int_equal(live(&f, HW_HEAP_ID_ANON), 3);
    assert_int_equal(f.feed->mappings.n_ignored, 1);
    answer(&f, f.feed->shared.ask, NULL, 0);
    assert_int_equal(drain(&f, 5000), HW_CONSUMER_EMPTY);
    assert_int_equal(live(&f, HW_HEAP_ID_FILE), 5);
    tear_down(&f);
}

/* Not for ever, not while the ring fills up, and not of the dead. */
static void test_waits_no_longer(void **state)
{
    struct fix f;
    (void)state;
    set_up(&f);
    put_map(&f, 0, 2, HW_HEAP_ID_FILE, HW_ALLOC_SHARED_FILE, 0);
    assert_int_equal(drain(&f, 1000), HW_CONSUMER_STALLED);
    assert_int_equal(drain(&f, 2000000000), HW_CONSUMER_EMPTY);
    put_map(&f, 5, 1, HW_HEAP_ID_FILE, HW_ALLOC_SHARED_FILE, 0);
    assert_int_equal(drain(&f, 2000000001), HW_CONSUMER_EMPTY); /* one waited in vain just now */
    put_map(&f, 6, 1, HW_HEAP_ID_FILE, HW_ALLOC_SHARED_FILE, 0);
    assert_int_equal(drain(&f, 4000000000), HW_CONSUMER_STALLED);
    while (f.feed->ring.data_bytes / 2 > atomic_load(&f.w.shm->write_pos) - f.feed->ring.read_pos)
        put_map(&f, 100, 1, HW_HEAP_ID_ANON, 0, 0);
    assert_int_equal(drain(&f, 4000000001), HW_CONSUMER_EMPTY);
    assert_int_equal(live(&f, HW_HEAP_ID_FILE), 4);
    f.feed->dead = true;
    put_map(&f, 7, 1, HW_HEAP_ID_FILE, HW_ALLOC_SHARED_FILE, 0);
    assert_int_equal(drain(&f, UINT64_C(9000000000)), HW_CONSUMER_EMPTY);
    assert_int_equal(live(&f, HW_HEAP_ID_FILE), 5);
    tear_down(&f);
}

static void put_fork(struct fix *f, uint64_t token)
{
    struct hw_rec_fork r = {.token = token, .time_ns = 7};
    put(f, &r, sizeof r, HW_REC_FORK);
}

/* As far as the child has it, by calls that keep their number; a record that comes again at once is passed over. */
static void test_fork(void **state)
{
    struct fix f, child;
    char *text = strdup("7f0000000000-7f0000002000 rw-p 00000000 00:00 0\n"
                        "7f0000002000-7f0000003000 rw-p 00000000 00:00 0\n"
                        "7f000000a000-7f000000d000 rw-p 00000000 00:00 0\n");
    struct hw_maps maps;
    (void)state;
    assert_int_equal(hw_maps_parse(text, strlen(text), &maps), 0);
    set_up(&f);
    set_up(&child);
    put_map(&f, 0, 4, HW_HEAP_ID_ANON, 0, 0); /* the child has 3 of it */
    put_map(&f, 10, 4, HW_HEAP_ID_FILE, 0, 0);
    put_unmap(&f, 11, 1);
    put_map(&f, 20, 4, HW_HEAP_ID_ANON, 0, 0); /* and nothing of this one */
    put_fork(&f, 99);
    put_unmap(&f, 0, 100);
    assert_int_equal(drain(&f, 1), HW_CONSUMER_EMPTY);
    assert_int_equal(f.feed->forks.n, 1);
    f.feed->fork_next_ns = UINT64_MAX;
    put_fork(&f, 100);
    assert_int_equal(drain(&f, 2), HW_CONSUMER_EMPTY);
    assert_int_equal(f.feed->forks.n, 1);
    const struct hw_inherited *i = f.feed->forks.v[0];
    assert_int_equal(i->token, 99);
    assert_int_equal(i->ranges.n, 4);
    assert_int_equal(i->n_calls, 3);
    assert_int_equal(hw_inherited_book(i, &maps, 8, child.feed), 0);
    assert_int_equal(live(&f, HW_HEAP_ID_ANON) + live(&f, HW_HEAP_ID_FILE), 0);
    assert_int_equal(live(&child, HW_HEAP_ID_ANON), 3);
    assert_int_equal(live(&child, HW_HEAP_ID_FILE), 2);
    const struct hw_totals *t = &child.feed->books.books[HW_HEAP_ID_FILE]->cells.v[0].now;
    assert_int_equal(t->alloc_count, 1); /* of two parts */
    put_unmap(&child, 10, 1);
    assert_int_equal(drain(&child, 3), HW_CONSUMER_EMPTY);
    assert_int_equal(t->free_count, 0);
    put_unmap(&child, 0, 100);
    assert_int_equal(drain(&child, 4), HW_CONSUMER_EMPTY);
    assert_int_equal(t->free_count, 1);
    assert_int_equal(live(&child, HW_HEAP_ID_ANON) + live(&child, HW_HEAP_ID_FILE), 0);
    tear_down(&f);
    tear_down(&child);
    hw_maps_done(&maps);
}

HW_TEST_MAIN(cmocka_unit_test(test_waits), cmocka_unit_test(test_waits_no_longer),
             cmocka_unit_test(test_fork))

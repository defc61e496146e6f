/* ring_test.c - the ring against a twin in private memory, with laps, holes and a hostile peer */
#include "wire/ring.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "test.h"

static uint64_t next_random(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

static void open_pair(struct hw_ring_reader *r, struct hw_ring_writer *w, uint64_t bytes)
{
    assert_int_equal(hw_ring_create(r, bytes), HW_OK);
    assert_int_equal(hw_ring_attach(r->fd, w), HW_OK);
    hw_ring_close_fd(r);
}

static void close_pair(struct hw_ring_reader *r, struct hw_ring_writer *w)
{
    hw_ring_detach(w);
    hw_ring_done(r);
}

static void test_sizes_and_seals(void **state)
{
    (void)state;
    struct hw_ring_reader r;
    const uint64_t bad[] = {0, 4096, 12288, 8192 + 8, 1ull << 29, UINT64_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(hw_ring_create(&r, bad[i]), HW_EINVAL);
    assert_int_equal(hw_ring_create(&r, HW_RING_MIN_BYTES), HW_OK);
    assert_int_equal(fcntl(r.fd, F_GET_SEALS) & HW_RING_SEALS, HW_RING_SEALS);
    assert_int_equal(ftruncate(r.fd, 0), -1);
    hw_ring_done(&r);

    struct hw_ring_writer w;
    int fd = memfd_create("t", MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(fd, 4096 + 8192), 0);
    assert_int_equal(hw_ring_attach(fd, &w), HW_EFORMAT); /* not sealed */
    assert_int_equal(fcntl(fd, F_ADD_SEALS, HW_RING_SEALS), 0);
    assert_int_equal(hw_ring_attach(fd, &w), HW_EVERSION); /* no magic */
    close(fd);
    assert_int_equal(hw_ring_attach(0, &w) < 0, 1);
}

/* 20 laps of records of all sizes: contents arrive whole, also across the end. */
static void test_laps(void **state)
{
    (void)state;
    struct hw_ring_reader r;
    struct hw_ring_writer w;
    open_pair(&r, &w, HW_RING_MIN_BYTES);
    uint64_t seed = 7, written = 0, read = 0;
    while (read < 20 * HW_RING_MIN_BYTES) {
        uint32_t size = (uint32_t)(next_random(&seed) % 200 + 2) * 8;
        uint64_t pos = hw_ring_reserve(&w, size);
        if (pos != 0) {
            memset((uint8_t *)hw_ring_at(&w, pos) + 8, (int)(pos / 8 & 0xff), size - 8);
            hw_ring_commit(&w, pos, size, HW_REC_PAD);
            written += size;
            assert_int_equal(hw_ring_free_bytes(&w), HW_RING_MIN_BYTES - (written - read));
            continue;
        }
        const uint8_t *rec;
        uint32_t got;
        uint64_t at;
        assert_int_equal(hw_ring_peek(&r, &rec, &got, &at), 1);
        for (uint32_t i = 8; i < got; i++)
            assert_int_equal(rec[i], at / 8 & 0xff);
        hw_ring_next(&r, got);
        hw_ring_release(&r);
        read += got;
    }
    close_pair(&r, &w);
}

static uint64_t memory_of(const struct hw_ring_reader *r)
{
    struct stat st;
    assert_int_equal(fstat(r->fd, &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

static uint64_t fill(struct hw_ring_writer *w)
{
    uint64_t n = 0, pos;
    for (; (pos = hw_ring_reserve(w, 64)) != 0; n++) {
        memset((uint8_t *)hw_ring_at(w, pos) + 8, (int)(pos / 64 & 0xff), 56);
        hw_ring_commit(w, pos, 64, HW_REC_PAD);
    }
    return n;
}

static uint64_t empty(struct hw_ring_reader *r)
{
    const uint8_t *rec;
    uint32_t size;
    uint64_t n = 0, pos;
    for (; hw_ring_peek(r, &rec, &size, &pos) == 1; n++) {
        for (uint32_t i = 8; i < size; i++)
            assert_int_equal(rec[i], pos / 64 & 0xff);
        hw_ring_next(r, size);
    }
    hw_ring_release(r);
    return n;
}

/* Writers never reach what has no memory, however much they write; once it has grown it is a ring
 * like any other. */
static void test_grows(void **state)
{
    (void)state;
    enum { WHOLE = 1 << 20, BEGUN = 64 << 10, PAGE = 4096 };
    struct hw_ring_reader r;
    struct hw_ring_writer w;
    assert_int_equal(hw_ring_create_begun(&r, WHOLE, BEGUN), HW_OK);
    if (hw_ring_memory_bytes(&r) == WHOLE) { /* a kernel before 5.14 */
        hw_ring_done(&r);
        return;
    }
    assert_int_equal(hw_ring_attach(r.fd, &w), HW_OK);
    assert_int_equal(hw_ring_memory_bytes(&r), BEGUN);
    assert_int_equal(hw_ring_free_bytes(&w), BEGUN);
    assert_in_range(memory_of(&r), BEGUN, BEGUN + 3 * PAGE);
    assert_int_equal(hw_ring_grow(&r), HW_OK); /* nothing was used */
    assert_int_equal(hw_ring_memory_bytes(&r), BEGUN);

    /* Full, and read, without more memory: there is no room for more, and none is taken. */
    assert_int_equal(fill(&w), BEGUN / 64);
    assert_int_equal(empty(&r), BEGUN / 64);
    assert_int_equal(fill(&w), 0);
    assert_in_range(memory_of(&r), BEGUN, BEGUN + 3 * PAGE);

    uint64_t memory = BEGUN;
    while (hw_ring_memory_bytes(&r) < WHOLE) {
        assert_int_equal(hw_ring_grow(&r), HW_OK);
        uint64_t now = hw_ring_memory_bytes(&r);
        assert_int_equal(now, memory * 4 < WHOLE ? memory * 4 : WHOLE);
        (void)empty(&r);
        assert_in_range(memory_of(&r), now, now + 3 * PAGE);
        assert_int_equal(hw_ring_free_bytes(&w), now == WHOLE ? WHOLE : now - memory);
        assert_int_equal(fill(&w), (now == WHOLE ? WHOLE : now - memory) / 64);
        assert_in_range(memory_of(&r), now, now + 3 * PAGE); /* the writers took none */
        memory = now;
    }
    for (int lap = 0; lap < 3; lap++) {
        assert_int_equal(empty(&r), WHOLE / 64);
        assert_int_equal(fill(&w), WHOLE / 64);
    }
    assert_in_range(memory_of(&r), WHOLE, WHOLE + 2 * PAGE);
    close_pair(&r, &w);
}

static void test_hole(void **state)
{
    (void)state;
    struct hw_ring_reader r;
    struct hw_ring_writer w;
    open_pair(&r, &w, HW_RING_MIN_BYTES);
    const uint8_t *rec;
    uint32_t size;
    uint64_t pos, end;
    /* Fill and drain once, so that old heads lie where the hole will be. */
    for (int i = 0; i < 256; i++)
        hw_ring_commit(&w, hw_ring_reserve(&w, 32), 32, HW_REC_PAD);
    while (hw_ring_peek(&r, &rec, &size, &pos) == 1)
        hw_ring_next(&r, size);
    hw_ring_release(&r);

    uint64_t hole = hw_ring_reserve(&w, 96);
    uint64_t good = hw_ring_reserve(&w, 24);
    hw_ring_commit(&w, good, 24, HW_REC_FREE);
    assert_int_equal(hw_ring_peek(&r, &rec, &size, &pos), 0);
    assert_int_equal(hw_ring_write_pos(&r, &end), HW_OK);
    assert_true(end > r.read_pos); /* that is how one sees the hole */
    assert_int_equal(r.read_pos, hole);
    assert_int_equal(hw_ring_skip_hole(&r), 1);
    assert_int_equal(hw_ring_peek(&r, &rec, &size, &pos), 1);
    assert_int_equal(pos, good);
    assert_int_equal(r.holes, 1);
    assert_int_equal(r.hole_bytes, 96);
    hw_ring_next(&r, size);
    (void)hw_ring_reserve(&w, 48);
    assert_int_equal(hw_ring_skip_hole(&r), 0);
    assert_int_equal(r.hole_bytes, 96 + 48);
    assert_int_equal(hw_ring_skip_hole(&r), 0);
    assert_int_equal(r.holes, 2);
    close_pair(&r, &w);
}

/* Whose hole it is, at each point of a writer's way; nobody but its thread is asked about. */
static void test_holes_have_threads(void **state)
{
    (void)state;
    struct hw_ring_reader r;
    struct hw_ring_writer w;
    struct hw_ring_hole h;
    const uint8_t *rec;
    uint32_t size, last = 0;
    uint64_t pos, end;
    open_pair(&r, &w, HW_RING_MIN_BYTES);
    struct hw_ring_thread by = {.tid = 4711, .last = &last};
    assert_false(hw_ring_hole(&r, &h)); /* empty */
    uint64_t first = hw_ring_reserve_by(&w, 32, by);
    assert_int_equal(last, first / 8);
    assert_int_equal(hw_ring_peek(&r, &rec, &size, &pos), 0);
    assert_true(hw_ring_hole(&r, &h));
    assert_int_equal(h.tid, 4711);
    assert_int_equal(h.size, 32);
    by.tid += HW_RING_WRITERS; /* the same word: the next one is taken while the record is open */
    uint64_t second = hw_ring_reserve_by(&w, 48, by);
    for (int i = 0; i < 2; i++) { /* then as if it had ended before its first store */
        assert_true(hw_ring_hole(&r, &h));
        assert_int_equal(h.tid, 4711);
        assert_int_equal(h.size, 32);
        atomic_store(hw_ring_head(&w, first), 0);
    }
    assert_true(hw_ring_pass_hole(&r, &h));
    assert_false(hw_ring_pass_hole(&r, &h)); /* another one now */
    assert_int_equal(r.read_pos, second);
    assert_true(hw_ring_hole(&r, &h));
    assert_int_equal(h.tid, by.tid);
    assert_true(hw_ring_leave(&w, by, false));
    assert_int_equal(hw_ring_peek(&r, &rec, &size, &pos), 1);
    assert_int_equal(size, 48);
    assert_int_equal(hw_rec_head_type(hw_load_u64(rec)), HW_REC_PAD);
    hw_ring_next(&r, size);
    assert_true(hw_ring_leave(&w, by, false)); /* nothing of it is open */
    assert_int_equal(hw_ring_write_pos(&r, &end), HW_OK);
    assert_int_equal(end, r.read_pos);
    assert_int_equal(r.holes, 1);
    hw_ring_commit(&w, hw_ring_reserve_by(&w, 32, by), 32, HW_REC_FREE);
    assert_false(hw_ring_hole(&r, &h));
    (void)hw_ring_reserve(&w, 32); /* of nobody known, behind it */
    hw_ring_next(&r, 32);
    assert_false(hw_ring_hole(&r, &h));
    close_pair(&r, &w);
}

/* A peer that writes anything anywhere: the reader ends with an error or goes on, inside bounds. */
static void test_hostile(void **state)
{
    (void)state;
    uint64_t seed = 99;
    for (int round = 0; round < 300; round++) {
        struct hw_ring_reader r;
        struct hw_ring_writer w;
        open_pair(&r, &w, HW_RING_MIN_BYTES);
        for (int step = 0; step < 200; step++) {
            uint64_t x = next_random(&seed);
            uint32_t size = (uint32_t)(x % 60 + 1) * 8;
            uint64_t pos = hw_ring_reserve(&w, size);
            if (pos != 0 && x >> 60 != 0)
                hw_ring_commit(&w, pos, size, (enum hw_rec_type)(x >> 20 & 7));
            if (x >> 40 % 4 == 0)
                memset(w.data + (x >> 12) % HW_RING_MIN_BYTES, (int)(x & 0xff), 8);
            if ((x >> 33) % 16 == 0) {
                uint64_t p = r.read_pos;
                uint32_t lie = (uint32_t)(x >> 5 & 0xffff) * 8;
                uint64_t head = hw_rec_head(p, lie, (enum hw_rec_type)(x & 15));
                memcpy(w.data + (p & w.mask), &head, 8);
            }
            if ((x >> 28) % 64 == 0)
                atomic_store(&w.shm->write_pos, x);
            if ((x >> 22) % 64 == 0)
                atomic_store(&w.shm->read_pos, x);
            const uint8_t *rec;
            int rc = hw_ring_peek(&r, &rec, &size, &pos);
            if (rc == 0 && (x >> 50) % 4 == 0)
                rc = hw_ring_skip_hole(&r);
            if (rc < 0)
                break;
            if (rc == 1 && hw_ring_peek(&r, &rec, &size, &pos) == 1) {
                assert_true(size >= 8 && size <= HW_REC_MAX_BYTES && size <= HW_RING_MIN_BYTES);
                hw_ring_next(&r, size);
                hw_ring_release(&r);
            }
        }
        close_pair(&r, &w);
    }
}

/* Only the reader moves the read position. */
static void test_read_position(void **state)
{
    (void)state;
    const uint64_t by[] = {8, (uint64_t)-8, 1, HW_RING_MIN_BYTES, UINT64_MAX / 2};
    for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
        struct hw_ring_reader r;
        struct hw_ring_writer w;
        const uint8_t *rec;
        uint32_t size;
        uint64_t pos;
        open_pair(&r, &w, HW_RING_MIN_BYTES);
        for (int k = 0; k < 3; k++) {
            hw_ring_commit(&w, hw_ring_reserve(&w, 64), 64, HW_REC_PAD);
            assert_int_equal(hw_ring_peek(&r, &rec, &size, &pos), 1);
            hw_ring_next(&r, size);
            hw_ring_release(&r);
        }
        assert_int_equal(hw_ring_peek(&r, &rec, &size, &pos), 0);
        (void)atomic_fetch_add(&w.shm->read_pos, by[i]);
        assert_int_equal(hw_ring_peek(&r, &rec, &size, &pos), HW_EFORMAT);
        close_pair(&r, &w);
    }
}

/* ---- many writers ---- */

enum { N_WRITERS = 6, N_RECORDS = 20000 };

struct writer_arg {
    const struct hw_ring_writer *w;
    uint64_t id;
};

static void *writer_main(void *p)
{
    const struct writer_arg *a = p;
    uint64_t seed = a->id * 77 + 1;
    for (uint64_t i = 0; i < N_RECORDS; i++) {
        uint32_t size = (uint32_t)(next_random(&seed) % 6 + 4) * 8;
        uint64_t pos;
        while ((pos = hw_ring_reserve(a->w, size)) == 0)
            sched_yield();
        uint64_t *q = hw_ring_at(a->w, pos);
        q[1] = a->id;
        q[2] = i;
        q[size / 8 - 1] = ~i;
        hw_ring_commit(a->w, pos, size, HW_REC_PAD);
    }
    return NULL;
}

static void test_writers(void **state)
{
    (void)state;
    struct hw_ring_reader r;
    struct hw_ring_writer w;
    open_pair(&r, &w, HW_RING_MIN_BYTES);
    struct hw_ring_reader mapped = r;
#ifdef __SANITIZE_THREAD__
    /* TSan orders by address: it only sees who waits for whom when both sides use one mapping. */
    r.shm = w.shm;
    r.data = w.data;
#endif
    pthread_t t[N_WRITERS];
    struct writer_arg a[N_WRITERS];
    uint64_t expect[N_WRITERS] = {0}, n = 0;
    for (uint64_t i = 0; i < N_WRITERS; i++) {
        a[i] = (struct writer_arg){&w, i};
        assert_int_equal(pthread_create(&t[i], NULL, writer_main, &a[i]), 0);
    }
    while (n < (uint64_t)N_WRITERS * N_RECORDS) {
        const uint8_t *rec;
        uint32_t size;
        uint64_t pos;
        int rc = hw_ring_peek(&r, &rec, &size, &pos);
        assert_true(rc >= 0);
        if (rc == 0) {
            hw_ring_release(&r);
            sched_yield();
            continue;
        }
        uint64_t q[3], last;
        memcpy(q, rec, sizeof q);
        memcpy(&last, rec + size - 8, 8);
        assert_true(q[1] < N_WRITERS);
        assert_int_equal(q[2], expect[q[1]]); /* each thread's own order is kept */
        assert_int_equal(last, ~q[2]);
        expect[q[1]]++;
        n++;
        hw_ring_next(&r, size);
        if (n % 7 == 0)
            hw_ring_release(&r);
    }
    for (int i = 0; i < N_WRITERS; i++)
        pthread_join(t[i], NULL);
    assert_int_equal(r.holes, 0);
    r.shm = mapped.shm;
    r.data = mapped.data;
    close_pair(&r, &w);
}

HW_TEST_MAIN(cmocka_unit_test(test_sizes_and_seals), cmocka_unit_test(test_laps),
             cmocka_unit_test(test_grows), cmocka_unit_test(test_hole),
             cmocka_unit_test(test_holes_have_threads), cmocka_unit_test(test_hostile),
             cmocka_unit_test(test_read_position), cmocka_unit_test(test_writers))

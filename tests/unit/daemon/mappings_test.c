/*
 * mappings_test.c - ranges that come and go, against a ledger of single pages
 */
#include "test.h"

#include "daemon/books/mappings.h"

#define PAGES 256u
#define BASE  UINT64_C(0x7f0000000000)
#define PAGE  UINT64_C(4096)

static uint64_t rng = 1;

static uint32_t pick(uint32_t n)
{
    rng = rng * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rng >> 33) % n;
}

struct world {
    struct hw_books books;
    struct hw_mappings m;
    uint32_t call[PAGES]; /* who has the page; 0 = nobody */
    uint32_t left[100000], stack[100000], heap[100000];
    uint32_t n_calls;
    uint64_t allocated[256][8], freed[256][8], allocs[256][8], frees[256][8];
    uint64_t now;
};

static void ledger_drop(struct world *w, uint32_t page)
{
    uint32_t c = w->call[page];
    if (!c)
        return;
    w->freed[w->heap[c]][w->stack[c]] += PAGE;
    w->frees[w->heap[c]][w->stack[c]] += --w->left[c] == 0;
    w->call[page] = 0;
}

static void ledger_add(struct world *w, uint32_t heap, uint32_t stack, uint32_t page, uint32_t n)
{
    uint32_t c = ++w->n_calls;
    for (uint32_t i = 0; i < n; i++) {
        ledger_drop(w, page + i);
        w->call[page + i] = c;
    }
    w->left[c] = n;
    w->stack[c] = stack;
    w->heap[c] = heap;
    w->allocated[heap][stack] += n * PAGE;
    w->allocs[heap][stack]++;
}

static void map(struct world *w, uint32_t heap, uint32_t stack, uint32_t page, uint32_t n)
{
    struct hw_mapped x = {BASE + page * PAGE, n * PAGE, ++w->now, heap, HW_NO_CELL};
    assert_int_equal(hw_mappings_announce(&w->books, heap), 0);
    assert_int_equal(hw_books_cell(&w->books, heap, stack, &x.cell), 0);
    assert_int_equal(hw_mappings_map(&w->m, &w->books, &x), 0);
}

static void unmap(struct world *w, uint32_t page, uint32_t n, enum hw_unmap_kind kind)
{
    struct hw_rec_unmap r = {
        .address = BASE + page * PAGE, .n_bytes = n * PAGE, .time_ns = ++w->now, .kind = kind};
    assert_int_equal(hw_mappings_unmap(&w->m, &w->books, &r), 0);
}

static void compare(const struct world *w)
{
    for (uint32_t heap = HW_HEAP_ID_ANON; heap <= HW_HEAP_ID_SHARED; heap++) {
        const struct hw_book *k = w->books.books[heap];
        uint64_t live = 0;
        for (size_t i = 0; k && i < k->cells.n; i++) {
            const struct hw_cell *c = &k->cells.v[i];
            assert_int_equal(c->now.allocated, w->allocated[heap][c->stack]);
            assert_int_equal(c->now.freed, w->freed[heap][c->stack]);
            assert_int_equal(c->now.alloc_count, w->allocs[heap][c->stack]);
            assert_int_equal(c->now.free_count, w->frees[heap][c->stack]);
            live += hw_totals_live(&c->now);
        }
        if (k)
            assert_int_equal(live, k->live);
    }
}

static struct world *begin(uint32_t heaps)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    hw_books_init(&w->books, /* follow_peak = */ true);
    w->m.heaps = heaps;
    return w;
}

static void end(struct world *w)
{
    hw_mappings_done(&w->m);
    hw_books_done(&w->books);
    free(w);
}

/* Whatever is mapped and unmapped where: each page belongs to the last who mapped it. */
static void test_ledger(void **state)
{
    struct world *w = begin(7);
    (void)state;
    for (int i = 0; i < 60000; i++) {
        uint32_t page = pick(PAGES), n = 1 + pick(pick(4) ? 4 : PAGES / 2);
        uint32_t heap = HW_HEAP_ID_ANON + pick(3), stack = pick(8);
        n = page + n > PAGES ? PAGES - page : n;
        if (pick(2)) {
            map(w, heap, stack, page, n);
            ledger_add(w, heap, stack, page, n);
        } else {
            unmap(w, page, n, HW_UNMAP_RANGE);
            bool fails = pick(4) == 0;
            if (fails)
                unmap(w, page, n, HW_UNMAP_FAILED);
            for (uint32_t k = 0; k < n && !fails; k++)
                ledger_drop(w, page + k);
        }
        if (i % 100 == 0)
            compare(w);
    }
    compare(w);
    end(w);
}

/* A call that fails: what it was said to take is there again, live as before. */
static void test_failed(void **state)
{
    struct world *w = begin(7);
    struct hw_range r;
    (void)state;
    map(w, HW_HEAP_ID_ANON, 1, 10, 10);
    map(w, HW_HEAP_ID_FILE, 2, 20, 10);
    unmap(w, 15, 10, HW_UNMAP_RANGE);
    unmap(w, 100, 10, HW_UNMAP_RANGE); /* of another thread */
    map(w, HW_HEAP_ID_SHARED, 3, 17, 2);
    unmap(w, 15, 10, HW_UNMAP_FAILED);
    assert_int_equal(w->books.books[HW_HEAP_ID_ANON]->live, 8 * PAGE); /* 17, 18 are taken */
    assert_int_equal(w->books.books[HW_HEAP_ID_FILE]->live, 10 * PAGE);
    assert_int_equal(w->books.books[HW_HEAP_ID_SHARED]->live, 2 * PAGE);
    unmap(w, 15, 10, HW_UNMAP_FAILED); /* twice is once */
    unmap(w, 33, 10, HW_UNMAP_FAILED);
    assert_int_equal(w->books.books[HW_HEAP_ID_ANON]->live, 8 * PAGE);
    const struct hw_totals *t = &w->books.books[HW_HEAP_ID_FILE]->cells.v[0].now;
    assert_int_equal(t->allocated, 10 * PAGE);
    unmap(w, 20, 10, HW_UNMAP_RANGE);
    w->m.window++; /* a dump has shown it */
    unmap(w, 20, 10, HW_UNMAP_FAILED);
    assert_int_equal(t->allocated, 20 * PAGE);
    assert_int_equal(t->freed, 10 * PAGE);
    assert_int_equal(t->alloc_count, 2);
    assert_int_equal(t->free_count, 1);
    unmap(w, 0, PAGES, HW_UNMAP_RANGE);
    assert_false(hw_ranges_next(&w->m.ranges, 0, &r));
    for (uint32_t heap = HW_HEAP_ID_ANON; heap <= HW_HEAP_ID_SHARED; heap++)
        assert_int_equal(w->books.books[heap]->live, 0);
    end(w);
}

/* shmdt names no size; what lies between the parts of the segment stays. */
static void test_segment(void **state)
{
    struct world *w = begin(7);
    (void)state;
    map(w, HW_HEAP_ID_SHARED, 1, 10, 10);
    map(w, HW_HEAP_ID_SHARED, 2, 20, 10);
    unmap(w, 12, 1, HW_UNMAP_RANGE);
    unmap(w, 11, 0, HW_UNMAP_SEGMENT); /* not where it begins */
    assert_int_equal(w->books.books[HW_HEAP_ID_SHARED]->live, 19 * PAGE);
    unmap(w, 10, 0, HW_UNMAP_SEGMENT);
    assert_int_equal(w->books.books[HW_HEAP_ID_SHARED]->live, 10 * PAGE);
    end(w);
}

/* mremap: the new range has the old one's kind. */
static void test_remapped(void **state)
{
    struct world *w = begin(7);
    struct hw_rec_alloc a = {
        .heap_id = HW_HEAP_ID_ANON, .flags = HW_ALLOC_REMAPPED, .sample_size = BASE + 10 * PAGE};
    (void)state;
    map(w, HW_HEAP_ID_SHARED, 1, 10, 10);
    unmap(w, 10, 10, HW_UNMAP_RANGE);
    map(w, HW_HEAP_ID_FILE, 1, 10, 10); /* by another thread, before it is told */
    assert_int_equal(hw_mappings_heap(&w->m, &a), HW_HEAP_ID_SHARED);
    a.flags |= HW_ALLOC_DOUBLED;
    assert_int_equal(hw_mappings_heap(&w->m, &a), HW_HEAP_ID_FILE);
    a.sample_size = BASE;
    assert_int_equal(hw_mappings_heap(&w->m, &a), HW_HEAP_ID_ANON); /* not known */
    end(w);
}

/* Of heaps that are not wanted only the place is taken. */
static void test_unwanted(void **state)
{
    struct world *w = begin(1);
    (void)state;
    map(w, HW_HEAP_ID_ANON, 1, 10, 10);
    map(w, HW_HEAP_ID_FILE, 1, 15, 10);
    assert_int_equal(w->books.books[HW_HEAP_ID_ANON]->live, 5 * PAGE);
    assert_int_equal(w->books.books[HW_HEAP_ID_FILE]->live, 0);
    end(w);
}

/* Ranges that no kernel gives. */
static void test_hostile(void **state)
{
    struct world *w = begin(7);
    struct hw_mapped x = {.heap_id = HW_HEAP_ID_ANON};
    (void)state;
    assert_int_equal(hw_mappings_announce(&w->books, HW_HEAP_ID_ANON), 0);
    assert_int_equal(hw_books_cell(&w->books, HW_HEAP_ID_ANON, 0, &x.cell), 0);
    static const uint64_t bad[][2] = {{0, 0},
                                      {1, UINT64_MAX},
                                      {UINT64_MAX, 2},
                                      {UINT64_MAX - 1, HW_BOOKS_MAX_SIZE},
                                      {7, 1ull << 50}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct hw_rec_unmap r = {.address = bad[i][0], .n_bytes = bad[i][1]};
        x.address = bad[i][0];
        x.n_bytes = bad[i][1];
        assert_int_equal(hw_mappings_map(&w->m, &w->books, &x), 0);
        assert_int_equal(hw_mappings_unmap(&w->m, &w->books, &r), 0);
        r.kind = (uint32_t)(HW_UNMAP_KIND_COUNT + i);
        assert_int_equal(hw_mappings_unmap(&w->m, &w->books, &r), 0);
    }
    assert_int_equal(w->books.books[HW_HEAP_ID_ANON]->live, 0);
    assert_int_equal(w->m.n_ignored, 15);
    end(w);
}

/* One record about more ranges than a turn has: it is made again until it is done, and each turn takes its
 * part only. */
static size_t turns_of(struct world *w, const struct hw_mapped *x, const struct hw_rec_unmap *r)
{
    const struct hw_book *k = w->books.books[HW_HEAP_ID_ANON];
    for (size_t n = 1;; n++) {
        uint64_t before = k->live;
        int rc = x ? hw_mappings_map(&w->m, &w->books, x) : hw_mappings_unmap(&w->m, &w->books, r);
        assert_in_range(rc, 0, 1);
        if (rc == 0)
            return n;
        assert_int_equal(before - k->live, HW_RANGES_A_TURN * PAGE);
    }
}

static void test_turns(void **state)
{
    enum { MANY = 3 * HW_RANGES_A_TURN - 7 };
    struct world *w = begin(7);
    struct hw_mapped one = {.n_bytes = PAGE, .heap_id = HW_HEAP_ID_ANON};
    struct hw_rec_unmap r = {.address = BASE, .n_bytes = 2 * MANY * PAGE};
    (void)state;
    assert_int_equal(hw_mappings_announce(&w->books, HW_HEAP_ID_ANON), 0);
    assert_int_equal(hw_books_cell(&w->books, HW_HEAP_ID_ANON, 0, &one.cell), 0);
    const struct hw_book *k = w->books.books[HW_HEAP_ID_ANON];
    struct hw_mapped whole = one;
    whole.address = BASE;
    whole.n_bytes = r.n_bytes;
    for (int how = 0; how < 3; how++) {
        for (uint64_t i = 0; i < MANY; i++) {
            one.address = BASE + 2 * i * PAGE;
            assert_int_equal(hw_mappings_map(&w->m, &w->books, &one), 0);
        }
        if (how == 0) { /* all of them go */
            assert_int_equal(turns_of(w, NULL, &r), 3);
            assert_int_equal(k->live, 0);
            continue;
        }
        assert_int_equal(turns_of(w, &whole, NULL), 3); /* one takes their place */
        assert_int_equal(k->live, whole.n_bytes);
        for (uint64_t i = 0; how == 1 && i < MANY; i++) { /* and gets holes */
            struct hw_rec_unmap hole = {.address = BASE + (2 * i + 1) * PAGE, .n_bytes = PAGE};
            assert_int_equal(hw_mappings_unmap(&w->m, &w->books, &hole), 0);
        }
        struct hw_rec_unmap segment = {.address = BASE, .kind = HW_UNMAP_SEGMENT};
        assert_int_equal(turns_of(w, NULL, &segment), how == 1 ? 3 : 1);
        assert_int_equal(k->live, 0);
        assert_false(w->m.goes_on);
    }
    end(w);
}

/* An unmapping that is said to have failed, when millions lie where it was: the rest of it is forgotten. */
static void test_failed_amid_many(void **state)
{
    enum { MANY = 3 * HW_RANGES_A_TURN };
    struct world *w = begin(7);
    struct hw_mapped one = {
        .address = BASE, .n_bytes = 2 * MANY * PAGE, .heap_id = HW_HEAP_ID_ANON};
    struct hw_rec_unmap r = {.address = BASE, .n_bytes = one.n_bytes};
    (void)state;
    assert_int_equal(hw_mappings_announce(&w->books, HW_HEAP_ID_ANON), 0);
    assert_int_equal(hw_books_cell(&w->books, HW_HEAP_ID_ANON, 0, &one.cell), 0);
    assert_int_equal(hw_mappings_map(&w->m, &w->books, &one), 0);
    assert_int_equal(hw_mappings_unmap(&w->m, &w->books, &r), 0);
    one.n_bytes = PAGE;
    for (uint64_t i = 0; i < MANY; i++) {
        one.address = BASE + 2 * i * PAGE;
        assert_int_equal(hw_mappings_map(&w->m, &w->books, &one), 0);
    }
    r.kind = HW_UNMAP_FAILED;
    assert_int_equal(hw_mappings_unmap(&w->m, &w->books, &r), 0);
    assert_in_range(w->m.ranges.n, MANY, MANY + HW_RANGES_A_TURN);
    assert_int_equal(w->m.n_ignored, 1);
    assert_int_equal(w->books.books[HW_HEAP_ID_ANON]->live, w->m.ranges.n * PAGE);
    end(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turns),    cmocka_unit_test(test_failed_amid_many),
        cmocka_unit_test(test_ledger),   cmocka_unit_test(test_failed),
        cmocka_unit_test(test_segment),  cmocka_unit_test(test_remapped),
        cmocka_unit_test(test_unwanted), cmocka_unit_test(test_hostile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

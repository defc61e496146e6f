/*
 * books_test.c - the books against a twin that keeps every event and adds everything up again
 *
 * Events as a ring gives them: allocations, frees, frees of ids that are not live (their allocation
 * was lost in a hole, or they were freed before), ids used twice, addresses used again, frees that
 * were missed.
 */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/limits.h"
#include "daemon/books/books.h"
#include "daemon/books/callsite_totals.h"

#define N_STACKS 23
#define N_HEAPS  3
#define N_IDS    400

struct event {
    uint64_t id, alloc_size, sample_size;
    uint32_t heap, stack;
    bool live;
};

struct twin {
    struct event live[N_IDS]; /* by id; live = false: not there */
    struct hw_totals t[N_HEAPS + 1][N_STACKS];
    struct hw_totals at_peak[N_HEAPS + 1][N_STACKS];
    double est_alloc[N_HEAPS + 1][N_STACKS], est_free[N_HEAPS + 1][N_STACKS];
    uint64_t interval, now[N_HEAPS + 1], peak[N_HEAPS + 1];
    uint64_t unknown, duplicate;
    bool joint; /* heap 1 is malloc's and 3 Python's: they have one peak */
};

static uint64_t rng_state;
static uint32_t rnd(uint32_t n)
{
    rng_state = rng_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rng_state >> 33) % n;
}

static void twin_free(struct twin *w, uint64_t id)
{
    struct event *e = &w->live[id];
    if (!e->live) {
        w->unknown++;
        return;
    }
    struct hw_totals *t = &w->t[e->heap][e->stack];
    t->freed += e->sample_size;
    t->free_count++;
    w->est_free[e->heap][e->stack] += (double)e->sample_size / (double)e->alloc_size;
    w->now[e->heap] -= e->sample_size;
    e->live = false;
}

static void twin_alloc(struct twin *w, struct event e)
{
    if (w->live[e.id].live) {
        w->duplicate++;
        twin_free(w, e.id);
    }
    struct hw_totals *t = &w->t[e.heap][e.stack];
    t->allocated += e.sample_size;
    t->alloc_count++;
    w->est_alloc[e.heap][e.stack] += (double)e.sample_size / (double)e.alloc_size;
    if (e.alloc_size < w->interval) {
        double size = (double)e.alloc_size;
        t->variance_alloc_space += (double)w->interval * (double)e.sample_size;
        t->variance_alloc_objects += (double)w->interval * (double)e.sample_size / (size * size);
    }
    w->live[e.id] = e;
    w->live[e.id].live = true;
    w->now[e.heap] += e.sample_size;
    bool both = w->joint && e.heap != 2;
    uint64_t now = both ? w->now[1] + w->now[3] : w->now[e.heap];
    for (uint32_t h = 1; h <= N_HEAPS && now > w->peak[e.heap]; h++)
        if (h == e.heap || (both && h != 2))
            memcpy(w->at_peak[h], w->t[h], sizeof w->t[h]); /* the whole world */
    if (now > w->peak[e.heap])
        w->peak[e.heap] = w->peak[both ? 4 - e.heap : e.heap] = now;
}

static double variance_of(const struct twin *w, uint32_t heap, uint32_t stack, uint64_t interval,
                          double *objects)
{
    double v = 0;
    *objects = 0;
    for (size_t i = 0; i < N_IDS; i++)
        if (w->live[i].live && w->live[i].heap == heap && w->live[i].stack == stack &&
            w->live[i].alloc_size < interval) {
            double one = (double)interval * (double)w->live[i].sample_size;
            v += one;
            *objects += one / ((double)w->live[i].alloc_size * (double)w->live[i].alloc_size);
        }
    return v;
}

static void assert_same_sum(double have, double want)
{
    if (fabs(have - want) > 1e-6 * (1 + want))
        fail_msg("%.17g, not %.17g", have, want);
}

static void compare(const struct hw_books *b, const struct twin *w, uint64_t interval)
{
    assert_int_equal(b->n_unknown_free, w->unknown);
    assert_int_equal(b->n_duplicate, w->duplicate);
    size_t live = 0;
    for (size_t i = 0; i < N_IDS; i++)
        live += w->live[i].live;
    assert_int_equal(hw_live_samples_count(&b->live), live);
    for (uint32_t h = 1; h <= N_HEAPS; h++) {
        const struct hw_book *k = b->books[h];
        if (!k)
            continue;
        assert_int_equal(k->live, w->now[h]);
        assert_int_equal(k->peak->most, w->peak[h]);
        for (uint32_t s = 0; s < N_STACKS; s++) {
            struct hw_totals have = {0}, peak = {0};
            if (s < k->cell_of_stack.n && k->cell_of_stack.v[s] != HW_NO_CELL) {
                have = k->cells.v[k->cell_of_stack.v[s]].now;
                peak = hw_book_at_peak(k, k->cell_of_stack.v[s]);
            }
            const struct hw_totals *want = &w->t[h][s], *want_peak = &w->at_peak[h][s];
            assert_int_equal(have.allocated, want->allocated);
            assert_int_equal(have.freed, want->freed);
            assert_int_equal(have.alloc_count, want->alloc_count);
            assert_int_equal(have.free_count, want->free_count);
            double est = w->est_alloc[h][s];
            assert_true(fabs(hw_totals_est_alloc(&have) - est) < 1e-6 * (1 + est));
            est = w->est_free[h][s];
            assert_true(fabs(hw_totals_est_free(&have) - est) < 1e-6 * (1 + est));
            double objects, var = variance_of(w, h, s, interval, &objects);
            assert_same_sum(have.variance, var);
            assert_same_sum(have.variance_objects, objects);
            assert_same_sum(have.variance_alloc_space, want->variance_alloc_space);
            assert_same_sum(have.variance_alloc_objects, want->variance_alloc_objects);
            assert_int_equal(peak.allocated, want_peak->allocated);
            assert_int_equal(peak.freed, want_peak->freed);
            assert_int_equal(peak.alloc_count, want_peak->alloc_count);
            assert_int_equal(peak.free_count, want_peak->free_count);
        }
    }
}

static void test_twin(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        rng_state = seed;
        struct hw_books b;
        struct twin *w = calloc(1, sizeof *w);
        uint64_t interval = w->interval = 4096;
        hw_books_init(&b, /* follow_peak = */ true);
        w->joint = seed % 2;
        for (uint32_t h = 1; h <= N_HEAPS; h++) {
            char name[HW_HEAP_NAME_MAX] = "heap";
            if (w->joint && h == 3)
                memcpy(name, HW_PYTHON_HEAP, sizeof HW_PYTHON_HEAP);
            assert_int_equal(hw_books_announce(&b, h, name, interval), HW_OK);
        }
        uint32_t grow = 40 + rnd(40); /* some runs grow, some shrink */
        for (uint32_t i = 0; i < 3000; i++) {
            uint64_t id = rnd(N_IDS);
            if (rnd(100) < grow) {
                struct event e = {.id = id,
                                  .alloc_size = 1 + rnd(9000),
                                  .heap = 1 + rnd(N_HEAPS),
                                  .stack = rnd(N_STACKS)};
                e.sample_size = e.alloc_size >= interval ? e.alloc_size : interval * (1 + rnd(3));
                twin_alloc(w, e);
                assert_int_equal(
                    hw_books_alloc(&b, &(struct hw_books_alloc){.sample_id = id,
                                                                .alloc_size = e.alloc_size,
                                                                .sample_size = e.sample_size,
                                                                .time_ns = i + 1,
                                                                .heap_id = e.heap,
                                                                .stack = e.stack}),
                    HW_OK);
            } else {
                bool known = w->live[id].live;
                twin_free(w, id);
                assert_int_equal(hw_books_free(&b, id, i + 1, NULL), known);
            }
            if (i % 500 == 0 || i == 2999) {
                compare(&b, w, interval);
                for (uint32_t h = 1; h <= N_HEAPS; h++)
                    hw_book_clear_changes(b.books[h]);
            }
        }
        hw_books_done(&b);
        free(w);
    }
}

/* Of 500 stacks 300 are two or three to a callsite, the others have their own. */
static uint32_t callsite_of(uint32_t stack)
{
    return stack < 180 ? stack / 2 : stack < 300 ? 90 + (stack - 180) / 3 : stack;
}

static void check_row(const struct hw_callsite_totals_row *r, const struct hw_book *k)
{
    uint64_t allocated = 0, freed = 0, count = 0;
    for (size_t c = 0; c < k->cells.n; c++) {
        if (callsite_of(k->cells.v[c].stack) != r->callsite.v)
            continue;
        allocated += k->cells.v[c].now.allocated;
        freed += k->cells.v[c].now.freed;
        count += k->cells.v[c].now.alloc_count;
    }
    assert_int_equal(r->t.allocated, allocated);
    assert_int_equal(r->t.freed, freed);
    assert_int_equal(r->t.alloc_count, count);
}

static void test_changes_add_up(void **state)
{
    (void)state;
    rng_state = 7;
    struct hw_books b;
    struct hw_callsite_totals tally = {0};
    hw_books_init(&b, true);
    for (uint32_t i = 0; i < 20000; i++) {
        struct hw_books_alloc a = {.sample_id = i,
                                   .alloc_size = 1 + rnd(100),
                                   .sample_size = 100,
                                   .time_ns = i,
                                   .heap_id = 1,
                                   .stack = rnd(500)};
        assert_int_equal(hw_books_alloc(&b, &a), HW_OK);
        if (rnd(2))
            (void)hw_books_free(&b, rnd(i + 1), i, NULL);
        if (i % 777 != 0)
            continue;
        struct hw_book *k = b.books[1];
        for (size_t c = 0; c < k->changed.n; c++) {
            const struct hw_cell *cell = &k->cells.v[k->changed.v[c]];
            assert_int_equal(hw_callsite_totals_set(&tally, cell->stack,
                                                    (hw_callsite_id){callsite_of(cell->stack)},
                                                    &cell->now),
                             HW_OK);
        }
        hw_book_clear_changes(k);
        uint64_t allocated = 0, freed = 0, want_a = 0, want_f = 0;
        for (size_t r = 0; r < tally.rows.n; r++) {
            allocated += tally.rows.v[r].t.allocated;
            freed += tally.rows.v[r].t.freed;
        }
        for (size_t c = 0; c < k->cells.n; c++) {
            want_a += k->cells.v[c].now.allocated;
            want_f += k->cells.v[c].now.freed;
        }
        assert_int_equal(allocated, want_a);
        assert_int_equal(freed, want_f);
        assert_true(tally.rows.n <= 350);
        for (size_t r = 0; r < tally.rows.n; r++)
            check_row(&tally.rows.v[r], k);
        for (size_t r = 0; r < tally.rows.n; r++)
            tally.rows.v[r].touched = false;
        hw_vec_clear(&tally.touched);
    }
    hw_callsite_totals_done(&tally);
    hw_books_done(&b);
}

static void test_limits(void **state)
{
    (void)state;
    struct hw_books b;
    hw_books_init(&b, false);
    struct hw_books_alloc a = {
        .sample_id = 8, .alloc_size = 0, .sample_size = UINT64_MAX, .stack = 3};
    assert_int_equal(hw_books_alloc(&b, &a), HW_ELIMIT); /* heap 0 */
    a.heap_id = HW_MAX_HEAPS;
    assert_int_equal(hw_books_alloc(&b, &a), HW_ELIMIT);
    a.heap_id = 1;
    assert_int_equal(hw_books_alloc(&b, &a), HW_OK);
    assert_int_equal(b.books[1]->live, HW_BOOKS_MAX_SIZE);
    assert_true(hw_totals_est_alloc(&b.books[1]->cells.v[0].now) ==
                1.0); /* of 0 bytes: one allocation */
    assert_true(hw_books_free(&b, 8, 1, NULL));
    assert_false(hw_books_free(&b, 8, 1, NULL));
    assert_int_equal(b.books[1]->live, 0);
    hw_books_done(&b);
}

static double variance_at(uint64_t alloc_size, uint64_t sample_size, uint32_t doublings)
{
    struct hw_books b;
    char name[HW_HEAP_NAME_MAX] = "libc.malloc";
    const char none[HW_HEAP_NAME_MAX] = "";
    struct hw_books_alloc a = {.sample_id = 8,
                               .alloc_size = alloc_size,
                               .sample_size = sample_size,
                               .heap_id = 1,
                               .doublings = doublings};
    hw_books_init(&b, false);
    assert_int_equal(hw_books_announce(&b, 1, name, 4096), HW_OK);
    assert_int_equal(hw_books_announce(&b, 1, none, 4 * 4096), HW_OK); /* the newest */
    assert_int_equal(hw_books_alloc(&b, &a), HW_OK);
    double variance = b.books[1]->cells.v[0].now.variance;
    assert_int_equal(b.books[1]->live, sample_size);
    assert_true(hw_books_free(&b, 8, 1, NULL));
    assert_true(b.books[1]->cells.v[0].now.variance == 0);
    assert_int_equal(b.books[1]->interval_bytes, 4 * 4096);
    hw_books_done(&b);
    return variance;
}

/* A thread that has not followed the newest interval yet says so, in front of it or behind. */
static void test_own_interval(void **state)
{
    (void)state;
    assert_true(variance_at(100, 4096, 0) == 4096.0 * 4096);
    assert_true(variance_at(100, 4 * 4096, 2) == 4.0 * 4096 * 4 * 4096);
    assert_true(variance_at(100, 8 * 4096, 3) == 8.0 * 4096 * 8 * 4096);
    assert_true(variance_at(5000, 5000, 0) == 0); /* above its own interval: exact */
    assert_true(variance_at(5000, 4 * 4096, 2) == 4.0 * 4096 * 4 * 4096);
    assert_true(variance_at(20000, 20000, 2) == 0);
    assert_true(variance_at(100, UINT64_C(1) << 40, HW_MAX_DOUBLINGS) > 0);
}

/*
 * Rounding of a site with blocks of many sizes, and of all sites, over many recordings of the same allocations: is the
 * mean the truth, the stated variance the one that is seen, and does twice the standard error cover the truth in 95 of
 * 100?
 */
enum { RUNS = 2000, BLOCKS = 4000, SITES = 3 };

static double uniform(void) /* (0, 1) */
{
    rng_state = rng_state * 6364136223846793005u + 1442695040888963407u;
    return ((double)(rng_state >> 11) + 0.5) * 0x1p-53;
}

/* As src/client/sample/sampler.c draws it. */
static uint64_t stands_for(double *countdown, uint64_t size, uint64_t interval)
{
    uint64_t k = 0;
    if (size >= interval)
        return size;
    for (*countdown -= (double)size; *countdown <= 0; k++)
        *countdown += floor(log(uniform()) / log1p(-1.0 / (double)interval)) + 1;
    return k * interval;
}

struct block {
    uint64_t size;
    uint32_t takes;
    uint32_t site;
    bool freed;
};

/* Sizes of many magnitudes, one size, and a few large ones, some of them aligned; a third is freed again. */
static double make_blocks(struct block *blocks, enum hw_block_rule rule, double *truth)
{
    double all = 0;
    for (size_t i = 0; i < BLOCKS; i++) {
        struct block *b = &blocks[i];
        b->site = (uint32_t)i % SITES;
        b->size = b->site == 0 ? (uint64_t)exp2(4 + 7.5 * uniform()) : b->site == 1 ? 33 : 200;
        b->takes = b->site != 2 || i % 4     ? 0
                   : rule == HW_BLOCKS_GLIBC ? 401
                                             : 12; /* about a page */
        b->freed = rnd(3) == 0;
        uint64_t beyond = b->takes == 0 ? 0
                          : rule == HW_BLOCKS_GLIBC
                              ? 3200
                              : hw_block_beyond_aligned(rule, b->size, 12, false);
        double one = (double)(hw_block_bytes(rule, b->size) + beyond - b->size);
        truth[b->site] += b->freed ? 0 : one;
        all += b->freed ? 0 : one;
    }
    return all;
}

static void record_blocks(struct hw_books *b, const struct block *blocks, enum hw_block_rule rule,
                          uint64_t interval)
{
    char name[HW_HEAP_NAME_MAX] = "libc.malloc";
    double countdown = -1;
    hw_books_init(b, false);
    b->rule = rule;
    assert_int_equal(hw_books_announce(b, 1, name, interval), HW_OK);
    (void)stands_for(&countdown, 0, interval);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        struct hw_books_alloc a = {.sample_id = 64 * i,
                                   .alloc_size = blocks[i].size,
                                   .sample_size = stands_for(&countdown, blocks[i].size, interval),
                                   .heap_id = 1,
                                   .stack = blocks[i].site,
                                   .takes = (uint16_t)blocks[i].takes};
        if (a.sample_size != 0)
            assert_int_equal(hw_books_alloc(b, &a), HW_OK);
    }
    for (uint32_t i = 0; i < BLOCKS; i++)
        if (blocks[i].freed)
            (void)hw_books_free(b, 64 * i, 1, NULL);
}

static void check_rounding(enum hw_block_rule rule, uint64_t interval)
{
    struct block *blocks = calloc(BLOCKS, sizeof *blocks);
    double truth[SITES + 1] = {0}, sum[SITES + 1] = {0}, square[SITES + 1] = {0};
    double stated[SITES + 1] = {0};
    int covered[SITES + 1] = {0};
    rng_state = 5;
    truth[SITES] = make_blocks(blocks, rule, truth);
    for (int run = 0; run < RUNS; run++) {
        struct hw_books b;
        double have[SITES + 1] = {0}, variance[SITES + 1] = {0};
        record_blocks(&b, blocks, rule, interval);
        const struct hw_book *k = b.books[1];
        for (size_t c = 0; c < k->cells.n; c++) {
            const struct hw_totals *t = &k->cells.v[c].now;
            have[k->cells.v[c].stack] = t->rounding;
            variance[k->cells.v[c].stack] = t->variance_rounding;
            have[SITES] += t->rounding;
            variance[SITES] += t->variance_rounding;
        }
        for (int s = 0; s <= SITES; s++) {
            sum[s] += have[s];
            square[s] += have[s] * have[s];
            stated[s] += variance[s];
            covered[s] += fabs(have[s] - truth[s]) <= 2 * sqrt(variance[s]);
        }
        hw_books_done(&b);
    }
    for (int s = 0; s <= SITES; s++) {
        double mean = sum[s] / RUNS, spread = sqrt(square[s] / RUNS - mean * mean);
        double error = sqrt(stated[s] / RUNS), share = (double)covered[s] / RUNS;
        if (fabs(mean - truth[s]) > 4.5 * spread / sqrt(RUNS) ||
            fabs(error - spread) > 0.08 * spread || share < 0.93 || share > 0.975)
            fail_msg("site %d: mean %g, truth %g, spread %g, stated %g, covered %g", s, mean,
                     truth[s], spread, error, share);
    }
    free(blocks);
}

static void test_rounding(void **state)
{
    (void)state;
    check_rounding(HW_BLOCKS_GLIBC, 512);
    check_rounding(HW_BLOCKS_JEMALLOC, 512);
    check_rounding(HW_BLOCKS_TCMALLOC, 1024);
}

/*
 * Temporary allocations: against a twin that knows each allocation's time. Ids as a ring gives them, but times that
 * stand still, jump, go back and wrap, sizes that leave the blocks for the map, and frees of any age.
 */
enum { T_EVENTS = 40000, T_LIVE = 3000, T_STACKS = 9 };

struct made {
    uint64_t id, size, tick;
    uint32_t heap, stack;
};

struct made_twin {
    struct made live[T_LIVE];
    size_t n;
    uint64_t clock; /* the newest time told */
    uint64_t bytes[3][T_STACKS], count[3][T_STACKS], at_peak[3][T_STACKS];
    uint64_t now[3], peak[3], n_young, n_old;
};

/* What a record says: *t goes on, and a thread is late, or a target lies. */
static uint64_t next_time(uint64_t *t, bool odd, bool last)
{
    *t += rnd(4) ? 0 : rnd(4000000);
    switch (odd ? rnd(1000) : 0) {
    case 1:
        return *t += UINT64_C(1000000000) * rnd(2000);
    case 2:
        return *t - UINT64_C(1000000) * rnd(3000); /* also below 0 */
    case 3:
        return last ? UINT64_MAX - UINT64_C(10000000) * rnd(1000) : rnd(1u << 31);
    case 4:
        return *t += rnd(40000000);
    default:
        return *t;
    }
}

/* A free of any of them, or of a young one. */
static void free_one(struct hw_books *b, struct made_twin *w, uint64_t time)
{
    size_t i = rnd(3) ? rnd((uint32_t)w->n) : w->n - 1 - rnd(w->n < 8 ? 1 : 8);
    struct made m = w->live[i];
    w->live[i] = w->live[--w->n];
    if (w->clock / HW_YOUNG_TICK_NS - m.tick <= HW_YOUNG_TICKS) {
        w->bytes[m.heap][m.stack] += m.size;
        w->count[m.heap][m.stack]++;
        w->n_young++;
    } else {
        w->n_old++;
    }
    w->now[m.heap] -= m.size;
    assert_true(hw_books_free(b, m.id, time, NULL));
}

static void make_one(struct hw_books *b, struct made_twin *w, uint64_t id, uint64_t time)
{
    struct made m = {.id = id,
                     .size = rnd(50) ? 1 + rnd(5000) : HW_LIVE_MAX_SIZE + rnd(5),
                     .tick = w->clock / HW_YOUNG_TICK_NS,
                     .heap = 1 + rnd(2),
                     .stack = rnd(T_STACKS)};
    uint32_t cell;
    assert_int_equal(hw_books_cell(b, m.heap, m.stack, &cell), HW_OK);
    assert_int_equal(hw_books_exact_in(b, id, m.size, time, m.heap, cell), HW_OK);
    w->live[w->n++] = m;
    w->now[m.heap] += m.size;
    if (w->now[m.heap] <= w->peak[m.heap])
        return;
    w->peak[m.heap] = w->now[m.heap];
    memcpy(w->at_peak[m.heap], w->bytes[m.heap], sizeof w->bytes[m.heap]);
}

static void compare_temporary(const struct hw_books *b, const struct made_twin *w)
{
    for (uint32_t h = 1; h <= 2; h++) {
        const struct hw_book *k = b->books[h];
        for (uint32_t c = 0; k && c < k->cells.n; c++) {
            const struct hw_totals *t = &k->cells.v[c].now;
            uint32_t s = k->cells.v[c].stack;
            assert_int_equal(t->temporary, w->bytes[h][s]);
            assert_int_equal((uint64_t)t->temporary_objects, w->count[h][s]);
            assert_int_equal(hw_book_at_peak(k, c).temporary, w->at_peak[h][s]);
            assert_true(t->variance_temporary == 0 && t->variance_temporary_objects == 0);
        }
    }
}

static void test_temporary_twin(void **state)
{
    (void)state;
    struct made_twin *w = malloc(sizeof *w);
    for (uint32_t seed = 1; seed <= 12; seed++) {
        struct hw_books b;
        uint64_t clock = UINT64_C(4000000000) * seed * seed * seed, id = 64;
        rng_state = seed;
        *w = (struct made_twin){0};
        hw_books_init(&b, true);
        for (uint32_t h = 1; h <= 2; h++)
            assert_int_equal(hw_books_announce(&b, h, (char[HW_HEAP_NAME_MAX]){"heap"}, 1), HW_OK);
        for (uint32_t i = 0; i < T_EVENTS; i++) {
            uint64_t time = next_time(&clock, seed % 3 != 0, i > T_EVENTS / 10 * 9);
            w->clock = time > w->clock ? time : w->clock;
            if (w->n == T_LIVE || (w->n && rnd(100) < 47))
                free_one(&b, w, time);
            else
                make_one(&b, w, id, time);
            id += 32 * (1 + rnd(3)) + (rnd(500) ? 0 : 4096 * rnd(400));
            if (i % 1000 == 0)
                compare_temporary(&b, w);
        }
        compare_temporary(&b, w);
        assert_true(w->n_young > 1000 && w->n_old > 50);
        hw_books_done(&b);
    }
    free(w);
}

/* The limit itself: whatever the ticks, a second is still temporary, and a tick more is not. */
static void test_temporary_limit(void **state)
{
    (void)state;
    const uint64_t second = UINT64_C(1000000000);
    for (uint64_t start = 0; start < 3 * HW_YOUNG_TICK_NS; start += 100000)
        for (int old = 0; old < 2; old++) {
            struct hw_books b;
            struct hw_books_alloc a = {
                .sample_id = 32, .alloc_size = 5, .sample_size = 5, .time_ns = start, .heap_id = 1};
            hw_books_init(&b, false);
            assert_int_equal(hw_books_alloc(&b, &a), HW_OK);
            uint64_t end = start + second + (old ? HW_YOUNG_TICK_NS : 0);
            assert_true(hw_books_free(&b, 32, end, NULL));
            assert_int_equal(b.books[1]->cells.v[0].now.temporary, old ? 0 : 5);
            hw_books_done(&b);
        }
}

/* Recordings of the same blocks, drawn anew: of each site half of the blocks, some or none are freed within a second. */
static void record_lives(struct hw_books *b, uint64_t interval, const struct block *blocks)
{
    double countdown = -1;
    hw_books_init(b, false);
    assert_int_equal(hw_books_announce(b, 1, (char[HW_HEAP_NAME_MAX]){"libc.malloc"}, interval),
                     HW_OK);
    (void)stands_for(&countdown, 0, interval);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        struct hw_books_alloc a = {.sample_id = 64 * (i + 1),
                                   .alloc_size = blocks[i].size,
                                   .sample_size = stands_for(&countdown, blocks[i].size, interval),
                                   .time_ns = i * UINT64_C(10000000),
                                   .heap_id = 1,
                                   .stack = blocks[i].site};
        if (a.sample_size != 0)
            assert_int_equal(hw_books_alloc(b, &a), HW_OK);
        if (i >= 50 && blocks[i - 50].freed) /* after half a second */
            (void)hw_books_free(b, 64 * (i - 50 + 1), a.time_ns, NULL);
        if (i >= 300 && !blocks[i - 300].freed)
            (void)hw_books_free(b, 64 * (i - 300 + 1), a.time_ns, NULL);
    }
}

static void test_temporary_sampled(void **state)
{
    (void)state;
    enum { INTERVAL = 4096, FIGURES = 2 * (SITES + 1) };
    struct block *blocks = calloc(BLOCKS, sizeof *blocks);
    double truth[FIGURES] = {0}, sum[FIGURES] = {0}, square[FIGURES] = {0}, stated[FIGURES] = {0};
    int covered[FIGURES] = {0};
    rng_state = 9;
    (void)make_blocks(blocks, HW_BLOCKS_GLIBC, (double[SITES]){0});
    for (uint32_t i = 0; i < BLOCKS; i++) {
        uint32_t s = blocks[i].site;
        blocks[i].size = s == 2 ? 2000 + 20000 * (i % 7 == 0) : blocks[i].size * 40;
        blocks[i].freed = rnd(s + 2) == 0;
        if (!blocks[i].freed || i + 50 >= BLOCKS)
            continue;
        truth[s] += (double)blocks[i].size;
        truth[SITES] += (double)blocks[i].size;
        truth[SITES + 1 + s]++;
        truth[2 * SITES + 1]++;
    }
    for (int run = 0; run < RUNS; run++) {
        struct hw_books b;
        double have[FIGURES] = {0}, variance[FIGURES] = {0};
        record_lives(&b, INTERVAL, blocks);
        const struct hw_book *k = b.books[1];
        for (size_t c = 0; c < k->cells.n; c++) {
            const struct hw_totals *t = &k->cells.v[c].now;
            const uint32_t at[2] = {k->cells.v[c].stack, SITES};
            for (int i = 0; i < 2; i++) {
                have[at[i]] += (double)t->temporary;
                variance[at[i]] += (double)t->variance_temporary;
                have[SITES + 1 + at[i]] += t->temporary_objects;
                variance[SITES + 1 + at[i]] += (double)t->variance_temporary_objects;
            }
        }
        for (int s = 0; s < FIGURES; s++) {
            sum[s] += have[s];
            square[s] += have[s] * have[s];
            stated[s] += variance[s];
            covered[s] += fabs(have[s] - truth[s]) <= 2 * sqrt(variance[s]);
        }
        hw_books_done(&b);
    }
    for (int s = 0; s < FIGURES; s++) {
        double mean = sum[s] / RUNS, spread = sqrt(square[s] / RUNS - mean * mean);
        double error = sqrt(stated[s] / RUNS), share = (double)covered[s] / RUNS;
        if (fabs(mean - truth[s]) > 4.5 * spread / sqrt(RUNS) ||
            fabs(error - spread) > 0.08 * spread || share < 0.93 || share > 0.975)
            fail_msg("figure %d: mean %g, truth %g, spread %g, stated %g, covered %g", s, mean,
                     truth[s], spread, error, share);
    }
    free(blocks);
}

/* More equal samples than a float can count. */
static void test_temporary_many(void **state)
{
    (void)state;
    struct hw_books b;
    hw_books_init(&b, false);
    assert_int_equal(hw_books_announce(&b, 1, (char[HW_HEAP_NAME_MAX]){"libc.malloc"}, 4096),
                     HW_OK);
    double before = 0, one = 4096.0 * 4096;
    enum { MANY = 400000 };
    for (uint32_t i = 0; i < MANY; i++) {
        struct hw_books_alloc a = {.sample_id = 64 * (i + 1),
                                   .alloc_size = 64,
                                   .sample_size = 4096,
                                   .time_ns = 1,
                                   .heap_id = 1};
        assert_int_equal(hw_books_alloc(&b, &a), HW_OK);
        struct hw_totals *t = &b.books[1]->cells.v[0].now;
        if (i == 0)
            before = (double)(t->variance_temporary = (float)(0x1.8p26 * one));
        assert_true(hw_books_free(&b, a.sample_id, 1, NULL));
    }
    double grown = ((double)b.books[1]->cells.v[0].now.variance_temporary - before) / one;
    if (fabs(grown - MANY) > 0.02 * MANY)
        fail_msg("%g, not %d", grown, MANY);
    hw_books_done(&b);
}

HW_TEST_MAIN(cmocka_unit_test(test_twin), cmocka_unit_test(test_rounding),
             cmocka_unit_test(test_changes_add_up), cmocka_unit_test(test_limits),
             cmocka_unit_test(test_own_interval), cmocka_unit_test(test_temporary_twin),
             cmocka_unit_test(test_temporary_limit), cmocka_unit_test(test_temporary_sampled),
             cmocka_unit_test(test_temporary_many))

/*
 * pins_test.c - what is free on the pages of live blocks, and whose it is
 */
#include "test.h"

#include <math.h>
#include <string.h>

#include "daemon/dump/pins.h"

#define PAGE HW_PINS_PAGE

static void take(struct hw_measured_heap *p, const struct hw_idle_sample *s, size_t n,
                 size_t n_absent, struct hw_snap_book *out)
{
    struct hw_pins_map m;
    bool resident[64];
    assert_int_equal(hw_pins_map_init(&m, s, n, 1), HW_OK);
    assert_true(m.pages.n <= 64);
    memset(resident, 1, sizeof resident);
    for (size_t i = 0; i < n_absent; i++)
        resident[i] = false;
    *out = (struct hw_snap_book){0};
    assert_int_equal(hw_pins_take(p, &m, resident, out), HW_OK);
    hw_pins_map_done(&m);
}

static uint64_t pinned(const struct hw_measured_heap *p, uint32_t stack)
{
    for (size_t i = 0; i < p->stacks.n; i++)
        if (p->stacks.v[i] == stack)
            return hw_totals_live(&p->sites.v[i].told);
    return 0;
}

static void test_shares(void **state)
{
    (void)state;
    struct hw_measured_heap p = {0};
    struct hw_snap_book out;
    /* 112 and 336 of a page; another page alone; one that begins on the third and ends on the fourth. */
    const struct hw_idle_sample s[] = {{16 * PAGE + 16, 100, 100, 1},
                                       {16 * PAGE + 512, 328, 328, 2},
                                       {20 * PAGE + 16, 24, 24, 1},
                                       {31 * PAGE - 32, 4000, 4000, 3}};
    take(&p, s, 4, 0, &out);
    assert_int_equal(out.cells.n, 3);
    assert_int_equal(pinned(&p, 1), (PAGE - 448) / 4 + PAGE - 32);
    assert_int_equal(pinned(&p, 2), (PAGE - 448) / 4 * 3);
    assert_int_equal(pinned(&p, 3), 2 * PAGE - 4016);
    hw_vec_done(&out.cells);
    take(&p, s, 4, 0, &out); /* nothing changed */
    assert_int_equal(out.cells.n, 0);
    hw_vec_done(&out.cells);
    take(&p, s, 2, 1, &out); /* the only page left is not in memory */
    assert_int_equal(pinned(&p, 1), 0);
    assert_int_equal(pinned(&p, 2), 0);
    assert_int_equal(out.cells.n, 3);
    hw_vec_done(&out.cells);
    hw_measured_heap_done(&p);
}

static void test_pins_nothing(void **state)
{
    (void)state;
    struct hw_measured_heap p = {0};
    struct hw_snap_book out;
    /* A mapping of its own; a full page; addresses and sizes that cannot be. */
    const struct hw_idle_sample s[] = {{64 * PAGE + 16, 1 << 20, 1 << 20, 1},
                                       {80 * PAGE + 8, PAGE - 8, PAGE - 8, 2},
                                       {4, 100, 100, 3},
                                       {UINT64_MAX - 8, 100, 100, 4},
                                       {100 * PAGE, UINT64_MAX, 1, 5}};
    take(&p, s, 5, 0, &out);
    for (uint32_t stack = 1; stack <= 5; stack++)
        assert_int_equal(pinned(&p, stack), 0);
    hw_vec_done(&out.cells);
    hw_measured_heap_done(&p);
}

static void test_overlaps(void **state)
{
    (void)state;
    struct hw_measured_heap p = {0};
    struct hw_snap_book out;
    /* Said of one place twice, and of one within another: no more than a page is free. */
    const struct hw_idle_sample s[] = {{16 * PAGE + 16, 3000, 3000, 1},
                                       {16 * PAGE + 16, 3000, 3000, 2},
                                       {16 * PAGE + 100, 20000, 20000, 3},
                                       {17 * PAGE + 16, 40, 40, 4}};
    take(&p, s, 4, 0, &out);
    uint64_t sum = 0;
    for (uint32_t stack = 1; stack <= 4; stack++)
        sum += pinned(&p, stack);
    assert_true(sum <= 5 * PAGE);
    hw_vec_done(&out.cells);
    hw_measured_heap_done(&p);
}

/* ---- of a sample ---- */

enum { N_PAGES = 4000, INTERVAL = 512 };

static uint64_t state_of_chance = 1;

static double chance(void)
{
    state_of_chance = state_of_chance * 6364136223846793005u + 1442695040888963407u;
    return (double)(state_of_chance >> 11) / 9007199254740992.0;
}

static uint64_t hits(double mean) /* Poisson */
{
    uint64_t n = 0;
    for (double p = chance(), least = exp(-mean); p > least; p *= chance())
        n++;
    return n;
}

struct truth {
    double pins[3]; /* by stack */
    struct hw_idle_sample samples[3 * N_PAGES];
    size_t n;
};

/* Three blocks a page at most, of two stacks: what they pin, and those of them that are sampled. */
static void make(struct truth *t)
{
    *t = (struct truth){0};
    for (uint64_t page = 0; page < N_PAGES; page++) {
        uint64_t at = (100000 + page) * PAGE + 16;
        const uint64_t sizes[] = {40, 88 + page % 5 * 16, 600};
        double used = 0;
        for (size_t i = 0; i <= page % 3; i++)
            used += (double)sizes[i] + 8;
        for (size_t i = 0; i <= page % 3; i++) {
            uint32_t stack = i == 1 ? 2 : 1;
            uint64_t n = hits((double)sizes[i] / INTERVAL);
            if (sizes[i] >= INTERVAL)
                n = 1;
            t->pins[stack] += ((double)PAGE - used) * ((double)sizes[i] + 8) / used;
            if (n)
                t->samples[t->n++] = (struct hw_idle_sample){
                    at, sizes[i], sizes[i] >= INTERVAL ? sizes[i] : n * INTERVAL, stack};
            at += sizes[i] + 8;
        }
    }
}

/* What the headers would tell; of every `misses`-th region nothing. */
static void fill(struct hw_pins_map *m, uint64_t misses)
{
    for (size_t i = 0; i < m->pages.n; i++) {
        uint64_t page = m->numbers.v[i] - 100000, used = 0;
        const uint64_t sizes[] = {40, 88 + page % 5 * 16, 600};
        for (size_t k = 0; k <= page % 3; k++)
            used += sizes[k] + 8;
        bool is_missed = misses && m->numbers.v[i] * PAGE / (1 << 20) % misses == 0;
        m->pages.v[i].used = is_missed ? UINT32_MAX : (uint32_t)used;
    }
}

static const struct hw_totals *told(const struct hw_measured_heap *p, uint32_t stack)
{
    for (size_t i = 0; i < p->stacks.n; i++)
        if (p->stacks.v[i] == stack)
            return &p->sites.v[i].told;
    return NULL;
}

/* Without bias, and two standard errors hold it as often as they should. */
static void estimate(uint64_t misses)
{
    enum { ROUNDS = 200 };
    static struct truth t;
    static bool resident[2 * N_PAGES];
    double sum[3] = {0};
    size_t n_held = 0;
    memset(resident, 1, sizeof resident);
    for (int round = 0; round < ROUNDS; round++) {
        struct hw_measured_heap p = {0};
        struct hw_snap_book out = {0};
        struct hw_pins_map m;
        make(&t);
        assert_int_equal(hw_pins_map_init(&m, t.samples, t.n, INTERVAL), HW_OK);
        fill(&m, misses);
        assert_int_equal(hw_pins_take(&p, &m, resident, &out), HW_OK);
        for (uint32_t stack = 1; stack <= 2; stack++) {
            const struct hw_totals *v = told(&p, stack);
            double pins = (double)hw_totals_live(v), error = 2 * sqrt(v->variance);
            sum[stack] += pins / ROUNDS;
            n_held += fabs(pins - t.pins[stack]) <= error;
            assert_true(error > 0 && error < t.pins[stack] / 2);
        }
        hw_pins_map_done(&m);
        hw_vec_done(&out.cells);
        hw_measured_heap_done(&p);
    }
    print_message("%.1f%% of intervals hold the truth; means %.3f %.3f of it\n",
                  100.0 * (double)n_held / (2 * ROUNDS), sum[1] / t.pins[1], sum[2] / t.pins[2]);
    assert_true(n_held >= 2 * ROUNDS * 90 / 100);
    for (uint32_t stack = 1; stack <= 2; stack++)
        assert_true(fabs(sum[stack] - t.pins[stack]) <= 0.02 * t.pins[stack]);
}

static void test_sampled(void **state)
{
    (void)state;
    estimate(0);
}

static void test_sampled_in_part(void **state)
{
    (void)state;
    estimate(5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sampled), cmocka_unit_test(test_sampled_in_part),
        cmocka_unit_test(test_shares), cmocka_unit_test(test_pins_nothing),
        cmocka_unit_test(test_overlaps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "test.h"

#include <math.h>

#include "views/fill.h"
#include "views/findings/diff.h"
#include "views/time/process_view.h"

struct loaded {
    struct hw_profile *p;
    struct hw_series_list list;
    struct hw_functions *fns;
    hw_values values;
};

static void load(struct loaded *l, struct hw_profile *p, int64_t ts)
{
    l->p = p;
    l->values = (hw_values){0};
    if (!p->frozen)
        assert_int_equal(hw_profile_freeze(p), 0);
    assert_int_equal(hw_series_list_init(&l->list, p), 0);
    assert_int_equal(hw_functions_new(p->callsites, NULL, &l->fns), 0);
    assert_int_equal(hw_process_values(p, &l->list, (hw_upid){0}, ts, false, &l->values), 0);
}

static void unload(struct loaded *l, bool with_profile)
{
    hw_vec_done(&l->values);
    hw_functions_free(l->fns);
    hw_series_list_done(&l->list);
    if (with_profile)
        hw_profile_free(l->p);
}

static struct hw_diff_side side_of(const struct loaded *l, uint64_t interval)
{
    return (struct hw_diff_side){
        .p = l->p, .fns = l->fns, .values = &l->values, .interval_bytes = interval};
}

static const struct hw_diff_row *row_of(const struct hw_diff *d, const char *name)
{
    for (size_t i = 0; i < d->functions.n; i++)
        if (strcmp(hw_strings_cstr(d->strings, d->functions.v[i].name), name) == 0)
            return &d->rows.v[i];
    fail_msg("no function %s", name);
    return NULL;
}

/* Two recordings whose ids have nothing in common: random stacks, compared by their texts. */
static void two_files_as_their_twin(void **state)
{
    (void)state;
    enum { N = 200, NAMES = 12 };
    struct hw_profile *p[2];
    struct loaded l[2];
    static char text[2][N][128];
    int64_t self[2][NAMES] = {{0}}, total[2][NAMES] = {{0}}, all[2] = {0};
    srand(3);
    for (int k = 0; k < 2; k++) {
        assert_int_equal(hw_profile_new(&p[k]), 0);
        uint32_t dump = fill_dump(p[k], 5 + k, "libc.malloc", 9, 1, 0);
        for (int i = 0; i < N; i++) {
            int depth = 1 + rand() % 5, name = 0;
            bool seen[NAMES] = {false};
            text[k][i][0] = 0;
            int64_t size = 1 + rand() % 1000;
            for (int d = 0; d < depth; d++) {
                name = rand() % (k ? NAMES : NAMES - 1); /* the last one is in B only */
                size_t at = strlen(text[k][i]);
                snprintf(text[k][i] + at, sizeof text[k][i] - at, "%sf%02d@/opt/v%d/libq.so.%d",
                         d ? ";" : "", name, k, k + 1);
                if (!seen[name])
                    total[k][name] += size;
                seen[name] = true;
            }
            self[k][name] += size;
            all[k] += size;
            fill_row(p[k], dump, text[k][i], 1, size);
        }
        load(&l[k], p[k], 9);
    }
    struct hw_diff_side a = side_of(&l[0], 1), b = side_of(&l[1], 1);
    struct hw_diff d;
    assert_int_equal(hw_diff_make(&a, &b, HW_DIFF_ALL_FRAMES, &d), 0);
    assert_int_equal(d.functions.n, NAMES);
    for (int i = 0; i < NAMES; i++) {
        char name[8];
        snprintf(name, sizeof name, "f%02d", i);
        const struct hw_diff_row *r = row_of(&d, name);
        assert_int_equal(r->self.a.space, self[0][i]);
        assert_int_equal(r->self.b.space, self[1][i]);
        assert_int_equal(r->total.a.space, total[0][i]);
        assert_int_equal(r->total.b.space, total[1][i]);
        assert_true(hw_diff_error(&d, &r->self, HW_METRIC_SPACE) == 0);
        assert_int_equal(hw_diff_is_significant(&d, &r->self, HW_METRIC_SPACE),
                         self[0][i] != self[1][i]);
    }
    assert_int_equal(d.nodes.v[0].total.a.space, all[0]);
    assert_int_equal(d.nodes.v[0].total.b.space, all[1]);
    uint32_t order[NAMES];
    hw_diff_rank(&d, HW_METRIC_SPACE, order);
    for (int i = 1; i < NAMES; i++)
        assert_true(fabs(hw_diff_change(&d, &d.rows.v[order[i - 1]].self, HW_METRIC_SPACE)) >=
                    fabs(hw_diff_change(&d, &d.rows.v[order[i]].self, HW_METRIC_SPACE)));
    hw_diff_done(&d);
    unload(&l[0], true);
    unload(&l[1], true);
}

static void add(struct hw_profile *p, uint32_t dump, const char *stack, int64_t n, int64_t size,
                double variance)
{
    fill_row(p, dump, stack, n, size);
    fill_variance(p, p->allocs.n - 1, variance);
}

/* 400 samples stay, 100 come: of two recordings the errors of 400 and 500 add up, of two dumps of
 * one process only the 100 that came count. */
static void what_stayed_has_no_error(void **state)
{
    (void)state;
    const double n2 = 4096.0 * 4096;
    struct hw_profile *p;
    struct loaded a, b;
    assert_int_equal(hw_profile_new(&p), 0);
    uint32_t first = fill_dump(p, 5, "libc.malloc", 1, 4096, 0);
    uint32_t second = fill_dump(p, 5, "libc.malloc", 2, 4096, 0);
    add(p, first, "main;stay;malloc@/lib/libc.so", 400, 400 * 4096, 400 * n2);
    add(p, second, "main;stay;malloc@/lib/libc.so", 100, 100 * 4096, 500 * n2);
    add(p, first, "main;swap;malloc@/lib/libc.so", 50, 50 * 4096, 50 * n2);
    add(p, second, "main;swap;malloc@/lib/libc.so", 50, 50 * 4096, 50 * n2);
    add(p, second, "main;swap;malloc@/lib/libc.so", -50, -50 * 4096, 0);
    load(&a, p, 1);
    load(&b, p, 2);
    struct hw_diff_side sa = side_of(&a, 4096), sb = side_of(&b, 4096);
    struct hw_diff d;
    assert_int_equal(hw_diff_make(&sa, &sb, HW_DIFF_SAME_RUN, &d), 0);
    const struct hw_diff_row *r = row_of(&d, "stay");
    assert_near(hw_diff_change(&d, &r->self, HW_METRIC_SPACE), 100 * 4096, 0.1);
    assert_near(hw_diff_error(&d, &r->self, HW_METRIC_SPACE), 2 * sqrt(100 * n2), 1);
    assert_true(hw_diff_is_significant(&d, &r->self, HW_METRIC_SPACE));
    r = row_of(&d, "swap"); /* all went, as many came: both are news */
    assert_near(hw_diff_error(&d, &r->self, HW_METRIC_SPACE), 2 * sqrt(100 * n2), 1);
    assert_false(hw_diff_is_significant(&d, &r->self, HW_METRIC_SPACE));
    hw_diff_done(&d);

    assert_int_equal(hw_diff_make(&sa, &sb, 0, &d), 0);
    r = row_of(&d, "stay");
    assert_near(hw_diff_error(&d, &r->self, HW_METRIC_SPACE), 2 * sqrt(900 * n2), 1);
    hw_diff_done(&d);
    unload(&a, false);
    unload(&b, true);
}

/* Filters of each side count in its tree; factors in every figure. */
/* A is exact, B sampled: what B has no sample of may be there, up to three intervals of it. */
static void unseen_is_not_gone(void **state)
{
    (void)state;
    struct hw_profile *p[2];
    struct loaded l[2];
    struct hw_diff d;
    for (int k = 0; k < 2; k++) {
        assert_int_equal(hw_profile_new(&p[k]), 0);
        uint32_t dump = fill_dump(p[k], 5, "libc.malloc", 1, k ? 4096 : 1, 0);
        add(p[k], dump, "main;both;malloc@/lib/libc.so", 200, 819200, k ? 819200 * 4096. : 0);
        if (k == 0) {
            add(p[k], dump, "main;small;malloc@/lib/libc.so", 100, 12000, 0);
            add(p[k], dump, "main;large;malloc@/lib/libc.so", 100, 13000, 0);
        }
        load(&l[k], p[k], 1);
    }
    struct hw_diff_side a = side_of(&l[0], 1), b = side_of(&l[1], 4096);
    assert_int_equal(hw_diff_make(&a, &b, 0, &d), 0);
    const struct hw_diff_value *small = &row_of(&d, "small")->self;
    const struct hw_diff_value *large = &row_of(&d, "large")->self;
    assert_near(hw_diff_error(&d, small, HW_METRIC_SPACE), 12288, 0.1);
    assert_near(hw_diff_error(&d, small, HW_METRIC_OBJECTS), 102.4, 0.1);
    assert_false(hw_diff_is_significant(&d, small, HW_METRIC_SPACE));
    assert_false(hw_diff_is_significant(&d, small, HW_METRIC_OBJECTS));
    assert_true(hw_diff_is_significant(&d, large, HW_METRIC_SPACE));
    assert_true(hw_diff_is_significant(&d, large, HW_METRIC_OBJECTS));
    hw_diff_scale(&d, 2, 3);
    assert_near(hw_diff_error(&d, small, HW_METRIC_SPACE), 3 * 12288, 0.1);
    hw_diff_done(&d);
    assert_int_equal(hw_diff_make(&b, &a, 0, &d), 0); /* the other way */
    small = &row_of(&d, "small")->self;
    assert_near(hw_diff_error(&d, small, HW_METRIC_SPACE), 12288, 0.1);
    hw_diff_done(&d);
    unload(&l[0], true);
    unload(&l[1], true);
}

static void filtered_and_scaled(void **state)
{
    (void)state;
    const double n2 = 4096.0 * 4096;
    struct hw_profile *p;
    struct loaded a, b;
    hw_filters filters = {0};
    struct hw_filter_matches matches;
    assert_int_equal(hw_profile_new(&p), 0);
    uint32_t first = fill_dump(p, 5, "libc.malloc", 1, 4096, 0);
    uint32_t second = fill_dump(p, 5, "libc.malloc", 2, 4096, 0);
    add(p, first, "main;stay;malloc@/lib/libc.so", 100, 100 * 4096, 100 * n2);
    add(p, first, "main;other;malloc@/lib/libc.so", 300, 300 * 4096, 300 * n2);
    add(p, second, "main;stay;malloc@/lib/libc.so", 100, 100 * 4096, 200 * n2);
    load(&a, p, 1);
    load(&b, p, 2);
    struct hw_diff_side sa = side_of(&a, 4096), sb = side_of(&b, 4096);
    struct hw_diff d;
    assert_int_equal(hw_filters_add(&filters, "SS:stay", NULL), 0);
    assert_int_equal(hw_filter_match(&filters, p->callsites, a.fns, NULL, NULL, &matches), 0);
    sa.filters = sb.filters = &matches;
    assert_int_equal(hw_diff_make(&sa, &sb, HW_DIFF_SAME_RUN, &d), 0);
    assert_int_equal(d.nodes.v[0].total.a.space, 100 * 4096);
    assert_int_equal(d.nodes.v[0].total.b.space, 200 * 4096);
    assert_near(hw_diff_error(&d, &d.nodes.v[0].total, HW_METRIC_SPACE), 2 * sqrt(100 * n2), 1);
    hw_diff_done(&d);
    hw_filter_matches_done(&matches);
    hw_filters_done(&filters);

    sa.filters = sb.filters = NULL;
    assert_int_equal(hw_diff_make(&sa, &sb, HW_DIFF_SAME_RUN, &d), 0);
    hw_diff_scale(&d, 1.0 / (400 * 4096), 1.0 / (500 * 4096)); /* shares: 25 % to 40 % */
    const struct hw_diff_row *r = row_of(&d, "stay");
    assert_near(hw_diff_side_a(&d, &r->self, HW_METRIC_SPACE), 0.25, 1e-9);
    assert_near(hw_diff_change(&d, &r->self, HW_METRIC_SPACE), 0.15, 1e-9);
    assert_near(hw_diff_error(&d, &r->self, HW_METRIC_SPACE),
                2 * hypot(10.0 / 400, sqrt(200) / 500), 1e-6);
    hw_diff_scale(&d, 0.5, 0.5); /* equal factors: what stayed has no error still */
    assert_near(hw_diff_error(&d, &r->self, HW_METRIC_SPACE), sqrt(100 * n2), 1);
    hw_diff_done(&d);
    unload(&a, false);
    unload(&b, true);
}

/* Random samples of two programs that do the same: a change is called significant in about one of
 * twenty rows, not more. */
static void false_alarms(void **state)
{
    (void)state;
    enum { RUNS = 400 };
    int alarms = 0;
    srand(5);
    for (int i = 0; i < RUNS; i++) {
        struct hw_profile *p[2];
        struct loaded l[2];
        for (int k = 0; k < 2; k++) {
            int n = 0; /* 64 KiB in blocks of 64 bytes, sampled at 4 KiB: 1024 chances of 1/64 */
            for (int j = 0; j < 4096; j++)
                n += rand() % 64 == 0;
            assert_int_equal(hw_profile_new(&p[k]), 0);
            add(p[k], fill_dump(p[k], 5, "h", 1, 4096, 0), "main;work", n, n * 4096,
                n * 4096.0 * 4096);
            load(&l[k], p[k], 1);
        }
        struct hw_diff_side a = side_of(&l[0], 4096), b = side_of(&l[1], 4096);
        struct hw_diff d;
        assert_int_equal(hw_diff_make(&a, &b, 0, &d), 0);
        alarms += hw_diff_is_significant(&d, &row_of(&d, "work")->self, HW_METRIC_SPACE);
        hw_diff_done(&d);
        unload(&l[0], true);
        unload(&l[1], true);
    }
    assert_in_range(alarms, RUNS * 2 / 100, RUNS * 8 / 100); /* 4.6 % */
}

static void stems(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"/usr/lib/libfoo.so.1.2", "libfoo.so"},
        {"libfoo.so", "libfoo.so"},
        {"/lib/libc-2.36.so", "libc"},
        {"/bin/app", "app"},
        {"", ""},
        {"/opt/x.solib", "x.solib"},
        {"libpython3.11.so.1.0", "libpython3.11.so"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hw_bytes b = hw_module_stem(hw_bytes_str(cases[i][0]));
        char text[64];
        snprintf(text, sizeof text, "%.*s", (int)b.n, (const char *)b.p);
        assert_string_equal(text, cases[i][1]);
    }
}

/* Frames without a name are the same only in the same file. */
static void frames_without_names(void **state)
{
    (void)state;
    struct hw_profile *p[2];
    struct loaded l[2];
    for (int k = 0; k < 2; k++) {
        assert_int_equal(hw_profile_new(&p[k]), 0);
        uint32_t dump = fill_dump(p[k], 5, "h", 1, 1, 0);
        fill_row(p[k], dump, "@0x10@/lib/libsame.so", 1, 100);
        fill_row(p[k], dump, k ? "@0x20@/a/libother.so" : "@0x20@/aaaa/libother.so", 1, 100);
        load(&l[k], p[k], 1);
    }
    struct hw_diff_side a = side_of(&l[0], 1), b = side_of(&l[1], 1);
    struct hw_diff d;
    assert_int_equal(hw_diff_make(&a, &b, 0, &d), 0);
    assert_int_equal(d.functions.n, 3); /* fill.h makes a build id of the path's length */
    hw_diff_done(&d);
    unload(&l[0], true);
    unload(&l[1], true);
}

HW_TEST_MAIN(cmocka_unit_test(two_files_as_their_twin), cmocka_unit_test(what_stayed_has_no_error),
             cmocka_unit_test(unseen_is_not_gone), cmocka_unit_test(filtered_and_scaled),
             cmocka_unit_test(false_alarms), cmocka_unit_test(stems),
             cmocka_unit_test(frames_without_names))

#include "test.h"

#include "base/error.h"
#include "views/fill.h"
#include "views/findings/leaks.h"

enum { N_DUMPS = 12 };

struct shape {
    const char *stack;
    int64_t came[N_DUMPS], went[N_DUMPS]; /* units of 100 bytes between two dumps */
    enum hw_leak_verdict want;
    const char *path; /* of its row */
};

static const struct shape shapes[] = {
    {"main;serve;handle;remember;malloc@/lib/libc.so",
     {5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5},
     {0},
     HW_LEAK_LIKELY,
     "main;serve;handle;remember"},
    {"main;serve;cache_put;malloc@/lib/libc.so",
     {9, 9, 9, 9, 9, 2, 1, 0, 0, 0, 0, 0},
     {0},
     HW_LEAK_CACHE_LIKE,
     "main;serve;cache_put"},
    {"main;load;table;malloc@/lib/libc.so", {90}, {0}, HW_LEAK_START_UP, "main;load;table"},
    {"main;serve;handle;parse;malloc@/lib/libc.so",
     {900, 900, 900, 900, 900, 900, 900, 900, 900, 900, 900, 900},
     {850, 900, 900, 900, 900, 900, 900, 900, 900, 900, 900, 900},
     HW_LEAK_CHURN,
     "main;serve;handle;parse"},
    {"main;grow_half;malloc@/lib/libc.so",
     {9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9},
     {0, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4},
     HW_LEAK_GROWING,
     "main;grow_half"},
    {"main;wobble;malloc@/lib/libc.so",
     {90, 9, 50, 9, 40, 9, 50, 9, 40, 9, 50, 9},
     {0, 30, 20, 40, 15, 38, 20, 41, 12, 33, 20, 45},
     HW_LEAK_NO_TREND,
     "main;wobble"},
};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

static struct hw_profile *fill(uint64_t interval, int n_dumps, int shapes_from)
{
    struct hw_profile *p;
    assert_int_equal(hw_profile_new(&p), 0);
    for (int d = 0; d < n_dumps; d++) {
        uint32_t dump = fill_dump(p, 7, "libc.malloc", (d + 1) * 1000000000ll, interval, 0);
        for (int i = shapes_from; i < N_SHAPES; i++) {
            if (shapes[i].came[d])
                fill_row(p, dump, shapes[i].stack, shapes[i].came[d], shapes[i].came[d] * 100);
            if (shapes[i].went[d])
                fill_row(p, dump, shapes[i].stack, -shapes[i].went[d], -shapes[i].went[d] * 100);
        }
    }
    assert_int_equal(hw_profile_freeze(p), 0);
    return p;
}

struct asked {
    struct hw_profile *p;
    struct hw_series_list list;
    struct hw_process_view view;
    struct hw_functions *fns;
    struct hw_leaks leaks;
};

static void ask(struct asked *a, struct hw_profile *p, const struct hw_suppressions *known)
{
    a->p = p;
    assert_int_equal(hw_series_list_init(&a->list, p), 0);
    assert_int_equal(hw_process_view_init(&a->view, p, &a->list, (hw_upid){0}), 0);
    assert_int_equal(hw_functions_new(p->callsites, NULL, &a->fns), 0);
    struct hw_leaks_query q = {
        .p = p, .list = &a->list, .view = &a->view, .fns = a->fns, .suppressions = known};
    assert_int_equal(hw_leaks_find(&q, &a->leaks), 0);
}

static void asked_done(struct asked *a)
{
    hw_leaks_done(&a->leaks);
    hw_functions_free(a->fns);
    hw_process_view_done(&a->view);
    hw_series_list_done(&a->list);
    hw_profile_free(a->p);
}

/* Functions from the root to the row's node. */
static void leak_path(const struct hw_leaks *l, const struct hw_leak *row, uint32_t *path)
{
    const struct hw_flame_node *n = &l->tree.v.v[row->node];
    for (uint32_t d = n->depth; d > 0; d--) {
        path[d - 1] = n->function;
        n = &l->tree.v.v[n->parent];
    }
}

static void path_text(const struct asked *a, const struct hw_leak *row, char *out, size_t size)
{
    uint32_t path[64];
    leak_path(&a->leaks, row, path);
    out[0] = 0;
    for (uint32_t d = 0; d < a->leaks.tree.v.v[row->node].depth; d++) {
        size_t at = strlen(out);
        snprintf(out + at, size - at, "%s%s", d ? ";" : "",
                 hw_strings_cstr(hw_callsites_strings(a->p->callsites),
                                 hw_functions_get(a->fns, path[d])->name));
    }
}

static const struct hw_leak *row_of(const struct asked *a, const char *path)
{
    char text[256];
    for (size_t i = 0; i < a->leaks.v.n; i++) {
        path_text(a, &a->leaks.v.v[i], text, sizeof text);
        if (strcmp(text, path) == 0)
            return &a->leaks.v.v[i];
    }
    fail_msg("no row %s", path);
    return NULL;
}

static void each_shape_its_verdict(void **state)
{
    (void)state;
    struct asked a;
    ask(&a, fill(1, N_DUMPS, 0), NULL);
    double sum = 0;
    for (int i = 0; i < N_SHAPES; i++) {
        const struct hw_leak *r = row_of(&a, shapes[i].path);
        assert_string_equal(hw_leak_verdict_name(r->verdict), hw_leak_verdict_name(shapes[i].want));
        int64_t live = 0, came = 0, went = 0, old = 0;
        for (int d = 0; d < N_DUMPS; d++) {
            live += shapes[i].came[d] - shapes[i].went[d];
            came += shapes[i].came[d];
            went += shapes[i].went[d];
            old += d <= 7 ? shapes[i].came[d] : 0; /* two thirds of 11 s: the first 8 dumps */
            assert_near(a.leaks.history[(size_t)(r - a.leaks.v.v) * a.leaks.t.n + (size_t)d],
                        (double)live * 100, 0.01);
        }
        assert_near(r->grown, (double)(live - shapes[i].came[0] + shapes[i].went[0]) * 100, 0.01);
        assert_near(r->freed_ratio, (double)went / (double)came, 1e-9);
        assert_true(r->survival >= 0 && r->survival <= r->survival_most);
        if (went == 0) {
            assert_near(r->survival, 1, 1e-9);
        }
        assert_true(old > 0);
        sum += (double)r->now.space;
    }
    assert_near(sum, (double)a.leaks.total.space, 0.01); /* disjoint, and all there is */
    assert_int_equal(a.leaks.v.v[0].verdict, HW_LEAK_LIKELY);
    assert_near(a.leaks.v.v[0].trend.slope, 500, 1e-6);
    assert_near(hw_leaks_likely(&a.leaks), 5500, 0.01);
    assert_int_equal(a.leaks.v.v[0].n_rises, N_DUMPS - 1);
    asked_done(&a);
}

static void too_little(void **state)
{
    (void)state;
    struct asked a;
    ask(&a, fill(1, 3, 0), NULL);
    for (size_t i = 0; i < a.leaks.v.n; i++)
        assert_int_equal(a.leaks.v.v[i].verdict, HW_LEAK_TOO_LITTLE);
    asked_done(&a);

    struct hw_profile *p; /* at 64 KiB, nine samples of 100 bytes are nothing to judge by */
    assert_int_equal(hw_profile_new(&p), 0);
    for (int d = 0; d < 9; d++)
        fill_row(p, fill_dump(p, 7, "libc.malloc", (d + 1) * 1000000000ll, 65536, 0),
                 "main;few;malloc", 1, 65536);
    assert_int_equal(hw_profile_freeze(p), 0);
    ask(&a, p, NULL);
    for (size_t i = 0; i < a.leaks.v.n; i++)
        assert_int_not_equal(a.leaks.v.v[i].verdict, HW_LEAK_LIKELY);
    asked_done(&a);

    assert_int_equal(hw_profile_new(&p), 0); /* a process that never asked for anything */
    (void)fill_dump(p, 7, "libc.malloc", 1, 1, 0);
    assert_int_equal(hw_profile_freeze(p), 0);
    ask(&a, p, NULL);
    assert_int_equal(a.leaks.v.n, 0);
    asked_done(&a);
}

/* The heaps of one end are dumped one after another: only the shown one's dump is a dump. */
static void dumps_of_other_heaps_are_none(void **state)
{
    (void)state;
    struct asked a;
    struct hw_profile *p;
    assert_int_equal(hw_profile_new(&p), 0);
    fill_row(p, fill_dump(p, 7, "libc.malloc", 1000000000ll, 1, 0), "main;keep;malloc", 1, 100);
    fill_row(p, fill_dump(p, 7, "mmap.anon", 1012000000ll, 1, 0), "main;map;mmap", 1, 4096);
    assert_int_equal(hw_profile_freeze(p), 0);
    ask(&a, p, NULL);
    assert_int_equal(a.view.n_dumps, 1);
    assert_int_equal(a.leaks.t.n, 1);
    asked_done(&a);
}

/* Two ways to one function that leaks are two rows: their prefixes differ. What is too small for a
 * row of its own stays with the function above. */
static void prefixes(void **state)
{
    (void)state;
    struct hw_profile *p;
    struct asked a;
    assert_int_equal(hw_profile_new(&p), 0);
    for (int d = 0; d < 6; d++) {
        uint32_t dump = fill_dump(p, 7, "libc.malloc", (d + 1) * 1000000000ll, 1, 0);
        fill_row(p, dump, "main;a;node;malloc@/lib/libc.so", 50, 5000);
        fill_row(p, dump, "main;b;node;malloc@/lib/libc.so", 20, 2000);
        for (int k = 0; k < 20; k++) {
            char stack[64];
            snprintf(stack, sizeof stack, "main;many;leaf%d;malloc@/lib/libc.so", k);
            fill_row(p, dump, stack, 1, 100);
        }
    }
    assert_int_equal(hw_profile_freeze(p), 0);
    ask(&a, p, NULL);
    assert_int_equal(a.leaks.v.n, 3);
    assert_int_equal(row_of(&a, "main;a;node")->now.space, 30000);
    assert_int_equal(row_of(&a, "main;b;node")->now.space, 12000);
    assert_int_equal(row_of(&a, "main;many")->now.space, 12000);
    asked_done(&a);
}

/* No row is the interpreter's own function between those that it runs. */
static void interpreters(void **state)
{
    (void)state;
    static const char own[] = "_PyObject_FastCallDictTstate";
    struct hw_profile *p;
    struct asked a;
    char text[256], stack[256];
    assert_int_equal(hw_profile_new(&p), 0);
    for (int d = 0; d < 6; d++) {
        uint32_t dump = fill_dump(p, 7, "libc.malloc", (d + 1) * 1000000000ll, 1, 0);
        for (int k = 0; k < 21; k++) {
            snprintf(
                stack, sizeof stack,
                "main;make@/[python];%s@/usr/bin/python3.11;leaf%d@/[python];malloc@/lib/libc.so",
                own, k);
            fill_row(p, dump, stack, k ? 1 : 30, k ? 100 : 3000);
        }
    }
    assert_int_equal(hw_profile_freeze(p), 0);
    ask(&a, p, NULL);
    assert_int_equal(a.leaks.v.n, 2);
    snprintf(text, sizeof text, "main;make;%s;leaf0", own);
    assert_int_equal(row_of(&a, text)->now.space, 18000);
    assert_int_equal(row_of(&a, "main;make")->now.space, 12000);
    asked_done(&a);
}

static void known_ones(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *name;
        bool match;
    } cases[] = {
        {"foo", "a_foo_b", true},        {"^foo", "a_foo", false},
        {"^foo", "foo_b", true},         {"foo$", "a_foo", true},
        {"foo$", "foo_b", false},        {"^foo$", "foo", true},
        {"^foo$", "fooo", false},        {"a*c", "xabbbcx", true},
        {"a*c*e", "aedc", false},        {"*", "", true},
        {"a*c$", "abcbc", true},         {"^a*$", "abc", true},
        {"std::*map", "std::map", true},
    };
    struct hw_suppressions s;
    struct hw_error err;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char line[64];
        snprintf(line, sizeof line, "# known\n  leak:%s \r\n", cases[i].pattern);
        assert_int_equal(hw_suppressions_read(hw_bytes_str(line), &s, &err), 0);
        if (hw_suppressions_match(&s, cases[i].name) != cases[i].match)
            fail_msg("%s on %s", cases[i].pattern, cases[i].name);
        hw_suppressions_done(&s);
    }
    assert_int_equal(hw_suppressions_read(hw_bytes_str("leak:a\nrace:b\n"), &s, &err), HW_EFORMAT);
    assert_non_null(strstr(err.text, "line 2"));

    struct asked a;
    assert_int_equal(hw_suppressions_read(hw_bytes_str("leak:^remember$\n"), &s, &err), 0);
    ask(&a, fill(1, N_DUMPS, 0), &s);
    assert_int_equal(a.leaks.n_suppressed, 1);
    assert_int_equal(a.leaks.suppressed_space, 6000);
    assert_int_not_equal(a.leaks.v.v[0].verdict, HW_LEAK_LIKELY);
    assert_near(hw_leaks_likely(&a.leaks), 0, 0.01);
    hw_suppressions_done(&s);
    asked_done(&a);
}

HW_TEST_MAIN(cmocka_unit_test(each_shape_its_verdict), cmocka_unit_test(too_little),
             cmocka_unit_test(dumps_of_other_heaps_are_none), cmocka_unit_test(prefixes),
             cmocka_unit_test(interpreters), cmocka_unit_test(known_ones))

/* Series, tallies, functions, sites and trees against a twin that only adds numbers up. */
#include <math.h>

#include "test.h"

#include "views/fill.h"
#include "views/findings/losses.h"
#include "views/findings/sites.h"
#include "views/flame/flame.h"
#include "views/flame/functions.h"
#include "views/time/process_view.h"
#include "views/time/series.h"
#include "views/time/values.h"

/* ---- by hand ---- */

static struct hw_profile *two_dumps(void)
{
    struct hw_profile *p;
    assert_int_equal(hw_profile_new(&p), 0);
    uint32_t a = fill_dump(p, 42, "libc.malloc", 1000, 1, 0);
    fill_row(p, a, "main;load;malloc", 2, 200);
    fill_row(p, a, "main;run;xmalloc;malloc", 1, 50);
    fill_row(p, a, "main;run;xmalloc;malloc", -1, -50);
    uint32_t c = fill_dump(p, 42, "libc.malloc", 2000, 1, HW_DUMP_CHECKPOINT);
    fill_row(p, c, "main;run;xmalloc;malloc", 3, 30);
    uint32_t b = fill_dump(p, 42, "libc.malloc", 3000, 1, 0);
    fill_row(p, b, "main;load;malloc", -1, -100);
    fill_row(p, b, "main;run;xmalloc;malloc", 1, 10);
    uint32_t m = fill_dump(p, 42, "libc.malloc", 2500, 1, HW_DUMP_AT_MAX);
    fill_row(p, m, "main;load;malloc", 9, 900);
    assert_int_equal(hw_profile_freeze(p), 0);
    return p;
}

static void checkpoints_count_but_are_not_shown(void **state)
{
    (void)state;
    struct hw_profile *p = two_dumps();
    struct hw_series_list list;
    assert_int_equal(hw_series_list_init(&list, p), 0);
    assert_int_equal(list.v.n, 1);
    const struct hw_series *s = &list.v.v[0];
    assert_int_equal(s->all.n, 3);
    assert_int_equal(s->shown.n, 2);
    assert_int_equal(s->peaks.n, 1);
    hw_values v = {0};
    assert_int_equal(hw_values_at(p, s, s->shown.v[1], &v), 0);
    assert_int_equal(v.n, 2);
    assert_int_equal(v.v[0].v.space, 100);
    assert_int_equal(v.v[0].v.alloc_space, 200);
    assert_int_equal(v.v[0].v.objects, 1);
    assert_int_equal(v.v[1].v.space, 40);
    assert_int_equal(v.v[1].v.alloc_space, 90);
    assert_int_equal(v.v[1].v.alloc_objects, 5);
    assert_int_equal(hw_values_at(p, s, s->peaks.v[0], &v), 0);
    assert_int_equal(v.n, 1);
    assert_int_equal(v.v[0].v.space, 900);
    struct hw_process_view pv;
    assert_int_equal(hw_process_view_init(&pv, p, &list, s->upid), 0);
    assert_int_equal(pv.moments.n, 2);
    assert_int_equal(pv.n_dumps, 3);
    const struct hw_process_moment *peak = hw_process_view_peak(&pv);
    assert_non_null(peak);
    assert_true(peak->at_max);
    assert_int_equal(peak->total.space, 900);
    hw_process_view_done(&pv);
    hw_vec_done(&v);
    hw_series_list_done(&list);
    hw_profile_free(p);
}

static void sites_name_the_code_that_asked(void **state)
{
    (void)state;
    static const struct {
        const char *stack, *site;
    } cases[] = {
        {"main;load;malloc@/lib/libc.so.6", "load"},
        {"main;run;xmalloc;malloc@/lib/libc.so.6", "run"},
        {"main;add;_ZNSt6vectorIiSaIiEE9push_backERKi;_Znwm@/lib/libstdc++.so.6;malloc", "add"},
        {"main;hook@/opt/libheapprofd_glibc_preload.so", "main"},
        {"malloc", "malloc"},
        {"_ZNSt6thread3runEv;_Znwm", "_ZNSt6thread3runEv"},
        {"main;malloc_heavy_work;malloc", "malloc_heavy_work"},
        {"main;sqlite3Prepare;sqlite3DbMallocRawNN;sqlite3Malloc;sqlite3MemMalloc;malloc",
         "sqlite3Prepare"},
        {"main;run;leaky_malloc;malloc", "leaky_malloc"}, /* somebody's own */
        {"main;run;my_wrapper_1;malloc", "run"},          /* told to be one */
        {"main;run;fopen@/lib/libc.so.6;@0x38895@/lib/libc.so.6;malloc", "run"},
        {"@0x10@/lib64/ld-linux-x86-64.so.2;@0x20@/lib64/ld-linux-x86-64.so.2;malloc", ""},
        {"main;os_init;_ZN2os6mallocEm8MEMFLAGS@/jre/libjvm.so;malloc", "os_init"},
        {"main;_ZN2os6mallocEm8MEMFLAGS@/app/os;malloc", "_ZN2os6mallocEm8MEMFLAGS"},
        {"main;list_new;_PyObject_GC_New;_PyMem_RawMalloc;malloc", "list_new"},
        {"main;jv_string;jv_mem_alloc;malloc", "jv_string"},
        {"main;make;_ZN4Pool4NodenwEm;malloc", "make"},
        {"main;grow;bn_realloc.part.0;malloc", "bn_realloc.part.0"},
        {"main;grow;sqlite3Realloc.part.0;malloc", "grow"},
        {"main;_ZN4core4loadEv;malloc", "_ZN4core4loadEv"}, /* C++, not Rust's core */
        {"main;parse;_ZN5alloc7raw_vec11finish_grow17h0123456789abcdefE;__rust_alloc", "parse"},
        {"main;listAdd;zrealloc_usable;realloc", "listAdd"},
        /* below a managed function the runtime's own code did not ask */
        {"main;App.run@/[java] app.jar;java.nio.Bits.reserve@/[java] java.base;"
         "Unsafe_AllocateMemory0@/jre/libjvm.so;malloc",
         "App.run"},
        {"main;App.zip@/[java] "
         "app.jar;Java_Deflater_init@/jre/libzip.so;deflateInit2_@/lib/libz.so;"
         "malloc",
         "deflateInit2_"}, /* somebody's library: it is what asked */
        {"main@/usr/bin/python3.11;_PyEval_EvalFrame@/usr/bin/python3.11;leak@/[python];"
         "PyByteArray_Resize@/usr/bin/python3.11;malloc",
         "leak"},
        {"main@/usr/bin/python3.11;new_interp@/usr/bin/python3.11;malloc", "new_interp"},
        {"main;App.run@/[java] app.jar;[java unwind failed: "
         "-3]@/[java];os_grow@/jre/libjvm.so;malloc",
         "App.run"},
        /* an object's class, and what only looks like one */
        {"App.run@/[java] app.jar;byte[]@/[java]", "App.run"},
        {"App.run@/[java] app.jar;java.util.Map.put@/[java] java.base;java.util.Node@/[java]",
         "App.run"},
        {"java.lang.Thread.run@/[java] java.base;char[]@/[java]", "java.lang.Thread.run"},
        {"App.run@/[java] app.jar;Hidden.run@/[java];malloc", "Hidden.run"},
        {"App.run@/[java] app.jar;[java unwind failed: -3]@/[java]", "App.run"},
        {"main;@0x44;malloc", ""},
    };
    struct hw_profile *p;
    assert_int_equal(hw_profile_new(&p), 0);
    hw_callsite_id c[HW_ARRAY_LEN(cases)];
    for (size_t i = 0; i < HW_ARRAY_LEN(cases); i++)
        c[i] = fill_stack(p, cases[i].stack);
    assert_int_equal(hw_profile_freeze(p), 0);
    struct hw_functions *f;
    static const char *const told[] = {"my_wrapper_*"};
    struct hw_wrappers wrappers = {told, HW_ARRAY_LEN(told)};
    assert_int_equal(hw_functions_new(p->callsites, &wrappers, &f), 0);
    for (size_t i = 0; i < HW_ARRAY_LEN(cases); i++) {
        const struct hw_function *fn = hw_functions_get(f, hw_functions_site(f, c[i]));
        assert_string_equal(hw_strings_cstr(hw_callsites_strings(p->callsites), fn->name),
                            cases[i].site);
    }
    struct hw_strbuf label = {0};
    hw_function_label(&label, p->callsites,
                      hw_functions_get(f, hw_functions_site(f, c[HW_ARRAY_LEN(cases) - 1])), NULL);
    assert_string_equal(label.p, "app+0x44");
    hw_strbuf_done(&label);
    hw_functions_free(f);
    hw_profile_free(p);
}

static void fill_temporary(struct hw_profile *p, int64_t space, int64_t objects, float variance)
{
    size_t i = p->allocs.n - 1;
    struct hw_alloc_row r = hw_alloc_row_get(&p->allocs, i);
    r.temporary_space = space;
    r.temporary_objects = objects;
    r.variance_temporary_space = variance;
    r.variance_temporary_objects = variance / 100;
    if (hw_alloc_rows_set(&p->allocs, i, &r) < 0)
        abort();
}

/* Changes add up, variances are those of all until then, and a dump without makes them unknown, not 0. */
static void temporary_adds_up(void **state)
{
    (void)state;
    struct hw_profile *p;
    struct hw_series_list list;
    struct hw_sum *sum;
    const uint32_t knows = HW_DUMP_KNOWS_TEMPORARY | HW_DUMP_KNOWS_VARIANCE | HW_DUMP_ALL_VARIANCES;
    assert_int_equal(hw_profile_new(&p), 0);
    uint32_t a = fill_dump(p, 42, "libc.malloc", 1000, 4096, 0);
    fill_row(p, a, "main;load;malloc", 1, 4096);
    uint32_t b = fill_dump(p, 42, "libc.malloc", 2000, 4096, knows);
    fill_row(p, b, "main;load;malloc", 5, 20480);
    fill_row(p, b, "main;load;malloc", -3, -12288);
    fill_temporary(p, 8192, 80, 400);
    fill_row(p, b, "main;run;malloc", 1, 5000);
    uint32_t c = fill_dump(p, 42, "libc.malloc", 3000, 4096, knows);
    fill_row(p, c, "main;load;malloc", -1, -4096);
    fill_temporary(p, 4096, 40, 900);
    assert_int_equal(hw_profile_freeze(p), 0);
    assert_int_equal(hw_series_list_init(&list, p), 0);
    assert_int_equal(hw_sum_new(p, &list.v.v[0], &sum), 0);
    hw_sum_keep_marks(sum, 1 << 20);
    const struct {
        uint32_t dump;
        int64_t space, objects;
        double variance;
        bool known;
    } at[] = {{a, 0, 0, 0, false},      {b, 8192, 80, 400, true}, {c, 12288, 120, 900, true},
              {b, 8192, 80, 400, true}, {a, 0, 0, 0, false},      {c, 12288, 120, 900, true}};
    for (size_t i = 0; i < HW_ARRAY_LEN(at); i++) {
        assert_int_equal(hw_sum_seek(sum, at[i].dump), 0);
        struct hw_value v = hw_sum_total(sum);
        assert_int_equal(hw_value_get(&v, HW_METRIC_TEMPORARY_SPACE), at[i].space);
        assert_int_equal(hw_value_get(&v, HW_METRIC_TEMPORARY_OBJECTS), at[i].objects);
        assert_int_equal(hw_value_metrics(&v), at[i].known ? HW_METRIC_COUNT : HW_METRIC_USUAL);
        assert_true(hw_value_error(&v, HW_METRIC_TEMPORARY_SPACE, 4096) ==
                    2 * sqrt(at[i].variance));
        assert_true(fabs(hw_value_error(&v, HW_METRIC_TEMPORARY_OBJECTS, 4096) -
                         2 * sqrt(at[i].variance / 100)) < 1e-6);
    }
    struct hw_value now = hw_sum_total(sum), before;
    assert_int_equal(hw_sum_seek(sum, b), 0);
    before = hw_sum_total(sum);
    hw_value_since(&now, &before);
    assert_int_equal(now.temporary_space, 4096);
    assert_int_equal(now.temporary_objects, 40);
    assert_true(now.variance_temporary_space == 500);
    assert_true(hw_value_samples(&before, HW_METRIC_TEMPORARY_SPACE) ==
                80); /* of the least variance */
    enum hw_metric m;
    assert_true(hw_metric_find("temporary", &m) && m == HW_METRIC_TEMPORARY_SPACE);
    assert_true(hw_metric_find("temporary_objects", &m) && m == HW_METRIC_TEMPORARY_OBJECTS);
    hw_sum_free(sum);
    hw_series_list_done(&list);
    hw_profile_free(p);
}

static void variance_is_given_or_estimated(void **state)
{
    (void)state;
    struct hw_profile *p;
    assert_int_equal(hw_profile_new(&p), 0);
    uint32_t a = fill_dump(p, 1, "libc.malloc", 10, 100, 0);
    fill_row(p, a, "main;a;malloc", 4, 400);
    uint32_t b = fill_dump(p, 2, "libc.malloc", 10, 100, 0);
    fill_row(p, b, "main;a;malloc", 4, 400);
    fill_variance(p, 1, 123);
    fill_row(p, b, "main;big;malloc", 1, 4000);
    assert_int_equal(hw_profile_freeze(p), 0);
    struct hw_series_list list;
    assert_int_equal(hw_series_list_init(&list, p), 0);
    hw_values v = {0};
    assert_int_equal(hw_values_at(p, &list.v.v[0], 0, &v), 0);
    assert_true(v.v[0].v.variance == 100.0 * 100 * 4);
    assert_int_equal(hw_values_at(p, &list.v.v[1], 1, &v), 0);
    assert_true(v.v[0].v.variance == 123);
    assert_true(v.v[1].v.variance == 0);
    hw_vec_done(&v);
    hw_series_list_done(&list);
    hw_profile_free(p);
}

/* ---- a random profile against brute force ---- */

enum { N_NAMES = 9, N_STACKS = 60, N_DUMPS = 7, MAX_DEPTH = 7 };

struct twin {
    int depth[N_STACKS], name[N_STACKS][MAX_DEPTH];
    int64_t space[N_STACKS], alloc_space[N_STACKS];
};

static uint64_t seed;

static unsigned rnd(unsigned below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % below;
}

static void stack_text(const struct twin *t, int i, char *out, size_t size)
{
    size_t n = 0;
    for (int d = 0; d < t->depth[i]; d++)
        n += (size_t)snprintf(out + n, size - n, "%sf%d", d ? ";" : "", t->name[i][d]);
}

static struct hw_profile *random_profile(struct twin *t)
{
    struct hw_profile *p;
    assert_int_equal(hw_profile_new(&p), 0);
    memset(t, 0, sizeof *t);
    for (int i = 0; i < N_STACKS; i++) {
        t->depth[i] = 1 + (int)rnd(MAX_DEPTH);
        for (int d = 0; d < t->depth[i]; d++)
            t->name[i][d] = (int)rnd(N_NAMES);
    }
    for (int k = 0; k < N_DUMPS; k++) {
        uint32_t d = fill_dump(p, 7, "libc.malloc", 100 * (k + 1), 1, 0);
        for (int r = 0; r < 100; r++) {
            int i = (int)rnd(N_STACKS);
            int64_t size = 1 + rnd(1000);
            char text[256];
            stack_text(t, i, text, sizeof text);
            if (rnd(3) == 0 && t->space[i] > 0) {
                size = t->space[i] / 2 + 1;
                fill_row(p, d, text, -1, -size);
                t->space[i] -= size;
            } else {
                fill_row(p, d, text, 1, size);
                t->space[i] += size;
                t->alloc_space[i] += size;
            }
        }
    }
    assert_int_equal(hw_profile_freeze(p), 0);
    return p;
}

static int function_number(const struct hw_profile *p, const struct hw_functions *f, uint32_t fn)
{
    const char *s =
        hw_strings_cstr(hw_callsites_strings(p->callsites), hw_functions_get(f, fn)->name);
    return (int)strtol(s + 1, NULL, 10);
}

/* Does stack i begin (or, inverted, end) with the node's path? */
static bool on_path(const struct hw_profile *p, const struct hw_functions *f,
                    const struct hw_flame *tree, uint32_t node, const struct twin *t, int i,
                    bool inverted)
{
    int depth = (int)tree->v.v[node].depth;
    if (depth > t->depth[i])
        return false;
    for (; node != 0; node = tree->v.v[node].parent) {
        int d = (int)tree->v.v[node].depth - 1;
        int want = t->name[i][inverted ? t->depth[i] - 1 - d : d];
        if (function_number(p, f, tree->v.v[node].function) != want)
            return false;
    }
    return true;
}

static void check_tree(const struct hw_profile *p, const struct hw_functions *f,
                       const hw_values *values, const struct twin *t, bool inverted)
{
    struct hw_flame tree;
    assert_int_equal(
        hw_flame_build(p->callsites, f, values, inverted ? HW_FLAME_INVERTED : 0, &tree), 0);
    assert_int_equal(hw_flame_sort(&tree, HW_METRIC_SPACE), 0);
    for (uint32_t n = 0; n < tree.v.n; n++) {
        int64_t total = 0, alloc = 0, self = 0;
        for (int i = 0; i < N_STACKS; i++) {
            if (!on_path(p, f, &tree, n, t, i, inverted))
                continue;
            total += t->space[i];
            alloc += t->alloc_space[i];
            if (t->depth[i] == (int)tree.v.v[n].depth)
                self += t->space[i];
        }
        assert_int_equal(hw_flame_total(&tree, n)->space, total);
        assert_int_equal(hw_flame_total(&tree, n)->alloc_space, alloc);
        assert_int_equal(hw_flame_self(&tree, n)->space, self);
        int64_t last = INT64_MAX;
        for (uint32_t c = tree.v.v[n].first_child; c != HW_ID_NONE; c = tree.v.v[c].next_sibling) {
            assert_true(hw_flame_total(&tree, c)->space <= last);
            last = hw_flame_total(&tree, c)->space;
        }
    }
    hw_flame_done(&tree);
}

static void check_functions(const struct hw_profile *p, const struct hw_functions *f,
                            const hw_values *values, const struct twin *t)
{
    struct hw_flame tree;
    hw_function_values fv = {0};
    assert_int_equal(hw_flame_build(p->callsites, f, values, 0, &tree), 0);
    assert_int_equal(hw_flame_by_function(&tree, hw_functions_count(f), &fv), 0);
    assert_int_equal(fv.n, hw_functions_count(f));
    for (uint32_t k = 0; k < fv.n; k++) {
        int number = function_number(p, f, k);
        int64_t self = 0, total = 0;
        for (int i = 0; i < N_STACKS; i++) {
            bool seen = false;
            for (int d = 0; d < t->depth[i]; d++)
                seen |= t->name[i][d] == number;
            total += seen ? t->space[i] : 0;
            self += t->name[i][t->depth[i] - 1] == number ? t->space[i] : 0;
        }
        assert_int_equal(fv.v[k].self.space, self);
        assert_int_equal(fv.v[k].total.space, total);
    }
    hw_vec_done(&fv);
    hw_flame_done(&tree);
}

static void check_sites(const struct hw_profile *p, const struct hw_functions *f,
                        const struct hw_series_list *list, const hw_values *values)
{
    hw_sites s;
    struct hw_process_view v;
    assert_int_equal(hw_process_view_init(&v, p, list, list->v.v[0].upid), 0);
    assert_int_equal(v.moments.n, N_DUMPS);
    assert_int_equal(hw_sites_init(&s, f), 0);
    hw_sites_add(&s, f, values, HW_SITES_NOW);
    hw_sites_rank(&s, HW_METRIC_SPACE);
    double *history = calloc(s.n * v.moments.n, sizeof *history);
    double *moved = calloc(s.n * v.moments.n, sizeof *moved);
    struct hw_sites_history h = {history, moved};
    assert_int_equal(hw_sites_history(p, list, f, &v, &s, s.n, &h), 0);
    int64_t sum = 0;
    for (size_t i = 0; i < s.n; i++) {
        sum += s.v[i].now.space;
        assert_true(history[i * N_DUMPS + N_DUMPS - 1] == (double)s.v[i].now.space);
        for (size_t m = 1; m < N_DUMPS; m++) {
            double change = history[i * N_DUMPS + m] - history[i * N_DUMPS + m - 1];
            double step = moved[i * N_DUMPS + m] - moved[i * N_DUMPS + m - 1];
            assert_true(step >= change && step >= -change);
        }
    }
    assert_int_equal(sum, v.moments.v[N_DUMPS - 1].total.space);
    free(history);
    free(moved);
    hw_process_view_done(&v);
    hw_vec_done(&s);
}

static void random_profiles_match_brute_force(void **state)
{
    (void)state;
    for (seed = 1; seed < 40;) {
        uint64_t this_seed = seed;
        struct twin t;
        struct hw_profile *p = random_profile(&t);
        struct hw_series_list list;
        struct hw_functions *f;
        hw_values values = {0};
        assert_int_equal(hw_series_list_init(&list, p), 0);
        assert_int_equal(hw_functions_new(p->callsites, NULL, &f), 0);
        assert_int_equal(hw_values_at(p, &list.v.v[0], N_DUMPS - 1, &values), 0);
        check_tree(p, f, &values, &t, false);
        check_tree(p, f, &values, &t, true);
        check_functions(p, f, &values, &t);
        check_sites(p, f, &list, &values);
        hw_vec_done(&values);
        hw_functions_free(f);
        hw_series_list_done(&list);
        hw_profile_free(p);
        seed = this_seed + 1;
    }
}

/* 100,000 processes: whatever reads all dumps for each of them takes minutes. */
static void many_processes(void **state)
{
    enum { N = 100000 };
    struct hw_profile *p;
    struct hw_series_list list;
    hw_process_views views = {0};
    hw_losses losses = {0};
    (void)state;
    assert_int_equal(hw_profile_new(&p), 0);
    hw_str_id rss = fill_str(p, "mem.rss");
    for (int i = 0; i < 2 * N; i++) {
        bool last = i >= N;
        uint32_t d = fill_dump(p, i % N + 1, "libc.malloc", 100 + i, 1, 0);
        p->dumps.v[d].lost_samples = (uint64_t)(i + 1);
        p->dumps.v[d].flags = last && i % 2 ? HW_DUMP_DISCONNECTED : 0;
        fill_row(p, d, "main", 1, i % N + 1);
        struct hw_counter_row c = {p->dumps.v[d].upid, rss, 100 + i, i};
        assert_int_equal(hw_vec_push(&p->counters, c), 0);
    }
    assert_int_equal(hw_profile_freeze(p), 0);
    assert_int_equal(hw_series_list_init(&list, p), 0);
    assert_int_equal(hw_process_views_init(p, &list, &views), 0);
    assert_int_equal(hw_losses_find(p, &losses), 0);
    assert_int_equal(views.n, N);
    assert_int_equal(losses.n, N);
    for (size_t i = 0; i < N; i++) { /* the one that allocated most is the first */
        const struct hw_process_view *v = &views.v[i];
        double value = -1;
        assert_int_equal(p->processes.v[v->upid.v].pid, N - i);
        assert_int_equal(v->moments.n, 2);
        assert_int_equal(v->moments.v[1].total.space, 2 * (N - i));
        assert_int_equal(v->start_ns, 100 + (N - i) - 1);
        assert_int_equal(v->ended, (N - i) % 2 == 0);
        assert_true(hw_process_counter(p, v->upid, "mem.rss", INT64_MAX, &value, NULL));
        assert_true(value == (double)(N + (N - i) - 1));
        assert_int_equal(losses.v[i].count, N + i + 1);
    }
    hw_vec_done(&losses);
    hw_process_views_done(&views);
    hw_series_list_done(&list);
    hw_profile_free(p);
}

HW_TEST_MAIN(cmocka_unit_test(checkpoints_count_but_are_not_shown),
             cmocka_unit_test(sites_name_the_code_that_asked), cmocka_unit_test(temporary_adds_up),
             cmocka_unit_test(variance_is_given_or_estimated),
             cmocka_unit_test(random_profiles_match_brute_force), cmocka_unit_test(many_processes))

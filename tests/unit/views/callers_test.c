/* Who called what asked, of stacks written by hand. */
#include "test.h"

#include <stdlib.h>

#include "views/fill.h"
#include "views/flame/callers.h"
#include "views/time/process_view.h"

struct asked {
    struct hw_profile *p;
    hw_values values;
    struct hw_functions *fns;
    struct hw_callers *callers;
};

static void begin_with(struct asked *a, const char *const *stacks, const int64_t *sizes, size_t n,
                       unsigned flags, enum hw_callers_of of)
{
    struct hw_series_list list;
    *a = (struct asked){0};
    assert_int_equal(hw_profile_new(&a->p), 0);
    uint32_t d = fill_dump(a->p, 7, "libc.malloc", 1, 1, 0);
    for (size_t i = 0; i < n; i++)
        fill_row(a->p, d, stacks[i], 1, sizes[i]);
    assert_int_equal(hw_profile_freeze(a->p), 0);
    assert_int_equal(hw_series_list_init(&list, a->p), 0);
    assert_int_equal(hw_process_values(a->p, &list, (hw_upid){0}, 1, false, &a->values), 0);
    hw_series_list_done(&list);
    assert_int_equal(hw_functions_new(a->p->callsites, NULL, &a->fns), 0);
    struct hw_flame tree = {0};
    assert_int_equal(hw_flame_build(a->p->callsites, a->fns, &a->values, flags, &tree), 0);
    assert_int_equal(
        hw_callers_find(a->p->callsites, a->fns, &tree, HW_METRIC_SPACE, of, &a->callers), 0);
    hw_flame_done(&tree);
}

static void begin(struct asked *a, const char *const *stacks, const int64_t *sizes, size_t n)
{
    begin_with(a, stacks, sizes, n, HW_FLAME_SITES, HW_CALLERS_OF_SELF);
}

static void end(struct asked *a)
{
    free(a->callers);
    hw_functions_free(a->fns);
    hw_vec_done(&a->values);
    hw_profile_free(a->p);
}

static const struct hw_callers *of(const struct asked *a, const char *name)
{
    const struct hw_strings *strings = hw_callsites_strings(a->p->callsites);
    for (uint32_t i = 0; i < hw_functions_count(a->fns); i++)
        if (hw_bytes_equal(hw_strings_get(strings, hw_functions_get(a->fns, i)->name),
                           hw_bytes_str(name)))
            return &a->callers[i];
    fail_msg("no function %s", name);
    return NULL;
}

static void check(const struct asked *a, const char *name, const char *want, double share)
{
    struct hw_strbuf text = {0};
    const struct hw_callers *c = of(a, name);
    hw_callers_text(&text, c, a->p->callsites, a->fns, NULL);
    assert_string_equal(text.p ? text.p : "", want);
    if (c->n)
        assert_near(c->share[c->n - 1], share, 1e-9);
    hw_strbuf_done(&text);
}

static void most_of_it_came_this_way(void **state)
{
    (void)state;
    static const char *const stacks[] = {
        "main;loop;hset;typeSet;newlen;malloc",
        "main;loop;get;typeSet;newlen;malloc",
        "main;loop;lpush;newlen;malloc",
    };
    struct asked a;
    begin(&a, stacks, (int64_t[]){60, 10, 30}, 3);
    check(&a, "newlen", "typeSet < hset < loop", 0.6);
    assert_near(of(&a, "newlen")->share[0], 0.7, 1e-9);
    end(&a);
}

static void what_says_nothing_is_left_out(void **state)
{
    (void)state;
    static const char *const stacks[] = {
        "_start;main;only;malloc",
        "main;outer;walk;walk;walk;malloc",
        "main;named;@0x10;_ZNSt6vectorIiE9push_backEi;deep;malloc",
    };
    struct asked a;
    begin(&a, stacks, (int64_t[]){1, 2, 4}, 3);
    check(&a, "only", "", 0);
    check(&a, "walk", "outer", 1);
    check(&a, "deep", "named", 1);
    end(&a);
}

/* What an interpreter does between, above or below the functions that it runs; alone it is all there is. */
static void runtimes_are_no_callers(void **state)
{
    (void)state;
    static const char *const stacks[] = {
        "main;Py_RunMain@/lib/libpython3.11.so.1.0;<module>@/[python];"
        "_PyFunction_Vectorcall@/lib/libpython3.11.so.1.0;serve@/[python];"
        "encode@/lib/_json.so;PyObject_Call@/lib/libpython3.11.so.1.0;keep@/[python];malloc",
        "main;Py_RunMain@/lib/libpython3.11.so.1.0;PyType_Ready@/lib/libpython3.11.so.1.0;malloc",
        "main;rb_vm_exec@/lib/libruby-3.1.so.3.1;each@/[ruby];rb_yield@/lib/libruby-3.1.so.3.1;"
        "block@/[ruby];malloc",
    };
    struct asked a;
    begin(&a, stacks, (int64_t[]){4, 2, 1}, 3);
    check(&a, "keep", "encode < serve < <module>", 1);
    check(&a, "PyType_Ready", "Py_RunMain", 1);
    check(&a, "block", "each", 1);
    end(&a);
}

/* Most of it has no caller but main. */
static void the_top_is_no_caller(void **state)
{
    (void)state;
    static const char *const stacks[] = {"main;make;malloc", "main;seldom;make;malloc"};
    struct asked a;
    begin(&a, stacks, (int64_t[]){70, 30}, 2);
    check(&a, "make", "", 0);
    end(&a);
}

/* Of whole stacks: allocators are functions as others are, and no one's callers. */
static void totals_are_counted_once(void **state)
{
    (void)state;
    static const char *const stacks[] = {"main;a;work;work;malloc", "main;b;work;xmalloc;malloc",
                                         "main;b;c;work;malloc"};
    struct asked a;
    begin_with(&a, stacks, (int64_t[]){45, 30, 25}, 3, 0, HW_CALLERS_OF_TOTAL);
    check(&a, "work", "a", 0.45);
    check(&a, "malloc", "work < a", 0.45);
    check(&a, "xmalloc", "work < b", 1);
    end(&a);
}

HW_TEST_MAIN(cmocka_unit_test(most_of_it_came_this_way),
             cmocka_unit_test(what_says_nothing_is_left_out),
             cmocka_unit_test(runtimes_are_no_callers), cmocka_unit_test(the_top_is_no_caller),
             cmocka_unit_test(totals_are_counted_once))

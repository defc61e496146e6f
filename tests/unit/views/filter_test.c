/* Flamegraphs with filters and pivots against a twin that does the same on texts. */
#include "test.h"

#include "base/error.h"
#include "views/fill.h"
#include "views/flame/flame.h"

enum { N_STACKS = 300, MAX_DEPTH = 7, N_NAMES = 30 };

struct stacks {
    struct hw_profile *p;
    struct hw_functions *fns;
    hw_values values;
    int name[N_STACKS][MAX_DEPTH], depth[N_STACKS];
};

/* Random stacks of functions f00…f29, every third in a library. f00 has more children than a node's
 * list is searched for. */
static void stacks_init(struct stacks *s, unsigned seed)
{
    memset(s, 0, sizeof *s);
    assert_int_equal(hw_profile_new(&s->p), 0);
    uint32_t dump = fill_dump(s->p, 1, "h", 1, 1, 0);
    srand(seed);
    for (int i = 0; i < N_STACKS; i++) {
        char text[256] = "";
        s->depth[i] = 1 + rand() % MAX_DEPTH;
        for (int d = 0; d < s->depth[i]; d++) {
            int n = d == 0 ? 0 : rand() % N_NAMES;
            s->name[i][d] = n;
            size_t at = strlen(text);
            snprintf(text + at, sizeof text - at, "%sf%02d%s", d ? ";" : "", n,
                     n % 3 == 0 ? "@/lib/libx.so.1" : "");
        }
        fill_row(s->p, dump, text, 1 + i, 100 + 7 * i);
    }
    assert_int_equal(hw_profile_freeze(s->p), 0);
    struct hw_series_list list;
    assert_int_equal(hw_series_list_init(&list, s->p), 0);
    assert_int_equal(hw_values_at(s->p, &list.v.v[0], 0, &s->values), 0);
    hw_series_list_done(&list);
    assert_int_equal(hw_functions_new(s->p->callsites, NULL, &s->fns), 0);
}

static void stacks_done(struct stacks *s)
{
    hw_vec_done(&s->values);
    hw_functions_free(s->fns);
    hw_profile_free(s->p);
}

/* ---- the twin: stacks as strings of letters, filters on letters ---- */

static bool twin_matches(const char *pattern, enum hw_filter_kind kind, int n)
{
    char name[8];
    snprintf(name, sizeof name, "f%02d", n);
    if (kind == HW_FILTER_MODULE)
        return (strcmp(pattern, "libx") == 0) == (n % 3 == 0);
    return strstr(name, pattern) != NULL;
}

struct twin_filter {
    enum hw_filter_kind kind;
    bool inverted;
    const char *pattern;
};

/* The stack as the filters leave it; -1 = dropped. */
static int twin_apply(const struct twin_filter *f, int n_filters, int *path, int n)
{
    for (int i = 0; i < n_filters; i++) {
        int kept = 0, first = -1, copy[MAX_DEPTH];
        for (int d = n; d-- > 0;)
            if (twin_matches(f[i].pattern, f[i].kind, path[d]))
                first = d;
        for (int d = 0; d < n; d++) {
            bool match = twin_matches(f[i].pattern, f[i].kind, path[d]) != f[i].inverted;
            if (match == (f[i].kind == HW_FILTER_SHOW_FRAME))
                copy[kept++] = path[d];
        }
        bool has = first >= 0;
        if (f[i].kind == HW_FILTER_SHOW_FRAME || f[i].kind == HW_FILTER_HIDE_FRAME) {
            memcpy(path, copy, sizeof copy);
            n = kept;
        } else if (f[i].kind == HW_FILTER_SHOW_FROM) {
            if (!has)
                return -1;
            for (int d = first; d < n; d++)
                path[d - first] = path[d];
            n -= first;
        } else if (f[i].kind == HW_FILTER_HIDE_STACK ? has != f[i].inverted
                                                     : has == f[i].inverted) {
            return -1;
        }
    }
    return n;
}

static int number_of(const struct stacks *s, uint32_t function)
{
    const char *name = hw_strings_cstr(hw_callsites_strings(s->p->callsites),
                                       hw_functions_get(s->fns, function)->name);
    return (int)strtol(name + 1, NULL, 10);
}

/* Does the node's path begin the given one? */
static bool begins(const struct stacks *s, const struct hw_flame *t, uint32_t node, const int *path,
                   int n)
{
    int depth = (int)t->v.v[node].depth;
    if (depth > n)
        return false;
    for (; node != 0; node = t->v.v[node].parent)
        if (number_of(s, t->v.v[node].function) != path[t->v.v[node].depth - 1])
            return false;
    return true;
}

static void check(const struct stacks *s, const struct hw_flame *t, int paths[][MAX_DEPTH],
                  const int *n)
{
    for (uint32_t node = 0; node < t->v.n; node++) {
        int64_t total = 0, self = 0;
        for (int i = 0; i < N_STACKS; i++) {
            if (n[i] < 0 || !begins(s, t, node, paths[i], n[i]))
                continue;
            total += 100 + 7 * i;
            self += n[i] == (int)t->v.v[node].depth ? 100 + 7 * i : 0;
        }
        assert_int_equal(hw_flame_total(t, node)->space, total);
        assert_int_equal(hw_flame_self(t, node)->space, self);
    }
}

static void every_filter_as_its_twin(void **state)
{
    (void)state;
    static const struct {
        const char *text[3];
        struct twin_filter twin[3];
    } cases[] = {
        {{NULL}, {{0}}},
        {{"SS:f07"}, {{HW_FILTER_SHOW_STACK, false, "f07"}}},
        {{"F07", "M:LIBX"},
         {{HW_FILTER_SHOW_STACK, false, "f07"}, {HW_FILTER_MODULE, false, "libx"}}},
        {{"HS:f1"}, {{HW_FILTER_HIDE_STACK, false, "f1"}}},
        {{"!HS:f1"}, {{HW_FILTER_HIDE_STACK, true, "f1"}}},
        {{"!f1"}, {{HW_FILTER_HIDE_STACK, false, "f1"}}},
        {{"!SS:f1"}, {{HW_FILTER_SHOW_STACK, true, "f1"}}},
        {{"HM:libx"}, {{HW_FILTER_MODULE, true, "libx"}}},
        {{"!HM:libx"}, {{HW_FILTER_MODULE, false, "libx"}}},
        {{"SF:/^f[01]/"}, {{HW_FILTER_HIDE_FRAME, false, "f2"}}},
        {{"HF:\"f03\""}, {{HW_FILTER_HIDE_FRAME, false, "f03"}}},
        {{"!HF:f2"}, {{HW_FILTER_SHOW_FRAME, false, "f2"}}},
        {{"SFF:f0", "HF:f00"},
         {{HW_FILTER_SHOW_FROM, false, "f0"}, {HW_FILTER_HIDE_FRAME, false, "f00"}}},
        {{"HF:f00", "SFF:f0"},
         {{HW_FILTER_HIDE_FRAME, false, "f00"}, {HW_FILTER_SHOW_FROM, false, "f0"}}},
        {{"/F2/i", "!M:libx", "HF:f1"},
         {{HW_FILTER_SHOW_STACK, false, "f2"},
          {HW_FILTER_MODULE, true, "libx"},
          {HW_FILTER_HIDE_FRAME, false, "f1"}}},
    };
    struct stacks s;
    stacks_init(&s, 7);
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        hw_filters f = {0};
        struct hw_filter_matches m;
        int n_filters = 0, paths[N_STACKS][MAX_DEPTH], n[N_STACKS];
        for (; n_filters < 3 && cases[c].text[n_filters]; n_filters++)
            assert_int_equal(hw_filters_add(&f, cases[c].text[n_filters], NULL), 0);
        assert_int_equal(hw_filter_match(&f, s.p->callsites, s.fns, NULL, NULL, &m), 0);
        for (int i = 0; i < N_STACKS; i++) {
            memcpy(paths[i], s.name[i], sizeof paths[i]);
            n[i] = twin_apply(cases[c].twin, n_filters, paths[i], s.depth[i]);
        }
        struct hw_flame_input q = {
            .cs = s.p->callsites, .fns = s.fns, .values = &s.values, .filters = &m};
        struct hw_flame t;
        assert_int_equal(hw_flame_build_with(&q, &t), 0);
        check(&s, &t, paths, n);
        hw_flame_done(&t);
        hw_filter_matches_done(&m);
        hw_filters_done(&f);
    }
    stacks_done(&s);
}

static void pivot_both_ways(void **state)
{
    (void)state;
    struct stacks s;
    struct hw_flame down, up;
    hw_filters f = {0};
    struct hw_filter_matches m;
    int below[N_STACKS][MAX_DEPTH], n_below[N_STACKS], above[N_STACKS][MAX_DEPTH],
        n_above[N_STACKS];
    stacks_init(&s, 11);
    assert_int_equal(hw_filters_add(&f, "P:f1", NULL), 0);
    assert_true(hw_filters_have_pivot(&f));
    assert_int_equal(hw_filter_match(&f, s.p->callsites, s.fns, NULL, NULL, &m), 0);
    for (int i = 0; i < N_STACKS; i++) {
        int at = 0;
        while (at < s.depth[i] && !twin_matches("f1", HW_FILTER_PIVOT, s.name[i][at]))
            at++;
        n_below[i] = at < s.depth[i] ? s.depth[i] - at : -1;
        n_above[i] = at < s.depth[i] ? at + 1 : -1;
        for (int d = at; d < s.depth[i]; d++)
            below[i][d - at] = s.name[i][d];
        for (int d = 0; d < n_above[i]; d++)
            above[i][d] = s.name[i][at - d];
    }
    struct hw_flame_input q = {
        .cs = s.p->callsites, .fns = s.fns, .values = &s.values, .filters = &m};
    assert_int_equal(hw_flame_pivot(&q, &down, &up), 0);
    check(&s, &down, below, n_below);
    check(&s, &up, above, n_above);
    assert_int_equal(hw_flame_total(&down, 0)->space, hw_flame_total(&up, 0)->space);
    hw_flame_done(&down);
    hw_flame_done(&up);
    hw_filter_matches_done(&m);
    hw_filters_done(&f);
    stacks_done(&s);
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "a pattern is empty"},
        {"HS:", "a pattern is empty"},
        {"/(/", "regular expression /(/"},
        {"/((a{99}){99}){99}/", "more than one counted repetition"},
        {"/(abcdef){32000}/", "or above 99"},
        {"/a++++++++++++++++++++++++++++++++/", "directly after another"},
        {"/((((((((((((((((((((a+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+/", "multiply to too many"},
        {"/[^]+*[:alpha:]+]+*/", "directly after another"},
        {"/(a*)*\\1/", "back references are not supported"},
        {"/a)|b/", "a ) without its ("},
        {"/[(]a)/", "a ) without its ("},
        {"!SFF:x", "cannot be inverted"},
        {"T:main", "these stacks have no threads"},
        {"TY:int", "these stacks have no types"},
        {"P:second", "only one of SFF: and P:"},
    };
    hw_filters f = {0};
    assert_int_equal(hw_filters_add(&f, "SFF:first", NULL), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hw_error err = {0};
        assert_int_equal(hw_filters_add(&f, cases[i].text, &err), HW_EINVAL);
        if (!strstr(err.text, cases[i].why))
            fail_msg("'%s': %s", cases[i].text, err.text);
    }
    assert_int_equal(hw_filters_add(&f, "/a\\)[)](b)/", NULL), 0);
    assert_int_equal(f.n, 2);
    hw_filters_done(&f);
}

/* An expression with another state after each letter, on names without end. */
static void slow_expressions_end(void **state)
{
    (void)state;
    enum { LETTERS = 20000 };
    struct hw_profile *p;
    struct hw_functions *fns;
    hw_filters f = {0};
    struct hw_filter_matches m = {0};
    char *text = malloc(LETTERS + 4);
    assert_non_null(text);
    assert_int_equal(hw_profile_new(&p), 0);
    uint32_t dump = fill_dump(p, 1, "h", 1, 1, 0);
    srand(7);
    for (int k = 0; k < 20; k++) {
        for (int i = 0; i < LETTERS; i++)
            text[i] = (char)('a' + (rand() >> 8 & 1));
        snprintf(text + LETTERS, 4, "%dz", k);
        fill_row(p, dump, text, 1, 100);
    }
    assert_int_equal(hw_profile_freeze(p), 0);
    assert_int_equal(hw_functions_new(p->callsites, NULL, &fns), 0);
    assert_int_equal(hw_filters_add(&f, "SS:/z$/", NULL), 0);
    assert_int_equal(hw_filter_match(&f, p->callsites, fns, NULL, NULL, &m), 0);
    assert_int_equal(m.v[0], 0); /* too far behind in the name */
    hw_filter_matches_done(&m);
    assert_int_equal(hw_filters_add(&f, "SS:/(a|b)*a(a|b){99}c/", NULL), 0);
    assert_int_equal(
        hw_filter_match_within(&f, p->callsites, fns, NULL, NULL, UINT64_C(100) * 1000 * 1000, &m),
        HW_ETIMEOUT);
    hw_filters_done(&f);
    hw_functions_free(fns);
    hw_profile_free(p);
    free(text);
}

HW_TEST_MAIN(cmocka_unit_test(every_filter_as_its_twin), cmocka_unit_test(pivot_both_ways),
             cmocka_unit_test(refused), cmocka_unit_test(slow_expressions_end))

/*
 * Flamegraphs of rows against a brute-force twin: it takes each row's path apart, says by the rules
 * what the row adds to which path of names, and sums up in a list of texts. Random forests of few
 * names meet every rule with every other.
 */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/ids.h"
#include "views/forest/frame_forest.h"

enum { MAX_ROWS = 24, MAX_PATHS = 2000, N_IDENTS = 4 };

struct path {
    char name[2 * MAX_ROWS + 4]; /* "+abc" or "-cba" */
    int64_t self, cumulative;
};

struct twin {
    struct path v[MAX_PATHS];
    size_t n;
};

static struct path *twin_at(struct twin *t, const char *name)
{
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->v[i].name, name) == 0)
            return &t->v[i];
    assert_true(t->n < MAX_PATHS);
    struct path *p = &t->v[t->n++];
    (void)snprintf(p->name, sizeof p->name, "%s", name);
    p->self = p->cumulative = 0;
    return p;
}

/* All prefixes of path get the value, one of them as its own. */
static void twin_add(struct twin *t, char sign, const char *path, size_t self_at, int64_t value)
{
    char name[2 * MAX_ROWS + 4];
    for (size_t n = 1; n <= strlen(path); n++) {
        (void)snprintf(name, sizeof name, "%c%.*s", sign, (int)n, path);
        struct path *p = twin_at(t, name);
        p->cumulative += value;
        p->self += n == self_at ? value : 0;
    }
}

static void turn(char *text)
{
    for (size_t i = 0, n = strlen(text); i < n / 2; i++) {
        char c = text[i];
        text[i] = text[n - 1 - i];
        text[n - 1 - i] = c;
    }
}

struct sample {
    struct hw_forest_source s;
    struct hw_forest_query q;
    uint32_t parent[MAX_ROWS], ident[MAX_ROWS];
    hw_forest_number value[MAX_ROWS], second[MAX_ROWS];
    struct hw_forest_values values[2];
    struct hw_forest_mark marks[N_IDENTS];
};

/* What is left of a row's path. False: it counts nothing. */
static bool path_of(const struct sample *x, size_t row, char *out)
{
    uint64_t shown = 0;
    size_t n = 0, steps = 0;
    bool hidden = false;
    for (uint32_t r = (uint32_t)row; r != HW_ID_NONE; r = x->parent[r]) {
        const struct hw_forest_mark *m = &x->marks[x->ident[r]];
        if (++steps > MAX_ROWS)
            return false; /* a ring */
        if (m->flags & HW_MARK_HIDE_FRAME)
            continue;
        out[n++] = (char)('a' + x->ident[r]);
        shown |= m->show;
        hidden = hidden || (m->flags & HW_MARK_HIDE_STACK);
    }
    out[n] = 0;
    turn(out);
    return n && !hidden && (x->q.show_all & ~shown) == 0;
}

static size_t last_pivot(const struct sample *x, const char *path)
{
    size_t at = strlen(path);
    while (at > 0 && !(x->marks[path[at - 1] - 'a'].flags & HW_MARK_PIVOT))
        at--;
    return at; /* 0 = none, else the pivot is path[at - 1] */
}

static void twin_row(const struct sample *x, size_t row, int64_t value, struct twin *t)
{
    char path[MAX_ROWS + 2];
    if (!path_of(x, row, path))
        return;
    size_t n = strlen(path), pivot = last_pivot(x, path);
    switch (x->q.view) {
    case HW_FOREST_TOP_DOWN:
        twin_add(t, '+', path, n, value);
        break;
    case HW_FOREST_BOTTOM_UP:
        turn(path);
        twin_add(t, '-', path, 1, value);
        break;
    case HW_FOREST_FROM_FRAME:
    case HW_FOREST_PIVOT:
        if (pivot == 0)
            break;
        twin_add(t, '+', path + pivot - 1, n - pivot + 1, value);
        if (x->q.view == HW_FOREST_FROM_FRAME)
            break;
        path[pivot] = 0;
        turn(path);
        twin_add(t, '-', path, 1, value);
        break;
    }
}

static void path_of_node(const struct hw_forest *f, uint32_t node, char *out)
{
    size_t n = 0;
    for (uint32_t i = node; i != HW_ID_NONE; i = f->nodes[i].parent)
        out[n++] = (char)('a' + f->nodes[i].ident);
    out[n++] = f->nodes[node].depth > 0 ? '+' : '-';
    out[n] = 0;
    turn(out);
}

static void compare(const struct sample *x, const struct hw_forest *f)
{
    static struct twin first, second;
    first.n = second.n = 0;
    for (size_t i = 0; i < x->s.n; i++) {
        twin_row(x, i, x->value[i].i, &first);
        twin_row(x, i, (int64_t)x->second[i].d, &second);
    }
    size_t expected = 0;
    for (size_t i = 0; i < first.n; i++)
        expected += first.v[i].cumulative || twin_at(&second, first.v[i].name)->cumulative;
    assert_int_equal(f->n, expected);
    for (uint32_t i = 0; i < f->n; i++) {
        char name[2 * MAX_ROWS + 4];
        path_of_node(f, i, name);
        assert_int_equal(f->self[2 * i].i, twin_at(&first, name)->self);
        assert_int_equal(f->cumulative[2 * i].i, twin_at(&first, name)->cumulative);
        assert_true(f->self[2 * i + 1].d == (double)twin_at(&second, name)->self);
        assert_true(f->cumulative[2 * i + 1].d == (double)twin_at(&second, name)->cumulative);
        assert_int_equal(abs(f->nodes[i].depth), strlen(name) - 1);
    }
}

/* Breadth first, siblings by falling value, side by side within their parent. */
static void check_order(const struct hw_forest *f)
{
    for (uint32_t i = 0; i < f->n; i++) {
        const struct hw_forest_node *a = &f->nodes[i];
        if (a->parent == HW_ID_NONE)
            assert_int_equal(abs(a->depth), 1);
        else
            assert_true(a->parent < i && abs(a->depth) == abs(f->nodes[a->parent].depth) + 1);
        if (i == 0 || f->nodes[i - 1].parent != a->parent ||
            (f->nodes[i - 1].depth < 0) != (a->depth < 0)) {
            int64_t start = a->parent == HW_ID_NONE ? 0 : f->x_start[a->parent].i;
            assert_int_equal(f->x_start[i].i, start);
            continue;
        }
        assert_true(f->cumulative[2 * (i - 1)].i >= f->cumulative[2 * i].i);
        assert_int_equal(f->x_start[i].i, f->x_start[i - 1].i + f->cumulative[2 * (i - 1)].i);
    }
    for (uint32_t i = 1; i < f->n; i++)
        assert_true(abs(f->nodes[i].depth) >= abs(f->nodes[i - 1].depth));
}

/* A node's rows: those whose path is the node's own, or of which it is a turned part. */
static void check_members(const struct sample *x, const struct hw_forest *f)
{
    for (uint32_t i = 0; x->q.view == HW_FOREST_TOP_DOWN && i < f->n; i++) {
        char name[2 * MAX_ROWS + 4], path[MAX_ROWS + 2];
        bool seen[MAX_ROWS] = {false};
        struct hw_forest_cursor at = {0};
        path_of_node(f, i, name);
        while (hw_forest_next_row(f, i, &at)) {
            assert_false(seen[at.row]);
            seen[at.row] = true;
        }
        for (size_t r = 0; r < x->s.n; r++) {
            struct sample all = *x;
            all.q.show_all = 0;
            bool is_member = path_of(&all, r, path) && strcmp(path, name + 1) == 0;
            assert_int_equal(seen[r], is_member);
        }
    }
}

static unsigned pick(unsigned *seed, unsigned n)
{
    *seed = *seed * 1103515245u + 12345u;
    return (*seed >> 16) % n;
}

static void make(struct sample *x, unsigned seed)
{
    memset(x, 0, sizeof *x);
    size_t n = pick(&seed, MAX_ROWS);
    bool ordered = pick(&seed, 3) != 0;
    for (size_t i = 0; i < n; i++) {
        bool top = i == 0 || pick(&seed, 5) == 0;
        x->parent[i] = top ? HW_ID_NONE : pick(&seed, (unsigned)(ordered ? i : n));
        x->ident[i] = pick(&seed, N_IDENTS);
        x->value[i].i = (int64_t)pick(&seed, 4);
        x->second[i].d = pick(&seed, 3) ? 0 : pick(&seed, 9);
    }
    for (size_t i = 0; i < N_IDENTS; i++) {
        x->marks[i].show = pick(&seed, 4);
        x->marks[i].flags = (uint8_t)((pick(&seed, 4) == 0 ? HW_MARK_HIDE_FRAME : 0) |
                                      (pick(&seed, 5) == 0 ? HW_MARK_HIDE_STACK : 0) |
                                      (pick(&seed, 2) == 0 ? HW_MARK_PIVOT : 0));
    }
    x->values[0] = (struct hw_forest_values){false, x->value};
    x->values[1] = (struct hw_forest_values){true, x->second};
    x->s = (struct hw_forest_source){n, N_IDENTS, 2, x->parent, x->ident, x->values};
    x->q = (struct hw_forest_query){.view = (enum hw_forest_view)pick(&seed, 4),
                                    .marks = x->marks,
                                    .show_all = pick(&seed, 3) ? 0 : pick(&seed, 4)};
}

static void test_random(void **state)
{
    (void)state;
    static struct sample x;
    for (unsigned seed = 0; seed < 20000; seed++) {
        struct hw_forest f;
        make(&x, seed);
        assert_int_equal(hw_forest_build(&x.s, &x.q, &f), 0);
        compare(&x, &f);
        check_order(&f);
        check_members(&x, &f);
        hw_forest_done(&f);
    }
}

static bool stop_at_once(void *ctx)
{
    (void)ctx;
    return true;
}

/* A chain whose every row has a value: turned round it has n * n / 2 nodes of different names. */
static void test_limits(void **state)
{
    (void)state;
    enum { N = 3000 };
    static uint32_t parent[N], ident[N];
    static hw_forest_number value[N];
    struct hw_forest_values values = {false, value};
    struct hw_forest_source s = {N, N, 1, parent, ident, &values};
    struct hw_forest_query q = {.view = HW_FOREST_BOTTOM_UP, .max_nodes = 100000};
    struct hw_forest f;
    for (uint32_t i = 0; i < N; i++) {
        parent[i] = i ? i - 1 : HW_ID_NONE;
        ident[i] = i;
        value[i].i = INT64_MAX;
    }
    assert_int_equal(hw_forest_build(&s, &q, &f), HW_ELIMIT);
    q.stop = stop_at_once;
    q.max_nodes = 0;
    assert_int_equal(hw_forest_build(&s, &q, &f), HW_ETIMEOUT);
    q = (struct hw_forest_query){.view = HW_FOREST_TOP_DOWN};
    assert_int_equal(hw_forest_build(&s, &q, &f), 0);
    assert_int_equal(f.n, N);
    assert_true(f.cumulative[0].i == INT64_MAX); /* it does not wrap */
    hw_forest_done(&f);
    s.n = 0;
    assert_int_equal(hw_forest_build(&s, &q, &f), 0);
    assert_int_equal(f.n, 0);
    hw_forest_done(&f);
}

HW_TEST_MAIN(cmocka_unit_test(test_random), cmocka_unit_test(test_limits))

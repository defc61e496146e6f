/* As much of a graph as fits: random trees against a twin without cleverness, and a flat one of 60,000 functions. */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "server/api/graph/flame_block.h"
#include "server/api/saved/graph_arrays.h"
#include "server/api/saved/graph_fit.h"

enum { MOST = 400 };

static uint64_t rng = 11;

static unsigned draw(unsigned n)
{
    rng = rng * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(rng >> 33) % n;
}

/* A random tree in preorder: parents' figures are their own and those below. */
struct tree {
    uint32_t n, depth[MOST], end[MOST];
    int32_t parent[MOST];
    double self[MOST], cum[MOST], error[MOST];
};

static void grow(struct tree *t)
{
    uint32_t path[MOST], deep = 0;
    *t = (struct tree){.n = 2 + draw(MOST - 2)};
    for (uint32_t i = 0; i < t->n; i++) {
        if (i > 0 && deep > 0)
            deep -= draw(deep < 4 ? deep : 4);
        t->parent[i] = i ? (int32_t)path[deep ? deep - 1 : 0] : -1;
        if (i > 0 && deep == 0)
            deep = 1;
        t->depth[i] = deep;
        path[deep++] = i;
        t->self[i] = draw(3) ? 0 : draw(draw(4) ? 20 : 2000);
        t->error[i] = draw(5);
        t->cum[i] = t->self[i];
        t->end[i] = i + 1;
    }
    for (uint32_t i = t->n - 1; i > 0; i--) {
        t->cum[t->parent[i]] += t->cum[i];
        if (t->end[t->parent[i]] < t->end[i])
            t->end[t->parent[i]] = t->end[i];
    }
}

static void write_tree(const struct tree *t, bool has_sides, struct hw_strbuf *out)
{
    struct hw_flame_block b = {.has_sides = has_sides};
    const struct hw_flame_head head = {.unfiltered = 7, .ts_ns = 8, .interval = 9};
    uint32_t none, name;
    assert_int_equal(hw_flame_block_text(&b, "", 0, &none), 0);
    for (uint32_t i = 0; i < t->n; i++) {
        char text[24];
        int n = snprintf(text, sizeof text, "f%u", i);
        assert_int_equal(hw_flame_block_text(&b, text, (size_t)n, &name), 0);
        struct hw_flame_box x = {
            .parent = t->parent[i], .depth = t->depth[i], .name = name, .module = none};
        x.self = t->self[i], x.cum = t->cum[i], x.error = t->error[i], x.samples = t->cum[i];
        x.a = t->cum[i] / 4, x.b = t->cum[i];
        assert_int_equal(hw_flame_block_put(&b, &x), 0);
    }
    for (uint32_t i = 0; i < t->n; i++)
        hw_flame_block_close(&b, i);
    memcpy(b.end.v, t->end, t->n * sizeof *t->end);
    assert_int_equal(hw_flame_block_write(&b, &head, out), 0);
    hw_flame_block_done(&b);
}

static bool is_text(const struct hw_graph_arrays *g, uint32_t i, const char *want)
{
    struct hw_bytes b = hw_graph_arrays_text(g, g->name[i]);
    return b.n == strlen(want) && memcmp(b.p, want, b.n) == 0;
}

/* How many are larger, or as large and before it: less than most, it stays. */
static uint32_t rank_of(const struct tree *t, uint32_t i)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < t->n; k++)
        n += t->cum[k] > t->cum[i] || (t->cum[k] == t->cum[i] && k < i);
    return n;
}

/* What is at `at` of the trimmed graph should be box i and all below it. */
static uint32_t check_box(const struct tree *t, const struct hw_graph_arrays *g, uint32_t i,
                          uint32_t at, uint32_t most)
{
    char name[24], small[32];
    uint32_t n_small = 0, next = at + 1;
    double cum = 0, square = 0;
    (void)snprintf(name, sizeof name, "f%u", i);
    assert_true(is_text(g, at, name));
    assert_true(g->cum[at] == t->cum[i] && g->self[at] == t->self[i] &&
                g->error[at] == t->error[i]);
    assert_int_equal(g->depth[at], t->depth[i]);
    for (uint32_t k = i + 1; k < t->end[i]; k = t->end[k]) {
        if (rank_of(t, k) < most) {
            assert_int_equal(g->parent[next], (int32_t)at);
            next = check_box(t, g, k, next, most);
        } else {
            n_small++;
            cum += t->cum[k];
            square += t->error[k] * t->error[k];
        }
    }
    if (n_small) {
        (void)snprintf(small, sizeof small, n_small == 1 ? "(1 small one)" : "(%u small ones)",
                       n_small);
        assert_true(is_text(g, next, small));
        assert_int_equal(g->node_flags[next], HW_FLAME_BOX_MERGED);
        assert_int_equal(g->parent[next], (int32_t)at);
        assert_true(g->cum[next] == cum && g->self[next] == cum && g->samples[next] == cum);
        assert_true(fabs(g->error[next] - sqrt(square)) < 1e-9);
        if (g->a)
            assert_true(g->a[next] == cum / 4 && g->b[next] == cum);
        next++;
    }
    assert_int_equal(g->end[at], next);
    return next;
}

static void the_largest_stay(void **state)
{
    static struct tree t;
    (void)state;
    for (int round = 0; round < 300; round++) {
        struct hw_strbuf whole = {0}, fewer = {0};
        struct hw_graph_arrays g;
        grow(&t);
        uint32_t most = 1 + draw(t.n + 3);
        write_tree(&t, round % 2, &whole);
        assert_int_equal(hw_graph_trim(hw_bytes_of(whole.p, whole.n), most, &fewer), 0);
        assert_int_equal(hw_graph_arrays_read(hw_bytes_of(fewer.p, fewer.n), &g), 0);
        assert_int_equal(check_box(&t, &g, 0, 0, most), g.n);
        assert_true(g.figures[0] == t.cum[0] && g.figures[1] == 7 && g.figures[3] == 8 &&
                    g.figures[4] == 9);
        if (most >= t.n)
            assert_int_equal(g.n, t.n);
        hw_strbuf_done(&whole);
        hw_strbuf_done(&fewer);
    }
}

static void write_flat(uint32_t n, struct hw_strbuf *out)
{
    struct hw_flame_block b = {0};
    const struct hw_flame_head head = {0};
    uint32_t name = 0;
    for (uint32_t i = 0; i <= n; i++) {
        char text[48];
        int len = snprintf(text, sizeof text, "function_%u_of_many", i * 2654435761u);
        assert_int_equal(hw_flame_block_text(&b, text, (size_t)len, &name), 0);
        struct hw_flame_box x = {
            .parent = i ? 0 : -1, .depth = i > 0, .name = name, .cum = i ? 10 : 10.0 * n};
        x.self = i ? 10 : 0;
        assert_int_equal(hw_flame_block_put(&b, &x), 0);
        if (i > 0)
            hw_flame_block_close(&b, i);
    }
    hw_flame_block_close(&b, 0);
    assert_int_equal(hw_flame_block_write(&b, &head, out), 0);
    hw_flame_block_done(&b);
}

/* Equal functions: as many as there is room for, their names included, and no more. */
static void a_flat_graph_fills_its_room(void **state)
{
    enum { N = 60000, ROOM = 200000 };
    (void)state;
    struct hw_strbuf whole = {0}, out = {0}, again = {0};
    struct hw_strings *texts;
    size_t n_bytes = 0, n_again = 0;
    write_flat(N, &whole);
    assert_int_equal(hw_strings_new(&texts), 0);
    assert_int_equal(hw_graph_fit(hw_bytes_of(whole.p, whole.n), ROOM, texts, &out, &n_bytes), 0);
    print_message("%zu bytes of %d, %zu functions\n", n_bytes, ROOM, hw_strings_count(texts));
    assert_true(n_bytes <= ROOM && n_bytes > ROOM * 9 / 10 && out.n < n_bytes);
    assert_true(hw_strings_count(texts) > 10000 && hw_strings_count(texts) < N);
    /* The names are there now: more of it fits. */
    assert_int_equal(hw_graph_fit(hw_bytes_of(whole.p, whole.n), ROOM, texts, &again, &n_again), 0);
    assert_true(n_again <= ROOM && again.n > out.n);
    hw_strings_free(texts);
    hw_strbuf_done(&whole);
    hw_strbuf_done(&out);
    hw_strbuf_done(&again);
}

static void what_does_not_fit_leaves_no_names(void **state)
{
    (void)state;
    struct hw_strbuf whole = {0}, out = {0};
    struct hw_strings *texts;
    size_t n_bytes = 0;
    write_flat(1000, &whole);
    assert_int_equal(hw_strings_new(&texts), 0);
    size_t before = hw_strings_count(texts);
    assert_int_equal(hw_graph_fit(hw_bytes_of(whole.p, whole.n), 100, texts, &out, &n_bytes), 0);
    assert_true(n_bytes > 100 && out.n == 0);
    assert_int_equal(hw_strings_count(texts), before);
    assert_int_equal(hw_graph_fit(hw_bytes_of("HFG2", 4), 100, texts, &out, &n_bytes), HW_EFORMAT);
    hw_strings_free(texts);
    hw_strbuf_done(&whole);
    hw_strbuf_done(&out);
}

HW_TEST_MAIN(cmocka_unit_test(the_largest_stay), cmocka_unit_test(a_flat_graph_fills_its_room),
             cmocka_unit_test(what_does_not_fit_leaves_no_names))

#include "cli/screen/tree_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/screen/screen.h"
#include "config/command/units.h"

#include "base/banned.h"

static int64_t value_of(const struct hw_tree_view *v, uint32_t node)
{
    return hw_value_get(hw_flame_total(&v->flame, node), v->metric);
}

static const char *label_of(const struct hw_tree_view *v, uint32_t node)
{
    uint32_t f = v->flame.v.v[node].function;
    return f < v->labels.n && v->labels.v[f] ? v->labels.v[f] : "?";
}

static bool is_open(const struct hw_tree_view *v, uint32_t node)
{
    uint64_t open;
    return hw_map64_get(&v->open, v->keys.v[node], &open) && open;
}

static void set_open(struct hw_tree_view *v, uint32_t node, bool open)
{
    (void)hw_map64_put(&v->open, v->keys.v[node], open); /* out of memory: unchanged */
}

/* Siblings are in descending order: after the first zero all are zero. */
static bool exists(const struct hw_tree_view *v, uint32_t node)
{
    return node != HW_ID_NONE && value_of(v, node) > 0;
}

/* ---- rows ---- */

/* The node after `node` among those whose ancestors are open; HW_ID_NONE at the end. */
static uint32_t next_node(const struct hw_tree_view *v, uint32_t node, bool inside)
{
    uint32_t child = v->flame.v.v[node].first_child;
    if ((inside || is_open(v, node)) && exists(v, child))
        return child;
    while (node != 0 && !exists(v, v->flame.v.v[node].next_sibling))
        node = v->flame.v.v[node].parent;
    return node == 0 ? HW_ID_NONE : v->flame.v.v[node].next_sibling;
}

static int list_rows(struct hw_tree_view *v)
{
    hw_vec_clear(&v->rows);
    uint32_t node =
        exists(v, v->flame.v.v[0].first_child) ? v->flame.v.v[0].first_child : HW_ID_NONE;
    v->at = 0;
    for (; node != HW_ID_NONE; node = next_node(v, node, /* inside = */ false)) {
        if (v->keys.v[node] == v->at_key)
            v->at = v->rows.n;
        if (hw_vec_push(&v->rows, node) < 0)
            return HW_ENOMEM;
    }
    return HW_OK;
}

static void go_to(struct hw_tree_view *v, size_t row)
{
    if (v->rows.n == 0)
        return;
    v->at = row < v->rows.n ? row : v->rows.n - 1;
    v->at_key = v->keys.v[v->rows.v[v->at]];
}

/* Opens down to where it branches: the largest child as long as it has 90% of its parent. */
static void open_main_path(struct hw_tree_view *v)
{
    uint32_t node = 0;
    for (;;) {
        uint32_t child = v->flame.v.v[node].first_child;
        if (!exists(v, child))
            return;
        if (node)
            set_open(v, node, true);
        if ((double)value_of(v, child) < 0.9 * (double)value_of(v, node))
            return;
        node = child;
    }
}

/* ---- the tree ---- */

static int make_labels(struct hw_tree_view *v, const struct hw_namer *namer)
{
    size_t n = hw_functions_count(v->functions);
    for (size_t i = 0; i < v->labels.n; i++)
        free(v->labels.v[i]);
    hw_vec_clear(&v->labels);
    for (size_t i = 0; i < n; i++) {
        struct hw_strbuf b = {0};
        hw_program_label(&v->program, &b, v->callsites, hw_functions_get(v->functions, (uint32_t)i),
                         namer);
        char *text = hw_strbuf_take(&b);
        if (!text || hw_vec_push(&v->labels, text) < 0) {
            free(text);
            return HW_ENOMEM;
        }
    }
    return HW_OK;
}

static int make_keys(struct hw_tree_view *v)
{
    HW_VEC(uint64_t) names = {0};
    size_t n = v->flame.v.n;
    hw_vec_clear(&v->keys);
    if (hw_vec_reserve(&names, v->labels.n + 1) < 0 || hw_vec_reserve(&v->keys, n) < 0) {
        hw_vec_done(&names);
        return HW_ENOMEM;
    }
    const struct hw_strings *strings =
        hw_callsites_strings((struct hw_callsites *)(uintptr_t)v->callsites);
    for (uint32_t i = 0; i < v->labels.n; i++) {
        const struct hw_function *fn = hw_functions_get(v->functions, i);
        struct hw_bytes where = hw_strings_get(strings, hw_function_where(fn));
        names.v[names.n++] = hw_hash_mix(hw_hash_bytes(v->labels.v[i], strlen(v->labels.v[i])),
                                         hw_hash_bytes(where.p, where.n));
    }
    for (size_t i = 0; i < n; i++) { /* parents come first */
        const struct hw_flame_node *x = &v->flame.v.v[i];
        uint64_t name = x->function < names.n ? names.v[x->function] : 0;
        v->keys.v[v->keys.n++] = i == 0 ? 1 : hw_hash_mix(v->keys.v[x->parent], name);
    }
    hw_vec_done(&names);
    return HW_OK;
}

int hw_tree_view_set(struct hw_tree_view *v, struct hw_flame *flame, const struct hw_functions *fns,
                     const struct hw_callsites *cs, const struct hw_namer *namer)
{
    hw_flame_done(&v->flame);
    v->flame = *flame;
    *flame = (struct hw_flame){0};
    v->functions = fns;
    v->callsites = cs;
    int rc = make_labels(v, namer);
    if (rc == HW_OK)
        rc = make_keys(v);
    return rc < 0 ? rc : hw_tree_view_set_metric(v, v->metric);
}

int hw_tree_view_set_metric(struct hw_tree_view *v, enum hw_metric m)
{
    v->metric = m;
    int rc = hw_flame_sort(&v->flame, m);
    if (rc < 0)
        return rc;
    if (!v->opened && exists(v, v->flame.v.v[0].first_child)) {
        v->opened = true;
        open_main_path(v);
    }
    return list_rows(v);
}

void hw_tree_view_done(struct hw_tree_view *v)
{
    hw_flame_done(&v->flame);
    for (size_t i = 0; i < v->labels.n; i++)
        free(v->labels.v[i]);
    hw_vec_done(&v->labels);
    hw_vec_done(&v->keys);
    hw_vec_done(&v->rows);
    hw_map64_done(&v->open);
}

/* ---- keys ---- */

static void fold(struct hw_tree_view *v, bool open)
{
    if (v->rows.n == 0)
        return;
    uint32_t node = v->rows.v[v->at];
    bool has_children = exists(v, v->flame.v.v[node].first_child);
    if (open && has_children && !is_open(v, node)) {
        set_open(v, node, true);
        (void)list_rows(v); /* no memory: fewer rows */
    } else if (open) {
        go_to(v, v->at + has_children);
    } else if (is_open(v, node) && has_children) {
        set_open(v, node, false);
        (void)list_rows(v);
    } else {
        for (size_t i = v->at; i-- > 0;)
            if (v->rows.v[i] == v->flame.v.v[node].parent) {
                go_to(v, i);
                return;
            }
    }
}

static void fold_all(struct hw_tree_view *v, bool open)
{
    if (v->rows.n == 0)
        return;
    uint32_t first = v->rows.v[v->at];
    uint32_t depth = v->flame.v.v[first].depth;
    size_t budget = 100000; /* more rows than anybody will read */
    uint32_t node = first;
    do {
        set_open(v, node, open);
        node = next_node(v, node, /* inside = */ true);
    } while (--budget && node != HW_ID_NONE && v->flame.v.v[node].depth > depth);
    (void)list_rows(v);
}

bool hw_tree_view_key(struct hw_tree_view *v, int key, int page)
{
    size_t step = page > 2 ? (size_t)page - 1 : 1;
    switch (key) {
    case HW_KEY_UP:
    case 'k':
        go_to(v, v->at ? v->at - 1 : 0);
        return true;
    case HW_KEY_DOWN:
    case 'j':
        go_to(v, v->at + 1);
        return true;
    case HW_KEY_PAGE_UP:
        go_to(v, v->at > step ? v->at - step : 0);
        return true;
    case HW_KEY_PAGE_DOWN:
        go_to(v, v->at + step);
        return true;
    case HW_KEY_HOME:
        go_to(v, 0);
        return true;
    case HW_KEY_END:
        go_to(v, v->rows.n);
        return true;
    case HW_KEY_RIGHT:
    case 'l':
        fold(v, true);
        return true;
    case HW_KEY_ENTER:
        fold(v, v->rows.n == 0 || !is_open(v, v->rows.v[v->at]));
        return true;
    case HW_KEY_LEFT:
    case 'h':
        fold(v, false);
        return true;
    case '*':
    case '+':
        fold_all(v, true);
        return true;
    case '-':
        fold_all(v, false);
        return true;
    case 'n':
    case 'N':
        (void)hw_tree_view_find(v, key == 'N'); /* none: the selection stays */
        return true;
    case 'm':
        (void)hw_tree_view_set_metric(
            v, (enum hw_metric)((v->metric + 1) % hw_value_metrics(hw_flame_total(&v->flame, 0))));
        return true;
    default:
        return false;
    }
}

/* ---- search ---- */

static bool matches(const struct hw_tree_view *v, uint32_t node)
{
    return strcasestr(label_of(v, node), v->search) != NULL;
}

/* Opens all ancestors, so that it becomes a row. */
static void reveal(struct hw_tree_view *v, uint32_t node)
{
    for (uint32_t up = v->flame.v.v[node].parent; up != 0; up = v->flame.v.v[up].parent)
        set_open(v, up, true);
    v->at_key = v->keys.v[node];
    (void)list_rows(v); /* no memory: fewer rows */
}

bool hw_tree_view_find(struct hw_tree_view *v, bool backwards)
{
    uint32_t first = v->flame.v.n ? v->flame.v.v[0].first_child : HW_ID_NONE;
    uint32_t here = v->rows.n ? v->rows.v[v->at] : HW_ID_NONE, before = HW_ID_NONE;
    uint32_t last = HW_ID_NONE, found = HW_ID_NONE, any = HW_ID_NONE;
    bool passed = false;
    if (!v->search[0] || !exists(v, first))
        return false;
    for (uint32_t x = first; x != HW_ID_NONE; x = next_node(v, x, /* inside = */ true)) {
        if (x == here) {
            passed = true;
            before = last;
            continue;
        }
        if (!matches(v, x))
            continue;
        last = x;
        any = any == HW_ID_NONE ? x : any;
        if (passed && found == HW_ID_NONE)
            found = x;
    }
    uint32_t to =
        backwards ? (before != HW_ID_NONE ? before : last) : (found != HW_ID_NONE ? found : any);
    if (to == HW_ID_NONE)
        return here != HW_ID_NONE && matches(v, here);
    reveal(v, to);
    return true;
}

/* ---- drawing ---- */

static void draw_row(const struct hw_tree_view *v, struct hw_screen *s, size_t row)
{
    uint32_t node = v->rows.v[row];
    const struct hw_flame_node *n = &v->flame.v.v[node];
    char text[HW_UNIT_MAX], share[16];
    double x = (double)value_of(v, node), all = (double)value_of(v, 0);
    double self = (double)hw_value_get(hw_flame_self(&v->flame, node), v->metric);
    bool bytes = hw_metric_is_bytes(v->metric), folded = exists(v, n->first_child);
    if (row == v->at)
        hw_screen_mark(s);
    hw_screen_field(s, HW_STYLE_PLAIN, bytes ? hw_fmt_bytes(text, x) : hw_fmt_count(text, x), 10,
                    true);
    (void)snprintf(share, sizeof share, " %5.1f%%", all > 0 ? 100 * x / all : 0);
    hw_screen_put(s, HW_STYLE_DIM, share);
    if (s->cols >= 70)
        hw_screen_field(s, HW_STYLE_PLAIN,
                        self > 0 ? bytes ? hw_fmt_bytes(text, self) : hw_fmt_count(text, self) : "",
                        11, true);
    hw_screen_put(s, HW_STYLE_PLAIN, "  ");
    int indent = (int)(n->depth > 1 ? n->depth - 1 : 0);
    int room = hw_screen_left(s) - 24; /* for the name */
    if (indent > room)
        indent = room > 0 ? room : 0;
    hw_screen_field(s, HW_STYLE_PLAIN, "", indent, false);
    const char *sign = !folded            ? "  "
                       : is_open(v, node) ? s->unicode ? "\xe2\x96\xbe " : "- "
                       : s->unicode       ? "\xe2\x96\xb8 "
                                          : "+ ";
    hw_screen_put(s, HW_STYLE_PLAIN, sign);
    bool hit = v->search[0] && matches(v, node);
    hw_screen_put(s, hit ? HW_STYLE_HEAD : HW_STYLE_PLAIN, label_of(v, node));
    struct hw_strbuf where = {0};
    hw_program_where(&v->program, &where, v->callsites, hw_functions_get(v->functions, n->function),
                     v->places ? &v->places[n->function] : NULL);
    hw_screen_put_aside(s, &where);
    hw_strbuf_done(&where);
    hw_screen_line(s);
}

void hw_tree_view_draw(struct hw_tree_view *v, struct hw_screen *s, int n)
{
    size_t page = n > 1 ? (size_t)n - 1 : 1;
    char head[64];
    (void)snprintf(head, sizeof head, "%10s %6s%s  %s", hw_metric_name(v->metric), "%",
                   s->cols >= 70 ? "       self" : "", "function");
    hw_screen_put(s, HW_STYLE_BOLD, head);
    hw_screen_line(s);
    if (v->at < v->top)
        v->top = v->at;
    if (v->at >= v->top + page)
        v->top = v->at - page + 1;
    if (v->top && v->rows.n <= page)
        v->top = 0;
    for (size_t i = v->top; i < v->top + page; i++)
        if (i < v->rows.n)
            draw_row(v, s, i);
        else
            hw_screen_line(s);
}

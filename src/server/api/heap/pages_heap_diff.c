/*
 * GET /api/v1/traces/ID/heap/diff and …/diff-flame: two dumps of managed heaps side by side.
 *
 * Side B is the dump upid at, side A that of a_trace (none: the same trace) a_upid a_at.
 *
 * diff        sort=change|name|before|after|count order match offset limit: classes whose reachable
 *             objects differ. {"rows", "before": {sum}, "after": {sum},
 *             "data": [class, objects before, after, size before, after]…}; sizes include native
 *             memory
 * diff-flame  metric collapse as in pages_heap_flame.c: both trees merged by paths of names, with
 *             figures of both sides; a node's own width is that of its larger side
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "server/api/graph/pages_tree.h"
#include "server/api/heap/pages_heap.h"
#include "views/objects/heap_growth.h"
#include "views/time/values.h"

#include "base/banned.h"

enum { DEFAULT_ROWS = 200 };

/* Both graphs, and the trace of side A; false: the request was answered. */
static bool both_graphs(struct hw_http_request *req, struct hw_page_trace *t,
                        struct hw_page_trace **other, const struct hw_heap_graph **a,
                        const struct hw_heap_graph **b)
{
    const char *base = hw_http_query(req, "a_trace");
    struct hw_error err = {0};
    *other = base && *base ? hw_page_trace_get(t->pages, req, base) : t;
    if (!*other)
        return false;
    *b = hw_page_graph(t, req, "", &err);
    *a = *b ? hw_page_graph(*other, req, "a_", &err) : NULL;
    if (*a)
        return true;
    hw_page_reply_error(req, &err, HW_ENOTFOUND);
    return false;
}

/* ---- by class ---- */

enum order { BY_CHANGE, BY_NAME, BY_BEFORE, BY_AFTER, BY_COUNT };
static const char *const orders[] = {"change", "name", "before", "after", "count"};

struct sort {
    enum order by;
    bool down;
};

static int64_t key_of(const struct hw_class_change *c, enum order by)
{
    switch (by) {
    case BY_NAME:
        return 0;
    case BY_CHANGE:
        return hw_sat_sub(c->after.size, c->before.size);
    case BY_BEFORE:
        return c->before.size;
    case BY_AFTER:
        return c->after.size;
    case BY_COUNT:
        return c->after.count - c->before.count;
    }
    return 0;
}

static int compare(const void *pa, const void *pb, void *ctx)
{
    const struct hw_class_change *a = pa, *b = pb;
    const struct sort *s = ctx;
    int64_t x = key_of(a, s->by), y = key_of(b, s->by);
    size_t n = a->name.n < b->name.n ? a->name.n : b->name.n;
    int name = n ? memcmp(a->name.p, b->name.p, n) : 0;
    name = name ? name : (a->name.n > b->name.n) - (a->name.n < b->name.n);
    if (s->by == BY_NAME)
        return s->down ? -name : name;
    if (x != y)
        return (x > y) == s->down ? -1 : 1;
    return name;
}

static bool matches(struct hw_bytes name, const char *text)
{
    return !text || !*text || (name.n && memmem(name.p, name.n, text, strlen(text)));
}

static void put_changes(struct hw_json *j, struct hw_http_request *req, hw_class_changes *v)
{
    const char *by = hw_http_query(req, "sort"), *order = hw_http_query(req, "order");
    const char *match = hw_http_query(req, "match");
    uint64_t offset = hw_page_number(req, "offset", 0), n = 0;
    uint64_t limit = hw_page_number(req, "limit", DEFAULT_ROWS);
    struct sort sort = {BY_CHANGE, !order || strcmp(order, "asc") != 0};
    for (size_t i = 0; by && i < HW_ARRAY_LEN(orders); i++)
        if (strcmp(by, orders[i]) == 0)
            sort.by = (enum order)i;
    if (v->n)
        qsort_r(v->v, v->n, sizeof *v->v, compare, &sort);
    hw_json_key(j, "data");
    hw_json_begin_array(j);
    for (size_t i = 0; i < v->n; i++) {
        const struct hw_class_change *c = &v->v[i];
        if (!matches(c->name, match) || n++ < offset || n - offset > limit)
            continue;
        hw_json_begin_array(j);
        hw_page_put_bytes(j, NULL, c->name);
        hw_json_int(j, c->before.count);
        hw_json_int(j, c->after.count);
        hw_json_int(j, c->before.size);
        hw_json_int(j, c->after.size);
        hw_json_end_array(j);
    }
    hw_json_end_array(j);
    hw_json_kv_uint(j, "rows", n);
}

void hw_page_heap_diff(struct hw_http_request *req, struct hw_page_trace *t)
{
    struct hw_page_trace *other;
    const struct hw_heap_graph *a, *b;
    hw_class_changes v = {0};
    struct hw_json j;
    if (!both_graphs(req, t, &other, &a, &b))
        return;
    int rc = hw_heap_diff(other->profile, a, t->profile, b, &v);
    if (rc < 0) {
        hw_http_reply_text(req, HTTP_ERROR, hw_errc_text(rc));
        return;
    }
    struct hw_class_sum before = hw_heap_graph_sum(a), after = hw_heap_graph_sum(b);
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    hw_json_begin_object(&j);
    hw_page_put_sum(&j, "before", &before.reachable);
    hw_page_put_sum(&j, "after", &after.reachable);
    put_changes(&j, req, &v);
    hw_json_end_object(&j);
    hw_page_reply_json(req, &j);
    hw_vec_done(&v);
}

/* ---- by path ---- */

struct joined {
    struct hw_page_tree tree;
    struct hw_strings *names;
    HW_VEC(uint32_t) text_of; /* by name: text + 1 */
    struct hw_map64 nodes;    /* parent + 1, name -> node */
};

static int text_of(struct joined *x, struct hw_bytes name, hw_str_id *id, uint32_t *text)
{
    int rc = hw_strings_intern(x->names, name, id);
    while (rc == HW_OK && x->text_of.n <= id->v)
        rc = hw_vec_push(&x->text_of, 0) < 0 ? HW_ENOMEM : HW_OK;
    if (rc == HW_OK && !x->text_of.v[id->v]) {
        rc = hw_page_tree_text(&x->tree, name.p, name.n, text);
        x->text_of.v[id->v] = *text + 1;
    }
    if (rc == HW_OK)
        *text = x->text_of.v[id->v] - 1;
    return rc;
}

static int join_node(struct joined *x, uint32_t parent, struct hw_bytes name, bool native,
                     uint32_t *out)
{
    struct hw_page_node node = {.parent = parent, .module = 1, .flags = HW_PAGE_NODE_MANAGED};
    uint64_t *at;
    hw_str_id id;
    bool fresh;
    int rc = text_of(x, name, &id, &node.name);
    if (rc == HW_OK)
        rc = hw_map64_at(&x->nodes, (uint64_t)(parent + 1) << 32 | id.v, &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh) {
        *at = x->tree.v.n;
        node.flags |= native ? HW_PAGE_NODE_NATIVE : 0;
        if (x->tree.v.n >= HW_ID_NONE - 1 || hw_vec_push(&x->tree.v, node) < 0)
            return HW_ENOMEM;
    }
    *out = (uint32_t)*at;
    return HW_OK;
}

static int join(struct joined *x, const struct hw_page_heap *h, const hw_heap_tree *tree,
                const struct hw_page_tree_options *q, bool is_b)
{
    hw_autofree uint32_t *at = malloc((tree->n + 1) * sizeof *at);
    struct hw_strbuf text = {0};
    int rc = at ? HW_OK : HW_ENOMEM;
    for (size_t i = 0; rc == HW_OK && i < tree->n; i++) {
        struct hw_heap_node n = tree->v[i];
        if (q->collapse && n.depth > 0)
            n.root = 0;
        hw_strbuf_clear(&text);
        hw_heap_node_name(h->p, h->g, &n, HW_FOLD_FLAME, &text);
        rc = text.failed ? HW_ENOMEM
                         : join_node(x, n.parent == HW_ID_NONE ? HW_ID_NONE : at[n.parent],
                                     hw_bytes_of(text.p, text.n), n.is_native, &at[i]);
        if (rc < 0)
            break;
        struct hw_page_node *node = &x->tree.v.v[at[i]];
        double value = (double)(q->count ? n.count : n.size);
        *(is_b ? &node->b : &node->a) += value;
        node->samples += is_b ? (double)n.count : 0;
    }
    hw_strbuf_done(&text);
    return rc;
}

static int join_both(struct joined *x, const struct hw_page_heap *a, const struct hw_page_heap *b,
                     const struct hw_page_tree_options *q)
{
    enum hw_page_heap_part part = hw_page_heap_tree_of(q);
    int rc = hw_strings_new(&x->names);
    if (rc == HW_OK)
        rc = hw_page_tree_init(&x->tree);
    x->tree.has_sides = true;
    x->tree.ts_ns = (double)b->g->ts_ns;
    if (rc == HW_OK)
        rc = join(x, a, &a->trees[part], q, /* is_b = */ false);
    if (rc == HW_OK)
        rc = join(x, b, &b->trees[part], q, /* is_b = */ true);
    for (size_t i = 0; rc == HW_OK && i < x->tree.v.n; i++) {
        struct hw_page_node *n = &x->tree.v.v[i];
        n->self = n->a > n->b ? n->a : n->b;
    }
    return rc;
}

void hw_page_heap_diff_flame(struct hw_http_request *req, struct hw_page_trace *t)
{
    struct hw_page_tree_options q = {0};
    struct hw_page_trace *other;
    const struct hw_heap_graph *a, *b;
    struct hw_strbuf bytes = {0};
    struct hw_error err = {0};
    struct joined x = {0};
    if (hw_page_tree_options_read(req, &q, &err) < 0) {
        hw_page_reply_error(req, &err, HW_EINVAL);
        return;
    }
    if (!both_graphs(req, t, &other, &a, &b))
        return;
    unsigned parts = hw_page_heap_needs(&q) | 1U << hw_page_heap_tree_of(&q);
    struct hw_page_heap *hb = hw_page_heap_get(req, t, b, parts);
    struct hw_page_heap *ha = hb ? hw_page_heap_get(req, other, a, parts) : NULL;
    if (!ha)
        return;
    int rc = join_both(&x, ha, hb, &q);
    if (rc == HW_OK)
        rc = hw_page_tree_put(&x.tree, 0, &bytes);
    if (rc == HW_OK)
        hw_http_reply(req, HTTP_OK, "application/octet-stream", bytes.p, bytes.n);
    else
        hw_page_reply_error(req, &err, rc);
    hw_strbuf_done(&bytes);
    hw_page_tree_done(&x.tree);
    hw_strings_free(x.names);
    hw_vec_done(&x.text_of);
    hw_map64_done(&x.nodes);
}

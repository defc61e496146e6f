/*
 * GET /api/v1/traces/ID/heap/flame: a heap graph by class, as the arrays of pages_tree.h.
 *
 * Parameters: upid at; metric=object_size|object_count (tree of shortest paths) or
 * dominated_size|dominated_count (tree of dominators); collapse=1 (merges an object into its parent
 * of the same class); object=ID (only the part below that object); min_share.
 * A node's module is the recorded name of its class if another one is shown.
 *
 * GET …/heap/paths: distinct paths by class, one row each: upid at; class=NAME (paths that end
 * there; none = all); collapse=1; sort=size|count|below, offset limit. {"rows", "count", "size",
 * "data": [[names from the root], count, size, size with descendants]…}; sums are of all rows.
 */
#include "server/api/heap/pages_heap.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "server/api/graph/pages_tree.h"

#include "base/banned.h"

int hw_page_tree_options_read(struct hw_http_request *req, struct hw_page_tree_options *q,
                              struct hw_error *err)
{
    static const char *const metrics[] = {"object_size", "object_count", "dominated_size",
                                          "dominated_count"};
    const char *metric = hw_http_query(req, "metric");
    size_t m = 0;
    while (metric && *metric && m < HW_ARRAY_LEN(metrics) && strcmp(metric, metrics[m]) != 0)
        m++;
    if (m == HW_ARRAY_LEN(metrics))
        return hw_fail(err, HW_EINVAL, 0, "a heap graph has no metric '%.40s'", metric);
    *q = (struct hw_page_tree_options){.dominators = m >= 2,
                                       .count = m % 2 == 1,
                                       .collapse = hw_page_number(req, "collapse", 0) == 1};
    return HW_OK;
}

enum hw_page_heap_part hw_page_heap_tree_of(const struct hw_page_tree_options *q)
{
    if (q->dominators)
        return q->collapse ? HW_PAGE_HEAP_DOMINATOR_TREE_FOLDED : HW_PAGE_HEAP_DOMINATOR_TREE;
    return q->collapse ? HW_PAGE_HEAP_PATH_TREE_FOLDED : HW_PAGE_HEAP_PATH_TREE;
}

unsigned hw_page_heap_needs(const struct hw_page_tree_options *q)
{
    return q->dominators ? HW_PAGE_NEED_DOMINATORS : HW_PAGE_NEED_PATHS;
}

/* ---- below one object ---- */

/* The subtree at a position. Parents precede children, so one pass is enough. */
static int tree_below(const struct hw_page_heap *h, const struct hw_page_tree_options *q,
                      uint32_t top, hw_heap_tree *out)
{
    const uint32_t *object = q->dominators ? h->dominators.object : h->paths.object;
    const uint32_t *parent = q->dominators ? h->dominators.idom : h->paths.parent;
    size_t n = q->dominators ? h->dominators.n : h->paths.n, k = 0;
    hw_autofree uint32_t *place = malloc((n + 1) * sizeof *place);
    hw_autofree uint32_t *part_object = malloc((n - top + 1) * sizeof *part_object);
    hw_autofree uint32_t *part_parent = malloc((n - top + 1) * sizeof *part_parent);
    if (!place || !part_object || !part_parent)
        return HW_ENOMEM;
    for (size_t i = top; i < n; i++) {
        bool inside = i == top || (parent[i] != HW_ID_NONE && parent[i] >= top &&
                                   place[parent[i]] != HW_ID_NONE);
        place[i] = inside ? (uint32_t)k : HW_ID_NONE;
        if (!inside)
            continue;
        part_object[k] = object[i];
        part_parent[k++] = i == top ? HW_ID_NONE : place[parent[i]];
    }
    return hw_heap_tree_fold(h->g, part_object, part_parent, k,
                             q->collapse ? HW_FOLD_CLASSES : HW_FOLD_FLAME, out);
}

/* ---- nodes ---- */

struct names {
    struct hw_map64 known; /* class, root, native -> text */
    struct hw_map64 raw;   /* class -> text */
};

static int name_node(struct hw_page_tree *t, const struct hw_page_heap *h, struct names *names,
                     const struct hw_heap_node *n, uint32_t *name, uint32_t *module)
{
    const struct hw_heap_class *c = &h->g->classes[n->class];
    uint64_t *at;
    bool fresh;
    /* With collapsed chains only the children of "all" are named after their roots. */
    int rc =
        hw_map64_at(&names->known, (uint64_t)n->class << 8 | (uint64_t)n->root << 1 | n->is_native,
                    &at, &fresh);
    if (rc == HW_OK && fresh) {
        struct hw_strbuf text = {0};
        uint32_t id = 0;
        hw_heap_node_name(h->p, h->g, n, HW_FOLD_FLAME, &text);
        rc = text.failed ? HW_ENOMEM : hw_page_tree_text(t, text.p ? text.p : "", text.n, &id);
        hw_strbuf_done(&text);
        *at = id;
    }
    if (rc < 0)
        return rc;
    *name = (uint32_t)*at;
    *module = 1;
    if (!c->clear_name.v)
        return HW_OK;
    rc = hw_map64_at(&names->raw, n->class, &at, &fresh);
    if (rc == HW_OK && fresh) {
        struct hw_bytes raw = hw_strings_get(hw_callsites_strings(h->p->callsites), c->name);
        uint32_t id = 0;
        rc = hw_page_tree_text(t, raw.p, raw.n, &id);
        *at = id;
    }
    if (rc == HW_OK)
        *module = (uint32_t)*at;
    return rc;
}

int hw_page_heap_add_tree(struct hw_page_tree *t, const struct hw_page_heap *h,
                          const hw_heap_tree *tree, const struct hw_page_tree_options *q,
                          uint32_t below, uint8_t more)
{
    struct names names = {0};
    size_t first = t->v.n;
    if (first + tree->n >= HW_ID_NONE)
        return HW_ELIMIT;
    int rc = hw_vec_reserve(&t->v, first + tree->n) < 0 ? HW_ENOMEM : HW_OK;
    for (size_t i = 0; rc == HW_OK && i < tree->n; i++) {
        struct hw_heap_node n = tree->v[i];
        struct hw_page_node node = {
            .parent = n.parent == HW_ID_NONE ? below : (uint32_t)first + n.parent,
            .flags =
                (uint8_t)(HW_PAGE_NODE_MANAGED | (n.is_native ? HW_PAGE_NODE_NATIVE | more : 0)),
            .self = (double)(q->count ? n.count : n.size),
            .samples = (double)n.count};
        if (q->collapse && n.depth > 0)
            n.root = 0;
        rc = name_node(t, h, &names, &n, &node.name, &node.module);
        if (rc == HW_OK)
            t->v.v[t->v.n++] = node;
    }
    hw_map64_done(&names.known);
    hw_map64_done(&names.raw);
    return rc;
}

static int reply(struct hw_http_request *req, const struct hw_page_heap *h,
                 const hw_heap_tree *tree, const struct hw_page_tree_options *q)
{
    const char *share = hw_http_query(req, "min_share");
    struct hw_page_tree t;
    struct hw_strbuf bytes = {0};
    int rc = hw_page_tree_init(&t);
    t.ts_ns = (double)h->g->ts_ns;
    if (rc == HW_OK)
        rc = hw_page_heap_add_tree(&t, h, tree, q, HW_ID_NONE, 0);
    if (rc == HW_OK)
        rc = hw_page_tree_put(&t, share ? strtod(share, NULL) : 0, &bytes);
    if (rc == HW_OK)
        hw_http_reply(req, HTTP_OK, "application/octet-stream", bytes.p, bytes.n);
    hw_strbuf_done(&bytes);
    hw_page_tree_done(&t);
    return rc;
}

void hw_page_heap_flame(struct hw_http_request *req, struct hw_page_trace *t)
{
    const char *object = hw_http_query(req, "object");
    bool below = object && *object;
    struct hw_error err = {0};
    struct hw_page_tree_options q = {0};
    uint32_t o = 0;
    const struct hw_heap_graph *g = hw_page_graph(t, req, "", &err);
    int rc = g ? hw_page_tree_options_read(req, &q, &err) : HW_ENOTFOUND;
    if (rc == HW_OK && below)
        rc = hw_page_object(req, g, "object", &o, &err);
    struct hw_page_heap *h = NULL;
    if (rc == HW_OK) {
        h = hw_page_heap_get(req, t, g,
                             hw_page_heap_needs(&q) | (below ? 0 : 1U << hw_page_heap_tree_of(&q)));
        if (!h)
            return;
    }
    hw_heap_tree part = {0};
    if (h && below) {
        uint32_t top = q.dominators ? h->dominators.position[o] : h->path_position[o];
        rc = top == HW_ID_NONE ? hw_fail(&err, HW_EINVAL, 0,
                                         "this object is unreachable: there is nothing below it")
                               : tree_below(h, &q, top, &part);
    }
    if (rc == HW_OK)
        rc = reply(req, h, below ? &part : &h->trees[hw_page_heap_tree_of(&q)], &q);
    hw_vec_done(&part);
    if (rc < 0)
        hw_page_reply_error(req, &err, rc);
}

/* ---- paths ---- */

enum path_order { BY_SIZE, BY_COUNT, BY_BELOW };

struct path_sort {
    const hw_heap_tree *tree;
    enum path_order by;
};

static int64_t path_key(const struct path_sort *s, uint32_t node)
{
    const struct hw_heap_node *n = &s->tree->v[node];
    return s->by == BY_SIZE ? n->size : s->by == BY_COUNT ? n->count : n->cumulative_size;
}

static int compare_paths(const void *pa, const void *pb, void *ctx)
{
    uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;
    int64_t x = path_key(ctx, a), y = path_key(ctx, b);
    return x != y ? (x < y ? 1 : -1) : (a > b) - (a < b);
}

/* A linked list has paths of a million nodes: the middle of long ones is omitted. */
enum { PATH_ENDS = 40 };

static void put_path(struct hw_json *j, const struct hw_page_heap *h, const hw_heap_tree *tree,
                     uint32_t node)
{
    HW_VEC(uint32_t) up = {0};
    struct hw_strbuf text = {0};
    for (uint32_t at = node; at != HW_ID_NONE; at = tree->v[at].parent)
        if (hw_vec_push(&up, at) < 0)
            j->error = HW_ENOMEM;
    hw_json_begin_array(j);
    for (size_t i = up.n; i-- > 0;) {
        if (up.n > 2 * PATH_ENDS && i == up.n - 1 - PATH_ENDS) {
            hw_strbuf_clear(&text);
            hw_strbuf_addf(&text, "(%zu more)", up.n - 2 * PATH_ENDS);
            hw_json_strn(j, text.p ? text.p : "", text.n);
            i = PATH_ENDS; /* the loop continues after it */
            continue;
        }
        hw_strbuf_clear(&text);
        hw_heap_node_name(h->p, h->g, &tree->v[up.v[i]], HW_FOLD_FLAME, &text);
        hw_json_strn(j, text.p ? text.p : "", text.n);
    }
    hw_json_end_array(j);
    hw_vec_done(&up);
    hw_strbuf_done(&text);
}

static void put_paths(struct hw_json *j, struct hw_http_request *req, const struct hw_page_heap *h,
                      const hw_heap_tree *tree, uint32_t *rows)
{
    const char *name = hw_http_query(req, "class"), *by = hw_http_query(req, "sort");
    struct hw_bytes class_name = hw_bytes_str(name ? name : "");
    struct path_sort sort = {tree, by && strcmp(by, "count") == 0   ? BY_COUNT
                                   : by && strcmp(by, "below") == 0 ? BY_BELOW
                                                                    : BY_SIZE};
    uint64_t offset = hw_page_number(req, "offset", 0), limit = hw_page_number(req, "limit", 200);
    struct hw_heap_sum sum = {0};
    size_t n = 0;
    for (uint32_t i = 0; i < tree->n; i++) {
        const struct hw_heap_node *node = &tree->v[i];
        struct hw_bytes is = hw_page_class_name(h, node->class);
        if (node->is_native || (class_name.n && (is.n != class_name.n ||
                                                 memcmp(is.p, class_name.p, class_name.n) != 0)))
            continue;
        sum.count += node->count;
        sum.size += node->size;
        rows[n++] = i;
    }
    if (n)
        qsort_r(rows, n, sizeof *rows, compare_paths, &sort);
    hw_json_begin_object(j);
    hw_json_kv_uint(j, "rows", n);
    hw_json_kv_int(j, "count", sum.count);
    hw_json_kv_int(j, "size", sum.size);
    hw_json_key(j, "data");
    hw_json_begin_array(j);
    for (uint64_t i = offset; i < n && i - offset < limit; i++) {
        hw_json_begin_array(j);
        put_path(j, h, tree, rows[i]);
        hw_json_int(j, tree->v[rows[i]].count);
        hw_json_int(j, tree->v[rows[i]].size);
        hw_json_int(j, tree->v[rows[i]].cumulative_size);
        hw_json_end_array(j);
    }
    hw_json_end_array(j);
    hw_json_end_object(j);
}

void hw_page_heap_paths(struct hw_http_request *req, struct hw_page_trace *t)
{
    bool folded = hw_page_number(req, "collapse", 0) == 1;
    enum hw_page_heap_part part = folded ? HW_PAGE_HEAP_PATH_TREE_FOLDED : HW_PAGE_HEAP_PATH_TREE;
    struct hw_page_heap *h = hw_page_heap_requested(req, t, HW_PAGE_NEED_PATHS | 1U << part);
    if (!h)
        return;
    hw_autofree uint32_t *rows = malloc((h->trees[part].n + 1) * sizeof *rows);
    if (!rows) {
        hw_http_reply_text(req, HTTP_ERROR, hw_errc_text(HW_ENOMEM));
        return;
    }
    struct hw_json j;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    put_paths(&j, req, h, &h->trees[part], rows);
    hw_page_reply_json(req, &j);
}

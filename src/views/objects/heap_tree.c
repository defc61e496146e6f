/*
 * Objects are visited in the tree's order, parents first, so that a node is found by (node of the
 * parent, label). Labels are made of (name, root type, heap, native).
 *
 * The order of HW_FOLD_FLAME is that of a depth-first walk, but there is no walk: one pass from the
 * back computes the size of each object's subtree, one pass from the front each object's position
 * in such a walk; nodes are sorted by the position of their first object. Children of one parent
 * must be in the order of the walk, which is so in both trees.
 */
#include "views/objects/heap_tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "base/memory/radix.h"
#include "views/objects/heap_paths.h"
#include "views/time/values.h"
#include "views/tree.h"

#include "base/banned.h"

enum { NATIVE = 1, ROOT_SHIFT = 1, HEAP_SHIFT = 6, NAME_SHIFT = 8 };
enum { AHEAD = 16 };

struct fold {
    const struct hw_heap_graph *g;
    enum hw_heap_fold how;
    uint32_t *name_of;               /* by class: the first class of that name */
    struct hw_tree_index index;      /* by name, root, heap, native */
    HW_VEC(uint64_t) first_position; /* by node: position in the walk */
    hw_heap_tree tree;
};

static int name_classes(struct fold *f)
{
    struct hw_map64 first = {0};
    int rc = HW_OK;
    f->name_of = malloc(((size_t)f->g->n_classes + 1) * sizeof *f->name_of);
    if (!f->name_of)
        return HW_ENOMEM;
    for (uint32_t c = 0; rc == HW_OK && c < f->g->n_classes; c++) {
        uint64_t *at;
        bool fresh;
        rc = hw_map64_at(&first, hw_class_shown_name(&f->g->classes[c]).v, &at, &fresh);
        if (rc < 0)
            break;
        if (fresh)
            *at = c;
        f->name_of[c] = (uint32_t)*at;
    }
    hw_map64_done(&first);
    return rc;
}

static int find_node(struct fold *f, const struct hw_heap_node *like, uint64_t label,
                     uint64_t position, uint32_t *out)
{
    int rc = hw_tree_index_find(&f->index, like->parent, label, (uint32_t)f->tree.n, out);
    if (rc < 0 || *out < f->tree.n)
        return rc;
    if (f->tree.n >= HW_ID_NONE - 1 || hw_vec_push(&f->tree, *like) < 0 ||
        hw_vec_push(&f->first_position, position) < 0)
        return HW_ENOMEM;
    return HW_OK;
}

static void add(struct fold *f, uint32_t node, uint64_t position, int64_t size)
{
    struct hw_heap_node *n = &f->tree.v[node];
    n->count++;
    n->size = hw_sat_add(n->size, size);
    if (position < f->first_position.v[node])
        f->first_position.v[node] = position;
}

static int fold_object(struct fold *f, uint32_t o, uint32_t parent_node, uint64_t position,
                       uint32_t *out)
{
    const struct hw_heap_graph *g = f->g;
    struct hw_heap_node like = {.parent = parent_node,
                                .class = f->name_of[g->type[o]],
                                .root = g->flags[o] & HW_OBJECT_ROOT,
                                .heap = (uint8_t)hw_object_heap_type(g, o)};
    uint64_t key = (uint64_t)like.class << NAME_SHIFT;
    int rc = HW_OK;
    if (parent_node != HW_ID_NONE)
        like.depth = f->tree.v[parent_node].depth + 1;
    if (f->how == HW_FOLD_FLAME || parent_node == HW_ID_NONE)
        key |= (uint64_t)like.root << ROOT_SHIFT;
    if (f->how == HW_FOLD_CLASSES)
        key |= (uint64_t)like.heap << HEAP_SHIFT;
    if (f->how == HW_FOLD_CLASSES && parent_node != HW_ID_NONE &&
        f->tree.v[parent_node].class == like.class)
        *out = parent_node;
    else
        rc = find_node(f, &like, key, 2 * position, out);
    if (rc < 0)
        return rc;
    add(f, *out, 2 * position, hw_object_weight(g, o));
    int64_t native = hw_object_native_size(g, o);
    if (native == 0)
        return HW_OK;
    uint32_t node;
    like.parent = *out;
    like.depth = f->tree.v[*out].depth + 1;
    like.is_native = true;
    rc = find_node(f, &like, key | NATIVE, 2 * position + 1, &node);
    if (rc == HW_OK)
        add(f, node, 2 * position + 1, native);
    return rc;
}

/* position[i]: the number of objects in i's subtree. */
static void count_subtrees(const uint32_t *parent, size_t n, uint32_t *position)
{
    for (size_t i = 0; i < n; i++)
        position[i] = 1;
    for (size_t i = n; i-- > 0;)
        if (parent[i] != HW_ID_NONE)
            position[parent[i]] += position[i];
}

static void prefetch(const struct hw_heap_graph *g, uint32_t o)
{
    __builtin_prefetch(&g->type[o]);
    __builtin_prefetch(&g->flags[o]);
    __builtin_prefetch(&g->size[o]);
    __asm__ volatile(""); /* as in hw_prefetch_write() */
}

/* Before i is visited, position[i] is its subtree's size; afterwards the position of its next
 * child. */
static int fold_all(struct fold *f, const uint32_t *object, const uint32_t *parent, size_t n)
{
    hw_autofree uint32_t *position = malloc((n + 1) * sizeof *position);
    hw_autofree uint32_t *node_of = malloc((n + 1) * sizeof *node_of);
    uint32_t next_root = 0;
    int rc = position && node_of ? HW_OK : HW_ENOMEM;
    if (rc < 0)
        return rc;
    count_subtrees(parent, n, position);
    for (size_t i = 0; rc == HW_OK && i < n; i++) {
        bool is_top = parent[i] == HW_ID_NONE;
        if (i + AHEAD < n)
            prefetch(f->g, object[i + AHEAD]);
        uint32_t *next = is_top ? &next_root : &position[parent[i]], mine = *next;
        *next += position[i];
        position[i] = mine + 1;
        rc = fold_object(f, object[i], is_top ? HW_ID_NONE : node_of[parent[i]], mine, &node_of[i]);
    }
    return rc;
}

/* Sorts nodes in the order of the walk, in which parents come before their children. */
static int reorder(struct fold *f)
{
    size_t n = f->tree.n;
    hw_autofree struct hw_radix16 *order = malloc((n + 1) * sizeof *order);
    hw_autofree uint32_t *renamed = malloc((n + 1) * sizeof *renamed);
    struct hw_heap_node *sorted = malloc((n + 1) * sizeof *sorted);
    int rc = order && renamed && sorted ? HW_OK : HW_ENOMEM;
    for (size_t i = 0; rc == HW_OK && i < n; i++)
        order[i] = (struct hw_radix16){f->first_position.v[i], (uint32_t)i, 0};
    if (rc == HW_OK && n)
        rc = hw_radix_sort16(order, n);
    if (rc < 0) {
        free(sorted);
        return rc;
    }
    for (size_t i = 0; i < n; i++)
        renamed[order[i].a] = (uint32_t)i;
    for (size_t i = 0; i < n; i++) {
        sorted[i] = f->tree.v[order[i].a];
        if (sorted[i].parent != HW_ID_NONE)
            sorted[i].parent = renamed[sorted[i].parent];
    }
    free(f->tree.v);
    f->tree.v = sorted;
    f->tree.cap = n + 1;
    return HW_OK;
}

static void cumulate(hw_heap_tree *t)
{
    for (size_t i = 0; i < t->n; i++) {
        t->v[i].cumulative_count = t->v[i].count;
        t->v[i].cumulative_size = t->v[i].size;
    }
    for (size_t i = t->n; i-- > 0;) {
        const struct hw_heap_node *n = &t->v[i];
        if (n->parent == HW_ID_NONE)
            continue;
        struct hw_heap_node *up = &t->v[n->parent];
        up->cumulative_count += n->cumulative_count;
        up->cumulative_size = hw_sat_add(up->cumulative_size, n->cumulative_size);
    }
}

int hw_heap_tree_fold(const struct hw_heap_graph *g, const uint32_t *object, const uint32_t *parent,
                      size_t n, enum hw_heap_fold how, hw_heap_tree *out)
{
    struct fold f = {.g = g, .how = how};
    int rc = name_classes(&f);
    if (rc == HW_OK)
        rc = fold_all(&f, object, parent, n);
    if (rc == HW_OK)
        rc = reorder(&f);
    if (rc == HW_OK)
        cumulate(&f.tree);
    free(f.name_of);
    hw_tree_index_done(&f.index);
    hw_vec_done(&f.first_position);
    if (rc < 0) {
        hw_vec_done(&f.tree);
        return rc;
    }
    *out = f.tree;
    return HW_OK;
}

void hw_heap_node_name(const struct hw_profile *p, const struct hw_heap_graph *g,
                       const struct hw_heap_node *n, enum hw_heap_fold how, struct hw_strbuf *out)
{
    struct hw_bytes name = hw_strings_get(hw_callsites_strings(p->callsites),
                                          hw_class_shown_name(&g->classes[n->class]));
    if (n->is_native)
        hw_strbuf_adds(out, "[native] ");
    hw_strbuf_add(out, name.p, name.n);
    if (n->root && how == HW_FOLD_FLAME)
        hw_strbuf_addf(out, " [%s]", hw_root_type_name((enum hw_root_type)(n->root - 1)));
}

/* ---- focus ---- */

struct focus {
    const struct hw_profile *p;
    const struct hw_heap_graph *g;
    const char *text;
    struct hw_strbuf name; /* of the current node */
};

static bool matches(void *ctx, const void *node)
{
    struct focus *f = ctx;
    hw_strbuf_clear(&f->name);
    hw_heap_node_name(f->p, f->g, node, HW_FOLD_FLAME, &f->name);
    return f->name.n && strcasestr(f->name.p, f->text) != NULL;
}

static int focus_on(const struct hw_profile *p, const struct hw_heap_graph *g, const char *text,
                    hw_heap_tree *t)
{
    struct focus focus = {p, g, text, {0}};
    const struct hw_tree_focus f = {sizeof *t->v, matches, &focus};
    int rc = hw_tree_focus(&f, t->v, &t->n);
    bool failed = focus.name.failed;
    hw_strbuf_done(&focus.name);
    return failed ? HW_ENOMEM : rc;
}

int hw_heap_tree_flame(const struct hw_profile *p, const struct hw_heap_graph *g, const char *focus,
                       hw_heap_tree *out)
{
    struct hw_heap_paths paths;
    hw_heap_tree tree = {0};
    int rc = hw_heap_paths_build(p, g, &paths);
    if (rc < 0)
        return rc;
    rc = hw_heap_tree_fold(g, paths.object, paths.parent, paths.n, HW_FOLD_FLAME, &tree);
    hw_heap_paths_done(&paths);
    if (rc == HW_OK && focus) {
        rc = focus_on(p, g, focus, &tree);
        cumulate(&tree);
    }
    if (rc < 0) {
        hw_vec_done(&tree);
        return rc;
    }
    *out = tree;
    return HW_OK;
}

const struct hw_heap_graph *hw_heap_graph_at(const struct hw_profile *p, hw_upid upid,
                                             int64_t ts_ns)
{
    for (size_t i = 0; i < p->graphs.n; i++)
        if (p->graphs.v[i]->upid.v == upid.v && p->graphs.v[i]->ts_ns == ts_ns)
            return p->graphs.v[i];
    return NULL;
}

const struct hw_heap_graph *hw_heap_graph_of(const struct hw_profile *p, hw_upid upid)
{
    const struct hw_heap_graph *best = NULL;
    for (size_t i = 0; i < p->graphs.n; i++) {
        const struct hw_heap_graph *g = p->graphs.v[i];
        if (g->upid.v == upid.v && (!best || g->is_oome || !best->is_oome))
            best = g;
    }
    return best;
}

const struct hw_heap_graph *hw_heap_graph_pick(const struct hw_profile *p, int64_t pid)
{
    const struct hw_heap_graph *best = NULL;
    for (size_t i = 0; i < p->graphs.n; i++) {
        const struct hw_heap_graph *g = p->graphs.v[i];
        if (pid >= 0 && p->processes.v[g->upid.v].pid != pid)
            continue;
        if (!best || g->upid.v == best->upid.v || g->n_objects > best->n_objects)
            best = g;
    }
    return best ? hw_heap_graph_of(p, best->upid) : NULL;
}

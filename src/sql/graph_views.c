#include "sql/graph_views.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/memory/map64.h"
#include "views/time/values.h"

#include "base/banned.h"

int hw_graph_views_dominators(struct hw_graph_views *v)
{
    size_t n = v->profile->graphs.n;
    if (v->dominators)
        return HW_OK;
    struct hw_dominators *all = calloc(n + 1, sizeof *all);
    int rc = all ? HW_OK : HW_ENOMEM;
    for (size_t i = 0; rc == HW_OK && i < n; i++)
        rc = hw_dominators_build(v->profile->graphs.v[i], &all[i]);
    for (size_t i = 0; rc < 0 && all && i < n; i++)
        hw_dominators_done(&all[i]);
    if (rc < 0)
        free(all);
    else
        v->dominators = all;
    return rc;
}

/* ---- paths ---- */

static int path_of_graph(const struct hw_profile *p, const struct hw_heap_graph *g,
                         uint32_t *parent, struct hw_path_sum *sum)
{
    struct hw_heap_paths t;
    int rc = hw_heap_paths_build(p, g, &t);
    if (rc < 0)
        return rc;
    for (uint32_t o = 0; o < g->n_objects; o++)
        parent[o] = HW_ID_NONE;
    for (size_t i = t.n; i-- > 0;) {
        uint32_t o = t.object[i];
        struct hw_path_sum *s = &sum[o];
        s->size = hw_sat_add(s->size, hw_object_weight(g, o));
        s->native = hw_sat_add(s->native, hw_object_native_size(g, o));
        s->count++;
        if (t.parent[i] == HW_ID_NONE)
            continue;
        parent[o] = t.object[t.parent[i]];
        struct hw_path_sum *up = &sum[parent[o]];
        up->size = hw_sat_add(up->size, s->size);
        up->native = hw_sat_add(up->native, s->native);
        up->count += s->count;
    }
    hw_heap_paths_done(&t);
    return HW_OK;
}

static void free_all(void **v, size_t n)
{
    for (size_t i = 0; v && i < n; i++)
        free(v[i]);
    free(v);
}

int hw_graph_views_paths(struct hw_graph_views *v)
{
    size_t n = v->profile->graphs.n;
    if (v->path_parent)
        return HW_OK;
    uint32_t **parents = calloc(n + 1, sizeof *parents);
    struct hw_path_sum **sums = calloc(n + 1, sizeof *sums);
    int rc = parents && sums ? HW_OK : HW_ENOMEM;
    for (size_t i = 0; rc == HW_OK && i < n; i++) {
        const struct hw_heap_graph *g = v->profile->graphs.v[i];
        parents[i] = malloc(((size_t)g->n_objects + 1) * sizeof **parents);
        sums[i] = calloc((size_t)g->n_objects + 1, sizeof **sums);
        rc = parents[i] && sums[i] ? path_of_graph(v->profile, g, parents[i], sums[i]) : HW_ENOMEM;
    }
    if (rc < 0) {
        free_all((void **)parents, n);
        free_all((void **)sums, n);
        return rc;
    }
    v->path_parent = parents;
    v->path_sum = sums;
    return HW_OK;
}

/* ---- by class ---- */

int hw_graph_views_sums(struct hw_graph_views *v)
{
    size_t n = v->profile->graphs.n;
    if (v->sums)
        return HW_OK;
    int rc = hw_graph_views_dominators(v);
    struct hw_class_sum **sums = rc == HW_OK ? calloc(n + 1, sizeof *sums) : NULL;
    if (rc == HW_OK && !sums)
        rc = HW_ENOMEM;
    for (size_t i = 0; rc == HW_OK && i < n; i++) {
        const struct hw_heap_graph *g = v->profile->graphs.v[i];
        sums[i] = calloc((size_t)g->n_classes + 1, sizeof **sums);
        rc = sums[i] ? hw_heap_class_sums(g, &v->dominators[i], sums[i]) : HW_ENOMEM;
    }
    if (rc < 0)
        free_all((void **)sums, n);
    else
        v->sums = sums;
    return rc;
}

/* ---- folded trees ---- */

static int name_row(struct hw_graph_views *v, struct hw_tree_row *row)
{
    const struct hw_strings *strings = hw_callsites_strings(v->profile->callsites);
    const struct hw_heap_class *c = &row->graph->classes[row->node.class];
    struct hw_strbuf text = {0};
    row->name = hw_strings_get(strings, hw_class_shown_name(c));
    if (!row->node.is_native)
        return HW_OK;
    hw_heap_node_name(v->profile, row->graph, &row->node, HW_FOLD_CLASSES, &text);
    char *copy = text.failed ? NULL : hw_arena_copy(&v->names, text.p, text.n);
    row->name = hw_bytes_of(copy, text.n);
    hw_strbuf_done(&text);
    return copy ? HW_OK : HW_ENOMEM;
}

/*
 * The identity of a node in a tree: for a top node the dump, the class, the root type and the heap;
 * below, the parent's hash, the class and the heap. native: memory outside the heap.
 */
static int64_t hash_top(const struct hw_heap_graph *g, struct hw_bytes name, uint8_t root,
                        uint64_t heap)
{
    uint64_t h = hw_hash_mix(g->upid.v, (uint64_t)g->ts_ns);
    h = hw_hash_mix(hw_hash_mix(h, hw_hash_bytes(name.p, name.n)), root);
    return (int64_t)hw_hash_mix(h, heap);
}

static int64_t hash_below(int64_t above, struct hw_bytes name, uint64_t heap)
{
    uint64_t h = hw_hash_mix((uint64_t)above, hw_hash_bytes(name.p, name.n));
    return (int64_t)hw_hash_mix(h, heap);
}

int64_t hw_native_hash(int64_t node)
{
    enum { NATIVE = 0xff };
    return (int64_t)hw_hash_mix((uint64_t)node, NATIVE);
}

static int add_tree(struct hw_graph_views *v, const struct hw_heap_graph *g,
                    const hw_heap_tree *tree, hw_tree_rows *out)
{
    size_t first = out->n;
    if (hw_vec_reserve(out, first + tree->n) < 0)
        return HW_ENOMEM;
    for (size_t i = 0; i < tree->n; i++) {
        struct hw_tree_row row = {.graph = g, .node = tree->v[i]};
        if (row.node.parent != HW_ID_NONE)
            row.node.parent += (uint32_t)first;
        int rc = name_row(v, &row);
        if (rc < 0)
            return rc;
        uint32_t up = row.node.parent;
        row.hash = up == HW_ID_NONE     ? hash_top(g, row.name, row.node.root, row.node.heap)
                   : row.node.is_native ? hw_native_hash(out->v[up].hash)
                                        : hash_below(out->v[up].hash, row.name, row.node.heap);
        out->v[out->n++] = row;
    }
    return HW_OK;
}

int hw_graph_views_path_tree(struct hw_graph_views *v)
{
    int rc = HW_OK;
    for (size_t i = 0; !v->has_paths && rc == HW_OK && i < v->profile->graphs.n; i++) {
        const struct hw_heap_graph *g = v->profile->graphs.v[i];
        struct hw_heap_paths t = {0};
        hw_heap_tree tree = {0};
        rc = hw_heap_paths_build(v->profile, g, &t);
        if (rc == HW_OK)
            rc = hw_heap_tree_fold(g, t.object, t.parent, t.n, HW_FOLD_CLASSES, &tree);
        hw_heap_paths_done(&t);
        if (rc == HW_OK)
            rc = add_tree(v, g, &tree, &v->paths);
        hw_vec_done(&tree);
    }
    if (rc < 0)
        hw_vec_clear(&v->paths);
    v->has_paths = rc == HW_OK;
    return rc;
}

int hw_graph_views_dominated_tree(struct hw_graph_views *v)
{
    int rc = v->has_dominated ? HW_OK : hw_graph_views_dominators(v);
    for (size_t i = 0; !v->has_dominated && rc == HW_OK && i < v->profile->graphs.n; i++) {
        const struct hw_heap_graph *g = v->profile->graphs.v[i];
        const struct hw_dominators *d = &v->dominators[i];
        hw_heap_tree tree = {0};
        rc = hw_heap_tree_fold(g, d->object, d->idom, d->n, HW_FOLD_CLASSES, &tree);
        if (rc == HW_OK)
            rc = add_tree(v, g, &tree, &v->dominated);
        hw_vec_done(&tree);
    }
    if (rc < 0)
        hw_vec_clear(&v->dominated);
    v->has_dominated = rc == HW_OK;
    return rc;
}

/* ---- hashes by object ---- */

static struct hw_bytes class_name(const struct hw_profile *p, const struct hw_heap_graph *g,
                                  uint32_t o)
{
    return hw_strings_get(hw_callsites_strings(p->callsites),
                          hw_class_shown_name(&g->classes[g->type[o]]));
}

struct hw_object_hash hw_object_hash_top(const struct hw_profile *p, const struct hw_heap_graph *g,
                                         uint32_t o)
{
    uint64_t heap = (uint64_t)hw_object_heap_type(g, o);
    uint8_t root = g->flags[o] & HW_OBJECT_ROOT;
    return (struct hw_object_hash){.is_there = true,
                                   .hash = hash_top(g, class_name(p, g, o), root, heap)};
}

/* As in the folded tree: an object of its parent's class is in the parent's node. */
struct hw_object_hash hw_object_hash_below(const struct hw_profile *p,
                                           const struct hw_heap_graph *g, uint32_t o,
                                           hw_str_id above, const struct hw_object_hash *parent)
{
    if (hw_class_shown_name(&g->classes[g->type[o]]).v == above.v)
        return *parent;
    uint64_t heap = (uint64_t)hw_object_heap_type(g, o);
    return (struct hw_object_hash){.is_there = true,
                                   .hash = hash_below(parent->hash, class_name(p, g, o), heap),
                                   .parent = parent->hash};
}

static void hash_objects(const struct hw_profile *p, const struct hw_heap_graph *g,
                         const uint32_t *object, const uint32_t *parent, size_t n,
                         struct hw_object_hash *out)
{
    for (size_t i = 0; i < n; i++) { /* parents come first */
        uint32_t o = object[i];
        if (parent[i] == HW_ID_NONE) {
            out[o] = hw_object_hash_top(p, g, o);
            continue;
        }
        uint32_t up = object[parent[i]];
        out[o] =
            hw_object_hash_below(p, g, o, hw_class_shown_name(&g->classes[g->type[up]]), &out[up]);
    }
}

int hw_graph_views_path_hashes(struct hw_graph_views *v)
{
    size_t n = v->profile->graphs.n;
    if (v->path_hash)
        return HW_OK;
    struct hw_object_hash **hashes = calloc(n + 1, sizeof *hashes);
    int rc = hashes ? HW_OK : HW_ENOMEM;
    for (size_t i = 0; rc == HW_OK && i < n; i++) {
        const struct hw_heap_graph *g = v->profile->graphs.v[i];
        struct hw_heap_paths t = {0};
        hashes[i] = calloc((size_t)g->n_objects + 1, sizeof **hashes);
        rc = hashes[i] ? hw_heap_paths_build(v->profile, g, &t) : HW_ENOMEM;
        if (rc == HW_OK)
            hash_objects(v->profile, g, t.object, t.parent, t.n, hashes[i]);
        hw_heap_paths_done(&t);
    }
    if (rc < 0)
        free_all((void **)hashes, n);
    else
        v->path_hash = hashes;
    return rc;
}

int hw_graph_views_dominated_hashes(struct hw_graph_views *v)
{
    size_t n = v->profile->graphs.n;
    int rc = v->dominated_hash ? HW_OK : hw_graph_views_dominators(v);
    if (v->dominated_hash || rc < 0)
        return rc;
    struct hw_object_hash **hashes = calloc(n + 1, sizeof *hashes);
    rc = hashes ? HW_OK : HW_ENOMEM;
    for (size_t i = 0; rc == HW_OK && i < n; i++) {
        const struct hw_heap_graph *g = v->profile->graphs.v[i];
        const struct hw_dominators *d = &v->dominators[i];
        hashes[i] = calloc((size_t)g->n_objects + 1, sizeof **hashes);
        rc = hashes[i] ? HW_OK : HW_ENOMEM;
        if (rc == HW_OK)
            hash_objects(v->profile, g, d->object, d->idom, d->n, hashes[i]);
    }
    if (rc < 0)
        free_all((void **)hashes, n);
    else
        v->dominated_hash = hashes;
    return rc;
}

void hw_graph_views_done(struct hw_graph_views *v)
{
    size_t n = v->profile ? v->profile->graphs.n : 0;
    for (size_t i = 0; v->dominators && i < n; i++)
        hw_dominators_done(&v->dominators[i]);
    free(v->dominators);
    free_all((void **)v->path_parent, n);
    free_all((void **)v->path_sum, n);
    free_all((void **)v->sums, n);
    free_all((void **)v->path_hash, n);
    free_all((void **)v->dominated_hash, n);
    hw_vec_done(&v->paths);
    hw_vec_done(&v->dominated);
    hw_arena_done(&v->names);
}

/*
 * Callsites are numbered parents first: one pass in order of id visits each parent before its
 * children, one pass backwards sums up. A node's label in the index is (name, module).
 */
#include "views/flame/native_tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "views/time/values.h"
#include "views/tree.h"

#include "base/banned.h"

static void add(struct hw_native_value *to, const struct hw_native_value *v)
{
    to->count = hw_sat_add(to->count, v->count);
    to->size = hw_sat_add(to->size, v->size);
    to->alloc_count = hw_sat_add(to->alloc_count, v->alloc_count);
    to->alloc_size = hw_sat_add(to->alloc_size, v->alloc_size);
}

static void sum_dump(const struct hw_profile *p, uint32_t dump, struct hw_native_value *values,
                     uint8_t *seen)
{
    size_t first, n;
    hw_profile_dump_rows(p, dump, &first, &n);
    for (size_t i = first; i < first + n; i++) {
        int64_t samples = hw_alloc_samples(&p->allocs, i), size = hw_alloc_size(&p->allocs, i);
        struct hw_native_value v = {.count = samples, .size = size};
        v.alloc_count = samples > 0 ? samples : 0;
        v.alloc_size = size > 0 ? size : 0;
        add(&values[p->allocs.callsite[i]], &v);
        seen[p->allocs.callsite[i]] = 1;
    }
}

static void sum_rows(const struct hw_profile *p, hw_upid upid, int64_t ts_ns,
                     struct hw_native_value *values, uint8_t *seen)
{
    const bool is_one = upid.v != HW_ID_NONE;
    const struct hw_process_rows dumps = hw_by_process_of(&p->dumps_of, upid);
    for (size_t i = 0; i < (is_one ? dumps.n : p->dumps.n); i++) {
        uint32_t d = is_one ? dumps.v[i] : (uint32_t)i;
        if (p->dumps.v[d].ts_ns <= ts_ns)
            sum_dump(p, d, values, seen);
    }
}

static void mark_ancestors(const struct hw_profile *p, uint8_t *seen)
{
    for (size_t c = hw_callsites_count(p->callsites); c-- > 0;) {
        const struct hw_callsite *site =
            hw_callsites_get(p->callsites, (hw_callsite_id){(uint32_t)c});
        if (seen[c] && site->parent.v != HW_ID_NONE)
            seen[site->parent.v] = 1;
    }
}

struct merge {
    struct hw_tree_index index;
    uint32_t *node_of; /* per callsite */
};

/* Finds or adds one function below its parent. */
static int merge_function(struct merge *m, struct hw_native_node n, hw_native_tree *out,
                          uint32_t *node)
{
    if (n.parent != HW_ID_NONE)
        n.depth = out->v[n.parent].depth + 1;
    uint64_t label = (uint64_t)n.name.v << 32 | n.module.v;
    int rc = hw_tree_index_find(&m->index, n.parent, label, (uint32_t)out->n, node);
    return rc == HW_OK && *node == out->n && hw_vec_push(out, n) < 0 ? HW_ENOMEM : rc;
}

/* A frame with symbols is one node for each function inlined there, outermost first. */
static int merge_callsite(struct merge *m, const struct hw_callsites *cs, uint32_t c,
                          const struct hw_native_value *self, hw_native_tree *out)
{
    const struct hw_callsite *site = hw_callsites_get(cs, (hw_callsite_id){c});
    const struct hw_frame *frame = hw_callsites_get_frame(cs, site->frame);
    const struct hw_symbol_sets *symbols = hw_callsites_get_symbol_sets(cs);
    const struct hw_symbol_line *lines;
    size_t n_lines = hw_symbol_sets_get(symbols, site->frame, &lines);
    hw_str_id clear = hw_symbol_sets_get_deobfuscated(symbols, site->frame);
    struct hw_native_node n = {.parent = HW_ID_NONE, .name = clear.v ? clear : frame->name};
    if (frame->mapping.v != HW_ID_NONE)
        n.module = hw_callsites_get_mapping(cs, frame->mapping)->path;
    if (site->parent.v != HW_ID_NONE)
        n.parent = m->node_of[site->parent.v];
    uint32_t node = 0;
    int rc = n_lines ? HW_OK : merge_function(m, n, out, &node);
    for (size_t i = n_lines; rc == HW_OK && i-- > 0;) {
        struct hw_native_node inlined = n;
        if (lines[i].function.v)
            inlined.name = lines[i].function;
        inlined.file = lines[i].file;
        inlined.line = lines[i].line;
        rc = merge_function(m, inlined, out, &node);
        n.parent = node;
    }
    if (rc < 0)
        return rc;
    m->node_of[c] = node;
    add(&out->v[node].self, self);
    return HW_OK;
}

static void cumulate(hw_native_tree *t)
{
    for (size_t i = 0; i < t->n; i++)
        t->v[i].cumulative = t->v[i].self;
    for (size_t i = t->n; i-- > 0;)
        if (t->v[i].parent != HW_ID_NONE)
            add(&t->v[t->v[i].parent].cumulative, &t->v[i].cumulative);
}

struct focus {
    const struct hw_profile *p;
    const char *text;
};

static bool matches(void *ctx, const void *node)
{
    const struct focus *f = ctx;
    const struct hw_native_node *n = node;
    return strcasestr(hw_strings_cstr(hw_callsites_strings(f->p->callsites), n->name), f->text);
}

static int focus_on(const struct hw_profile *p, const char *text, hw_native_tree *t)
{
    struct focus focus = {p, text};
    const struct hw_tree_focus f = {sizeof *t->v, matches, &focus};
    return hw_tree_focus(&f, t->v, &t->n);
}

int hw_native_tree_of(const struct hw_profile *p, const struct hw_native_value *values,
                      uint8_t *seen, const char *focus, hw_native_tree *out)
{
    size_t n = hw_callsites_count(p->callsites);
    hw_autofree uint32_t *node_of = calloc(n + 1, sizeof *node_of);
    struct merge m = {.node_of = node_of};
    hw_native_tree tree = {0};
    if (!node_of)
        return HW_ENOMEM;
    mark_ancestors(p, seen);
    int rc = HW_OK;
    for (uint32_t c = 0; rc == HW_OK && c < n; c++)
        if (seen[c])
            rc = merge_callsite(&m, p->callsites, c, &values[c], &tree);
    if (rc == HW_OK && focus)
        rc = focus_on(p, focus, &tree);
    hw_tree_index_done(&m.index);
    if (rc < 0) {
        hw_vec_done(&tree);
        return rc;
    }
    cumulate(&tree);
    *out = tree;
    return HW_OK;
}

int hw_native_tree_build(const struct hw_profile *p, hw_upid upid, int64_t ts_ns, const char *focus,
                         hw_native_tree *out)
{
    size_t n = hw_callsites_count(p->callsites);
    hw_autofree struct hw_native_value *values = calloc(n + 1, sizeof *values);
    hw_autofree uint8_t *seen = calloc(n + 1, 1);
    if (!values || !seen)
        return HW_ENOMEM;
    sum_rows(p, upid, ts_ns, values, seen);
    return hw_native_tree_of(p, values, seen, focus, out);
}

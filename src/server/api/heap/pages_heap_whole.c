/*
 * GET /api/v1/traces/ID/heap/whole and …/whole-flame: all memory of a process in one tree.
 *
 * Parameters: upid at; collapse=1. Uses the native profile's moment (moment_for) and the smaps record
 * nearest to the heap graph.
 *
 * whole        {"ts", "native_at", "mappings_at" (or null), "resident" (or null), "swapped",
 *              "parts": [[kind, name, bytes]…], "linked", "unlinked", "over"}
 * whole-flame  the same as a graph (pages_tree.h), with a group for each part
 *
 * Parts: "native", one per heap, by callstack; "managed", the heap graph by dominators, with the
 * native memory that its objects registered below them ("[native]"); "mapping", by kind;
 * "unexplained", resident and swapped memory minus all of these.
 *
 * Native memory registered by an object may also be in a native profile. If the dump names the
 * sample of a block (links), that sample is removed from its callstack: `linked` bytes. The rest of
 * the registered memory, `unlinked`, may be counted twice; its boxes say so. The managed heap and
 * native memory are in [heap] and anonymous mappings, so these mappings are not parts of their own.
 * Memory allocated but never touched is not resident: then the parts exceed resident memory by
 * `over` bytes, and nothing is unexplained.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "server/api/graph/pages_tree.h"
#include "server/api/heap/pages_heap.h"
#include "views/findings/accounting.h"
#include "views/time/span.h"
#include "views/time/values.h"

#include "base/banned.h"

enum part_kind { PART_NATIVE, PART_MANAGED, PART_MAPPING, PART_UNEXPLAINED };
static const char *const part_kinds[] = {"native", "managed", "mapping", "unexplained"};

struct part {
    enum part_kind kind;
    const char *name; /* borrowed */
    double bytes;
};

struct whole {
    struct hw_page_trace *t;
    const struct hw_page_heap *h;
    const struct hw_page_program *program;
    struct hw_page_tree_options q;
    struct hw_page_tree tree;
    HW_VEC(struct part) parts;
    hw_values linked; /* by callsite: to be removed from the native heaps */
    double n_linked, n_unlinked, managed, registered;
    bool has_profile, has_kinds, has_resident;
    int64_t native_ns, kinds_ns;
    double resident, swapped, over;
    uint32_t *name_of;       /* by function: text + 1 */
    struct hw_map64 modules; /* str_id -> text */
};

static void whole_done(struct whole *w)
{
    hw_page_tree_done(&w->tree);
    hw_vec_done(&w->parts);
    hw_vec_done(&w->linked);
    hw_map64_done(&w->modules);
    free(w->name_of);
}

static int add_group(struct whole *w, enum part_kind kind, const char *name, double self,
                     uint32_t *out)
{
    struct hw_page_node node = {
        .parent = HW_ID_NONE, .module = 1, .flags = HW_PAGE_NODE_GROUP, .self = self};
    int rc = hw_page_tree_text(&w->tree, name, strlen(name), &node.name);
    if (rc < 0)
        return rc;
    *out = (uint32_t)w->tree.v.n;
    if (hw_vec_push(&w->tree.v, node) < 0 ||
        hw_vec_push(&w->parts, (struct part){kind, name, self}))
        return HW_ENOMEM;
    return HW_OK;
}

/* ---- native heaps ---- */

static int by_callsite(const void *pa, const void *pb)
{
    uint32_t a = ((const struct hw_callsite_value *)pa)->callsite.v;
    uint32_t b = ((const struct hw_callsite_value *)pb)->callsite.v;
    return (a > b) - (a < b);
}

static int collect_links(struct whole *w)
{
    const struct hw_heap_graph *g = w->h->g;
    for (size_t i = 0; i < g->links.n; i++) {
        const struct hw_heap_link *l = &g->links.v[i];
        struct hw_callsite_value v = {.callsite = l->callsite, .v.space = l->sample_size};
        if (hw_vec_push(&w->linked, v) < 0)
            return HW_ENOMEM;
    }
    if (w->linked.n)
        qsort(w->linked.v, w->linked.n, sizeof *w->linked.v, by_callsite);
    return HW_OK;
}

/* Both are sorted by callsite. Removed values are not removed again from the next heap. */
static void remove_linked(struct whole *w, hw_values *values)
{
    size_t k = 0;
    for (size_t i = 0; i < values->n; i++) {
        struct hw_callsite_value *v = &values->v[i];
        while (k < w->linked.n && w->linked.v[k].callsite.v < v->callsite.v)
            k++;
        for (; k < w->linked.n && w->linked.v[k].callsite.v == v->callsite.v; k++) {
            int64_t *have = &v->v.space, *take = &w->linked.v[k].v.space;
            int64_t n = *take < *have ? *take : *have;
            if (n <= 0)
                continue;
            *have -= n;
            *take -= n;
            w->n_linked += (double)n;
        }
    }
}

static int text_of_module(struct whole *w, hw_str_id module, uint32_t *out)
{
    uint64_t *at;
    bool fresh;
    int rc = hw_map64_at(&w->modules, (uint64_t)module.v + 1, &at, &fresh);
    if (rc == HW_OK && fresh) {
        const char *path = hw_page_module(w->t, w->program, module);
        uint32_t id = 1;
        rc = hw_page_tree_text(&w->tree, path, strlen(path), &id);
        *at = id;
    }
    if (rc == HW_OK)
        *out = (uint32_t)*at;
    return rc;
}

static int name_frame(struct whole *w, uint32_t function, struct hw_page_node *node)
{
    const struct hw_function *f = hw_functions_get(w->t->functions, function);
    if (!w->name_of[function]) {
        const char *label = hw_page_label(w->t, w->program, function);
        uint32_t id;
        int rc = hw_page_tree_text(&w->tree, label, strlen(label), &id);
        if (rc < 0)
            return rc;
        w->name_of[function] = id + 1;
    }
    node->name = w->name_of[function] - 1;
    node->flags = f->name.v == 0 ? HW_PAGE_NODE_UNNAMED : 0;
    return text_of_module(w, hw_function_where(f), &node->module);
}

static int add_flame(struct whole *w, const struct hw_flame *f, uint32_t group)
{
    uint32_t first = (uint32_t)w->tree.v.n;
    int rc = HW_OK;
    for (uint32_t i = 1; rc == HW_OK && i < f->v.n; i++) {
        const struct hw_value *self = hw_flame_self(f, i);
        uint32_t parent = f->v.v[i].parent;
        struct hw_page_node node = {.parent = parent == 0 ? group : first + parent - 1,
                                    .module = 1,
                                    .self = self->space > 0 ? (double)self->space : 0,
                                    .samples = (double)self->samples};
        rc = name_frame(w, f->v.v[i].function, &node);
        if (rc == HW_OK && hw_vec_push(&w->tree.v, node) < 0)
            rc = HW_ENOMEM;
    }
    return rc;
}

static int add_native_heap(struct whole *w, const struct hw_series *s,
                           const struct hw_process_moment *m)
{
    const struct hw_span span = {.upid = s->upid,
                                 .one_heap = true,
                                 .heap_name = s->heap_name,
                                 .ts_ns = m->ts_ns,
                                 .at_max = m->at_max};
    struct hw_flame flame = {0};
    hw_values values = {0};
    uint32_t group;
    const char *name = hw_page_string(w->t, s->heap_name);
    int rc = hw_span_values(w->t->profile, &w->t->list, &span, &values);
    if (rc == HW_OK) {
        remove_linked(w, &values);
        rc = hw_flame_build(w->t->profile->callsites, w->t->functions, &values, HW_FLAME_SITES,
                            &flame);
    }
    double bytes = 0;
    for (size_t i = 0; rc == HW_OK && i < values.n; i++)
        bytes += values.v[i].v.space > 0 ? (double)values.v[i].v.space : 0;
    if (rc == HW_OK)
        rc = add_group(w, PART_NATIVE, *name ? name : "unknown heap", 0, &group);
    if (rc == HW_OK) {
        w->parts.v[w->parts.n - 1].bytes = bytes;
        if (flame.v.n)
            w->tree.v.v[group].self = (double)hw_flame_self(&flame, 0)->space;
        rc = add_flame(w, &flame, group);
    }
    hw_flame_done(&flame);
    hw_vec_done(&values);
    return rc;
}

/* The nearest, or, of a graph with links, the first behind it: its samples were looked up there. */
static const struct hw_process_moment *moment_for(const struct hw_process_view *v,
                                                  const struct hw_heap_graph *g)
{
    const struct hw_process_moment *best = v->moments.n ? NULL : hw_process_view_peak(v);
    int64_t ts_ns = g->ts_ns;
    for (size_t i = 0; i < v->moments.n; i++) {
        const struct hw_process_moment *m = &v->moments.v[i];
        if (g->links.n && m->ts_ns >= ts_ns)
            return m;
        if (!best ||
            fabs((double)m->ts_ns - (double)ts_ns) < fabs((double)best->ts_ns - (double)ts_ns))
            best = m;
    }
    return best;
}

static int add_native(struct whole *w)
{
    const struct hw_heap_graph *g = w->h->g;
    const struct hw_process_view *v = hw_page_view(w->t, g->upid);
    const struct hw_process_moment *m = v ? moment_for(v, g) : NULL;
    int rc = collect_links(w);
    w->program = hw_page_program_of(w->t, g->upid);
    w->name_of = calloc(w->t->n_labels + 1, sizeof *w->name_of);
    if (!w->name_of)
        return HW_ENOMEM;
    if (!m)
        return rc;
    w->native_ns = m->ts_ns;
    const struct hw_process_rows heaps = hw_series_of(&w->t->list, g->upid);
    for (size_t i = 0; rc == HW_OK && i < heaps.n; i++) {
        const struct hw_series *s = &w->t->list.v.v[heaps.v[i]];
        if (s->kind != HW_HEAP_NATIVE)
            continue; /* the live memory of managed heaps is in the heap graph */
        w->has_profile = true;
        rc = add_native_heap(w, s, m);
    }
    return rc;
}

/* ---- managed heap and mappings ---- */

static int add_managed(struct whole *w)
{
    struct hw_class_sum sum = hw_heap_graph_sum(w->h->g);
    const hw_heap_tree *tree = &w->h->trees[hw_page_heap_tree_of(&w->q)];
    uint32_t group;
    w->managed = (double)sum.reachable.size;
    w->registered = (double)sum.reachable.native;
    /* May be negative: a sample represents more or less than its block. */
    w->n_unlinked = w->has_profile ? fmax(0, w->registered - w->n_linked) : 0;
    double lost = (double)(sum.all.size - sum.reachable.size);
    int rc = add_group(w, PART_MANAGED, "managed heap", 0, &group);
    if (rc == HW_OK) {
        w->parts.v[w->parts.n - 1].bytes = w->managed + w->registered;
        rc = hw_page_heap_add_tree(&w->tree, w->h, tree, &w->q, group,
                                   w->n_unlinked > 0 ? HW_PAGE_NODE_TWICE : 0);
    }
    if (rc == HW_OK && lost > 0)
        rc = add_group(w, PART_MANAGED, "unreachable objects", lost, &group);
    return rc;
}

static void find_resident(struct whole *w, const struct hw_account_mappings *kinds)
{
    const struct hw_profile *p = w->t->profile;
    const struct hw_heap_graph *g = w->h->g;
    double best = INFINITY;
    for (int k = 0; w->has_kinds && k < HW_ACCOUNT_KIND_COUNT; k++) {
        w->resident += (double)kinds[k].rss;
        w->swapped += (double)kinds[k].swap;
    }
    w->has_resident = w->has_kinds && w->resident > 0;
    const struct hw_process_rows rows = hw_by_process_of(&p->counters_of, g->upid);
    for (size_t i = 0; !w->has_kinds && i < rows.n; i++) {
        const struct hw_counter_row *c = &p->counters.v[rows.v[i]];
        double away = fabs((double)c->ts_ns - (double)g->ts_ns);
        if (away >= best || strcmp(hw_page_string(w->t, c->name), "mem.rss") != 0)
            continue;
        best = away;
        w->resident = c->value;
    }
    w->has_resident = w->has_resident || best < INFINITY;
}

static int add_mappings(struct whole *w)
{
    static const char *const names[HW_ACCOUNT_KIND_COUNT] = {
        [HW_ACCOUNT_KIND_STACK] = "stacks",
        [HW_ACCOUNT_KIND_FILE] = "code and files",
        [HW_ACCOUNT_KIND_SHARED] = "shared memory",
        [HW_ACCOUNT_KIND_PROFILER] = "the profiler's own",
        [HW_ACCOUNT_KIND_OTHER] = "other mappings"};
    struct hw_account_mappings kinds[HW_ACCOUNT_KIND_COUNT] = {0};
    uint32_t group;
    int rc = HW_OK;
    w->has_kinds =
        hw_account_kinds_at(w->t->profile, w->h->g->upid, w->h->g->ts_ns, kinds, &w->kinds_ns);
    find_resident(w, kinds);
    for (int k = 0; rc == HW_OK && w->has_kinds && k < HW_ACCOUNT_KIND_COUNT; k++)
        if (names[k])
            rc = add_group(w, PART_MAPPING, names[k], (double)kinds[k].rss + (double)kinds[k].swap,
                           &group);
    if (rc < 0 || !w->has_resident)
        return rc;
    double rest = w->resident + w->swapped;
    for (size_t i = 0; i < w->parts.n; i++)
        rest -= w->parts.v[i].bytes;
    w->over = rest < 0 ? -rest : 0;
    return add_group(w, PART_UNEXPLAINED, "not explained", rest > 0 ? rest : 0, &group);
}

/* False: the request was answered. */
static bool make(struct hw_http_request *req, struct hw_page_trace *t, struct whole *w)
{
    *w = (struct whole){
        .t = t, .q = {.dominators = true, .collapse = hw_page_number(req, "collapse", 0) == 1}};
    w->h =
        hw_page_heap_requested(req, t, HW_PAGE_NEED_DOMINATORS | 1U << hw_page_heap_tree_of(&w->q));
    if (!w->h)
        return false;
    int rc = hw_page_tree_init(&w->tree);
    w->tree.ts_ns = (double)w->h->g->ts_ns;
    if (rc == HW_OK)
        rc = add_native(w);
    if (rc == HW_OK)
        rc = add_managed(w);
    if (rc == HW_OK)
        rc = add_mappings(w);
    if (rc == HW_OK)
        return true;
    hw_http_reply_text(req, HTTP_ERROR, hw_errc_text(rc));
    whole_done(w);
    return false;
}

static void put_known(struct hw_json *j, const char *key, bool known, double v)
{
    hw_json_key(j, key);
    if (known)
        hw_json_double(j, v);
    else
        hw_json_null(j);
}

void hw_page_heap_whole(struct hw_http_request *req, struct hw_page_trace *t)
{
    struct whole w;
    struct hw_json j;
    if (!make(req, t, &w))
        return;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    hw_json_begin_object(&j);
    hw_json_kv_int(&j, "ts", w.h->g->ts_ns);
    put_known(&j, "native_at", w.has_profile, (double)w.native_ns);
    put_known(&j, "mappings_at", w.has_kinds, (double)w.kinds_ns);
    put_known(&j, "resident", w.has_resident, w.resident);
    hw_json_kv_double(&j, "swapped", w.swapped);
    hw_json_kv_double(&j, "registered", w.registered);
    hw_json_kv_double(&j, "linked", w.n_linked);
    hw_json_kv_double(&j, "unlinked", w.n_unlinked);
    hw_json_kv_double(&j, "over", w.over);
    hw_json_key(&j, "parts");
    hw_json_begin_array(&j);
    for (size_t i = 0; i < w.parts.n; i++) {
        hw_json_begin_array(&j);
        hw_json_str(&j, part_kinds[w.parts.v[i].kind]);
        hw_json_str(&j, w.parts.v[i].name);
        hw_json_double(&j, w.parts.v[i].bytes);
        hw_json_end_array(&j);
    }
    hw_json_end_array(&j);
    hw_json_end_object(&j);
    hw_page_reply_json(req, &j);
    whole_done(&w);
}

void hw_page_heap_whole_flame(struct hw_http_request *req, struct hw_page_trace *t)
{
    struct whole w;
    struct hw_strbuf bytes = {0};
    if (!make(req, t, &w))
        return;
    int rc = hw_page_tree_put(&w.tree, 0, &bytes);
    if (rc == HW_OK)
        hw_http_reply(req, HTTP_OK, "application/octet-stream", bytes.p, bytes.n);
    else
        hw_http_reply_text(req, HTTP_ERROR, hw_errc_text(rc));
    hw_strbuf_done(&bytes);
    whole_done(&w);
}

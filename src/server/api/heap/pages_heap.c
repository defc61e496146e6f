/*
 * GET /api/v1/traces/ID/heap/NAME: dumps of managed heaps, as an overview and by class.
 *
 * dumps     every dump of the trace, and the problems found while reading graphs
 * overview  upid at: sums, heaps, kinds of roots
 * classes   upid at sort order match offset limit: rows
 *           [id, name, raw name or "", kind, location, count, size, native, retained,
 *           retained native, retained count, unreachable count, unreachable size]; figures are of
 *           reachable objects unless they say otherwise. Ids of objects and classes are those of
 *           SQL.
 *
 * Long computations are answered by 202 {"working", "done", "parts"} until done (pages_heap.h).
 */
#include "server/api/heap/pages_heap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "views/time/values.h"

#include "base/banned.h"

enum { DEFAULT_ROWS = 200 };

/* ---- parameters, names ---- */

uint64_t hw_page_number(struct hw_http_request *req, const char *name, uint64_t otherwise)
{
    const char *text = hw_http_query(req, name);
    char *end;
    unsigned long long v = text ? strtoull(text, &end, 10) : 0;
    return text && *text && !*end ? v : otherwise;
}

const struct hw_heap_graph *hw_page_graph(const struct hw_page_trace *t,
                                          struct hw_http_request *req, const char *prefix,
                                          struct hw_error *err)
{
    const struct hw_profile *p = t->profile;
    char upid_key[24], at_key[24];
    (void)snprintf(upid_key, sizeof upid_key, "%supid", prefix);
    (void)snprintf(at_key, sizeof at_key, "%sat", prefix);
    uint64_t upid = hw_page_number(req, upid_key, UINT64_MAX);
    const char *at = hw_http_query(req, at_key);
    const struct hw_heap_graph *g = NULL;
    if (upid == UINT64_MAX) {
        g = hw_heap_graph_pick(p, -1);
        upid = g ? g->upid.v : 0;
    }
    if (at && *at) {
        g = hw_heap_graph_at(p, (hw_upid){(uint32_t)upid}, strtoll(at, NULL, 10));
    } else if (!g) {
        g = hw_heap_graph_of(p, (hw_upid){(uint32_t)upid});
    }
    if (!g)
        (void)hw_fail(err, HW_ENOTFOUND, 0, "no heap graph of that process and time");
    return g;
}

struct hw_page_heap *hw_page_heap_requested(struct hw_http_request *req, struct hw_page_trace *t,
                                            unsigned parts)
{
    struct hw_error err = {0};
    const struct hw_heap_graph *g = hw_page_graph(t, req, "", &err);
    if (g)
        return hw_page_heap_get(req, t, g, parts);
    hw_page_reply_error(req, &err, HW_ENOTFOUND);
    return NULL;
}

struct hw_bytes hw_page_class_name(const struct hw_page_heap *h, uint32_t class)
{
    return hw_strings_get(hw_callsites_strings(h->p->callsites),
                          hw_class_shown_name(&h->g->classes[class]));
}

void hw_page_put_bytes(struct hw_json *j, const char *key, struct hw_bytes text)
{
    if (key)
        hw_json_key(j, key);
    hw_json_strn(j, text.p, text.n);
}

void hw_page_put_sum(struct hw_json *j, const char *key, const struct hw_heap_sum *s)
{
    hw_json_key(j, key);
    hw_json_begin_object(j);
    hw_json_kv_int(j, "count", s->count);
    hw_json_kv_int(j, "size", s->size);
    hw_json_kv_int(j, "native", s->native);
    hw_json_end_object(j);
}

int hw_page_object(struct hw_http_request *req, const struct hw_heap_graph *g, const char *name,
                   uint32_t *out, struct hw_error *err)
{
    uint64_t id = hw_page_number(req, name, UINT64_MAX);
    if (id < g->first_object || id - g->first_object >= g->n_objects)
        return hw_fail(err, HW_ENOTFOUND, 0, "this dump has no object with that number");
    *out = (uint32_t)(id - g->first_object);
    return HW_OK;
}

/* ---- dumps ---- */

static void put_oome(struct hw_json *j, const struct hw_page_trace *t,
                     const struct hw_heap_graph *g)
{
    hw_json_key(j, "oome");
    if (!g->is_oome) {
        hw_json_null(j);
        return;
    }
    hw_json_begin_object(j);
    hw_json_kv_int(j, "allocation", g->oome_allocation_size);
    hw_json_kv_int(j, "free", g->oome_total_free);
    hw_json_kv_int(j, "until", g->oome_free_until);
    hw_json_kv_str(j, "message", hw_page_string(t, g->oome_message));
    hw_json_end_object(j);
}

/* Whether any object has contents: strings or elements of arrays. */
static void put_contents(struct hw_json *j, const struct hw_heap_graph *g)
{
    bool strings = false, arrays = false;
    for (size_t i = 0; i < g->data.n && !(strings && arrays); i++) {
        strings |= g->data.v[i].has_string;
        arrays |= g->data.v[i].element_count >= 0 && g->data.v[i].data_hash != 0;
    }
    hw_json_kv_bool(j, "strings", strings);
    hw_json_kv_bool(j, "arrays", arrays);
}

static void put_dump(struct hw_json *j, const struct hw_page_trace *t,
                     const struct hw_heap_graph *g)
{
    const struct hw_process *process = &t->profile->processes.v[g->upid.v];
    hw_json_begin_object(j);
    hw_json_kv_uint(j, "upid", g->upid.v);
    hw_json_kv_int(j, "pid", process->pid);
    hw_json_kv_str(j, "name", hw_page_string(t, process->name));
    hw_json_kv_str(j, "cmdline", hw_page_string(t, process->cmdline));
    hw_json_kv_int(j, "ts", g->ts_ns);
    hw_json_kv_uint(j, "objects", g->n_objects);
    hw_json_kv_uint(j, "described", g->n_described);
    hw_json_kv_uint(j, "references", g->n_refs);
    hw_json_kv_uint(j, "classes", g->n_classes);
    hw_json_kv_uint(j, "first_object", g->first_object);
    hw_json_kv_bool(j, "truncated", g->truncated);
    hw_json_kv_str(j, "reason", hw_page_string(t, g->dump_reason));
    hw_json_kv_int(j, "heap_size", g->heap_size);
    hw_json_kv_bool(j, "profile", hw_page_view(t, g->upid) != NULL);
    put_contents(j, g);
    put_oome(j, t, g);
    hw_json_end_object(j);
}

static void put_problems(struct hw_json *j, const struct hw_page_trace *t)
{
    const struct hw_profile *p = t->profile;
    hw_json_key(j, "errors");
    hw_json_begin_array(j);
    for (size_t i = 0; i < p->stats.n; i++) {
        const struct hw_stat_row *s = &p->stats.v[i];
        const char *name = hw_page_string(t, s->name);
        if (s->value == 0 || s->severity == HW_STAT_INFO || strncmp(name, "heap_graph_", 11) != 0)
            continue;
        hw_json_begin_object(j);
        hw_json_kv_str(j, "name", name);
        bool known = s->key >= 0 && (uint64_t)s->key < p->processes.n;
        hw_json_kv_int(j, "pid", known ? p->processes.v[s->key].pid : -1);
        hw_json_kv_int(j, "count", s->value);
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
}

static void dumps(struct hw_http_request *req, struct hw_page_trace *t)
{
    struct hw_json j;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    hw_json_begin_object(&j);
    hw_json_key(&j, "dumps");
    hw_json_begin_array(&j);
    for (size_t i = 0; i < t->profile->graphs.n; i++)
        put_dump(&j, t, t->profile->graphs.v[i]);
    hw_json_end_array(&j);
    put_problems(&j, t);
    hw_json_end_object(&j);
    hw_page_reply_json(req, &j);
}

/* ---- overview ---- */

struct group {
    struct hw_heap_sum own, retained;
};

static void add_to(struct hw_heap_sum *s, int64_t count, int64_t size, int64_t native)
{
    s->count += count;
    s->size = hw_sat_add(s->size, size);
    s->native = hw_sat_add(s->native, native);
}

static void put_groups(struct hw_json *j, const char *key, const struct group *v, int n,
                       const char *(*name_of)(int))
{
    hw_json_key(j, key);
    hw_json_begin_array(j);
    for (int i = 0; i < n; i++) {
        if (v[i].own.count == 0)
            continue;
        hw_json_begin_object(j);
        hw_json_kv_str(j, "name", name_of(i));
        hw_page_put_sum(j, "own", &v[i].own);
        hw_page_put_sum(j, "retained", &v[i].retained);
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
}

static const char *heap_name(int i)
{
    const char *name = hw_heap_type_name((enum hw_heap_type)i);
    return name ? name : "";
}

static const char *root_name(int i)
{
    return hw_root_type_name((enum hw_root_type)i);
}

/* Heaps: of reachable objects. Roots: the objects themselves, and what each kind retains; an object
 * dominated by a root of another kind counts only there, so these can be added up. */
static void put_overview(struct hw_json *j, const struct hw_page_heap *h)
{
    const struct hw_heap_graph *g = h->g;
    const struct hw_dominators *d = &h->dominators;
    struct hw_class_sum sum = hw_heap_graph_sum(g);
    struct group heaps[HW_HEAP_TYPE_COUNT] = {0}, roots[HW_ROOT_COUNT] = {0};
    struct hw_heap_sum shared = {0};
    for (size_t i = 0; i < d->n; i++) {
        uint32_t o = d->object[i];
        int64_t native = hw_object_native_size(g, o), below = d->native ? d->native[i] : 0;
        add_to(&heaps[hw_object_heap_type(g, o)].own, 1, hw_object_weight(g, o), native);
        if (hw_object_is_root(g, o)) {
            struct group *r = &roots[hw_object_root_type(g, o)];
            add_to(&r->own, 1, hw_object_weight(g, o), native);
            add_to(&r->retained, d->count[i], d->size[i], below);
        } else if (d->idom[i] == HW_ID_NONE) {
            add_to(&shared, d->count[i], d->size[i], below);
        }
        if (d->idom[i] == HW_ID_NONE)
            add_to(&heaps[hw_object_heap_type(g, o)].retained, d->count[i], d->size[i], below);
    }
    struct hw_heap_sum lost = {sum.all.count - sum.reachable.count,
                               hw_sat_sub(sum.all.size, sum.reachable.size),
                               hw_sat_sub(sum.all.native, sum.reachable.native)};
    hw_json_begin_object(j);
    hw_page_put_sum(j, "all", &sum.all);
    hw_page_put_sum(j, "reachable", &sum.reachable);
    hw_page_put_sum(j, "unreachable", &lost);
    put_groups(j, "heaps", heaps, HW_HEAP_TYPE_COUNT, heap_name);
    put_groups(j, "roots", roots, HW_ROOT_COUNT, root_name);
    hw_page_put_sum(j, "shared", &shared); /* retained by several roots together */
    hw_json_end_object(j);
}

static void overview(struct hw_http_request *req, struct hw_page_trace *t)
{
    struct hw_json j;
    struct hw_page_heap *h = hw_page_heap_requested(req, t, HW_PAGE_NEED_DOMINATORS);
    if (!h)
        return;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    put_overview(&j, h);
    hw_page_reply_json(req, &j);
}

/* ---- classes ---- */

enum class_order {
    BY_NAME,
    BY_COUNT,
    BY_SIZE,
    BY_NATIVE,
    BY_RETAINED,
    BY_RETAINED_NATIVE,
    BY_RETAINED_COUNT,
    BY_UNREACHABLE
};
static const char *const class_orders[] = {"name",           "count",      "size",
                                           "native",         "retained",   "retained_native",
                                           "retained_count", "unreachable"};

struct class_sort {
    const struct hw_page_heap *h;
    enum class_order by;
    bool down;
};

static int64_t class_key(const struct class_sort *s, uint32_t class)
{
    const struct hw_class_sum *v = &s->h->classes[class];
    switch (s->by) {
    case BY_NAME:
        return 0;
    case BY_COUNT:
        return v->reachable.count;
    case BY_SIZE:
        return v->reachable.size;
    case BY_NATIVE:
        return v->reachable.native;
    case BY_RETAINED:
        return v->dominated.size;
    case BY_RETAINED_NATIVE:
        return v->dominated.native;
    case BY_RETAINED_COUNT:
        return v->dominated.count;
    case BY_UNREACHABLE:
        return v->all.count - v->reachable.count;
    }
    return 0;
}

static int compare_classes(const void *pa, const void *pb, void *ctx)
{
    const struct class_sort *s = ctx;
    uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;
    int c;
    if (s->by == BY_NAME) {
        struct hw_bytes x = hw_page_class_name(s->h, a), y = hw_page_class_name(s->h, b);
        size_t n = x.n < y.n ? x.n : y.n;
        c = n ? memcmp(x.p, y.p, n) : 0;
        c = c ? c : (x.n > y.n) - (x.n < y.n);
    } else {
        int64_t x = class_key(s, a), y = class_key(s, b);
        c = (x > y) - (x < y);
    }
    c = s->down ? -c : c;
    return c ? c : (a > b) - (a < b);
}

static void put_class(struct hw_json *j, const struct hw_page_heap *h, uint32_t class)
{
    const struct hw_heap_class *c = &h->g->classes[class];
    const struct hw_class_sum *s = &h->classes[class];
    const struct hw_strings *strings = hw_callsites_strings(h->p->callsites);
    hw_json_begin_array(j);
    hw_json_uint(j, h->g->first_class + class);
    hw_page_put_bytes(j, NULL, hw_page_class_name(h, class));
    hw_page_put_bytes(j, NULL,
                      c->clear_name.v ? hw_strings_get(strings, c->name) : hw_bytes_str(""));
    hw_json_str(j, hw_class_kind_name((enum hw_class_kind)c->kind));
    hw_page_put_bytes(j, NULL, hw_strings_get(strings, c->location));
    hw_json_int(j, s->reachable.count);
    hw_json_int(j, s->reachable.size);
    hw_json_int(j, s->reachable.native);
    hw_json_int(j, s->dominated.size);
    hw_json_int(j, s->dominated.native);
    hw_json_int(j, s->dominated.count);
    hw_json_int(j, s->all.count - s->reachable.count);
    hw_json_int(j, hw_sat_sub(s->all.size, s->reachable.size));
    hw_json_end_array(j);
}

/* Ignores case. */
static bool matches(struct hw_bytes name, const char *text)
{
    return !text || !*text || (name.n && memmem(name.p, name.n, text, strlen(text))) ||
           (name.n && strcasestr((const char *)name.p, text));
}

static void put_classes(struct hw_json *j, struct hw_http_request *req,
                        const struct hw_page_heap *h, const struct class_sort *sort, uint32_t *rows)
{
    const char *match = hw_http_query(req, "match");
    uint64_t offset = hw_page_number(req, "offset", 0);
    uint64_t limit = hw_page_number(req, "limit", DEFAULT_ROWS);
    size_t n = 0;
    for (uint32_t c = 0; c < h->g->n_classes; c++)
        if (h->classes[c].all.count && matches(hw_page_class_name(h, c), match))
            rows[n++] = c;
    if (n)
        qsort_r(rows, n, sizeof *rows, compare_classes, (void *)(uintptr_t)sort);
    hw_json_begin_object(j);
    hw_json_kv_uint(j, "rows", n);
    hw_json_key(j, "data");
    hw_json_begin_array(j);
    for (uint64_t i = offset; i < n && i - offset < limit; i++)
        put_class(j, h, rows[i]);
    hw_json_end_array(j);
    hw_json_end_object(j);
}

static void classes(struct hw_http_request *req, struct hw_page_trace *t)
{
    const char *by = hw_http_query(req, "sort"), *order = hw_http_query(req, "order");
    struct hw_page_heap *h = hw_page_heap_requested(req, t, HW_PAGE_NEED_CLASSES);
    if (!h)
        return;
    struct class_sort sort = {h, BY_RETAINED, !order || strcmp(order, "asc") != 0};
    for (size_t i = 0; by && i < HW_ARRAY_LEN(class_orders); i++)
        if (strcmp(by, class_orders[i]) == 0)
            sort.by = (enum class_order)i;
    hw_autofree uint32_t *rows = malloc(((size_t)h->g->n_classes + 1) * sizeof *rows);
    if (!rows) {
        hw_http_reply_text(req, HTTP_ERROR, hw_errc_text(HW_ENOMEM));
        return;
    }
    struct hw_json j;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    put_classes(&j, req, h, &sort, rows);
    hw_page_reply_json(req, &j);
}

/* ---- routes ---- */

void hw_page_heap(struct hw_http_request *req, struct hw_page_trace *t, const char *name)
{
    static const struct {
        const char *name;
        void (*answer)(struct hw_http_request *req, struct hw_page_trace *t);
    } questions[] = {{"dumps", dumps},
                     {"overview", overview},
                     {"classes", classes},
                     {"flame", hw_page_heap_flame},
                     {"paths", hw_page_heap_paths},
                     {"objects", hw_page_heap_objects},
                     {"strings", hw_page_heap_twins},
                     {"arrays", hw_page_heap_twins},
                     {"object", hw_page_heap_object},
                     {"references", hw_page_heap_references},
                     {"referrers", hw_page_heap_referrers},
                     {"diff", hw_page_heap_diff},
                     {"diff-flame", hw_page_heap_diff_flame},
                     {"whole", hw_page_heap_whole},
                     {"whole-flame", hw_page_heap_whole_flame},
                     {"release", hw_page_heap_release}};
    for (size_t i = 0; i < HW_ARRAY_LEN(questions); i++)
        if (strcmp(name, questions[i].name) == 0) {
            questions[i].answer(req, t);
            return;
        }
    hw_http_reply_text(req, HTTP_NOT_FOUND, "no such question about a heap graph\n");
}

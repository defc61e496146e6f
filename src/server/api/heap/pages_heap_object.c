/*
 * GET /api/v1/traces/ID/heap/object and its neighbours.
 *
 *   object      upid at object: {"id", "class", "raw", "size", "native", "described",
 *               "retained": {sum}, "reachable", "heap", "root", "contents", "elements",
 *               "path": [[id, class, field, root, contents, who holds the root]… from the root],
 *               "dominators": [[id, class, retained size + native]…],
 *               "classes": [[id, name]… upwards], "fields": [[name, type, value]…],
 *               "references", "referrers", "dominated": counts}
 *   references  upid at object offset limit: rows [reference, field, raw field, object or null,
 *               class, contents, size, retained, keeps alive]
 *   referrers   the same: rows [reference, object, class, field, contents, size, retained,
 *               keeps alive, reachable]
 *   release     upid at cut=r12,o7…: simulates removing references r, and the roots of objects o:
 *               {"lost": {sum}, "rows", "data": [class, count, size, native]…}
 *
 * Ids of objects and references are those of SQL. Lists end at MAX_CHAIN: an element of a linked
 * list may have a million dominators.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/strbuf.h"
#include "server/api/heap/pages_heap.h"
#include "views/objects/heap_holders.h"
#include "views/objects/heap_objects.h"
#include "views/objects/heap_release.h"
#include "views/time/values.h"

#include "base/banned.h"

enum { DEFAULT_ROWS = 200, MAX_CHAIN = 1000, MAX_CUTS = 10000, MAX_LOST_CLASSES = 100 };

typedef HW_VEC(uint32_t) numbers;

static void put_text(struct hw_json *j, const struct hw_page_heap *h, hw_str_id id)
{
    hw_page_put_bytes(j, NULL, hw_strings_get(hw_callsites_strings(h->p->callsites), id));
}

static void put_class(struct hw_json *j, const struct hw_page_heap *h, uint32_t o)
{
    hw_page_put_bytes(j, NULL, hw_page_class_name(h, h->g->type[o]));
}

static void put_field(struct hw_json *j, const struct hw_page_heap *h, uint32_t ref)
{
    const struct hw_heap_field *f = &h->g->fields[h->g->ref_field[ref]];
    put_text(j, h, f->clear_name.v ? f->clear_name : f->name);
}

static int64_t retained(const struct hw_page_heap *h, uint32_t o)
{
    struct hw_heap_sum s = hw_object_retained(&h->dominators, o);
    return hw_sat_add(s.size, s.native);
}

static const char *root_of(const struct hw_heap_graph *g, uint32_t o)
{
    return hw_object_is_root(g, o) ? hw_root_type_name(hw_object_root_type(g, o)) : "";
}

/* A reference from one object to another; HW_ID_NONE. */
static uint32_t ref_between(const struct hw_heap_graph *g, uint32_t from, uint32_t to)
{
    for (uint32_t r = g->first_ref[from]; r < g->first_ref[from + 1]; r++)
        if (g->ref_owned[r] == to && hw_ref_is_strong(g, from, r))
            return r;
    return HW_ID_NONE;
}

/* ---- one object ---- */

/* Positions from p up to the top, at most MAX_CHAIN of them. */
static int chain_of(const uint32_t *parent, uint32_t p, numbers *out)
{
    for (; p != HW_ID_NONE && out->n < MAX_CHAIN; p = parent[p])
        if (hw_vec_push(out, p) < 0)
            return HW_ENOMEM;
    return HW_OK;
}

static void put_holder(struct hw_json *j, const struct hw_page_heap *h, uint32_t o)
{
    struct hw_strbuf text = {0};
    if (hw_object_is_root(h->g, o))
        hw_heap_root_text(h->p, h->g, o, &text);
    hw_page_put_bytes(j, NULL, hw_bytes_of(text.p ? text.p : "", text.n));
    hw_strbuf_done(&text);
}

static int put_path(struct hw_json *j, const struct hw_page_heap *h, uint32_t o)
{
    const struct hw_heap_graph *g = h->g;
    numbers up = {0};
    int rc = chain_of(h->paths.parent, h->path_position[o], &up);
    hw_json_key(j, "path");
    hw_json_begin_array(j);
    for (size_t i = up.n; i-- > 0;) {
        uint32_t at = h->paths.object[up.v[i]], above = h->paths.parent[up.v[i]];
        uint32_t ref =
            above == HW_ID_NONE ? HW_ID_NONE : ref_between(g, h->paths.object[above], at);
        hw_json_begin_array(j);
        hw_json_uint(j, g->first_object + at);
        put_class(j, h, at);
        if (ref == HW_ID_NONE)
            hw_json_str(j, "");
        else
            put_field(j, h, ref);
        hw_json_str(j, root_of(g, at));
        hw_page_put_contents(j, h, at);
        put_holder(j, h, at);
        hw_json_end_array(j);
    }
    hw_json_end_array(j);
    hw_vec_done(&up);
    return rc;
}

static int put_dominators(struct hw_json *j, const struct hw_page_heap *h, uint32_t o)
{
    numbers up = {0};
    int rc = chain_of(h->dominators.idom, h->dominators.position[o], &up);
    hw_json_key(j, "dominators");
    hw_json_begin_array(j);
    for (size_t i = up.n; i-- > 0;) {
        uint32_t at = h->dominators.object[up.v[i]];
        hw_json_begin_array(j);
        hw_json_uint(j, h->g->first_object + at);
        put_class(j, h, at);
        hw_json_int(j, retained(h, at));
        hw_json_end_array(j);
    }
    hw_json_end_array(j);
    hw_vec_done(&up);
    return rc;
}

/* Superclasses may form a cycle. */
static void put_classes(struct hw_json *j, const struct hw_page_heap *h, uint32_t o)
{
    uint32_t c = h->g->type[o];
    hw_json_key(j, "classes");
    hw_json_begin_array(j);
    for (unsigned n = 0; c != HW_ID_NONE && n < 64; n++, c = h->g->classes[c].superclass) {
        hw_json_begin_array(j);
        hw_json_uint(j, h->g->first_class + c);
        hw_page_put_bytes(j, NULL, hw_page_class_name(h, c));
        hw_json_end_array(j);
    }
    hw_json_end_array(j);
}

static int by_set(const void *key, const void *member)
{
    uint32_t a = *(const uint32_t *)key, b = ((const struct hw_heap_primitive *)member)->set;
    return (a > b) - (a < b);
}

static void put_primitive(struct hw_json *j, const struct hw_page_heap *h,
                          const struct hw_heap_primitive *p)
{
    char text[40];
    if (p->type == 'F' || p->type == 'D')
        (void)snprintf(text, sizeof text, "%.17g", p->real);
    else if (p->type == 'Z')
        (void)snprintf(text, sizeof text, "%s", p->integer ? "true" : "false");
    else
        (void)snprintf(text, sizeof text, "%" PRId64, p->integer);
    hw_json_begin_array(j);
    put_text(j, h, p->field_name);
    put_text(j, h, p->field_type);
    hw_json_str(j, text);
    hw_json_end_array(j);
}

static void put_contents(struct hw_json *j, const struct hw_page_heap *h, uint32_t o)
{
    const struct hw_heap_graph *g = h->g;
    const struct hw_heap_data *d = hw_object_data(g, o);
    hw_json_key(j, "contents");
    hw_page_put_contents(j, h, o);
    hw_json_kv_int(j, "elements", d ? d->element_count : -1);
    hw_json_key(j, "fields");
    hw_json_begin_array(j);
    const struct hw_heap_primitive *p =
        d && d->field_set != HW_ID_NONE && g->primitives.n
            ? bsearch(&d->field_set, g->primitives.v, g->primitives.n, sizeof *p, by_set)
            : NULL;
    while (p && p > g->primitives.v && p[-1].set == d->field_set)
        p--;
    for (; p && p < g->primitives.v + g->primitives.n && p->set == d->field_set; p++)
        put_primitive(j, h, p);
    hw_json_end_array(j);
}

static int put_object(struct hw_json *j, const struct hw_page_heap *h, uint32_t o)
{
    const struct hw_heap_graph *g = h->g;
    const struct hw_heap_class *c = &g->classes[g->type[o]];
    const char *heap = hw_heap_type_name(hw_object_heap_type(g, o));
    struct hw_heap_sum kept = hw_object_retained(&h->dominators, o);
    uint32_t at = h->dominators.position[o];
    hw_json_begin_object(j);
    hw_json_kv_uint(j, "id", g->first_object + o);
    hw_json_key(j, "class");
    put_class(j, h, o);
    hw_json_key(j, "raw");
    put_text(j, h, c->clear_name.v ? c->name : (hw_str_id){0});
    hw_json_kv_int(j, "size", hw_object_weight(g, o));
    hw_json_kv_int(j, "native", hw_object_native_size(g, o));
    hw_json_kv_bool(j, "described", hw_object_is_described(g, o));
    hw_page_put_sum(j, "retained", &kept);
    hw_json_kv_bool(j, "reachable", hw_object_is_reachable(g, o));
    hw_json_kv_str(j, "heap", heap ? heap : "");
    hw_json_kv_str(j, "root", root_of(g, o));
    put_contents(j, h, o);
    int rc = put_path(j, h, o);
    if (rc == HW_OK)
        rc = put_dominators(j, h, o);
    put_classes(j, h, o);
    hw_json_kv_uint(j, "references", g->first_ref[o + 1] - g->first_ref[o]);
    hw_json_kv_uint(j, "referrers", h->referrers.first[o + 1] - h->referrers.first[o]);
    hw_json_kv_uint(j, "dominated",
                    at == HW_ID_NONE ? 0 : h->dominated.first[at + 1] - h->dominated.first[at]);
    hw_json_end_object(j);
    return rc;
}

/* The dump with all parts about objects, and the requested object; NULL: answered. */
static struct hw_page_heap *requested_object(struct hw_http_request *req, struct hw_page_trace *t,
                                             uint32_t *out)
{
    struct hw_error err = {0};
    struct hw_page_heap *h = hw_page_heap_requested(
        req, t, HW_PAGE_NEED_PATHS | HW_PAGE_NEED_DOMINATED | HW_PAGE_NEED_REFERRERS);
    int rc = h ? hw_page_object(req, h->g, "object", out, &err) : HW_OK;
    if (rc == HW_OK)
        return h;
    hw_page_reply_error(req, &err, rc);
    return NULL;
}

void hw_page_heap_object(struct hw_http_request *req, struct hw_page_trace *t)
{
    uint32_t o;
    struct hw_json j;
    struct hw_page_heap *h = requested_object(req, t, &o);
    if (!h)
        return;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    int rc = put_object(&j, h, o);
    if (rc < 0 && j.error == 0)
        j.error = rc;
    hw_page_reply_json(req, &j);
}

/* ---- references both ways ---- */

static void put_reference(struct hw_json *j, const struct hw_page_heap *h, uint32_t owner,
                          uint32_t ref)
{
    const struct hw_heap_graph *g = h->g;
    const struct hw_heap_field *f = &g->fields[g->ref_field[ref]];
    uint32_t to = g->ref_owned[ref];
    hw_json_begin_array(j);
    hw_json_uint(j, g->first_reference + ref);
    put_field(j, h, ref);
    put_text(j, h, f->clear_name.v ? f->name : (hw_str_id){0});
    if (to == HW_ID_NONE) {
        for (int i = 0; i < 5; i++)
            hw_json_null(j);
    } else {
        hw_json_uint(j, g->first_object + to);
        put_class(j, h, to);
        hw_page_put_contents(j, h, to);
        hw_json_int(j, hw_object_weight(g, to));
        hw_json_int(j, retained(h, to));
    }
    hw_json_int(j, hw_ref_is_strong(g, owner, ref));
    hw_json_end_array(j);
}

static void put_referrer(struct hw_json *j, const struct hw_page_heap *h, uint32_t ref)
{
    const struct hw_heap_graph *g = h->g;
    uint32_t owner = hw_ref_owner(g, ref);
    hw_json_begin_array(j);
    hw_json_uint(j, g->first_reference + ref);
    hw_json_uint(j, g->first_object + owner);
    put_class(j, h, owner);
    put_field(j, h, ref);
    hw_page_put_contents(j, h, owner);
    hw_json_int(j, hw_object_weight(g, owner));
    hw_json_int(j, retained(h, owner));
    hw_json_int(j, hw_ref_is_strong(g, owner, ref));
    hw_json_int(j, hw_object_is_reachable(g, owner));
    hw_json_end_array(j);
}

static void reply_list(struct hw_http_request *req, const struct hw_page_heap *h, uint32_t o,
                       bool backwards)
{
    const uint32_t *first = backwards ? h->referrers.first : h->g->first_ref;
    uint64_t offset = hw_page_number(req, "offset", 0);
    uint64_t limit = hw_page_number(req, "limit", DEFAULT_ROWS), n = first[o + 1] - first[o];
    struct hw_json j;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    hw_json_begin_object(&j);
    hw_json_kv_uint(&j, "rows", n);
    hw_json_key(&j, "data");
    hw_json_begin_array(&j);
    for (uint64_t i = offset; i < n && i - offset < limit; i++) {
        uint32_t at = first[o] + (uint32_t)i;
        if (backwards)
            put_referrer(&j, h, h->referrers.item[at]);
        else
            put_reference(&j, h, o, at);
    }
    hw_json_end_array(&j);
    hw_json_end_object(&j);
    hw_page_reply_json(req, &j);
}

void hw_page_heap_references(struct hw_http_request *req, struct hw_page_trace *t)
{
    uint32_t o;
    struct hw_page_heap *h = requested_object(req, t, &o);
    if (h)
        reply_list(req, h, o, /* backwards = */ false);
}

void hw_page_heap_referrers(struct hw_http_request *req, struct hw_page_trace *t)
{
    uint32_t o;
    struct hw_page_heap *h = requested_object(req, t, &o);
    if (h)
        reply_list(req, h, o, /* backwards = */ true);
}

/* ---- release simulation ---- */

struct cuts {
    numbers refs, roots;
};

static int read_cuts(const char *text, const struct hw_heap_graph *g, struct cuts *out,
                     struct hw_error *err)
{
    while (*text) {
        char kind = *text, *end;
        unsigned long long id = strtoull(text + 1, &end, 10);
        uint64_t first = kind == 'o' ? g->first_object : g->first_reference;
        uint64_t n = kind == 'o' ? g->n_objects : g->n_refs;
        if ((kind != 'r' && kind != 'o') || end == text + 1 || (*end && *end != ','))
            return hw_fail(err, HW_EINVAL, 0, "cut='%.40s': r and o with numbers are known", text);
        if (id < first || id - first >= n)
            return hw_fail(err, HW_EINVAL, 0, "cut: this dump has no %c%llu", kind, id);
        if (out->refs.n + out->roots.n >= MAX_CUTS)
            return hw_fail(err, HW_ELIMIT, 0, "at most %d references can be cut at once", MAX_CUTS);
        if ((kind == 'o' ? hw_vec_push(&out->roots, (uint32_t)(id - first))
                         : hw_vec_push(&out->refs, (uint32_t)(id - first))) < 0)
            return hw_fail(err, HW_ENOMEM, 0, "cuts");
        text = *end ? end + 1 : end;
    }
    return HW_OK;
}

struct lost_class {
    uint32_t class;
    struct hw_heap_sum sum;
};

static int by_size(const void *pa, const void *pb)
{
    const struct lost_class *a = pa, *b = pb;
    int64_t x = hw_sat_add(a->sum.size, a->sum.native), y = hw_sat_add(b->sum.size, b->sum.native);
    return x != y ? (x < y ? 1 : -1) : (a->class > b->class) - (a->class < b->class);
}

static int put_release(struct hw_json *j, const struct hw_page_heap *h,
                       const struct hw_heap_release *r)
{
    const struct hw_heap_graph *g = h->g;
    hw_autofree struct lost_class *lost = calloc((size_t)g->n_classes + 1, sizeof *lost);
    size_t n = 0;
    if (!lost)
        return HW_ENOMEM;
    for (uint32_t c = 0; c < g->n_classes; c++)
        lost[c].class = c;
    for (uint32_t o = 0; o < g->n_objects; o++) {
        struct hw_heap_sum *s = &lost[g->type[o]].sum;
        if (!r->is_lost[o])
            continue;
        s->count++;
        s->size = hw_sat_add(s->size, hw_object_weight(g, o));
        s->native = hw_sat_add(s->native, hw_object_native_size(g, o));
    }
    if (g->n_classes)
        qsort(lost, g->n_classes, sizeof *lost, by_size);
    for (uint32_t c = 0; c < g->n_classes; c++)
        n += lost[c].sum.count > 0;
    hw_json_begin_object(j);
    hw_page_put_sum(j, "lost", &r->lost);
    hw_json_kv_uint(j, "rows", n);
    hw_json_key(j, "data");
    hw_json_begin_array(j);
    for (size_t i = 0; i < g->n_classes && i < MAX_LOST_CLASSES; i++) {
        if (lost[i].sum.count == 0)
            continue;
        hw_json_begin_array(j);
        hw_page_put_bytes(j, NULL, hw_page_class_name(h, lost[i].class));
        hw_json_int(j, lost[i].sum.count);
        hw_json_int(j, lost[i].sum.size);
        hw_json_int(j, lost[i].sum.native);
        hw_json_end_array(j);
    }
    hw_json_end_array(j);
    hw_json_end_object(j);
    return HW_OK;
}

void hw_page_heap_release(struct hw_http_request *req, struct hw_page_trace *t)
{
    const char *text = hw_http_query(req, "cut");
    struct hw_heap_release r = {0};
    struct cuts cuts = {0};
    struct hw_error err = {0};
    struct hw_json j;
    struct hw_page_heap *h = hw_page_heap_requested(req, t, 0);
    if (!h)
        return;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    int rc = read_cuts(text ? text : "", h->g, &cuts, &err);
    if (rc == HW_OK)
        rc = hw_heap_release_find(h->g, cuts.refs.v, cuts.refs.n, cuts.roots.v, cuts.roots.n, &r);
    if (rc == HW_OK)
        rc = put_release(&j, h, &r);
    if (rc < 0) {
        hw_json_done(&j);
        hw_page_reply_error(req, &err, rc);
    } else {
        hw_page_reply_json(req, &j);
    }
    hw_heap_release_done(&r);
    hw_vec_done(&cuts.refs);
    hw_vec_done(&cuts.roots);
}

/*
 * GET /api/v1/traces/ID/heap/objects, …/strings, …/arrays: lists of objects.
 *
 * objects           upid at sort order offset limit; filters: class=NAME (as shown),
 *                   only=unreachable, root, ROOT_x or HEAP_TYPE_x, same=OBJECT (with the same
 *                   contents), of=OBJECT (immediately dominated by it; of=top: by nothing).
 *                   {"rows", "sum", "data": [id, class, raw name, size, native, retained, retained
 *                   native, retained count, reachable, heap, root, contents]…}
 * strings, arrays   upid at match offset limit: distinct contents, most wasted bytes first.
 *                   {"rows", "objects", "size", "wasted", "data": [first object, contents, class,
 *                   count, size, wasted]…}; the sums are of all matching rows
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "server/api/heap/pages_heap.h"
#include "views/objects/heap_objects.h"
#include "views/objects/heap_twins.h"
#include "views/time/values.h"

#include "base/banned.h"

enum { DEFAULT_ROWS = 200, MAX_TEXT = 200 };

/* ---- contents ---- */

static struct hw_bytes string_of(const struct hw_page_heap *h, const struct hw_heap_data *d)
{
    return hw_strings_get(hw_callsites_strings(h->p->callsites), d->string);
}

void hw_page_put_contents(struct hw_json *j, const struct hw_page_heap *h, uint32_t object)
{
    const struct hw_heap_data *d = hw_object_data(h->g, object);
    struct hw_strbuf text = {0};
    if (d && d->has_string) {
        struct hw_bytes s = string_of(h, d);
        size_t n = s.n < MAX_TEXT ? s.n : MAX_TEXT;
        while (n < s.n && n > 0 && (s.p[n] & 0xc0) == 0x80) /* not in the middle of a character */
            n--;
        hw_strbuf_addf(&text, "\"");
        hw_strbuf_add(&text, s.p, n);
        hw_strbuf_adds(&text, n < s.n ? "…\"" : "\"");
    } else if (d && d->element_count >= 0) {
        hw_strbuf_addf(&text, "[%lld]", (long long)d->element_count);
    }
    if (text.failed)
        j->error = HW_ENOMEM;
    else
        hw_json_strn(j, text.p ? text.p : "", text.n);
    hw_strbuf_done(&text);
}

/* ---- which objects ---- */

struct filter {
    const struct hw_page_heap *h;
    uint8_t *class_kept; /* owned; NULL = all */
    const char *only;    /* "" = all */
    int heap, root;      /* -1 = any */
    uint32_t same;       /* HW_ID_NONE = any */
};

static bool keep(void *ctx, uint32_t o)
{
    const struct filter *w = ctx;
    const struct hw_heap_graph *g = w->h->g;
    if (w->class_kept && !w->class_kept[g->type[o]])
        return false;
    if (w->same != HW_ID_NONE && !hw_heap_is_twin(g, w->same, o))
        return false;
    if (w->heap >= 0)
        return hw_object_is_reachable(g, o) && (int)hw_object_heap_type(g, o) == w->heap;
    if (w->root >= 0)
        return hw_object_is_root(g, o) && (int)hw_object_root_type(g, o) == w->root;
    if (strcmp(w->only, "root") == 0)
        return hw_object_is_root(g, o);
    if (strcmp(w->only, "unreachable") == 0)
        return !hw_object_is_reachable(g, o);
    return true;
}

static int read_only(struct filter *w, const char *only, struct hw_error *err)
{
    w->only = only ? only : "";
    w->heap = w->root = -1;
    for (int i = 0; i < HW_ROOT_COUNT; i++)
        if (strcmp(w->only, hw_root_type_name((enum hw_root_type)i)) == 0)
            w->root = i;
    for (int i = 0; i < HW_HEAP_TYPE_COUNT; i++) {
        const char *name = hw_heap_type_name((enum hw_heap_type)i);
        if (strcmp(w->only, name ? name : "HEAP_TYPE_UNKNOWN") == 0)
            w->heap = i;
    }
    if (!*w->only || w->root >= 0 || w->heap >= 0 || strcmp(w->only, "root") == 0 ||
        strcmp(w->only, "unreachable") == 0)
        return HW_OK;
    return hw_fail(err, HW_EINVAL, 0, "only=%.40s: no root or heap is called so", w->only);
}

static int read_class(struct filter *w, const char *name, struct hw_error *err)
{
    const struct hw_heap_graph *g = w->h->g;
    struct hw_bytes wish = hw_bytes_str(name ? name : "");
    if (!wish.n)
        return HW_OK;
    w->class_kept = calloc((size_t)g->n_classes + 1, 1);
    if (!w->class_kept)
        return hw_fail(err, HW_ENOMEM, 0, "classes");
    for (uint32_t c = 0; c < g->n_classes; c++) {
        struct hw_bytes is = hw_page_class_name(w->h, c);
        w->class_kept[c] = is.n == wish.n && memcmp(is.p, wish.p, wish.n) == 0;
    }
    return HW_OK;
}

static int read_same(struct filter *w, struct hw_http_request *req, struct hw_error *err)
{
    const char *same = hw_http_query(req, "same");
    w->same = HW_ID_NONE;
    return same && *same ? hw_page_object(req, w->h->g, "same", &w->same, err) : HW_OK;
}

/* ---- objects ---- */

static const char *const orders[HW_OBJECTS_ORDER_COUNT] = {
    "id",        "class", "size", "native", "retained", "retained_native", "retained_count",
    "reachable", "heap",  "root"};

static int by_name(const void *pa, const void *pb, void *ctx)
{
    const struct hw_page_heap *h = ctx;
    struct hw_bytes a = hw_page_class_name(h, *(const uint32_t *)pa);
    struct hw_bytes b = hw_page_class_name(h, *(const uint32_t *)pb);
    size_t n = a.n < b.n ? a.n : b.n;
    int c = n ? memcmp(a.p, b.p, n) : 0;
    return c ? c : (a.n > b.n) - (a.n < b.n);
}

/* Each class's rank by name; equal names share one. NULL = out of memory. */
static uint32_t *rank_classes(const struct hw_page_heap *h)
{
    size_t n = h->g->n_classes;
    hw_autofree uint32_t *order = malloc((n + 1) * sizeof *order);
    uint32_t *rank = malloc((n + 1) * sizeof *rank);
    if (!order || !rank) {
        free(rank);
        return NULL;
    }
    for (uint32_t c = 0; c < n; c++)
        order[c] = c;
    if (n)
        qsort_r(order, n, sizeof *order, by_name, (void *)(uintptr_t)h);
    for (size_t i = 0; i < n; i++)
        rank[order[i]] = i == 0
                             ? 0
                             : rank[order[i - 1]] +
                                   (by_name(&order[i - 1], &order[i], (void *)(uintptr_t)h) != 0);
    return rank;
}

static void put_object(struct hw_json *j, const struct hw_page_heap *h, uint32_t o)
{
    const struct hw_heap_graph *g = h->g;
    const struct hw_heap_class *c = &g->classes[g->type[o]];
    struct hw_heap_sum kept = hw_object_retained(&h->dominators, o);
    const char *heap = hw_heap_type_name(hw_object_heap_type(g, o));
    hw_json_begin_array(j);
    hw_json_uint(j, g->first_object + o);
    hw_page_put_bytes(j, NULL, hw_page_class_name(h, g->type[o]));
    hw_page_put_bytes(j, NULL,
                      c->clear_name.v
                          ? hw_strings_get(hw_callsites_strings(h->p->callsites), c->name)
                          : hw_bytes_str(""));
    hw_json_int(j, hw_object_weight(g, o));
    hw_json_int(j, hw_object_native_size(g, o));
    hw_json_int(j, kept.size);
    hw_json_int(j, kept.native);
    hw_json_int(j, kept.count);
    hw_json_int(j, hw_object_is_reachable(g, o));
    hw_json_str(j, heap ? heap : "");
    hw_json_str(j, hw_object_is_root(g, o) ? hw_root_type_name(hw_object_root_type(g, o)) : "");
    hw_page_put_contents(j, h, o);
    hw_json_end_array(j);
}

static int read_query(struct hw_objects_query *q, struct hw_http_request *req,
                      const struct hw_page_heap *h, struct hw_error *err)
{
    const char *by = hw_http_query(req, "sort"), *order = hw_http_query(req, "order");
    const char *of = hw_http_query(req, "of");
    q->g = h->g;
    q->dominators = &h->dominators;
    q->by = HW_OBJECTS_BY_RETAINED;
    for (int i = 0; by && i < HW_OBJECTS_ORDER_COUNT; i++)
        if (strcmp(by, orders[i]) == 0)
            q->by = (enum hw_object_order)i;
    q->down = !order || strcmp(order, "asc") != 0;
    q->offset = hw_page_number(req, "offset", 0);
    q->limit = hw_page_number(req, "limit", DEFAULT_ROWS);
    if (!of || !*of)
        return HW_OK;
    q->dominated = &h->dominated;
    q->below = h->dominators.n;
    if (strcmp(of, "top") == 0)
        return HW_OK;
    uint32_t o;
    int rc = hw_page_object(req, h->g, "of", &o, err);
    if (rc == HW_OK && h->dominators.position[o] == HW_ID_NONE)
        rc = hw_fail(err, HW_EINVAL, 0, "this object is unreachable: it dominates nothing");
    if (rc == HW_OK)
        q->below = h->dominators.position[o];
    return rc;
}

static int find_objects(struct hw_http_request *req, const struct hw_page_heap *h,
                        struct hw_objects *out, struct hw_error *err)
{
    struct filter w = {.h = h};
    struct hw_objects_query q = {.keep = keep, .ctx = &w};
    int rc = read_query(&q, req, h, err);
    if (rc == HW_OK)
        rc = read_only(&w, hw_http_query(req, "only"), err);
    if (rc == HW_OK)
        rc = read_same(&w, req, err);
    if (rc == HW_OK)
        rc = read_class(&w, hw_http_query(req, "class"), err);
    hw_autofree uint32_t *rank =
        rc == HW_OK && q.by == HW_OBJECTS_BY_CLASS ? rank_classes(h) : NULL;
    q.class_rank = rank;
    if (rc == HW_OK)
        rc = hw_objects_find(&q, out);
    free(w.class_kept);
    return rc < 0 && err->code == 0 ? hw_fail(err, rc, 0, "objects:") : rc;
}

void hw_page_heap_objects(struct hw_http_request *req, struct hw_page_trace *t)
{
    struct hw_page_heap *h = hw_page_heap_requested(req, t, HW_PAGE_NEED_DOMINATED);
    struct hw_objects found = {0};
    struct hw_error err = {0};
    struct hw_json j;
    if (!h)
        return;
    int rc = find_objects(req, h, &found, &err);
    if (rc < 0) {
        hw_page_reply_error(req, &err, rc);
        return;
    }
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    hw_json_begin_object(&j);
    hw_json_kv_uint(&j, "rows", found.n_all);
    hw_page_put_sum(&j, "sum", &found.sum);
    hw_json_key(&j, "data");
    hw_json_begin_array(&j);
    for (size_t i = 0; i < found.v.n; i++)
        put_object(&j, h, found.v.v[i]);
    hw_json_end_array(&j);
    hw_json_end_object(&j);
    hw_page_reply_json(req, &j);
    hw_objects_done(&found);
}

/* ---- duplicate contents ---- */

static bool matches(const struct hw_page_heap *h, uint32_t o, enum hw_twin_kind kind,
                    const char *text)
{
    struct hw_bytes s = kind == HW_TWIN_STRINGS ? string_of(h, hw_object_data(h->g, o))
                                                : hw_page_class_name(h, h->g->type[o]);
    return !text || !*text || (s.n && memmem(s.p, s.n, text, strlen(text)));
}

static void put_twins(struct hw_json *j, struct hw_http_request *req, const struct hw_page_heap *h,
                      enum hw_twin_kind kind, const hw_heap_twins *v)
{
    const char *match = hw_http_query(req, "match");
    uint64_t offset = hw_page_number(req, "offset", 0), n = 0;
    uint64_t limit = hw_page_number(req, "limit", DEFAULT_ROWS);
    int64_t size = 0, wasted = 0, count = 0;
    hw_json_begin_object(j);
    hw_json_key(j, "data");
    hw_json_begin_array(j);
    for (size_t i = 0; i < v->n; i++) {
        const struct hw_heap_twins_row *r = &v->v[i];
        if (!matches(h, r->first, kind, match))
            continue;
        size = hw_sat_add(size, r->size);
        wasted = hw_sat_add(wasted, r->wasted);
        count += r->count;
        if (n++ < offset || n - offset > limit)
            continue;
        hw_json_begin_array(j);
        hw_json_uint(j, h->g->first_object + r->first);
        hw_page_put_contents(j, h, r->first);
        hw_page_put_bytes(j, NULL, hw_page_class_name(h, h->g->type[r->first]));
        hw_json_uint(j, r->count);
        hw_json_int(j, r->size);
        hw_json_int(j, r->wasted);
        hw_json_end_array(j);
    }
    hw_json_end_array(j);
    hw_json_kv_uint(j, "rows", n);
    hw_json_kv_int(j, "objects", count);
    hw_json_kv_int(j, "size", size);
    hw_json_kv_int(j, "wasted", wasted);
    hw_json_end_object(j);
}

void hw_page_heap_twins(struct hw_http_request *req, struct hw_page_trace *t)
{
    const char *path = hw_http_path(req);
    size_t n = strlen(path);
    enum hw_twin_kind kind =
        n > 7 && strcmp(path + n - 7, "strings") == 0 ? HW_TWIN_STRINGS : HW_TWIN_ARRAYS;
    bool strings = kind == HW_TWIN_STRINGS;
    struct hw_page_heap *h =
        hw_page_heap_requested(req, t, strings ? HW_PAGE_NEED_STRINGS : HW_PAGE_NEED_ARRAYS);
    struct hw_json j;
    if (!h)
        return;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    put_twins(&j, req, h, kind, strings ? &h->strings : &h->arrays);
    hw_page_reply_json(req, &j);
}

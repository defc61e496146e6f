/*
 * GET /api/v1/traces/ID/infra/details?upid=&heap=: the rows below a node of a heap's details, by
 * callstack and by type.
 *
 *     dump, base   as in pages_infra.c; with a base there are figures of both
 *     base_upid, base_heap   compare with another process or heap, at base or else the same dump
 *     base_trace   compare with another open trace: with base_upid, else the process of that pid,
 *                  else the one with the same name and labels; at its dump base, else its last
 *     by           frames, types or both (both: the rows below it in either dimension)
 *     place        keys from the root, separated by '/'; none: the root
 *     rule, min    which rows become <other> (views/infra/heap_details.h)
 *
 *     {"path": [{"kind", "label", "key", figures}…] from the root, "rows": [the same, "folded",
 *      "more": whether there are rows below it…], "cut": rows left out}
 *
 * A key is the kind's letter and a hash of the label: it identifies the same node in another dump.
 * Details are computed once per heap, dump and base; a few are cached.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "export/large_stacks.h"
#include "server/api/infra/pages_infra.h"
#include "views/infra/heap_details.h"

#include "base/banned.h"

enum { MAX_KEPT = 4, MAX_ROWS = 2000, MAX_DEPTH = 4096, KEY_CHARS = 18 };

struct kept {
    const struct hw_page_trace *t;
    const struct hw_page_trace *base_t;
    size_t now, base;
    hw_upid upid, base_upid;
    char *heap, *base_heap; /* owned */
    struct hw_heap_details *d;
};

struct hw_page_infra {
    pthread_mutex_t lock;
    HW_VEC(struct kept) v; /* lock; the most recently used is last */
};

int hw_page_infra_new(struct hw_page_infra **out)
{
    struct hw_page_infra *all = calloc(1, sizeof *all);
    if (!all)
        return HW_ENOMEM;
    pthread_mutex_init(&all->lock, NULL);
    *out = all;
    return HW_OK;
}

static void drop(struct hw_page_infra *all, size_t i)
{
    free(all->v.v[i].heap);
    free(all->v.v[i].base_heap);
    hw_heap_details_free(all->v.v[i].d);
    memmove(&all->v.v[i], &all->v.v[i + 1], (all->v.n - i - 1) * sizeof *all->v.v);
    all->v.n--;
}

void hw_page_infra_free(struct hw_page_infra *all)
{
    if (!all)
        return;
    while (all->v.n)
        drop(all, all->v.n - 1);
    hw_vec_done(&all->v);
    pthread_mutex_destroy(&all->lock);
    free(all);
}

void hw_page_infra_forget(struct hw_page_infra *all, const struct hw_page_trace *t)
{
    if (!all)
        return;
    pthread_mutex_lock(&all->lock);
    for (size_t i = all->v.n; i-- > 0;)
        if (all->v.v[i].t == t || all->v.v[i].base_t == t)
            drop(all, i);
    pthread_mutex_unlock(&all->lock);
}

/* ---- making them ---- */

/* The sum of a series, advanced from one of the two moments to the other. */
struct running {
    struct hw_type_sum sum;
    uint32_t series; /* HW_ID_NONE: none yet */
    size_t dump;
};

static int values_at(struct running *r, struct hw_page_trace *t, const struct hw_global_item *it,
                     size_t dump, hw_values_by_type *out)
{
    if (r->series != it->series || dump < r->dump) {
        hw_type_sum_done(&r->sum);
        r->sum = (struct hw_type_sum){0};
    }
    r->series = it->series;
    r->dump = dump;
    return hw_type_sum_at(&r->sum, t->profile, &t->list.v.v[it->series], it->dump, out);
}

/* One of the two moments. */
struct moment {
    struct hw_page_trace *t;
    const struct hw_infra_dumps *dumps;
    size_t dump;
    hw_upid upid;
    const char *heap;
};

static int add_side(struct hw_heap_details *d, const struct moment *m, enum hw_detail_side side,
                    struct running *running)
{
    struct hw_namer namer = hw_page_namer(m->t);
    for (size_t i = m->dumps->begins.v[m->dump]; i < m->dumps->begins.v[m->dump + 1]; i++) {
        const struct hw_global_item *it = &m->dumps->items.v[i];
        hw_values_by_type values = {0};
        if (it->series == HW_ID_NONE || it->upid.v != m->upid.v ||
            !hw_bytes_equal(hw_infra_heap_name(m->t, &m->t->list.v.v[it->series]),
                            hw_bytes_str(m->heap)))
            continue;
        int rc = values_at(running, m->t, it, m->dump, &values);
        if (rc == HW_OK)
            rc = hw_heap_details_add(d, m->t->profile, &values, &namer, side);
        hw_vec_done(&values);
        return rc;
    }
    return HW_OK; /* no such heap at that time: it is empty */
}

static int fill(struct hw_heap_details *d, const struct moment *now, const struct moment *base,
                struct hw_error *err)
{
    struct running running = {.series = HW_ID_NONE}, other = {.series = HW_ID_NONE};
    int rc = HW_OK;
    if (base->dump != SIZE_MAX)
        rc = add_side(d, base, HW_DETAIL_EARLIER, base->t == now->t ? &running : &other);
    if (rc == HW_OK)
        rc = add_side(d, now, HW_DETAIL_NOW, &running);
    if (rc == HW_OK && running.series == HW_ID_NONE && other.series == HW_ID_NONE)
        rc = hw_fail(err, HW_ENOTFOUND, 0, "that process has no heap dump of '%.80s' there",
                     now->heap);
    hw_type_sum_done(&running.sum);
    hw_type_sum_done(&other.sum);
    return rc < 0 ? rc : hw_heap_details_finish(d);
}

static int make(struct hw_page_trace *t, const struct hw_infra_dumps *dumps,
                const struct hw_infra_request *request, struct kept *out, struct hw_error *err)
{
    struct hw_infra_dumps others = {0};
    int rc = hw_heap_details_new(&out->d);
    out->heap = strdup(request->heap ? request->heap : "malloc");
    out->base_heap = strdup(request->base_heap ? request->base_heap : "");
    if (rc == HW_OK && request->base_t)
        rc = hw_infra_dumps_init(&others, request->base_t);
    if (rc == HW_OK && (!out->heap || !out->base_heap))
        rc = HW_ENOMEM;
    if (rc == HW_OK) {
        const struct moment now = {t, dumps, request->now, request->upid, out->heap};
        const struct moment base = {
            request->base_t ? request->base_t : t, request->base_t ? &others : dumps, request->base,
            request->base_upid, request->base_heap ? request->base_heap : out->heap};
        rc = fill(out->d, &now, &base, err);
    }
    hw_infra_dumps_done(&others);
    if (rc < 0) {
        hw_heap_details_free(out->d);
        free(out->heap);
        free(out->base_heap);
    }
    return rc;
}

/* ---- the base ---- */

static bool same_string(const struct hw_page_trace *a, hw_str_id x, const struct hw_page_trace *b,
                        hw_str_id y)
{
    return strcmp(hw_page_string(a, x), hw_page_string(b, y)) == 0;
}

/* The same process in another trace: by pid, else by name and labels. */
static int find_partner(const struct hw_page_trace *t, hw_upid of, const struct hw_page_trace *in,
                        hw_upid *out, struct hw_error *err)
{
    const struct hw_process *wanted = &t->profile->processes.v[of.v];
    for (int by_name = 0; by_name < 2; by_name++) {
        for (uint32_t i = 0; i < in->profile->processes.n; i++) {
            const struct hw_process *x = &in->profile->processes.v[i];
            if (by_name ? same_string(t, wanted->name, in, x->name) &&
                              same_string(t, wanted->labels, in, x->labels)
                        : x->pid == wanted->pid) {
                out->v = i;
                return HW_OK;
            }
        }
    }
    return hw_fail(err, HW_ENOTFOUND, 0,
                   "no process with that number, or with that name and labels");
}

/* 1 = the request was answered. */
static int find_base(struct hw_infra_request *request, struct hw_page_trace *t,
                     struct hw_http_request *req, struct hw_error *err)
{
    const char *trace = hw_http_query(req, "base_trace"), *upid = hw_http_query(req, "base_upid");
    struct hw_page_trace *in = t;
    int rc = HW_OK;
    if (request->upid.v == HW_ID_NONE)
        return hw_fail(err, HW_EINVAL, 0, "which process? upid=");
    request->base_heap = hw_http_query(req, "base_heap");
    request->base_upid = request->upid;
    if (trace && *trace) {
        struct hw_infra_dumps dumps = {0};
        in = request->base_t = hw_page_trace_get(t->pages, req, trace);
        if (!in)
            return 1;
        rc = hw_infra_dumps_init(&dumps, in);
        if (rc == HW_OK)
            rc = hw_infra_find_dump(&dumps, hw_http_query(req, "base"), &request->base, err);
        hw_infra_dumps_done(&dumps);
    } else if ((upid || request->base_heap) && request->base == SIZE_MAX) {
        request->base = request->now;
    }
    if (rc < 0)
        return rc;
    if (!upid || !*upid)
        return in == t ? HW_OK : find_partner(t, request->upid, in, &request->base_upid, err);
    char *end;
    unsigned long v = strtoul(upid, &end, 10);
    if (*end || v >= in->profile->processes.n)
        return hw_fail(err, HW_EINVAL, 0, "the trace has no process '%.40s'", upid);
    request->base_upid.v = (uint32_t)v;
    return HW_OK;
}

/* The details, computed or cached; with the lock held. */
static int find(struct hw_page_infra *all, struct hw_page_trace *t,
                const struct hw_infra_dumps *dumps, const struct hw_infra_request *request,
                const struct hw_heap_details **out, struct hw_error *err)
{
    struct kept k = {.t = t,
                     .base_t = request->base_t,
                     .now = request->now,
                     .base = request->base,
                     .upid = request->upid,
                     .base_upid = request->base_upid};
    for (size_t i = 0; i < all->v.n; i++) {
        struct kept *x = &all->v.v[i];
        if (x->t != t || x->base_t != k.base_t || x->now != k.now || x->base != k.base ||
            x->upid.v != k.upid.v || x->base_upid.v != k.base_upid.v ||
            strcmp(x->heap, request->heap ? request->heap : "malloc") != 0 ||
            strcmp(x->base_heap, request->base_heap ? request->base_heap : "") != 0)
            continue;
        k = *x;
        memmove(x, x + 1, (all->v.n - i - 1) * sizeof *x);
        all->v.v[all->v.n - 1] = k;
        *out = k.d;
        return HW_OK;
    }
    if (all->v.n == MAX_KEPT)
        drop(all, 0);
    if (hw_vec_reserve(&all->v, MAX_KEPT) < 0)
        return HW_ENOMEM;
    int rc = make(t, dumps, request, &k, err);
    if (rc < 0)
        return rc;
    all->v.v[all->v.n++] = k;
    *out = k.d;
    return HW_OK;
}

/* ---- nodes ---- */

static void key_of(const struct hw_detail_row *r, char out[KEY_CHARS])
{
    static const char letters[] = {'r', 'f', 't', 's', 'o'};
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a: an identifier, not a security measure */
    for (size_t i = 0; i < r->label.n; i++)
        h = (h ^ r->label.p[i]) * 0x100000001b3u;
    (void)snprintf(out, KEY_CHARS, "%c%016llx", letters[r->kind], (unsigned long long)h);
}

struct query {
    const struct hw_heap_details *d;
    enum hw_detail_rule rule;
    int64_t threshold;
    bool frames, types, diff;
    hw_detail_rows path; /* from the root to the node */
    hw_detail_rows below;
};

/* Goes down to the row with the key. */
static int step(struct query *q, const char *key, size_t n)
{
    struct hw_detail_row at = q->path.v[q->path.n - 1];
    hw_detail_rows rows = {0};
    int rc = n == KEY_CHARS - 1 ? HW_OK : HW_ENOTFOUND;
    if (rc == HW_OK && key[0] == 'f')
        rc = hw_heap_details_frames(q->d, &at, HW_DETAIL_ALL, 0, &rows);
    else if (rc == HW_OK)
        rc = hw_heap_details_types(q->d, &at, HW_DETAIL_ALL, 0, &rows);
    size_t i = 0;
    for (; rc == HW_OK && i < rows.n; i++) {
        char have[KEY_CHARS];
        key_of(&rows.v[i], have);
        if (memcmp(have, key, n) == 0)
            break;
    }
    if (rc == HW_OK && i == rows.n)
        rc = HW_ENOTFOUND;
    if (rc == HW_OK && hw_vec_push(&q->path, rows.v[i]) < 0)
        rc = HW_ENOMEM;
    hw_vec_done(&rows);
    return rc;
}

static int walk(struct query *q, const char *place, struct hw_error *err)
{
    int rc = hw_vec_push(&q->path, hw_heap_details_root(q->d)) < 0 ? HW_ENOMEM : HW_OK;
    while (rc == HW_OK && *place) {
        size_t n = strcspn(place, "/");
        rc = q->path.n < MAX_DEPTH ? step(q, place, n) : HW_ELIMIT;
        place += n + (place[n] == '/');
    }
    return rc == HW_ENOTFOUND ? hw_fail(err, rc, 0, "that place is not in this dump") : rc;
}

static int find_below(struct query *q)
{
    const struct hw_detail_row *at = &q->path.v[q->path.n - 1];
    int rc = HW_OK;
    if (q->frames)
        rc = hw_heap_details_frames(q->d, at, q->rule, q->threshold, &q->below);
    if (rc == HW_OK && q->types)
        rc = hw_heap_details_types(q->d, at, q->rule, q->threshold, &q->below);
    return rc;
}

/* ---- the answer ---- */

static void put_row(struct hw_json *j, const struct query *q, const struct hw_detail_row *r,
                    bool is_below)
{
    static const char *const kinds[] = {"root", "frame", "type", "self", "other"};
    char key[KEY_CHARS];
    key_of(r, key);
    hw_json_begin_object(j);
    hw_json_kv_str(j, "kind", kinds[r->kind]);
    hw_json_key(j, "label");
    hw_json_strn(j, r->label.p, r->label.n);
    hw_json_kv_str(j, "key", key);
    hw_json_kv_int(j, "size", r->v.size[HW_DETAIL_NOW]);
    hw_json_kv_int(j, "count", r->v.count[HW_DETAIL_NOW]);
    if (q->diff) {
        hw_json_kv_int(j, "size_before", r->v.size[HW_DETAIL_EARLIER]);
        hw_json_kv_int(j, "count_before", r->v.count[HW_DETAIL_EARLIER]);
    }
    if (r->kind == HW_DETAIL_OTHER)
        hw_json_kv_uint(j, "folded", r->n_folded);
    if (is_below)
        hw_json_kv_bool(j, "more", r->kind == HW_DETAIL_FRAME || r->kind == HW_DETAIL_TYPE);
    hw_json_end_object(j);
}

static void put_rows(struct hw_json *j, const char *name, const struct query *q,
                     const hw_detail_rows *rows, bool is_below)
{
    hw_json_key(j, name);
    hw_json_begin_array(j);
    for (size_t i = 0; i < rows->n && (!is_below || i < MAX_ROWS); i++)
        put_row(j, q, &rows->v[i], is_below);
    hw_json_end_array(j);
}

static int read_limit(struct hw_http_request *req, const char *name, int64_t *out,
                      struct hw_error *err)
{
    const char *text = hw_http_query(req, name);
    char *end = NULL;
    if (!text)
        return HW_OK;
    *out = strtoll(text, &end, 10);
    if (end == text || *end)
        return hw_fail(err, HW_EINVAL, 0, "'%.40s' is not a number, which %s takes", text, name);
    return HW_OK;
}

static int read_options(struct query *q, struct hw_http_request *req, struct hw_error *err)
{
    const char *rule = hw_http_query(req, "rule"), *by = hw_http_query(req, "by");
    q->rule = HW_DETAIL_THRESHOLD;
    if (rule && !hw_detail_rule_named(rule, &q->rule))
        return hw_fail(err, HW_EINVAL, 0, "rule is threshold, fraction, rows or all");
    q->threshold = 1024;
    int rc = read_limit(req, "min", &q->threshold, err);
    if (rc < 0)
        return rc;
    q->frames = !by || strcmp(by, "both") == 0 || strcmp(by, "frames") == 0;
    q->types = !by || strcmp(by, "both") == 0 || strcmp(by, "types") == 0;
    return q->frames || q->types ? HW_OK
                                 : hw_fail(err, HW_EINVAL, 0, "by is frames, types or both");
}

void hw_page_infra_details(struct hw_http_request *req, struct hw_page_trace *t,
                           const struct hw_infra_dumps *dumps, const struct hw_infra_request *given)
{
    struct hw_page_infra *all = t->pages->infra;
    struct hw_infra_request with = *given, *request = &with;
    struct query q = {0};
    const char *place = hw_http_query(req, "place");
    struct hw_error err = {0};
    struct hw_json j;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    int rc = read_options(&q, req, &err);
    if (rc == HW_OK && (rc = find_base(request, t, req, &err)) == 1) {
        hw_json_done(&j);
        return;
    }
    q.diff = request->base != SIZE_MAX;
    pthread_mutex_lock(&all->lock);
    if (rc == HW_OK)
        rc = find(all, t, dumps, request, &q.d, &err);
    if (rc == HW_OK)
        rc = walk(&q, place ? place : "", &err);
    if (rc == HW_OK)
        rc = find_below(&q);
    if (rc == HW_OK) { /* labels are borrowed from the details */
        hw_json_begin_object(&j);
        put_rows(&j, "path", &q, &q.path, /* is_below = */ false);
        put_rows(&j, "rows", &q, &q.below, /* is_below = */ true);
        hw_json_kv_uint(&j, "cut", q.below.n > MAX_ROWS ? q.below.n - MAX_ROWS : 0);
        hw_json_end_object(&j);
    }
    pthread_mutex_unlock(&all->lock);
    if (rc == HW_OK) {
        hw_page_reply_json(req, &j);
    } else {
        hw_json_done(&j);
        hw_page_reply_error(req, &err, rc);
    }
    hw_vec_done(&q.path);
    hw_vec_done(&q.below);
}

void hw_page_infra_large(struct hw_http_request *req, struct hw_page_trace *t,
                         const struct hw_infra_dumps *dumps, const struct hw_infra_request *given)
{
    struct hw_page_infra *all = t->pages->infra;
    struct hw_infra_request with = *given, *request = &with;
    struct hw_large_stacks large = {0};
    const struct hw_heap_details *d;
    struct hw_strbuf text = {0};
    struct hw_error err = {0};
    int rc = read_limit(req, "min_count", &large.min_count, &err);
    if (rc == HW_OK)
        rc = read_limit(req, "min_size", &large.min_size, &err);
    if (rc == HW_OK && (rc = find_base(request, t, req, &err)) == 1)
        return;
    pthread_mutex_lock(&all->lock);
    if (rc == HW_OK)
        rc = find(all, t, dumps, request, &d, &err);
    if (rc == HW_OK)
        rc = hw_large_stacks_find(&large, d);
    pthread_mutex_unlock(&all->lock);
    if (rc == HW_OK)
        rc = hw_large_stacks_text(&large, &text);
    if (rc == HW_OK) {
        hw_http_add_header(req, "Content-Disposition",
                           "attachment; filename=\"large-allocations.json\"");
        hw_http_reply(req, HTTP_OK, "application/json", text.p, text.n);
    } else {
        hw_page_reply_error(req, &err, rc);
    }
    hw_strbuf_done(&text);
    hw_large_stacks_done(&large);
}

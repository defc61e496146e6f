/*
 * GET /api/v1/traces/ID/infra/…: memory-infra's dumps, processes × allocators, heap details.
 *
 *     dumps    {"dumps": [{"ts", "detail", "heaps"}…]}
 *     table    {"ts", "base" (or null), "columns": [{"name", "total"}…], "rows": [{"upid", "pid",
 *              "name", "labels", "cells": [null or {"now", "base", "heap", "at", "source"}…]}…]}
 *     nodes    {"rows": [{"path", "size", "effective", "base"}…]}: an allocator's tree
 *     details, large: pages_infra_heap.c
 *
 * An allocator's cell is its root's effective size. If the trace has no memory dump of that moment,
 * malloc's cell is from its own statistics, and another heap's is its live bytes: such cells have
 * "source". "at" is present if a figure is from another time than its dump.
 */
#include "server/api/infra/pages_infra.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/saturate.h"

#include "base/banned.h"

static const int64_t same_moment_ns = 50 * 1000 * 1000;
static const char *const details[] = {"detailed", "light", "background"};

int hw_infra_dumps_init(struct hw_infra_dumps *d, const struct hw_page_trace *t)
{
    *d = (struct hw_infra_dumps){0};
    int rc = hw_global_items_init(t->profile, &t->list, &d->items);
    for (size_t i = 0; rc == HW_OK && i < d->items.n; i = hw_global_end(&d->items, i))
        if (hw_vec_push(&d->begins, i) < 0)
            rc = HW_ENOMEM;
    if (rc == HW_OK && hw_vec_push(&d->begins, d->items.n) < 0)
        rc = HW_ENOMEM;
    return rc;
}

void hw_infra_dumps_done(struct hw_infra_dumps *d)
{
    hw_vec_done(&d->items);
    hw_vec_done(&d->begins);
}

struct hw_bytes hw_infra_heap_name(const struct hw_page_trace *t, const struct hw_series *s)
{
    struct hw_bytes name =
        hw_strings_get(hw_callsites_strings(t->profile->callsites), s->heap_name);
    if (hw_bytes_equal(name, hw_bytes_str("libc.malloc")))
        return hw_bytes_str("malloc");
    return name.n ? name : hw_bytes_str("heap");
}

static bool has_heaps(const struct hw_infra_dumps *d, size_t dump)
{
    for (size_t i = d->begins.v[dump]; i < d->begins.v[dump + 1]; i++)
        if (d->items.v[i].dump != HW_ID_NONE)
            return true;
    return false;
}

int hw_infra_find_dump(const struct hw_infra_dumps *d, const char *text, size_t *out,
                       struct hw_error *err)
{
    size_t n = hw_infra_n_dumps(d), last = n;
    if (n == 0)
        return hw_fail(err, HW_ENOTFOUND, 0, "the trace contains no dump");
    if (!text || !*text) {
        while (last > 0 && !has_heaps(d, last - 1))
            last--;
        *out = last > 0 ? last - 1 : n - 1;
        return HW_OK;
    }
    char *end;
    long long ts = strtoll(text, &end, 10);
    for (size_t i = 0; !*end && i < n; i++)
        if (d->items.v[d->begins.v[i]].ts_ns == ts) {
            *out = i;
            return HW_OK;
        }
    return hw_fail(err, HW_ENOTFOUND, 0, "no dump is at '%.40s'; infra/dumps lists them", text);
}

static int request_init(struct hw_infra_request *out, const struct hw_infra_dumps *d,
                        const struct hw_page_trace *t, struct hw_http_request *req,
                        struct hw_error *err)
{
    const char *base = hw_http_query(req, "base"), *upid = hw_http_query(req, "upid");
    bool of_file = hw_http_query(req, "base_trace"); /* base is then a dump of that trace */
    int rc = hw_infra_find_dump(d, hw_http_query(req, "dump"), &out->now, err);
    out->base = SIZE_MAX;
    if (rc == HW_OK && base && *base && !of_file)
        rc = hw_infra_find_dump(d, base, &out->base, err);
    if (rc < 0)
        return rc;
    out->upid.v = HW_ID_NONE;
    out->heap = hw_http_query(req, "heap");
    out->base_t = NULL;
    out->base_upid = out->upid;
    out->base_heap = NULL;
    if (upid && *upid) {
        char *end;
        unsigned long v = strtoul(upid, &end, 10);
        if (*end || v >= t->profile->processes.n)
            return hw_fail(err, HW_EINVAL, 0, "the trace has no process '%.40s'", upid);
        out->upid.v = (uint32_t)v;
    }
    return HW_OK;
}

/* ---- the table ---- */

struct cell {
    bool known, heap;
    double now;
    int64_t at_ns;
    const char *source; /* NULL: a node's size, or a total */
};

struct column {
    struct hw_bytes name; /* borrowed */
    const char *counter;  /* of a total; NULL: an allocator */
    size_t region_kb;     /* of a total from mappings: offset in the row + 1; 0 */
};

struct table {
    const struct hw_page_trace *t;
    const struct hw_infra_dumps *d;
    HW_VEC(struct column) columns;
    HW_VEC(hw_upid) rows;
};

static const struct {
    const char *name, *counter;
    size_t region_kb;
} totals[] = {
    {"resident", "mem.rss", 0},
    {"peak resident", "mem.rss.watermark", 0},
    {"private footprint", "mem.private_footprint", 0},
    {"PSS", "mem.smaps.pss", offsetof(struct hw_smaps_row, pss_kb) + 1},
    {"private dirty", "", offsetof(struct hw_smaps_row, private_dirty_kb) + 1},
    {"swapped", "mem.swap", offsetof(struct hw_smaps_row, swap_kb) + 1},
};

static int add_column(struct table *x, struct hw_bytes name)
{
    for (size_t i = 0; i < x->columns.n; i++)
        if (!x->columns.v[i].counter && hw_bytes_equal(x->columns.v[i].name, name))
            return HW_OK;
    return hw_vec_push(&x->columns, (struct column){.name = name}) < 0 ? HW_ENOMEM : HW_OK;
}

static int add_row(struct table *x, hw_upid upid)
{
    for (size_t i = 0; i < x->rows.n; i++)
        if (x->rows.v[i].v == upid.v)
            return HW_OK;
    return hw_vec_push(&x->rows, upid) < 0 ? HW_ENOMEM : HW_OK;
}

static int compare_names(const void *pa, const void *pb)
{
    const struct column *a = pa, *b = pb;
    size_t n = a->name.n < b->name.n ? a->name.n : b->name.n;
    int order = n ? memcmp(a->name.p, b->name.p, n) : 0;
    return order ? order : (a->name.n > b->name.n) - (a->name.n < b->name.n);
}

/* The root nodes and heaps of one item. */
static int add_columns_of(struct table *x, const struct hw_global_item *item)
{
    const struct hw_profile *p = x->t->profile;
    if (item->series != HW_ID_NONE)
        return add_column(x, hw_infra_heap_name(x->t, &x->t->list.v.v[item->series]));
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < p->memory.nodes.n; i++)
        if (p->memory.nodes.v[i].process == item->process &&
            p->memory.nodes.v[i].parent == HW_ID_NONE)
            rc = add_column(
                x, hw_strings_get(hw_callsites_strings(p->callsites), p->memory.nodes.v[i].path));
    return rc;
}

static int add_dump(struct table *x, size_t dump)
{
    int rc = HW_OK;
    for (size_t i = x->d->begins.v[dump]; rc == HW_OK && i < x->d->begins.v[dump + 1]; i++) {
        rc = add_row(x, x->d->items.v[i].upid);
        if (rc == HW_OK)
            rc = add_columns_of(x, &x->d->items.v[i]);
    }
    return rc;
}

static bool counter_at(const struct table *x, hw_upid upid, const char *name, int64_t ts,
                       double *out, int64_t *at)
{
    return *name && hw_process_counter(x->t->profile, upid, name, ts, out, at);
}

/* The sum over the process's mappings, as read nearest to ts. */
static bool regions_at(const struct table *x, hw_upid upid, size_t field, int64_t ts, double *out,
                       int64_t *at)
{
    const struct hw_profile *p = x->t->profile;
    bool known = false;
    *out = 0;
    const struct hw_process_rows rows = hw_by_process_of(&p->smaps_of, upid);
    for (size_t i = 0; i < rows.n; i++) {
        const struct hw_smaps_row *r = &p->smaps.v[rows.v[i]];
        uint64_t kb;
        memcpy(&kb, (const char *)r + field, sizeof kb);
        if (kb == HW_SMAPS_UNKNOWN)
            continue;
        int64_t away = llabs(hw_sat_sub(r->ts_ns, ts)), best = llabs(hw_sat_sub(*at, ts));
        if (!known || away < best)
            *out = 0;
        if (!known || away <= best) {
            *at = r->ts_ns;
            *out += (double)kb * 1024;
            known = true;
        }
    }
    return known;
}

/* A figure of another time belongs to this dump if no other dump is nearer. */
static bool is_nearest(const struct table *x, size_t dump, int64_t at)
{
    const struct hw_infra_dumps *d = x->d;
    int64_t away = llabs(hw_sat_sub(at, d->items.v[d->begins.v[dump]].ts_ns));
    if (dump > 0 && llabs(hw_sat_sub(at, d->items.v[d->begins.v[dump - 1]].ts_ns)) < away)
        return false;
    return dump + 1 >= hw_infra_n_dumps(d) ||
           llabs(hw_sat_sub(at, d->items.v[d->begins.v[dump + 1]].ts_ns)) >= away;
}

static bool total_at(const struct table *x, const struct column *c, hw_upid upid, size_t dump,
                     double *out, int64_t *at)
{
    int64_t ts = x->d->items.v[x->d->begins.v[dump]].ts_ns;
    if (counter_at(x, upid, c->counter, ts, out, at))
        return is_nearest(x, dump, *at);
    return c->region_kb && regions_at(x, upid, c->region_kb - 1, ts, out, at) &&
           is_nearest(x, dump, *at);
}

/* The effective size of the allocator's root at a dump. */
static bool node_at(const struct table *x, const struct column *c, const struct hw_global_item *it,
                    double *out)
{
    const struct hw_profile *p = x->t->profile;
    for (size_t i = 0; it->process != HW_ID_NONE && i < p->memory.nodes.n; i++) {
        const struct hw_memory_node *n = &p->memory.nodes.v[i];
        if (n->process != it->process || n->parent != HW_ID_NONE || !n->has_size ||
            !hw_bytes_equal(hw_strings_get(hw_callsites_strings(p->callsites), n->path), c->name))
            continue;
        *out = (double)n->effective_size;
        return true;
    }
    return false;
}

/* The substitute for a root: malloc's own statistics, else the heap's live bytes. */
static bool heap_at(const struct table *x, const struct column *c, const struct hw_global_item *it,
                    double *out, int64_t *at, const char **source)
{
    double arena, mmap = 0;
    const struct hw_value *v = NULL;
    if (hw_bytes_equal(c->name, hw_bytes_str("malloc")) &&
        counter_at(x, it->upid, "malloc_info.arena", it->ts_ns, &arena, at)) {
        (void)counter_at(x, it->upid, "malloc_info.mmap", it->ts_ns, &mmap, NULL);
        *out = arena + mmap;
        *source = "malloc_info";
        return true;
    }
    const struct hw_process_view *view = hw_page_view(x->t, it->upid);
    if (view)
        v = hw_process_view_dump(view, it->dump);
    if (v)
        *out = (double)v->space;
    *at = it->ts_ns;
    *source = "heap";
    return v != NULL;
}

static void allocator_at(const struct table *x, const struct column *c, hw_upid upid, size_t dump,
                         struct cell *out)
{
    const struct hw_global_item *heap = NULL;
    for (size_t i = x->d->begins.v[dump]; i < x->d->begins.v[dump + 1]; i++) {
        const struct hw_global_item *it = &x->d->items.v[i];
        if (it->upid.v != upid.v)
            continue;
        if (it->series != HW_ID_NONE &&
            hw_bytes_equal(hw_infra_heap_name(x->t, &x->t->list.v.v[it->series]), c->name))
            heap = it;
        if (node_at(x, c, it, &out->now)) {
            out->known = true;
            out->at_ns = it->ts_ns;
        }
    }
    out->heap = heap != NULL;
    if (!out->known && heap)
        out->known = heap_at(x, c, heap, &out->now, &out->at_ns, &out->source);
}

static struct cell cell_at(const struct table *x, const struct column *c, hw_upid upid, size_t dump)
{
    struct cell out = {0};
    if (c->counter)
        out.known = total_at(x, c, upid, dump, &out.now, &out.at_ns);
    else
        allocator_at(x, c, upid, dump, &out);
    return out;
}

static void put_cell(struct hw_json *j, const struct table *x, const struct column *c, hw_upid upid,
                     const struct hw_infra_request *request)
{
    struct cell now = cell_at(x, c, upid, request->now), base = {0};
    int64_t ts = x->d->items.v[x->d->begins.v[request->now]].ts_ns;
    if (request->base != SIZE_MAX)
        base = cell_at(x, c, upid, request->base);
    if (!now.known && !base.known && !now.heap) {
        hw_json_null(j);
        return;
    }
    hw_json_begin_object(j);
    if (now.known)
        hw_json_kv_double(j, "now", now.now);
    if (base.known)
        hw_json_kv_double(j, "base", base.now);
    hw_json_kv_bool(j, "heap", now.heap || base.heap);
    if (now.known && llabs(hw_sat_sub(now.at_ns, ts)) > same_moment_ns)
        hw_json_kv_int(j, "at", now.at_ns);
    if (now.source)
        hw_json_kv_str(j, "source", now.source);
    hw_json_end_object(j);
}

static bool has_total(const struct table *x, const struct column *c, size_t dump)
{
    int64_t at = 0;
    double v;
    for (size_t i = 0; i < x->rows.n; i++)
        if (total_at(x, c, x->rows.v[i], dump, &v, &at))
            return true;
    return false;
}

static int make_table(struct table *x, const struct hw_infra_request *request)
{
    int rc = add_dump(x, request->now);
    if (rc == HW_OK && request->base != SIZE_MAX)
        rc = add_dump(x, request->base);
    if (rc == HW_OK && x->columns.n)
        qsort(x->columns.v, x->columns.n, sizeof *x->columns.v, compare_names);
    for (size_t i = 0; rc == HW_OK && i < HW_ARRAY_LEN(totals); i++) {
        struct column c = {hw_bytes_str(totals[i].name), totals[i].counter, totals[i].region_kb};
        if (has_total(x, &c, request->now) && hw_vec_push(&x->columns, c) < 0)
            rc = HW_ENOMEM;
    }
    return rc;
}

static void put_table(struct hw_json *j, const struct table *x,
                      const struct hw_infra_request *request)
{
    const struct hw_profile *p = x->t->profile;
    hw_json_begin_object(j);
    hw_json_kv_int(j, "ts", x->d->items.v[x->d->begins.v[request->now]].ts_ns);
    hw_json_key(j, "base");
    if (request->base == SIZE_MAX)
        hw_json_null(j);
    else
        hw_json_int(j, x->d->items.v[x->d->begins.v[request->base]].ts_ns);
    hw_json_key(j, "columns");
    hw_json_begin_array(j);
    for (size_t i = 0; i < x->columns.n; i++) {
        hw_json_begin_object(j);
        hw_json_key(j, "name");
        hw_json_strn(j, x->columns.v[i].name.p, x->columns.v[i].name.n);
        hw_json_kv_bool(j, "total", x->columns.v[i].counter != NULL);
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
    hw_json_key(j, "rows");
    hw_json_begin_array(j);
    for (size_t r = 0; r < x->rows.n; r++) {
        const struct hw_process *proc = &p->processes.v[x->rows.v[r].v];
        hw_json_begin_object(j);
        hw_json_kv_uint(j, "upid", x->rows.v[r].v);
        hw_json_kv_int(j, "pid", proc->pid);
        hw_json_kv_str(j, "name", hw_page_string(x->t, proc->name));
        hw_json_kv_str(j, "labels", hw_page_string(x->t, proc->labels));
        hw_json_key(j, "cells");
        hw_json_begin_array(j);
        for (size_t c = 0; c < x->columns.n; c++)
            put_cell(j, x, &x->columns.v[c], x->rows.v[r], request);
        hw_json_end_array(j);
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
    hw_json_end_object(j);
}

static void reply_table(struct hw_http_request *req, struct hw_page_trace *t,
                        const struct hw_infra_dumps *d, const struct hw_infra_request *request)
{
    struct table x = {.t = t, .d = d};
    struct hw_json j;
    int rc = make_table(&x, request);
    if (rc < 0) {
        hw_page_reply_error(req, &(struct hw_error){0}, rc);
    } else {
        hw_json_init(&j, NULL, NULL, /* pretty = */ false);
        put_table(&j, &x, request);
        hw_page_reply_json(req, &j);
    }
    hw_vec_done(&x.columns);
    hw_vec_done(&x.rows);
}

/* ---- an allocator's nodes ---- */

/* Nodes of a process by path: the model drops its own index once it is filled. */
static int index_nodes(const struct hw_profile *p, uint32_t process, struct hw_map64 *by_path)
{
    int rc = HW_OK;
    for (size_t i = 0; process != HW_ID_NONE && rc == HW_OK && i < p->memory.nodes.n; i++)
        if (p->memory.nodes.v[i].process == process)
            rc = hw_map64_put(by_path, p->memory.nodes.v[i].path.v, i);
    return rc;
}

static uint32_t process_at(const struct hw_infra_dumps *d, size_t dump, hw_upid upid)
{
    for (size_t i = dump == SIZE_MAX ? d->items.n : d->begins.v[dump];
         i < d->items.n && i < d->begins.v[dump + 1]; i++)
        if (d->items.v[i].upid.v == upid.v && d->items.v[i].process != HW_ID_NONE)
            return d->items.v[i].process;
    return HW_ID_NONE;
}

static bool is_below(struct hw_bytes path, struct hw_bytes root)
{
    return path.n >= root.n && memcmp(path.p, root.p, root.n) == 0 &&
           (path.n == root.n || path.p[root.n] == '/');
}

static void put_node(struct hw_json *j, struct hw_bytes path, const struct hw_memory_node *n,
                     const struct hw_memory_node *base)
{
    hw_json_begin_object(j);
    hw_json_key(j, "path");
    hw_json_strn(j, path.p, path.n);
    if (n->has_size) {
        hw_json_kv_uint(j, "size", n->size);
        hw_json_kv_uint(j, "effective", n->effective_size);
    }
    if (base && base->has_size)
        hw_json_kv_uint(j, "base", base->effective_size);
    hw_json_end_object(j);
}

static void reply_nodes(struct hw_http_request *req, struct hw_page_trace *t,
                        const struct hw_infra_dumps *d, const struct hw_infra_request *request)
{
    const struct hw_profile *p = t->profile;
    const struct hw_strings *strings = hw_callsites_strings(p->callsites);
    uint32_t process = process_at(d, request->now, request->upid);
    struct hw_bytes root = hw_bytes_str(request->heap ? request->heap : "");
    struct hw_map64 before = {0};
    struct hw_json j;
    int rc = index_nodes(p, process_at(d, request->base, request->upid), &before);
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    hw_json_begin_object(&j);
    hw_json_key(&j, "rows");
    hw_json_begin_array(&j);
    for (size_t i = 0; process != HW_ID_NONE && i < p->memory.nodes.n; i++) {
        const struct hw_memory_node *n = &p->memory.nodes.v[i];
        struct hw_bytes path = hw_strings_get(strings, n->path);
        uint64_t base;
        if (n->process == process && is_below(path, root))
            put_node(&j, path, n,
                     hw_map64_get(&before, n->path.v, &base) ? &p->memory.nodes.v[base] : NULL);
    }
    hw_json_end_array(&j);
    hw_json_end_object(&j);
    hw_map64_done(&before);
    if (rc == HW_OK) {
        hw_page_reply_json(req, &j);
    } else {
        hw_json_done(&j);
        hw_page_reply_error(req, &(struct hw_error){0}, rc);
    }
}

/* ---- the list of dumps ---- */

static void reply_dumps(struct hw_http_request *req, struct hw_page_trace *t,
                        const struct hw_infra_dumps *d)
{
    struct hw_json j;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    hw_json_begin_object(&j);
    hw_json_key(&j, "dumps");
    hw_json_begin_array(&j);
    for (size_t i = 0; i < hw_infra_n_dumps(d); i++) {
        size_t first = d->begins.v[i], end = d->begins.v[i + 1];
        hw_json_begin_object(&j);
        hw_json_kv_int(&j, "ts", d->items.v[first].ts_ns);
        hw_json_kv_str(&j, "detail",
                       details[hw_global_detail(t->profile, &d->items.v[first], end - first)]);
        hw_json_kv_bool(&j, "heaps", has_heaps(d, i));
        hw_json_end_object(&j);
    }
    hw_json_end_array(&j);
    hw_json_end_object(&j);
    hw_page_reply_json(req, &j);
}

void hw_page_infra(struct hw_http_request *req, struct hw_page_trace *t, const char *name)
{
    static const struct {
        const char *name;
        void (*answer)(struct hw_http_request *req, struct hw_page_trace *t,
                       const struct hw_infra_dumps *d, const struct hw_infra_request *request);
    } questions[] = {{"table", reply_table},
                     {"nodes", reply_nodes},
                     {"details", hw_page_infra_details},
                     {"large", hw_page_infra_large}};
    struct hw_infra_dumps d = {0};
    struct hw_infra_request request;
    struct hw_error err = {0};
    int rc = hw_infra_dumps_init(&d, t);
    if (rc == HW_OK && strcmp(name, "dumps") == 0) {
        reply_dumps(req, t, &d);
        hw_infra_dumps_done(&d);
        return;
    }
    if (rc == HW_OK)
        rc = request_init(&request, &d, t, req, &err);
    size_t i = 0;
    while (i < HW_ARRAY_LEN(questions) && strcmp(questions[i].name, name) != 0)
        i++;
    if (rc < 0)
        hw_page_reply_error(req, &err, rc);
    else if (i == HW_ARRAY_LEN(questions))
        hw_http_reply_text(req, HTTP_NOT_FOUND, "no such question about memory dumps\n");
    else
        questions[i].answer(req, t, &d, &request);
    hw_infra_dumps_done(&d);
}

/*
 * GET /api/v1/traces/ID/accounting: profile, allocator and kernel side by side
 * (views/findings/accounting.h).
 *
 * {"steps": [{"name", "total", "begin", "end", "bytes", "at"}…], "lines": [names], "now": {name:
 * {"bytes", "at"}}, "error", "fragmentation" (or null), "points":
 * [[ts, bytes or null…]…] in the order of lines, "kinds": {name: [n, size, rss, swap]} or null,
 * "kinds_at", "notes": [names], "account": {"rss", "pss", "swap", "at", "requested", "untouched",
 * "page_tables" (or null), "parts": [{"name", "what", "rss", "pss", "swap", "entries": [[name, rss,
 * pss, swap, size, mappings]…]}…]} or null,
 * "arenas": {"at", "rows": [[name, threads, system (or null), in use, free, top, cached, fast, returns,
 * why]…]} or null}: the arenas of glibc's malloc (views/account/arenas.h), the most that is not in use first. Where the
 * figures are not known there is only why.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "server/api/pages_internal.h"
#include "views/account/arenas.h"
#include "views/account/memory_parts.h"
#include "views/findings/accounting.h"

#include "base/banned.h"

static const struct {
    unsigned bit;
    const char *name;
} notes[] = {{HW_ACCOUNT_NOT_RETURNED, "not_returned"},
             {HW_ACCOUNT_OUTSIDE, "outside"},
             {HW_ACCOUNT_UNTOUCHED, "untouched"}};

static void put_now(struct hw_json *j, const struct hw_accounting *a)
{
    hw_json_key(j, "lines");
    hw_json_begin_array(j);
    for (int l = 0; l < HW_ACCOUNT_LINE_COUNT; l++)
        hw_json_str(j, hw_account_line_name((enum hw_account_line)l));
    hw_json_end_array(j);
    hw_json_key(j, "now");
    hw_json_begin_object(j);
    for (int l = 0; l < HW_ACCOUNT_LINE_COUNT; l++) {
        if (!a->now[l].known)
            continue;
        hw_json_key(j, hw_account_line_name((enum hw_account_line)l));
        hw_json_begin_object(j);
        hw_json_kv_double(j, "bytes", a->now[l].bytes);
        hw_json_kv_int(j, "at", a->now[l].at_ns);
        hw_json_end_object(j);
    }
    hw_json_end_object(j);
    hw_json_kv_double(j, "error", a->error);
    hw_json_key(j, "fragmentation");
    if (a->fragmentation < 0)
        hw_json_null(j);
    else
        hw_json_double(j, a->fragmentation);
}

static void put_steps(struct hw_json *j, const struct hw_accounting *a)
{
    struct hw_account_step steps[HW_ACCOUNT_MAX_STEPS];
    size_t n = hw_accounting_steps(a, steps);
    hw_json_key(j, "steps");
    hw_json_begin_array(j);
    for (size_t i = 0; i < n; i++) {
        hw_json_begin_object(j);
        hw_json_kv_str(j, "name", steps[i].name);
        hw_json_kv_bool(j, "total", steps[i].is_total);
        hw_json_kv_double(j, "begin", steps[i].begin);
        hw_json_kv_double(j, "end", steps[i].end);
        hw_json_kv_double(j, "bytes", steps[i].end - steps[i].begin);
        hw_json_kv_int(j, "at", steps[i].at_ns);
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
}

static void put_points(struct hw_json *j, const struct hw_accounting *a)
{
    hw_json_key(j, "points");
    hw_json_begin_array(j);
    for (size_t i = 0; i < a->points.n; i++) {
        const struct hw_account_point *p = &a->points.v[i];
        hw_json_begin_array(j);
        hw_json_int(j, p->ts_ns);
        for (int l = 0; l < HW_ACCOUNT_LINE_COUNT; l++) {
            if (isnan(p->bytes[l]))
                hw_json_null(j);
            else
                hw_json_double(j, p->bytes[l]);
        }
        hw_json_end_array(j);
    }
    hw_json_end_array(j);
}

static void put_kinds(struct hw_json *j, const struct hw_accounting *a)
{
    hw_json_key(j, "kinds");
    if (!a->has_kinds) {
        hw_json_null(j);
        return;
    }
    hw_json_begin_object(j);
    for (int k = 0; k < HW_ACCOUNT_KIND_COUNT; k++) {
        const struct hw_account_mappings *m = &a->kinds[k];
        hw_json_key(j, hw_account_kind_name((enum hw_account_kind)k));
        hw_json_begin_array(j);
        hw_json_uint(j, m->n);
        hw_json_uint(j, m->size);
        hw_json_uint(j, m->rss);
        hw_json_uint(j, m->swap);
        hw_json_end_array(j);
    }
    hw_json_end_object(j);
    hw_json_kv_int(j, "kinds_at", a->kinds_ns);
}

static void put_bytes(struct hw_json *j, const struct hw_part_bytes *b)
{
    hw_json_kv_double(j, "rss", b->rss);
    hw_json_kv_double(j, "pss", b->pss);
    hw_json_kv_double(j, "swap", b->swap);
}

static void put_entries(struct hw_json *j, const struct hw_profile *p,
                        const struct hw_memory_parts *m, enum hw_memory_part part)
{
    hw_json_key(j, "entries");
    hw_json_begin_array(j);
    for (size_t i = 0; i < m->entries.n; i++) {
        const struct hw_part_entry *e = &m->entries.v[i];
        if (e->part != part || e->bytes.rss + e->bytes.swap <= 0)
            continue;
        hw_json_begin_array(j);
        hw_json_str(j, hw_memory_entry_name(p, e));
        hw_json_double(j, e->bytes.rss);
        hw_json_double(j, e->bytes.pss);
        hw_json_double(j, e->bytes.swap);
        hw_json_double(j, e->size);
        hw_json_uint(j, e->n_mappings);
        hw_json_end_array(j);
    }
    hw_json_end_array(j);
}

static void put_account(struct hw_json *j, const struct hw_profile *p,
                        const struct hw_memory_parts *m)
{
    hw_json_begin_object(j);
    put_bytes(j, &m->total);
    hw_json_kv_int(j, "at", m->ts_ns);
    hw_json_kv_double(j, "requested", m->requested);
    hw_json_kv_double(j, "untouched", m->untouched);
    hw_json_key(j, "page_tables");
    if (m->page_tables < 0)
        hw_json_null(j);
    else
        hw_json_double(j, m->page_tables);
    hw_json_key(j, "parts");
    hw_json_begin_array(j);
    for (int k = 0; k < HW_PART_COUNT; k++) {
        hw_json_begin_object(j);
        hw_json_kv_str(j, "name", hw_memory_part_name((enum hw_memory_part)k));
        hw_json_kv_str(j, "what", hw_memory_part_what((enum hw_memory_part)k));
        put_bytes(j, &m->parts[k]);
        put_entries(j, p, m, (enum hw_memory_part)k);
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
    hw_json_end_object(j);
}

static void put_arena(struct hw_json *j, const struct hw_malloc_arena *a)
{
    const int64_t figures[] = {a->system_bytes, a->in_use_bytes, a->free_bytes,      a->top_bytes,
                               a->cached_bytes, a->fast_bytes,   a->returnable_bytes};
    char number[16];
    hw_json_begin_array(j);
    (void)snprintf(number, sizeof number, "%u", (unsigned)a->number);
    hw_json_str(j, a->is_main ? "main" : number);
    hw_json_int(j, a->threads);
    for (size_t i = 0; i < HW_ARRAY_LEN(figures); i++) {
        if (figures[i] < 0 || (i && a->state != HW_ARENA_KNOWN))
            hw_json_null(j);
        else
            hw_json_int(j, figures[i]);
    }
    hw_json_str(j, hw_arena_why(a));
    hw_json_end_array(j);
}

static void put_arenas(struct hw_json *j, const struct hw_arenas *a)
{
    hw_autofree const struct hw_malloc_arena **rows = calloc(a->n + 1, sizeof *rows);
    hw_json_key(j, "arenas");
    if (!rows || !hw_arenas_are_worth_a_table(a)) {
        hw_json_null(j);
        return;
    }
    hw_arenas_by_unused(a, rows);
    hw_json_begin_object(j);
    hw_json_kv_int(j, "at", a->ts_ns);
    hw_json_key(j, "rows");
    hw_json_begin_array(j);
    for (size_t i = 0; i < a->n; i++)
        put_arena(j, rows[i]);
    hw_json_end_array(j);
    hw_json_end_object(j);
}

/* *has_parts: the trace has mappings. */
static int find(struct hw_page_trace *t, const struct hw_page_selection *s,
                struct hw_accounting *out, struct hw_memory_parts *parts, bool *has_parts,
                struct hw_error *err)
{
    const struct hw_process_view *v = hw_page_view(t, s->upid);
    hw_values values = {0};
    struct hw_value live = {0};
    if (!v)
        return hw_fail(err, HW_ENOTFOUND, 0, "no heap profile of this process");
    int rc = hw_process_values(t->profile, &t->list, s->upid, s->ts_ns, s->at_max, &values);
    for (size_t i = 0; rc == HW_OK && i < values.n; i++)
        hw_value_add(&live, &values.v[i].v);
    if (rc == HW_OK)
        rc = hw_accounting_find(t->profile, v, s->ts_ns, &live, out);
    if (rc == HW_OK) {
        rc = hw_memory_parts_find(t->profile, v, s->ts_ns, &values, parts);
        *has_parts = rc == HW_OK;
        rc = rc == HW_ENOTFOUND ? HW_OK : rc;
    }
    hw_vec_done(&values);
    return rc < 0 ? hw_fail(err, rc, 0, "accounting:") : HW_OK;
}

void hw_page_accounting(struct hw_http_request *req, struct hw_page_trace *t)
{
    struct hw_page_selection sel;
    struct hw_accounting a = {0};
    struct hw_error err = {0};
    struct hw_memory_parts parts = {0};
    struct hw_arenas arenas;
    bool has_parts = false;
    struct hw_json j;
    int rc = hw_page_selection_init(&sel, t, req, &err);
    if (rc == HW_OK)
        rc = find(t, &sel, &a, &parts, &has_parts, &err);
    hw_page_selection_done(&sel);
    if (rc < 0) {
        hw_accounting_done(&a);
        hw_page_reply_error(req, &err, rc);
        return;
    }
    hw_arenas_find(t->profile, sel.upid, has_parts ? parts.ts_ns : sel.ts_ns, &arenas);
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    hw_json_begin_object(&j);
    hw_json_kv_int(&j, "ts", sel.ts_ns);
    put_now(&j, &a);
    put_steps(&j, &a);
    put_points(&j, &a);
    put_kinds(&j, &a);
    hw_json_key(&j, "notes");
    hw_json_begin_array(&j);
    for (size_t i = 0; i < HW_ARRAY_LEN(notes); i++)
        if (a.notes & notes[i].bit)
            hw_json_str(&j, notes[i].name);
    hw_json_end_array(&j);
    hw_json_key(&j, "account");
    if (has_parts)
        put_account(&j, t->profile, &parts);
    else
        hw_json_null(&j);
    put_arenas(&j, &arenas);
    hw_json_end_object(&j);
    hw_page_reply_json(req, &j);
    hw_memory_parts_done(&parts);
    hw_accounting_done(&a);
}

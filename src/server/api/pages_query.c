/*
 * POST /api/v1/query?trace=ID&limit=N: SQL; and GET /api/v1/export/FORMAT: the selection as a file.
 *
 * The response is {"results": [{"columns": […], "rows": [[…]…], "truncated": bool}…], "error": null
 * or text, "ms": n}, sent while the query runs; the end says whether it succeeded. Integers beyond
 * 2^53 are strings, blobs are hex after "0x". If the client disconnects, the query is interrupted.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "export/export.h"
#include "server/api/pages_groups.h"
#include "server/api/pages_internal.h"

#include "base/banned.h"

enum { DEFAULT_ROWS = 10000, MAX_ROWS = 1000000, MAX_BLOB = 4096 };
static const int64_t max_exact = (int64_t)1 << 53;

struct query {
    struct hw_processor_job job;
    struct hw_json j;
    struct hw_page_trace *t; /* holds a reference */
    char *sql;
    size_t n_sql;
    uint64_t limit, rows;
    bool truncated;
};

static int begin_result(void *ctx, size_t n, const char *const *names)
{
    struct query *q = ctx;
    q->rows = 0;
    q->truncated = false;
    hw_json_begin_object(&q->j);
    hw_json_key(&q->j, "columns");
    hw_json_begin_array(&q->j);
    for (size_t i = 0; i < n; i++)
        hw_json_str(&q->j, names[i]);
    hw_json_end_array(&q->j);
    hw_json_key(&q->j, "rows");
    hw_json_begin_array(&q->j);
    return q->j.error;
}

static void put_blob(struct hw_json *j, const uint8_t *p, size_t n)
{
    struct hw_strbuf b = {0};
    hw_strbuf_adds(&b, "0x");
    for (size_t i = 0; i < n && i < MAX_BLOB; i++)
        hw_strbuf_addf(&b, "%02x", p[i]);
    if (n > MAX_BLOB)
        hw_strbuf_addf(&b, "… (%zu bytes)", n);
    hw_json_str(j, b.p);
    hw_strbuf_done(&b);
}

void hw_page_put_cell(struct hw_json *j, const struct hw_sql_cell *c)
{
    char text[24];
    switch (c->type) {
    case HW_SQL_NULL:
        hw_json_null(j);
        break;
    case HW_SQL_INT:
        if (c->i > max_exact || c->i < -max_exact) {
            (void)snprintf(text, sizeof text, "%" PRId64, c->i);
            hw_json_str(j, text);
        } else {
            hw_json_int(j, c->i);
        }
        break;
    case HW_SQL_REAL:
        hw_json_double(j, c->d);
        break;
    case HW_SQL_TEXT:
        hw_json_strn(j, c->p, c->n);
        break;
    case HW_SQL_BLOB:
        put_blob(j, c->p, c->n);
        break;
    }
}

static int put_row(void *ctx, size_t n, const struct hw_sql_cell *cells)
{
    struct query *q = ctx;
    if (q->rows == q->limit) {
        q->truncated = true;
        return 1;
    }
    q->rows++;
    hw_json_begin_array(&q->j);
    for (size_t i = 0; i < n; i++)
        hw_page_put_cell(&q->j, &cells[i]);
    hw_json_end_array(&q->j);
    return q->j.error;
}

static int end_result(void *ctx)
{
    struct query *q = ctx;
    hw_json_end_array(&q->j);
    hw_json_kv_bool(&q->j, "truncated", q->truncated);
    hw_json_end_object(&q->j);
    return q->j.error;
}

static int run_query(struct hw_sql *db, void *ctx, struct hw_error *err)
{
    struct query *q = ctx;
    struct hw_sql_sink sink = {begin_result, put_row, end_result, q};
    return hw_sql_run(db, q->sql, q->n_sql, &sink, NULL, err);
}

static int write_stream(void *ctx, const void *p, size_t n)
{
    return hw_http_stream_write(ctx, p, n);
}

static void produce_result(struct hw_http_stream *s, void *ctx)
{
    struct query *q = ctx;
    struct hw_error err = {0};
    uint64_t begin_ns = hw_now_monotonic_ns();
    hw_json_init(&q->j, write_stream, s, /* pretty = */ false);
    hw_json_begin_object(&q->j);
    hw_json_key(&q->j, "results");
    hw_json_begin_array(&q->j);
    uint32_t depth = q->j.depth;
    int rc = hw_processor_with(q->job.processor, &q->job, run_query, q, &err);
    /* A statement that failed midway leaves its rows open. */
    if (q->j.depth > depth) {
        hw_json_end_array(&q->j);
        hw_json_kv_bool(&q->j, "truncated", true);
        hw_json_end_object(&q->j);
    }
    hw_json_end_array(&q->j);
    hw_json_kv_str(&q->j, "error", rc == HW_OK ? NULL : err.code ? err.text : hw_errc_text(rc));
    hw_json_kv_double(&q->j, "ms", (double)(hw_now_monotonic_ns() - begin_ns) / 1e6);
    hw_json_end_object(&q->j);
    (void)hw_json_finish(&q->j); /* fails if the client has left */
    hw_json_done(&q->j);
}

static void cancel_query(void *ctx)
{
    hw_processor_cancel(&((struct query *)ctx)->job);
}

static void free_query(void *ctx)
{
    struct query *q = ctx;
    hw_page_trace_unref(q->t);
    free(q->sql);
    free(q);
}

void hw_page_query(struct hw_http_request *req, void *ctx)
{
    struct hw_page_trace *t = hw_page_trace_get(ctx, req, hw_http_query(req, "trace"));
    struct hw_bytes body = hw_http_body(req);
    const char *limit = hw_http_query(req, "limit");
    if (!t)
        return;
    struct query *q = calloc(1, sizeof *q);
    char *sql = malloc(body.n + 1);
    if (!q || !sql) {
        free(q);
        free(sql);
        hw_http_reply_text(req, HTTP_ERROR, hw_errc_text(HW_ENOMEM));
        return;
    }
    if (body.n)
        memcpy(sql, body.p, body.n);
    sql[body.n] = '\0';
    q->t = t;
    hw_page_trace_ref(t); /* it may run longer than the request */
    q->job.processor = t->processor;
    q->job.client = hw_http_client(req);
    q->sql = sql;
    q->n_sql = body.n;
    q->limit = limit && *limit ? strtoull(limit, NULL, 10) : DEFAULT_ROWS;
    q->limit = q->limit < MAX_ROWS ? q->limit : MAX_ROWS;
    struct hw_http_producer producer = {produce_result, cancel_query, free_query, q};
    hw_http_stream(req, HTTP_OK, "application/json", &producer);
}

/* ---- files ---- */

static bool is_packed(const struct hw_exporter *e)
{
    return strcmp(e->name, "pprof") == 0;
}

/* Prefixes each line of a part's stacks with the part's name, as its box is below the root. */
static void put_part(FILE *out, const char *name, const char *lines, size_t n)
{
    for (const char *p = lines, *end = lines + n; p < end;) {
        const char *next = memchr(p, '\n', (size_t)(end - p));
        next = next ? next + 1 : end;
        for (const char *c = name; *c; c++) /* replaced as in the format's frames */
            fputc(*c == ';' ? ':' : (unsigned char)*c < 0x20 || *c == 0x7f ? ' ' : *c, out);
        fputc(';', out);
        (void)fwrite(p, 1, (size_t)(next - p), out); /* errors are checked at the end */
        p = next;
    }
}

/* One line per stack, group by group. */
static int write_groups(const struct hw_exporter *e, const struct hw_export_input *in,
                        const char *group, const struct hw_page_trace *t,
                        const struct hw_page_selection *s, hw_values *values, FILE *out,
                        struct hw_error *err)
{
    hw_page_parts parts = {0};
    int rc = hw_page_parts_by(group, t, s, values, &parts, err);
    for (size_t i = 0; rc == HW_OK && i < parts.n; i++) {
        struct hw_export_input one = *in;
        char *lines = NULL;
        size_t n = 0;
        FILE *f = open_memstream(&lines, &n);
        one.values = &parts.v[i].values;
        rc = f ? e->write(&one, f, err) : HW_ENOMEM;
        if (f && fclose(f) != 0 && rc == HW_OK)
            rc = HW_ENOMEM;
        if (rc == HW_OK)
            put_part(out, parts.v[i].name, lines, n);
        free(lines);
    }
    hw_page_parts_done(&parts);
    return rc < 0 && err->code == 0 ? hw_fail(err, rc, 0, "groups:") : rc;
}

static int write_export(const struct hw_exporter *e, struct hw_page_trace *t,
                        const struct hw_page_selection *s, const char *group, char **bytes,
                        size_t *n, struct hw_error *err)
{
    hw_values values = {0};
    struct hw_namer namer = hw_page_namer(t);
    struct hw_export_input in = {.profile = t->profile,
                                 .values = &values,
                                 .upid = s->upid,
                                 .heap_name = s->heap_id,
                                 .ts_ns = s->ts_ns,
                                 .interval_bytes = s->interval_bytes,
                                 .namer = &namer,
                                 .metric = s->metric,
                                 .filters = s->filters.n ? &s->filters : NULL,
                                 .gzip = is_packed(e)};
    if (s->filters.n && !e->merged)
        return hw_fail(err, HW_EINVAL, 0, "%s holds whole stacks; remove the filters for it",
                       e->name);
    if (hw_filters_have_pivot(&s->filters))
        return hw_fail(err, HW_EINVAL, 0, "a pivot is not written to files; remove it");
    bool grouped = group && *group;
    if (grouped && e != &hw_export_folded)
        return hw_fail(err, HW_EINVAL, 0,
                       "%s has no groups: save folded stacks, or remove the group", e->name);
    FILE *out = open_memstream(bytes, n);
    if (!out)
        return hw_fail(err, HW_ENOMEM, 0, "export");
    int rc = hw_page_values(t, s, &values, err);
    if (rc == HW_OK)
        rc = grouped ? write_groups(e, &in, group, t, s, &values, out, err)
                     : e->write(&in, out, err);
    if (fclose(out) != 0 && rc == HW_OK)
        rc = hw_fail(err, HW_ENOMEM, 0, "export");
    hw_vec_done(&values);
    return rc;
}

void hw_page_export(struct hw_http_request *req, void *ctx)
{
    const struct hw_exporter *e = hw_exporter_find(hw_http_rest(req));
    struct hw_page_selection sel;
    struct hw_error err = {0};
    char *bytes = NULL, name[64];
    size_t n = 0;
    if (!e) {
        hw_http_reply_text(req, HTTP_NOT_FOUND, "no such format\n");
        return;
    }
    struct hw_page_trace *t = hw_page_trace_get(ctx, req, hw_http_query(req, "trace"));
    if (!t)
        return;
    int rc = hw_page_selection_init(&sel, t, req, &err);
    if (rc == HW_OK)
        rc = write_export(e, t, &sel, hw_http_query(req, "group"), &bytes, &n, &err);
    if (rc < 0) {
        hw_page_reply_error(req, &err, rc);
    } else {
        (void)snprintf(name, sizeof name, "attachment; filename=\"heap%s%s\"", e->extension,
                       is_packed(e) ? ".gz" : "");
        hw_http_add_header(req, "Content-Disposition", name);
        hw_http_reply(req, HTTP_OK, "application/octet-stream", bytes, n);
    }
    free(bytes);
    hw_page_selection_done(&sel);
}

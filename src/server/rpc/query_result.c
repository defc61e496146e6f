#include "server/rpc/query_result.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text/utf8.h"
#include "codec/pb.h"
#include "schema/fields.h"
#include "sql/sql.h"

#include "base/banned.h"

#define Q(name)    HW_F_QueryResult_##name
#define B(name)    HW_F_QueryResult_CellsBatch_##name
#define CELL(name) HW_V_QueryResult_CellsBatch_CellType_CELL_##name

struct writer {
    const struct hw_query_emit *emit;
    /* The current batch: */
    struct hw_pb varints, blobs;
    struct hw_strbuf types, doubles, strings;
    size_t n_cells;
    struct hw_pb names; /* column_names, until they are sent */
    /* Of the script: */
    struct hw_bytes sql, last;
    uint64_t start_ns;
    uint32_t n_statements, n_with_output;
    bool wanted; /* the running statement is the last one */
    bool counts_sent;
};

static void writer_done(struct writer *w)
{
    hw_pb_done(&w->varints);
    hw_pb_done(&w->blobs);
    hw_pb_done(&w->names);
    hw_strbuf_done(&w->types);
    hw_strbuf_done(&w->doubles);
    hw_strbuf_done(&w->strings);
}

/* ---- one message ---- */

static void put_batch(struct writer *w, struct hw_pb *m, bool is_last)
{
    hw_pb_begin(m, Q(batch));
    if (w->types.n)
        hw_pb_bytes(m, B(cells), w->types.p, w->types.n);
    if (w->varints.buf.n)
        hw_pb_bytes(m, B(varint_cells), w->varints.buf.p, w->varints.buf.n);
    if (w->doubles.n)
        hw_pb_bytes(m, B(float64_cells), w->doubles.p, w->doubles.n);
    hw_strbuf_add(&m->buf, w->blobs.buf.p, w->blobs.buf.n); /* encoded fields */
    if (w->strings.n)
        hw_pb_bytes(m, B(string_cells), w->strings.p, w->strings.n);
    if (is_last)
        hw_pb_uint(m, B(is_last_batch), 1);
    hw_pb_end(m);
    hw_pb_clear(&w->varints);
    hw_pb_clear(&w->blobs);
    hw_strbuf_clear(&w->types);
    hw_strbuf_clear(&w->doubles);
    hw_strbuf_clear(&w->strings);
    w->n_cells = 0;
}

/* Protobuf strings are UTF-8; names from a target and parts of SQL need not be. */
static void put_string(struct hw_pb *m, uint32_t field, struct hw_bytes text)
{
    struct hw_strbuf clean = {0};
    if (hw_utf8_valid(text.p, text.n)) {
        hw_pb_bytes(m, field, text.p, text.n);
        return;
    }
    hw_utf8_add_clean(&clean, text.p, text.n);
    m->buf.failed |= clean.failed;
    hw_pb_bytes(m, field, clean.p, clean.n);
    hw_strbuf_done(&clean);
}

static void put_counts(struct writer *w, struct hw_pb *m)
{
    w->counts_sent = true;
    hw_pb_uint(m, Q(statement_count), w->n_statements);
    hw_pb_uint(m, Q(statement_with_output_count), w->n_with_output);
    put_string(m, Q(last_statement_sql), w->last);
}

static int send(struct writer *w, bool is_last, const char *error)
{
    struct hw_pb m = {0};
    bool failed = w->varints.buf.failed || w->blobs.buf.failed || w->types.failed ||
                  w->doubles.failed || w->strings.failed || w->names.buf.failed;
    hw_strbuf_add(&m.buf, w->names.buf.p, w->names.buf.n); /* encoded fields */
    hw_pb_clear(&w->names);
    if (error)
        put_string(&m, Q(error), hw_bytes_str(error));
    put_batch(w, &m, is_last);
    if (!w->counts_sent || is_last) /* numbers: when messages are joined, the last value is used */
        put_counts(w, &m);
    if (is_last)
        hw_pb_double(&m, Q(elapsed_time_ms), (double)(hw_now_monotonic_ns() - w->start_ns) / 1e6);
    int rc = failed || hw_pb_failed(&m) ? HW_ENOMEM : w->emit->emit(w->emit->ctx, hw_pb_view(&m));
    hw_pb_done(&m);
    return rc;
}

/* ---- the sink ---- */

static int begin(void *ctx, size_t n, const char *const *names)
{
    struct writer *w = ctx;
    w->n_with_output++;
    for (size_t i = 0; w->wanted && i < n; i++)
        put_string(&w->names, Q(column_names), hw_bytes_str(names[i]));
    return HW_OK;
}

static void put_cell(struct writer *w, const struct hw_sql_cell *c)
{
    static const uint8_t types[] = {
        [HW_SQL_NULL] = CELL(NULL),   [HW_SQL_INT] = CELL(VARINT), [HW_SQL_REAL] = CELL(FLOAT64),
        [HW_SQL_TEXT] = CELL(STRING), [HW_SQL_BLOB] = CELL(BLOB),
    };
    hw_strbuf_addc(&w->types, (char)types[c->type]);
    w->n_cells++;
    switch (c->type) {
    case HW_SQL_NULL:
        break;
    case HW_SQL_INT:
        hw_pb_raw_varint(&w->varints, (uint64_t)c->i);
        break;
    case HW_SQL_REAL:
        hw_strbuf_add(&w->doubles, &c->d, sizeof c->d);
        break;
    case HW_SQL_TEXT: /* the format ends strings by NUL: text after a NUL cannot be sent */
        hw_utf8_add_clean(&w->strings, c->p, strnlen(c->p, c->n));
        hw_strbuf_addc(&w->strings, 0);
        break;
    case HW_SQL_BLOB:
        hw_pb_bytes(&w->blobs, B(blob_cells), c->p, c->n);
        break;
    }
}

static int row(void *ctx, size_t n, const struct hw_sql_cell *cells)
{
    struct writer *w = ctx;
    if (!w->wanted)
        return HW_OK;
    size_t bytes = w->varints.buf.n + w->blobs.buf.n + w->doubles.n + w->strings.n;
    if (w->n_cells && (bytes >= HW_QR_MAX_BYTES || w->n_cells + n > HW_QR_MAX_CELLS)) {
        int rc = send(w, /* is_last = */ false, NULL);
        if (rc < 0)
            return rc;
    }
    for (size_t i = 0; i < n; i++)
        put_cell(w, &cells[i]);
    return HW_OK;
}

static int end(void *ctx)
{
    (void)ctx; /* the last message waits for the statement's final result */
    return HW_OK;
}

/* ---- scripts ---- */

/* Runs the statement at *at; 1 = it was run, 0 = there is none. */
static int run_one(struct writer *w, struct hw_sql *db, size_t *at, struct hw_error *err)
{
    struct hw_sql_sink sink = {begin, row, end, w};
    size_t start = *at, n = 0;
    if (!hw_sql_find_statement((const char *)w->sql.p, w->sql.n, &start, &n))
        return 0;
    w->n_statements++;
    w->last = hw_bytes_of(w->sql.p + start, n);
    return hw_sql_run_one(db, (const char *)w->sql.p, w->sql.n, at, &sink, err);
}

/* Sends the last message. A failed statement's error is part of the result. */
static int finish(struct writer *w, int rc, const struct hw_error *err)
{
    const char *text = rc >= 0 ? NULL : err->text[0] ? err->text : hw_errc_text(rc);
    return send(w, /* is_last = */ true, text);
}

static struct writer writer_of(struct hw_bytes sql, const struct hw_query_emit *e)
{
    return (struct writer){.emit = e, .sql = sql, .start_ns = hw_now_monotonic_ns()};
}

/* Remembers failures of emit: they are not sent to the client. */
struct guard {
    const struct hw_query_emit *emit;
    int failed;
};

static int guarded(void *ctx, struct hw_bytes m)
{
    struct guard *g = ctx;
    if (g->failed == HW_OK)
        g->failed = g->emit->emit(g->emit->ctx, m);
    return g->failed;
}

int hw_query_result_run(struct hw_sql *db, struct hw_bytes sql, const struct hw_query_emit *e)
{
    struct guard g = {e, HW_OK};
    struct hw_query_emit to = {guarded, &g};
    struct writer w = writer_of(sql, &to);
    struct hw_error err = {0};
    size_t at = 0;
    int rc = 1;
    while (rc == 1) {
        size_t next = at, n = 0, behind;
        if (!hw_sql_find_statement((const char *)sql.p, sql.n, &next, &n))
            break;
        behind = next + n;
        w.wanted = !hw_sql_find_statement((const char *)sql.p, sql.n, &behind, &n);
        rc = run_one(&w, db, &at, &err);
    }
    if (w.n_statements == 0 && rc >= 0)
        rc = hw_fail(&err, HW_EINVAL, 0, "No valid SQL to run");
    int sent = finish(&w, rc, &err);
    writer_done(&w);
    return g.failed < 0 ? g.failed : sent;
}

int hw_query_result_statement(struct hw_sql *db, struct hw_bytes sql, size_t *offset,
                              bool *executed, const struct hw_query_emit *e)
{
    struct guard g = {e, HW_OK};
    struct hw_query_emit to = {guarded, &g};
    struct writer w = writer_of(sql, &to);
    struct hw_error err = {0};
    size_t at = *offset < sql.n ? *offset : sql.n;
    w.wanted = true;
    int rc = run_one(&w, db, &at, &err);
    *executed = w.n_statements != 0;
    *offset = rc == 0 ? sql.n : at;
    int sent = finish(&w, rc, &err);
    writer_done(&w);
    return g.failed < 0 ? g.failed : sent;
}

int hw_query_result_error(const char *text, const struct hw_query_emit *e)
{
    struct writer w = writer_of(hw_bytes_of("", 0), e);
    int rc = send(&w, /* is_last = */ true, text);
    writer_done(&w);
    return rc;
}

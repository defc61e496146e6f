#include "server/rpc/rpc_results.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/utf8.h"
#include "export/metrics/metrics.h"
#include "schema/fields.h"
#include "server/rpc/metatrace.h"
#include "server/rpc/processor.h"
#include "sql/sql.h"

#include "base/banned.h"

static int done(const struct hw_pb *out)
{
    return hw_pb_failed(out) ? HW_ENOMEM : HW_OK;
}

/* Cleaned, as our texts may quote untrusted input. */
static void put_text(struct hw_pb *out, uint32_t field, const char *text)
{
    struct hw_strbuf clean = {0};
    hw_utf8_add_clean(&clean, text, strlen(text));
    out->buf.failed |= clean.failed;
    hw_pb_bytes(out, field, clean.p ? clean.p : "", clean.n);
    hw_strbuf_done(&clean);
}

static void put_error(struct hw_pb *out, uint32_t field, int rc, const struct hw_error *err)
{
    if (rc < 0)
        put_text(out, field, err->text[0] ? err->text : hw_errc_text(rc));
}

/* ---- the trace ---- */

int hw_rpc_append(struct hw_rpc_server *s, struct hw_bytes data, struct hw_pb *out)
{
    struct hw_error err = {0};
    uint64_t total = 0;
    int rc = hw_processor_append(s->processor, data, &total, &err);
    hw_pb_uint(out, HW_F_AppendTraceDataResult_total_bytes_parsed, total);
    put_error(out, HW_F_AppendTraceDataResult_error, rc, &err);
    return done(out);
}

int hw_rpc_finalize(struct hw_rpc_server *s, struct hw_pb *out)
{
    struct hw_error err = {0};
    hw_metatrace_begin(s->metatrace, "load trace", hw_bytes_of(NULL, 0));
    int rc = hw_processor_finalize(s->processor, &err);
    hw_metatrace_end(s->metatrace);
    put_error(out, HW_F_FinalizeDataResult_error, rc, &err);
    return done(out);
}

int hw_rpc_status(struct hw_rpc_server *s, struct hw_pb *out)
{
    hw_autofree char *name = hw_processor_trace_name(s->processor);
    if (!name)
        return HW_ENOMEM;
    put_text(out, HW_F_StatusResult_loaded_trace_name, name);
    hw_pb_str(out, HW_F_StatusResult_human_readable_version, "heapwise " HW_VERSION);
    hw_pb_uint(out, HW_F_StatusResult_api_version, HW_RPC_API_VERSION);
    hw_pb_str(out, HW_F_StatusResult_version_code, "v" HW_VERSION);
    return done(out);
}

/* ---- queries ---- */

struct query {
    struct hw_bytes sql;
    uint64_t offset;
    const struct hw_query_emit *emit;
    struct hw_rpc_server *server;
};

/* QueryArgs and StatementArgs have the same field for the SQL. */
static int read_query(struct hw_bytes args, struct query *q)
{
    struct hw_pb_reader r = hw_pb_read(args);
    struct hw_pb_field f;
    int rc;
    while ((rc = hw_pb_next(&r, &f)) == 1) {
        if (f.number == HW_F_QueryArgs_sql_query && f.wire == HW_PB_BYTES)
            q->sql = f.bytes;
        else if (f.number == HW_F_StatementArgs_start_offset && f.wire == HW_PB_VARINT)
            q->offset = f.value;
    }
    if (!q->sql.p)
        q->sql = hw_bytes_of("", 0);
    return rc;
}

static int run_query(struct hw_sql *db, void *ctx, struct hw_error *err)
{
    struct query *q = ctx;
    (void)err;
    hw_metatrace_begin(q->server->metatrace, "query", q->sql);
    int rc = hw_query_result_run(db, q->sql, q->emit);
    hw_metatrace_end(q->server->metatrace);
    return rc;
}

int hw_rpc_query(struct hw_rpc_server *s, struct hw_bytes args, struct hw_processor_job *job,
                 const struct hw_query_emit *e)
{
    struct query q = {.emit = e, .server = s};
    struct hw_error err = {0};
    int rc = read_query(args, &q);
    if (rc < 0)
        return rc;
    rc = hw_processor_with(s->processor, job, run_query, &q, &err);
    /* A trace that cannot be read is reported as the query's error. */
    return rc < 0 && err.text[0] ? hw_query_result_error(err.text, e) : rc;
}

struct statement {
    struct query q;
    struct hw_pb held; /* the last result: it is sent with the offset */
    bool has_held;
    const struct hw_query_emit *emit;
};

static int send_statement(struct statement *t, bool last, size_t tail, bool executed)
{
    struct hw_pb m = {0};
    if (t->has_held)
        hw_pb_bytes(&m, HW_F_StatementResult_result, t->held.buf.p, t->held.buf.n);
    if (last) {
        hw_pb_uint(&m, HW_F_StatementResult_tail_offset, tail);
        hw_pb_uint(&m, HW_F_StatementResult_statement_executed, executed);
    }
    int rc = hw_pb_failed(&m) ? HW_ENOMEM : t->emit->emit(t->emit->ctx, hw_pb_view(&m));
    hw_pb_done(&m);
    t->has_held = false;
    hw_pb_clear(&t->held);
    return rc;
}

static int hold(void *ctx, struct hw_bytes m)
{
    struct statement *t = ctx;
    int rc = t->has_held ? send_statement(t, /* last = */ false, 0, false) : HW_OK;
    hw_strbuf_add(&t->held.buf, m.p, m.n);
    t->has_held = true;
    return rc == HW_OK && t->held.buf.failed ? HW_ENOMEM : rc;
}

static int run_statement(struct hw_sql *db, void *ctx, struct hw_error *err)
{
    struct statement *t = ctx;
    struct hw_query_emit to = {hold, t};
    size_t offset = t->q.offset < t->q.sql.n ? (size_t)t->q.offset : t->q.sql.n;
    bool executed;
    (void)err;
    hw_metatrace_begin(t->q.server->metatrace, "statement", hw_bytes_skip(t->q.sql, offset));
    int rc = hw_query_result_statement(db, t->q.sql, &offset, &executed, &to);
    hw_metatrace_end(t->q.server->metatrace);
    return rc == HW_OK ? send_statement(t, /* last = */ true, offset, executed) : rc;
}

int hw_rpc_statement(struct hw_rpc_server *s, struct hw_bytes args, struct hw_processor_job *job,
                     const struct hw_query_emit *e)
{
    struct statement t = {.q = {.server = s}, .emit = e};
    struct hw_error err = {0};
    int rc = read_query(args, &t.q);
    if (rc == HW_OK) {
        rc = hw_processor_with(s->processor, job, run_statement, &t, &err);
        if (rc < 0 && err.text[0]) {
            struct hw_query_emit to = {hold, &t};
            rc = hw_query_result_error(err.text, &to);
            if (rc == HW_OK)
                rc = send_statement(&t, /* last = */ true, (size_t)t.q.offset, false);
        }
    }
    hw_pb_done(&t.held);
    return rc;
}

/* ---- packages ---- */

static int register_module(struct hw_rpc_server *s, const char *package, struct hw_bytes module,
                           bool override, struct hw_error *err)
{
    struct hw_pb_reader r = hw_pb_read(module);
    struct hw_pb_field f;
    struct hw_bytes name = {0}, sql = {0};
    int rc;
    while ((rc = hw_pb_next(&r, &f)) == 1) {
        if (f.number == HW_F_RegisterSqlPackageArgs_Module_name && f.wire == HW_PB_BYTES)
            name = f.bytes;
        else if (f.number == HW_F_RegisterSqlPackageArgs_Module_sql && f.wire == HW_PB_BYTES)
            sql = f.bytes;
    }
    if (rc < 0)
        return hw_fail(err, rc, 0, "a module's message is broken");
    struct hw_strbuf full = {0};
    size_t n = strlen(package);
    bool has_package = name.n > n && memcmp(name.p, package, n) == 0 && name.p[n] == '.';
    if (!has_package)
        hw_strbuf_addf(&full, "%s.", package);
    hw_strbuf_add(&full, name.p, name.n);
    rc =
        full.failed ? HW_ENOMEM : hw_processor_add_module(s->processor, full.p, sql, override, err);
    hw_strbuf_done(&full);
    return rc;
}

int hw_rpc_register(struct hw_rpc_server *s, struct hw_bytes args, struct hw_pb *out)
{
    struct hw_pb_reader r = hw_pb_read(args);
    struct hw_pb_field f;
    struct hw_error err = {0};
    hw_autofree char *package = NULL;
    bool override = false;
    int rc;
    while ((rc = hw_pb_next(&r, &f)) == 1) {
        if (f.number == HW_F_RegisterSqlPackageArgs_package_name && f.wire == HW_PB_BYTES) {
            free(package);
            package = strndup((const char *)f.bytes.p, f.bytes.n);
        } else if (f.number == HW_F_RegisterSqlPackageArgs_allow_override) {
            override = f.value != 0;
        }
    }
    if (rc == HW_OK && (!package || !package[0]))
        rc = hw_fail(&err, HW_EINVAL, 0, "the package has no name");
    r = hw_pb_read(args);
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1)
        if (f.number == HW_F_RegisterSqlPackageArgs_modules && f.wire == HW_PB_BYTES)
            rc = register_module(s, package, f.bytes, override, &err);
    put_error(out, HW_F_RegisterSqlPackageResult_error, rc, &err);
    return done(out);
}

/* ---- metrics, summaries, ourselves ---- */

enum { MAX_METRICS = 256 };

struct metrics {
    char *names[MAX_METRICS]; /* owned */
    size_t n;
    enum hw_metrics_format format;
    struct hw_strbuf out;
};

static int read_metrics(struct hw_bytes args, struct metrics *m, struct hw_error *err)
{
    struct hw_pb_reader r = hw_pb_read(args);
    struct hw_pb_field f;
    int rc;
    while ((rc = hw_pb_next(&r, &f)) == 1) {
        if (f.number == HW_F_ComputeMetricArgs_metric_names && f.wire == HW_PB_BYTES) {
            if (m->n == MAX_METRICS)
                return hw_fail(err, HW_ELIMIT, 0, "too many metrics");
            m->names[m->n] = strndup((const char *)f.bytes.p, f.bytes.n);
            if (!m->names[m->n++])
                return hw_fail(err, HW_ENOMEM, 0, "metrics");
        } else if (f.number == HW_F_ComputeMetricArgs_format && f.wire == HW_PB_VARINT) {
            if (f.value > HW_METRICS_JSON)
                return hw_fail(err, HW_EINVAL, 0, "unknown form of metrics");
            m->format = (enum hw_metrics_format)f.value;
        }
    }
    return rc;
}

static int run_metrics(struct hw_sql *db, void *ctx, struct hw_error *err)
{
    struct metrics *m = ctx;
    return hw_metrics_run(hw_sql_profile(db), (const char *const *)m->names, m->n, m->format,
                          &m->out, err);
}

int hw_rpc_metric(struct hw_rpc_server *s, struct hw_bytes args, struct hw_pb *out)
{
    static const uint32_t fields[] = {
        [HW_METRICS_BINARY] = HW_F_ComputeMetricResult_metrics,
        [HW_METRICS_TEXT] = HW_F_ComputeMetricResult_metrics_as_prototext,
        [HW_METRICS_JSON] = HW_F_ComputeMetricResult_metrics_as_json,
    };
    struct metrics m = {0};
    struct hw_error err = {0};
    int rc = read_metrics(args, &m, &err);
    bool broken = rc < 0 && !err.text[0];
    hw_metatrace_begin(s->metatrace, "metrics", hw_bytes_of(NULL, 0));
    if (rc == HW_OK)
        rc = hw_processor_with(s->processor, NULL, run_metrics, &m, &err);
    hw_metatrace_end(s->metatrace);
    if (rc == HW_OK)
        hw_pb_bytes(out, fields[m.format], m.out.p ? m.out.p : "", m.out.n);
    put_error(out, HW_F_ComputeMetricResult_error, rc, &err);
    hw_strbuf_done(&m.out);
    for (size_t i = 0; i < m.n; i++)
        free(m.names[i]);
    return broken ? rc : done(out);
}

int hw_rpc_summary(struct hw_rpc_server *s, struct hw_bytes args, struct hw_pb *out)
{
    (void)s;
    (void)args;
    hw_pb_str(out, HW_F_TraceSummaryResult_error,
              "trace summaries (structured queries) are not supported; ask the same in SQL");
    return done(out);
}

int hw_rpc_metatrace(struct hw_rpc_server *s, struct hw_pb *out)
{
    struct hw_strbuf trace = {0};
    int rc = hw_metatrace_take(s->metatrace, &trace);
    if (rc == HW_OK)
        hw_pb_bytes(out, HW_F_DisableAndReadMetatraceResult_metatrace, trace.p ? trace.p : "",
                    trace.n);
    else
        hw_pb_str(out, HW_F_DisableAndReadMetatraceResult_error,
                  rc == HW_EINVAL ? "the metatrace was not enabled" : hw_errc_text(rc));
    hw_strbuf_done(&trace);
    return done(out);
}

/* ---- export ---- */

struct exporting {
    uint64_t format;
    int (*piece)(void *ctx, struct hw_bytes bytes, uint64_t total);
    void *ctx;
};

static int send_file(int fd, struct exporting *x, struct hw_error *err)
{
    enum { PIECE = 1 << 20 };
    struct stat st;
    hw_autofree char *buffer = malloc(PIECE);
    uint64_t at = 0;
    ssize_t n = 0;
    if (!buffer || fstat(fd, &st) < 0)
        return hw_fail_sys(err, "cannot read the exported file");
    int rc = st.st_size == 0 ? x->piece(x->ctx, hw_bytes_of("", 0), 0) : HW_OK;
    while (rc == HW_OK && (n = pread(fd, buffer, PIECE, (off_t)at)) > 0) {
        rc = x->piece(x->ctx, hw_bytes_of(buffer, (size_t)n), (uint64_t)st.st_size);
        at += (uint64_t)n;
    }
    return rc == HW_OK && n < 0 ? hw_fail_sys(err, "cannot read the exported file") : rc;
}

/* In a new directory, as the file is first written under a temporary name. */
static int export_tables(struct hw_sql *db, void *ctx, struct hw_error *err)
{
    const struct exporting *x = ctx;
    bool arrow = x->format == HW_V_ExportArgs_Format_FORMAT_ARROW_TAR;
    const char *tmp = getenv("TMPDIR");
    char dir[512], path[600];
    (void)snprintf(dir, sizeof dir, "%.400s/heapwise-export-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(dir))
        return hw_fail_sys(err, "cannot make a directory for the export");
    (void)snprintf(path, sizeof path, "%s/tables", dir);
    int rc = arrow ? hw_sql_export_arrow(db, path, err) : hw_sql_export(db, path, err);
    hw_autofd int fd = rc == HW_OK ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    (void)unlink(path); /* the descriptor keeps it */
    (void)rmdir(dir);
    if (rc == HW_OK && fd < 0)
        rc = hw_fail_sys(err, "cannot read the exported file");
    return rc == HW_OK ? send_file(fd, ctx, err) : rc;
}

static int export_trace(int fd, void *ctx, struct hw_error *err)
{
    return send_file(fd, ctx, err);
}

int hw_rpc_export(struct hw_rpc_server *s, struct hw_bytes args, struct hw_processor_job *job,
                  int (*piece)(void *ctx, struct hw_bytes bytes, uint64_t total), void *ctx,
                  struct hw_error *err)
{
    struct exporting x = {HW_V_ExportArgs_Format_FORMAT_SQLITE, piece, ctx};
    struct hw_pb_reader r = hw_pb_read(args);
    struct hw_pb_field f;
    int rc;
    while ((rc = hw_pb_next(&r, &f)) == 1)
        if (f.number == HW_F_ExportArgs_format && f.value)
            x.format = f.value;
    if (rc < 0)
        return hw_fail(err, rc, 0, "the arguments are broken");
    switch (x.format) {
    case HW_V_ExportArgs_Format_FORMAT_SQLITE:
    case HW_V_ExportArgs_Format_FORMAT_ARROW_TAR:
        return hw_processor_with(s->processor, job, export_tables, &x, err);
    case HW_V_ExportArgs_Format_FORMAT_PERFETTO:
        return hw_processor_with_trace(s->processor, export_trace, &x, err);
    default:
        return hw_fail(err, HW_EINVAL, 0, "unknown export format %llu",
                       (unsigned long long)x.format);
    }
}

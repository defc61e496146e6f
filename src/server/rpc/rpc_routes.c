#include "server/rpc/rpc_routes.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "schema/fields.h"
#include "server/rpc/metatrace.h"
#include "server/rpc/processor.h"
#include "server/rpc/rpc.h"
#include "server/rpc/rpc_results.h"

#include "base/banned.h"

enum { OK = 200, SERVER_ERROR = 500, MAX_ARGS = 16 << 20, MAX_PIPE = 256 << 20 };
static const char protobuf[] = "application/x-protobuf";

const char *const hw_rpc_origins[] = {"https://ui.perfetto.dev", "http://localhost:10000",
                                      "http://127.0.0.1:10000"};
const size_t hw_n_rpc_origins = HW_ARRAY_LEN(hw_rpc_origins);

/* Per-connection data: the pipe, and the result of appending a trace's pieces. */
struct connection {
    struct hw_rpc *pipe;
    struct hw_pb append_result;
};

void *hw_rpc_connection_new(void *ctx)
{
    struct connection *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->pipe = hw_rpc_new(ctx);
    if (!c->pipe) {
        free(c);
        return NULL;
    }
    return c;
}

void hw_rpc_connection_free(void *ctx, void *data)
{
    struct connection *c = data;
    (void)ctx;
    hw_rpc_free(c->pipe);
    hw_pb_done(&c->append_result);
    free(c);
}

/* ---- single responses ---- */

static void reply(struct hw_http_request *req, int rc, struct hw_pb *out)
{
    if (rc == HW_EFORMAT || rc == HW_ETRUNCATED)
        hw_http_reply_text(req, 400, "the arguments are broken\n");
    else if (rc < 0)
        hw_http_reply_text(req, SERVER_ERROR, hw_errc_text(rc));
    else
        hw_http_reply(req, OK, protobuf, out->buf.p, out->buf.n);
    hw_pb_done(out);
}

static void status(struct hw_http_request *req, void *ctx)
{
    struct hw_pb out = {0};
    reply(req, hw_rpc_status(ctx, &out), &out);
}

static int parse_piece(struct hw_http_request *req, void *ctx, struct hw_bytes piece)
{
    struct connection *c = hw_http_connection_data(req);
    if (!c)
        return HW_ENOMEM;
    hw_pb_clear(&c->append_result);
    return hw_rpc_append(ctx, piece, &c->append_result);
}

static void parse(struct hw_http_request *req, void *ctx)
{
    struct connection *c = hw_http_connection_data(req);
    struct hw_pb out = {0};
    int rc = c ? HW_OK : HW_ENOMEM;
    if (c && c->append_result.buf.n) {
        hw_strbuf_add(&out.buf, c->append_result.buf.p, c->append_result.buf.n);
        hw_pb_clear(&c->append_result);
        rc = hw_pb_failed(&out) ? HW_ENOMEM : HW_OK;
    } else if (c) { /* an empty piece */
        rc = hw_rpc_append(ctx, hw_bytes_of("", 0), &out);
    }
    reply(req, rc, &out);
}

static void notify_eof(struct hw_http_request *req, void *ctx)
{
    struct hw_pb out = {0};
    reply(req, hw_rpc_finalize(ctx, &out), &out);
}

static void restore(struct hw_http_request *req, void *ctx)
{
    const struct hw_rpc_server *s = ctx;
    struct hw_error err = {0};
    struct hw_pb none = {0};
    reply(req, hw_processor_restore(s->processor, &err), &none);
}

static void metric(struct hw_http_request *req, void *ctx)
{
    struct hw_pb out = {0};
    reply(req, hw_rpc_metric(ctx, hw_http_body(req), &out), &out);
}

static void summary(struct hw_http_request *req, void *ctx)
{
    struct hw_pb out = {0};
    reply(req, hw_rpc_summary(ctx, hw_http_body(req), &out), &out);
}

static void enable_metatrace(struct hw_http_request *req, void *ctx)
{
    const struct hw_rpc_server *s = ctx;
    struct hw_pb none = {0};
    hw_metatrace_enable(s->metatrace);
    reply(req, HW_OK, &none);
}

static void read_metatrace(struct hw_http_request *req, void *ctx)
{
    struct hw_pb out = {0};
    reply(req, hw_rpc_metatrace(ctx, &out), &out);
}

static void help(struct hw_http_request *req, void *ctx)
{
    (void)ctx;
    hw_http_reply_text(req, OK,
                       "heapwise " HW_VERSION ": RPC of a trace processor.\n\n"
                       "Open https://ui.perfetto.dev in a browser on this machine: it finds this\n"
                       "server and offers to use its trace.\n\n"
                       "  /status                          the loaded trace, versions\n"
                       "  /websocket, /rpc                 stream of TraceProcessorRpc messages\n"
                       "  /parse, /notify_eof              load a trace\n"
                       "  /query                           QueryArgs -> QueryResult, in pieces\n"
                       "  /restore_initial_tables          forget what scripts made\n"
                       "  /compute_metric, /trace_summary\n"
                       "  /enable_metatrace, /disable_and_read_metatrace\n"
                       "  /export                          ExportArgs -> ExportResult\n");
}

/* ---- streamed responses ---- */

/* A query that outlives its request. */
struct long_query {
    struct hw_rpc_server *server;
    struct hw_rpc *pipe; /* of /rpc: the connection's; NULL */
    struct hw_processor_job job;
    struct hw_strbuf args;
    struct hw_http_stream *stream;
};

static void long_query_free(void *ctx)
{
    struct long_query *a = ctx;
    hw_strbuf_done(&a->args);
    free(a);
}

static void cancel(void *ctx)
{
    struct long_query *a = ctx;
    hw_processor_cancel(a->pipe ? hw_rpc_job(a->pipe) : &a->job);
}

static int send_piece(void *ctx, struct hw_bytes m)
{
    return hw_http_stream_write(((struct long_query *)ctx)->stream, m.p, m.n);
}

static void start(struct hw_http_request *req, void *ctx, struct hw_rpc *pipe,
                  void (*produce)(struct hw_http_stream *, void *))
{
    struct hw_bytes body = hw_http_body(req);
    struct long_query *a = calloc(1, sizeof *a);
    struct hw_rpc_server *s = ctx;
    if (a) {
        *a = (struct long_query){.server = s,
                                 .pipe = pipe,
                                 .job = {.processor = s->processor, .client = hw_http_client(req)}};
        hw_strbuf_add(&a->args, body.p, body.n);
    }
    if (!a || a->args.failed) {
        if (a)
            long_query_free(a);
        hw_http_reply_text(req, SERVER_ERROR, "out of memory\n");
        return;
    }
    hw_http_stream(req, OK, protobuf,
                   &(struct hw_http_producer){produce, cancel, long_query_free, a});
}

static struct hw_bytes args_of(const struct long_query *a)
{
    return hw_bytes_of(a->args.p ? a->args.p : "", a->args.n);
}

static void produce_query(struct hw_http_stream *s, void *ctx)
{
    struct long_query *a = ctx;
    struct hw_query_emit e = {send_piece, a};
    a->stream = s;
    int rc = hw_rpc_query(a->server, args_of(a), &a->job, &e);
    if (rc == HW_EFORMAT || rc == HW_ETRUNCATED)
        (void)hw_query_result_error("the arguments are broken", &e);
}

static void query(struct hw_http_request *req, void *ctx)
{
    start(req, ctx, NULL, produce_query);
}

static void produce_pipe(struct hw_http_stream *s, void *ctx)
{
    struct long_query *a = ctx;
    struct hw_rpc_write to = {send_piece, a};
    a->stream = s;
    /* An error was written to the pipe; further bytes of this connection are refused. */
    (void)hw_rpc_bytes(a->pipe, args_of(a), &to);
}

static void rpc(struct hw_http_request *req, void *ctx)
{
    struct connection *c = hw_http_connection_data(req);
    if (!c)
        return;
    hw_rpc_job(c->pipe)->client = hw_http_client(req);
    start(req, ctx, c->pipe, produce_pipe);
}

/* A single ExportResult message, its data as long as the file. */
struct exporting {
    struct long_query *long_query;
    bool begun;
};

static int export_piece(void *ctx, struct hw_bytes bytes, uint64_t total)
{
    struct exporting *x = ctx;
    struct hw_pb head = {0};
    int rc = HW_OK;
    if (!x->begun) {
        hw_pb_uint(&head, HW_F_ExportResult_is_last, 1);
        hw_pb_raw_varint(&head, HW_F_ExportResult_data << 3 | HW_PB_BYTES);
        hw_pb_raw_varint(&head, total);
        rc = hw_pb_failed(&head) ? HW_ENOMEM : send_piece(x->long_query, hw_pb_view(&head));
        hw_pb_done(&head);
        x->begun = true;
    }
    return rc == HW_OK ? send_piece(x->long_query, bytes) : rc;
}

static void produce_export(struct hw_http_stream *s, void *ctx)
{
    struct exporting x = {.long_query = ctx};
    struct hw_error err = {0};
    struct hw_pb m = {0};
    x.long_query->stream = s;
    int rc = hw_rpc_export(x.long_query->server, args_of(x.long_query), &x.long_query->job,
                           export_piece, &x, &err);
    if (rc == HW_OK || x.begun || !err.text[0])
        return;
    hw_pb_str(&m, HW_F_ExportResult_error, err.text);
    hw_pb_uint(&m, HW_F_ExportResult_is_last, 1);
    if (!hw_pb_failed(&m))
        (void)send_piece(ctx, hw_pb_view(&m)); /* the client may have left */
    hw_pb_done(&m);
}

static void export_trace(struct hw_http_request *req, void *ctx)
{
    start(req, ctx, NULL, produce_export);
}

/* ---- WebSocket ---- */

struct socket_pipe {
    struct hw_rpc *rpc;
    struct hw_websocket *socket;
};

static int socket_write(void *ctx, struct hw_bytes frame)
{
    return hw_websocket_send(((struct socket_pipe *)ctx)->socket, /* text = */ false, frame.p,
                             frame.n);
}

static bool socket_gone(void *ctx)
{
    return hw_websocket_gone(((struct socket_pipe *)ctx)->socket);
}

static int socket_message(struct hw_websocket *ws, void *ctx, bool text, struct hw_bytes m)
{
    struct socket_pipe *p = ctx;
    struct hw_rpc_write to = {socket_write, p};
    p->socket = ws;
    hw_rpc_job(p->rpc)->gone = socket_gone;
    hw_rpc_job(p->rpc)->ctx = p;
    return text ? HW_EFORMAT : hw_rpc_bytes(p->rpc, m, &to);
}

static void socket_done(void *ctx)
{
    struct socket_pipe *p = ctx;
    hw_rpc_free(p->rpc);
    free(p);
}

static void websocket(struct hw_http_request *req, void *ctx)
{
    struct socket_pipe *p = calloc(1, sizeof *p);
    if (!p)
        return;
    p->rpc = hw_rpc_new(ctx);
    if (!p->rpc) {
        free(p);
        return;
    }
    hw_rpc_job(p->rpc)->client = hw_http_client(req);
    hw_http_websocket(req,
                      &(struct hw_websocket_ops){.message = socket_message,
                                                 .done = socket_done,
                                                 .ctx = p,
                                                 .max_message = HW_RPC_MAX_MESSAGE + (64 << 10)});
}

/* Perfetto's Python client uses GET for some of them, although they change state. */
#define ANY (HW_HTTP_GET | HW_HTTP_POST)
const struct hw_http_route hw_rpc_routes[] = {
    {HW_HTTP_GET, "/", 0, 0, help, NULL},
    {ANY, "/status", 0, MAX_ARGS, status, NULL},
    {HW_HTTP_GET, "/websocket", 0, 0, websocket, NULL},
    {HW_HTTP_POST, "/rpc", 0, MAX_PIPE, rpc, NULL},
    {HW_HTTP_POST, "/parse", 0, HW_HTTP_MAX_UPLOAD, parse, parse_piece},
    {ANY, "/notify_eof", HW_HTTP_CHANGES, MAX_ARGS, notify_eof, NULL},
    {HW_HTTP_POST, "/restore_initial_tables", 0, MAX_ARGS, restore, NULL},
    {HW_HTTP_POST, "/query", 0, MAX_ARGS, query, NULL},
    {HW_HTTP_POST, "/compute_metric", 0, MAX_ARGS, metric, NULL},
    {HW_HTTP_POST, "/trace_summary", 0, MAX_ARGS, summary, NULL},
    {ANY, "/enable_metatrace", HW_HTTP_CHANGES, MAX_ARGS, enable_metatrace, NULL},
    {ANY, "/disable_and_read_metatrace", HW_HTTP_CHANGES, MAX_ARGS, read_metatrace, NULL},
    {HW_HTTP_POST, "/export", 0, MAX_ARGS, export_trace, NULL},
};
const size_t hw_n_rpc_routes = HW_ARRAY_LEN(hw_rpc_routes);

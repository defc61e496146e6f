#include "server/rpc/rpc.h"

#include <stdlib.h>

#include "base/error.h"
#include "codec/pb.h"
#include "schema/fields.h"
#include "server/rpc/metatrace.h"
#include "server/rpc/processor.h"
#include "server/rpc/rpc_results.h"

#include "base/banned.h"

#define F(name)   HW_F_TraceProcessorRpc_##name
#define TPM(name) HW_V_TraceProcessorRpc_TraceProcessorMethod_TPM_##name

struct hw_rpc {
    struct hw_rpc_server *server;
    struct hw_strbuf in;
    size_t taken; /* bytes of `in` that were processed */
    struct hw_processor_job job;
    int64_t next_out, last_in; /* sequence numbers; last_in -1 = none yet */
    bool broken;
    const struct hw_rpc_write *to;
};

struct hw_rpc *hw_rpc_new(struct hw_rpc_server *server)
{
    struct hw_rpc *r = calloc(1, sizeof *r);
    if (r)
        *r = (struct hw_rpc){
            .server = server, .job = {.processor = server->processor}, .last_in = -1};
    return r;
}

void hw_rpc_free(struct hw_rpc *r)
{
    if (!r)
        return;
    hw_strbuf_done(&r->in);
    free(r);
}

struct hw_processor_job *hw_rpc_job(struct hw_rpc *r)
{
    return &r->job;
}

/* ---- responses ---- */

static int write_message(struct hw_rpc *r, const struct hw_pb *m)
{
    struct hw_pb frame = {0};
    hw_pb_bytes(&frame, HW_F_TraceProcessorRpcStream_msg, m->buf.p, m->buf.n);
    int rc = hw_pb_failed(m) || hw_pb_failed(&frame) ? HW_ENOMEM
                                                     : r->to->write(r->to->ctx, hw_pb_view(&frame));
    hw_pb_done(&frame);
    return rc;
}

/* One message: kind is response or invalid_request; field 0: without a result. */
static int respond(struct hw_rpc *r, uint32_t kind, uint64_t method, uint32_t field,
                   struct hw_bytes result)
{
    struct hw_pb m = {0};
    hw_pb_uint(&m, F(seq), (uint64_t)r->next_out++);
    hw_pb_uint(&m, kind, method);
    if (field)
        hw_pb_bytes(&m, field, result.p, result.n);
    int rc = write_message(r, &m);
    hw_pb_done(&m);
    return rc;
}

/* Ends the pipe with the reason. */
static int give_up(struct hw_rpc *r, int code, const char *text)
{
    struct hw_pb m = {0};
    r->broken = true;
    hw_pb_uint(&m, F(seq), (uint64_t)r->next_out++);
    hw_pb_str(&m, F(fatal_error), text);
    int rc = write_message(r, &m);
    hw_pb_done(&m);
    return rc < 0 ? rc : code;
}

/* ---- methods ---- */

struct pieces {
    struct hw_rpc *rpc;
    uint64_t method, sent;
    uint32_t field;
};

static int emit(void *ctx, struct hw_bytes result)
{
    struct pieces *p = ctx;
    return respond(p->rpc, F(response), p->method, p->field, result);
}

static int query(struct hw_rpc *r, uint64_t method, struct hw_bytes args)
{
    struct pieces p = {r, method, 0, F(query_result)};
    struct hw_query_emit e = {emit, &p};
    return hw_rpc_query(r->server, args, &r->job, &e);
}

static int statement(struct hw_rpc *r, uint64_t method, struct hw_bytes args)
{
    struct pieces p = {r, method, 0, F(statement_result)};
    struct hw_query_emit e = {emit, &p};
    return hw_rpc_statement(r->server, args, &r->job, &e);
}

static int export_piece(void *ctx, struct hw_bytes bytes, uint64_t total)
{
    struct pieces *p = ctx;
    struct hw_pb m = {0};
    p->sent += bytes.n;
    hw_pb_bytes(&m, HW_F_ExportResult_data, bytes.p, bytes.n);
    if (p->sent >= total)
        hw_pb_uint(&m, HW_F_ExportResult_is_last, 1);
    int rc = hw_pb_failed(&m) ? HW_ENOMEM : emit(ctx, hw_pb_view(&m));
    hw_pb_done(&m);
    return rc;
}

static int export_trace(struct hw_rpc *r, uint64_t method, struct hw_bytes args)
{
    struct pieces p = {r, method, 0, F(export_result)};
    struct hw_error err = {0};
    int rc = hw_rpc_export(r->server, args, &r->job, export_piece, &p, &err);
    if (rc == HW_OK || !err.text[0])
        return rc;
    struct hw_pb m = {0};
    hw_pb_str(&m, HW_F_ExportResult_error, err.text);
    hw_pb_uint(&m, HW_F_ExportResult_is_last, 1);
    rc = hw_pb_failed(&m) ? HW_ENOMEM : emit(&p, hw_pb_view(&m));
    hw_pb_done(&m);
    return rc;
}

/* Methods with a single response. */
static int run_single(struct hw_rpc *r, uint64_t method, struct hw_bytes args, struct hw_pb *out,
                      uint32_t *field)
{
    struct hw_error err = {0};
    switch (method) {
    case TPM(APPEND_TRACE_DATA):
        *field = F(append_result);
        return hw_rpc_append(r->server, args, out);
    case TPM(FINALIZE_TRACE_DATA):
        *field = F(finalize_data_result);
        return hw_rpc_finalize(r->server, out);
    case TPM(COMPUTE_METRIC):
        *field = F(metric_result);
        return hw_rpc_metric(r->server, args, out);
    case TPM(GET_METRIC_DESCRIPTORS):
        *field = F(metric_descriptors);
        return hw_rpc_descriptors(r->server, out);
    case TPM(RESTORE_INITIAL_TABLES):
        return hw_processor_restore(r->server->processor, &err);
    case TPM(ENABLE_METATRACE):
        hw_metatrace_enable(r->server->metatrace);
        return HW_OK;
    case TPM(DISABLE_AND_READ_METATRACE):
        *field = F(metatrace);
        return hw_rpc_metatrace(r->server, out);
    case TPM(GET_STATUS):
        *field = F(status);
        return hw_rpc_status(r->server, out);
    case TPM(RESET_TRACE_PROCESSOR):
        return hw_processor_reset(r->server->processor, &err);
    case TPM(REGISTER_SQL_PACKAGE):
        *field = F(register_sql_package_result);
        return hw_rpc_register(r->server, args, out);
    default: /* TPM(SUMMARIZE_TRACE): the only other one in the table below */
        *field = F(trace_summary_result);
        return hw_rpc_summary(r->server, args, out);
    }
}

static int respond_once(struct hw_rpc *r, uint64_t method, struct hw_bytes args)
{
    struct hw_pb out = {0};
    uint32_t field = 0;
    int rc = run_single(r, method, args, &out, &field);
    if (rc == HW_OK)
        rc = respond(r, F(response), method, field, hw_pb_view(&out));
    hw_pb_done(&out);
    return rc;
}

static const struct method {
    uint32_t number, args; /* field of the arguments; 0 = none */
    int (*run)(struct hw_rpc *r, uint64_t method, struct hw_bytes args);
} methods[] = {
    {TPM(APPEND_TRACE_DATA), F(append_trace_data), respond_once},
    {TPM(FINALIZE_TRACE_DATA), 0, respond_once},
    {TPM(QUERY_STREAMING), F(query_args), query},
    {TPM(COMPUTE_METRIC), F(compute_metric_args), respond_once},
    {TPM(GET_METRIC_DESCRIPTORS), 0, respond_once},
    {TPM(RESTORE_INITIAL_TABLES), 0, respond_once},
    {TPM(ENABLE_METATRACE), 0, respond_once},
    {TPM(DISABLE_AND_READ_METATRACE), 0, respond_once},
    {TPM(GET_STATUS), 0, respond_once},
    {TPM(RESET_TRACE_PROCESSOR), 0, respond_once},
    {TPM(REGISTER_SQL_PACKAGE), F(register_sql_package_args), respond_once},
    {TPM(SUMMARIZE_TRACE), F(trace_summary_args), respond_once},
    {TPM(STATEMENT_STREAMING), F(statement_args), statement},
    {TPM(EXPORT), F(export_args), export_trace},
};

/* ---- requests ---- */

static int run_method(struct hw_rpc *r, uint64_t number, struct hw_bytes message)
{
    struct hw_pb_reader reader = hw_pb_read(message);
    struct hw_pb_field f;
    struct hw_bytes args = hw_bytes_of("", 0);
    for (size_t i = 0; i < HW_ARRAY_LEN(methods); i++) {
        if (methods[i].number != number)
            continue;
        while (hw_pb_next(&reader, &f) == 1)
            if (methods[i].args && f.number == methods[i].args && f.wire == HW_PB_BYTES)
                args = f.bytes;
        int rc = methods[i].run(r, number, args);
        return rc == HW_EFORMAT || rc == HW_ETRUNCATED
                   ? give_up(r, rc, "the arguments of a request are broken")
                   : rc;
    }
    return respond(r, F(invalid_request), number, 0, hw_bytes_of(NULL, 0));
}

static int take_request(struct hw_rpc *r, struct hw_bytes message)
{
    struct hw_pb_reader reader = hw_pb_read(message);
    struct hw_pb_field f;
    int64_t seq = 0;
    uint64_t method = 0;
    int rc;
    while ((rc = hw_pb_next(&reader, &f)) == 1) {
        if (f.number == F(seq) && f.wire == HW_PB_VARINT)
            seq = (int64_t)f.value;
        else if (f.number == F(request) && f.wire == HW_PB_VARINT)
            method = f.value;
    }
    if (rc < 0)
        return give_up(r, rc, "a message is broken");
    /* The first number is arbitrary: a client may have used another pipe before. */
    if (r->last_in >= 0 && seq != r->last_in + 1 && seq != 0)
        return give_up(r, HW_EFORMAT,
                       "the sequence number of a request does not follow the one "
                       "before: a message was lost, or two clients share this pipe");
    r->last_in = seq;
    return run_method(r, method, message);
}

/* 1 = a complete message, 0 = more bytes are needed. */
static int next_message(struct hw_rpc *r, struct hw_bytes *out)
{
    const uint8_t *start = (const uint8_t *)(r->in.p ? r->in.p : ""), *end = start + r->in.n;
    const uint8_t *p = start + r->taken;
    uint64_t n;
    if (p == end)
        return 0;
    if (*p != (HW_F_TraceProcessorRpcStream_msg << 3 | HW_PB_BYTES))
        return give_up(r, HW_EFORMAT, "this is not a stream of messages");
    p++;
    int rc = hw_pb_varint(&p, end, &n);
    if (rc == HW_ETRUNCATED)
        return 0;
    if (rc < 0)
        return give_up(r, rc, "a length is broken");
    if (n > HW_RPC_MAX_MESSAGE)
        return give_up(r, HW_ELIMIT, "a message is too large");
    if (n > (uint64_t)(end - p))
        return 0;
    *out = hw_bytes_of(p, (size_t)n);
    r->taken = (size_t)(p - start) + (size_t)n;
    return 1;
}

int hw_rpc_bytes(struct hw_rpc *r, struct hw_bytes data, const struct hw_rpc_write *to)
{
    struct hw_bytes message = {NULL, 0};
    int rc;
    if (r->broken)
        return HW_EFORMAT;
    if (r->taken) {
        memmove(r->in.p, r->in.p + r->taken, r->in.n - r->taken);
        r->in.n -= r->taken;
        r->taken = 0;
    }
    hw_strbuf_add(&r->in, data.p, data.n);
    if (r->in.failed)
        return HW_ENOMEM;
    r->to = to;
    while ((rc = next_message(r, &message)) == 1) {
        rc = take_request(r, message);
        if (rc < 0)
            break;
    }
    r->to = NULL;
    return rc;
}

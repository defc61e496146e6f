/*
 * rpc_results.h - the RPC's requests and their responses, as messages
 *
 * Why:     the byte pipe (rpc.h) and the HTTP endpoints (rpc_routes.h) differ in how they carry a
 *          request, not in what it means.
 * Shapes:  arguments are the received message (empty: none), the result is appended to *out without
 *          its frame. Errors for the client are inside the result.
 * Errors:  HW_EFORMAT (the arguments break the wire format), HW_ENOMEM.
 */
#ifndef HW_SERVER_RPC_RPC_RESULTS_H
#define HW_SERVER_RPC_RPC_RESULTS_H

#include "base/bytes.h"
#include "codec/pb.h"
#include "server/rpc/query_result.h"

struct hw_error;
struct hw_metatrace;
struct hw_processor;
struct hw_processor_job;

#define HW_RPC_API_VERSION 14

/* What the clients of one server share. All borrowed. */
struct hw_rpc_server {
    struct hw_processor *processor;
    struct hw_metatrace *metatrace;
};

int hw_rpc_append(struct hw_rpc_server *s, struct hw_bytes data, struct hw_pb *out);
int hw_rpc_finalize(struct hw_rpc_server *s, struct hw_pb *out);
int hw_rpc_status(struct hw_rpc_server *s, struct hw_pb *out);
int hw_rpc_metric(struct hw_rpc_server *s, struct hw_bytes args, struct hw_pb *out);
int hw_rpc_descriptors(struct hw_rpc_server *s, struct hw_pb *out);
int hw_rpc_register(struct hw_rpc_server *s, struct hw_bytes args, struct hw_pb *out);
int hw_rpc_summary(struct hw_rpc_server *s, struct hw_bytes args, struct hw_pb *out);
int hw_rpc_metatrace(struct hw_rpc_server *s, struct hw_pb *out);
/* QueryResult messages, as many as needed. job: to interrupt it; may be NULL. */
int hw_rpc_query(struct hw_rpc_server *s, struct hw_bytes args, struct hw_processor_job *job,
                 const struct hw_query_emit *e);
/* StatementResult messages. */
int hw_rpc_statement(struct hw_rpc_server *s, struct hw_bytes args, struct hw_processor_job *job,
                     const struct hw_query_emit *e);
/* The exported file's bytes, piece by piece. The text of a failure is in err. */
int hw_rpc_export(struct hw_rpc_server *s, struct hw_bytes args, struct hw_processor_job *job,
                  int (*piece)(void *ctx, struct hw_bytes bytes, uint64_t total), void *ctx,
                  struct hw_error *err);

#endif

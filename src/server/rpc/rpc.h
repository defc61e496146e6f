/*
 * rpc.h - the trace processor's RPC over a pipe of bytes
 *
 * Why:     front ends talk to a trace processor over a WebSocket, a pipe or a socket, always in the
 *          same stream of messages TraceProcessorRpc.
 * Shapes:  bytes are fed in any pieces; complete messages are answered at once, in order. A query's
 *          result is several messages. Sequence numbers count the messages of each way from 0; a
 *          request out of sequence ends the pipe (a message was lost, or two clients write to it).
 *          Requests of unknown kind are answered as such.
 * Owns:    an incomplete message, at most HW_RPC_MAX_MESSAGE bytes.
 * Errors:  bytes returns HW_EFORMAT, HW_ELIMIT after writing the message with the reason
 *          (fatal_error), and errors of write. After an error, close the pipe.
 * Threads: one owner at a time; several pipes on one server may run at once.
 * Source:  doc/design/server.md, "The RPC"; proto/rpc.proto
 */
#ifndef HW_SERVER_RPC_RPC_H
#define HW_SERVER_RPC_RPC_H

#include "base/bytes.h"

#define HW_RPC_MAX_MESSAGE (256u << 20)

struct hw_rpc;
struct hw_rpc_server;
struct hw_processor_job;

struct hw_rpc_write {
    int (*write)(void *ctx, struct hw_bytes frame); /* one message with its frame; 0 or HW_E… */
    void *ctx;
};

struct hw_rpc *hw_rpc_new(struct hw_rpc_server *server); /* borrows; NULL without memory */
void hw_rpc_free(struct hw_rpc *r);
int hw_rpc_bytes(struct hw_rpc *r, struct hw_bytes data, const struct hw_rpc_write *to);
/* Lets another thread interrupt the running query. */
struct hw_processor_job *hw_rpc_job(struct hw_rpc *r);

#endif

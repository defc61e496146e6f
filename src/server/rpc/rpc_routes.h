/*
 * rpc_routes.h - the trace processor's RPC as HTTP endpoints
 *
 * Shapes:  rows for the table of hw_http: /status, /parse, /query … with the respective messages as
 *          body and response; /websocket and /rpc carry the byte pipe of rpc.h, one pipe per
 *          connection. ctx of the server is a struct hw_rpc_server.
 * Source:  doc/design/server.md, "The RPC"
 */
#ifndef HW_SERVER_RPC_RPC_ROUTES_H
#define HW_SERVER_RPC_RPC_ROUTES_H

#include "server/http/http.h"

extern const struct hw_http_route hw_rpc_routes[];
extern const size_t hw_n_rpc_routes;
/* Origins of front ends that are always allowed. */
extern const char *const hw_rpc_origins[];
extern const size_t hw_n_rpc_origins;

void *hw_rpc_connection_new(void *ctx);
void hw_rpc_connection_free(void *ctx, void *data);

#endif

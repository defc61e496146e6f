/*
 * query_result.h - an SQL result as QueryResult messages
 *
 * Why:     columns of numbers and one text of all strings decode faster than one message per cell.
 * Shapes:  each message holds one batch of whole rows: at most HW_QR_MAX_CELLS cells, and ended
 *          when its payload passes HW_QR_MAX_BYTES. Names come with the first, statement counts
 *          with the first of the last statement, the error and the time with the last one. The
 *          messages of one result, joined, are one QueryResult too. Of a script only the last
 *          statement's rows are sent, as front ends expect.
 * Errors:  an error of emit ends the query.
 * Source:  doc/design/server.md, "The RPC"; proto/rpc.proto
 */
#ifndef HW_SERVER_RPC_QUERY_RESULT_H
#define HW_SERVER_RPC_QUERY_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct hw_error;
struct hw_sql;

#define HW_QR_MAX_CELLS 50000u
#define HW_QR_MAX_BYTES (128u << 10)

struct hw_query_emit {
    int (*emit)(void *ctx, struct hw_bytes query_result); /* 0 or HW_E… */
    void *ctx;
};

/* Runs a script. Its errors are part of the result: only those of emit and HW_ENOMEM come back. */
int hw_query_result_run(struct hw_sql *db, struct hw_bytes sql, const struct hw_query_emit *e);
/* Runs one statement of a script, from *offset, and moves *offset past it. *executed: there was
 * one. */
int hw_query_result_statement(struct hw_sql *db, struct hw_bytes sql, size_t *offset,
                              bool *executed, const struct hw_query_emit *e);
/* A result that is only an error. */
int hw_query_result_error(const char *text, const struct hw_query_emit *e);

#endif

/*
 * clickhouse.h - runs statements on a ClickHouse server, over HTTP
 *
 * Shapes:  the statement is the body of a POST or, with data, the parameter `query`, with the data
 *          as the body. Settings are NAME=VALUE parameters of the URL, escaped here; those of the
 *          store's own URL (?max_threads=2) come first.
 * Owns:    its HTTP client; the store is borrowed. *reply is the caller's to free.
 * Errors:  those of http_client.h, and HW_EPERM (401, 403), HW_ENOTFOUND (404: no such table or database),
 *          HW_EINVAL (400), HW_EBUSY (408, 429, 503), HW_EGONE (500 and the rest), with the
 *          server's message and the store's name. `status` is the HTTP status; 0 = no reply.
 */
#ifndef HW_FLEET_STORE_CLICKHOUSE_H
#define HW_FLEET_STORE_CLICKHOUSE_H

#include <signal.h>
#include <stdbool.h>

#include "base/bytes.h"
#include "base/text/strbuf.h"
#include "fleet/store/store.h"

struct hw_error;
struct hw_http_client;

struct hw_clickhouse {
    const struct hw_store *store; /* borrowed */
    struct hw_http_client *http;
    struct hw_store_auth auth;
    const volatile sig_atomic_t *stop; /* not 0: give up; NULL = never */
    uint32_t timeout_ms;               /* of a statement; 0 = http_client.h's default */
    size_t max_reply;                  /* bytes; 0 = http_client.h's default */
    long status;                       /* of the last reply */
    int64_t retry_after_s;
};

struct hw_clickhouse_query {
    const char *sql;
    const char *const *settings; /* "name", "value", "name", "value"; unescaped */
    size_t n_settings;           /* of names and values together */
    bool has_data;
    struct hw_bytes data;
    const char *database; /* NULL = the store's */
    /* Takes the reply in pieces instead of *reply; < 0 ends it. */
    int (*piece)(void *ctx, struct hw_bytes piece);
    void *ctx;
};

int hw_clickhouse_init(struct hw_clickhouse *c, const struct hw_store *store, struct hw_error *err);
void hw_clickhouse_done(struct hw_clickhouse *c);
int hw_clickhouse_do(struct hw_clickhouse *c, const struct hw_clickhouse_query *ask,
                     struct hw_strbuf *reply, struct hw_error *err);
/* The URL of the request, for --dry-run. */
void hw_clickhouse_url(const struct hw_clickhouse *c, const struct hw_clickhouse_query *ask,
                       struct hw_strbuf *out);
/* Adds text as a quoted and escaped SQL literal; other bytes are unchanged. */
void hw_clickhouse_add_text(struct hw_strbuf *out, struct hw_bytes text);

#endif

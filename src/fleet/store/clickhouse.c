#include "fleet/store/clickhouse.h"

#include <string.h>

#include "base/error.h"
#include "fleet/store/http_client.h"

#include "base/banned.h"

#define MAX_MESSAGE 240u /* bytes of the server's message that are shown */

int hw_clickhouse_init(struct hw_clickhouse *c, const struct hw_store *store, struct hw_error *err)
{
    *c = (struct hw_clickhouse){.store = store};
    int rc = hw_store_auth_init(&c->auth, store, err);
    if (rc == 0)
        rc = hw_http_new(&c->http, err);
    if (rc < 0)
        hw_clickhouse_done(c);
    return rc;
}

void hw_clickhouse_done(struct hw_clickhouse *c)
{
    hw_http_free(c->http);
    hw_store_auth_done(&c->auth);
    *c = (struct hw_clickhouse){0};
}

void hw_clickhouse_add_text(struct hw_strbuf *out, struct hw_bytes text)
{
    hw_strbuf_addc(out, '\'');
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = text.p[i];
        if (c == '\'' || c == '\\')
            hw_strbuf_addc(out, '\\');
        if (c == '\0')
            hw_strbuf_adds(out, "\\0");
        else
            hw_strbuf_addc(out, (char)c);
    }
    hw_strbuf_addc(out, '\'');
}

static void add_parameter(struct hw_strbuf *out, const char *name, const char *value)
{
    hw_strbuf_addc(out, '&');
    hw_http_add_escaped(out, hw_bytes_str(name));
    hw_strbuf_addc(out, '=');
    hw_http_add_escaped(out, hw_bytes_str(value));
}

void hw_clickhouse_url(const struct hw_clickhouse *c, const struct hw_clickhouse_query *ask,
                       struct hw_strbuf *out)
{
    const char *database = ask->database ? ask->database : hw_store_database(c->store);
    hw_strbuf_addf(out, "%s/?database=", c->store->base);
    hw_http_add_escaped(out, hw_bytes_str(database));
    if (c->store->query[0])
        hw_strbuf_addf(out, "&%s", c->store->query);
    for (size_t i = 0; i + 1 < ask->n_settings; i += 2)
        add_parameter(out, ask->settings[i], ask->settings[i + 1]);
    if (ask->has_data)
        add_parameter(out, "query", ask->sql);
}

/* The server's message: one line, without its version and stack trace. */
static void add_message(struct hw_strbuf *out, const struct hw_strbuf *body)
{
    size_t n = body->n;
    const char *end = body->n ? memchr(body->p, '\n', body->n) : NULL;
    if (end)
        n = (size_t)(end - body->p);
    bool cut = n > MAX_MESSAGE;
    hw_strbuf_add_escaped(out, body->p, cut ? MAX_MESSAGE : n);
    if (cut)
        hw_strbuf_adds(out, "…");
}

static int code_of(long status)
{
    switch (status) {
    case 400:
        return HW_EINVAL;
    case 401:
    case 403:
        return HW_EPERM;
    case 404:
        return HW_ENOTFOUND;
    case 408:
    case 429:
    case 503:
        return HW_EBUSY;
    default:
        return HW_EGONE;
    }
}

static int refused(const struct hw_clickhouse *c, const struct hw_http_reply *r,
                   struct hw_error *err)
{
    struct hw_strbuf message = {0};
    add_message(&message, &r->body);
    int rc = hw_fail(err, code_of(r->status), 0, "store '%s' answered %ld: %s", c->store->shown,
                     r->status, message.p && message.n ? message.p : "nothing");
    hw_strbuf_done(&message);
    return rc;
}

int hw_clickhouse_do(struct hw_clickhouse *c, const struct hw_clickhouse_query *ask,
                     struct hw_strbuf *reply, struct hw_error *err)
{
    struct hw_strbuf url = {0};
    struct hw_http_reply r = {0};
    hw_clickhouse_url(c, ask, &url);
    if (url.failed)
        return hw_fail(err, HW_ENOMEM, 0, "request");
    struct hw_http_request q = {.url = url.p,
                                .headers = (const char *const *)c->auth.line,
                                .n_headers = c->auth.n,
                                .post = true,
                                .once = ask->has_data,
                                .body = ask->has_data ? ask->data : hw_bytes_str(ask->sql),
                                .timeout_ms = c->timeout_ms,
                                .max_reply = c->max_reply,
                                .stop = c->stop,
                                .piece = ask->piece,
                                .ctx = ask->ctx};
    int rc = hw_http_do(c->http, &q, &r, err);
    c->status = r.status;
    c->retry_after_s = r.retry_after_s;
    if (rc < 0)
        hw_error_prefix(err, "store '%s'", c->store->shown);
    else if (r.status < 200 || r.status > 299)
        rc = refused(c, &r, err);
    else if (reply)
        hw_strbuf_add(reply, r.body.p, r.body.n);
    if (rc == 0 && reply && reply->failed)
        rc = hw_fail(err, HW_ENOMEM, 0, "answer");
    hw_http_reply_done(&r);
    hw_strbuf_done(&url);
    return rc;
}

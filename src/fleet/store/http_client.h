/*
 * http_client.h - HTTP requests, by libcurl
 *
 * Why:     pushing to stores and querying them use HTTP; TLS, proxies and certificates are
 *          libcurl's, with its defaults and environment variables.
 * Shapes:  libcurl is loaded when the first client is made, so that no other command pays for it;
 *          a client keeps its connection between requests. Redirections are not followed: data for
 *          one machine would go to another, including credentials.
 *          CURL_CA_BUNDLE or SSL_CERT_FILE name certificates to trust instead of the system's.
 * Units:   time in ms; 0 = the default below.
 * Owns:    the reply's body is the caller's to free; requests are borrowed.
 * Errors:  HW_EUNSUPPORTED (no libcurl), HW_EGONE (no connection, cut off, an answer with a head
 *          beyond libcurl's limit), HW_ETIMEOUT, HW_ELIMIT (the reply is too long), HW_EINVAL (the
 *          URL), HW_EPERM (TLS refused the other side), HW_EBUSY (stopped by *stop). Any reply of
 *          the server is HW_OK: check the status.
 * Threads: one owner at a time per client; several clients at once are fine.
 */
#ifndef HW_FLEET_STORE_HTTP_CLIENT_H
#define HW_FLEET_STORE_HTTP_CLIENT_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/text/strbuf.h"

struct hw_error;

#define HW_HTTP_CONNECT_MS 5000u
#define HW_HTTP_TIMEOUT_MS 60000u              /* of the whole request */
#define HW_HTTP_MAX_REPLY  (64u * 1024 * 1024) /* bytes */

struct hw_http_request {
    const char *url;
    const char *const *headers; /* "Name: value" */
    size_t n_headers;
    bool post;
    bool once; /* must not arrive twice: uses a new connection, as libcurl repeats a request if a
                  kept connection ends without a reply */
    struct hw_bytes body; /* of a POST */
    uint32_t connect_ms, timeout_ms;
    size_t max_reply;
    const volatile sig_atomic_t *stop; /* not 0: give up; NULL = never */
    /* Takes a successful reply in pieces instead of the reply's body; < 0 ends it. */
    int (*piece)(void *ctx, struct hw_bytes piece);
    void *ctx;
};

struct hw_http_reply {
    long status;           /* 200; 0 = no reply */
    int64_t retry_after_s; /* requested by the server; 0 = none */
    struct hw_strbuf body;
};

struct hw_http_client;

int hw_http_new(struct hw_http_client **out, struct hw_error *err);
void hw_http_free(struct hw_http_client *h); /* NULL is fine */
/* No request lasts beyond that moment (CLOCK_MONOTONIC), whatever its own limit; 0 = none. */
void hw_http_until(struct hw_http_client *h, uint64_t deadline_ns);
int hw_http_do(struct hw_http_client *h, const struct hw_http_request *r, struct hw_http_reply *out,
               struct hw_error *err);
void hw_http_reply_done(struct hw_http_reply *r);
/* Adds text as part of a URL: everything except letters, digits and -._~ as %XX. */
void hw_http_add_escaped(struct hw_strbuf *out, struct hw_bytes text);
/* Is libcurl installed? For `doctor`; *version is its own text, or NULL. */
bool hw_http_installed(const char **version);

#endif

/*
 * http.h - one HTTP request after the other, by libcurl
 *
 * Why:     pushing to stores and asking them both speak HTTP; TLS, proxies and certificates are
 *          libcurl's, by its defaults and its environment variables.
 * Shapes:  libcurl is loaded when the first client is made, so that no other command pays for it;
 *          a connection is kept between the requests of a client. Redirections are not followed:
 *          what was meant for one machine would go to another, credentials included.
 *          CURL_CA_BUNDLE or SSL_CERT_FILE name certificates to trust in place of the system's.
 * Units:   time in ms; 0 = the default below.
 * Owns:    the reply's body is the caller's to free; requests are borrowed.
 * Errors:  HW_EUNSUPPORTED (no libcurl), HW_EGONE (no connection, cut off, an answer with a head
 *          beyond what libcurl takes), HW_ETIMEOUT, HW_ELIMIT (the reply is too long), HW_EINVAL (the URL), HW_EPERM (TLS refused the other side),
 *          HW_EBUSY (stopped by *stop). Any answer of the server is HW_OK: look at the status.
 * Threads: one owner at a time for a client; several clients at once are fine.
 */
#ifndef HW_FLEET_STORE_HTTP_H
#define HW_FLEET_STORE_HTTP_H

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
    bool once; /* not to arrive twice: on a connection of its own, as libcurl by itself repeats what
                  it sent on a kept one that then ended without an answer */
    struct hw_bytes body; /* of a POST */
    uint32_t connect_ms, timeout_ms;
    size_t max_reply;
    const volatile sig_atomic_t *stop; /* not 0: give up; NULL = never */
    /* The reply of a success piece by piece, instead of in the reply's body; < 0 ends it. */
    int (*piece)(void *ctx, struct hw_bytes piece);
    void *ctx;
};

struct hw_http_reply {
    long status;           /* 200; 0 = none came */
    int64_t retry_after_s; /* the server's wish; 0 = none */
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
/* Adds text as a part of a URL: everything but letters, digits and -._~ as %XX. */
void hw_http_add_escaped(struct hw_strbuf *out, struct hw_bytes text);
/* Is there a libcurl? For `doctor`; *version is its own text, or NULL. */
bool hw_http_installed(const char **version);

#endif

/*
 * http.h - the HTTP server below all our interfaces: routes, checks, responses
 *
 * Why:     pages, the trace processor's RPC and scrapers need the same things: a table of routes, a
 *          guard against other sites and other users, limits, streams, events, sockets.
 * Shapes:  a route is a row: methods, path (a trailing `*` matches the rest), flags, largest body,
 *          handler. A handler calls exactly one of reply, stream, events, websocket. Each
 *          connection has its own thread, so handlers may block.
 * Owns:    the server owns its threads; routes, texts and lists of the options are borrowed and
 *          must outlive it. A request is valid during its handler (bodies and headers with it).
 * Errors:  HW_ESYS (address in use…), HW_ENOMEM, HW_EINVAL. Bad requests are answered by a status
 *          code: 400, 403 (Host, Origin, token), 404, 405, 413, 415, 500, 503.
 * Threads: start, stop: one owner. Handlers of different connections run at the same time.
 * Trust:   Host must be an address or one of our names (a foreign name may have been rebound to
 *          this address), Origin must be the server's own or listed, and if a token is set every
 *          route needs it unless its flags say otherwise. Cross-site browser requests without an
 *          Origin are refused too. HTTPS is TLS 1.2 and 1.3 with forward secrecy.
 * Shares:  a client may have 16 requests in progress and half of the connections. All bodies
 *          together take at most 512 MiB of memory.
 * Source:  doc/design/server.md
 */
#ifndef HW_SERVER_HTTP_HTTP_H
#define HW_SERVER_HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct hw_error;
struct hw_http;
struct hw_http_request;
struct hw_http_stream;
struct hw_strbuf;
struct hw_websocket;

enum hw_http_methods { HW_HTTP_GET = 1, HW_HTTP_POST = 2, HW_HTTP_DELETE = 4 };

enum hw_http_flags {
    HW_HTTP_OPEN = 1,     /* needs no token: static files of the page, without user data */
    HW_HTTP_OWN_USER = 2, /* over loopback, the server's own user and root need no token */
    HW_HTTP_CHANGES = 4   /* its GET changes state: for programs that do so, not for browsers */
};

/* As max_body of a route: the limit of the options. */
#define HW_HTTP_MAX_UPLOAD UINT64_MAX

struct hw_http_route {
    uint32_t methods;  /* enum hw_http_methods; HEAD comes with GET */
    const char *path;  /* "/query", "/assets/" "*" */
    uint32_t flags;    /* enum hw_http_flags */
    uint64_t max_body; /* larger ones get 413 */
    void (*handle)(struct hw_http_request *req, void *ctx);
    /*
     * NULL: the body is buffered. Else it is passed here piece by piece, and the handler sees an
     * empty one. A negative result ends the request with 400.
     */
    int (*body)(struct hw_http_request *req, void *ctx, struct hw_bytes piece);
};

struct hw_http_options {
    const char *address; /* "localhost", an address; NULL = localhost */
    uint16_t port;       /* 0 = any that is free */
    int listen_fd;       /* >= 0: a listening socket, taken over; address and port are not used */
    const struct hw_http_route *routes;
    size_t n_routes;
    void *ctx;                  /* of the handlers */
    const char *const *origins; /* other allowed origins: CORS */
    size_t n_origins;
    const char *const *hosts; /* our names besides localhost */
    size_t n_hosts;
    const char *token;          /* NULL = none */
    const char *cert, *key;     /* PEM texts: HTTPS; both or none */
    const char *const *headers; /* name, value pairs for every response */
    size_t n_headers;           /* of pairs */
    unsigned max_connections;   /* 0 = 256; the oldest without a token are evicted */
    unsigned timeout_s;         /* idle limit; 0 = 60; 5 before the token was shown */
    uint64_t max_upload;        /* of routes with HW_HTTP_MAX_UPLOAD; 0 = no limit */
    /* Made on first use by hw_http_connection_data, freed with its connection. */
    void *(*connection_new)(void *ctx);
    void (*connection_free)(void *ctx, void *data);
};

int hw_http_start(const struct hw_http_options *o, struct hw_http **out, struct hw_error *err);
/* Ends streams and sockets, waits for handlers; NULL is fine. */
void hw_http_stop(struct hw_http *h);
uint16_t hw_http_port(const struct hw_http *h);
/* Connections open now, and when the last one ended (monotonic ns): for idle time-outs. */
unsigned hw_http_connections(const struct hw_http *h, uint64_t *last_end_ns);

/* ---- without a network ---- */

struct hw_http_pair {
    const char *name, *value;
};
/* The response to a GET of the path with these parameters, appended to out. Streams, events and
 * sockets answer 501. HW_ENOTFOUND: no route has the path. */
int hw_http_get(const struct hw_http_options *o, const char *path, const struct hw_http_pair *query,
                size_t n, unsigned *status, struct hw_strbuf *out);

/* ---- request accessors ---- */

const char *hw_http_method(const struct hw_http_request *req);
const char *hw_http_path(const struct hw_http_request *req);
/* What the `*` of the route's path matched; "" without one. */
const char *hw_http_rest(const struct hw_http_request *req);
struct hw_bytes hw_http_body(const struct hw_http_request *req);
const char *hw_http_header(const struct hw_http_request *req, const char *name); /* NULL = none */
const char *hw_http_query(const struct hw_http_request *req, const char *name);  /* NULL = none */
void *hw_http_connection_data(struct hw_http_request *req);
/* The same number for all requests of one client: one address or, on this machine, one user. */
uint64_t hw_http_client(struct hw_http_request *req);
/* In `body`, before failing: the response instead of 400. */
void hw_http_refuse(struct hw_http_request *req, unsigned status, const char *text);
/*
 * Calls fn at the end of the request, last registered first, to release what the handler borrows.
 * On HW_ENOMEM it is not called. A stream's producer may run longer.
 */
int hw_http_at_end(struct hw_http_request *req, void (*fn)(void *ctx), void *ctx);

/* Whether the client has disconnected or the server is stopping: for long handlers to check. */
bool hw_http_gone(struct hw_http_request *req);

/* ---- responses ---- */

/* Adds a header; before the response. */
void hw_http_add_header(struct hw_http_request *req, const char *name, const char *value);
/* Bytes are copied. */
void hw_http_reply(struct hw_http_request *req, unsigned status, const char *type, const void *p,
                   size_t n);
void hw_http_reply_text(struct hw_http_request *req, unsigned status, const char *text);
/* Bytes that outlive the server are sent without a copy: assets. */
void hw_http_reply_static(struct hw_http_request *req, unsigned status, const char *type,
                          const void *p, size_t n);

/*
 * A chunked response of unknown length. `produce` runs in its own thread and writes; if the client
 * disconnects, `cancel` (may be NULL) is called once from another thread, and writes fail. `done`
 * frees ctx at the end in any case.
 */
struct hw_http_producer {
    void (*produce)(struct hw_http_stream *s, void *ctx);
    void (*cancel)(void *ctx);
    void (*done)(void *ctx);
    void *ctx;
};
void hw_http_stream(struct hw_http_request *req, unsigned status, const char *type,
                    const struct hw_http_producer *p);
/* Blocks while the client is slow; HW_ESYS if it is gone, or read nothing for the timeout. */
int hw_http_stream_write(struct hw_http_stream *s, const void *p, size_t n);

/* Server-sent events: a stream of text/event-stream. */
void hw_http_events(struct hw_http_request *req, const struct hw_http_producer *p);
/* One event; name NULL = "message". Newlines in data are kept, encoded as the format requires. */
int hw_http_event_send(struct hw_http_stream *s, const char *name, const char *data);
/* Waits up to timeout_ms, or until the client is gone (false): the pause between events. */
bool hw_http_event_wait(struct hw_http_stream *s, unsigned timeout_ms);

/*
 * A WebSocket. `message` is called for each complete message; a negative result closes. `done`
 * frees ctx. Responds 400 if the request is not an upgrade.
 */
struct hw_websocket_ops {
    int (*message)(struct hw_websocket *ws, void *ctx, bool text, struct hw_bytes m);
    void (*done)(void *ctx);
    void *ctx;
    size_t max_message;
};
void hw_http_websocket(struct hw_http_request *req, const struct hw_websocket_ops *ops);
int hw_websocket_send(struct hw_websocket *ws, bool text, const void *p, size_t n);
/* Whether the client has disconnected or the server is stopping: for a long `message` to check. */
bool hw_websocket_gone(struct hw_websocket *ws);

#endif

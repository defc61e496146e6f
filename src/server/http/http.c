/*
 * The core: libmicrohttpd with a thread for each connection, the table of routes, plain responses.
 *
 * The library calls `on_request` once after the headers, then with pieces of the body, then once
 * more, when the handler runs. Requests are refused after the headers, so that clients need not
 * send the body.
 */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "server/http/http_internal.h"

#include "base/banned.h"

enum {
    MAX_CONNECTIONS = 256,
    UNAUTHENTICATED_S = 5, /* for a connection that has not authenticated */
    CLOSE_MS = 100,
    HEADER_MEMORY = 128 << 10,
    BACKLOG = 1024,
    MAX_DISCARDED = 64 << 20 /* of a body that was refused */
};

/* Supported by every browser of the last ten years; with forward secrecy. */
static const char tls_priorities[] =
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA:-CIPHER-ALL:"
    "+AES-256-GCM:+CHACHA20-POLY1305:+AES-128-GCM:-MAC-ALL:+AEAD:%SERVER_PRECEDENCE";

/* ---- request accessors ---- */

const char *hw_http_method(const struct hw_http_request *req)
{
    return req->method;
}

const char *hw_http_path(const struct hw_http_request *req)
{
    return req->path;
}

const char *hw_http_rest(const struct hw_http_request *req)
{
    size_t n = strlen(req->route->path);
    return n && req->route->path[n - 1] == '*' ? req->path + n - 1 : "";
}

struct hw_bytes hw_http_body(const struct hw_http_request *req)
{
    return hw_bytes_of(req->body.p, req->body.n);
}

const char *hw_http_header(const struct hw_http_request *req, const char *name)
{
    return req->local ? NULL : MHD_lookup_connection_value(req->connection, MHD_HEADER_KIND, name);
}

const char *hw_http_query(const struct hw_http_request *req, const char *name)
{
    if (req->local)
        return hw_http_local_query(req->local, name);
    return MHD_lookup_connection_value(req->connection, MHD_GET_ARGUMENT_KIND, name);
}

struct hw_http_box *hw_http_box_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

void *hw_http_connection_data(struct hw_http_request *req)
{
    struct hw_http_box *box = hw_http_box_of(req->connection);
    const struct hw_http_options *o = &req->server->o;
    if (box && !box->data && o->connection_new)
        box->data = o->connection_new(o->ctx);
    return box ? box->data : NULL;
}

int hw_http_at_end(struct hw_http_request *req, void (*fn)(void *ctx), void *ctx)
{
    struct hw_http_ending e = {fn, ctx};
    return hw_vec_push(&req->endings, e) < 0 ? HW_ENOMEM : HW_OK;
}

/* ---- responses ---- */

void hw_http_add_header(struct hw_http_request *req, const char *name, const char *value)
{
    char *copies[2] = {strdup(name), strdup(value)};
    if (!copies[0] || !copies[1] || hw_vec_reserve(&req->headers, req->headers.n + 2) < 0) {
        free(copies[0]);
        free(copies[1]);
        return; /* a response without it is better than none */
    }
    req->headers.v[req->headers.n++] = copies[0];
    req->headers.v[req->headers.n++] = copies[1];
}

static void add_cors(struct hw_http_request *req, struct MHD_Response *r)
{
    const char *origin = hw_http_allowed_origin(req);
    (void)MHD_add_response_header(r, "Vary", "Origin");
    if (origin)
        (void)MHD_add_response_header(r, "Access-Control-Allow-Origin", origin);
}

void hw_http_queue(struct hw_http_request *req, unsigned status, const char *type,
                   struct MHD_Response *r)
{
    const struct hw_http_options *o = &req->server->o;
    req->answered = true;
    if (!r) {
        req->result = MHD_NO; /* out of memory: the connection is closed */
        return;
    }
    if (type)
        (void)MHD_add_response_header(r, "Content-Type", type);
    (void)MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    add_cors(req, r);
    for (size_t i = 0; i < o->n_headers; i++)
        (void)MHD_add_response_header(r, o->headers[2 * i], o->headers[2 * i + 1]);
    for (size_t i = 0; i + 1 < req->headers.n; i += 2)
        (void)MHD_add_response_header(r, req->headers.v[i], req->headers.v[i + 1]);
    req->result = MHD_queue_response(req->connection, status, r);
    MHD_destroy_response(r);
}

void hw_http_reply(struct hw_http_request *req, unsigned status, const char *type, const void *p,
                   size_t n)
{
    if (req->local) {
        hw_http_local_reply(req, status, p, n);
        return;
    }
    /* The library copies; its parameter lacks const only for older callers. */
    void *bytes = (void *)(uintptr_t)(n ? p : "");
    hw_http_queue(req, status, type,
                  MHD_create_response_from_buffer(n, bytes, MHD_RESPMEM_MUST_COPY));
}

void hw_http_reply_static(struct hw_http_request *req, unsigned status, const char *type,
                          const void *p, size_t n)
{
    if (req->local) {
        hw_http_local_reply(req, status, p, n);
        return;
    }
    void *bytes = (void *)(uintptr_t)p;
    hw_http_queue(req, status, type,
                  MHD_create_response_from_buffer(n, bytes, MHD_RESPMEM_PERSISTENT));
}

void hw_http_reply_text(struct hw_http_request *req, unsigned status, const char *text)
{
    hw_http_reply(req, status, "text/plain; charset=utf-8", text, strlen(text));
}

/* ---- routes ---- */

static uint32_t method_bit(const char *method)
{
    if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0)
        return HW_HTTP_GET;
    if (strcmp(method, "POST") == 0)
        return HW_HTTP_POST;
    return strcmp(method, "DELETE") == 0 ? HW_HTTP_DELETE : 0;
}

static bool path_fits(const char *pattern, const char *path)
{
    size_t n = strlen(pattern);
    if (n && pattern[n - 1] == '*')
        return strncmp(pattern, path, n - 1) == 0;
    return strcmp(pattern, path) == 0;
}

const struct hw_http_route *hw_http_find_route(const struct hw_http_options *o, const char *method,
                                               const char *path, bool *other)
{
    uint32_t bit = method_bit(method);
    *other = false;
    for (size_t i = 0; i < o->n_routes; i++) {
        if (!path_fits(o->routes[i].path, path))
            continue;
        if (o->routes[i].methods & bit)
            return &o->routes[i];
        *other = true;
    }
    return NULL;
}

/* Answers a browser's CORS preflight request. */
static void answer_preflight(struct hw_http_request *req)
{
    hw_http_add_header(req, "Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
    hw_http_add_header(req, "Access-Control-Allow-Headers", "*, Authorization, Content-Type");
    hw_http_add_header(req, "Access-Control-Max-Age", "86400");
    if (hw_http_header(req, "Access-Control-Request-Private-Network"))
        hw_http_add_header(req, "Access-Control-Allow-Private-Network", "true");
    hw_http_reply(req, MHD_HTTP_NO_CONTENT, NULL, NULL, 0);
}

static uint64_t max_body_of(const struct hw_http_request *req)
{
    uint64_t upload = req->server->o.max_upload;
    if (req->route->max_body != HW_HTTP_MAX_UPLOAD)
        return req->route->max_body;
    return upload ? upload : UINT64_MAX;
}

static const char *too_large_text(const struct hw_http_request *req)
{
    return req->route->max_body == HW_HTTP_MAX_UPLOAD
               ? "this is larger than the server takes; --max-upload lets it take more\n"
               : "the body is too large\n";
}

/* After the headers: true = already answered. */
static bool check_early(struct hw_http_request *req)
{
    const char *text = NULL;
    bool other;
    req->route = hw_http_find_route(&req->server->o, req->method, req->path, &other);
    unsigned status = hw_http_check(req, &text);
    if (status == MHD_HTTP_BAD_REQUEST)
        hw_http_add_header(req, "Connection", "close"); /* the end of its body is unknown */
    if (status) {
        hw_http_reply_text(req, status, text);
    } else if (strcmp(req->method, "OPTIONS") == 0) {
        answer_preflight(req);
    } else if (req->route && !(req->server->o.token && (req->route->flags & HW_HTTP_OPEN)) &&
               !hw_http_trust(req)) {
        hw_http_add_header(req, "Connection", "close");
        hw_http_reply_text(req, MHD_HTTP_SERVICE_UNAVAILABLE,
                           "too many connections from this address; try again later\n");
    }
    if (req->answered)
        return true;
    if (!req->route) {
        hw_http_reply_text(req, other ? MHD_HTTP_METHOD_NOT_ALLOWED : MHD_HTTP_NOT_FOUND,
                           other ? "this address does not allow that method\n" : "nothing here\n");
    } else {
        const char *length = hw_http_header(req, "Content-Length");
        if (length && strtoull(length, NULL, 10) > max_body_of(req))
            hw_http_reply_text(req, MHD_HTTP_CONTENT_TOO_LARGE, too_large_text(req));
    }
    return req->answered;
}

void hw_http_refuse(struct hw_http_request *req, unsigned status, const char *text)
{
    free(req->refusal);
    req->refused = status;
    req->refusal = strdup(text); /* NULL: the default text */
}

/*
 * The rest of a refused body is read and discarded, as a response in the middle would be lost;
 * false beyond a limit.
 */
static bool take_body(struct hw_http_request *req, const char *p, size_t n)
{
    req->got += n;
    if (req->refused) {
        req->discarded += n;
        return req->discarded < MAX_DISCARDED;
    }
    if (req->got > max_body_of(req))
        hw_http_refuse(req, MHD_HTTP_CONTENT_TOO_LARGE, too_large_text(req));
    else if (req->route->body) {
        if (req->route->body(req, req->server->o.ctx, hw_bytes_of(p, n)) < 0 && !req->refused)
            req->refused = MHD_HTTP_BAD_REQUEST;
    } else if (!hw_http_hold(req->server, &req->held, n))
        hw_http_refuse(req, MHD_HTTP_SERVICE_UNAVAILABLE,
                       "too many large requests at once; try again\n");
    else
        hw_strbuf_add(&req->body, p, n);
    if (req->body.failed)
        req->refused = MHD_HTTP_INTERNAL_SERVER_ERROR;
    return true;
}

static struct hw_http_request *request_new(struct hw_http *h, struct MHD_Connection *c,
                                           const char *url, const char *method)
{
    struct hw_http_request *req = calloc(1, sizeof *req);
    if (!req)
        return NULL;
    *req =
        (struct hw_http_request){.server = h, .connection = c, .method = method, .result = MHD_YES};
    hw_strbuf_adds(&req->path_copy, url);
    if (req->path_copy.failed) {
        free(req);
        return NULL;
    }
    req->path = req->path_copy.p;
    return req;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *c, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *n, void **state)
{
    struct hw_http_request *req = *state;
    (void)version;
    if (!req) {
        *state = req = request_new(cls, c, url, method);
        if (!req)
            return MHD_NO;
        return check_early(req) ? req->result : MHD_YES;
    }
    req->method = method;
    if (*n) {
        size_t given = *n;
        *n = 0;
        return take_body(req, data, given) ? MHD_YES : MHD_NO;
    }
    if (req->answered)
        return req->result;
    if (req->refused)
        hw_http_reply_text(req, req->refused,
                           req->refusal ? req->refusal : "the body cannot be read\n");
    else
        hw_http_handle(req);
    if (!req->answered)
        hw_http_reply_text(req, MHD_HTTP_INTERNAL_SERVER_ERROR, "no answer\n");
    return req->result;
}

static void on_completed(void *cls, struct MHD_Connection *c, void **state,
                         enum MHD_RequestTerminationCode why)
{
    struct hw_http_request *req = *state;
    (void)cls;
    (void)c;
    (void)why;
    if (!req)
        return;
    hw_http_socket_free(req->socket);
    hw_http_release(req->server, &req->held);
    hw_http_request_done(req);
    free(req);
    *state = NULL;
}

/*
 * Among unauthenticated connections, the oldest of the client that has most of them, so that a
 * flood evicts itself. With the lock held; NULL = none.
 */
static struct hw_http_box *find_victim(struct hw_http *h)
{
    struct hw_http_box *clients = NULL, *most = NULL; /* one box each, its oldest */
    for (size_t i = 0; i < h->boxes.n; i++) {
        struct hw_http_box *box = h->boxes.v[i], *first = clients;
        if (box->trusted || box->shut)
            continue;
        while (first && first->client != box->client)
            first = first->next;
        if (!first) {
            box->next = clients;
            box->n = 0;
            clients = first = box;
        }
        first->n++;
        if (!most || first->n > most->n)
            most = first;
    }
    return most;
}

/*
 * The library refuses new connections while all are in use, even by closing ones: keep those in the
 * kernel's queue instead. With the lock held, by the accepting thread.
 */
static void wait_for_end(struct hw_http *h)
{
    struct timespec until;
    /* The condition's clock; a jump costs one refusal. */
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += CLOSE_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_cond_timedwait(&h->connection_ended, &h->lock, &until);
}

/*
 * Another user of this machine can open idle connections. When three quarters are in use, one is
 * evicted. With the lock held.
 */
static void make_room(struct hw_http *h)
{
    struct hw_http_box *box = h->boxes.n > h->limit - h->limit / 4 ? find_victim(h) : NULL;
    if (!box)
        return;
    box->shut = true;
    (void)shutdown(box->fd, SHUT_RDWR); /* wakes its thread, which closes it */
    if (h->boxes.n > h->limit - h->limit / 8)
        wait_for_end(h);
}

static struct hw_http_box *box_new(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct hw_http_box *box = info ? calloc(1, sizeof *box) : NULL;
    if (!box)
        return NULL;
    box->fd = info->connect_fd;
    box->known = hw_http_client_at_once(box->fd, &box->client);
    return box;
}

static void remove_box(struct hw_http *h, const struct hw_http_box *box)
{
    size_t i = 0;
    while (i < h->boxes.n && h->boxes.v[i] != box)
        i++;
    if (i == h->boxes.n)
        return;
    memmove(&h->boxes.v[i], &h->boxes.v[i + 1], (h->boxes.n - i - 1) * sizeof *h->boxes.v);
    h->boxes.n--; /* still ordered by age */
}

static void on_connection(void *cls, struct MHD_Connection *c, void **slot,
                          enum MHD_ConnectionNotificationCode what)
{
    struct hw_http *h = cls;
    bool starts = what == MHD_CONNECTION_NOTIFY_STARTED;
    struct hw_http_box *closed = NULL, *box = starts ? box_new(c) : NULL;
    pthread_mutex_lock(&h->lock);
    if (starts) {
        h->n_connections++;
        make_room(h);
        if (box && hw_vec_push(&h->boxes, box) < 0) {
            free(box);
            box = NULL;
        }
        *slot = box;
    } else {
        h->n_connections--;
        h->last_end_ns = hw_now_monotonic_ns();
        closed = *slot;
        remove_box(h, closed);
        pthread_cond_broadcast(&h->connection_ended);
    }
    pthread_mutex_unlock(&h->lock);
    if (closed) {
        if (closed->data)
            h->o.connection_free(h->o.ctx, closed->data);
        free(closed);
        *slot = NULL;
    }
}

/* ---- start, stop ---- */

static int open_address(const struct addrinfo *a, struct hw_error *err)
{
    int one = 1;
    hw_autofd int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return hw_fail_sys(err, "socket");
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one); /* optional */
    if (bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0)
        return hw_fail_sys(err, "cannot listen");
    return hw_fd_take(&fd);
}

/* A name may have several addresses: uses the first that works. */
static int open_listener(const char *address, uint16_t port, struct hw_error *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list = NULL;
    char service[8];
    const char *name = address ? address : "localhost";
    struct hw_error last = {0};
    if (strcmp(name, "localhost") == 0)
        name = "127.0.0.1"; /* what clients of the RPC try first, whatever is resolved */
    (void)snprintf(service, sizeof service, "%u", port);
    int rc = getaddrinfo(name, service, &hints, &list), fd = -1;
    if (rc)
        return hw_fail(err, HW_EINVAL, 0, "address '%s': %s", name, gai_strerror(rc));
    for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next)
        fd = open_address(a, &last);
    freeaddrinfo(list);
    return fd < 0 ? hw_fail(err, HW_ESYS, 0, "port %u of %s: %s", port, name, last.text) : fd;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    if (getsockname(fd, (struct sockaddr *)&a, &n) < 0)
        return 0;
    if (a.ss_family == AF_INET)
        return ntohs(((const struct sockaddr_in *)&a)->sin_port);
    return a.ss_family == AF_INET6 ? ntohs(((const struct sockaddr_in6 *)&a)->sin6_port) : 0;
}

int hw_http_start(const struct hw_http_options *o, struct hw_http **out, struct hw_error *err)
{
    if (o->cert && MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        return hw_fail(err, HW_EUNSUPPORTED, 0, "this libmicrohttpd has no HTTPS");
    hw_autofd int fd = o->listen_fd >= 0 ? o->listen_fd : open_listener(o->address, o->port, err);
    if (fd < 0)
        return fd;
    struct hw_http *h = calloc(1, sizeof *h);
    if (!h)
        return hw_fail(err, HW_ENOMEM, 0, "server");
    h->o = *o;
    h->port = port_of(fd);
    h->last_end_ns = hw_now_monotonic_ns();
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->socket_ended, NULL);
    pthread_cond_init(&h->handler_ended, NULL);
    pthread_cond_init(&h->connection_ended, NULL);
    h->limit = o->max_connections ? o->max_connections : MAX_CONNECTIONS;
    unsigned limit_s = hw_http_timeout_s(h);
    unsigned greeting = limit_s < UNAUTHENTICATED_S ? limit_s : UNAUTHENTICATED_S;
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)o->cert}, /* only read */
        {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)o->key},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)tls_priorities},
        {MHD_OPTION_END, 0, NULL},
    };
    if (!o->cert)
        tls[0] = tls[3];
    h->daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL |
            MHD_ALLOW_UPGRADE | MHD_USE_ITC | (o->cert ? MHD_USE_TLS : 0),
        0, NULL, NULL, on_request, h, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
        h->limit, MHD_OPTION_CONNECTION_TIMEOUT, greeting, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)HEADER_MEMORY, MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, h, MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
    if (!h->daemon) {
        pthread_mutex_destroy(&h->lock);
        pthread_cond_destroy(&h->socket_ended);
        pthread_cond_destroy(&h->handler_ended);
        pthread_cond_destroy(&h->connection_ended);
        free(h);
        if (o->cert)
            return hw_fail(err, HW_EINVAL, 0,
                           "cannot start the HTTPS server: certificate and key do not fit");
        return hw_fail_sys(err, "cannot start the HTTP server");
    }
    (void)hw_fd_take(&fd); /* the library closes it */
    *out = h;
    return HW_OK;
}

uint16_t hw_http_port(const struct hw_http *h)
{
    return h->port;
}

unsigned hw_http_connections(const struct hw_http *server, uint64_t *last_end_ns)
{
    struct hw_http *h = (struct hw_http *)(uintptr_t)server; /* the lock is not part of its state */
    pthread_mutex_lock(&h->lock);
    unsigned n = h->n_connections;
    *last_end_ns = h->last_end_ns;
    pthread_mutex_unlock(&h->lock);
    return n;
}

void hw_http_stop(struct hw_http *h)
{
    if (!h)
        return;
    hw_http_stop_sockets(h);
    MHD_stop_daemon(h->daemon);
    hw_vec_done(&h->sockets);
    hw_vec_done(&h->boxes);
    pthread_mutex_destroy(&h->lock);
    pthread_cond_destroy(&h->socket_ended);
    pthread_cond_destroy(&h->handler_ended);
    pthread_cond_destroy(&h->connection_ended);
    hw_vec_done(&h->at_work);
    free(h);
}

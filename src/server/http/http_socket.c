/*
 * WebSockets: after the upgrade the connection's thread stays here until the socket ends. Other
 * threads may send meanwhile; a lock keeps frames whole.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/error.h"
#include "codec/websocket.h"
#include "server/http/http_internal.h"

#include "base/banned.h"

enum {
    READ_BYTES = 64 << 10,
    CLOSE_NORMAL = 1000,
    CLOSE_POLICY = 1008,
    CLOSE_TRY_LATER = 1013,
    SEND_TIMEOUT_MS = 30000,
    SMALL = 1 << 20, /* bytes that a socket may hold without being counted */
    LINGER_MS = 500,
    LINGER_BYTES = 4 << 20
};

struct hw_websocket {
    struct hw_http *server;
    struct hw_websocket_ops ops;
    struct hw_ws_reader reader;
    struct MHD_UpgradeResponseHandle *handle;
    pthread_mutex_t lock; /* for sending */
    int fd;
    bool failed;
    uint64_t held; /* its part of the server's held_bytes */
};

/* ---- sending ---- */

static int send_all(struct hw_websocket *ws, const void *p, size_t n)
{
    const char *at = p;
    while (n && !ws->failed) {
        ssize_t sent = send(ws->fd, at, n, MSG_NOSIGNAL);
        if (sent > 0) {
            at += sent;
            n -= (size_t)sent;
        } else if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            struct pollfd wait = {.fd = ws->fd, .events = POLLOUT};
            if (poll(&wait, 1, SEND_TIMEOUT_MS) == 0)
                ws->failed = true; /* the client does not read */
        } else if (sent == 0 || errno != EINTR) {
            ws->failed = true;
        }
    }
    return ws->failed ? HW_ESYS : HW_OK;
}

static int send_frame(struct hw_websocket *ws, enum hw_ws_opcode opcode, const void *p, size_t n)
{
    uint8_t head[10];
    pthread_mutex_lock(&ws->lock);
    int rc = send_all(ws, head, hw_ws_frame_head(head, opcode, n));
    if (rc == HW_OK)
        rc = send_all(ws, p, n);
    pthread_mutex_unlock(&ws->lock);
    return rc;
}

int hw_websocket_send(struct hw_websocket *ws, bool text, const void *p, size_t n)
{
    return send_frame(ws, text ? HW_WS_TEXT : HW_WS_BINARY, p, n);
}

bool hw_websocket_gone(struct hw_websocket *ws)
{
    struct pollfd p = {.fd = ws->fd, .events = POLLRDHUP};
    return ws->server->stopping ||
           (poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0);
}

static void send_close(struct hw_websocket *ws, unsigned code)
{
    uint8_t text[2] = {(uint8_t)(code >> 8), (uint8_t)code};
    (void)send_frame(ws, HW_WS_CLOSE, text, sizeof text); /* the client may have left */
}

/* ---- receiving ---- */

/* False: the socket is to be closed. */
static bool handle_message(struct hw_websocket *ws, enum hw_ws_opcode opcode, struct hw_bytes m)
{
    switch (opcode) {
    case HW_WS_TEXT:
    case HW_WS_BINARY:
        if (ws->ops.message(ws, ws->ops.ctx, opcode == HW_WS_TEXT, m) == 0)
            return !ws->failed;
        send_close(ws, CLOSE_NORMAL);
        return false;
    case HW_WS_PING:
        return send_frame(ws, HW_WS_PONG, m.p, m.n) == HW_OK;
    case HW_WS_CLOSE:
        send_close(ws, m.n >= 2 ? (unsigned)m.p[0] << 8 | m.p[1] : CLOSE_NORMAL);
        return false;
    case HW_WS_PONG:
    case HW_WS_CONTINUATION: /* joined by the reader */
        break;
    }
    return true;
}

/* Incomplete messages count towards the limit of all clients. */
static bool may_hold(struct hw_websocket *ws, size_t more)
{
    size_t now = ws->reader.in.n - ws->reader.taken + ws->reader.message.n + more;
    if (now <= ws->held + SMALL)
        return true;
    return hw_http_hold(ws->server, &ws->held, now - ws->held);
}

/* Between messages, the buffer of a large message is freed. */
static void free_large(struct hw_websocket *ws)
{
    struct hw_ws_reader *r = &ws->reader;
    if (r->taken < r->in.n || r->in_message || r->in.cap + r->message.cap <= 2 * SMALL)
        return;
    hw_ws_reader_done(r);
    *r = (struct hw_ws_reader){.max_message = r->max_message};
    hw_http_release(ws->server, &ws->held);
}

static bool handle_bytes(struct hw_websocket *ws, const void *p, size_t n)
{
    enum hw_ws_opcode opcode;
    struct hw_bytes message;
    if (!may_hold(ws, n)) {
        send_close(ws, CLOSE_TRY_LATER);
        return false;
    }
    if (hw_ws_reader_add(&ws->reader, p, n) < 0)
        return false;
    int rc;
    while ((rc = hw_ws_reader_next(&ws->reader, &opcode, &message)) == 1)
        if (!handle_message(ws, opcode, message))
            return false;
    if (rc < 0)
        send_close(ws, ws->reader.close_code);
    else
        free_large(ws);
    return rc == 0;
}

/* Between messages a client may be silent as long as its machine responds (keep-alive); within a
 * message it may not. */
static int read_timeout_ms(const struct hw_websocket *ws)
{
    const struct hw_ws_reader *r = &ws->reader;
    bool amid = r->in_message || r->taken < r->in.n;
    return amid ? (int)hw_http_timeout_s(ws->server) * 1000 : -1;
}

static void run_socket(struct hw_websocket *ws, const char *first, size_t n)
{
    char *buffer = malloc(READ_BYTES);
    bool open = buffer && (n == 0 || handle_bytes(ws, first, n));
    while (open) {
        struct pollfd wait = {.fd = ws->fd, .events = POLLIN};
        int ready = poll(&wait, 1, read_timeout_ms(ws));
        if (ready == 0)
            send_close(ws, CLOSE_POLICY);
        if (ready == 0 || (ready < 0 && errno != EINTR))
            break;
        ssize_t got = recv(ws->fd, buffer, READ_BYTES, 0);
        if (got > 0)
            open = handle_bytes(ws, buffer, (size_t)got);
        else if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
            open = false;
    }
    free(buffer);
}

/* Closing with unread bytes would reset the connection, and lose the close frame. */
static void linger(struct hw_websocket *ws)
{
    uint64_t end_ns = hw_now_monotonic_ns() + LINGER_MS * UINT64_C(1000000);
    char buffer[4096];
    size_t taken = 0;
    (void)shutdown(ws->fd, SHUT_WR);
    while (taken < LINGER_BYTES && hw_now_monotonic_ns() < end_ns) {
        struct pollfd wait = {.fd = ws->fd, .events = POLLIN};
        ssize_t got = poll(&wait, 1, LINGER_MS) > 0 ? recv(ws->fd, buffer, sizeof buffer, 0) : 0;
        if (got <= 0)
            return;
        taken += (size_t)got;
    }
}

/* Detects a client whose machine is gone, after two minutes. */
static void enable_keepalive(int fd)
{
    int on = 1, idle_s = 60, every_s = 15, n = 4;
    /* Optional: without it the socket just stays open. */
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof every_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &n, sizeof n);
}

/* ---- begin and end ---- */

static bool enlist(struct hw_websocket *ws)
{
    struct hw_http *h = ws->server;
    pthread_mutex_lock(&h->lock);
    bool ok = !h->stopping && hw_vec_push(&h->sockets, ws) == 0;
    pthread_mutex_unlock(&h->lock);
    return ok;
}

static void delist(struct hw_websocket *ws)
{
    struct hw_http *h = ws->server;
    pthread_mutex_lock(&h->lock);
    for (size_t i = 0; i < h->sockets.n; i++)
        if (h->sockets.v[i] == ws)
            h->sockets.v[i] = h->sockets.v[--h->sockets.n];
    pthread_cond_broadcast(&h->socket_ended);
    pthread_mutex_unlock(&h->lock);
}

void hw_http_socket_free(struct hw_websocket *ws)
{
    if (!ws)
        return;
    if (ws->ops.done)
        ws->ops.done(ws->ops.ctx);
    hw_ws_reader_done(&ws->reader);
    hw_http_release(ws->server, &ws->held);
    pthread_mutex_destroy(&ws->lock);
    free(ws);
}

static void on_upgrade(void *cls, struct MHD_Connection *c, void *req_cls, const char *extra,
                       size_t extra_n, MHD_socket fd, struct MHD_UpgradeResponseHandle *handle)
{
    struct hw_websocket *ws = cls;
    (void)c;
    ((struct hw_http_request *)req_cls)->socket = NULL;
    ws->fd = fd;
    ws->handle = handle;
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0)
        (void)fcntl(fd, F_SETFL, flags | O_NONBLOCK); /* sends have a timeout */
    enable_keepalive(fd);
    if (enlist(ws)) {
        run_socket(ws, extra, extra_n);
        linger(ws);
        delist(ws);
    }
    (void)MHD_upgrade_action(handle, MHD_UPGRADE_ACTION_CLOSE);
    hw_http_socket_free(ws);
}

void hw_http_stop_sockets(struct hw_http *h)
{
    pthread_mutex_lock(&h->lock);
    h->stopping = true;
    for (size_t i = 0; i < h->sockets.n; i++)
        (void)shutdown(h->sockets.v[i]->fd, SHUT_RDWR); /* wakes its thread */
    while (h->sockets.n)
        pthread_cond_wait(&h->socket_ended, &h->lock);
    pthread_mutex_unlock(&h->lock);
}

static bool has_word(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = list; at && *at;) {
        at += strspn(at, " \t,");
        size_t len = strcspn(at, " \t,");
        if (len == n && strncasecmp(at, word, n) == 0)
            return true;
        at += len;
    }
    return false;
}

static bool asks_for_socket(const struct hw_http_request *req, const char **key)
{
    const char *version = hw_http_header(req, "Sec-WebSocket-Version");
    *key = hw_http_header(req, "Sec-WebSocket-Key");
    return has_word(hw_http_header(req, "Upgrade"), "websocket") &&
           has_word(hw_http_header(req, "Connection"), "Upgrade") && *key && strlen(*key) == 24 &&
           version && strcmp(version, "13") == 0;
}

void hw_http_websocket(struct hw_http_request *req, const struct hw_websocket_ops *ops)
{
    const char *key;
    char accept[29];
    if (!asks_for_socket(req, &key)) {
        if (ops->done)
            ops->done(ops->ctx);
        hw_http_add_header(req, "Sec-WebSocket-Version", "13");
        hw_http_reply_text(req, MHD_HTTP_BAD_REQUEST, "a WebSocket is expected here\n");
        return;
    }
    struct hw_websocket *ws = calloc(1, sizeof *ws);
    if (!ws) {
        if (ops->done)
            ops->done(ops->ctx);
        hw_http_queue(req, 0, NULL, NULL);
        return;
    }
    *ws = (struct hw_websocket){.server = req->server, .ops = *ops, .fd = -1};
    ws->reader.max_message = ops->max_message;
    pthread_mutex_init(&ws->lock, NULL);
    struct MHD_Response *r = MHD_create_response_for_upgrade(on_upgrade, ws);
    if (!r) {
        hw_http_socket_free(ws);
    } else {
        req->socket = ws;
        hw_ws_accept(key, accept);
        hw_http_add_header(req, "Upgrade", "websocket");
        hw_http_add_header(req, "Sec-WebSocket-Accept", accept);
    }
    hw_http_queue(req, MHD_HTTP_SWITCHING_PROTOCOLS, NULL, r);
}

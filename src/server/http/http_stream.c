/*
 * Streamed responses: a producer's thread fills a small buffer, the connection's thread empties it.
 * While it waits, the connection's thread checks whether the client is still there: nothing else
 * notices, as nothing is sent meanwhile.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/error.h"
#include "server/http/http_internal.h"

#include "base/banned.h"

enum { BUFFER = 1 << 20, BLOCK = 64 << 10, POLL_MS = 100 };

struct hw_http_stream {
    struct hw_http *server;
    struct MHD_Connection *connection; /* used only by its own thread */
    int fd;                            /* the client's, borrowed */
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct hw_strbuf buffer;
    size_t taken;     /* of the buffer */
    bool ended, gone; /* the producer has ended; the client is gone */
    unsigned timeout_s;
    struct hw_http_producer producer;
};

static void wait_ms(struct hw_http_stream *s, unsigned ms)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    uint64_t ns = (uint64_t)until.tv_nsec + (uint64_t)ms * 1000000;
    until.tv_sec += (time_t)(ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    (void)pthread_cond_timedwait(&s->changed, &s->lock, &until);
}

static bool has_disconnected(const struct hw_http *server, int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};
    return server->stopping ||
           (poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0);
}

static bool client_is_gone(const struct hw_http_stream *s)
{
    return has_disconnected(s->server, s->fd);
}

bool hw_http_gone(struct hw_http_request *req)
{
    if (req->local)
        return false;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(req->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info && has_disconnected(req->server, info->connect_fd);
}

/* Called with the lock held; calls the producer's cancel without it. */
static void set_gone(struct hw_http_stream *s)
{
    bool first = !s->gone && !s->ended;
    s->gone = true;
    pthread_cond_broadcast(&s->changed);
    if (!first || !s->producer.cancel)
        return;
    pthread_mutex_unlock(&s->lock);
    s->producer.cancel(s->producer.ctx);
    pthread_mutex_lock(&s->lock);
}

static ssize_t take(void *cls, uint64_t pos, char *out, size_t max)
{
    struct hw_http_stream *s = cls;
    (void)pos;
    pthread_mutex_lock(&s->lock);
    bool waited = s->buffer.n == s->taken && !s->ended;
    while (s->buffer.n == s->taken && !s->ended && !s->gone) {
        wait_ms(s, POLL_MS);
        if (s->buffer.n == s->taken && client_is_gone(s))
            set_gone(s);
    }
    size_t n = s->buffer.n - s->taken;
    ssize_t result;
    if (n) {
        n = n < max ? n : max;
        memcpy(out, s->buffer.p + s->taken, n);
        s->taken += n;
        if (s->taken == s->buffer.n) {
            hw_strbuf_clear(&s->buffer);
            s->taken = 0;
        }
        pthread_cond_broadcast(&s->changed);
        result = (ssize_t)n;
    } else {
        result = s->ended && !s->gone ? MHD_CONTENT_READER_END_OF_STREAM
                                      : MHD_CONTENT_READER_END_WITH_ERROR;
    }
    pthread_mutex_unlock(&s->lock);
    if (waited)
        hw_http_restart_timeout(s->connection, s->server); /* the producer paused, not the client */
    return result;
}

/* The response is over, complete or not. */
static void stream_free(void *cls)
{
    struct hw_http_stream *s = cls;
    pthread_mutex_lock(&s->lock);
    set_gone(s);
    pthread_mutex_unlock(&s->lock);
    if (s->has_thread)
        (void)pthread_join(s->thread, NULL);
    if (s->producer.done)
        s->producer.done(s->producer.ctx);
    hw_strbuf_done(&s->buffer);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
    free(s);
}

static void *run(void *cls)
{
    struct hw_http_stream *s = cls;
    s->producer.produce(s, s->producer.ctx);
    pthread_mutex_lock(&s->lock);
    s->ended = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static struct hw_http_stream *stream_new(struct hw_http_request *req,
                                         const struct hw_http_producer *p)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(req->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct hw_http_stream *s = calloc(1, sizeof *s);
    pthread_condattr_t attr;
    if (!s || !info) {
        free(s);
        return NULL;
    }
    s->server = req->server;
    s->connection = req->connection;
    s->fd = info->connect_fd;
    s->timeout_s = hw_http_timeout_s(req->server);
    s->producer = *p;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->changed, &attr);
    pthread_condattr_destroy(&attr);
    return s;
}

void hw_http_stream(struct hw_http_request *req, unsigned status, const char *type,
                    const struct hw_http_producer *p)
{
    struct hw_http_stream *s = req->local ? NULL : stream_new(req, p);
    if (req->local) {
        hw_http_reply_text(req, MHD_HTTP_NOT_IMPLEMENTED, "this is answered in pieces\n");
        if (p->done)
            p->done(p->ctx);
        return;
    }
    if (!s) {
        if (p->done)
            p->done(p->ctx);
        hw_http_queue(req, 0, NULL, NULL);
        return;
    }
    struct MHD_Response *r =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, take, s, stream_free);
    s->has_thread = r && pthread_create(&s->thread, NULL, run, s) == 0;
    if (!s->has_thread) {
        if (r)
            MHD_destroy_response(r); /* frees s */
        else
            stream_free(s);
        r = NULL;
    }
    hw_http_queue(req, status, type, r);
}

/* Without this, a client that never catches up would make the buffer grow forever. Each byte moves
 * at most once: no more bytes are moved than were taken. */
static void drop_taken(struct hw_http_stream *s)
{
    if (s->taken < BUFFER)
        return;
    s->buffer.n -= s->taken;
    memmove(s->buffer.p, s->buffer.p + s->taken, s->buffer.n);
    s->taken = 0;
}

int hw_http_stream_write(struct hw_http_stream *s, const void *p, size_t n)
{
    const char *at = p;
    int rc = HW_OK;
    pthread_mutex_lock(&s->lock);
    uint64_t moved_ns = hw_now_monotonic_ns();
    while (n && rc == HW_OK) {
        size_t held = s->buffer.n - s->taken, room = held < BUFFER ? BUFFER - held : 0;
        if (s->gone) {
            rc = HW_ESYS;
        } else if (room == 0) {
            wait_ms(s, POLL_MS);
            if (s->buffer.n - s->taken < held)
                moved_ns = hw_now_monotonic_ns();
            if (hw_now_monotonic_ns() - moved_ns > (uint64_t)s->timeout_s * 1000000000)
                set_gone(s);
        } else {
            size_t part = n < room ? n : room;
            drop_taken(s);
            hw_strbuf_add(&s->buffer, at, part);
            if (s->buffer.failed)
                rc = HW_ENOMEM;
            at += part;
            n -= part;
            moved_ns = hw_now_monotonic_ns();
            pthread_cond_broadcast(&s->changed);
        }
    }
    pthread_mutex_unlock(&s->lock);
    return rc;
}

/* ---- events ---- */

void hw_http_events(struct hw_http_request *req, const struct hw_http_producer *p)
{
    hw_http_add_header(req, "Cache-Control", "no-store");
    hw_http_stream(req, MHD_HTTP_OK, "text/event-stream", p);
}

int hw_http_event_send(struct hw_http_stream *s, const char *name, const char *data)
{
    struct hw_strbuf text = {0};
    if (name)
        hw_strbuf_addf(&text, "event: %s\n", name);
    for (bool more = true; more;) {
        size_t n = strcspn(data, "\r\n");
        hw_strbuf_adds(&text, "data: ");
        hw_strbuf_add(&text, data, n);
        hw_strbuf_addc(&text, '\n');
        data += n;
        more = *data != 0;
        data += more ? 1 + (data[0] == '\r' && data[1] == '\n') : 0;
    }
    hw_strbuf_addc(&text, '\n');
    int rc = text.failed ? HW_ENOMEM : hw_http_stream_write(s, text.p, text.n);
    hw_strbuf_done(&text);
    return rc;
}

bool hw_http_event_wait(struct hw_http_stream *s, unsigned timeout_ms)
{
    uint64_t end = hw_now_monotonic_ns() + (uint64_t)timeout_ms * 1000000;
    pthread_mutex_lock(&s->lock);
    while (!s->gone && hw_now_monotonic_ns() < end)
        wait_ms(s, timeout_ms < POLL_MS ? timeout_ms : POLL_MS);
    bool here = !s->gone;
    pthread_mutex_unlock(&s->lock);
    return here;
}

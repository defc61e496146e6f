/*
 * Per-client limits: connections, running handlers, memory for incomplete messages. A client with
 * two hundred concurrent requests only delays itself.
 */
#include <errno.h>
#include <time.h>

#include "server/http/http_internal.h"

#include "base/banned.h"

enum { TIMEOUT_S = 60, AT_ONCE = 16, POLL_MS = 100 };
static const uint64_t max_held = (uint64_t)512 << 20;

unsigned hw_http_timeout_s(const struct hw_http *h)
{
    return h->o.timeout_s ? h->o.timeout_s : TIMEOUT_S;
}

/* ---- connections ---- */

uint64_t hw_http_client(struct hw_http_request *req)
{
    struct hw_http *h = req->server;
    struct hw_http_box *box = hw_http_box_of(req->connection);
    if (!box)
        return 0;
    pthread_mutex_lock(&h->lock);
    bool known = box->known;
    pthread_mutex_unlock(&h->lock);
    /* Without the lock: it may take long. */
    uint64_t client = known ? box->client : hw_http_client_of(box->fd);
    pthread_mutex_lock(&h->lock);
    box->client = client;
    box->known = true;
    pthread_mutex_unlock(&h->lock);
    return client;
}

/* With the lock held. */
static unsigned count_trusted(const struct hw_http *h, uint64_t client)
{
    unsigned n = 0;
    for (size_t i = 0; i < h->boxes.n; i++)
        n += h->boxes.v[i]->trusted && h->boxes.v[i]->client == client;
    return n;
}

/* From here on it is not evicted, and its idle timeout is longer. */
bool hw_http_trust(struct hw_http_request *req)
{
    struct hw_http *h = req->server;
    struct hw_http_box *box = hw_http_box_of(req->connection);
    uint64_t client = hw_http_client(req);
    pthread_mutex_lock(&h->lock);
    bool first = box && !box->trusted;
    bool fits = !first || count_trusted(h, client) < (h->limit + 1) / 2;
    if (first && fits)
        box->trusted = true;
    pthread_mutex_unlock(&h->lock);
    if (first && fits)
        (void)MHD_set_connection_option(req->connection, MHD_CONNECTION_OPTION_TIMEOUT,
                                        hw_http_timeout_s(h)); /* else the short one stays */
    return fits;
}

/* Changing it from "never" makes the library restart the timeout. */
void hw_http_restart_timeout(struct MHD_Connection *c, const struct hw_http *h)
{
    (void)MHD_set_connection_option(c, MHD_CONNECTION_OPTION_TIMEOUT, 0U);
    (void)MHD_set_connection_option(c, MHD_CONNECTION_OPTION_TIMEOUT, hw_http_timeout_s(h));
}

/* ---- handlers ---- */

/* With the lock held; NULL: out of memory, so the handler is not counted. */
static struct hw_http_at_work *find_work(struct hw_http *h, uint64_t client)
{
    for (size_t i = 0; i < h->at_work.n; i++)
        if (h->at_work.v[i].client == client)
            return &h->at_work.v[i];
    struct hw_http_at_work fresh = {client, 0};
    return hw_vec_push(&h->at_work, fresh) < 0 ? NULL : &h->at_work.v[h->at_work.n - 1];
}

static void wait_briefly(struct hw_http *h)
{
    struct timespec until;
    /* The condition's clock; a jump affects one wait. */
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += POLL_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_cond_timedwait(&h->handler_ended, &h->lock, &until);
}

/* False: the client has left, or the server is stopping. */
static bool begin_work(struct hw_http_request *req, uint64_t client)
{
    struct hw_http *h = req->server;
    struct hw_http_at_work *w;
    bool gone = false;
    pthread_mutex_lock(&h->lock);
    while ((w = find_work(h, client)) && w->n >= AT_ONCE && !gone) {
        wait_briefly(h);
        pthread_mutex_unlock(&h->lock);
        gone = hw_http_gone(req);
        pthread_mutex_lock(&h->lock);
    }
    if (w && !gone)
        w->n++;
    pthread_mutex_unlock(&h->lock);
    return !gone;
}

static void end_work(struct hw_http *h, uint64_t client)
{
    pthread_mutex_lock(&h->lock);
    for (size_t i = 0; i < h->at_work.n; i++)
        if (h->at_work.v[i].client == client && h->at_work.v[i].n && --h->at_work.v[i].n == 0)
            h->at_work.v[i] = h->at_work.v[--h->at_work.n];
    pthread_cond_broadcast(&h->handler_ended);
    pthread_mutex_unlock(&h->lock);
}

/*
 * Who shows no token has one reply a connection: two hundred connections that ask faster than they
 * are answered would otherwise keep those out that wait to be accepted.
 */
static void close_unless_trusted(struct hw_http_request *req)
{
    struct hw_http *h = req->server;
    struct hw_http_box *box = hw_http_box_of(req->connection);
    pthread_mutex_lock(&h->lock);
    bool trusted = box && box->trusted;
    pthread_mutex_unlock(&h->lock);
    if (!trusted)
        hw_http_add_header(req, "Connection", "close");
}

void hw_http_handle(struct hw_http_request *req)
{
    struct hw_http *h = req->server;
    if (req->route->flags & HW_HTTP_OPEN) {
        close_unless_trusted(req);
        req->route->handle(req, h->o.ctx);
        return;
    }
    uint64_t client = hw_http_client(req);
    if (begin_work(req, client)) {
        req->route->handle(req, h->o.ctx);
        end_work(h, client);
        hw_http_restart_timeout(req->connection, h);
    }
}

/* ---- memory ---- */

bool hw_http_hold(struct hw_http *h, uint64_t *held, uint64_t n)
{
    if (atomic_fetch_add(&h->held_bytes, n) + n > max_held) {
        atomic_fetch_sub(&h->held_bytes, n);
        return false;
    }
    *held += n;
    return true;
}

void hw_http_release(struct hw_http *h, uint64_t *held)
{
    atomic_fetch_sub(&h->held_bytes, *held);
    *held = 0;
}

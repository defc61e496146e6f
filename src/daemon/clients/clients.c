/*
 * clients.c - connections of clients that wait for a session
 *
 * They have said hello (hello.c) and hold a control page. Nothing is read from them any more: only
 * their end matters, and with it the control page is freed.
 */
#include "daemon/clients/clients.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files/fd.h"
#include "daemon/clients/blocking_fd.h"
#include "daemon/core.h"
#include "proc/number.h"

#include "base/banned.h"

#define HELLO_NS      UINT64_C(5000000000) /* a client that says nothing is dropped */
#define FILTERS_EVERY UINT64_C(1000000000)

void hw_conn_close(struct hw_conn *c)
{
    if (c->closed)
        return;
    hw_watch_remove(c->rec, &c->watch);
    if (c->watch.fd >= 0)
        hw_blocking_fd_close(c->watch.fd);
    c->watch.fd = -1;
    hw_page_done(&c->page);
    c->closed = true; /* freed by the next tick: events of this round may still name it */
}

void hw_conn_release(struct hw_conn *c)
{
    hw_watch_remove(c->rec, &c->watch);
    c->watch.fd = -1;
    hw_conn_close(c);
}

/* A session has started that may want it: it makes the handshake at its next allocation. */
static bool is_called(const struct hw_conn *c)
{
    return atomic_load_explicit(&c->page.map->generation, memory_order_relaxed) != 0;
}

/* A handshake would now kill it. */
static bool is_closed_in(struct hw_conn *c, bool all_threads)
{
    hw_autofd int dir = hw_proc_open_dir(c->pid);
    return dir < 0 || hw_page_update_filters(&c->page, dir, &c->filters, all_threads);
}

void hw_clients_tick(struct hw_recorder *r, uint64_t now)
{
    for (size_t i = 0; i < r->conns.n;) {
        struct hw_conn *c = r->conns.v[i];
        if (!c->closed && !c->has_hello && now - c->since_ns > HELLO_NS)
            hw_conn_close(c);
        if (c->closed) {
            free(c);
            r->conns.v[i] = r->conns.v[--r->conns.n];
            continue;
        }
        if (c->waiting &&
            now - c->filters_ns > (is_called(c) ? FILTERS_EVERY / 4 : FILTERS_EVERY)) {
            c->filters_ns = now;
            (void)is_closed_in(c, /* all_threads = */ false); /* then its page says so */
        }
        if (c->waiting)
            hw_page_beat(&c->page);
        i++;
    }
}

void hw_clients_wake(struct hw_recorder *r)
{
    uint32_t generation = ++r->next_generation;
    for (size_t i = 0; i < r->conns.n; i++) {
        struct hw_conn *c = r->conns.v[i];
        if (c->waiting && !c->closed && !is_closed_in(c, /* all_threads = */ true))
            atomic_store_explicit(&c->page.map->generation, generation, memory_order_release);
    }
}

/* A child may keep the connection of a process that has ended, and another process have its
 * number. */
static bool is_of(const struct hw_conn *c, int32_t pid)
{
    struct hw_pid p;
    if (c->pid != pid || c->closed || hw_pid_open_peer(c->watch.fd, pid, &p, NULL) < 0)
        return false;
    hw_pid_done(&p);
    return true;
}

bool hw_clients_know(const struct hw_recorder *r, int32_t pid)
{
    for (size_t i = 0; i < r->conns.n; i++)
        if (is_of(r->conns.v[i], pid))
            return true;
    return false;
}

bool hw_clients_called(const struct hw_recorder *r, int32_t pid)
{
    for (size_t i = 0; i < r->conns.n; i++)
        if (r->conns.v[i]->waiting && is_of(r->conns.v[i], pid))
            return is_called(r->conns.v[i]);
    return false;
}

bool hw_clients_wake_one(struct hw_recorder *r, int32_t pid)
{
    for (size_t i = 0; i < r->conns.n; i++) {
        struct hw_conn *c = r->conns.v[i];
        if (!c->waiting || !is_of(c, pid))
            continue;
        if (!is_closed_in(c, /* all_threads = */ true))
            atomic_store_explicit(&c->page.map->generation, ++r->next_generation,
                                  memory_order_release);
        return true;
    }
    return false;
}

static void on_end(struct hw_watch *w, uint32_t events)
{
    if (events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP))
        hw_conn_close(HW_OWNER_OF(w, struct hw_conn, watch));
}

void hw_clients_take_back(struct hw_target *t)
{
    struct hw_recorder *r = t->rec;
    /* A client that was never welcomed does not know this page. */
    bool alive = t->welcomed && t->watch.fd >= 0 && t->page.map && t->end != HW_END_EXITED &&
                 t->end != HW_END_EXECED && hw_pid_alive(&t->pid);
    if (r->stopping || !alive || t->socket_closed || r->conns.n >= r->max_conns)
        return;
    struct hw_conn *c = calloc(1, sizeof *c);
    if (!c)
        return; /* it stays silent from now on */
    *c = (struct hw_conn){.rec = r,
                          .ns_socket = t->ns_socket,
                          .uid = t->uid,
                          .pid = t->pid.pid,
                          .since_ns = hw_now_monotonic_ns(),
                          .has_hello = true,
                          .waiting = true,
                          .hello = t->hello,
                          .page = t->page,
                          .filters = t->filters};
    if (hw_vec_push(&r->conns, c) < 0) {
        free(c);
        return;
    }
    hw_watch_remove(r, &t->watch);
    c->watch = (struct hw_watch){t->watch.fd, on_end};
    t->watch.fd = -1;
    t->page = (struct hw_page){.fd = -1};
    (void)hw_watch_add(r, &c->watch, EPOLLRDHUP); /* without: its end is not noticed */
}

void hw_clients_done(struct hw_recorder *r)
{
    for (size_t i = 0; i < r->conns.n; i++) {
        struct hw_conn *c = r->conns.v[i];
        if (c->waiting && c->page.map)
            atomic_store(&c->page.map->ended, 1);
        hw_conn_close(c);
        free(c);
    }
    hw_vec_done(&r->conns);
    if (r->spare_fd >= 0)
        (void)close(r->spare_fd); /* /dev/null */
    if (r->producers.fd >= 0) {
        (void)close(r->producers.fd); /* no more clients */
        if (!r->activated && r->producer_name[0] != '@' && r->producer_name[0] != '\0')
            (void)unlink(r->producer_name); /* the next start removes it too */
    }
}

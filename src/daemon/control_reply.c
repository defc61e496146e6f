/*
 * control_reply.c - what the recorder says to a command
 *
 * Sent without waiting: what a command does not read in time is kept for it, up to a limit, and
 * progress messages are dropped. (A wait here stopped the recorder for 0.2 s per message with 1000
 * targets.)
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "daemon/core.h"
#include "daemon/policy/permission.h"

#include "base/banned.h"

#define MAX_OUT_BYTES (4u << 20)
#define MAX_OUT_USER  (16u << 20) /* of all that one user has connected */
#define END_BYTES     (64u << 10) /* beyond that, for the message a command waits for */

struct hw_control_out {
    struct hw_control_out *next;
    size_t n;
    char bytes[];
};

static void set_events(struct hw_control_conn *c, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = &c->watch};
    (void)epoll_ctl(c->rec->epoll_fd, EPOLL_CTL_MOD, c->watch.fd, &e); /* it is in the set */
}

static size_t kept_for(const struct hw_recorder *r, uint32_t uid)
{
    size_t n = 0;
    for (size_t i = 0; i < r->controls.n; i++)
        n += r->controls.v[i]->uid == uid ? r->controls.v[i]->out_bytes : 0;
    return n;
}

/* The command reads slowly: the message waits here, never the recorder. */
static void keep(struct hw_control_conn *c, const struct iovec *iov, size_t n, bool is_end)
{
    size_t more = is_end ? END_BYTES : 0;
    if (c->out_bytes + n > MAX_OUT_BYTES + more ||
        kept_for(c->rec, c->uid) + n > MAX_OUT_USER + more)
        return; /* it has not read for a long time: what it misses is news, not data */
    struct hw_control_out *o = malloc(sizeof *o + n);
    if (!o)
        return;
    *o = (struct hw_control_out){.n = n};
    size_t at = 0;
    for (int i = 0; i < 3; i++) {
        if (iov[i].iov_len)
            memcpy(o->bytes + at, iov[i].iov_base, iov[i].iov_len);
        at += iov[i].iov_len;
    }
    if (!c->out)
        set_events(c, EPOLLIN | EPOLLOUT);
    *(c->out ? &c->out_last->next : &c->out) = o;
    c->out_last = o;
    c->out_bytes += n;
}

void hw_control_flush(struct hw_control_conn *c)
{
    while (c->out) {
        struct hw_control_out *o = c->out;
        if (send(c->watch.fd, o->bytes, o->n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno == EAGAIN)
            return;
        c->out = o->next;
        c->out_bytes -= o->n;
        free(o);
    }
    set_events(c, EPOLLIN);
}

void hw_control_send(struct hw_control_conn *c, enum hw_control_type type, uint64_t session,
                     const void *body, size_t n, const char *text)
{
    if (!c || c->closed)
        return;
    size_t text_n = text ? strlen(text) : 0;
    struct hw_control_head h = {.version = HW_CONTROL_VERSION,
                                .type = type,
                                .length = (uint32_t)(n + text_n),
                                .session = session};
    struct iovec iov[3] = {
        {&h, sizeof h}, {(void *)(uintptr_t)body, n}, {(void *)(uintptr_t)text, text_n}};
    struct msghdr m = {.msg_iov = iov, .msg_iovlen = 3};
    if (!c->out && sendmsg(c->watch.fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
        return;
    if (c->out || errno == EAGAIN)
        if (type != HW_CTL_PROGRESS)
            keep(c, iov, sizeof h + n + text_n, type == HW_CTL_ENDED);
}

void hw_control_fail(struct hw_control_conn *c, const char *text)
{
    hw_control_send(c, HW_CTL_ERROR, 0, NULL, 0, text);
}

void hw_control_fail_as(struct hw_control_conn *c, const struct hw_error *err)
{
    hw_control_send(c, HW_CTL_ERROR, (uint64_t)(-(int64_t)err->code), NULL, 0, err->text);
}

struct hw_session *hw_control_session(struct hw_control_conn *c, uint64_t id)
{
    if (id == 0)
        return c->session;
    for (size_t i = 0; i < c->rec->sessions.n; i++) {
        struct hw_session *s = c->rec->sessions.v[i];
        if (s->id == id && hw_permission_session(c->uid, s->uid) == HW_OK)
            return s;
    }
    return NULL;
}

void hw_control_drop_unsent(struct hw_control_conn *c)
{
    while (c->out) {
        struct hw_control_out *o = c->out;
        c->out = o->next;
        free(o);
    }
    c->out_bytes = 0;
}

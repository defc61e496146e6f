/*
 * session_detach.c - sessions that outlive their command, and copies of running ones
 *
 *   detach  START ── DETACH key ──> nobody's ── ATTACH key ──> another connection's
 *   clone   CLONE ── a dump of every target ── all written ──> CLONED (file, bytes)
 *
 * A session belongs to the connection that started it and ends with it. Detached it belongs to a
 * key (one user's; not secret) until it ends by its own rules or a command attaches to it. Its file
 * is already the recorder's own descriptor, so nothing else changes hands.
 *
 * A trace file is only ever appended to, packet by packet, so its first n bytes are a trace. A
 * clone is therefore a dump of all targets, then the number of bytes written so far: the command
 * reads them from the descriptor it gets and copies them where it likes. The recorder copies
 * nothing: a file of gigabytes would stop its loop.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/core.h"
#include "daemon/policy/permission.h"
#include "trace/writer.h"

#include "base/banned.h"

#define CLONE_WAIT_NS UINT64_C(10000000000)
#define MAX_KEY       128u

/* ---- detach and attach ---- */

/* Bytes of a message → a key of ours; NULL when it is none. */
static char *take_key(struct hw_bytes b)
{
    if (b.n == 0 || b.n > MAX_KEY || memchr(b.p, 0, b.n))
        return NULL;
    return strndup((const char *)b.p, b.n);
}

static struct hw_session *find_detached(struct hw_control_conn *c, const char *key)
{
    for (size_t i = 0; i < c->rec->sessions.n; i++) {
        struct hw_session *s = c->rec->sessions.v[i];
        if (s->detach_key && s->uid == c->uid && !s->stopping && strcmp(s->detach_key, key) == 0)
            return s;
    }
    return NULL;
}

void hw_session_detach(struct hw_control_conn *c, struct hw_bytes key)
{
    struct hw_session *s = c->session;
    char *text = take_key(key);
    if (!text)
        hw_control_fail(c, "a detached session's key must have 1 to 128 bytes");
    else if (!s || s->stopping)
        hw_control_fail(c, s ? "the session is ending" : "this connection has no session");
    else if (find_detached(c, text))
        hw_control_fail(c, "another detached session already has this key");
    else {
        hw_control_send(c, HW_CTL_DETACHED, s->id, &s->id, sizeof s->id, NULL);
        s->detach_key = text;
        s->control = NULL;
        c->session = NULL;
        return;
    }
    free(text);
}

void hw_session_attach(struct hw_control_conn *c, struct hw_bytes key)
{
    char *text = take_key(key);
    struct hw_session *s = text ? find_detached(c, text) : NULL;
    free(text);
    if (c->session || !s) {
        hw_control_fail(c, s ? "this connection already has a session"
                             : "no detached session with this key");
        return;
    }
    free(s->detach_key);
    s->detach_key = NULL;
    s->control = c;
    c->session = s;
    hw_control_send(c, HW_CTL_ATTACHED, s->id, &s->id, sizeof s->id, NULL);
}

/* ---- clone ---- */

static struct hw_session *find_session(const struct hw_control_conn *c, uint64_t id,
                                       struct hw_bytes name)
{
    for (size_t i = 0; i < c->rec->sessions.n; i++) {
        struct hw_session *s = c->rec->sessions.v[i];
        const char *own = s->config.unique_session_name;
        if (s->stopping || hw_permission_session(c->uid, s->uid) < 0)
            continue;
        if (id ? s->id == id : own && strlen(own) == name.n && memcmp(own, name.p, name.n) == 0)
            return s;
    }
    return NULL;
}

void hw_session_clone(struct hw_control_conn *c, uint64_t id, struct hw_bytes name)
{
    struct hw_session *s = find_session(c, id, name);
    if (!s || c->clone_session) {
        hw_control_fail(c, s ? "this connection is already waiting for a clone"
                             : "no such session is running");
        return;
    }
    c->clone_session = s->id;
    c->clone_deadline_ns = hw_now_monotonic_ns() + CLONE_WAIT_NS;
    hw_session_dump(s, "clone", NULL, 0);
}

/* Our only message with a descriptor. The command waits for it and has read all earlier ones. */
static void send_cloned(struct hw_control_conn *c, const struct hw_control_cloned *b, int fd)
{
    struct hw_control_head h = {.version = HW_CONTROL_VERSION,
                                .type = HW_CTL_CLONED,
                                .length = sizeof *b,
                                .session = b->session};
    struct iovec iov[] = {{&h, sizeof h}, {(void *)(uintptr_t)b, sizeof *b}};
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr m = {.msg_iov = iov,
                       .msg_iovlen = HW_ARRAY_LEN(iov),
                       .msg_control = &control,
                       .msg_controllen = sizeof control.space};
    struct cmsghdr *cm = CMSG_FIRSTHDR(&m);
    cm->cmsg_level = SOL_SOCKET;
    cm->cmsg_type = SCM_RIGHTS;
    cm->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(cm), &fd, sizeof fd);
    if (sendmsg(c->watch.fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        hw_control_fail(c, "the session's file cannot be handed over");
}

static void count_dumps(const struct hw_session *s, uint32_t *all, uint32_t *open)
{
    for (size_t i = 0; i < s->rec->targets.n; i++) {
        const struct hw_target *t = s->rec->targets.v[i];
        *all += t->session == s;
        *open += t->session == s && (t->dump.active || t->dump.next);
    }
}

static void tick_clone(struct hw_control_conn *c, uint64_t now)
{
    struct hw_session *s = NULL;
    for (size_t i = 0; i < c->rec->sessions.n; i++)
        if (c->rec->sessions.v[i]->id == c->clone_session && !c->rec->sessions.v[i]->closed)
            s = c->rec->sessions.v[i];
    if (!s) {
        c->clone_session = 0;
        hw_control_fail(c, "the session has ended: its own file is complete");
        return;
    }
    struct hw_control_cloned b = {.session = s->id};
    count_dumps(s, &b.n_targets, &b.n_missing);
    if (b.n_missing && now < c->clone_deadline_ns)
        return;
    c->clone_session = 0;
    struct hw_error err = {0};
    int rc = hw_trace_writer_flush(s->writer, &err);
    if (rc < 0) {
        hw_control_fail_as(c, &err);
        hw_session_write_failed(s, rc, &err);
        return;
    }
    b.bytes = s->writing ? s->whole_bytes : hw_trace_writer_bytes(s->writer);
    send_cloned(c, &b, s->fd);
}

void hw_session_detach_tick(struct hw_recorder *r, uint64_t now)
{
    for (size_t i = 0; i < r->controls.n; i++)
        if (r->controls.v[i]->clone_session && !r->controls.v[i]->closed)
            tick_clone(r->controls.v[i], now);
}

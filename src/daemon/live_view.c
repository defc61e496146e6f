/*
 * A look at a process that is recorded: how its heaps are now, as a small trace in a memory file.
 * It takes the way of a dump (drain to a position, snapshot, names), but leaves nothing behind: the
 * snapshot clears no changes, and the recording's file gets no packet. One look a process at a
 * time; all that wait for it get the same values.
 */
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/fd_send.h"
#include "daemon/core.h"

#include "base/banned.h"

#define WAIT_NS UINT64_C(10000000000)

static struct hw_target *find_pid(const struct hw_control_conn *c, int32_t pid)
{
    for (size_t i = 0; i < c->rec->targets.n; i++) {
        struct hw_target *t = c->rec->targets.v[i];
        if (t->pid.pid == pid && t->phase == HW_PHASE_RUNNING &&
            hw_permission_session(c->uid, t->session->uid) == HW_OK)
            return t;
    }
    return NULL;
}

static struct hw_target *find_key(const struct hw_recorder *r, uint64_t key)
{
    for (size_t i = 0; i < r->targets.n; i++)
        if (r->targets.v[i]->key == key && r->targets.v[i]->phase == HW_PHASE_RUNNING)
            return r->targets.v[i];
    return NULL;
}

void hw_live_view_ask(struct hw_control_conn *c, struct hw_bytes body)
{
    struct hw_control_look ask = {0};
    if (body.n == sizeof ask)
        memcpy(&ask, body.p, sizeof ask);
    struct hw_target *t = find_pid(c, ask.pid);
    if (!t || c->live_key) {
        hw_control_fail(c, t ? "this connection waits for a look already"
                             : "that process is not being profiled here");
        return;
    }
    c->live_key = t->key;
    c->look = ask;
    c->live_deadline_ns = hw_now_monotonic_ns() + WAIT_NS;
    hw_dump_live(t);
}

/* The trace, or the reason why there is none. */
static int make_trace(struct hw_target *t, const struct hw_snapshot *s,
                      const struct hw_control_look *ask, struct hw_error *err)
{
    if (!s)
        return hw_fail(err, HW_ENOMEM, 0, "no memory for a look");
    hw_autofd int fd = memfd_create("live", MFD_CLOEXEC);
    if (fd < 0)
        return hw_fail_sys(err, "memfd_create");
    int rc = hw_dump_write_live(t, s, ask, fd, err);
    return rc < 0 ? rc : hw_fd_take(&fd);
}

static int send_look(struct hw_control_conn *c, enum hw_control_type type,
                     const struct hw_control_live *b, int fd)
{
    struct {
        struct hw_control_head head;
        struct hw_control_live body;
    } m = {.head = {.version = HW_CONTROL_VERSION, .type = type, .length = sizeof *b}, .body = *b};
    return hw_fd_send(c->watch.fd, &m, sizeof m, &fd, 1, MSG_DONTWAIT);
}

static struct hw_control_live facts_of(const struct hw_target *t, const struct hw_snapshot *s,
                                       int fd)
{
    off_t end = lseek(fd, 0, SEEK_END);
    return (struct hw_control_live){.pid = t->pid.pid,
                                    .bytes = end < 0 ? 0 : (uint64_t)end,
                                    .n_samples = s->n_samples,
                                    .n_lost = s->lost_full + s->lost_no_slot + s->lost_nested};
}

static void answer(struct hw_control_conn *c, struct hw_target *t, const struct hw_snapshot *s)
{
    struct hw_error err = {0};
    hw_autofd int fd = make_trace(t, s, &c->look, &err);
    c->live_key = 0;
    if (fd < 0) {
        hw_control_fail(c, err.text);
        return;
    }
    struct hw_control_live b = facts_of(t, s, fd);
    if (send_look(c, HW_CTL_LIVE_REPLY, &b, fd) < 0)
        hw_control_fail(c, "the look cannot be handed over");
}

void hw_live_view_last(struct hw_target *t, const struct hw_snapshot *s)
{
    struct hw_error err = {0};
    const struct hw_control_look ask = {0};
    struct hw_control_conn *c = t->session->control;
    if (!(t->session->start.flags & HW_START_TELL_LAST) || !c || c->closed || s->books.n == 0)
        return;
    hw_autofd int fd = make_trace(t, s, &ask, &err);
    if (fd >= 0) {
        struct hw_control_live b = facts_of(t, s, fd);
        if (send_look(c, HW_CTL_LAST, &b, fd) == 0)
            return;
    }
    hw_session_warn(t->session, "pid %d: its last look cannot be handed over", t->pid.pid);
}

void hw_live_view_answer(struct hw_target *t, const struct hw_snapshot *s)
{
    for (size_t i = 0; i < t->rec->controls.n; i++) {
        struct hw_control_conn *c = t->rec->controls.v[i];
        if (!c->closed && c->live_key == t->key)
            answer(c, t, s);
    }
}

void hw_live_view_tick(struct hw_recorder *r, uint64_t now)
{
    for (size_t i = 0; i < r->controls.n; i++) {
        struct hw_control_conn *c = r->controls.v[i];
        if (c->closed || !c->live_key)
            continue;
        struct hw_target *t = find_key(r, c->live_key);
        if (t && now < c->live_deadline_ns) {
            hw_dump_live(t);
            continue;
        }
        c->live_key = 0;
        hw_control_fail(c, t ? "the process could not be looked at in time"
                             : "the process is not being profiled any more");
    }
}

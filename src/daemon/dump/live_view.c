/*
 * The live view of a recorded process: its heaps as they are now, as a small trace in a memory
 * file. It is made like a dump (drain to a position, snapshot, names), but leaves nothing behind:
 * the snapshot clears no changes, and the recording's file gets no packet. One view per process at
 * a time, written in turns like a dump; all commands that wait for it get the same values.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files/fd.h"
#include "base/files/fd_send.h"
#include "daemon/core.h"
#include "daemon/dump/dump_job.h"
#include "daemon/dump/dump_write.h"
#include "trace/profile_writer.h"
#include "trace/writer.h"

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

void hw_handle_live_view(struct hw_control_conn *c, struct hw_bytes body)
{
    struct hw_control_live_request request = {0};
    if (body.n == sizeof request)
        memcpy(&request, body.p, sizeof request);
    struct hw_target *t = find_pid(c, request.pid);
    if (!t || c->live_key) {
        hw_control_fail(c, t ? "this connection is already waiting for a live view of a process"
                             : "the recording of that process has ended, or is another recorder's");
        return;
    }
    c->live_key = t->key;
    c->live_request = request;
    c->live_deadline_ns = hw_now_monotonic_ns() + WAIT_NS;
    hw_dump_live(t);
}

/* ---- a live view: its trace grows in turns ---- */

struct hw_live_view {
    struct hw_control_live_request request;
    int fd; /* owned */
    struct hw_trace_writer *trace;
    struct hw_profile_writer *writer;
    struct hw_dump_writing *rows;
    bool last; /* for the session's command, not for a requester */
};

static void view_free(struct hw_live_view *view)
{
    if (!view)
        return;
    hw_dump_writing_free(view->rows);
    hw_profile_writer_free(view->writer);
    hw_trace_writer_free(view->trace);
    if (view->fd >= 0)
        (void)close(view->fd); /* memory: nothing can be lost */
    free(view);
}

static uint64_t between(uint64_t v, uint64_t lo, uint64_t hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

static int view_begin(struct hw_target *t, struct hw_live_view *view, struct hw_error *err)
{
    struct hw_snapshot *s = t->dump.snap;
    bool counters = view->request.flags & HW_LIVE_REQUEST_COUNTERS;
    uint64_t moment = view->request.moment_ns ? view->request.moment_ns : s->ts_ns;
    struct hw_dump_order request = {.kind = HW_DUMP_LIVE,
                                    .trigger = HW_TRIGGER_LIVE,
                                    .moment_ns = between(moment, t->since_coarse_ns + 1, s->ts_ns),
                                    .keep_cells = true};
    view->fd = memfd_create("live", MFD_CLOEXEC);
    if (view->fd < 0)
        return hw_fail_sys(err, "memfd_create");
    int rc = hw_trace_writer_new(view->fd, &view->trace, err);
    if (rc == HW_OK)
        rc = hw_trace_write_preamble(view->trace, hw_bytes_of("", 0), 0, 0, 1u + counters, err);
    if (rc < 0)
        return rc;
    rc = hw_profile_writer_new(view->trace, &view->writer);
    if (rc == HW_OK)
        rc = hw_dump_writing_new(t, s, view->writer, &request, &view->rows);
    return rc < 0 ? hw_fail(err, rc, 0, "no memory for its live view") : HW_OK;
}

static int view_end(struct hw_target *t, struct hw_live_view *view, struct hw_error *err)
{
    return view->request.flags & HW_LIVE_REQUEST_COUNTERS ? hw_proc_poll_live(t, view->trace, err)
                                                          : HW_OK;
}

/* ---- handing it over ---- */

static int send_view(struct hw_control_conn *c, enum hw_control_type type,
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
                                    .share = t->share,
                                    .bytes = end < 0 ? 0 : (uint64_t)end,
                                    .n_samples = s->n_samples,
                                    .n_lost = s->lost_full + s->lost_no_slot + s->lost_nested +
                                              s->lost_early};
}

static struct hw_control_conn *asker_of(const struct hw_target *t, bool served)
{
    for (size_t i = 0; i < t->rec->controls.n; i++) {
        struct hw_control_conn *c = t->rec->controls.v[i];
        if (!c->closed && c->live_key == t->key && c->live_served == served)
            return c;
    }
    return NULL;
}

/* It may have gone away, or have waited too long. */
static void answer(struct hw_target *t, const struct hw_live_view *view, int rc,
                   const struct hw_error *err)
{
    struct hw_control_conn *c = asker_of(t, /* served = */ true);
    if (!c)
        return;
    c->live_key = 0;
    c->live_served = false;
    struct hw_control_live b = facts_of(t, t->dump.snap, view->fd);
    if (rc < 0)
        hw_control_fail(c, err->text);
    else if (send_view(c, HW_CTL_LIVE_REPLY, &b, view->fd) < 0)
        hw_control_fail(c, "the live view's data cannot be passed on");
}

/* Says that it has ended, without what it held. */
static void tell_end(const struct hw_target *t)
{
    const struct hw_session *s = t->session;
    struct hw_control_live b = {.pid = t->pid.pid, .share = t->share};
    if (s->control && !s->control->closed)
        hw_control_send(s->control, HW_CTL_LAST, s->id, &b, sizeof b, NULL);
}

static void tell_last(struct hw_target *t, const struct hw_live_view *view, int rc)
{
    struct hw_control_conn *c = t->session->control;
    struct hw_control_live b = facts_of(t, t->dump.snap, view->fd);
    if (rc == HW_OK && c && !c->closed && send_view(c, HW_CTL_LAST, &b, view->fd) == 0)
        return;
    tell_end(t);
    hw_session_warn(t->session, "pid %d: its last live view cannot be passed on", t->pid.pid);
}

/* Most programs that end soon never had a sample: there is nothing to show. */
static bool had_nothing(const struct hw_snapshot *s)
{
    return s->n_samples == 0 &&
           s->lost_full + s->lost_no_slot + s->lost_nested + s->lost_early == 0;
}

bool hw_live_view_begins_last(const struct hw_target *t)
{
    struct hw_session *s = t->session;
    bool told = (s->start.flags & HW_START_TELL_LAST) && s->control && !s->control->closed;
    bool nothing = had_nothing(t->dump.snap) || t->dump.snap->books.n == 0;
    if (told && nothing)
        tell_end(t);
    return told && !nothing;
}

/* The next view to be made; NULL: there is none, or no memory. */
static struct hw_live_view *next_view(struct hw_target *t)
{
    bool last = t->dump.final && !t->dump.told_last;
    struct hw_control_conn *c = hw_dump_is_live_view(t) ? asker_of(t, /* served = */ false) : NULL;
    struct hw_live_view *view = c || last ? calloc(1, sizeof *view) : NULL;
    t->dump.told_last = true;
    if (!view)
        return NULL;
    *view = (struct hw_live_view){.fd = -1, .last = last};
    if (c) {
        c->live_served = true;
        view->request = c->live_request;
    }
    return view;
}

int hw_live_view_turn(struct hw_target *t, struct hw_dump_turn *turn)
{
    struct hw_dump_job *d = &t->dump;
    while (d->live_view || (d->live_view = next_view(t))) {
        struct hw_error err = {0};
        struct hw_live_view *view = d->live_view;
        int rc = view->rows ? HW_OK : view_begin(t, view, &err);
        if (rc == HW_OK)
            rc = hw_dump_writing_turn(view->rows, turn, &err);
        if (rc == 1)
            return 1;
        if (rc == HW_OK)
            rc = view_end(t, view, &err);
        if (view->last)
            tell_last(t, view, rc);
        else
            answer(t, view, rc, &err);
        hw_live_view_drop(t);
    }
    return 0;
}

void hw_live_view_drop(struct hw_target *t)
{
    view_free(t->dump.live_view);
    t->dump.live_view = NULL;
}

void hw_live_view_no_memory(struct hw_target *t)
{
    struct hw_control_conn *c;
    while ((c = asker_of(t, /* served = */ false))) {
        c->live_key = 0;
        hw_control_fail(c, "no memory for its live view");
    }
}

static bool is_being_made(const struct hw_recorder *r, const struct hw_control_conn *c)
{
    for (size_t i = 0; i < r->targets.n; i++)
        if (r->targets.v[i]->key == c->live_key)
            return c->live_served;
    return false;
}

void hw_live_view_tick(struct hw_recorder *r, uint64_t now)
{
    for (size_t i = 0; i < r->controls.n; i++) {
        struct hw_control_conn *c = r->controls.v[i];
        if (c->closed || !c->live_key || is_being_made(r, c))
            continue;
        struct hw_target *t = find_key(r, c->live_key);
        if (t && now < c->live_deadline_ns) {
            hw_dump_live(t);
            continue;
        }
        c->live_key = 0;
        c->live_served = false;
        hw_control_fail(c, t ? "the process could not be read in time"
                             : "the process is no longer being profiled");
    }
}

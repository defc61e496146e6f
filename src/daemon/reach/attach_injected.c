/*
 * attach_injected.c - processes that were not prepared: puts the client in, and takes its hooks out again
 *
 *   wanted ──> PREPARING ── tables of its files are there, or 1 s ──> RUNNING ──> hooked
 *              (main thread)                                     (thread of its own)   │
 *   session is over ──> PREPARING ──> RUNNING ──> not hooked        new modules: refresh
 *
 * A hooked process makes the handshake like any other client.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files/fd.h"
#include "base/log.h"
#include "base/memory/map64.h"
#include "daemon/code/holder.h"
#include "daemon/core.h"
#include "daemon/policy/permission.h"
#include "daemon/reach/inject_job.h"
#include "inject/inject.h"

#include "base/banned.h"

#define MS         UINT64_C(1000000)
#define LOOK_EVERY (200 * MS) /* for modules that came later */
#define TRIES      3
#define LEFT_NS    (20 * MS)
#define GONE_NS    (2200 * MS) /* the client believes a recorder dead after 2 s */

static struct hw_injected *find_injected(struct hw_recorder *r, const struct hw_pid *pid)
{
    for (size_t i = 0; i < r->injected.n; i++)
        if (hw_pid_is_same(&r->injected.v[i].pid, pid))
            return &r->injected.v[i];
    return NULL;
}

bool hw_inject_has(const struct hw_recorder *r, int32_t pid)
{
    for (size_t i = 0; i < r->injecting.n; i++)
        if (r->injecting.v[i]->pid.pid == pid && hw_pid_alive(&r->injecting.v[i]->pid))
            return true;
    for (size_t i = 0; i < r->injected.n; i++)
        if (r->injected.v[i].pid.pid == pid && hw_pid_alive(&r->injected.v[i].pid))
            return true;
    return false;
}

/* ---- results of a job ---- */

/* One that has started meanwhile and is over already: nobody waits for it. */
static bool is_short_lived(const struct hw_session *s, const struct hw_pid *pid)
{
    return hw_session_is_later(s, pid) && !hw_pid_alive(pid);
}

/* One that is busy may be free later, for a later try; all other reasons will not change.
 * Quietly: only remembered. */
static void failed(struct hw_session *s, const struct hw_pid *pid, int rc, bool quietly,
                   const char *text)
{
    if (rc == HW_EBUSY && (quietly || s->start.flags & HW_START_RESCAN)) {
        hw_session_try_again(s, pid->pid);
        return;
    }
    if (rc == HW_EUNSUPPORTED && !quietly && hw_session_silent_reads(s, pid->pid))
        quietly = true;
    if (!quietly && !is_short_lived(s, pid))
        hw_session_fail(s, pid->pid, text);
    else
        (void)hw_session_remember_refused(s, pid->pid); /* without it, it is tried again */
}

/* Nobody waits for it any more. If it returns after all, what it did is undone. */
static void give_up(struct hw_inject_job *j)
{
    struct hw_session *s = j->session;
    char text[128];
    if (j->given_up)
        return;
    j->given_up = true;
    j->session = NULL;
    if (!s || j->command != HW_ATTACH_HOOK)
        return;
    (void)snprintf(text, sizeof text, "process %d may not be inspected", j->pid.pid);
    failed(s, &j->pid, HW_ETIMEOUT, j->quietly, text);
}

static void injected_done(struct hw_injected *x)
{
    hw_pid_done(&x->pid);
    hw_permission_request_done(&x->asking);
}

static void leave(struct hw_recorder *r, struct hw_injected *x)
{
    struct hw_proc_status st;
    struct hw_error err;
    if (x->leaving)
        return;
    x->leaving = true;
    if (hw_pid_alive(&x->pid) && hw_proc_status(x->pid.dir, &st) == HW_OK &&
        hw_inject_job_new(r, NULL, &x->asking, &x->pid, st.uid, HW_ATTACH_UNHOOK, &err) == HW_OK)
        return;
    injected_done(x);
    *x = r->injected.v[--r->injected.n];
}

static void forget(struct hw_recorder *r, const struct hw_pid *pid)
{
    struct hw_injected *x = find_injected(r, pid);
    if (!x)
        return;
    injected_done(x);
    *x = r->injected.v[--r->injected.n];
}

static void hooked(struct hw_inject_job *j)
{
    struct hw_recorder *r = j->rec;
    struct hw_injected x = {.session = j->session, .pid = HW_PID_NONE, .uid = j->uid};
    hw_log(INFO, "attached to process %d: stopped for %llu us, %u words in %u modules changed",
           j->pid.pid, (unsigned long long)j->result.pause_ns / 1000, j->result.n_changed,
           j->result.n_modules);
    if (hw_pid_open(j->pid.pid, &x.pid, NULL) < 0)
        return;                             /* it has ended */
    if (!hw_pid_is_same(&x.pid, &j->pid)) { /* and its number is another one's */
        injected_done(&x);
        return;
    }
    if (hw_permission_request_copy(&j->asking, &x.asking) < 0 || hw_vec_push(&r->injected, x) < 0) {
        injected_done(&x);
        return; /* its hooks stay, and pass everything on */
    }
    if (!j->session || j->session->stopping)
        leave(r, &r->injected.v[r->injected.n - 1]);
    else
        hw_session_called(j->session, j->pid.pid);
}

static void wait_for_its_time(struct hw_inject_job *j, uint64_t ns)
{
    j->again_ns = hw_now_monotonic_ns() + ns;
    j->state = HW_JOB_RUNNING; /* no thread does */
}

/* Another recorder last had it, and may have been killed: the client waits longer for its
 * heartbeat than its socket lives. Gives whether to check the process again. */
static bool is_held(struct hw_inject_job *j)
{
    int32_t holder;
    struct hw_error err;
    if (!j->session || j->session->stopping || !hw_pid_alive(&j->pid))
        return false;
    int rc = hw_reading_listens(j->rec->blocking_reader, hw_reading_at(&j->pid, j->uid),
                                j->result.holder, &holder);
    if (rc == 0 && j->again_ns == 0) {
        wait_for_its_time(j, GONE_NS);
        return true;
    }
    (void)hw_session_held_elsewhere(j->session, holder, HW_EBUSY, &err);
    if (!j->quietly)
        hw_session_reject(j->session, &j->pid, err.text);
    hw_session_try_again(j->session, j->pid.pid);
    return false;
}

/* A thread was in a hook just then; without the hooks it leaves it and does not come back. */
static bool is_left(struct hw_inject_job *j)
{
    if (j->command != HW_ATTACH_UNHOOK || j->rc != HW_OK || !j->result.left ||
        ++j->n_tries >= TRIES || !hw_pid_alive(&j->pid))
        return false;
    wait_for_its_time(j, LEFT_NS);
    return true;
}

/* False: try once more. */
static bool finish(struct hw_inject_job *j)
{
    if (is_left(j))
        return false;
    if (j->command == HW_ATTACH_HOOK && j->rc == HW_EBUSY && j->result.holder[0])
        return !is_held(j);
    if (j->rc == HW_ETIMEOUT && ++j->n_tries < TRIES && hw_pid_alive(&j->pid) &&
        (j->session || j->command == HW_ATTACH_UNHOOK)) {
        hw_inject_job_start(j);
        return false;
    }
    switch (j->command) {
    case HW_ATTACH_HOOK:
        if (j->rc == HW_OK)
            hooked(j);
        else if (j->session)
            failed(j->session, &j->pid, j->rc, j->quietly, j->error.text);
        break;
    case HW_ATTACH_UNHOOK:
        if (j->rc < 0 && hw_pid_alive(&j->pid) && j->rc != HW_EGONE)
            hw_log(WARN, "process %d keeps its hooks, which now only pass calls on: %s", j->pid.pid,
                   j->error.text);
        forget(j->rec, &j->pid);
        break;
    case HW_ATTACH_REFRESH:
        if (j->rc < 0 && j->session && hw_pid_alive(&j->pid))
            hw_session_warn(j->session,
                            "libraries that process %d loaded later are not profiled: %s",
                            j->pid.pid, j->error.text);
        break;
    case HW_ATTACH_NONE:
        break;
    }
    return true;
}

static void on_done(struct hw_watch *w, uint32_t events)
{
    uint64_t n;
    (void)events;
    (void)eventfd_read(w->fd, &n); /* the tick looks at the jobs */
}

/* ---- modules that came later ---- */

static uint64_t code_of(struct hw_recorder *r, struct hw_injected *x)
{
    struct hw_reading_image i;
    uint64_t h = 0;
    if (hw_reading_image(r->blocking_reader, hw_reading_at(&x->pid, x->uid), HW_READING_NO_FILES,
                         NULL, NULL, 0, &i) < 0)
        return x->code;
    for (size_t k = 0; k < i.maps.maps.n; k++)
        if ((i.maps.maps.v[k].flags & HW_MAP_EXEC) && i.maps.maps.v[k].inode)
            h += hw_hash_u64(i.maps.maps.v[k].start ^ i.maps.maps.v[k].inode << 20);
    hw_reading_image_done(&i);
    return h;
}

static void look_again(struct hw_recorder *r, struct hw_injected *x, uint64_t now)
{
    struct hw_error err;
    if (x->leaving || now - x->looked_ns < LOOK_EVERY || hw_inject_job_find(r, &x->pid) ||
        !hw_pid_alive(&x->pid))
        return;
    uint64_t before = x->code;
    x->looked_ns = now;
    x->code = code_of(r, x);
    if (before != 0 && before != x->code)
        (void)hw_inject_job_new(r, x->session, &x->asking, &x->pid, x->uid, HW_ATTACH_REFRESH,
                                &err); /* else later */
}

/* ---- for the others ---- */

int hw_inject_init(struct hw_recorder *r)
{
    r->inject_watch = (struct hw_watch){eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), on_done};
    return r->inject_watch.fd < 0 ? HW_ESYS : hw_watch_add(r, &r->inject_watch, EPOLLIN);
}

void hw_inject_hook(struct hw_session *s, const struct hw_pid *pid, bool quietly)
{
    struct hw_recorder *r = s->rec;
    struct hw_proc_status st;
    struct hw_error err;
    if (hw_inject_has(r, pid->pid) || hw_proc_status(pid->dir, &st) < 0)
        return;
    if (!r->options.library && quietly)
        return;
    if (!r->options.library) {
        hw_session_fail(
            s, pid->pid,
            "the client library was not found beside the recorder; install the tools together");
        return;
    }
    int rc = hw_permission_profile(&s->asking, pid, &st, &err);
    if (rc == HW_OK)
        rc = hw_reading_inject(r->blocking_reader, pid, st.uid, &err);
    if (rc == HW_OK)
        rc = hw_inject_job_new(r, s, &s->asking, pid, st.uid, HW_ATTACH_HOOK, &err);
    if (rc < 0)
        failed(s, pid, rc, quietly, err.text);
    else
        r->injecting.v[r->injecting.n - 1]->quietly = quietly;
}

void hw_inject_forked(struct hw_session *s, const struct hw_pid *pid)
{
    struct hw_recorder *r = s->rec;
    struct hw_proc_status st;
    struct hw_injected x = {.session = s, .pid = HW_PID_NONE};
    bool has = false;
    if (hw_proc_status(pid->dir, &st) < 0 || find_injected(r, pid))
        return;
    for (size_t i = 0; i < r->injected.n; i++)
        has |= r->injected.v[i].pid.pid == st.ppid;
    x.uid = st.uid;
    if (has && hw_pid_open(pid->pid, &x.pid, NULL) == HW_OK &&
        (!hw_pid_is_same(&x.pid, pid) || hw_permission_request_copy(&s->asking, &x.asking) < 0 ||
         hw_vec_push(&r->injected, x) < 0))
        injected_done(&x); /* its hooks stay, and pass everything on */
}

void hw_inject_execed(struct hw_recorder *r, const struct hw_pid *pid)
{
    forget(r, pid);
}

size_t hw_inject_leave(struct hw_session *s)
{
    struct hw_recorder *r = s->rec;
    size_t left = 0;
    for (size_t i = r->injected.n; i-- > 0;)
        if (r->injected.v[i].session == s)
            leave(r, &r->injected.v[i]);
    for (size_t i = 0; i < r->injected.n; i++)
        left += r->injected.v[i].session == s;
    for (size_t i = 0; i < r->injecting.n; i++)
        left += r->injecting.v[i]->session == s;
    return left;
}

void hw_inject_forget(struct hw_session *s)
{
    struct hw_recorder *r = s->rec;
    for (size_t i = 0; i < r->injecting.n; i++)
        if (r->injecting.v[i]->session == s)
            r->injecting.v[i]->session = NULL;
    for (size_t i = 0; i < r->injected.n; i++)
        if (r->injected.v[i].session == s)
            r->injected.v[i].session = NULL;
}

void hw_inject_mark_files(struct hw_recorder *r)
{
    for (size_t i = 0; i < r->injecting.n; i++)
        for (size_t k = 0; k < r->injecting.v[i]->ranges.n; k++)
            r->injecting.v[i]->ranges.v[k].file->used = true;
}

bool hw_inject_preparing(const struct hw_recorder *r)
{
    for (size_t i = 0; i < r->injecting.n; i++)
        if (!r->injecting.v[i]->running && r->injecting.v[i]->again_ns == 0)
            return true;
    return false;
}

void hw_inject_tick(struct hw_recorder *r, uint64_t now)
{
    for (size_t i = 0; i < r->injecting.n;) {
        struct hw_inject_job *j = r->injecting.v[i];
        if (!j->running && !hw_inject_job_is_done(j) && hw_inject_job_is_ready(j, now))
            hw_inject_job_start_if_place(j, now);
        if (!hw_inject_job_is_done(j)) {
            if (j->running && now > j->started_ns + HW_JOB_LATE_NS)
                give_up(j);
            i++;
            continue;
        }
        if (j->running)
            (void)pthread_join(j->thread, NULL); /* it has run its last line */
        j->running = false;
        if (!finish(j)) {
            i++;
            continue;
        }
        for (size_t k = 0; k < r->injecting.n; k++) /* finishing may have added some */
            if (r->injecting.v[k] == j) {
                r->injecting.v[k] = r->injecting.v[--r->injecting.n];
                break;
            }
        hw_inject_job_free(j);
    }
    for (size_t i = r->injected.n; i-- > 0;) {
        if (r->injected.v[i].session && !r->injected.v[i].session->stopping)
            look_again(r, &r->injected.v[i], now);
        else if (!r->injected.v[i].session)
            leave(r, &r->injected.v[i]);
    }
}

void hw_inject_done(struct hw_recorder *r)
{
    for (size_t i = 0; i < r->injecting.n; i++)
        hw_inject_job_leave(r->injecting.v[i]);
    for (size_t i = 0; i < r->injected.n; i++)
        injected_done(&r->injected.v[i]);
    hw_vec_done(&r->injecting);
    hw_vec_done(&r->injected);
    if (r->inject_watch.fd >= 0)
        (void)close(r->inject_watch.fd); /* nothing is pending on it */
}

/*
 * inject.c - processes that were not prepared: the client goes in, and its hooks out again
 *
 *   wanted ──> PREPARING ── tables of its files are there, or 1 s ──> RUNNING ──> hooked
 *              (main thread)                                     (thread of its own)   │
 *   session is over ──> PREPARING ──> RUNNING ──> not hooked        new modules: refresh
 *
 * Everything that stops the process happens on a thread of its own: ptrace belongs to a thread, and
 * a process may keep us waiting for two seconds. What is hooked shakes hands like any other client.
 *
 * One that locks its memory, or maps files that it serves itself, keeps that thread for as long as
 * it likes. So a job has its place among all only for a moment, its user's places for as long as it
 * lasts, and nobody waits for it for ever; a thread that comes back too late undoes what it did.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/arch.h"
#include "base/clock.h"
#include "base/files/fd.h"
#include "base/log.h"
#include "base/memory/map64.h"
#include "daemon/code/holder.h"
#include "daemon/core.h"
#include "daemon/policy/permission.h"
#include "inject/inject.h"

#include "base/banned.h"

#define MS          UINT64_C(1000000)
#define TABLES_WAIT (1000 * MS)
#define LOOK_EVERY  (200 * MS) /* for modules that came later */
#define TRIES       3
#define GONE_NS     (2200 * MS) /* the client believes a recorder dead after 2 s */
#define MAX_RUNNING 16u         /* at a time: --all means hundreds */
#define MAX_OF_USER 8u          /* of these; late ones count */
#define MAX_LATE    64u
#define PLACE_NS    (2000 * MS) /* most take milliseconds */
#define LATE_NS     (5000 * MS) /* then nobody waits for it */
#define LEAVE_STEP  (1000000)   /* ns */

/* Of its thread. Who finds LEFT frees the job; while it asks, what it asks must stay. */
enum job_state { RUNNING, ASKING, DONE, LEFT };

struct hw_inject_job {
    struct hw_recorder *rec;    /* the main thread's only: the job may outlive it */
    char *library;              /* owned */
    int done_fd;                /* owned; rung when it is done */
    struct hw_session *session; /* NULL: it is over */
    struct hw_asking asking;    /* whose; its own, for its thread */
    struct hw_pid pid;          /* owned */
    uint32_t uid;
    bool quietly; /* a refusal is not told */
    enum hw_attach_command command;
    char socket[108]; /* where it finds us */
    uint32_t generation, n_tries;
    uint64_t again_ns; /* not before; 0 = at once */
    struct hw_tables tables;
    HW_VEC(struct hw_table_range) ranges;
    uint64_t since_ns, started_ns;
    pthread_t thread;
    bool running, given_up;
    _Atomic int state; /* enum job_state */
    int rc;
    struct hw_inject_result result;
    struct hw_error error;
};

static bool same(const struct hw_pid *a, const struct hw_pid *b)
{
    return a->pid == b->pid && a->start_ticks == b->start_ticks;
}

static struct hw_injected *find_injected(struct hw_recorder *r, const struct hw_pid *pid)
{
    for (size_t i = 0; i < r->injected.n; i++)
        if (same(&r->injected.v[i].pid, pid))
            return &r->injected.v[i];
    return NULL;
}

static struct hw_inject_job *find_job(const struct hw_recorder *r, const struct hw_pid *pid)
{
    for (size_t i = 0; i < r->injecting.n; i++)
        if (same(&r->injecting.v[i]->pid, pid))
            return r->injecting.v[i];
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

/* ---- one job ---- */

static void job_free(struct hw_inject_job *j)
{
    hw_pid_done(&j->pid);
    hw_asking_done(&j->asking);
    hw_tables_done(&j->tables);
    hw_vec_done(&j->ranges);
    if (j->done_fd >= 0)
        (void)close(j->done_fd); /* nothing is pending on it */
    free(j->library);
    free(j);
}

static bool change(struct hw_inject_job *j, int from, int to)
{
    /* Acquire and release: what the other one wrote before its change is seen after ours. */
    return atomic_compare_exchange_strong_explicit(&j->state, &from, to, memory_order_acq_rel,
                                                   memory_order_acquire);
}

static bool is_done(const struct hw_inject_job *j)
{
    return atomic_load_explicit(&j->state, memory_order_acquire) == DONE;
}

/* Asked on the thread that stands: what was permitted before may execute another program by now. */
static int may(void *arg, const struct hw_pid *thread, struct hw_error *err)
{
    struct hw_inject_job *j = arg;
    struct hw_proc_status st;
    if (hw_proc_status(thread->dir, &st) < 0)
        return hw_fail(err, HW_EGONE, 0, "process %d has ended", thread->pid);
    if (!change(j, RUNNING, ASKING))
        return hw_fail(err, HW_EGONE, 0, "the recorder has ended");
    int rc = hw_permission_profile(&j->asking, thread, &st, err);
    (void)change(j, ASKING, RUNNING); /* nobody else changes that */
    return rc;
}

static void *job_run(void *arg)
{
    struct hw_inject_job *j = arg;
    struct hw_inject_request q = {.pid = &j->pid,
                                  .library = j->library,
                                  .command = j->command,
                                  .socket_path = j->socket,
                                  .generation = j->generation,
                                  .tables = j->tables.map,
                                  .may = may,
                                  .arg = j};
    hw_autofd int fd = fcntl(j->done_fd, F_DUPFD_CLOEXEC, 3);
    j->rc = hw_inject(&q, &j->result, &j->error);
    if (!change(j, RUNNING, DONE))
        job_free(j);
    else
        (void)eventfd_write(fd, 1); /* the tick would find it, too */
    return NULL;
}

/* Maps and files, so that stacks can be walked. */
static int look(struct hw_inject_job *j)
{
    struct hw_recorder *r = j->rec;
    struct hw_reading_image i;
    int rc = hw_reading_image(r->looker, hw_reading_at(&j->pid, j->uid), HW_READING_ALL_FILES, NULL,
                              NULL, 0, &i);
    if (rc < 0)
        return rc; /* then there is no image */
    for (size_t k = 0; rc == HW_OK && k < i.n_files; k++) {
        struct hw_reading_file *f = &i.files[k];
        const struct hw_map *m = &i.maps.maps.v[f->map];
        struct hw_module_file *file;
        int fd = f->fd;
        f->fd = -1;
        if (hw_modules_get(r->modules, fd, &f->facts, m->path, &file) < 0)
            continue;
        hw_modules_want_table(r->modules, file);
        if (hw_vec_push(&j->ranges,
                        (struct hw_table_range){m->start, m->end,
                                                m->start - m->offset - file->load_bias, file}) < 0)
            rc = HW_ENOMEM;
    }
    hw_reading_image_done(&i);
    return rc;
}

static int job_new(struct hw_recorder *r, struct hw_session *s, const struct hw_asking *asking,
                   const struct hw_pid *pid, uint32_t uid, enum hw_attach_command command,
                   struct hw_error *err)
{
    struct hw_namespace_socket *door = NULL;
    struct hw_inject_job *j = calloc(1, sizeof *j);
    if (!j)
        return hw_fail(err, HW_ENOMEM, 0, "attach");
    *j = (struct hw_inject_job){.rec = r,
                                .session = s,
                                .pid = HW_PID_NONE,
                                .uid = uid,
                                .command = command,
                                .tables = {.fd = -1},
                                .done_fd = fcntl(r->inject_watch.fd, F_DUPFD_CLOEXEC, 3),
                                .library = strdup(r->options.library),
                                .since_ns = hw_now_monotonic_ns()};
    j->generation = ++r->next_generation + 0x40000000u; /* as in attach.c */
    int rc = j->library ? hw_asking_copy(asking, &j->asking) : HW_ENOMEM;
    if (rc < 0)
        rc = hw_fail(err, rc, 0, "attach:");
    else if (j->done_fd < 0)
        rc = hw_fail_sys(err, "attach");
    else
        rc = hw_pid_open(pid->pid, &j->pid, err);
    if (rc == HW_OK && !same(&j->pid, pid))
        rc = hw_fail(err, HW_EGONE, 0, "process %d has ended", pid->pid);
    if (rc == HW_OK && command == HW_ATTACH_HOOK)
        rc = hw_namespace_socket_for(r, &j->pid, &door, err);
    (void)snprintf(j->socket, sizeof j->socket, "%s", hw_namespace_socket_name(r, door));
    if (rc == HW_OK && hw_tables_init(&j->tables, HW_ARCH_HERE, 0) < 0)
        rc = hw_fail_sys(err, "memory files");
    if (rc == HW_OK && (rc = look(j)) < 0)
        rc = hw_fail(err, rc, 0, "its mappings: %s", hw_errc_text(rc));
    if (rc == HW_OK && hw_vec_push(&r->injecting, j) < 0)
        rc = hw_fail(err, HW_ENOMEM, 0, "attach");
    if (rc < 0)
        job_free(j);
    return rc;
}

static bool is_ready(const struct hw_inject_job *j, uint64_t now)
{
    if (now < j->again_ns)
        return false;
    if (now - j->since_ns > TABLES_WAIT)
        return true;
    for (size_t i = 0; i < j->ranges.n; i++) {
        enum hw_table_state s = j->ranges.v[i].file->table_state;
        if (s == HW_TABLE_COMPILING || s == HW_TABLE_WANTED)
            return false;
    }
    return true;
}

static void job_start(struct hw_inject_job *j)
{
    sigset_t all, old;
    sigfillset(&all);
    (void)hw_tables_publish(&j->tables, j->ranges.v, j->ranges.n); /* else its own frame decides */
    (void)pthread_sigmask(SIG_BLOCK, &all, &old); /* cannot fail with these arguments */
    j->started_ns = hw_now_monotonic_ns();
    j->state = RUNNING;
    j->running = pthread_create(&j->thread, NULL, job_run, j) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!j->running) {
        j->rc = hw_fail(&j->error, HW_ENOMEM, 0, "cannot start a thread to attach to it");
        j->state = DONE;
    }
}

struct places {
    size_t all, late, of_user, late_of_user;
};

static struct places places_for(const struct hw_recorder *r, uint32_t uid, uint64_t now)
{
    struct places p = {0};
    for (size_t i = 0; i < r->injecting.n; i++) {
        const struct hw_inject_job *j = r->injecting.v[i];
        bool late = now - j->started_ns > PLACE_NS;
        if (!j->running)
            continue;
        p.all += !late;
        p.late += late;
        p.of_user += j->uid == uid;
        p.late_of_user += late && j->uid == uid;
    }
    return p;
}

/* When there is a place for it; without hope of one it is done. */
static void start_if_place(struct hw_inject_job *j, uint64_t now)
{
    struct places p = places_for(j->rec, j->uid, now);
    bool can_wait = j->command == HW_ATTACH_UNHOOK; /* it is worth it */
    if (!can_wait && (p.late_of_user >= MAX_OF_USER || p.late >= MAX_LATE)) {
        j->rc = hw_fail(&j->error, HW_EBUSY, 0,
                        "process %d is not attached to: too many earlier ones do not respond; try "
                        "again when they have ended or run on",
                        j->pid.pid);
        j->state = DONE;
    } else if (p.all < MAX_RUNNING && p.late < MAX_LATE &&
               (j->uid == 0 || p.of_user < MAX_OF_USER)) {
        job_start(j);
    }
}

/* ---- results of a job ---- */

/* One that has started meanwhile and is over already: nobody waits for it. */
static bool is_short_lived(const struct hw_session *s, const struct hw_pid *pid)
{
    return hw_session_is_later(s, pid) && !hw_pid_alive(pid);
}

/* Who is busy may be free later, for who looks again; all else will not change. Quietly: only
 * remembered. */
static void failed(struct hw_session *s, const struct hw_pid *pid, int rc, bool quietly,
                   const char *text)
{
    if (rc == HW_EBUSY && (quietly || s->start.flags & HW_START_RESCAN)) {
        hw_session_try_again(s, pid->pid);
        return;
    }
    if (!quietly && !is_short_lived(s, pid))
        hw_session_fail(s, pid->pid, text);
    else
        (void)hw_session_remember_refused(s, pid->pid); /* without it, it is tried again */
}

/* Nobody waits for it any more. When it comes back after all, what it did is undone. */
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
    hw_asking_done(&x->asking);
}

static void leave(struct hw_recorder *r, struct hw_injected *x)
{
    struct hw_proc_status st;
    struct hw_error err;
    if (x->leaving)
        return;
    x->leaving = true;
    if (hw_pid_alive(&x->pid) && hw_proc_status(x->pid.dir, &st) == HW_OK &&
        job_new(r, NULL, &x->asking, &x->pid, st.uid, HW_ATTACH_UNHOOK, &err) == HW_OK)
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
        return;                   /* it has ended */
    if (!same(&x.pid, &j->pid)) { /* and its number is another one's */
        injected_done(&x);
        return;
    }
    if (hw_asking_copy(&j->asking, &x.asking) < 0 || hw_vec_push(&r->injected, x) < 0) {
        injected_done(&x);
        return; /* its hooks stay, and pass everything on */
    }
    if (!j->session || j->session->stopping)
        leave(r, &r->injected.v[r->injected.n - 1]);
    else
        hw_session_called(j->session, j->pid.pid);
}

/* Another recorder had it last, which a crash has ended perhaps: the client waits for its heart
 * longer than its socket lasts. Gives whether the process is looked at again. */
static bool is_held(struct hw_inject_job *j)
{
    int32_t holder;
    struct hw_error err;
    if (!j->session || j->session->stopping || !hw_pid_alive(&j->pid))
        return false;
    int rc = hw_reading_listens(j->rec->looker, hw_reading_at(&j->pid, j->uid), j->result.holder,
                                &holder);
    if (rc == 0 && j->again_ns == 0) {
        j->again_ns = hw_now_monotonic_ns() + GONE_NS;
        j->state = RUNNING; /* no thread does; it waits for its time */
        return true;
    }
    (void)hw_session_held_elsewhere(j->session, holder, HW_EBUSY, &err);
    if (!j->quietly)
        hw_session_reject(j->session, &j->pid, err.text);
    hw_session_try_again(j->session, j->pid.pid);
    return false;
}

/* False: it is tried once more. */
static bool finish(struct hw_inject_job *j)
{
    if (j->command == HW_ATTACH_HOOK && j->rc == HW_EBUSY && j->result.holder[0])
        return !is_held(j);
    if (j->rc == HW_ETIMEOUT && ++j->n_tries < TRIES && hw_pid_alive(&j->pid) &&
        (j->session || j->command == HW_ATTACH_UNHOOK)) {
        job_start(j);
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
    if (hw_reading_image(r->looker, hw_reading_at(&x->pid, x->uid), HW_READING_NO_FILES, NULL, NULL,
                         0, &i) < 0)
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
    if (x->leaving || now - x->looked_ns < LOOK_EVERY || find_job(r, &x->pid) ||
        !hw_pid_alive(&x->pid))
        return;
    uint64_t before = x->code;
    x->looked_ns = now;
    x->code = code_of(r, x);
    if (before != 0 && before != x->code)
        (void)job_new(r, x->session, &x->asking, &x->pid, x->uid, HW_ATTACH_REFRESH,
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
        rc = hw_reading_inject(r->looker, pid, st.uid, &err);
    if (rc == HW_OK)
        rc = job_new(r, s, &s->asking, pid, st.uid, HW_ATTACH_HOOK, &err);
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
        (!same(&x.pid, pid) || hw_asking_copy(&s->asking, &x.asking) < 0 ||
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
        if (!j->running && !is_done(j) && is_ready(j, now))
            start_if_place(j, now);
        if (!is_done(j)) {
            if (j->running && now > j->started_ns + LATE_NS)
                give_up(j);
            i++;
            continue;
        }
        if (j->running)
            (void)pthread_join(j->thread, NULL); /* it is past its last line */
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
        job_free(j);
    }
    for (size_t i = r->injected.n; i-- > 0;) {
        if (r->injected.v[i].session && !r->injected.v[i].session->stopping)
            look_again(r, &r->injected.v[i], now);
        else if (!r->injected.v[i].session)
            leave(r, &r->injected.v[i]);
    }
}

/* Waits for its thread, but not for ever: then the job is the thread's, which ends with the process
 * at the latest. */
static void leave_job(struct hw_inject_job *j)
{
    struct timespec step = {0, LEAVE_STEP};
    uint64_t last = j->started_ns + LATE_NS;
    while (j->running && !is_done(j)) {
        uint64_t now = hw_now_monotonic_ns();
        if (now > last && (change(j, RUNNING, LEFT) || now > last + LATE_NS)) {
            (void)pthread_detach(j->thread); /* it is joinable */
            return;
        }
        (void)nanosleep(&step, NULL); /* a signal only shortens it */
    }
    if (j->running)
        (void)pthread_join(j->thread, NULL); /* it is past its last line */
    job_free(j);
}

void hw_inject_done(struct hw_recorder *r)
{
    for (size_t i = 0; i < r->injecting.n; i++)
        leave_job(r->injecting.v[i]);
    for (size_t i = 0; i < r->injected.n; i++)
        injected_done(&r->injected.v[i]);
    hw_vec_done(&r->injecting);
    hw_vec_done(&r->injected);
    if (r->inject_watch.fd >= 0)
        (void)close(r->inject_watch.fd); /* nothing is pending on it */
}

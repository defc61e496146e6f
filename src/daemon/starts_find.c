/*
 * starts_find.c - which of the programs that start are meant, and the client put into them
 *
 *   question (exec of FILE by TID) ── argv[0] of its execve, or FILE's #! line ──> not meant:
 * answer │ meant seize TID (stops at the end of its execve), answer ──> stopped ──> name,
 * permission └──> variables onto its stack (inject/start.h) ──> let go
 *
 * The rest is for what nobody held (file systems that are not marked, no privilege, a program that
 * takes no library) and for names that come later: exec and comm events of the process connector,
 * and a look through /proc now and then, since a title written over the arguments makes no event.
 * Those are told to the recorder, which attaches.
 *
 * Reading arguments is reading memory of a process, which may keep us waiting: the time limit ends
 * this process then, the kernel lets its tracees go on, and the next one skips that process.
 */
#include "daemon/starts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/cn_proc.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/map64.h"
#include "base/vec.h"
#include "config/config.h"
#include "daemon/names.h"
#include "daemon/permission.h"
#include "inject/start.h"
#include "proc/number.h"
#include "proc/pid.h"

#include "base/banned.h"

#define MS         UINT64_C(1000000)
#define ROUND_MS   500u        /* a round of work that takes longer does not come back */
#define LOOK_NS    (3 * MS)    /* for one that has asked and does not wait yet */
#define HELD_NS    (200 * MS)  /* an execve that has not ended by then is let go */
#define SCAN_REST  60          /* times the time that a look through /proc took, */
#define SCAN_FAST  (25 * MS)   /* and at least, when nobody tells of programs that start */
#define SCAN_SLOW  (1000 * MS) /* or when it is for titles only */
#define COMM_BYTES 64u

struct rule {
    uint64_t session;
    uint32_t uid;
    bool all;
    struct hw_asking asking;
    char *text; /* owned: names */
    HW_VEC(const char *) names;
};

struct held {
    int32_t tid;
    uint64_t until_ns;
    bool interrupted;
};

struct finder {
    const struct hw_starts_setup *setup;
    struct hw_starts_shared *shared;
    int recorder, answerer, events, children; /* -1 = none */
    bool holds;
    HW_VEC(struct rule) rules;
    HW_VEC(struct held) held;
    HW_VEC(int32_t) followed;
    struct hw_map64 seen; /* pid → hash of its names */
    bool has_seen;
    uint64_t next_scan_ns;
};

/* ---- what the recorder is told ---- */

static void tell(struct finder *f, uint32_t type, uint32_t flags, int32_t pid, const char *text)
{
    struct hw_starts_message m = {.type = type, .flags = flags, .pid = pid};
    (void)snprintf(m.text, sizeof m.text, "%s", text ? text : ""); /* a cut reason is still one */
    if (send(f->recorder, &m, sizeof m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno != EAGAIN)
        _exit(0); /* full: it is stopped; a look through /proc tells later */
}

/* ---- rules ---- */

static void rule_done(struct rule *r)
{
    hw_asking_done(&r->asking);
    hw_vec_done(&r->names);
    free(r->text);
}

static void drop_rule(struct finder *f, uint64_t session)
{
    for (size_t i = 0; i < f->rules.n; i++)
        if (f->rules.v[i].session == session) {
            rule_done(&f->rules.v[i]);
            f->rules.v[i] = f->rules.v[--f->rules.n];
            return;
        }
}

static void add_rule(struct finder *f, const struct hw_starts_message *m, const char *names,
                     size_t n)
{
    struct rule r = {.session = m->session, .uid = m->uid, .all = m->flags & HW_RULE_ALL};
    r.text = malloc(n + 1);
    if (!r.text)
        _exit(1);
    memcpy(r.text, names, n);
    r.text[n] = '\0';
    for (char *p = r.text; p < r.text + n; p += strlen(p) + 1)
        if (hw_vec_push(&r.names, (const char *)p) < 0)
            _exit(1);
    hw_asking_init(&r.asking, m->uid, m->pid, /* launched = */ false, f->setup->policy);
    drop_rule(f, r.session);
    if (hw_vec_push(&f->rules, r) < 0)
        _exit(1);
}

static bool is_followed(const struct finder *f, int32_t pid)
{
    for (size_t i = 0; i < f->followed.n; i++)
        if (f->followed.v[i] == pid)
            return true;
    return false;
}

/* ---- a process by what it says of itself ---- */

struct person {
    int dir; /* /proc/PID */
    struct hw_proc_status status;
    char *cmdline; /* owned */
    size_t n;
    char exe[256];
};

static void person_done(struct person *p)
{
    if (p->dir >= 0)
        (void)close(p->dir);
    free(p->cmdline);
}

static bool person_read(struct finder *f, int32_t pid, struct person *p)
{
    *p = (struct person){.dir = -1};
    if (hw_starts_is_skipped(f->shared, pid))
        return false;
    p->dir = hw_proc_open_dir(pid);
    f->shared->finder_at = pid;
    bool good = p->dir >= 0 && hw_proc_cmdline(p->dir, &p->cmdline, &p->n) == HW_OK && p->n > 0 &&
                hw_proc_status(p->dir, &p->status) == HW_OK;
    f->shared->finder_at = 0;
    if (good)
        hw_proc_exe_name(p->dir, p->exe, sizeof p->exe);
    else
        person_done(p);
    return good;
}

static bool rule_means(const struct rule *r, const struct person *p)
{
    bool meant = r->all;
    if (r->uid != 0 && r->uid != p->status.uid)
        return false;
    for (size_t i = 0; !meant && i < r->names.n; i++)
        meant = hw_name_is_meant(r->names.v[i], p->cmdline, p->n, p->status.name, p->exe);
    return meant;
}

static bool is_meant(const struct finder *f, const struct person *p)
{
    for (size_t i = 0; i < f->rules.n; i++)
        if (rule_means(&f->rules.v[i], p))
            return true;
    return is_followed(f, p->status.ppid) || is_followed(f, p->status.tgid);
}

/* ---- at the exec: the answerer has looked at its arguments ---- */

static bool judges_names(const struct finder *f)
{
    for (size_t i = 0; i < f->rules.n; i++)
        if (f->rules.v[i].all)
            return false;
    return f->followed.n == 0;
}

static void publish_names(struct finder *f)
{
    struct hw_starts_shared *s = f->shared;
    uint32_t version = atomic_load_explicit(&s->version, memory_order_relaxed);
    atomic_store_explicit(&s->version, version + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    s->n_bytes = 0;
    s->ask_always = !judges_names(f);
    for (size_t i = 0; i < f->rules.n; i++)
        for (size_t k = 0; k < f->rules.v[i].names.n; k++) {
            size_t n = strlen(f->rules.v[i].names.v[k]) + 1;
            if (n > sizeof s->names - s->n_bytes) { /* of several sessions together */
                s->ask_always = true;
                continue;
            }
            memcpy(s->names + s->n_bytes, f->rules.v[i].names.v[k], n);
            s->n_bytes += (uint32_t)n;
        }
    atomic_store_explicit(&s->version, version + 2, memory_order_release);
}

static bool is_held(const struct finder *f, int32_t tid)
{
    for (size_t i = 0; i < f->held.n; i++)
        if (f->held.v[i].tid == tid)
            return true;
    return false;
}

static bool belongs_to_followed(const struct finder *f, int32_t tid)
{
    struct hw_proc_status st;
    hw_autofd int dir = f->followed.n ? hw_proc_open_dir(tid) : -1;
    if (dir < 0 || hw_proc_status(dir, &st) < 0)
        return false;
    return is_followed(f, st.tgid) || is_followed(f, st.ppid);
}

/* A script's interpreter is not asked for here: it is found when it runs. */
static bool has_wanted_name(const struct finder *f, int32_t tid)
{
    char name[512];
    int rc = hw_starts_read_argv0(f->shared, &f->shared->finder_at, tid,
                                  hw_now_monotonic_ns() + LOOK_NS, name, sizeof name);
    if (rc != 1)
        return rc == HW_EBUSY; /* it is known at the end of its execve */
    for (size_t i = 0; i < f->rules.n; i++)
        for (size_t k = 0; k < f->rules.v[i].names.n; k++)
            if (hw_config_name_matches(f->rules.v[i].names.v[k], name))
                return true;
    return false;
}

static void hold(struct finder *f, int32_t tid)
{
    if (ptrace(PTRACE_SEIZE, tid, NULL, (void *)(uintptr_t)PTRACE_O_TRACEEXEC) < 0)
        return; /* somebody else's: it is looked at once it runs */
    if (hw_vec_push(&f->held, ((struct held){tid, hw_now_monotonic_ns() + HELD_NS, false})) < 0)
        _exit(1); /* which lets it go */
}

/* A user's rules are about his own processes. */
static bool of_interest(const struct finder *f, int dir)
{
    struct stat st;
    if (f->rules.n == 0 || fstat(dir, &st) < 0)
        return false;
    for (size_t i = 0; i < f->rules.n; i++)
        if (f->rules.v[i].uid == 0 || f->rules.v[i].uid == st.st_uid)
            return true;
    return false;
}

/* What the answerer could not decide by the name. */
static bool may_be_meant(struct finder *f, int32_t tid)
{
    hw_autofd int dir = hw_proc_open_dir(tid);
    if (dir < 0 || !of_interest(f, dir))
        return false;
    for (size_t i = 0; i < f->rules.n; i++)
        if (f->rules.v[i].all)
            return true;
    return !f->shared->ask_always || belongs_to_followed(f, tid) || has_wanted_name(f, tid);
}

static void on_questions(struct finder *f)
{
    struct hw_starts_question q;
    ssize_t n;
    while ((n = recv(f->answerer, &q, sizeof q, MSG_DONTWAIT)) == sizeof q) {
        if (f->setup->library && !is_held(f, q.tid) && may_be_meant(f, q.tid))
            hold(f, q.tid);
        struct hw_starts_answer a = {.number = q.number};
        (void)send(f->answerer, &a, sizeof a, MSG_NOSIGNAL | MSG_DONTWAIT); /* else 20 ms */
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    (void)close(f->answerer); /* it is gone: the guard ends us, or there is none */
    f->answerer = -1;
}

/* ---- at the end of the execve ---- */

/* HW_EPERM without a text: not meant. */
static int place(struct finder *f, const struct hw_pid *pid, struct hw_error *err)
{
    struct person p;
    struct hw_start_request q = {pid, f->setup->library, f->setup->socket_path};
    int rc = HW_EPERM;
    err->text[0] = '\0';
    if (!person_read(f, pid->pid, &p))
        return HW_EGONE;
    for (size_t i = 0; rc == HW_EPERM && i < f->rules.n; i++)
        if (rule_means(&f->rules.v[i], &p) || is_followed(f, p.status.ppid) ||
            is_followed(f, pid->pid))
            rc = hw_permission_profile(&f->rules.v[i].asking, pid, &p.status, err);
    if (rc == HW_OK)
        rc = hw_start_place(&q, err);
    person_done(&p);
    return rc;
}

static void on_exec(struct finder *f, int32_t pid)
{
    struct hw_pid p;
    struct hw_error err = {0};
    int rc = hw_pid_open(pid, &p, &err);
    if (rc == HW_OK) {
        rc = place(f, &p, &err);
        hw_pid_done(&p);
    }
    (void)ptrace(PTRACE_DETACH, pid, NULL, NULL); /* fails when it has been killed */
    if (rc == HW_EUNSUPPORTED || rc == HW_ESYS)   /* it may be attached to */
        tell(f, HW_STARTS_FOUND, 0, pid, err.text);
}

static void forget_held(struct finder *f, size_t i)
{
    f->held.v[i] = f->held.v[--f->held.n];
}

static void look_at(struct finder *f, int32_t pid, uint32_t flags)
{
    struct person p;
    if (!person_read(f, pid, &p))
        return;
    if (p.status.tgid == pid && is_meant(f, &p))
        tell(f, HW_STARTS_FOUND, flags, pid, NULL);
    person_done(&p);
}

static void on_stop(struct finder *f, int32_t pid, int status)
{
    unsigned long former = (unsigned long)pid;
    int event = status >> 16, sig = WSTOPSIG(status);
    if (event == PTRACE_EVENT_EXEC)
        (void)ptrace(PTRACE_GETEVENTMSG, pid, NULL, &former); /* its thread's own number before */
    for (size_t i = 0; i < f->held.n; i++) {
        struct held *h = &f->held.v[i];
        if (h->tid != (int32_t)former && h->tid != pid)
            continue;
        if (event == PTRACE_EVENT_EXEC) {
            forget_held(f, i);
            on_exec(f, pid);
        } else if (h->interrupted) { /* its execve failed, or was over when it was seized */
            forget_held(f, i);
            (void)ptrace(PTRACE_DETACH, pid, NULL,
                         (void *)(uintptr_t)(event == PTRACE_EVENT_STOP ? 0 : sig));
            look_at(f, pid, 0);
        } else if (event == PTRACE_EVENT_STOP) { /* a group's stop, or its end */
            (void)ptrace(sig == SIGTRAP ? PTRACE_CONT : PTRACE_LISTEN, pid, NULL, NULL);
        } else {
            (void)ptrace(PTRACE_CONT, pid, NULL, (void *)(uintptr_t)sig);
        }
        return;
    }
    (void)ptrace(PTRACE_DETACH, pid, NULL, NULL); /* none that we know */
}

static void on_children(struct finder *f)
{
    struct signalfd_siginfo si[8];
    int status;
    pid_t pid;
    (void)!read(f->children, si, sizeof si); /* only wakes us */
    while ((pid = waitpid(-1, &status, __WALL | WNOHANG)) > 0) {
        if (WIFSTOPPED(status)) {
            on_stop(f, pid, status);
            continue;
        }
        for (size_t i = 0; i < f->held.n; i++)
            if (f->held.v[i].tid == pid) {
                forget_held(f, i);
                break;
            }
    }
}

static void let_go_of_old(struct finder *f, uint64_t now)
{
    for (size_t i = 0; i < f->held.n;) {
        struct held *h = &f->held.v[i];
        if (now < h->until_ns) {
            i++;
        } else if (!h->interrupted && ptrace(PTRACE_INTERRUPT, h->tid, NULL, NULL) == 0) {
            h->interrupted = true;
            h->until_ns = now + HELD_NS;
            i++;
        } else if (h->interrupted) {
            h->until_ns = now + HELD_NS; /* in the kernel still: it stops when it comes back */
            i++;
        } else {
            forget_held(f, i); /* it has ended */
        }
    }
}

/* ---- what nobody held ---- */

static void on_event(struct finder *f, const struct proc_event *e)
{
    switch ((int)e->what) {
    case PROC_EVENT_EXEC:
        look_at(f, e->event_data.exec.process_tgid, 0);
        break;
    case PROC_EVENT_COMM:
        if (e->event_data.comm.process_pid == e->event_data.comm.process_tgid)
            look_at(f, e->event_data.comm.process_tgid, HW_STARTS_RENAMED);
        break;
    default:
        break;
    }
}

static void on_events(struct finder *f)
{
    struct proc_event e;
    int rc;
    while ((rc = hw_starts_next_event(f->events, &e)) == HW_OK || rc == HW_EBUSY ||
           rc == HW_ELIMIT) {
        if (rc == HW_OK)
            on_event(f, &e);
        else if (rc == HW_ELIMIT) /* some were lost: /proc has them */
            f->next_scan_ns = 0;
    }
}

/* Arguments and short name, without the rest: few have changed since the last time. */
static bool hash_names(struct finder *f, int32_t pid, int dir, uint64_t *out)
{
    hw_autofree char *cmdline = NULL, *comm = NULL;
    size_t n, n_comm;
    if (hw_starts_is_skipped(f->shared, pid))
        return false;
    f->shared->finder_at = pid;
    bool good = hw_proc_cmdline(dir, &cmdline, &n) == HW_OK && n > 0;
    f->shared->finder_at = 0;
    if (!good || hw_file_read(dir, "comm", COMM_BYTES, &comm, &n_comm, NULL) < 0)
        return false;
    *out = hw_hash_mix(hw_hash_bytes(cmdline, n), hw_hash_bytes(comm, n_comm));
    return true;
}

static void scan_one(struct finder *f, int32_t pid, struct hw_map64 *now_seen)
{
    struct person p;
    uint64_t before, hash;
    hw_autofd int dir = hw_proc_open_dir(pid);
    if (dir < 0 || !of_interest(f, dir) || !hash_names(f, pid, dir, &hash))
        return;
    bool known = hw_map64_get(&f->seen, (uint64_t)pid, &before);
    (void)hw_map64_put(now_seen, (uint64_t)pid, hash); /* else told again */
    if (!f->has_seen || (known && before == hash) || !person_read(f, pid, &p))
        return;
    if (is_meant(f, &p))
        tell(f, HW_STARTS_FOUND, known ? HW_STARTS_RENAMED : 0, pid, NULL);
    person_done(&p);
}

static void scan(struct finder *f, uint64_t now)
{
    hw_pid_list all = {0};
    struct hw_map64 seen = {0};
    (void)hw_proc_list(&all); /* what was found before a failure is still right */
    for (size_t i = 0; i < all.n; i++) {
        hw_starts_limit(ROUND_MS);
        scan_one(f, all.v[i], &seen);
    }
    hw_vec_done(&all);
    hw_map64_done(&f->seen);
    f->seen = seen;
    f->has_seen = true;
    uint64_t took = hw_now_monotonic_ns() - now;
    uint64_t least = f->holds || f->events >= 0 ? SCAN_SLOW : SCAN_FAST;
    f->next_scan_ns = now + took + (took * SCAN_REST > least ? took * SCAN_REST : least);
}

/* ---- the recorder ---- */

static void on_recorder(struct finder *f)
{
    static char buffer[HW_STARTS_BYTES];
    struct hw_starts_message m;
    ssize_t n;
    while ((n = recv(f->recorder, buffer, sizeof buffer, MSG_DONTWAIT)) >= (ssize_t)sizeof m) {
        memcpy(&m, buffer, sizeof m);
        if (m.type == HW_STARTS_RULE) {
            add_rule(f, &m, buffer + sizeof m, (size_t)n - sizeof m);
            publish_names(f);
            if (!f->has_seen)
                scan(f, hw_now_monotonic_ns()); /* who is there now is the recorder's to find */
            tell(f, HW_STARTS_RULED, 0, 0, NULL);
        } else if (m.type == HW_STARTS_DROP) {
            drop_rule(f, m.session);
            if (f->rules.n == 0)
                hw_vec_clear(&f->followed);
            publish_names(f);
        } else if (m.type == HW_STARTS_FOLLOW && !is_followed(f, m.pid)) {
            (void)hw_vec_push(&f->followed, m.pid); /* else only its forks are followed */
            publish_names(f);
        }
    }
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        _exit(0);
}

/* The answerer says what it can do; without one nothing comes. */
static void hear_answerer(struct finder *f)
{
    struct hw_starts_hello h = {.error = EPERM};
    struct pollfd p = {.fd = f->answerer, .events = POLLIN};
    if (poll(&p, 1, 1000) > 0 && recv(f->answerer, &h, sizeof h, 0) == sizeof h)
        f->holds = h.error == 0;
    if (f->holds)
        return;
    (void)close(f->answerer);
    f->answerer = -1;
}

static int wait_ms(const struct finder *f, uint64_t now)
{
    uint64_t next = f->has_seen ? f->next_scan_ns : UINT64_MAX;
    for (size_t i = 0; i < f->held.n; i++)
        next = f->held.v[i].until_ns < next ? f->held.v[i].until_ns : next;
    if (next == UINT64_MAX)
        return -1;
    return next <= now ? 0 : (int)((next - now) / MS) + 1;
}

_Noreturn void hw_starts_find(const struct hw_starts_setup *s, struct hw_starts_shared *shared,
                              int recorder, int answerer)
{
    static struct finder f;
    sigset_t chld;
    (void)prctl(PR_SET_NAME, "heapprofd-find");
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    struct sigaction dfl = {.sa_handler = SIG_DFL};
    (void)sigaction(SIGCHLD, &dfl, NULL);
    (void)sigprocmask(SIG_SETMASK, &chld, NULL);
    f.setup = s;
    f.shared = shared;
    f.recorder = recorder;
    f.answerer = answerer;
    f.children = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
    (void)setpriority(PRIO_PROCESS, 0, -10); /* an offer: a program waits for us */
    hw_starts_limit_init();
    hear_answerer(&f);
    f.events = hw_starts_listen(/* execs = */ !f.holds);
    tell(&f, HW_STARTS_READY,
         (f.holds ? HW_STARTS_HOLDS : 0) | (f.events >= 0 ? HW_STARTS_HEARS : 0), 0, NULL);
    for (;;) {
        struct pollfd p[] = {{.fd = f.answerer, .events = POLLIN},
                             {.fd = f.children, .events = POLLIN},
                             {.fd = f.recorder, .events = POLLIN},
                             {.fd = f.events, .events = POLLIN}};
        int ms = wait_ms(&f, hw_now_monotonic_ns());
        ms = ms < 0 || ms > HW_STARTS_BEAT_MS ? HW_STARTS_BEAT_MS : ms;
        hw_starts_limit(HW_STARTS_STANDS_MS); /* stopped with the guard: as in starts_answer.c */
        (void)poll(p, 4, ms);                 /* a signal only shortens it */
        hw_starts_limit(ROUND_MS);
        if (p[0].revents)
            on_questions(&f);
        if (p[1].revents)
            on_children(&f);
        if (p[2].revents)
            on_recorder(&f);
        if (p[3].revents)
            on_events(&f);
        uint64_t now = hw_now_monotonic_ns();
        let_go_of_old(&f, now);
        if (f.has_seen && now >= f.next_scan_ns)
            scan(&f, now);
    }
}

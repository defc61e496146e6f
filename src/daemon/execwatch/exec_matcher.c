/*
 * exec_matcher.c - decides which starting programs are meant, and puts the client into them
 *
 *   question (exec of FILE by TID)
 *     -> name, group, role and user of what will run, policy, FILE: not meant, not possible: answer
 *     -> meant: TID is seized (it stops at the end of its execve), answer
 *          -> stopped: all of that once more, of what runs now
 *               -> variables onto its stack (inject/inject_at_exec.h) -> released
 *     -> its file or root is not known: a reader finds out (exec_files.h), as the next
 *     -> its call cannot be read yet: until shortly before the answerer's time is over; then
 * answer, and a look at what runs
 *
 * So nothing is done to a program that nobody asked for, except that it waits for the answer.
 *
 * The rest is for programs that were not held (file systems that are not marked, no privilege, a
 * program that takes no library) and for names that come later: exec and comm events of the process
 * connector, and a scan of /proc now and then, since a title written over the arguments causes no
 * event. Those are reported to the recorder, which attaches.
 *
 * Reading arguments means reading a process's memory, which may block: the time limit ends this
 * process then, the kernel lets its tracees continue, and the next one skips that process. For a
 * file's lock, or a directory's, it would wait where no signal ends it and no tracee continues: this
 * process reads no file and looks up no path but those of /proc.
 */
#include "daemon/execwatch/exec_watch.h"

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
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "daemon/execwatch/exec_matcher_parts.h"
#include "daemon/execwatch/exec_rules.h"
#include "inject/inject_at_exec.h"
#include "proc/number.h"
#include "proc/pid.h"

#include "base/banned.h"

#define MS         UINT64_C(1000000)
#define ROUND_MS   500u        /* a round of work that takes longer does not return */
#define MARGIN_NS  (3 * MS)    /* an answer comes so long before the answerer's own at the latest */
#define LATER_NS   (5000 * MS) /* an exec that was allowed is over by then, on a busy machine, too */
#define LATER_STEP (2 * MS)    /* and a quarter of the time since */
#define HELD_NS    (200 * MS)  /* an execve that has not ended by then is released */
#define AGAIN_NS   (1000 * MS) /* the same program in the same process by then: */
#define AGAIN_MOST 50          /* this often, if the library makes it do that */
#define YOUNG_NS   (1500 * MS) /* an armed program may be over by then */
#define YOUNG_STEP (250 * MS)
#define SEEN_ARMED UINT64_C(1) /* in seen */

/* ---- messages to the recorder ---- */

void hw_exec_tell(struct hw_exec_finder *f, uint32_t type, uint32_t flags, int32_t pid,
                  const char *text)
{
    struct hw_exec_message m = {.type = type, .flags = flags, .pid = pid};
    (void)snprintf(m.text, sizeof m.text, "%s", text ? text : ""); /* a cut reason is still one */
    if (send(f->recorder, &m, sizeof m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno != EAGAIN)
        _exit(0); /* full: it is stopped; a scan of /proc finds it later */
}

/* ---- at the exec: the answerer has read its arguments ---- */

/* False: another process traces it. */
static bool hold(struct hw_exec_finder *f, int32_t tid, uint32_t share)
{
    if (ptrace(PTRACE_SEIZE, tid, NULL, (void *)(uintptr_t)PTRACE_O_TRACEEXEC) < 0)
        return false;
    if (hw_vec_push(&f->held, ((struct hw_exec_held){tid, share, hw_now_monotonic_ns() + HELD_NS,
                                                     false})) < 0)
        _exit(1); /* which releases it */
    return true;
}

/* Another recorder's finder was asked before us: it is a child of a guard, and that of the
 * recorder. The program may be over before anybody could check who has it. */
static void tell_taken(struct hw_exec_finder *f, int32_t tid, int32_t pid)
{
    static const char ours[] = "heapprofd-find";
    struct hw_proc_status st;
    struct hw_proc_stat finder = {0}, guard = {0};
    hw_autofd int dir = hw_proc_open_dir(tid);
    if (f->meant_by == 0 || dir < 0 || hw_proc_status(dir, &st) < 0 || st.tracer_pid <= 0)
        return;
    hw_autofd int finder_dir = hw_proc_open_dir(st.tracer_pid);
    if (finder_dir < 0 || hw_proc_status(finder_dir, &st) < 0 || strcmp(st.name, ours) != 0 ||
        hw_proc_stat(finder_dir, &finder) < 0)
        return;
    hw_autofd int guard_dir = hw_proc_open_dir(finder.ppid);
    if (guard_dir < 0 || hw_proc_stat(guard_dir, &guard) < 0)
        return;
    struct hw_exec_message m = {
        .type = HW_EXEC_TAKEN, .session = f->meant_by, .pid = pid, .holder = guard.ppid};
    (void)send(f->recorder, &m, sizeof m, MSG_NOSIGNAL | MSG_DONTWAIT); /* then nobody is told */
}

static void tell_unread(struct hw_exec_finder *f, int32_t pid)
{
    struct hw_exec_message m = {.type = HW_EXEC_UNREAD, .session = f->meant_by, .pid = pid};
    (void)send(f->recorder, &m, sizeof m, MSG_NOSIGNAL | MSG_DONTWAIT); /* it is full of others */
}

static void look_later(struct hw_exec_finder *f, int32_t pid, uint32_t share, const char *why)
{
    uint64_t now = hw_now_monotonic_ns();
    struct hw_exec_later l = {
        .pid = pid, .share = share, .since_ns = now, .next_ns = now + LATER_STEP};
    (void)snprintf(l.why, sizeof l.why, "%.111s", why);
    if (hw_vec_push(&f->later, l) < 0)
        _exit(1);
}

static bool is_gone(int32_t pid)
{
    return kill(pid, 0) < 0 && errno == ESRCH;
}

static void forget_later(struct hw_exec_finder *f, int32_t pid)
{
    for (size_t i = 0; i < f->later.n;)
        if (f->later.v[i].pid == pid)
            f->later.v[i] = f->later.v[--f->later.n];
        else
            i++;
}

/* False: ask again. */
static bool decide(struct hw_exec_finder *f, const struct hw_exec_request *q, int fd)
{
    struct hw_error err = {0};
    int32_t pid = q->tid;
    f->unread = false;
    f->meant_by = 0;
    uint64_t now = hw_now_monotonic_ns();
    bool late = now + MARGIN_NS >= q->until_ns;
    int rc = now < q->until_ns ? hw_exec_check(f, q, fd, &pid, &err) : HW_EBUSY;
    if (rc == HW_EBUSY && !late)
        return false;
    bool held = rc == HW_OK && hw_now_monotonic_ns() < q->until_ns && hold(f, q->tid, q->share);
    if (!held && rc == HW_OK)
        tell_taken(f, q->tid, pid);
    if (!held && f->unread && !hw_exec_is_held(f, q->tid))
        tell_unread(f, pid);
    if (!held && !hw_exec_is_held(f, q->tid) &&
        (rc == HW_OK || rc == HW_EBUSY || rc == HW_ETIMEOUT || rc == HW_EUNSUPPORTED))
        look_later(f, pid, q->share, rc == HW_EUNSUPPORTED ? err.text : "");
    struct hw_exec_answer a = {.number = q->number};
    if (f->answerer >= 0)
        (void)send(f->answerer, &a, sizeof a, MSG_NOSIGNAL | MSG_DONTWAIT); /* else 20 ms */
    return true;
}

static void ask_again(struct hw_exec_finder *f)
{
    for (size_t i = 0; i < f->waiting.n;) {
        struct hw_exec_unconfirmed *w = &f->waiting.v[i];
        if (!decide(f, &w->q, w->fd)) {
            i++;
            continue;
        }
        (void)close(w->fd); /* read only */
        f->waiting.v[i] = f->waiting.v[--f->waiting.n];
    }
}

/* A question and its file; what recv gives. */
static ssize_t receive(int socket, struct hw_exec_unconfirmed *out)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    struct iovec io = {&out->q, sizeof out->q};
    struct msghdr m = {
        .msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(socket, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
    out->fd = -1;
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
        memcpy(&out->fd, CMSG_DATA(c), sizeof out->fd);
    return n;
}

static void on_questions(struct hw_exec_finder *f)
{
    struct hw_exec_unconfirmed w;
    ssize_t n;
    while ((n = receive(f->answerer, &w)) == sizeof w.q) {
        if (!decide(f, &w.q, w.fd)) {
            if (hw_vec_push(&f->waiting, w) < 0)
                _exit(1);
        } else if (w.fd >= 0) {
            (void)close(w.fd); /* read only */
        }
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    (void)close(f->answerer); /* it is gone: the guard ends us, or there is none */
    f->answerer = -1;
}

/* ---- at the end of the execve ---- */

/* As the kernel counts the starts of processes. */
static uint64_t now_ticks(void)
{
    return hw_now_boottime_ns() / (UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK));
}

/* A program that executes itself because of the library, until it is without it, would never
 * run. One with a sanitizer is released (HW_EXEC_WITHOUT_LIBRARY); no other one is known, and
 * programs that execute themselves in a chain are recorded in each image. */
static int check_again(struct hw_exec_finder *f, const struct hw_pid *pid,
                       const struct hw_exec_file_id *id, struct hw_error *err)
{
    struct hw_exec_placed *p = &f->placed[(uint32_t)pid->pid % HW_EXEC_N_PLACED];
    uint64_t now = hw_now_monotonic_ns();
    if (p->pid != pid->pid || p->dev != id->dev || p->ino != id->ino || now >= p->until_ns ||
        hw_pid_start(pid) > p->began_ticks)
        *p = (struct hw_exec_placed){pid->pid, 0, now_ticks(), now + AGAIN_NS, id->dev, id->ino};
    if (p->n++ < AGAIN_MOST)
        return HW_OK;
    return hw_fail(err, HW_EUNSUPPORTED, 0,
                   "process %d executes itself again and again when the client library is "
                   "preloaded; it is left alone",
                   pid->pid);
}

/* 1: and it is armed. HW_EPERM without a text: not meant. */
static int place(struct hw_exec_finder *f, const struct hw_pid *pid, uint32_t share,
                 struct hw_error *err)
{
    struct hw_exec_candidate p;
    struct hw_exec_file file = {0};
    struct hw_start_request q = {.pid = pid,
                                 .status = &p.status,
                                 .library = f->setup->library,
                                 .socket_path = f->socket_path,
                                 .world = &f->world};
    if (!hw_exec_candidate_read(&f->rules, f->shared, pid, &p))
        return HW_EGONE;
    int rc = hw_exec_rules_permit(&f->rules, &p, pid, /* starts = */ false, err);
    if (rc == HW_OK && hw_exec_file_id_of(pid->dir, "exe", &file.id) < 0)
        rc = hw_fail(err, HW_EGONE, 0, "process %d has ended", pid->pid);
    if (rc == HW_OK)
        rc = check_again(f, pid, &file.id, err);
    if (rc == HW_OK && (!hw_exec_file_find(&f->shared->files, &file.id, &file) ||
                        hw_exec_sight_find(&f->readers, pid->dir, p.status.euid, &q.sight) < 0))
        rc = hw_fail(err, HW_EUNSUPPORTED, 0, "process %d starts from a file that is not known yet",
                     pid->pid);
    q.file = file.start;
    q.arm = hw_exec_rules_arm(&f->rules, &p);
    q.arm.token |= q.arm.interval_bytes ? share : 0;
    if (rc == HW_OK)
        rc = hw_start_place(&q, err);
    hw_exec_candidate_done(&p);
    return rc;
}

/* One that lives long is called after a while, so that the recorder knows it like all others.
 * For the scan of /proc it is nothing new until then. */
static void remember_armed(struct hw_exec_finder *f, int32_t pid)
{
    uint64_t due = hw_now_monotonic_ns() + YOUNG_NS;
    due += YOUNG_STEP - due % YOUNG_STEP; /* several at once */
    if (hw_vec_push(&f->armed.v, ((struct hw_exec_armed){.pid = pid, .due_ns = due})) == 0 &&
        f->rules.sessions.n == 1)
        (void)hw_map64_put(&f->seen, (uint64_t)pid, SEEN_ARMED); /* else it is called earlier */
}

static void on_exec(struct hw_exec_finder *f, int32_t pid, uint32_t share)
{
    struct hw_error err = {0};
    hw_autofd int dir = hw_proc_open_dir(pid); /* nobody else has its number while we trace it */
    struct hw_pid p = {pid, -1, dir, /* start_ticks = */ 0};
    int rc = dir < 0 ? HW_EGONE : place(f, &p, share, &err);
    hw_exec_not_passed(f, pid);
    forget_later(f, pid);                         /* an earlier exec of its own */
    (void)ptrace(PTRACE_DETACH, pid, NULL, NULL); /* fails when it has been killed */
    if (rc == 1)
        remember_armed(f, pid);
    if (rc == HW_EUNSUPPORTED || rc == HW_ESYS) /* it may be attached to */
        hw_exec_tell(f, HW_EXEC_FOUND, hw_exec_tell_share(share), pid, err.text);
}

static void forget_held(struct hw_exec_finder *f, size_t i)
{
    f->held.v[i] = f->held.v[--f->held.n];
}

/* True: it is meant, and the recorder is told. */
bool hw_exec_examine(struct hw_exec_finder *f, int32_t pid, uint32_t flags, const char *why)
{
    struct hw_exec_candidate p;
    hw_autofd int dir = hw_proc_open_dir(pid);
    struct hw_pid who = {pid, -1, dir, /* start_ticks = */ 0};
    if (!hw_exec_candidate_read(&f->rules, f->shared, &who, &p))
        return false;
    bool meant = p.status.tgid == pid && hw_exec_rules_mean(&f->rules, &p);
    if (meant)
        hw_exec_tell(f, HW_EXEC_FOUND, flags, pid, why);
    hw_exec_candidate_done(&p);
    return meant;
}

static void look_again(struct hw_exec_finder *f, uint64_t now)
{
    for (size_t i = 0; i < f->later.n;) {
        struct hw_exec_later *l = &f->later.v[i];
        bool due = now >= l->next_ns;
        uint64_t age = now - l->since_ns;
        if (due)
            l->next_ns = now + (age / 4 > LATER_STEP ? age / 4 : LATER_STEP);
        uint32_t flags = hw_exec_tell_share(l->share);
        if (due &&
            (hw_exec_examine(f, l->pid, flags, l->why) || age >= LATER_NS || is_gone(l->pid)))
            f->later.v[i] = f->later.v[--f->later.n];
        else
            i++;
    }
}

static void call_one(struct hw_exec_finder *f, const struct hw_exec_young *y,
                     const struct hw_exec_armed *a)
{
    if (y == &f->passed)
        hw_exec_call_passed(f, a);
    else
        (void)hw_exec_examine(f, a->pid, HW_EXEC_ARMED, NULL); /* it has ended */
}

static void call_grown(struct hw_exec_finder *f, struct hw_exec_young *y, uint64_t now)
{
    while (y->n_called < y->v.n && now >= y->v.v[y->n_called].due_ns)
        call_one(f, y, &y->v.v[y->n_called++]);
    if (y->n_called < y->v.n - y->n_called)
        return;
    size_t rest = y->v.n - y->n_called;
    for (size_t i = 0; i < rest; i++)
        y->v.v[i] = y->v.v[y->n_called + i];
    y->v.n = rest;
    y->n_called = 0;
}

static void on_stop(struct hw_exec_finder *f, int32_t pid, int status)
{
    unsigned long former = (unsigned long)pid;
    int event = status >> 16, sig = WSTOPSIG(status);
    if (event == PTRACE_EVENT_EXEC)
        (void)ptrace(PTRACE_GETEVENTMSG, pid, NULL, &former); /* its thread's own number before */
    for (size_t i = 0; i < f->held.n; i++) {
        struct hw_exec_held *h = &f->held.v[i];
        if (h->tid != (int32_t)former && h->tid != pid)
            continue;
        uint32_t share = h->share;
        if (event == PTRACE_EVENT_EXEC) {
            forget_held(f, i);
            on_exec(f, pid, share);
        } else if (h->interrupted) { /* its execve failed, or was over when it was seized */
            forget_held(f, i);
            (void)ptrace(PTRACE_DETACH, pid, NULL,
                         (void *)(uintptr_t)(event == PTRACE_EVENT_STOP ? 0 : sig));
            (void)hw_exec_examine(f, pid, hw_exec_tell_share(share), NULL); /* else not meant */
        } else if (event == PTRACE_EVENT_STOP) { /* a group's stop, or its end */
            (void)ptrace(sig == SIGTRAP ? PTRACE_CONT : PTRACE_LISTEN, pid, NULL, NULL);
        } else {
            (void)ptrace(PTRACE_CONT, pid, NULL, (void *)(uintptr_t)sig);
        }
        return;
    }
    (void)ptrace(PTRACE_DETACH, pid, NULL, NULL); /* none that we know */
}

static void on_children(struct hw_exec_finder *f)
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

static void let_go_of_old(struct hw_exec_finder *f, uint64_t now)
{
    for (size_t i = 0; i < f->held.n;) {
        struct hw_exec_held *h = &f->held.v[i];
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

/* ---- the recorder ---- */

static void on_recorder(struct hw_exec_finder *f)
{
    static char buffer[HW_EXEC_BYTES];
    struct hw_exec_message m;
    ssize_t n;
    while ((n = recv(f->recorder, buffer, sizeof buffer, MSG_DONTWAIT)) >= (ssize_t)sizeof m) {
        memcpy(&m, buffer, sizeof m);
        if (m.type == HW_EXEC_SOCKET) {
            memcpy(f->socket_path, m.text, sizeof m.text - 1);
        } else if (m.type == HW_EXEC_RULE) {
            if (hw_exec_rules_add(&f->rules, f->setup->policy, &m, buffer + sizeof m,
                                  (size_t)n - sizeof m) < 0)
                _exit(1);
            hw_exec_rules_publish(&f->rules, f->shared);
            if (!f->has_seen)
                hw_exec_scan(f); /* the recorder finds those that run now */
            hw_exec_tell(f, HW_EXEC_RULED, 0, 0, NULL);
        } else if (m.type == HW_EXEC_DROP) {
            hw_exec_rules_drop(&f->rules, m.session);
            if (f->rules.sessions.n == 0)
                hw_vec_clear(&f->rules.followed);
            hw_exec_rules_publish(&f->rules, f->shared);
        } else if (m.type == HW_EXEC_ARM) {
            hw_exec_rules_set_interval(&f->rules, m.session, m.arm_interval_bytes);
        } else if (m.type == HW_EXEC_FOLLOW && !hw_exec_rules_follow(&f->rules, m.pid)) {
            (void)hw_vec_push(&f->rules.followed, m.pid); /* else only its forks are followed */
            hw_exec_rules_publish(&f->rules, f->shared);
        }
    }
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        _exit(0);
}

/* The answerer says what it can do; without one nothing comes. */
static void hear_answerer(struct hw_exec_finder *f)
{
    struct hw_exec_hello h = {.error = EPERM};
    struct pollfd p = {.fd = f->answerer, .events = POLLIN};
    if (poll(&p, 1, 1000) > 0 && recv(f->answerer, &h, sizeof h, 0) == sizeof h)
        f->holds = h.error == 0;
    if (f->holds)
        return;
    (void)close(f->answerer);
    f->answerer = -1;
}

static uint64_t next_grown(const struct hw_exec_young *y, uint64_t next)
{
    bool is_first = y->n_called < y->v.n && y->v.v[y->n_called].due_ns < next;
    return is_first ? y->v.v[y->n_called].due_ns : next;
}

static int wait_ms(const struct hw_exec_finder *f, uint64_t now)
{
    uint64_t next = f->has_seen ? f->next_scan_ns : UINT64_MAX;
    for (size_t i = 0; i < f->held.n; i++)
        next = f->held.v[i].until_ns < next ? f->held.v[i].until_ns : next;
    for (size_t i = 0; i < f->later.n; i++)
        next = f->later.v[i].next_ns < next ? f->later.v[i].next_ns : next;
    next = next_grown(&f->armed, next);
    next = next_grown(&f->passed, next);
    if (f->waiting.n)
        return 1;
    if (next == UINT64_MAX)
        return -1;
    return next <= now ? 0 : (int)((next - now) / MS) + 1;
}

_Noreturn void hw_exec_find(const struct hw_exec_watch_setup *s,
                            struct hw_exec_watch_shared *shared, int recorder, int answerer)
{
    static struct hw_exec_finder f;
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
    hw_exec_file_readers_init(&f.readers, s->library);
    f.children = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
    (void)setpriority(PRIO_PROCESS, 0, -10); /* an offer: a program waits for us */
    hw_exec_file_readers_begin(&f.readers);
    hw_exec_limit_init();
    hw_start_world_read(&f.world);
    hear_answerer(&f);
    f.events = hw_exec_listen(/* execs = */ !f.holds);
    hw_exec_tell(&f, HW_EXEC_READY,
                 (f.holds ? HW_EXEC_HOLDS : 0) | (f.events >= 0 ? HW_EXEC_HEARS : 0), 0, NULL);
    for (;;) {
        struct pollfd p[4 + HW_EXEC_FILE_READERS] = {{.fd = f.answerer, .events = POLLIN},
                                                     {.fd = f.children, .events = POLLIN},
                                                     {.fd = f.recorder, .events = POLLIN},
                                                     {.fd = f.events, .events = POLLIN}};
        hw_exec_file_readers_poll(&f.readers, p + 4);
        int ms = wait_ms(&f, hw_now_monotonic_ns());
        ms = ms < 0 || ms > HW_EXEC_BEAT_MS ? HW_EXEC_BEAT_MS : ms;
        hw_exec_limit(HW_EXEC_STANDS_MS); /* stopped with the guard: as in exec_gate.c */
        atomic_store_explicit(&shared->turn_ns[1], hw_now_monotonic_ns(), memory_order_relaxed);
        (void)poll(p, HW_ARRAY_LEN(p), ms); /* a signal only shortens it */
        hw_exec_limit(ROUND_MS);
        hw_exec_file_readers_read(&f.readers, &shared->files);
        if (p[0].revents)
            on_questions(&f);
        if (p[1].revents)
            on_children(&f);
        if (p[2].revents)
            on_recorder(&f);
        if (p[3].revents)
            hw_exec_on_events(&f);
        ask_again(&f);
        uint64_t now = hw_now_monotonic_ns();
        look_again(&f, now);
        call_grown(&f, &f.armed, now);
        call_grown(&f, &f.passed, now);
        let_go_of_old(&f, now);
        if (f.has_seen && now >= f.next_scan_ns)
            hw_exec_scan(&f);
    }
}

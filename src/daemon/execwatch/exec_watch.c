/* exec_watch.c - the recorder's side: rules down, findings up (exec_watch.h). */
#include "daemon/execwatch/exec_watch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text/strbuf.h"
#include "daemon/core.h"
#include "daemon/policy/unrecorded.h"

#include "base/banned.h"

#define MS       UINT64_C(1000000)
#define READY_NS (500 * MS) /* once, at the first such session */
#define RULED_NS (300 * MS)
#define SHARE_NS (10000 * MS) /* from the finding to the handshake of an attached process */

static void on_talk(struct hw_watch *w, uint32_t events);

int hw_exec_watch_init(struct hw_recorder *r, struct hw_error *err)
{
    const struct hw_recorder_options *o = &r->options;
    r->starts = (struct hw_exec_watch){.order = -1, .talk = {-1, on_talk}};
    r->starts.setup = (struct hw_exec_watch_setup){.library = o->library, .policy = &r->policy};
    return hw_exec_fork(&r->starts.setup, &r->starts.talk.fd, &r->starts.order, &r->starts.pid,
                        err);
}

static void lost(struct hw_recorder *r)
{
    hw_watch_remove(r, &r->starts.talk);
    r->starts.lost = true;
    for (size_t i = 0; i < r->sessions.n; i++)
        if (r->sessions.v[i]->has_rule && !r->sessions.v[i]->stopping)
            hw_session_warn(r->sessions.v[i],
                            "the processes that watch for starting programs have ended: programs "
                            "that start from now on are not profiled");
}

static void send_to_finder(struct hw_recorder *r, const void *m, size_t n)
{
    if (r->starts.lost || !r->starts.ready)
        return; /* when it is ready it gets everything */
    if (send(r->starts.talk.fd, m, n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        hw_log(WARN, "the process that watches for starting programs cannot be configured: %s",
               strerror(errno));
}

/* Known only once it listens: the service manager may have created the socket, or another
 * recorder may have the usual name. */
static void send_socket(struct hw_recorder *r)
{
    struct hw_exec_message m = {.type = HW_EXEC_SOCKET};
    _Static_assert(sizeof r->producer_name <= sizeof m.text, "a socket's name");
    memcpy(m.text, r->producer_name, sizeof r->producer_name);
    send_to_finder(r, &m, sizeof m);
}

/* ---- rules ---- */

static bool follows(const struct hw_session *s)
{
    return (s->start.flags & HW_START_FOLLOW_FORK) && !(s->start.flags & HW_START_LAUNCHED);
}

static bool means_starting(const struct hw_heapprofd_config *c)
{
    return !c->no_startup && (c->all || c->process_cmdline.n);
}

static bool wants_rule(const struct hw_session *s)
{
    if (s->start.flags & HW_START_LAUNCHED)
        return false;
    for (size_t i = 0; i < s->sources.n; i++)
        if (means_starting(s->sources.v[i].config))
            return true;
    return follows(s);
}

static void add_entry(struct hw_strbuf *b, char kind, bool sampled, const char *word)
{
    hw_strbuf_addc(b, kind);
    hw_strbuf_addc(b, sampled ? '1' : '0');
    hw_strbuf_add(b, word, strlen(word) + 1);
}

/* False: it means all processes. */
static bool add_memlog(struct hw_strbuf *b, const struct hw_memlog *m)
{
    bool all = m->rules.n == 0;
    for (size_t i = 0; i < m->rules.n; i++) {
        const struct hw_memlog_rule *r = &m->rules.v[i];
        all |= r->kind == HW_MEMLOG_ALL;
        if (r->kind != HW_MEMLOG_ALL)
            add_entry(b, (char)(HW_EXEC_KIND + (int)r->kind), r->sampled, r->word);
    }
    return !all;
}

/*
 * A process without a sample must leave no trace in this recording, and nothing of it may be wanted
 * but its samples of the C heap: then it need not say that it is there before it has one. At a
 * smaller interval nearly every program has a sample, and the wait for the recorder is better at
 * the start.
 */
static uint64_t arm_interval(const struct hw_session *s)
{
    const uint32_t continuous = HW_START_TELL_LAST | HW_START_RESCAN;
    const struct hw_heapprofd_config *c = s->sources.n == 1 ? s->sources.v[0].config : NULL;
    uint64_t interval = 0;
    if (!c || s->start.flags != continuous || s->java.n || s->config.has_process_stats ||
        s->start.smaps_ms || s->start.malloc_info_ms || s->start.process_stats_ms || s->start.seed)
        return 0;
    if (c->block_client || c->no_startup || c->no_running || c->dump_at_max || c->all_heaps ||
        c->stream_allocations || c->idle_allocations || c->record_types || c->record_slices ||
        c->mappings || c->conditions.n || c->dump_interval_ms || c->min_anonymous_memory_kb ||
        c->adaptive_threshold_bytes || c->stack_mode > HW_STACKS_THREADS)
        return 0;
    for (size_t i = 0; i < c->heaps.n; i++) {
        bool libc = strcmp(c->heaps.v[i].name, "libc.malloc") == 0;
        if (c->heaps.v[i].interval_bytes && !libc)
            return 0;
        interval = libc ? c->heaps.v[i].interval_bytes : interval;
    }
    return interval < HW_ARMED_LEAST_INTERVAL ? 0 : hw_interval_doubled(interval, s->doublings);
}

void hw_exec_watch_rate(const struct hw_session *s)
{
    struct hw_exec_message m = {
        .type = HW_EXEC_ARM, .session = s->id, .arm_interval_bytes = arm_interval(s)};
    if (s->has_rule)
        send_to_finder(s->rec, &m, sizeof m);
}

static void send_rule(const struct hw_session *s)
{
    struct hw_exec_message m = {.type = HW_EXEC_RULE,
                                .session = s->id,
                                .arm_interval_bytes = arm_interval(s),
                                .arm_token = s->arm_token,
                                .starts_per_minute = s->start.starts_per_minute,
                                .young_s = s->start.young_s,
                                .who = s->asking.who,
                                .generation = s->generation,
                                .pid = s->control ? s->control->pid : 0};
    struct hw_strbuf b = {0}, names = {0};
    for (size_t i = 0; i < s->sources.n; i++) {
        const struct hw_heapprofd_config *c = s->sources.v[i].config;
        if (!means_starting(c))
            continue;
        if (c->all && !add_memlog(&names, &c->memlog))
            m.flags |= HW_RULE_ALL;
        for (size_t k = 0; k < c->process_cmdline.n; k++)
            add_entry(&names, HW_EXEC_NAME, false, c->process_cmdline.v[k]);
    }
    hw_strbuf_add(&b, &m, sizeof m);
    hw_strbuf_add(&b, names.p, names.n);
    if (b.failed || b.n > HW_EXEC_BYTES)
        hw_log(WARN, "too many names to watch for: programs that start later are not profiled");
    else
        send_to_finder(s->rec, b.p, b.n);
    hw_strbuf_done(&names);
    hw_strbuf_done(&b);
    for (size_t i = 0; i < s->followed.n; i++)
        hw_exec_watch_follow(s, s->followed.v[i].pid);
}

/* ---- shares ---- */

/* It may have executed another program since its last report. */
void hw_exec_watch_found(struct hw_exec_watch *w, int32_t pid, uint32_t flags)
{
    uint32_t told = flags >> HW_EXEC_SHARE_SHIFT, share = told - 1;
    if (told == 0 || share > HW_EXEC_SHARE_MOST)
        return;
    for (size_t i = 0; i < HW_EXEC_N_SHARES; i++)
        if (w->shares[i].pid == pid)
            w->shares[i].until_ns = 0;
    if (share)
        w->shares[w->n_shares++ % HW_EXEC_N_SHARES] =
            (struct hw_exec_found_share){pid, share, hw_now_monotonic_ns() + SHARE_NS};
}

/* By the mark of its start, or because it should have been held and had to be attached to. */
uint32_t hw_exec_watch_share(const struct hw_session *s, int32_t pid, uint64_t token)
{
    const struct hw_exec_watch *w = &s->rec->starts;
    const uint64_t mask = HW_TOKEN_SHARE_MASK;
    uint64_t now = hw_now_monotonic_ns();
    if (s->has_rule && token && ((token ^ s->arm_token) & ~mask) == 0)
        return (uint32_t)(token & mask);
    for (size_t i = 0; i < HW_EXEC_N_SHARES; i++)
        if (w->shares[i].pid == pid && now < w->shares[i].until_ns && s->start.starts_per_minute)
            return w->shares[i].share;
    return 0;
}

/* ---- findings ---- */

/* There was one before, and none for a moment: starts in between were not reported. */
static void rescan_gap(struct hw_session *s)
{
    if ((s->start.flags & HW_START_RESCAN) && s->scan.n == 0)
        hw_attach_scan(s);
}

/* If it lives on after all, and the other recorder releases it, we may still have it. */
static void tell_taken(struct hw_recorder *r, const struct hw_exec_message *m)
{
    struct hw_error err;
    for (size_t i = 0; i < r->sessions.n; i++) {
        struct hw_session *s = r->sessions.v[i];
        if (s->id != m->session || s->stopping)
            continue;
        (void)hw_session_held_elsewhere(s, m->holder, HW_EBUSY, &err);
        hw_session_reject_named(s, m->pid, err.text);
    }
}

/* Each session says it once: a user could have a thousand of them. */
static void tell_unread(struct hw_recorder *r, const struct hw_exec_message *m)
{
    for (size_t i = 0; i < r->sessions.n; i++) {
        struct hw_session *s = r->sessions.v[i];
        if (s->stopping || !s->has_rule || (m->session && s->id != m->session))
            continue;
        if (m->session)
            hw_unrecorded_start(s, m->pid);
        if (!s->said_unread)
            hw_session_warn(
                s,
                "process %d is not held at its start: its file or root directory cannot "
                "be read in time; this process and others of the kind may be missing",
                m->pid);
        s->said_unread = true;
    }
}

/* What they held was let go, and what started meanwhile nobody has seen. */
static void tell_restart(struct hw_session *s)
{
    hw_session_warn(s,
                    "the processes that watch for starting programs were started again: programs "
                    "that started in the last seconds may be missing");
}

/* On a busy machine the finder makes its first scan after the session has begun: a program that
 * started in between was there for that scan, and nobody has checked it. */
static void scan_late(struct hw_recorder *r)
{
    for (size_t i = 0; i < r->sessions.n; i++) {
        struct hw_session *s = r->sessions.v[i];
        if (!s->rule_is_late || s->stopping || s->scan.n)
            continue;
        s->rule_is_late = false;
        hw_attach_scan(s);
    }
}

static void take(struct hw_recorder *r, const struct hw_exec_message *m)
{
    bool again;
    switch (m->type) {
    case HW_EXEC_READY:
        again = r->starts.ready;
        r->starts.ready = true;
        r->starts.flags = m->flags;
        hw_log(INFO, "starting programs are %s",
               m->flags & HW_EXEC_HOLDS   ? "held at their exec"
               : m->flags & HW_EXEC_HEARS ? "found by the process connector"
                                          : "found in /proc");
        send_socket(r);
        for (size_t i = 0; i < r->sessions.n; i++)
            if (r->sessions.v[i]->has_rule && !r->sessions.v[i]->stopping) {
                send_rule(r->sessions.v[i]);
                if (again) {
                    tell_restart(r->sessions.v[i]);
                    rescan_gap(r->sessions.v[i]);
                }
            }
        break;
    case HW_EXEC_RULED:
        r->starts.n_ruled++;
        scan_late(r);
        break;
    case HW_EXEC_FOUND:
        hw_exec_watch_found(&r->starts, m->pid, m->flags);
        hw_attach_found(r, m->pid, m->text, m->flags & HW_EXEC_ARMED);
        break;
    case HW_EXEC_TAKEN:
        tell_taken(r, m);
        break;
    case HW_EXEC_UNREAD:
        tell_unread(r, m);
        break;
    default:
        break;
    }
}

/* False: nothing more now. */
static bool take_one(struct hw_recorder *r)
{
    struct hw_exec_message m;
    ssize_t n = recv(r->starts.talk.fd, &m, sizeof m, MSG_DONTWAIT);
    if (n == sizeof m) {
        m.text[sizeof m.text - 1] = '\0';
        take(r, &m);
    }
    if (n == 0)
        lost(r);
    return n > 0;
}

static void on_talk(struct hw_watch *w, uint32_t events)
{
    struct hw_recorder *r = HW_OWNER_OF(w, struct hw_recorder, starts.talk);
    if (events & EPOLLIN)
        while (take_one(r))
            ;
    else if (events & (EPOLLHUP | EPOLLERR))
        lost(r);
}

static void wait_until(struct hw_recorder *r, const bool *flag, const uint32_t *count,
                       uint32_t above, uint64_t ns)
{
    uint64_t end = hw_now_monotonic_ns() + ns, now;
    while (!r->starts.lost && !(flag && *flag) && !(count && *count > above) &&
           (now = hw_now_monotonic_ns()) < end) {
        struct pollfd p = {.fd = r->starts.talk.fd, .events = POLLIN};
        if (poll(&p, 1, (int)((end - now) / MS) + 1) > 0)
            (void)take_one(r); /* the end of it is seen by the loop's condition */
    }
}

/* A command that is told "started" starts programs at once. */
void hw_exec_watch_add(struct hw_session *s)
{
    struct hw_recorder *r = s->rec;
    if (!wants_rule(s) || r->starts.order < 0)
        return;
    if (!r->starts.on) {
        r->starts.on = true;
        r->starts.ready = false;
        if (write(r->starts.order, "b", 1) != 1 || hw_watch_add(r, &r->starts.talk, EPOLLIN) < 0) {
            lost(r);
            return;
        }
        wait_until(r, &r->starts.ready, NULL, 0, READY_NS);
    }
    s->has_rule = true;
    if (getrandom(&s->arm_token, sizeof s->arm_token, GRND_NONBLOCK) != sizeof s->arm_token)
        s->arm_token = hw_now_monotonic_ns(); /* it distinguishes sessions, and is no secret */
    s->arm_token &= ~HW_TOKEN_SHARE_MASK;
    uint32_t before = r->starts.n_ruled;
    send_rule(s);
    if (r->starts.ready)
        wait_until(r, NULL, &r->starts.n_ruled, before, RULED_NS);
    s->rule_is_late = r->starts.n_ruled == before;
}

void hw_exec_watch_drop(struct hw_session *s)
{
    struct hw_recorder *r = s->rec;
    struct hw_exec_message m = {.type = HW_EXEC_DROP, .session = s->id};
    bool any = false;
    if (!s->has_rule)
        return;
    s->has_rule = false;
    send_to_finder(r, &m, sizeof m);
    for (size_t i = 0; i < r->sessions.n; i++)
        any |= r->sessions.v[i]->has_rule;
    if (any || !r->starts.on)
        return;
    r->starts.on = r->starts.ready = false;
    hw_watch_remove(r, &r->starts.talk);
    (void)!write(r->starts.order, "e", 1); /* else it ends with us */
}

void hw_exec_watch_follow(const struct hw_session *s, int32_t pid)
{
    struct hw_exec_message m = {.type = HW_EXEC_FOLLOW, .session = s->id, .pid = pid};
    if (s->has_rule)
        send_to_finder(s->rec, &m, sizeof m);
}

/* If it is stopped, it would not notice that the answerer is. */
void hw_exec_watch_tick(struct hw_recorder *r)
{
    siginfo_t stop = {0};
    /* Nothing is asked about its end: until hw_starts_done its number must stay taken. */
    if (r->starts.on && !r->starts.lost &&
        waitid(P_PID, (id_t)r->starts.pid, &stop, WSTOPPED | WNOHANG) == 0 && stop.si_pid != 0)
        (void)kill(r->starts.pid, SIGCONT);
}

void hw_exec_watch_done(struct hw_recorder *r)
{
    if (r->starts.order < 0)
        return;
    (void)close(r->starts.order); /* which ends it */
    (void)close(r->starts.talk.fd);
    r->starts.order = -1;
    (void)kill(r->starts.pid, SIGKILL); /* its children go with it */
    (void)waitpid(r->starts.pid, NULL, 0);
}

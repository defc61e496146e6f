/* Which processes a session means, and what it is told about those that another session has. */
#include <stdio.h>
#include <stdlib.h>

#include "daemon/code/holder.h"
#include "daemon/core.h"
#include "daemon/policy/permission.h"
#include "daemon/policy/process_match.h"

#include "base/banned.h"

static bool is_named(const struct hw_session *s, const struct hw_heapprofd_config *c,
                     const struct hw_pid *pid, const struct hw_proc_status *st)
{
    char argv0[512], exe[256];
    char *cmdline = NULL;
    size_t n;
    bool maybe = false, is = false;
    struct hw_reading_who who = hw_reading_at(pid, st->uid);
    hw_reading_argv0(s->rec->blocking_reader, who, argv0, sizeof argv0);
    for (size_t i = 0; i < c->process_cmdline.n; i++) {
        if (hw_config_name_matches(c->process_cmdline.v[i], argv0))
            return true;
        maybe |= hw_name_may_be_comm(c->process_cmdline.v[i], st->name);
    }
    if (!maybe || hw_reading_cmdline(s->rec->blocking_reader, who, &cmdline, &n) != HW_OK)
        return false;
    hw_proc_exe_name(pid->dir, exe, sizeof exe);
    for (size_t i = 0; !is && i < c->process_cmdline.n; i++)
        is = hw_name_is_meant(c->process_cmdline.v[i], cmdline, n, st->name, exe);
    free(cmdline);
    return is;
}

static bool source_matches(const struct hw_session *s, const struct hw_heapprofd_config *c,
                           const struct hw_conn *conn, const struct hw_pid *pid,
                           const struct hw_proc_status *st)
{
    bool startup = (conn->hello.flags & HW_HELLO_STARTUP) || hw_session_is_later(s, pid);
    if (startup ? c->no_startup : c->no_running)
        return false;
    bool meant = c->all && hw_memlog_wants(s, c, pid, st);
    bool numbered = !hw_session_is_later(s, pid); /* a later one only has that number by now */
    for (size_t i = 0; !meant && numbered && i < c->pids.n; i++)
        meant = c->pids.v[i] == (uint64_t)pid->pid;
    if (!meant && c->process_cmdline.n)
        meant = is_named(s, c, pid, st);
    if (!meant || startup || c->min_anonymous_memory_kb == 0)
        return meant;
    return st->rss_anon_kb + st->vm_swap_kb >= c->min_anonymous_memory_kb;
}

static bool follows(const struct hw_session *s)
{
    return (s->start.flags & HW_START_FOLLOW_FORK) && !(s->start.flags & HW_START_LAUNCHED);
}

static const struct hw_followed *find_followed(const struct hw_session *s, int32_t pid)
{
    struct hw_pid p;
    const struct hw_followed *is = NULL;
    for (size_t i = 0; !is && i < s->followed.n; i++)
        if (s->followed.v[i].pid == pid)
            is = &s->followed.v[i];
    if (!is || hw_pid_open(pid, &p, NULL) < 0)
        return NULL;
    bool same = p.start_ticks == is->start_ticks;
    hw_pid_done(&p);
    return same ? is : NULL;
}

bool hw_session_follow(struct hw_session *s, const struct hw_pid *pid, uint32_t source)
{
    if (!follows(s))
        return false;
    for (size_t i = 0; i < s->followed.n; i++)
        if (s->followed.v[i].pid == pid->pid) {
            s->followed.v[i].start_ticks = pid->start_ticks;
            return false;
        }
    const struct hw_followed one = {pid->pid, pid->start_ticks, source};
    return hw_vec_push(&s->followed, one) == 0;
}

/* A child of one that is profiled, or such a one after its exec. */
static bool is_followed(const struct hw_session *s, const struct hw_pid *pid,
                        const struct hw_proc_status *st, uint32_t *source)
{
    const struct hw_followed *f = follows(s) ? find_followed(s, st->ppid) : NULL;
    if (!f && follows(s)) /* after its exec */
        f = find_followed(s, pid->pid);
    if (f)
        *source = f->source;
    return f != NULL;
}

/* A session that asks for everything gets what it may have. One that names a process learns why
 * it does not: at once, and in the trace. */
static void refuse_if_meant(struct hw_session *s, const struct hw_conn *c, const struct hw_pid *pid,
                            const struct hw_proc_status *st, const char *reason)
{
    for (uint32_t i = 0; i < s->sources.n && !(s->start.flags & HW_START_LAUNCHED); i++) {
        const struct hw_heapprofd_config *h = s->sources.v[i].config;
        bool named = h->process_cmdline.n != 0; /* its name would be revealed */
        if (h->all || (named && hw_permission_hides(&s->asking, st)) ||
            !source_matches(s, h, c, pid, st))
            continue;
        struct hw_control_target_state b = {.pid = pid->pid, .state = HW_TARGET_REJECTED};
        if (hw_session_refuse(s, i, pid->pid, reason))
            hw_control_send(s->control, HW_CTL_TARGET_STATE, s->id, &b, sizeof b, reason);
        return;
    }
}

static bool means(struct hw_session *s, const struct hw_conn *c, const struct hw_pid *pid,
                  uint32_t *source)
{
    struct hw_proc_status st;
    struct hw_error err;
    if (s->stopping || s->sources.n == 0 || hw_session_has_excluded(s, pid) ||
        hw_proc_status(pid->dir, &st) < 0)
        return false;
    bool other_image = c->hello.flags & HW_HELLO_STARTUP;
    if (!other_image && hw_record_again_rests(s, pid))
        return false;
    int rc = hw_permission_profile(&s->asking, pid, &st, &err);
    if (rc < 0 && rc != HW_EGONE)
        refuse_if_meant(s, c, pid, &st, err.text);
    if (rc < 0)
        return false;
    if (s->start.flags & HW_START_LAUNCHED) {
        *source = 0;
        return hw_launch_matches(s, pid);
    }
    if (is_followed(s, pid, &st, source))
        return true;
    for (uint32_t i = 0; i < s->sources.n; i++) {
        *source = i;
        if (source_matches(s, s->sources.v[i].config, c, pid, &st))
            return true;
    }
    return false;
}

static bool session_matches(struct hw_session *s, const struct hw_conn *c, const struct hw_pid *pid,
                            uint32_t *source)
{
    return means(s, c, pid, source) && hw_start_when_is_due(s, *source, pid);
}

bool hw_session_wants_running(struct hw_session *s, const struct hw_pid *pid, bool *by_number)
{
    struct hw_conn c = {.pid = pid->pid};
    uint32_t source;
    if (!session_matches(s, &c, pid, &source))
        return false;
    const struct hw_heapprofd_config *h = s->sources.v[source].config;
    *by_number = false;
    for (size_t i = 0; i < h->pids.n; i++)
        *by_number |= h->pids.v[i] == (uint64_t)pid->pid;
    return true;
}

/* The session that has the process; NULL = none. */
static const struct hw_session *holder(const struct hw_recorder *r, const struct hw_pid *pid)
{
    for (size_t i = 0; i < r->targets.n; i++) {
        struct hw_target *t = r->targets.v[i];
        if (t->pid.pid != pid->pid || t->pid.start_ticks != pid->start_ticks)
            continue;
        if (t->phase == HW_PHASE_PREPARING || t->phase == HW_PHASE_RUNNING)
            return t->session;
    }
    return NULL;
}

/* Of the same recorder. */
static const char *name_session(const struct hw_session *s, const struct hw_session *has,
                                char out[256])
{
    char who[160] = "";
    if (has->control)
        hw_holder_describe(s->rec->blocking_reader, &s->asking.who, has->control->pid, who,
                           sizeof who);
    (void)snprintf(out, 256, "another session profiles it%s%s%s", who[0] ? " (" : "", who,
                   who[0] ? ")" : "");
    return out;
}

/* Said once. */
static void reject(struct hw_session *s, uint32_t source, int32_t pid, const char *why)
{
    struct hw_session_source *src = &s->sources.v[source];
    for (size_t i = 0; i < src->rejected.n; i++)
        if (src->rejected.v[i] == pid)
            return;
    if (hw_vec_push(&src->rejected, pid) < 0)
        return; /* one line less in the trace */
    struct hw_control_target_state b = {.pid = pid, .state = HW_TARGET_REJECTED};
    hw_control_send(s->control, HW_CTL_TARGET_STATE, s->id, &b, sizeof b, why);
}

void hw_session_reject(struct hw_session *s, const struct hw_pid *pid, const char *why)
{
    struct hw_conn c = {.pid = pid->pid};
    uint32_t source;
    if (session_matches(s, &c, pid, &source))
        reject(s, source, pid->pid, why);
}

void hw_session_reject_named(struct hw_session *s, int32_t pid, const char *why)
{
    if (s->sources.n)
        reject(s, /* source = */ 0, pid, why);
}

void hw_session_has(struct hw_session *s, uint32_t source, int32_t pid)
{
    hw_session_silent_drop(s, pid);
    struct hw_session_source *src = &s->sources.v[source];
    for (size_t i = 0; i < src->rejected.n; i++)
        if (src->rejected.v[i] == pid)
            src->rejected.v[i--] = src->rejected.v[--src->rejected.n];
}

/* An image that connects again has replaced the one we knew: exec closes before it opens. */
static void end_replaced(struct hw_recorder *r, const struct hw_conn *c, const struct hw_pid *pid)
{
    if (!(c->hello.flags & HW_HELLO_STARTUP))
        return;
    for (size_t i = 0; i < r->targets.n; i++) {
        struct hw_target *t = r->targets.v[i];
        if (t->pid.pid == pid->pid && t->pid.start_ticks == pid->start_ticks &&
            (t->phase == HW_PHASE_RUNNING || t->phase == HW_PHASE_PREPARING))
            hw_target_finish(t, HW_END_EXECED);
    }
}

bool hw_sessions_match(struct hw_recorder *r, const struct hw_conn *c, const struct hw_pid *pid,
                       struct hw_session **session, uint32_t *source)
{
    bool found = false;
    end_replaced(r, c, pid);
    const struct hw_session *has = holder(r, pid);
    for (size_t i = 0; i < r->sessions.n; i++) {
        uint32_t src;
        if (!session_matches(r->sessions.v[i], c, pid, &src))
            continue;
        /* A program whose handshake took too long asks again while its own session has it. */
        if (found || has) {
            char why[256];
            if (r->sessions.v[i] != has)
                reject(r->sessions.v[i], src, pid->pid,
                       name_session(r->sessions.v[i], has ? has : *session, why));
            continue;
        }
        *session = r->sessions.v[i];
        *source = src;
        found = true;
    }
    return found;
}

/* Sessions that want a process which another one has: they say so in their trace. */
void hw_session_reject_running(struct hw_session *s)
{
    for (size_t i = 0; i < s->rec->targets.n; i++) {
        const struct hw_target *t = s->rec->targets.v[i];
        struct hw_conn c = {.hello = t->hello, .pid = t->pid.pid};
        uint32_t src;
        char why[256];
        c.hello.flags &= ~(uint32_t)HW_HELLO_STARTUP;
        if (t->session != s && t->phase == HW_PHASE_RUNNING &&
            session_matches(s, &c, &t->pid, &src))
            reject(s, src, t->pid.pid, name_session(s, t->session, why));
    }
}

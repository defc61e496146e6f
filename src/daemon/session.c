/*
 * session.c - one recording: who is meant, when to dump, when to end
 *
 *   START ── running ──> stopping (final dumps of all targets) ──> ended (service packets, ENDED)
 *
 * A session ends by STOP, its duration, its file's size, the command's end, a signal to the
 * recorder, a write error, or because the command it watched has ended with all below it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/code/holder.h"
#include "daemon/core.h"
#include "daemon/java_source.h"
#include "daemon/policy/memory.h"
#include "daemon/policy/missed.h"
#include "daemon/policy/permission.h"
#include "daemon/policy/process_match.h"
#include "trace/profile_writer.h"
#include "trace/slice_writer.h"
#include "trace/writer.h"

#include "base/banned.h"
#include "base/files/machine_memory.h"

#define SEC               UINT64_C(1000000000)
#define HURRY_NS          SEC
#define MS                UINT64_C(1000000)
#define CHECKPOINT_MS     60000u
#define CLOCKS_MS         10000u
#define GUARDS_MS         30000u
#define PROGRESS_EVERY    (250 * MS)
#define MAX_SESSIONS      15u
#define MAX_SESSIONS_USER 5u
#define MAX_NAME          256u

void hw_session_warn(struct hw_session *s, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (s->control)
        hw_control_send(s->control, HW_CTL_WARNING, s->id, NULL, 0, text);
    else
        hw_log(WARN, "%s", text);
}

/* ---- start ---- */

uint64_t hw_session_period_ns(const char *name, uint64_t usual_ms)
{
    const char *text = secure_getenv(name);
    char *end = NULL;
    unsigned long ms = text && text[0] >= '0' && text[0] <= '9' ? strtoul(text, &end, 10) : 0;
    return (end && *end == '\0' && ms >= 50 && ms < usual_ms ? ms : usual_ms) * MS;
}

static uint64_t cpu_us(void)
{
    struct rusage u;
    (void)getrusage(RUSAGE_SELF, &u); /* cannot fail for ourselves */
    return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000u +
           (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* Sessions that hold a semaphore of one name limit each other: the smallest number holds. */
static int check_semaphores(const struct hw_recorder *r, const struct hw_trace_config *c,
                            struct hw_error *err)
{
    for (size_t k = 0; k < c->semaphores.n; k++) {
        const char *name = c->semaphores.v[k].name ? c->semaphores.v[k].name : "";
        uint64_t limit = c->semaphores.v[k].max_others, others = 0;
        for (size_t i = 0; i < r->sessions.n; i++) {
            const struct hw_trace_config *o = &r->sessions.v[i]->config;
            for (size_t j = 0; j < o->semaphores.n; j++) {
                const struct hw_session_semaphore *s = &o->semaphores.v[j];
                if (strcmp(s->name ? s->name : "", name) != 0)
                    continue;
                others++;
                limit = s->max_others < limit ? s->max_others : limit;
                break;
            }
        }
        if (others > limit)
            return hw_fail(err, HW_EBUSY, 0,
                           "session_semaphores: %" PRIu64 " sessions hold '%.100s', of which no "
                           "more than %" PRIu64 " may run beside another",
                           others, name, limit);
    }
    return HW_OK;
}

static int check_admission(struct hw_recorder *r, const struct hw_trace_config *c, uint32_t uid,
                           struct hw_error *err)
{
    size_t of_user = 0;
    if (c->unique_session_name && strlen(c->unique_session_name) > MAX_NAME)
        return hw_fail(err, HW_EINVAL, 0, "unique_session_name has more than %u bytes", MAX_NAME);
    for (size_t i = 0; i < r->sessions.n; i++) {
        const struct hw_session *s = r->sessions.v[i];
        of_user += s->uid == uid;
        if (c->unique_session_name && s->config.unique_session_name &&
            strcmp(c->unique_session_name, s->config.unique_session_name) == 0)
            return hw_fail(err, HW_EBUSY, 0, "a session named '%s' is already running",
                           c->unique_session_name);
    }
    if (r->stopping)
        return hw_fail(err, HW_EBUSY, 0, "the recorder is ending");
    if (r->sessions.n >= MAX_SESSIONS || of_user >= MAX_SESSIONS_USER)
        return hw_fail(err, HW_ELIMIT, 0,
                       "too many sessions are running (%zu in all, %zu of them yours); end one "
                       "with heapwise stop",
                       r->sessions.n, of_user);
    return check_semaphores(r, c, err);
}

static int add_sources(struct hw_session *s, uint64_t now, struct hw_error *err)
{
    for (size_t i = 0; i < s->config.heapprofd.n; i++) {
        struct hw_source src = {.config = &s->config.heapprofd.v[i]};
        int rc = hw_profile_writer_new(s->writer, &src.writer);
        if (rc < 0 || hw_vec_push(&s->sources, src) < 0) {
            hw_profile_writer_free(src.writer);
            return hw_fail(err, HW_ENOMEM, 0, "session");
        }
        if (src.config->dump_interval_ms)
            s->sources.v[i].next_dump_ns = now + src.config->dump_phase_ms * MS;
    }
    for (uint32_t i = 0; i < s->config.java.n; i++) {
        struct hw_java_source *j;
        int rc = hw_java_source_new(s, i, now, &j, err);
        if (rc < 0)
            return rc;
        if (hw_vec_push(&s->java, j) < 0) {
            hw_java_source_free(j);
            return hw_fail(err, HW_ENOMEM, 0, "session");
        }
    }
    return HW_OK;
}

static void tell_warnings(struct hw_session *s)
{
    char *p = s->config.warnings.p;
    while (p && *p) {
        char *nl = strchr(p, '\n');
        if (nl)
            *nl = '\0';
        if (*p)
            hw_session_warn(s, "%s", p);
        p = nl ? nl + 1 : NULL;
    }
}

bool hw_session_wants_idle(const struct hw_session *s, uint32_t source)
{
    return (s->start.flags & HW_START_IDLE) || s->config.heapprofd.v[source].idle_allocations;
}

/* Prepared programs know one name only. */
static void tell_taken_name(struct hw_session *s)
{
    const struct hw_recorder *r = s->rec;
    char who[160];
    int32_t holder;
    bool later = false;
    for (size_t i = 0; i < s->sources.n; i++)
        later |= s->sources.v[i].config->all || s->sources.v[i].config->process_cmdline.n;
    if (!later || !r->taken_name[0] || !hw_holder_listens(r->taken_name, &holder))
        return;
    hw_holder_describe(r->looker, &s->asking.who, holder, who, sizeof who);
    hw_session_warn(s,
                    "another recorder%s%s%s is listening at '%s': programs started with LD_PRELOAD "
                    "from now on connect to that one",
                    who[0] ? " (" : "", who, who[0] ? ")" : "", r->taken_name);
}

/* What is asked for and cannot be had is said once, not ignored. */
static void tell_missing(struct hw_session *s)
{
    tell_taken_name(s);
    bool idle = false, at_max = false;
    for (uint32_t i = 0; i < s->config.heapprofd.n; i++) {
        bool wants = hw_session_wants_idle(s, i);
        idle |= wants;
        at_max |= wants && s->config.heapprofd.v[i].dump_at_max;
    }
    if (at_max)
        hw_session_warn(s, "idle allocations are not measured at the maximum (dump_at_max)");
    if (idle && hw_idle_available() == HW_IDLE_REFERENCED)
        hw_session_warn(s, "idle allocations: the kernel has no idle page bitmap "
                           "(CONFIG_IDLE_PAGE_TRACKING), so memory counts as idle only where its "
                           "whole mapping was not used since the last dump");
    else if (idle && hw_idle_available() == HW_IDLE_NONE)
        hw_session_warn(s, "idle allocations are not measured: the kernel has no idle page bitmap "
                           "(CONFIG_IDLE_PAGE_TRACKING) and no clear_refs");
    if (s->config.has_packages_list)
        hw_session_warn(s,
                        "Linux has no list of Android packages: android.packages_list stays empty");
}

/* One for each data source, one for its streaming events, one for procpoll.c, one for
 * marks, one for slices. */
static uint32_t n_sequences(const struct hw_session *s)
{
    uint32_t n = 2 + (uint32_t)s->config.java.n;
    bool slices = false;
    for (size_t i = 0; i < s->config.heapprofd.n; i++) {
        n += 1 + s->config.heapprofd.v[i].stream_allocations;
        slices |= s->config.heapprofd.v[i].record_slices;
    }
    return n + slices;
}

static int write_start(struct hw_session *s, struct hw_bytes config, struct hw_error *err)
{
    int rc = hw_trace_writer_new(s->fd, &s->writer, err);
    if (rc == HW_OK)
        rc = hw_trace_write_preamble(s->writer, config, s->config.uuid_msb, s->config.uuid_lsb,
                                     n_sequences(s), err);
    if (rc == HW_OK) /* from here on: what a reader looks for first stays plain */
        hw_trace_writer_set_compression(s->writer,
                                        s->config.compression == 2   ? HW_TRACE_ZSTD
                                        : s->config.compression == 1 ? HW_TRACE_DEFLATE
                                                                     : HW_TRACE_PLAIN,
                                        s->config.zstd_level);
    return rc;
}

static uint64_t tick_ns(void)
{
    return SEC / (uint64_t)sysconf(_SC_CLK_TCK);
}

/*
 * The kernel tells a process's start in clock ticks. One that starts because its starter heard
 * "started" must be later than the session by that clock, too, so the tick (10 ms at most) is
 * waited for: a third of those seen came one tick later, and on a faster machine in the same.
 */
static void let_tick_pass(const struct hw_session *s)
{
    bool any = false;
    for (size_t i = 0; i < s->sources.n; i++)
        any |= s->sources.v[i].config->all || s->sources.v[i].config->process_cmdline.n ||
               s->sources.v[i].config->pids.n;
    if (!any || (s->start.flags & HW_START_LAUNCHED))
        return;
    uint64_t next = (s->start_ticks + 1) * tick_ns();
    for (uint64_t now; (now = hw_now_boottime_ns()) < next;)
        (void)usleep((useconds_t)((next - now) / 1000 + 1)); /* a signal: once more */
}

/* What the command has started, as the recorder has seen itself. */
static void take_root(struct hw_session *s, struct hw_control_conn *c)
{
    if (!(s->start.flags & HW_START_LAUNCHED) || c->root.pid < 0)
        return;
    s->root = c->root;
    c->root = HW_PID_NONE;
    s->asking.root = (struct hw_relative){s->root.pid, s->root.start_ticks};
    s->asking.all_launched = s->rec->embedded && (s->start.flags & HW_START_FOLLOW_FORK);
}

int hw_session_new(struct hw_recorder *r, const struct hw_control_start *start,
                   struct hw_bytes config, int fd, uint32_t uid, struct hw_control_conn *control,
                   struct hw_session **out, struct hw_error *err)
{
    struct hw_session *s = calloc(1, sizeof *s);
    if (!s) {
        (void)close(fd); /* nothing was written */
        return hw_fail(err, HW_ENOMEM, 0, "session");
    }
    uint64_t now = hw_now_monotonic_ns();
    s->rec = r;
    s->fd = fd;
    s->uid = uid;
    s->start = *start;
    s->root = HW_PID_NONE;
    hw_asking_init(&s->asking, &control->who, control->pid, &r->policy);
    take_root(s, control);
    s->id = ++r->next_session;
    s->generation = ++r->next_generation;
    s->started_ns = s->last_checkpoint_ns = now;
    s->start_ticks = hw_now_boottime_ns() / tick_ns();
    s->checkpoint_every_ns = hw_session_period_ns("HEAPWISE_CHECKPOINT_MS", CHECKPOINT_MS);
    s->guards_every_ns = hw_session_period_ns("HEAPWISE_GUARDRAIL_MS", GUARDS_MS);
    s->next_guard_ns = now + s->guards_every_ns;
    s->cpu_start_us = cpu_us();
    s->ring_budget = hw_memory_there_is() / 16;
    int rc = hw_config_read(config, &s->config, err);
    uint64_t clocks_ms = s->config.clock_interval_ms;
    s->clocks_every_ns = (clocks_ms ? clocks_ms : CLOCKS_MS) * MS;
    s->next_clock_ns = now + s->clocks_every_ns;
    if (rc == HW_OK)
        rc = check_admission(r, &s->config, uid, err);
    if (rc == HW_OK)
        rc = write_start(s, config, err);
    if (rc == HW_OK)
        rc = add_sources(s, now, err);
    if (rc == HW_OK)
        rc = hw_proc_poll_new(s, &s->proc);
    if (rc == HW_OK && hw_vec_push(&r->sessions, s) < 0)
        rc = hw_fail(err, HW_ENOMEM, 0, "session");
    if (rc < 0) {
        hw_session_free(s);
        return rc;
    }
    s->control = control;
    tell_warnings(s);
    tell_missing(s);
    hw_starts_add(s);
    hw_attach_scan(s); /* who starts behind "started" is not one that ran already */
    hw_clients_wake(r);
    let_tick_pass(s);
    rc = hw_trace_write_event(s->writer, 1 /* all_data_sources_started */, err);
    if (rc < 0)
        hw_session_write_failed(s, rc, err);
    hw_control_send(control, HW_CTL_STARTED, s->id, &s->id, sizeof s->id, NULL);
    *out = s;
    return HW_OK;
}

void hw_session_free(struct hw_session *s)
{
    if (!s)
        return;
    hw_starts_drop(s);
    hw_vec_done(&s->followed);
    hw_vec_done(&s->missed);
    hw_attach_forget(s);
    hw_start_forget(s);
    hw_inject_forget(s);
    hw_proc_poll_free(s->proc);
    for (size_t i = 0; i < s->java.n; i++)
        hw_java_source_free(s->java.v[i]);
    hw_vec_done(&s->java);
    for (size_t i = 0; i < s->sources.n; i++) {
        hw_profile_writer_free(s->sources.v[i].writer);
        hw_vec_done(&s->sources.v[i].rejected);
    }
    hw_vec_done(&s->sources);
    hw_slice_writer_free(s->slices);
    hw_trace_writer_free(s->writer);
    hw_trace_config_done(&s->config);
    hw_asking_done(&s->asking);
    hw_vec_done(&s->refused);
    hw_vec_done(&s->left);
    hw_vec_done(&s->broken_off);
    hw_pid_done(&s->root);
    free(s->detach_key);
    if (s->fd >= 0)
        (void)close(s->fd); /* every packet was written, and its result checked */
    if (s->control)
        s->control->session = NULL;
    free(s);
}

/* ---- who is meant ---- */

bool hw_session_is_later(const struct hw_session *s, const struct hw_pid *pid)
{
    return pid->start_ticks > s->start_ticks;
}

static bool is_named(const struct hw_session *s, const struct hw_heapprofd_config *c,
                     const struct hw_pid *pid, const struct hw_proc_status *st)
{
    char argv0[512], exe[256];
    char *cmdline = NULL;
    size_t n;
    bool maybe = false, is = false;
    struct hw_look_who who = hw_look_at(pid, st->uid);
    hw_look_argv0(s->rec->looker, who, argv0, sizeof argv0);
    for (size_t i = 0; i < c->process_cmdline.n; i++) {
        if (hw_config_name_matches(c->process_cmdline.v[i], argv0))
            return true;
        maybe |= hw_name_may_be_comm(c->process_cmdline.v[i], st->name);
    }
    if (!maybe || hw_look_cmdline(s->rec->looker, who, &cmdline, &n) != HW_OK)
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

/* 0 = there is none any more. */
static uint64_t start_of(int32_t pid)
{
    struct hw_pid p;
    if (hw_pid_open(pid, &p, NULL) < 0)
        return 0;
    uint64_t ticks = p.start_ticks;
    hw_pid_done(&p);
    return ticks;
}

bool hw_session_was_refused(const struct hw_session *s, int32_t pid)
{
    for (size_t i = 0; i < s->refused.n; i++) {
        uint64_t now = s->refused.v[i].pid == pid ? start_of(pid) : 0;
        if (s->refused.v[i].pid == pid)
            return now == 0 || now == s->refused.v[i].start_ticks;
    }
    return false;
}

bool hw_session_remember_refused(struct hw_session *s, int32_t pid)
{
    const struct hw_left one = {pid, start_of(pid)};
    for (size_t i = 0; i < s->refused.n; i++)
        if (s->refused.v[i].pid == pid) {
            s->refused.v[i] = one; /* the one before has ended */
            return true;
        }
    return hw_vec_push(&s->refused, one) == 0;
}

bool hw_session_refuse(struct hw_session *s, uint32_t source, int32_t pid, const char *reason)
{
    struct hw_error err;
    if (hw_session_was_refused(s, pid) || source >= s->sources.n || s->closed ||
        !hw_session_remember_refused(s, pid))
        return false; /* told again */
    int rc = hw_profile_refused(s->sources.v[source].writer, (uint64_t)pid,
                                s->sources.v[source].config->default_interval_bytes, reason, &err);
    if (rc < 0)
        hw_session_write_failed(s, rc, &err);
    return true;
}

/* ---- --follow-fork of processes that we did not start ---- */

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

void hw_session_follow(struct hw_session *s, const struct hw_pid *pid, uint32_t source)
{
    if (!follows(s))
        return;
    for (size_t i = 0; i < s->followed.n; i++)
        if (s->followed.v[i].pid == pid->pid) {
            s->followed.v[i].start_ticks = pid->start_ticks;
            return;
        }
    if (hw_vec_push(&s->followed, ((struct hw_followed){pid->pid, pid->start_ticks, source})) == 0)
        hw_starts_follow(s, pid->pid); /* else its children are not followed */
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

/* Who asks for everything gets what he may have. Who names a process learns why he does not: at
 * once, and in the trace. */
static void refuse_if_meant(struct hw_session *s, const struct hw_conn *c, const struct hw_pid *pid,
                            const struct hw_proc_status *st, const char *reason)
{
    for (uint32_t i = 0; i < s->sources.n && !(s->start.flags & HW_START_LAUNCHED); i++) {
        const struct hw_heapprofd_config *h = s->sources.v[i].config;
        bool named = h->process_cmdline.n != 0; /* that it is called so would be told */
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
    if (s->stopping || s->sources.n == 0 || hw_leave_has_left(s, pid) ||
        hw_proc_status(pid->dir, &st) < 0)
        return false;
    bool other_image = c->hello.flags & HW_HELLO_STARTUP;
    if (!other_image && hw_again_rests(s, pid))
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
    return means(s, c, pid, source) && hw_start_is_due(s, *source, pid);
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
        hw_holder_describe(s->rec->looker, &s->asking.who, has->control->pid, who, sizeof who);
    (void)snprintf(out, 256, "another session profiles it%s%s%s", who[0] ? " (" : "", who,
                   who[0] ? ")" : "");
    return out;
}

/* Said once. */
static void reject(struct hw_session *s, uint32_t source, int32_t pid, const char *why)
{
    struct hw_source *src = &s->sources.v[source];
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

int hw_session_held_elsewhere(const struct hw_session *s, int32_t holder, int rc,
                              struct hw_error *err)
{
    char who[160];
    hw_holder_describe(s->rec->looker, &s->asking.who, holder, who, sizeof who);
    return hw_fail(err, rc, 0, "another recorder has it%s%s%s; end that one first",
                   who[0] ? " (" : "", who, who[0] ? ")" : "");
}

void hw_session_called(struct hw_session *s, int32_t pid)
{
    struct hw_control_target_state b = {.pid = pid, .state = HW_TARGET_CALLED};
    hw_control_send(s->control, HW_CTL_TARGET_STATE, s->id, &b, sizeof b, NULL);
}

void hw_session_fail(struct hw_session *s, int32_t pid, const char *text)
{
    struct hw_control_target_state b = {.pid = pid, .state = HW_TARGET_FAILED};
    char prefix[32];
    (void)snprintf(prefix, sizeof prefix, "process %d", pid);
    size_t n = strlen(prefix);
    bool first = hw_session_refuse(s, /* source = */ 0, pid, text);
    if (!s->control && first)
        hw_session_warn(s, "not profiled: %s", text);
    if (!s->control)
        return;
    if (strncmp(text, prefix, n) == 0) /* the message begins with it anyway */
        text += text[n] == ':' ? n + 2 : n + 1;
    hw_control_send(s->control, HW_CTL_TARGET_STATE, s->id, &b, sizeof b, text);
}

void hw_session_has(struct hw_session *s, uint32_t source, int32_t pid)
{
    struct hw_source *src = &s->sources.v[source];
    for (size_t i = 0; i < src->rejected.n; i++)
        if (src->rejected.v[i] == pid)
            src->rejected.v[i--] = src->rejected.v[--src->rejected.n];
}

/* An image that connects anew has replaced the one we knew: exec closes before it opens. */
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
static void reject_running(struct hw_session *s)
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

/* ---- dumps and end ---- */

void hw_session_dump(struct hw_session *s, const char *trigger, const int32_t *pids, size_t n)
{
    for (size_t i = 0; i < s->rec->targets.n; i++) {
        struct hw_target *t = s->rec->targets.v[i];
        bool meant = n == 0;
        for (size_t k = 0; k < n; k++)
            meant |= pids[k] == t->pid.pid;
        if (t->session == s && meant && t->phase == HW_PHASE_RUNNING)
            hw_dump_request(t, trigger, false);
    }
    for (size_t i = 0; i < s->java.n && n == 0 && strcmp(trigger, "checkpoint") != 0; i++)
        hw_java_source_dump(s->java.v[i]);
}

static void dump_source(struct hw_session *s, uint32_t source, const char *trigger)
{
    for (size_t i = 0; i < s->rec->targets.n; i++) {
        struct hw_target *t = s->rec->targets.v[i];
        if (t->session == s && t->source == source && t->phase == HW_PHASE_RUNNING)
            hw_dump_request(t, trigger, false);
    }
}

/* A heap graph that is under way asks for a dump of its process: that one comes first. */
static void finish_targets(struct hw_session *s, uint64_t now)
{
    bool busy = false;
    for (size_t i = 0; i < s->java.n; i++)
        busy |= hw_java_source_busy(s->java.v[i]);
    if (busy && s->status == HW_OK && now < s->stop_deadline_ns)
        return;
    s->targets_due = false;
    for (size_t i = 0; i < s->rec->targets.n; i++)
        if (s->rec->targets.v[i]->session == s)
            hw_target_finish(s->rec->targets.v[i], HW_END_SESSION);
}

void hw_session_stop(struct hw_session *s, const char *reason, int status)
{
    if (s->stopping)
        return;
    s->stopping = true;
    s->status = status;
    hw_starts_drop(s);
    (void)snprintf(s->reason, sizeof s->reason, "%s", reason);
    uint64_t wait_ms = s->config.stop_timeout_ms ? s->config.stop_timeout_ms : 5000;
    s->stopped_ns = hw_now_monotonic_ns();
    s->stop_deadline_ns = s->stopped_ns + wait_ms * MS;
    s->targets_due = true;
    for (size_t i = 0; i < s->java.n; i++)
        hw_java_source_end(s->java.v[i]);
    finish_targets(s, hw_now_monotonic_ns());
}

/* What can be written at once is, without names that are not known yet; nothing else is waited for
 * longer than that takes. */
void hw_session_hurry(struct hw_session *s)
{
    if (!s->stopping || s->hurried)
        return;
    s->hurried = true;
    uint64_t end = hw_now_monotonic_ns() + HURRY_NS;
    if (s->stop_deadline_ns > end)
        s->stop_deadline_ns = end;
    if (s->targets_due)
        finish_targets(s, s->stop_deadline_ns);
}

/* Nobody could answer faster for it: that time is not his. */
void hw_session_wrote(struct hw_session *s, uint64_t began_ns)
{
    if (!s->stopping || s->hurried)
        return;
    uint64_t since = began_ns > s->stopped_ns ? began_ns : s->stopped_ns;
    s->stop_deadline_ns += hw_now_monotonic_ns() - since;
}

void hw_session_write_failed(struct hw_session *s, int rc, const struct hw_error *err)
{
    char text[160];
    if (s->status < 0)
        return; /* said once */
    (void)snprintf(text, sizeof text, "%.120s; what was written before is readable", err->text);
    hw_session_warn(s, "%s", text);
    if (s->stopping) {
        s->status = rc;
        (void)snprintf(s->reason, sizeof s->reason, "%s", text);
    } else {
        hw_session_stop(s, text, rc);
    }
}

static size_t n_targets_left(const struct hw_session *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->rec->targets.n; i++)
        n += s->rec->targets.v[i]->session == s;
    return n;
}

/* Dumps whose numbers are known, and that are not in the file yet. */
static bool any_to_write(const struct hw_session *s)
{
    for (size_t i = 0; i < s->rec->targets.n; i++) {
        const struct hw_target *t = s->rec->targets.v[i];
        if (t->session == s && t->dump.active && t->dump.snap)
            return true;
    }
    return false;
}

static void write_end(struct hw_session *s)
{
    struct hw_error err = {0};
    int rc = s->status < 0 ? s->status : HW_OK;
    for (size_t i = 0; i < s->sources.n; i++)
        for (size_t k = 0; rc == HW_OK && k < s->sources.v[i].rejected.n; k++)
            rc = hw_profile_rejected(s->sources.v[i].writer,
                                     (uint64_t)s->sources.v[i].rejected.v[k], &err);
    if (rc == HW_OK)
        rc = hw_trace_write_event(s->writer, 3 /* all_data_sources_flushed */, &err);
    if (rc == HW_OK)
        rc = hw_trace_write_event(s->writer, 5 /* tracing_disabled */, &err);
    if (rc == HW_OK)
        rc = hw_trace_write_stats(s->writer, hw_missed_count(s), &err);
    if (rc == HW_OK)
        rc = hw_trace_write_event(s->writer, 4 /* read_tracing_buffers_completed */, &err);
    if (rc < 0 && s->status == HW_OK)
        hw_session_write_failed(s, rc, &err);
}

static void end(struct hw_session *s)
{
    hw_start_done(s);
    write_end(s);
    struct hw_control_ended b = {.bytes_written = hw_trace_writer_bytes(s->writer),
                                 .n_samples = s->n_samples,
                                 .n_lost = s->n_lost,
                                 .n_targets = s->n_targets,
                                 .n_dumps = s->n_dumps,
                                 .n_missed = hw_missed_count(s),
                                 .status = s->status};
    hw_control_send(s->control, HW_CTL_ENDED, s->id, &b, sizeof b, s->reason);
}

/* ---- time ---- */

static void check_guards(struct hw_session *s)
{
    uint64_t kb = hw_memory_own() / 1024, cpu = (cpu_us() - s->cpu_start_us) / 1000000u;
    for (uint32_t i = 0; i < s->sources.n; i++) {
        struct hw_source *src = &s->sources.v[i];
        const struct hw_heapprofd_config *c = src->config;
        bool memory = c->max_heapprofd_memory_kb && kb > c->max_heapprofd_memory_kb;
        bool time = c->max_heapprofd_cpu_secs && cpu > c->max_heapprofd_cpu_secs;
        if (src->hit_guardrail || (!memory && !time))
            continue;
        src->hit_guardrail = true;
        hw_session_warn(s, "profiling ends: the recorder %s",
                        memory ? "uses more memory than max_heapprofd_memory_kb"
                               : "used more CPU time than max_heapprofd_cpu_secs");
        for (size_t k = 0; k < s->rec->targets.n; k++)
            if (s->rec->targets.v[k]->session == s && s->rec->targets.v[k]->source == i)
                hw_target_finish(s->rec->targets.v[k], HW_END_GUARDRAIL);
    }
}

static void tick_dumps(struct hw_session *s, uint64_t now)
{
    for (uint32_t i = 0; i < s->sources.n; i++) {
        struct hw_source *src = &s->sources.v[i];
        if (!src->next_dump_ns || now < src->next_dump_ns)
            continue;
        dump_source(s, i, "continuous");
        uint64_t every = src->config->dump_interval_ms * MS;
        src->next_dump_ns += every;
        if (src->next_dump_ns < now) /* we were late by more than one */
            src->next_dump_ns = now + every;
        s->last_checkpoint_ns = now;
    }
    if ((s->start.flags & HW_START_CHECKPOINTS) &&
        now - s->last_checkpoint_ns > s->checkpoint_every_ns) {
        s->last_checkpoint_ns = now;
        hw_session_dump(s, "checkpoint", NULL, 0);
    }
}

uint64_t hw_target_samples(const struct hw_target *t)
{
    uint64_t now = 0;
    if (t->feed)
        now = atomic_load_explicit(&t->feed->ring.shm->counters.samples, memory_order_relaxed);
    return now > t->n_samples ? now : t->n_samples;
}

void hw_session_counters(const struct hw_session *s, uint64_t *samples, uint64_t *lost)
{
    *samples = *lost = 0;
    for (size_t i = 0; i < s->rec->targets.n; i++) {
        const struct hw_target *t = s->rec->targets.v[i];
        if (t->session != s || !t->feed)
            continue;
        const struct hw_ring_counters *c = &t->feed->ring.shm->counters;
        *samples += hw_target_samples(t);
        *lost += atomic_load_explicit(&c->lost_full, memory_order_relaxed);
    }
    *samples = *samples > s->n_samples ? *samples : s->n_samples;
    *lost = *lost > s->n_lost ? *lost : s->n_lost;
}

static void tick_progress(struct hw_session *s, uint64_t now)
{
    if (now < s->next_progress_ns || !s->control)
        return;
    s->next_progress_ns = now + PROGRESS_EVERY;
    struct hw_control_progress p = {.bytes_written = hw_trace_writer_bytes(s->writer),
                                    .n_dumps = s->n_dumps,
                                    .n_targets = (uint32_t)n_targets_left(s),
                                    .sampling_ns = hw_rate_spent_ns(s)};
    hw_session_counters(s, &p.n_samples, &p.n_lost);
    hw_control_send(s->control, HW_CTL_PROGRESS, s->id, &p, sizeof p, NULL);
}

/* Forked children that have asked: one that lives is recorded, one that has ended is told of. */
static bool hears_children(struct hw_session *s)
{
    return hw_missed_counts(s) && hw_clients_hear(s->rec);
}

static bool is_over(struct hw_session *s)
{
    if (n_targets_left(s) != 0)
        return false;
    (void)hears_children(s); /* who is left is heard before the file ends */
    return n_targets_left(s) == 0;
}

static void check_ends(struct hw_session *s, uint64_t now)
{
    if (s->config.duration_ms && now - s->started_ns >= s->config.duration_ms * MS)
        hw_session_stop(s, "its duration (-d) has passed", HW_OK);
    else if (s->config.max_file_size_bytes &&
             hw_trace_writer_bytes(s->writer) >= s->config.max_file_size_bytes)
        hw_session_stop(s, "the file has reached max_file_size_bytes", HW_OK);
    else if ((s->start.flags & HW_START_UNTIL_GONE) && hw_leave_nobody(s) && is_over(s))
        hw_session_stop(s, "none of its processes is left", HW_OK);
    else if ((s->start.flags & HW_START_LAUNCHED) && s->root.pid > 0 && !hw_pid_alive(&s->root) &&
             is_over(s))
        hw_session_stop(s, "the program has ended", HW_OK);
}

static void tick_clocks(struct hw_session *s, uint64_t now)
{
    struct hw_error err;
    if (now < s->next_clock_ns || s->config.no_clocks)
        return;
    s->next_clock_ns = now + s->clocks_every_ns;
    int rc = hw_trace_write_clocks(s->writer, &err);
    if (rc < 0)
        hw_session_write_failed(s, rc, &err);
}

/* After the stop's time-out: what has not been drained is dropped, what has is written; to its end,
 * unless the session is in a hurry. */
static void tick_stopping(struct hw_session *s, uint64_t now)
{
    uint64_t last_wait_ns = s->hurried ? SEC : 5 * SEC;
    if (s->targets_due)
        finish_targets(s, now);
    size_t targets = n_targets_left(s), hooked = targets ? 0 : hw_inject_leave(s), graphs = 0;
    for (size_t i = 0; i < s->java.n; i++)
        graphs += hw_java_source_busy(s->java.v[i]);
    size_t left = targets + hooked + graphs;
    bool unheard = left == 0 && now < s->stop_deadline_ns && hears_children(s);
    bool over = now > s->stop_deadline_ns + last_wait_ns && (s->hurried || !any_to_write(s));
    if (!s->closed && ((left == 0 && !unheard) || over)) {
        if (targets)
            hw_session_warn(
                s, "some programs did not answer in time and are missing from the trace: %zu",
                targets);
        if (hooked)
            hw_session_warn(s,
                            "some processes could not be stopped in time and keep the hooks, which "
                            "do nothing: %zu",
                            hooked);
        if (graphs)
            hw_session_warn(s, "a heap graph was not ready in time and is missing from the trace");
        end(s);
        s->closed = true;
    }
    s->ended = s->closed && left == 0; /* targets name it to their end */
}

void hw_session_tick(struct hw_session *s, uint64_t now)
{
    if (s->ended)
        return;
    if (!s->started_told) {
        s->started_told = true;
        reject_running(s);
    }
    if (s->stopping) {
        tick_stopping(s, now);
        return;
    }
    check_ends(s, now);
    tick_dumps(s, now);
    hw_triggers_tick(s, now);
    hw_again_tick(s, now);
    tick_clocks(s, now);
    tick_progress(s, now);
    if (s->proc)
        hw_proc_poll_tick(s->proc, now);
    for (size_t i = 0; i < s->java.n; i++)
        hw_java_source_tick(s->java.v[i], now);
    if (now >= s->next_guard_ns) {
        s->next_guard_ns = now + s->guards_every_ns;
        check_guards(s);
    }
}

/* A recording starts: may it, which sources, what its file says first. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files/machine_memory.h"
#include "daemon/code/holder.h"
#include "daemon/core.h"
#include "daemon/java_source.h"
#include "daemon/policy/permission.h"
#include "daemon/session/output_file.h"
#include "trace/profile_writer.h"
#include "trace/slice_writer.h"
#include "trace/writer.h"

#include "base/banned.h"

#define SEC               UINT64_C(1000000000)
#define MS                UINT64_C(1000000)
#define CHECKPOINT_MS     60000u
#define CLOCKS_MS         10000u
#define GUARDS_MS         30000u
#define MAX_SESSIONS      15u
#define MAX_SESSIONS_USER 5u
#define MAX_NAME          256u

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
        struct hw_session_source src = {.config = &s->config.heapprofd.v[i]};
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
    hw_holder_describe(r->blocking_reader, &s->asking.who, holder, who, sizeof who);
    hw_session_warn(s,
                    "another recorder%s%s%s is listening at '%s': programs started with LD_PRELOAD "
                    "from now on connect to that one",
                    who[0] ? " (" : "", who, who[0] ? ")" : "", r->taken_name);
}

/* What was requested and cannot be had is reported once, not ignored. */
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

/* A service has files of others: they must not keep it waiting. */
static int writer_new(struct hw_session *s, struct hw_error *err)
{
    struct hw_trace_sink sink = {.write = hw_output_file_write, .cut = hw_output_file_cut};
    if (s->rec->embedded)
        return hw_trace_writer_new(s->fd, &s->writer, err);
    if (hw_output_file_new(s->fd, s->uid, &s->output, &sink.start) < 0)
        return errno == ETIMEDOUT
                   ? hw_fail(err, HW_ETIMEOUT, 0,
                             "the output file does not respond: its disk, or a process that has it "
                             "locked; write elsewhere")
                   : hw_fail_sys(err, "the output file");
    sink.ctx = s->output;
    return hw_trace_writer_new_to(&sink, &s->writer, err);
}

static int write_start(struct hw_session *s, struct hw_bytes config, struct hw_error *err)
{
    int rc = writer_new(s, err);
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
 * The kernel gives a process's start in clock ticks. One that starts because its starter was told
 * "started" must be later than the session by that clock, too, so we wait for the tick (10 ms at
 * most): a third of those seen came one tick later, and on a faster machine in the same.
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

/* What the command has started, as the recorder itself has seen. */
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
    hw_permission_request_init(&s->asking, &control->who, control->pid, &r->policy);
    take_root(s, control);
    s->id = ++r->next_session;
    s->generation = ++r->next_generation;
    s->started_ns = s->last_checkpoint_ns = now;
    s->start_ticks = hw_now_boottime_ns() / tick_ns();
    s->checkpoint_every_ns = hw_session_period_ns("HEAPWISE_CHECKPOINT_MS", CHECKPOINT_MS);
    s->guards_every_ns = hw_session_period_ns("HEAPWISE_GUARDRAIL_MS", GUARDS_MS);
    s->next_guard_ns = now + s->guards_every_ns;
    s->cpu_start_us = hw_session_cpu_us();
    s->ring_budget = hw_machine_memory() / 16;
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
    hw_exec_watch_add(s);
    hw_attach_scan(s); /* a process that starts after "started" is not one that ran already */
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
    hw_exec_watch_drop(s);
    hw_vec_done(&s->followed);
    hw_vec_done(&s->missed);
    hw_attach_forget(s);
    hw_start_when_forget(s);
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
    hw_session_silent_done(s);
    hw_profile_writer_free(s->go_writer);
    hw_slice_writer_free(s->slices);
    hw_trace_writer_free(s->writer);
    hw_trace_config_done(&s->config);
    hw_permission_request_done(&s->asking);
    hw_vec_done(&s->refused);
    hw_vec_done(&s->left);
    hw_session_forget_forks(s);
    hw_session_forget_parents(s);
    hw_vec_done(&s->broken_off);
    hw_pid_done(&s->root);
    free(s->detach_key);
    hw_output_file_free(s->output);
    if (s->fd >= 0)
        (void)close(s->fd); /* every packet was written, and its result checked */
    if (s->control)
        s->control->session = NULL;
    free(s);
}

/*
 * session.c - one recording: when to dump, when to end
 *
 *   START ── running ──> stopping (final dumps of all targets) ──> ended (service packets, ENDED)
 *
 * A session ends by STOP, its duration, its file's size, the command's end, a signal to the
 * recorder, a write error, or because the command it watched has ended with all its descendants.
 */
#include "base/clock.h"
#include "daemon/core.h"
#include "daemon/hello.h"
#include "daemon/java_source.h"
#include "daemon/policy/memory.h"
#include "daemon/policy/unrecorded.h"
#include "trace/profile_writer.h"
#include "trace/writer.h"

#include "base/banned.h"

#define SEC            UINT64_C(1000000000)
#define MS             UINT64_C(1000000)
#define PROGRESS_EVERY (250 * MS)

/* ---- its end ---- */

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
        rc = hw_trace_write_stats(s->writer, hw_unrecorded_count(s), &err);
    if (rc == HW_OK)
        rc = hw_trace_write_event(s->writer, 4 /* read_tracing_buffers_completed */, &err);
    if (rc < 0 && s->status == HW_OK)
        hw_session_write_failed(s, rc, &err);
}

static void end(struct hw_session *s)
{
    hw_start_when_end(s);
    write_end(s);
    struct hw_control_ended b = {.bytes_written = hw_trace_writer_bytes(s->writer),
                                 .n_samples = s->n_samples,
                                 .n_lost = s->n_lost,
                                 .n_targets = s->n_targets + s->n_read,
                                 .n_dumps = s->n_dumps,
                                 .n_missed = hw_unrecorded_count(s),
                                 .status = s->status};
    hw_control_send(s->control, HW_CTL_ENDED, s->id, &b, sizeof b, s->reason);
}

/* ---- time ---- */

static void check_guards(struct hw_session *s)
{
    uint64_t kb = hw_memory_own() / 1024, cpu = (hw_session_cpu_us() - s->cpu_start_us) / 1000000u;
    for (uint32_t i = 0; i < s->sources.n; i++) {
        struct hw_session_source *src = &s->sources.v[i];
        const struct hw_heapprofd_config *c = src->config;
        bool memory = c->max_heapprofd_memory_kb && kb > c->max_heapprofd_memory_kb;
        bool time = c->max_heapprofd_cpu_secs && cpu > c->max_heapprofd_cpu_secs;
        if (src->hit_guardrail || (!memory && !time))
            continue;
        src->hit_guardrail = true;
        for (size_t k = 0; k < s->rec->targets.n; k++)
            if (s->rec->targets.v[k]->session == s && s->rec->targets.v[k]->source == i)
                hw_target_finish(s->rec->targets.v[k], HW_END_GUARDRAIL);
        hw_session_warn(s, "profiling ends: the recorder %s",
                        memory ? "uses more memory than max_heapprofd_memory_kb"
                               : "used more CPU time than max_heapprofd_cpu_secs");
    }
}

static void tick_dumps(struct hw_session *s, uint64_t now)
{
    for (uint32_t i = 0; i < s->sources.n; i++) {
        struct hw_session_source *src = &s->sources.v[i];
        if (!src->next_dump_ns || now < src->next_dump_ns)
            continue;
        hw_session_dump_source(s, i, "continuous");
        hw_session_silent_dump(s, /* final = */ false);
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

static void tick_progress(struct hw_session *s, uint64_t now)
{
    if (now < s->next_progress_ns || !s->control)
        return;
    s->next_progress_ns = now + PROGRESS_EVERY;
    struct hw_control_progress p = {.bytes_written = hw_trace_writer_bytes(s->writer),
                                    .n_dumps = s->n_dumps,
                                    .n_targets = (uint32_t)n_targets_left(s),
                                    .sampling_ns = hw_session_sampling_ns(s)};
    hw_session_counters(s, &p.n_samples, &p.n_lost);
    hw_control_send(s->control, HW_CTL_PROGRESS, s->id, &p, sizeof p, NULL);
}

/* Forked children that have asked: a living one is recorded, one that has ended is reported. */
static bool admit_children(struct hw_session *s)
{
    return hw_unrecorded_counts(s) && hw_hello_read(s->rec);
}

static bool is_over(struct hw_session *s)
{
    if (n_targets_left(s) != 0)
        return false;
    (void)admit_children(s); /* those still waiting are admitted before the file ends */
    return n_targets_left(s) == 0;
}

/* With --follow-fork the command that records decides: it knows of forked children that have not
 * allocated, and so not asked, yet. */
static bool ends_with_root(const struct hw_session *s)
{
    return (s->start.flags & HW_START_LAUNCHED) && s->root.pid > 0 &&
           !((s->start.flags & HW_START_FOLLOW_FORK) && s->control);
}

static void check_ends(struct hw_session *s, uint64_t now)
{
    if (s->config.duration_ms && now - s->started_ns >= s->config.duration_ms * MS)
        hw_session_stop(s, "its duration (-d) has passed");
    else if (s->config.max_file_size_bytes &&
             hw_trace_writer_bytes(s->writer) >= s->config.max_file_size_bytes)
        hw_session_stop(s, "the file has reached max_file_size_bytes");
    else if ((s->start.flags & HW_START_UNTIL_GONE) && hw_session_excluded_all(s) && is_over(s))
        hw_session_stop(s, "none of its processes is left");
    else if (ends_with_root(s) && !hw_pid_alive(&s->root) && is_over(s))
        hw_session_stop(s, "the program has ended");
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

/* After the stop's time-out: what has not been drained is dropped, what has is written; to its
 * end, unless the session is in a hurry. */
static void tick_stopping(struct hw_session *s, uint64_t now)
{
    uint64_t last_wait_ns = s->hurried ? SEC : 5 * SEC;
    if (s->targets_due)
        hw_session_finish_targets(s, now);
    size_t targets = n_targets_left(s), hooked = targets ? 0 : hw_inject_leave(s), graphs = 0;
    for (size_t i = 0; i < s->java.n; i++)
        graphs += hw_java_source_busy(s->java.v[i]);
    size_t left = targets + hooked + graphs;
    bool unheard = left == 0 && now < s->stop_deadline_ns && admit_children(s);
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
    s->ended = s->closed && left == 0; /* targets refer to it until their end */
}

/* From here on it is meant again; it says hello at its next allocation. */
static void wake_rested(struct hw_session *s, uint64_t now)
{
    for (int32_t pid; (pid = hw_record_again_next(s, now)) != 0;)
        hw_attach_found(s->rec, pid, "", /* grown = */ false);
}

void hw_session_tick(struct hw_session *s, uint64_t now)
{
    if (s->ended)
        return;
    if (!s->started_told) {
        s->started_told = true;
        hw_session_reject_running(s);
        if (s->root.pid > 0)
            hw_session_silent_add(s, s->root.pid);
    }
    if (s->status < 0) /* a write failed since */
        hw_session_stop(s, s->reason);
    if (s->stopping) {
        tick_stopping(s, now);
        return;
    }
    check_ends(s, now);
    tick_dumps(s, now);
    hw_triggers_tick(s, now);
    wake_rested(s, now);
    tick_clocks(s, now);
    tick_progress(s, now);
    if (s->proc)
        hw_proc_poll_tick(s->proc, now);
    hw_session_silent_tick(s, now);
    for (size_t i = 0; i < s->java.n; i++)
        hw_java_source_tick(s->java.v[i], now);
    if (now >= s->next_guard_ns) {
        s->next_guard_ns = now + s->guards_every_ns;
        check_guards(s);
    }
}

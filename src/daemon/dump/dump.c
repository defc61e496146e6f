/*
 * dump.c - from "dump now" to what can be written
 *
 *   request ──order──> drain thread: drain, snapshot ──answer──> resolve stacks ──> names from the
 *   workers ──> written in turns (dump_turns.c). The target keeps running meanwhile, and its ring
 *   is drained as always: the snapshot has fixed what is written.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/files/fd.h"
#include "base/log.h"
#include "daemon/core.h"
#include "daemon/dump/dump_job.h"
#include "daemon/events.h"
#include "trace/profile_writer.h"
#include "trace/writer.h"

#include "base/banned.h"

#define NAMES_WAIT_NS   UINT64_C(20000000000)
#define MANAGED_WAIT_NS UINT64_C(500000000) /* names that the target sends */

/* ---- requests ---- */

uint32_t hw_dump_flags(const struct hw_target *t)
{
    if (t->session->sources.v[t->source].config->dump_at_max)
        return HW_SNAP_MAX;
    return t->session->start.flags & HW_START_KEEP_PEAK ? HW_SNAP_PEAK : 0;
}

static const char live_trigger[] = HW_TRIGGER_LIVE; /* identified by its address */

static void start(struct hw_target *t, const char *trigger, bool final)
{
    struct hw_dump_job *d = &t->dump;
    bool dead = !hw_pid_alive(&t->pid) || t->end == HW_END_EXECED;
    uint32_t flags = trigger == live_trigger ? HW_SNAP_LIVE : hw_dump_flags(t);
    if (hw_drain_snap(t->rec->drain, t->feed, t->key, flags, final, dead) < 0) {
        d->next = true; /* no memory now: the tick tries again */
        d->next_final |= final;
        d->next_trigger = trigger;
        return;
    }
    d->active = true;
    d->number = ++d->newest;
    d->n_questions = t->questions.n;
    d->settled = false;
    d->final = final;
    d->trigger = trigger;
    d->since_ns = hw_now_monotonic_ns();
    if (trigger != live_trigger && !dead)
        hw_proc_poll_dump(t->session, t); /* what the kernel counts at the same moment */
    if (final)
        hw_proc_poll_last(t->session, t);
}

void hw_dump_request(struct hw_target *t, const char *trigger, bool final)
{
    struct hw_dump_job *d = &t->dump;
    if (!t->with_thread)
        return; /* the last snapshot was taken: only writing is left */
    if (d->active && d->final)
        return;
    if (!d->active) {
        start(t, trigger, final);
        return;
    }
    /* The final one wins; several others become one, and a checkpoint among them is not shown. */
    if (!d->next || final || hw_trigger_is_checkpoint(d->next_trigger)) {
        d->next = true;
        d->next_trigger = trigger;
        d->next_final |= final;
    }
}

uint64_t hw_dump_number_of_request(const struct hw_target *t)
{
    return t->dump.newest + t->dump.next;
}

void hw_dump_live(struct hw_target *t)
{
    if (t->with_thread && !t->dump.active && !t->dump.next)
        start(t, live_trigger, /* final = */ false);
}

bool hw_dump_is_live_view(const struct hw_target *t)
{
    return t->dump.trigger == live_trigger && !t->dump.final;
}

/* ---- progress of a dump ---- */

static void no_memory(struct hw_target *t)
{
    hw_session_warn(t->session, "pid %d: no memory for a dump", t->pid.pid);
}

/* The job that had stepped back continues: it waits for its answer, or the tick writes it. */
static bool come_forward(struct hw_target *t)
{
    struct hw_dump_job *d = &t->dump;
    const struct hw_dump_back b = d->back;
    if (!b.active)
        return false;
    d->back = (struct hw_dump_back){0};
    d->active = true;
    d->number = b.number;
    d->final = b.final;
    d->trigger = b.trigger;
    d->n_questions = b.n_questions;
    d->snap = b.snap;
    d->settled = false;
    d->since_ns = hw_now_monotonic_ns();
    if (b.answered && !b.snap) {
        no_memory(t);
        return false;
    }
    return true;
}

static void begin_failure(struct hw_target *t, struct hw_snapshot *s)
{
    struct hw_dump_job *d = &t->dump;
    d->has_failure = false;
    d->failure = NULL;
    d->active = true;
    d->number = 0;
    d->final = false;
    d->trigger = HW_TRIGGER_FAILURE;
    d->n_questions = 0;
    d->snap = s;
    d->settled = false;
    d->since_ns = hw_now_monotonic_ns();
}

void hw_dump_finish(struct hw_target *t)
{
    struct hw_dump_job *d = &t->dump;
    do {
        bool final = d->final;
        d->written = d->number ? d->number : d->written;
        hw_snapshot_free(d->snap);
        d->snap = NULL;
        d->active = d->final = false;
        if (final) {
            hw_profile_forget(t->session->sources.v[t->source].writer, t->key);
            t->phase = HW_PHASE_DONE;
            hw_proc_poll_successors(t);
            return;
        }
        if (d->has_failure) {
            begin_failure(t, d->failure);
            return; /* the tick writes it */
        }
        if (come_forward(t))
            return;
    } while (d->active); /* one that cannot be written is finished, too */
    if (!d->next)
        return;
    const char *trigger = d->next_trigger;
    bool next_final = d->next_final;
    d->next = d->next_final = false;
    start(t, trigger, next_final);
}

/* True: every stack of the snapshot has its frames and names, or will never have them. */
static bool settle(struct hw_target *t, bool late, uint64_t now)
{
    struct hw_dump_job *d = &t->dump;
    /* After the feed's last answer no name can come. */
    bool no_more =
        late || !t->with_thread || t->session->hurried || now - d->since_ns > MANAGED_WAIT_NS;
    if (late)
        hw_target_drop_stacks(t);
    else if (hw_target_has_stacks(t) || !hw_target_settle_names(t, no_more))
        return false;
    if (!hw_target_name_generated(t) && !late)
        return false;
    if (!hw_frames_name(&t->frames, t->rec->modules) && !late)
        return false;
    if (late)
        hw_frames_give_up_names(&t->frames);
    return true;
}

bool hw_dump_is_worth(const struct hw_target *t)
{
    if (t->end != HW_END_EXECED)
        return true;
    return !t->launcher && t->dump.snap->n_samples > 0;
}

/* Later stacks do not concern it: once settled, it stays settled. What is not shown needs no
 * names. */
bool hw_dump_is_ready(struct hw_target *t, uint64_t now)
{
    struct hw_dump_job *d = &t->dump;
    bool late = now - d->since_ns > NAMES_WAIT_NS ||
                (t->session->stopping && now > t->session->stop_deadline_ns);
    if (!d->settled)
        d->settled = !hw_dump_is_worth(t) || settle(t, late, now);
    if (!d->settled || hw_dump_is_live_view(t))
        return d->settled;
    if (t->session->writing)
        return false;
    const struct hw_target *before = hw_dump_image_before(t);
    return !before || (late && !before->dump.snap); /* its names may take longer */
}

/* Not requested, and older than any answer that is still to come. */
static void at_failure(struct hw_target *t, struct hw_snapshot *s)
{
    struct hw_dump_job *d = &t->dump;
    /* A last dump that is ordered already is also a job that steps back. */
    t->rec->events->allocation_failed(t);
    if (!s) {
        no_memory(t);
        return;
    }
    if (d->active && d->snap) {
        d->has_failure = true;
        d->failure = s;
        return;
    }
    if (d->active)
        d->back = (struct hw_dump_back){.active = true,
                                        .number = d->number,
                                        .final = d->final,
                                        .trigger = d->trigger,
                                        .n_questions = d->n_questions};
    begin_failure(t, s);
}

void hw_dump_snapshot(struct hw_target *t, struct hw_snapshot *s, uint32_t flags)
{
    struct hw_dump_job *d = &t->dump;
    if (flags & HW_DRAINED_AT_FAILURE) {
        at_failure(t, s);
        return;
    }
    if (flags & HW_DRAINED_FINAL)
        t->with_thread = false;
    if (d->back.active && !d->back.answered) {
        d->back.answered = true;
        d->back.snap = s;
        d->back.final |= (flags & HW_DRAINED_FINAL) != 0;
        return;
    }
    d->final |= (flags & HW_DRAINED_FINAL) != 0;
    if (!d->active || d->snap) { /* nobody waits for it */
        hw_snapshot_free(s);
        return;
    }
    d->snap = s;
    if (!s) {
        if (hw_dump_is_live_view(t))
            t->rec->events->look_failed(t);
        else
            no_memory(t);
        hw_dump_finish(t);
    }
}

void hw_dump_events(struct hw_target *t, struct hw_stream_event *events, size_t n)
{
    struct hw_session *s = t->session;
    struct hw_session_source *src = &s->sources.v[t->source];
    struct hw_error err = {0};
    if (!s->closed && s->status == HW_OK) {
        if (!src->stream_sequence)
            src->stream_sequence = hw_trace_writer_sequence(s->writer);
        int rc =
            hw_trace_stream(s->writer, src->stream_sequence, hw_now_boottime_ns(), events, n, &err);
        if (rc < 0)
            hw_session_write_failed(s, rc, &err);
    }
    free(events);
}

void hw_dump_tick(struct hw_target *t)
{
    struct hw_dump_job *d = &t->dump;
    if (!d->active && d->next && t->with_thread) {
        d->next = false;
        start(t, d->next_trigger, d->next_final);
    }
}

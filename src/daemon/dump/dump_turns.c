/*
 * dump_turns.c - dumps that are ready, a few milliseconds of them at a time
 *
 * A process decides how many callstacks it has, and one thread writes those of all processes. So a
 * dump is written in turns of at most SLICE and ROWS_A_SLICE rows; after TURN, signals and commands
 * are handled and other sessions served. The dumps of one session come one after the other: they
 * share its packets' sequence and what was interned there. hw_session.writing says whose turn it
 * is.
 *
 * A session that stops waits until the requested dumps are written, however long that takes, and
 * that time does not count against its other processes' time to answer. A session that is told to
 * stop twice cuts the last dump where it is when its time is over, and others at once, since the
 * last one repeats everything.
 */
#include "base/clock.h"
#include "daemon/core.h"
#include "daemon/dump/dump_job.h"
#include "daemon/dump/dump_write.h"
#include "daemon/java/java_agent_load.h"
#include "daemon/policy/unrecorded.h"
#include "trace/writer.h"

#include "base/banned.h"

#define MS           UINT64_C(1000000)
#define TURN         (20 * MS)
#define SLICE        (10 * MS)
#define ROWS_A_SLICE 10000u

static struct hw_profile_writer *writer_of(const struct hw_target *t)
{
    return t->session->sources.v[t->source].writer;
}

/* ---- stages ---- */

static void count_samples(struct hw_target *t, const struct hw_snapshot *s)
{
    t->session->n_samples += s->n_samples - t->n_samples;
    t->n_samples = s->n_samples;
    uint64_t lost = hw_dump_lost_samples(t, s);
    t->session->n_lost += lost - t->n_lost;
    t->n_lost = lost;
}

static int begin_books(struct hw_target *t, struct hw_error *err)
{
    struct hw_dump_job *d = &t->dump;
    struct hw_snapshot *s = d->snap;
    bool failed = s->broken || s->client_error != HW_CLIENT_OK || t->hit_guardrail;
    /* It ended before its first record was read: the trace says why, though for no heap. */
    bool reason = d->final && s->books.n == 0 && failed;
    struct hw_dump_order ask = {.kind = d->final ? HW_DUMP_ALL : HW_DUMP_CHANGES,
                                .trigger = d->trigger,
                                .reason = reason,
                                .keep_cells = !d->told_last};
    if (!d->worth && !reason)
        return HW_OK;
    int rc = d->worth ? hw_proc_poll_regions(t, err) : HW_OK;
    if (rc == HW_OK && d->worth)
        rc = hw_dump_find_resident(t, s, err);
    if (rc < 0)
        return rc;
    rc = hw_dump_writing_new(t, s, writer_of(t), &ask, &d->writing);
    return rc < 0 ? hw_fail(err, rc, 0, "heap dump of pid %d", t->pid.pid) : HW_OK;
}

/* As the reader's hw_process_view counts: all heaps together, and neither the maximum in between
 * nor a checkpoint, which a later dump replaces. */
static void count_dump(struct hw_target *t)
{
    if (hw_trigger_is_checkpoint(t->dump.trigger))
        return;
    t->n_dumps++;
    t->session->n_dumps++;
}

static int end_books(struct hw_target *t, struct hw_error *err)
{
    struct hw_dump_job *d = &t->dump;
    if (d->snap->books.n && d->worth)
        count_dump(t);
    int rc = d->worth ? hw_notes_write(t, d->snap, err) : HW_OK;
    return rc < 0 ? rc : hw_dump_answer_questions(t, d->snap, err);
}

/*
 * The process continues with another image: what this one held is gone. Its pid and start time are
 * still the same, so every reader takes the next image's dumps for the same process's, and would
 * add what was live here to them for ever. One more dump says that everything is freed. Also for a
 * program that only starts others: it is not shown, but dumps in between may have been written.
 */
static int begin_freed(struct hw_target *t, struct hw_error *err)
{
    struct hw_dump_job *d = &t->dump;
    bool cumulative = !t->session->sources.v[t->source].config->dump_at_max;
    struct hw_dump_order ask = {
        .kind = HW_DUMP_FREED, .trigger = "freed-by-exec", .keep_cells = true};
    if (!d->final || t->end != HW_END_EXECED || !cumulative)
        return HW_OK;
    int rc = hw_dump_writing_new(t, d->snap, writer_of(t), &ask, &d->writing);
    return rc < 0 ? hw_fail(err, rc, 0, "heap dump of pid %d", t->pid.pid) : HW_OK;
}

/* 1 = there is another one, 0 = that was the last. */
static int next_stage(struct hw_target *t, struct hw_error *err)
{
    struct hw_dump_job *d = &t->dump;
    int rc = HW_OK;
    switch (d->stage) {
    case HW_DUMP_WAITS:
        return 0;
    case HW_DUMP_BEGINS:
        d->stage = HW_DUMP_BOOKS;
        rc = t->session->closed ? HW_OK : begin_books(t, err);
        break;
    case HW_DUMP_BOOKS:
        d->stage = HW_DUMP_FREES;
        rc = t->session->closed ? hw_dump_answer_questions(t, d->snap, err) : end_books(t, err);
        if (rc == HW_OK && !t->session->closed)
            rc = begin_freed(t, err);
        break;
    case HW_DUMP_FREES:
    case HW_DUMP_LIVE_VIEWS:
        return 0;
    }
    return rc < 0 ? rc : 1;
}

/* ---- turns ---- */

static void begin(struct hw_target *t, uint64_t now)
{
    struct hw_dump_job *d = &t->dump;
    d->stage = HW_DUMP_BEGINS;
    d->began_ns = now;
    d->worth = hw_dump_is_worth(t);
    d->cut = false;
    d->told_last = !d->final || !hw_live_view_begins_last(t);
    t->session->writing = t;
    t->session->whole_bytes = hw_trace_writer_bytes(t->session->writer);
    count_samples(t, d->snap);
    hw_dump_find_idle(t, d->snap);
    hw_dump_find_pins(t, d->snap);
    if (d->final && d->snap->books.n == 0 && hw_unrecorded_target(t))
        t->session->n_targets--; /* it never came back for its welcome */
    if (d->final && d->worth) {
        hw_java_heap_missing(t, d->snap);
        hw_java_frames_missing(t, d->snap);
    }
}

static bool must_cut(const struct hw_target *t)
{
    const struct hw_session *s = t->session;
    return s->hurried && !t->dump.cut &&
           (!t->dump.final || hw_now_monotonic_ns() > s->stop_deadline_ns);
}

static int cut(struct hw_target *t, struct hw_error *err)
{
    t->dump.cut = true;
    if (t->dump.final)
        hw_session_warn(t->session,
                        "pid %d: the recording was ended before its last dump was written: not all "
                        "of its callstacks are in the trace",
                        t->pid.pid);
    return hw_dump_writing_cut(t->dump.writing, err);
}

static void drop_writing(struct hw_target *t)
{
    hw_dump_writing_free(t->dump.writing);
    t->dump.writing = NULL;
}

/* 1 = the turn is over, 0 = everything is done. */
static int write_some(struct hw_target *t, struct hw_dump_turn *turn, struct hw_error *err)
{
    int rc;
    do {
        rc = HW_OK; /* next_stage's 1 says that a stage has started, not that it has rows to cut */
        if (t->session->closed) /* between two turns: nothing more is written */
            drop_writing(t);
        if (t->dump.writing)
            rc = hw_dump_writing_turn(t->dump.writing, turn, err);
        if (rc == 1 && must_cut(t) && (rc = cut(t, err)) == HW_OK)
            return 1;
        if (rc != HW_OK || t->dump.cut)
            return rc;
        drop_writing(t);
    } while ((rc = next_stage(t, err)) == 1);
    return rc;
}

static void end(struct hw_target *t, int rc, const struct hw_error *err)
{
    struct hw_dump_job *d = &t->dump;
    drop_writing(t);
    d->stage = HW_DUMP_LIVE_VIEWS;
    t->session->writing = NULL;
    hw_session_wrote(t->session, d->began_ns);
    if (d->final)
        hw_dump_begin_next(t);
    if (rc < 0)
        hw_session_write_failed(t->session, rc, err);
}

/* True: it is finished. */
static bool take_turn(struct hw_target *t, struct hw_dump_turn *turn)
{
    struct hw_error err = {0};
    if (t->dump.stage != HW_DUMP_LIVE_VIEWS) {
        int rc = write_some(t, turn, &err);
        if (rc == 1)
            return false;
        end(t, rc, &err);
    }
    return hw_live_view_turn(t, turn) == 0;
}

/* True: it could continue at once. */
static bool go_on(struct hw_target *t, uint64_t now)
{
    struct hw_dump_job *d = &t->dump;
    struct hw_dump_turn turn = {.rows = ROWS_A_SLICE, .end_ns = now + SLICE};
    if (d->stage == HW_DUMP_WAITS) {
        if (!hw_dump_is_ready(t, now))
            return false;
        if (hw_dump_is_live_view(t))
            d->stage = HW_DUMP_LIVE_VIEWS;
        else
            begin(t, now);
    }
    if (!take_turn(t, &turn))
        return true;
    d->stage = HW_DUMP_WAITS;
    hw_dump_finish(t);
    return d->active && d->snap; /* another job, which waited for this one */
}

void hw_targets_write(struct hw_recorder *r)
{
    uint64_t now = hw_now_monotonic_ns(), until = now + TURN;
    r->dumps_left = false;
    for (size_t i = 0; i < r->targets.n; i++) {
        struct hw_target *t = r->targets.v[(r->next_written + i) % r->targets.n];
        if (!t->dump.active || !t->dump.snap)
            continue;
        if (now >= until) {
            r->next_written = (r->next_written + i) % r->targets.n;
            r->dumps_left = true;
            return;
        }
        r->dumps_left |= go_on(t, now);
        now = hw_now_monotonic_ns();
    }
    r->next_written++;
}

void hw_dump_turns_done(struct hw_target *t)
{
    drop_writing(t);
    hw_live_view_drop(t);
}

/*
 * dump.c - from "dump now" to packets
 *
 *   request ──order──> drain thread: drain, snapshot ──answer──> resolve stacks ──> names from the
 *   workers ──> write. The target runs on meanwhile, and its ring is emptied as always: what is
 *   written was fixed by the snapshot.
 *
 * The peak (HW_START_KEEP_PEAK) is written as a dump of its own with trigger "peak", just before
 * the dump in whose window it lies: values only grow from dump to dump, so that is the only place
 * where readers of differences understand it. doc/design/recorder.md.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "daemon/core.h"
#include "daemon/java_entrance.h"
#include "trace/profile_writer.h"
#include "trace/writer.h"

#include "base/banned.h"

#define NAMES_WAIT_NS   UINT64_C(20000000000)
#define MANAGED_WAIT_NS UINT64_C(500000000) /* names that the target makes */

/* ---- asking ---- */

uint32_t hw_dump_flags(const struct hw_target *t)
{
    if (t->session->sources.v[t->source].config->dump_at_max)
        return HW_SNAP_MAX;
    return t->session->start.flags & HW_START_KEEP_PEAK ? HW_SNAP_PEAK : 0;
}

static const char live_trigger[] = HW_TRIGGER_LIVE; /* told by its address */

static void start(struct hw_target *t, const char *trigger, bool final)
{
    struct hw_dump_job *d = &t->dump;
    bool dead = !hw_pid_alive(&t->pid) || t->end == HW_END_EXECED;
    uint32_t flags = trigger == live_trigger ? HW_SNAP_LIVE : hw_dump_flags(t);
    if (hw_drain_snap(t->rec->drain, t->feed, t->key, flags, final, dead) < 0) {
        d->next = true; /* no memory now: tried again by the tick */
        d->next_final |= final;
        d->next_trigger = trigger;
        return;
    }
    d->active = true;
    d->n_questions = t->questions.n;
    d->final = final;
    d->trigger = trigger;
    d->since_ns = hw_now_monotonic_ns();
}

void hw_dump_request(struct hw_target *t, const char *trigger, bool final)
{
    struct hw_dump_job *d = &t->dump;
    if (!t->with_thread)
        return; /* the last snapshot was taken: what follows is only writing */
    if (d->active && d->final)
        return;
    if (!d->active) {
        start(t, trigger, final);
        return;
    }
    if (!d->next || final) { /* the final one wins; several others become one */
        d->next = true;
        d->next_trigger = trigger;
        d->next_final |= final;
    }
}

void hw_dump_live(struct hw_target *t)
{
    if (t->with_thread && !t->dump.active && !t->dump.next)
        start(t, live_trigger, /* final = */ false);
}

/* ---- writing ---- */

static uint64_t lost_samples(const struct hw_target *t, const struct hw_snapshot *s)
{
    if (s->broken) /* the target's counters lie in the same memory */
        return t->n_unresolved + s->n_holes + s->n_lost_stacks;
    return t->n_unresolved + s->lost_full + s->lost_no_slot + s->lost_nested + s->n_holes +
           s->n_lost_stacks;
}

static const char *lost_reason(const struct hw_target *t, const struct hw_snapshot *s)
{
    if (s->broken)
        return "buffer damaged";
    if (s->lost_full)
        return "buffer full";
    if (s->lost_no_slot)
        return "no slot for live samples";
    if (s->lost_nested)
        return "allocations by signal handlers inside our code";
    if (s->n_holes)
        return "records not finished at the process's end";
    if (s->n_lost_stacks || t->n_unresolved)
        return "stacks lost";
    return NULL;
}

static struct hw_heap_tally *find_heap(struct hw_target *t, const struct hw_snap_book *b)
{
    for (size_t i = 0; i < t->heaps.n; i++)
        if (t->heaps.v[i].heap_id == b->heap_id)
            return &t->heaps.v[i];
    struct hw_heap_tally h = {.heap_id = b->heap_id};
    memcpy(h.name, b->name, sizeof h.name);
    if (!h.name[0])
        (void)snprintf(h.name, sizeof h.name, "heap %u", b->heap_id);
    if (hw_vec_push(&t->heaps, h) < 0)
        return NULL;
    return &t->heaps.v[t->heaps.n - 1];
}

static struct hw_dump_head make_head(const struct hw_target *t, const struct hw_snapshot *s,
                                     const struct hw_snap_book *b, const struct hw_heap_tally *h)
{
    const struct hw_source *src = &t->session->sources.v[t->source];
    struct hw_dump_head head = {
        .pid = (uint64_t)t->pid.pid,
        .heap_name = h->name,
        .start_timestamp_ns = h->last_ts_ns ? h->last_ts_ns : t->since_coarse_ns,
        .interval_bytes = b->interval_bytes,
        .orig_interval_bytes = b->orig_interval_bytes,
        .from_startup = t->from_startup,
        .disconnected = t->end == HW_END_EXITED || t->end == HW_END_EXECED ||
                        t->end == HW_END_GAVE_UP || t->end == HW_END_STUCK,
        .buffer_overran = s->client_error == HW_CLIENT_HIT_TIMEOUT,
        .buffer_corrupted = s->broken,
        .hit_guardrail = src->hit_guardrail || t->hit_guardrail,
        .client_error = s->client_error <= 2 ? s->client_error : 0,
        .keeps_peak = (t->session->start.flags & HW_START_KEEP_PEAK) != 0,
        .lost_samples = lost_samples(t, s),
        .lost_slices = t->slices.n_lost + (s->broken ? 0 : s->lost_slices),
        .lost_reason = lost_reason(t, s),
        .unwinding_errors = s->n_unwind_errors,
        .heap_samples = b->n_samples,
        .map_reparses = t->map_reparses,
        .total_unwinding_time_us = s->unwind_us,
        .client_spinlock_blocked_us = s->blocked_us};
    memcpy(head.unwinding_time_us, s->unwind_hist, sizeof head.unwinding_time_us);
    return head;
}

static struct hw_dump_sample make_sample(const struct hw_target *t, const struct hw_heap_tally *h,
                                         const struct hw_tally_row *r)
{
    bool has_idle = t->idle.known && h->heap_id == HW_HEAP_ID_LIBC;
    uint64_t idle = 0;
    if (has_idle)
        (void)hw_map64_get(&t->idle.bytes, r->callsite.v, &idle); /* else none */
    return (struct hw_dump_sample){.callsite = r->callsite,
                                   .self_idle = idle,
                                   .has_idle = has_idle,
                                   .self_allocated = r->t.allocated,
                                   .self_freed = r->t.freed,
                                   .alloc_count = r->t.alloc_count,
                                   .free_count = r->t.free_count,
                                   .est_alloc_count = hw_totals_est_alloc(&r->t),
                                   .est_free_count = hw_totals_est_free(&r->t),
                                   .variance_bytes = r->t.variance > 0 ? r->t.variance : 0};
}

static int apply(struct hw_target *t, struct hw_tally *tally, const struct hw_snap_cell *cells,
                 size_t n)
{
    for (size_t i = 0; i < n; i++) {
        hw_callsite_id c = hw_frames_of(&t->frames, cells[i].stack);
        if (c.v == HW_ID_NONE)
            continue; /* could not be resolved, and was counted then */
        int rc = hw_tally_set(tally, cells[i].stack, c, &cells[i].t);
        if (rc < 0)
            return rc;
    }
    return HW_OK;
}

static int write_rows(struct hw_target *t, struct hw_heap_tally *h, struct hw_dump_head *head,
                      bool all, struct hw_error *err)
{
    struct hw_profile_writer *w = t->session->sources.v[t->source].writer;
    head->list_all = all;
    int rc = hw_profile_begin(w, head, t->frames.cs, t->key, err);
    size_t n = all ? h->tally.rows.n : h->tally.touched.n;
    for (size_t i = 0; rc == HW_OK && i < n; i++) {
        size_t row = all ? i : h->tally.touched.v[i];
        if (h->tally.rows.v[row].t.alloc_count == 0)
            continue; /* it came into being after the peak */
        struct hw_dump_sample s = make_sample(t, h, &h->tally.rows.v[row]);
        rc = hw_profile_sample(w, &s, err);
    }
    if (rc == HW_OK)
        rc = hw_profile_end(w, err);
    if (rc < 0)
        return rc;
    hw_tally_clear_touched(&h->tally);
    h->last_ts_ns = head->timestamp_ns;
    h->dumped = true;
    t->n_dumps++;
    t->session->n_dumps++;
    return HW_OK;
}

/* dump_at_max: what was live at the maximum, all of it, not differences. */
static int write_max(struct hw_target *t, struct hw_heap_tally *h, struct hw_dump_head *head,
                     const struct hw_snap_book *b, struct hw_error *err)
{
    struct hw_profile_writer *w = t->session->sources.v[t->source].writer;
    struct hw_tally at_max = {0};
    head->at_max = true;
    head->list_all = true;
    int rc = apply(t, &at_max, b->peak_cells.v, b->peak_cells.n);
    if (rc == HW_OK)
        rc = hw_profile_begin(w, head, t->frames.cs, t->key, err);
    for (size_t i = 0; rc == HW_OK && i < at_max.rows.n; i++) {
        const struct hw_totals *v = &at_max.rows.v[i].t;
        if (v->alloc_count == v->free_count)
            continue;
        struct hw_dump_sample s = {.callsite = at_max.rows.v[i].callsite,
                                   .self_max = hw_totals_live(v),
                                   .self_max_count = v->alloc_count - v->free_count,
                                   .est_max_count = hw_totals_est_alloc(v) - hw_totals_est_free(v),
                                   .variance_bytes = v->variance > 0 ? v->variance : 0};
        rc = hw_profile_sample(w, &s, err);
    }
    if (rc == HW_OK)
        rc = hw_profile_end(w, err);
    hw_tally_done(&at_max);
    if (rc == HW_OK) {
        h->last_ts_ns = head->timestamp_ns;
        t->n_dumps++;
        t->session->n_dumps++;
    }
    return rc;
}

/* One dump of everything, with nothing that the session's own dumps could miss. */
static int write_live_book(struct hw_target *t, const struct hw_snapshot *s,
                           const struct hw_snap_book *b, uint64_t ts_ns,
                           struct hw_profile_writer *w, struct hw_error *err)
{
    if (t->hides_libc && b->heap_id == HW_HEAP_ID_LIBC)
        return HW_OK;
    struct hw_heap_tally *h = find_heap(t, b);
    struct hw_tally now = {0};
    if (!h)
        return hw_fail(err, HW_ENOMEM, 0, "heap of pid %d", t->pid.pid);
    struct hw_dump_head head = make_head(t, s, b, h);
    head.timestamp_ns = ts_ns;
    head.start_timestamp_ns = t->since_coarse_ns;
    head.trigger = HW_TRIGGER_LIVE;
    head.keeps_peak = false;
    head.list_all = true;
    int rc = apply(t, &now, b->cells.v, b->cells.n);
    if (rc == HW_OK)
        rc = hw_profile_begin(w, &head, t->frames.cs, t->key, err);
    for (size_t i = 0; rc == HW_OK && i < now.rows.n; i++) {
        struct hw_dump_sample x = make_sample(t, h, &now.rows.v[i]);
        x.has_idle = false;
        rc = hw_profile_sample(w, &x, err);
    }
    if (rc == HW_OK)
        rc = hw_profile_end(w, err);
    hw_tally_done(&now);
    return rc;
}

static uint64_t between(uint64_t v, uint64_t lo, uint64_t hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

int hw_dump_write_live(struct hw_target *t, const struct hw_snapshot *s,
                       const struct hw_control_look *ask, int fd, struct hw_error *err)
{
    struct hw_trace_writer *trace;
    struct hw_profile_writer *w = NULL;
    bool counters = ask->flags & HW_LOOK_COUNTERS;
    uint64_t moment = ask->moment_ns ? ask->moment_ns : s->ts_ns;
    uint64_t ts = between(moment, t->since_coarse_ns + 1, s->ts_ns);
    int rc = hw_trace_writer_new(fd, &trace, err);
    if (rc < 0)
        return rc;
    rc = hw_trace_write_preamble(trace, hw_bytes_of("", 0), 0, 0, 1u + counters, err);
    if (rc == HW_OK)
        rc = hw_profile_writer_new(trace, &w);
    for (size_t i = 0; rc == HW_OK && i < s->books.n; i++)
        rc = write_live_book(t, s, &s->books.v[i], ts, w, err);
    if (rc == HW_OK && counters)
        rc = hw_proc_poll_look(t, trace, err);
    hw_profile_writer_free(w);
    hw_trace_writer_free(trace);
    return rc;
}

static int write_book(struct hw_target *t, const struct hw_snapshot *s,
                      const struct hw_snap_book *b, struct hw_error *err)
{
    if (t->hides_libc && b->heap_id == HW_HEAP_ID_LIBC)
        return HW_OK;
    struct hw_heap_tally *h = find_heap(t, b);
    if (!h)
        return hw_fail(err, HW_ENOMEM, 0, "heap of pid %d", t->pid.pid);
    bool at_max = t->session->sources.v[t->source].config->dump_at_max;
    uint64_t first = h->last_ts_ns ? h->last_ts_ns + 1 : t->since_coarse_ns + 1;
    uint64_t ts = s->ts_ns > first ? s->ts_ns : first;
    int rc = HW_OK;
    struct hw_dump_head head = make_head(t, s, b, h);
    if (at_max) {
        head.timestamp_ns = between(b->peak_ns, first, ts);
        head.trigger = t->dump.trigger;
        return write_max(t, h, &head, b, err);
    }
    bool idle_known = t->idle.known;
    if (b->has_peak) {
        t->idle.known = false; /* it says what is unused now, not then */
        rc = apply(t, &h->tally, b->peak_cells.v, b->peak_cells.n);
        head.timestamp_ns = between(b->peak_ns, first, ts);
        head.trigger = "peak";
        if (rc == HW_OK)
            rc = write_rows(t, h, &head, /* all = */ false, err);
        head = make_head(t, s, b, h);
        first = h->last_ts_ns + 1;
        ts = ts > first ? ts : first;
        t->idle.known = idle_known;
    }
    bool stream = t->session->sources.v[t->source].config->stream_allocations;
    if (rc == HW_OK && !stream) /* the events are in the trace: only flags and counters here */
        rc = apply(t, &h->tally, b->cells.v, b->cells.n);
    head.timestamp_ns = ts;
    head.trigger = t->dump.trigger;
    head.checkpoint = hw_trigger_is_checkpoint(t->dump.trigger);
    bool idle = t->idle.known && h->heap_id == HW_HEAP_ID_LIBC; /* every callsite's may be new */
    return rc < 0 ? rc : write_rows(t, h, &head, t->dump.final || idle, err);
}

/*
 * The process goes on with another image: what this one held went with it. Its pid and start are
 * still the same, so every reader takes the next image's dumps for the same process's, and would
 * add what was live here to them for ever. One more dump says that all of it is freed.
 */
static int write_freed(struct hw_target *t, const struct hw_snapshot *s,
                       const struct hw_snap_book *b, struct hw_error *err)
{
    struct hw_heap_tally *h = find_heap(t, b);
    if (!h)
        return HW_OK; /* nothing of it was written */
    for (size_t i = 0; i < h->tally.rows.n; i++) {
        struct hw_totals *v = &h->tally.rows.v[i].t;
        v->freed = v->allocated;
        v->free_count = v->alloc_count;
        v->extra_free = v->extra_alloc;
        v->variance = 0;
    }
    struct hw_dump_head head = make_head(t, s, b, h);
    head.timestamp_ns = h->last_ts_ns + 1;
    head.trigger = "freed-by-exec";
    return write_rows(t, h, &head, /* all = */ true, err);
}

/* ---- images of one process: written in their order, with times in that order ---- */

static bool is_image_before(const struct hw_target *a, const struct hw_target *t)
{
    return a->session == t->session && a->pid.pid == t->pid.pid &&
           a->pid.start_ticks == t->pid.start_ticks && a->key < t->key;
}

/* The image before this one whose last dump is still to be written; NULL = none. */
static const struct hw_target *image_before(const struct hw_target *t)
{
    for (size_t i = 0; i < t->rec->targets.n; i++) {
        const struct hw_target *a = t->rec->targets.v[i];
        if (is_image_before(a, t) && a->phase == HW_PHASE_FINISHING && !a->launcher)
            return a;
    }
    return NULL;
}

/* The next image begins behind the last dump of this one, also where both are within one tick of
 * the coarse clock. */
static void begin_next_image(const struct hw_target *t)
{
    uint64_t last = 0;
    for (size_t i = 0; i < t->heaps.n; i++)
        last = t->heaps.v[i].last_ts_ns > last ? t->heaps.v[i].last_ts_ns : last;
    if (last > t->session->last_exec_ns)
        t->session->last_exec_ns = last;
    for (size_t i = 0; i < t->rec->targets.n; i++) {
        struct hw_target *b = t->rec->targets.v[i];
        if (is_image_before(t, b) && b->since_coarse_ns < last)
            b->since_coarse_ns = last;
    }
}

/* An image that did nothing but start another (env, nice, a shell's exec) is not shown. */
static bool worth_writing(const struct hw_target *t, const struct hw_snapshot *s)
{
    if (t->end != HW_END_EXECED)
        return true;
    return !t->launcher && s->n_samples > 0;
}

/* What was not used since the last dump, by callsite. A process that has ended tells nothing. */
static int measure_idle(struct hw_target *t, const struct hw_snapshot *s, struct hw_error *err)
{
    struct hw_target_idle *x = &t->idle;
    int rc = HW_OK;
    if (x->source.way == HW_IDLE_NONE)
        rc = hw_idle_open(t->pid.dir, HW_IDLE_BITMAP, HW_IDLE_FLAGS, &x->source, err);
    hw_autofree bool *idle = calloc(s->idle.n + 1, sizeof *idle);
    bool first = !x->source.marked;
    if (rc == HW_OK && !idle)
        rc = hw_fail(err, HW_ENOMEM, 0, "idle samples");
    if (rc == HW_OK)
        rc = hw_idle_measure(&x->source, s->idle.v, s->idle.n, idle, err);
    if (rc < 0 || first)
        return rc;
    hw_map64_done(&x->bytes);
    for (size_t i = 0; rc == HW_OK && i < s->idle.n; i++) {
        hw_callsite_id c = hw_frames_of(&t->frames, s->idle.v[i].where);
        uint64_t *bytes;
        bool fresh;
        if (!idle[i] || c.v == HW_ID_NONE)
            continue;
        rc = hw_map64_at(&x->bytes, c.v, &bytes, &fresh);
        if (rc == HW_OK)
            *bytes = (fresh ? 0 : *bytes) + s->idle.v[i].sample_size;
    }
    x->known = rc == HW_OK;
    return rc;
}

static void find_idle(struct hw_target *t, const struct hw_snapshot *s)
{
    struct hw_error err = {0};
    t->idle.known = false;
    if (!hw_session_wants_idle(t->session, t->source) || !t->feed->keeps_addresses ||
        t->idle.failed || t->end == HW_END_EXITED || t->end == HW_END_EXECED ||
        !hw_pid_alive(&t->pid))
        return;
    int rc = measure_idle(t, s, &err);
    if (rc == HW_OK || rc == HW_EGONE)
        return;
    t->idle.failed = true;
    hw_session_warn(t->session, "pid %d: idle allocations are not measured: %s", t->pid.pid,
                    err.text);
}

/* ---- blocks of heap graphs ---- */

void hw_dump_for_graph(struct hw_target *t, uint64_t graph_boottime_ns,
                       const hw_native_blocks *blocks)
{
    struct hw_graph_question q;
    if (!t->with_thread || !t->feed->keeps_addresses)
        return;
    if (hw_graph_question_init(&q, graph_boottime_ns, blocks) < 0 ||
        hw_vec_push(&t->questions, q) < 0) {
        hw_graph_question_done(&q);
        return;
    }
    hw_dump_request(t, HW_TRIGGER_GRAPH, /* final = */ false);
}

static int write_links(struct hw_target *t, const struct hw_snapshot *s,
                       const struct hw_graph_question *q, struct hw_error *err)
{
    struct hw_profile_writer *w = t->session->sources.v[t->source].writer;
    hw_graph_answers answers = {0};
    HW_VEC(struct hw_dump_link) links = {0};
    int rc = hw_graph_question_ask(q, s->idle.v, s->idle.n, &answers);
    if (rc == HW_OK)
        rc = hw_vec_reserve(&links, answers.n);
    for (size_t i = 0; rc == HW_OK && i < answers.n; i++) {
        const struct hw_idle_sample *x = &s->idle.v[answers.v[i].sample];
        hw_callsite_id c = hw_frames_of(&t->frames, x->where);
        if (c.v == HW_ID_NONE)
            continue; /* could not be resolved, and was counted then */
        links.v[links.n++] = (struct hw_dump_link){.block = answers.v[i].block,
                                                   .callsite = c,
                                                   .alloc_size = x->alloc_size,
                                                   .sample_size = x->sample_size};
    }
    if (rc == HW_OK)
        rc = hw_profile_links(w, (uint64_t)t->pid.pid, q->boottime_ns, links.v, links.n,
                              t->frames.cs, t->key, err);
    else
        rc = hw_fail(err, rc, 0, "links of pid %d", t->pid.pid);
    hw_vec_done(&answers);
    hw_vec_done(&links);
    return rc;
}

static int answer_questions(struct hw_target *t, const struct hw_snapshot *s, struct hw_error *err)
{
    size_t n = t->dump.n_questions;
    int rc = HW_OK;
    for (size_t i = 0; i < n; i++) {
        if (rc == HW_OK && !t->session->closed)
            rc = write_links(t, s, &t->questions.v[i], err);
        hw_graph_question_done(&t->questions.v[i]);
    }
    t->questions.n -= n;
    for (size_t i = 0; i < t->questions.n; i++)
        t->questions.v[i] = t->questions.v[i + n];
    t->dump.n_questions = 0;
    return rc;
}

/* It ended before its first record was read: the trace says why, though of no heap. */
static int write_reason(struct hw_target *t, const struct hw_snapshot *s, struct hw_error *err)
{
    uint64_t interval = t->session->sources.v[t->source].config->default_interval_bytes;
    struct hw_snap_book none = {.heap_id = HW_HEAP_ID_LIBC,
                                .name = "libc.malloc",
                                .interval_bytes = interval,
                                .orig_interval_bytes = interval};
    return write_book(t, s, &none, err);
}

static void write_snapshot(struct hw_target *t, struct hw_snapshot *s)
{
    struct hw_error err = {0};
    int rc = HW_OK;
    t->session->n_samples += s->n_samples - t->n_samples;
    t->n_samples = s->n_samples;
    uint64_t lost = lost_samples(t, s);
    t->session->n_lost += lost - t->n_lost;
    t->n_lost = lost;
    find_idle(t, s);
    if (t->dump.final && worth_writing(t, s)) {
        hw_java_heap_missing(t, s);
        hw_java_frames_missing(t, s);
    }
    if (!t->session->closed && worth_writing(t, s))
        rc = hw_proc_poll_regions(t, &err);
    if (!t->session->closed && worth_writing(t, s))
        for (size_t i = 0; rc == HW_OK && i < s->books.n; i++)
            rc = write_book(t, s, &s->books.v[i], &err);
    bool failed = s->broken || s->client_error != HW_CLIENT_OK || t->hit_guardrail;
    if (t->dump.final && s->books.n == 0 && failed && !t->session->closed)
        rc = write_reason(t, s, &err);
    if (rc == HW_OK && !t->session->closed && worth_writing(t, s))
        rc = hw_notes_write(t, s, &err);
    if (rc == HW_OK)
        rc = answer_questions(t, s, &err);
    bool cumulative = !t->session->sources.v[t->source].config->dump_at_max;
    if (t->dump.final && t->end == HW_END_EXECED && cumulative && !t->session->closed &&
        worth_writing(t, s))
        for (size_t i = 0; rc == HW_OK && i < s->books.n; i++)
            rc = write_freed(t, s, &s->books.v[i], &err);
    if (t->dump.final && t->end == HW_END_EXECED)
        begin_next_image(t);
    if (rc < 0)
        hw_session_write_failed(t->session, rc, &err);
}

/* ---- going on ---- */

static void no_memory(struct hw_target *t)
{
    hw_session_warn(t->session, "pid %d: no memory for a dump", t->pid.pid);
}

/* The job that had stepped back goes on: it waits for its answer, or is written by the tick. */
static bool come_forward(struct hw_target *t)
{
    struct hw_dump_job *d = &t->dump;
    const struct hw_dump_back b = d->back;
    if (!b.active)
        return false;
    d->back = (struct hw_dump_back){0};
    d->active = true;
    d->final = b.final;
    d->trigger = b.trigger;
    d->n_questions = b.n_questions;
    d->snap = b.snap;
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
    d->final = false;
    d->trigger = HW_TRIGGER_FAILURE;
    d->n_questions = 0;
    d->snap = s;
    d->since_ns = hw_now_monotonic_ns();
}

static void finish_job(struct hw_target *t)
{
    struct hw_dump_job *d = &t->dump;
    do {
        bool final = d->final;
        hw_snapshot_free(d->snap);
        d->snap = NULL;
        d->active = d->final = false;
        if (final) {
            hw_profile_forget(t->session->sources.v[t->source].writer, t->key);
            t->phase = HW_PHASE_DONE;
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

static void go_on(struct hw_target *t, uint64_t now)
{
    struct hw_dump_job *d = &t->dump;
    bool late = now - d->since_ns > NAMES_WAIT_NS ||
                (t->session->stopping && now > t->session->stop_deadline_ns);
    /* Behind the last answer of the feed no name can come. */
    bool no_more = late || !t->with_thread || now - d->since_ns > MANAGED_WAIT_NS;
    if (!hw_target_settle_names(t, no_more))
        return;
    hw_target_name_generated(t);
    if (!hw_frames_name(&t->frames, t->rec->modules) && !late)
        return;
    if (late)
        hw_frames_give_up_names(&t->frames);
    bool live = d->trigger == live_trigger && !d->final;
    const struct hw_target *before = live ? NULL : image_before(t);
    if (before && (!late || before->dump.snap))
        return; /* its names take longer */
    if (live)
        hw_live_view_answer(t, d->snap);
    else if (d->snap) {
        write_snapshot(t, d->snap);
        if (d->final)
            hw_live_view_last(t, d->snap);
    } else {
        no_memory(t);
    }
    finish_job(t);
}

/* Unasked, and older than any answer that is still to come. */
static void at_failure(struct hw_target *t, struct hw_snapshot *s)
{
    struct hw_dump_job *d = &t->dump;
    hw_trigger_failure(t); /* a last dump that it orders is a job that steps back, too */
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
                                        .final = d->final,
                                        .trigger = d->trigger,
                                        .n_questions = d->n_questions};
    begin_failure(t, s);
    go_on(t, hw_now_monotonic_ns());
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
        if (d->trigger == live_trigger && !d->final)
            hw_live_view_answer(t, NULL);
        else
            no_memory(t);
        finish_job(t);
        return;
    }
    go_on(t, hw_now_monotonic_ns());
}

void hw_dump_events(struct hw_target *t, struct hw_stream_event *events, size_t n)
{
    struct hw_session *s = t->session;
    struct hw_source *src = &s->sources.v[t->source];
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

void hw_dump_tick(struct hw_target *t, uint64_t now)
{
    struct hw_dump_job *d = &t->dump;
    if (d->active && d->snap)
        go_on(t, now);
    else if (!d->active && d->next && t->with_thread) {
        d->next = false;
        start(t, d->next_trigger, d->next_final);
    }
}

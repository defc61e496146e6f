/*
 * dump_write.c - writes the rows of dumps, in turns
 *
 * A snapshot has a book for each heap. A book yields one or two pieces, and each piece goes through
 * phases whose unit is a row:
 *
 *     cells added to the totals ──> rows written ──> list of changed rows cleared ──> next piece
 *
 * These totals change here only, so nothing that happens between two turns shows in a piece.
 *
 * The peak (HW_START_KEEP_PEAK) is a piece of its own with trigger "peak", just before the dump in
 * whose window it lies: values only grow from dump to dump, so that is the only place where readers
 * of differences understand it. doc/design/recorder.md.
 */
#include "daemon/dump/dump_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/core.h"
#include "daemon/java/java_agent_load.h"
#include "model/profile.h"
#include "trace/profile_writer.h"

#include "base/banned.h"

#define ROWS_A_LOOK 64u /* at the clock */

enum piece { PIECE_PEAK, PIECE_NOW, PIECE_MAX, PIECE_FREED, PIECE_LOOK };
enum phase { PHASE_NONE, PHASE_ADD, PHASE_ROWS, PHASE_CLEAR };

struct hw_dump_writing {
    struct hw_target *t;         /* borrowed */
    struct hw_snapshot *s;       /* borrowed */
    struct hw_profile_writer *w; /* borrowed */
    struct hw_dump_order ask;
    struct hw_dump_head at_start; /* of no heap yet: what was so when it began */
    struct hw_snap_book no_heap;  /* ask.reason */
    bool at_max, stream;
    bool cut;       /* no more rows */
    size_t book;    /* the one that is written, or comes next */
    bool peak_done; /* of that book */

    enum phase phase; /* and what it is about: */
    enum piece piece;
    struct hw_dump_head head;
    size_t heap;                   /* of the target */
    size_t at;                     /* cell or row */
    bool all, with_idle;           /* rows */
    struct hw_callsite_totals own; /* of a piece that leaves the heap's totals as they are */
};

/* ---- the head ---- */

uint64_t hw_dump_lost_samples(const struct hw_target *t, const struct hw_snapshot *s)
{
    if (s->broken) /* the target's counters lie in the same memory */
        return t->n_unresolved + s->n_holes + s->n_lost_stacks;
    return t->n_unresolved + s->lost_full + s->lost_no_slot + s->lost_nested + s->lost_early +
           s->n_holes + s->n_lost_stacks;
}

static bool is_damaged(const struct hw_snapshot *s)
{
    return s->broken || s->client_error == HW_CLIENT_RING_DAMAGED;
}

static const char *lost_reason(const struct hw_target *t, const struct hw_snapshot *s)
{
    if (is_damaged(s))
        return "buffer damaged";
    if (s->lost_full)
        return "buffer full";
    if (s->lost_no_slot)
        return "no slot for live samples";
    if (s->lost_nested)
        return "allocations by signal handlers inside our code";
    if (s->lost_early)
        return HW_LOST_LATE;
    if (s->n_holes)
        return "records that a thread did not finish";
    if (s->n_lost_stacks || t->n_unresolved)
        return "stacks lost";
    return NULL;
}

static struct hw_dump_head head_at_start(const struct hw_target *t, const struct hw_snapshot *s)
{
    const struct hw_session_source *src = &t->session->sources.v[t->source];
    struct hw_dump_head head = {.pid = (uint64_t)t->pid.pid,
                                .from_startup = t->from_startup,
                                .disconnected = t->end == HW_END_EXITED ||
                                                t->end == HW_END_EXECED ||
                                                t->end == HW_END_GAVE_UP || t->end == HW_END_STUCK,
                                .buffer_overran = s->client_error == HW_CLIENT_HIT_TIMEOUT,
                                .buffer_corrupted = is_damaged(s),
                                .hit_guardrail = src->hit_guardrail || t->hit_guardrail,
                                .client_error = s->client_error <= 2 ? s->client_error : 0,
                                .keeps_peak = (t->session->start.flags & HW_START_KEEP_PEAK) != 0,
                                .all_variances = true,
                                .lost_samples = hw_dump_lost_samples(t, s),
                                .lost_slices = t->slices.n_lost + (s->broken ? 0 : s->lost_slices),
                                .lost_reason = lost_reason(t, s),
                                .unwinding_errors = s->n_unwind_errors,
                                .map_reparses = t->map_reparses,
                                .total_unwinding_time_us = s->unwind_us,
                                .client_spinlock_blocked_us = s->blocked_us};
    memcpy(head.unwinding_time_us, s->unwind_hist, sizeof head.unwinding_time_us);
    return head;
}

static uint64_t between(uint64_t v, uint64_t lo, uint64_t hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

static uint64_t time_of(const struct hw_dump_writing *x, const struct hw_snap_book *b,
                        const struct hw_heap_totals *h)
{
    uint64_t first = (h->last_ts_ns ? h->last_ts_ns : x->t->since_coarse_ns) + 1;
    uint64_t ts = x->s->ts_ns > first ? x->s->ts_ns : first;
    switch (x->piece) {
    case PIECE_PEAK:
    case PIECE_MAX:
        return between(b->peak_ns, first, ts);
    case PIECE_NOW:
        return ts;
    case PIECE_FREED:
        return h->last_ts_ns + 1;
    case PIECE_LOOK:
        return x->ask.moment_ns;
    }
    return ts;
}

static void fill_head(struct hw_dump_writing *x, const struct hw_snap_book *b,
                      const struct hw_heap_totals *h)
{
    bool look = x->piece == PIECE_LOOK;
    struct hw_dump_head *head = &x->head;
    *head = x->at_start;
    head->heap_name = h->name;
    head->timestamp_ns = time_of(x, b, h);
    head->start_timestamp_ns = h->last_ts_ns && !look ? h->last_ts_ns : x->t->since_coarse_ns;
    head->interval_bytes = b->interval_bytes;
    head->orig_interval_bytes = b->orig_interval_bytes;
    head->heap_samples = b->n_samples;
    head->trigger = x->piece == PIECE_PEAK ? "peak" : x->ask.trigger;
    head->checkpoint = x->piece == PIECE_NOW && hw_trigger_is_checkpoint(x->ask.trigger);
    head->at_max = x->piece == PIECE_MAX;
    head->keeps_peak &= !look;
    head->list_all = x->all;
    head->has_temporary =
        !head->at_max && b->heap_id < HW_HEAP_ID_ANON && !hw_java_heap_is(h->name);
    head->has_rounding = x->s->has_rounding && b->heap_id == HW_HEAP_ID_LIBC;
}

/* ---- pieces ---- */

static const struct hw_snap_book *book_of(const struct hw_dump_writing *x)
{
    return x->ask.reason ? &x->no_heap : &x->s->books.v[x->book];
}

static int find_heap(struct hw_target *t, const struct hw_snap_book *b, size_t *out)
{
    for (*out = 0; *out < t->heaps.n; ++*out)
        if (t->heaps.v[*out].heap_id == b->heap_id)
            return HW_OK;
    struct hw_heap_totals h = {.heap_id = b->heap_id};
    memcpy(h.name, b->name, sizeof h.name);
    if (!h.name[0])
        (void)snprintf(h.name, sizeof h.name, "heap %u", b->heap_id);
    return hw_vec_push(&t->heaps, h) < 0 ? HW_ENOMEM : HW_OK;
}

static enum piece piece_of(const struct hw_dump_writing *x, const struct hw_snap_book *b)
{
    if (x->ask.kind == HW_DUMP_LIVE)
        return PIECE_LOOK;
    if (x->ask.kind == HW_DUMP_FREED)
        return PIECE_FREED;
    if (x->at_max)
        return PIECE_MAX;
    return b->has_peak && !x->peak_done && !x->cut ? PIECE_PEAK : PIECE_NOW;
}

static bool is_left_out(const struct hw_dump_writing *x, const struct hw_snap_book *b,
                        const struct hw_heap_totals *h)
{
    bool hidden = x->t->hides_libc && b->heap_id == HW_HEAP_ID_LIBC;
    bool nothing_written = x->ask.kind == HW_DUMP_FREED && !h->dumped;
    return hidden || nothing_written;
}

/* 1 = there is one, 0 = there is none left. */
static int next_piece(struct hw_dump_writing *x)
{
    size_t n_books = x->ask.reason ? 1 : x->s->books.n;
    bool needed = x->ask.kind == HW_DUMP_CHANGES && !x->at_max;
    if (x->cut && !needed)
        return 0;
    for (; x->book < n_books; x->book++) {
        const struct hw_snap_book *b = book_of(x);
        int rc = find_heap(x->t, b, &x->heap);
        if (rc < 0)
            return rc;
        const struct hw_heap_totals *h = &x->t->heaps.v[x->heap];
        if (is_left_out(x, b, h))
            continue;
        x->piece = piece_of(x, b);
        /* An idle callsite's number may be new although nothing was allocated there. The peak's
         * would be that of another moment. */
        x->with_idle = x->t->idle.known && b->heap_id == HW_HEAP_ID_LIBC && x->piece == PIECE_NOW;
        x->all = x->piece != PIECE_PEAK &&
                 (x->piece != PIECE_NOW || x->with_idle || x->ask.kind == HW_DUMP_ALL);
        x->at = 0;
        x->head = (struct hw_dump_head){0};
        x->phase = PHASE_ADD;
        return 1;
    }
    return 0;
}

static struct hw_callsite_totals *tally_of(struct hw_dump_writing *x)
{
    bool own = x->piece == PIECE_MAX || x->piece == PIECE_LOOK;
    return own ? &x->own : &x->t->heaps.v[x->heap].tally;
}

static void end_piece(struct hw_dump_writing *x)
{
    struct hw_heap_totals *h = &x->t->heaps.v[x->heap];
    bool written = x->head.timestamp_ns != 0; /* else it was cut before */
    if (x->piece != PIECE_LOOK && written)
        h->last_ts_ns = x->head.timestamp_ns;
    h->dumped |= x->piece != PIECE_LOOK && x->piece != PIECE_MAX && written;
    hw_callsite_totals_done(&x->own);
    x->own = (struct hw_callsite_totals){0};
    x->peak_done = x->piece == PIECE_PEAK;
    x->book += !x->peak_done;
    x->phase = PHASE_NONE;
}

/* ---- turns: each gives 1 when its turn is over, 0 when it is done ---- */

static bool is_over(struct hw_dump_turn *turn)
{
    if (turn->rows == 0)
        return true;
    return --turn->rows % ROWS_A_LOOK == 0 && hw_now_monotonic_ns() >= turn->end_ns;
}

static int add_cells(struct hw_dump_writing *x, struct hw_dump_turn *turn)
{
    struct hw_snap_book *b = x->ask.reason ? &x->no_heap : &x->s->books.v[x->book];
    bool peak = x->piece == PIECE_PEAK || x->piece == PIECE_MAX;
    const struct hw_snap_cell *cells = peak ? b->peak_cells.v : b->cells.v;
    size_t n = peak ? b->peak_cells.n : b->cells.n;
    if (x->piece == PIECE_FREED || (x->piece == PIECE_NOW && x->stream))
        n = 0; /* nothing new; the events are in the trace: only flags and counters here */
    for (; x->at < n; x->at++) {
        if (is_over(turn))
            return 1;
        hw_callsite_id c = hw_frames_of(&x->t->frames, cells[x->at].stack);
        if (c.v == HW_ID_NONE)
            continue; /* could not be resolved, and was counted then */
        int rc = hw_callsite_totals_set(tally_of(x), cells[x->at].stack, c, &cells[x->at].t);
        if (rc < 0)
            return rc;
    }
    if (peak)
        hw_vec_done(&b->peak_cells);
    else if (!x->ask.keep_cells)
        hw_vec_done(&b->cells);
    return 0;
}

static void fill_max(const struct hw_totals *v, struct hw_dump_sample *s)
{
    s->self_max = hw_totals_live(v);
    s->self_max_count = v->alloc_count - v->free_count;
    s->est_max_count = hw_totals_est_alloc(v) - hw_totals_est_free(v);
    s->variance_alloc_space = v->variance;
    s->variance_alloc_objects = v->variance_objects;
}

static void fill_now(const struct hw_totals *v, struct hw_dump_sample *s)
{
    s->self_allocated = v->allocated;
    s->self_freed = v->freed;
    s->alloc_count = v->alloc_count;
    s->free_count = v->free_count;
    s->est_alloc_count = hw_totals_est_alloc(v);
    s->est_free_count = hw_totals_est_free(v);
    s->variance_alloc_space = v->variance_alloc_space;
    s->variance_alloc_objects = v->variance_alloc_objects;
    s->temporary_space = v->temporary;
    s->est_temporary_objects = v->temporary_objects;
    s->variance_temporary_space = (double)v->variance_temporary;
    s->variance_temporary_objects = (double)v->variance_temporary_objects;
}

/* False: this row is not shown. */
static bool make_sample(const struct hw_dump_writing *x, struct hw_callsite_totals_row *r,
                        struct hw_dump_sample *out)
{
    struct hw_totals *v = &r->t;
    bool max = x->piece == PIECE_MAX;
    if (max ? v->alloc_count == v->free_count : v->alloc_count == 0 && x->piece != PIECE_LOOK)
        return false; /* nothing was live; it came into being after the peak */
    if (x->piece == PIECE_FREED) {
        v->freed = v->allocated;
        v->free_count = v->alloc_count;
        v->extra_free = v->extra_alloc;
        v->rounding = v->variance = v->variance_objects = v->variance_rounding = 0;
    }
    *out = (struct hw_dump_sample){.callsite = r->callsite,
                                   .rounding = v->rounding,
                                   .variance_bytes = v->variance,
                                   .variance_objects = v->variance_objects,
                                   .variance_rounding = v->variance_rounding};
    if (max)
        fill_max(v, out);
    else
        fill_now(v, out);
    out->has_idle = x->with_idle;
    if (x->with_idle)
        (void)hw_map64_get(&x->t->idle.bytes, r->callsite.v, &out->self_idle); /* else none */
    return true;
}

static int begin_rows(struct hw_dump_writing *x, struct hw_error *err)
{
    fill_head(x, book_of(x), &x->t->heaps.v[x->heap]);
    x->at = 0;
    x->phase = PHASE_ROWS;
    return hw_profile_begin(x->w, &x->head, x->t->frames.cs, x->t->key, err);
}

static int write_rows(struct hw_dump_writing *x, struct hw_dump_turn *turn, struct hw_error *err)
{
    struct hw_callsite_totals *tally = tally_of(x);
    size_t n = x->all ? tally->rows.n : tally->touched.n;
    for (; x->at < n; x->at++) {
        struct hw_dump_sample s;
        if (is_over(turn))
            return 1;
        size_t row = x->all ? x->at : tally->touched.v[x->at];
        if (!make_sample(x, &tally->rows.v[row], &s))
            continue;
        int rc = hw_profile_sample(x->w, &s, err);
        if (rc < 0)
            return rc;
    }
    return hw_profile_end(x->w, err);
}

static int clear_changes(struct hw_dump_writing *x, struct hw_dump_turn *turn)
{
    struct hw_callsite_totals *tally = tally_of(x);
    for (; tally->touched.n; tally->touched.n--) {
        if (is_over(turn))
            return 1;
        tally->rows.v[tally->touched.v[tally->touched.n - 1]].touched = false;
    }
    return 0;
}

/* 1 = the turn is over, 0 = a step of it is done. */
static int step(struct hw_dump_writing *x, struct hw_dump_turn *turn, struct hw_error *err)
{
    int rc = HW_OK;
    switch (x->phase) {
    case PHASE_NONE:
        break;
    case PHASE_ADD:
        rc = add_cells(x, turn);
        if (rc < 0)
            return hw_fail(err, rc, 0, "heap dump of pid %d", x->t->pid.pid);
        if (rc == 0 && x->cut)
            x->phase = PHASE_CLEAR;
        return rc == 0 && !x->cut ? begin_rows(x, err) : rc;
    case PHASE_ROWS:
        rc = write_rows(x, turn, err);
        x->phase = rc == 0 ? PHASE_CLEAR : PHASE_ROWS;
        return rc;
    case PHASE_CLEAR:
        rc = clear_changes(x, turn);
        if (rc == 0)
            end_piece(x);
        return rc;
    }
    return rc;
}

int hw_dump_writing_turn(struct hw_dump_writing *x, struct hw_dump_turn *turn, struct hw_error *err)
{
    int rc = HW_OK;
    while (rc == HW_OK) {
        if (x->phase == PHASE_NONE) {
            rc = next_piece(x);
            if (rc < 0)
                return hw_fail(err, rc, 0, "heap dump of pid %d", x->t->pid.pid);
            if (rc == 0)
                return 0;
        }
        rc = step(x, turn, err);
    }
    return rc;
}

int hw_dump_writing_cut(struct hw_dump_writing *x, struct hw_error *err)
{
    bool more_follows = x->ask.kind == HW_DUMP_CHANGES;
    bool has_begun = x->phase == PHASE_ROWS;
    x->cut = true;
    if (has_begun)
        x->phase = PHASE_CLEAR;
    if (!more_follows)
        x->phase = PHASE_NONE;
    return has_begun ? hw_profile_cut(x->w, /* is_checkpoint = */ more_follows, err) : HW_OK;
}

/* ---- begin and end ---- */

int hw_dump_writing_new(struct hw_target *t, struct hw_snapshot *s, struct hw_profile_writer *w,
                        const struct hw_dump_order *ask, struct hw_dump_writing **out)
{
    const struct hw_heapprofd_config *c = t->session->sources.v[t->source].config;
    struct hw_dump_writing *x = calloc(1, sizeof *x);
    if (!x)
        return HW_ENOMEM;
    *x = (struct hw_dump_writing){.t = t,
                                  .s = s,
                                  .w = w,
                                  .ask = *ask,
                                  .at_start = head_at_start(t, s),
                                  .at_max = c->dump_at_max,
                                  .stream = c->stream_allocations};
    x->no_heap = (struct hw_snap_book){.heap_id = HW_HEAP_ID_LIBC,
                                       .name = "libc.malloc",
                                       .interval_bytes = c->default_interval_bytes,
                                       .orig_interval_bytes = c->default_interval_bytes};
    *out = x;
    return HW_OK;
}

void hw_dump_writing_free(struct hw_dump_writing *x)
{
    if (!x)
        return;
    hw_callsite_totals_done(&x->own);
    free(x);
}

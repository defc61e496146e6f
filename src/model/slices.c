/*
 * Events of one track are sorted by time, equal ones in the file's order. Complete events with the
 * same time are sorted from long to short, as recorders write them when they end: the inner first.
 *
 *      open:  [ outermost … innermost ]   rows that contain the next event
 *
 * A complete slice leaves the stack when an event comes at or after its end and no slice is open
 * inside it.
 */
#include "model/slices.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/radix.h"
#include "model/profile.h"

#include "base/banned.h"

static int track_at(struct hw_slices *s, uint64_t key, struct hw_slice_track track, uint32_t *out)
{
    uint64_t *at;
    bool fresh;
    if (hw_vec_reserve(&s->tracks, s->tracks.n + 1) < 0)
        return HW_ENOMEM;
    int rc = hw_map64_at(&s->track_of, key, &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh) {
        *at = s->tracks.n;
        s->tracks.v[s->tracks.n++] = track;
    }
    *out = (uint32_t)*at;
    return HW_OK;
}

int hw_slices_thread_track(struct hw_slices *s, uint32_t thread, uint32_t *out)
{
    return track_at(s, thread, (struct hw_slice_track){.thread = thread}, out);
}

int hw_slices_named_track(struct hw_slices *s, hw_str_id name, uint32_t *out)
{
    return track_at(s, UINT64_C(1) << 32 | name.v, (struct hw_slice_track){HW_ID_NONE, name}, out);
}

int hw_slices_add(struct hw_slices *s, const struct hw_slice_event *e)
{
    if (s->events.n >= HW_ID_NONE - 1)
        return HW_ELIMIT;
    if (hw_vec_push(&s->events, *e) < 0)
        return HW_ENOMEM;
    struct hw_slice_event *copy = &s->events.v[s->events.n - 1];
    if (copy->dur_ns < 0)
        copy->dur_ns = 0;
    return HW_OK;
}

/* Maps signed times to unsigned keys of the same order. */
static uint64_t time_key(int64_t ts_ns)
{
    return (uint64_t)ts_ns ^ UINT64_C(1) << 63;
}

static int by_duration(const void *a, const void *b)
{
    const struct hw_radix16 *x = a, *y = b;
    return x->key != y->key ? (x->key < y->key) - (x->key > y->key) : (x->a > y->a) - (x->a < y->a);
}

/* Sorts events of one time from long to short if all are complete. */
static void sort_same_time(const struct hw_slices *s, struct hw_radix16 *run, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s->events.v[run[i].a].kind != HW_SLICE_WHOLE)
            return;
    for (size_t i = 0; i < n; i++)
        run[i].key = (uint64_t)s->events.v[run[i].a].dur_ns;
    qsort(run, n, sizeof *run, by_duration);
}

/* Sorts by track, then time. */
static int sort_events(const struct hw_slices *s, struct hw_radix16 *order)
{
    size_t n = s->events.n;
    for (uint32_t i = 0; i < n; i++)
        order[i] = (struct hw_radix16){time_key(s->events.v[i].ts_ns), i, 0};
    int rc = hw_radix_sort16(order, n);
    for (size_t i = 0; rc == HW_OK && i < n; i++)
        order[i].key = s->events.v[order[i].a].track;
    if (rc == HW_OK)
        rc = hw_radix_sort16(order, n);
    for (size_t i = 0, k; rc == HW_OK && i < n; i = k) {
        const struct hw_slice_event *e = &s->events.v[order[i].a];
        for (k = i + 1; k < n; k++) {
            const struct hw_slice_event *next = &s->events.v[order[k].a];
            if (next->track != e->track || next->ts_ns != e->ts_ns)
                break;
        }
        if (k - i > 1)
            sort_same_time(s, order + i, k - i);
    }
    return rc;
}

struct nest {
    struct hw_slices *s;
    HW_VEC(uint32_t) open;
    uint32_t track;
    uint64_t n_ends, n_overlaps; /* events left out */
};

static int64_t end_of(const struct hw_slice *r)
{
    int64_t end;
    if (r->dur_ns < 0 || __builtin_add_overflow(r->ts_ns, r->dur_ns, &end))
        return INT64_MAX;
    return end;
}

/* Removes complete slices on top that have ended. */
static void leave_ended(struct nest *n, int64_t ts_ns)
{
    for (; n->open.n; n->open.n--) {
        const struct hw_slice *r = &n->s->rows.v[n->open.v[n->open.n - 1]];
        if (r->dur_ns < 0 || end_of(r) > ts_ns)
            return;
    }
}

static int enter(struct nest *n, const struct hw_slice_event *e)
{
    uint32_t row = (uint32_t)n->s->rows.n;
    uint32_t parent = n->open.n ? n->open.v[n->open.n - 1] : HW_ID_NONE;
    struct hw_slice r = {.ts_ns = e->ts_ns,
                         .dur_ns = e->kind == HW_SLICE_WHOLE ? e->dur_ns : -1,
                         .track = e->track,
                         .parent = parent,
                         .depth = (uint32_t)n->open.n,
                         .category = e->category,
                         .name = e->name};
    if (parent != HW_ID_NONE && r.dur_ns >= 0 && end_of(&r) > end_of(&n->s->rows.v[parent])) {
        n->n_overlaps++;
        return HW_OK;
    }
    return hw_vec_push(&n->s->rows, r) < 0 || hw_vec_push(&n->open, row) < 0 ? HW_ENOMEM : HW_OK;
}

static void leave(struct nest *n, int64_t ts_ns)
{
    size_t i = n->open.n;
    while (i > 0 && n->s->rows.v[n->open.v[i - 1]].dur_ns >= 0)
        i--; /* a complete one has its own end */
    if (i == 0) {
        n->n_ends++;
        return;
    }
    struct hw_slice *r = &n->s->rows.v[n->open.v[i - 1]];
    int64_t dur;
    r->dur_ns = __builtin_sub_overflow(ts_ns, r->ts_ns, &dur) ? INT64_MAX : dur;
    n->open.n = i - 1;
}

static int nest_event(struct nest *n, const struct hw_slice_event *e)
{
    if (e->track != n->track)
        n->open.n = 0;
    n->track = e->track;
    leave_ended(n, e->ts_ns);
    if (e->kind != HW_SLICE_END)
        return enter(n, e);
    leave(n, e->ts_ns);
    return HW_OK;
}

static int row_order(const void *a, const void *b, void *arg)
{
    const struct hw_slice *rows = arg;
    const struct hw_slice *x = &rows[*(const uint32_t *)a], *y = &rows[*(const uint32_t *)b];
    if (x->ts_ns != y->ts_ns)
        return (x->ts_ns > y->ts_ns) - (x->ts_ns < y->ts_ns);
    if (x->track != y->track)
        return x->track < y->track ? -1 : 1;
    return (*(const uint32_t *)a > *(const uint32_t *)b) -
           (*(const uint32_t *)a < *(const uint32_t *)b);
}

/* Sorts rows by time, which were by track. */
static int sort_rows(struct hw_slices *s)
{
    size_t n = s->rows.n;
    hw_autofree uint32_t *order = malloc((n + 1) * sizeof *order);
    hw_autofree uint32_t *new_index = malloc((n + 1) * sizeof *new_index);
    struct hw_slice *rows = malloc((n + 1) * sizeof *rows);
    if (!order || !new_index || !rows) {
        free(rows);
        return HW_ENOMEM;
    }
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    qsort_r(order, n, sizeof *order, row_order, s->rows.v);
    for (uint32_t i = 0; i < n; i++)
        new_index[order[i]] = i;
    for (size_t i = 0; i < n; i++) {
        rows[i] = s->rows.v[order[i]];
        if (rows[i].parent != HW_ID_NONE)
            rows[i].parent = new_index[rows[i].parent];
    }
    hw_vec_done(&s->rows);
    s->rows.v = rows;
    s->rows.n = n;
    s->rows.cap = n + 1;
    return HW_OK;
}

static int nest_all(struct hw_profile *p, const struct hw_radix16 *order)
{
    struct nest n = {.s = &p->slices, .track = HW_ID_NONE};
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < p->slices.events.n; i++)
        rc = nest_event(&n, &p->slices.events.v[order[i].a]);
    hw_vec_done(&n.open);
    if (rc == HW_OK && n.n_ends)
        rc =
            hw_profile_stat_add(p, "misplaced_end_event", -1, HW_STAT_DATA_LOSS, (int64_t)n.n_ends);
    if (rc == HW_OK && n.n_overlaps)
        rc = hw_profile_stat_add(p, "slice_drop_overlapping_complete_event", -1, HW_STAT_DATA_LOSS,
                                 (int64_t)n.n_overlaps);
    return rc;
}

int hw_slices_finish(struct hw_profile *p)
{
    struct hw_slices *s = &p->slices;
    if (s->events.n == 0)
        return HW_OK;
    hw_autofree struct hw_radix16 *order = malloc(s->events.n * sizeof *order);
    int rc = order ? sort_events(s, order) : HW_ENOMEM;
    if (rc == HW_OK)
        rc = nest_all(p, order);
    hw_vec_done(&s->events);
    return rc < 0 ? rc : sort_rows(s);
}

void hw_slices_done(struct hw_slices *s)
{
    hw_vec_done(&s->rows);
    hw_vec_done(&s->tracks);
    hw_vec_done(&s->events);
    hw_map64_done(&s->track_of);
}

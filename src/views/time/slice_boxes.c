#include "views/time/slice_boxes.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "model/profile.h"

#include "base/banned.h"

static int64_t end_of(const struct hw_profile *p, const struct hw_slice *r)
{
    int64_t end;
    if (r->dur_ns < 0)
        return p->last_ns > r->ts_ns ? p->last_ns : r->ts_ns;
    return __builtin_add_overflow(r->ts_ns, r->dur_ns, &end) ? INT64_MAX : end;
}

static int by_thread(const void *a, const void *b, void *arg)
{
    const struct hw_profile *p = arg;
    const struct hw_slice_summary *x = a, *y = b;
    if (x->thread == HW_ID_NONE || y->thread == HW_ID_NONE)
        return x->thread == y->thread ? (x->track > y->track) - (x->track < y->track)
                                      : (x->thread == HW_ID_NONE) - (y->thread == HW_ID_NONE);
    const struct hw_thread *s = &p->threads.rows.v[x->thread], *t = &p->threads.rows.v[y->thread];
    if (s->upid.v != t->upid.v)
        return s->upid.v < t->upid.v ? -1 : 1;
    return (s->tid > t->tid) - (s->tid < t->tid);
}

int hw_slices_summaries(const struct hw_profile *p, hw_slice_summaries *out)
{
    const struct hw_slices *s = &p->slices;
    hw_autofree struct hw_slice_summary *all = calloc(s->tracks.n + 1, sizeof *all);
    if (!all)
        return HW_ENOMEM;
    for (size_t i = 0; i < s->rows.n; i++) {
        const struct hw_slice *r = &s->rows.v[i];
        struct hw_slice_summary *k = &all[r->track];
        int64_t end = end_of(p, r);
        if (k->n_slices == 0)
            *k = (struct hw_slice_summary){.track = r->track,
                                           .thread = s->tracks.v[r->track].thread,
                                           .first_ns = r->ts_ns,
                                           .last_ns = end};
        k->n_slices++;
        if (end > k->last_ns)
            k->last_ns = end;
        if (r->depth >= k->n_levels)
            k->n_levels = r->depth + 1;
    }
    for (size_t i = 0; i < s->tracks.n; i++)
        if (all[i].n_slices && hw_vec_push(out, all[i]) < 0)
            return HW_ENOMEM;
    if (out->n)
        qsort_r(out->v, out->n, sizeof *out->v, by_thread, (void *)(uintptr_t)p);
    return HW_OK;
}

struct builder {
    hw_slice_boxes *out;
    int64_t min_ns;
    uint32_t *last; /* by depth: 1 + index of its last box */
};

static int64_t length(const struct hw_slice_box *b)
{
    return b->end_ns - b->ts_ns;
}

/* Merges narrow boxes of one depth if the gap between them is too small to be seen. */
static int add(struct builder *m, const struct hw_profile *p, const struct hw_slice_box *b)
{
    uint32_t *last = &m->last[b->depth];
    struct hw_slice_box *k = *last ? &m->out->v[*last - 1] : NULL;
    bool narrow = length(b) < m->min_ns;
    if (k && narrow && b->ts_ns - k->end_ns < m->min_ns && (k->n > 1 || length(k) < m->min_ns)) {
        const struct hw_slice *longest = &p->slices.rows.v[k->row];
        if (length(b) > end_of(p, longest) - longest->ts_ns)
            k->row = b->row;
        k->end_ns = b->end_ns > k->end_ns ? b->end_ns : k->end_ns;
        k->n++;
        return HW_OK;
    }
    if (hw_vec_push(m->out, *b) < 0)
        return HW_ENOMEM;
    *last = (uint32_t)m->out->n;
    return HW_OK;
}

int hw_slices_boxes(const struct hw_profile *p, uint32_t track, int64_t from_ns, int64_t to_ns,
                    int64_t min_ns, uint32_t max_depth, hw_slice_boxes *out)
{
    hw_autofree uint32_t *last = calloc((size_t)max_depth + 1, sizeof *last);
    struct builder m = {out, min_ns, last};
    int rc = last ? HW_OK : HW_ENOMEM;
    for (uint32_t i = 0; rc == HW_OK && i < p->slices.rows.n; i++) {
        const struct hw_slice *r = &p->slices.rows.v[i];
        if (r->ts_ns >= to_ns)
            break;
        int64_t end = end_of(p, r);
        if (r->track != track || r->depth >= max_depth || end < from_ns)
            continue;
        rc = add(&m, p, &(struct hw_slice_box){r->ts_ns, end, r->depth, i, 1});
    }
    return rc;
}

#include "views/account/pinned.h"

#include <math.h>

#include "base/error.h"
#include "views/time/process_view.h"

#include "base/banned.h"

#define SAME_MOMENT_NS 60e6 /* a dump is written within this time */

static double distance(int64_t a, int64_t b)
{
    return fabs((double)a - (double)b);
}

static bool is_without_change(const struct hw_profile *p, uint32_t dump)
{
    size_t first, n;
    hw_alloc_rows_of_dump(&p->allocs, dump, &first, &n);
    for (size_t i = first; i < first + n; i++) {
        struct hw_alloc_row r = hw_alloc_row_of(&p->allocs, dump, i);
        if (r.samples || r.count || r.size)
            return false;
    }
    return true;
}

/* Whether no dump between the two times, up to the first one after both, has a change. */
static bool is_unchanged(const struct hw_profile *p, const struct hw_series *s, int64_t from,
                         int64_t until)
{
    for (size_t i = 0; i < s->all.n; i++) {
        int64_t ts = p->dumps.v[s->all.v[i]].ts_ns;
        if (ts > from && !is_without_change(p, s->all.v[i]))
            return false;
        if (ts >= until)
            return true;
    }
    return false;
}

/* On a busy machine two readings may be apart; if the program did nothing in between, they still
 * match. */
static bool match_in_time(const struct hw_profile *p, const struct hw_series_list *list,
                          hw_upid upid, int64_t a, int64_t b)
{
    bool same = distance(a, b) <= SAME_MOMENT_NS, any = false;
    const struct hw_process_rows heaps = hw_series_of(list, upid);
    for (size_t i = 0; !same && i < heaps.n; i++) {
        const struct hw_series *s = &list->v.v[heaps.v[i]];
        if (s->kind != HW_HEAP_NATIVE)
            continue;
        if (!is_unchanged(p, s, a < b ? a : b, a < b ? b : a))
            return false;
        any = true;
    }
    return same || any;
}

/* By the counters written with the measurement, a little before its dump. */
static double missed_share(const struct hw_profile *p, hw_upid upid, int64_t ts_ns)
{
    double blocks, missed;
    int64_t at;
    if (!hw_process_counter(p, upid, "account.pins_blocks", ts_ns, &blocks, &at) ||
        !hw_process_counter(p, upid, "account.pins_missed", ts_ns, &missed, &at))
        return 0;
    return blocks > 0 ? fmin(1, missed / blocks) : 0;
}

static const struct hw_series *series_of(const struct hw_series_list *list, hw_upid upid)
{
    const struct hw_process_rows heaps = hw_series_of(list, upid);
    for (size_t i = 0; i < heaps.n; i++)
        if (list->v.v[heaps.v[i]].kind == HW_HEAP_PINNED)
            return &list->v.v[heaps.v[i]];
    return NULL;
}

int hw_pinned_find(const struct hw_profile *p, const struct hw_series_list *list, hw_upid upid,
                   const struct hw_memory_parts *m, struct hw_pinned *out)
{
    const struct hw_series *s = series_of(list, upid);
    uint32_t best = HW_ID_NONE;
    *out = (struct hw_pinned){.whole = -1};
    for (size_t i = 0; s && i < s->shown.n; i++) {
        int64_t ts = p->dumps.v[s->shown.v[i]].ts_ns;
        if (best != HW_ID_NONE && distance(ts, m->ts_ns) > distance(out->ts_ns, m->ts_ns))
            continue;
        best = s->shown.v[i];
        out->ts_ns = ts;
    }
    if (best == HW_ID_NONE)
        return HW_ENOTFOUND;
    struct hw_value all = {0};
    int rc = hw_values_at(p, s, best, &out->values);
    if (rc == HW_OK)
        rc = hw_process_values(p, list, upid, out->ts_ns, /* at_max = */ false, &out->live);
    for (size_t i = 0; rc == HW_OK && i < out->values.n; i++)
        hw_value_add(&all, &out->values.v[i].v);
    out->pinned = (double)all.space;
    out->interval_bytes = p->dumps.v[best].interval_bytes;
    out->error = hw_value_error(&all, HW_METRIC_SPACE, out->interval_bytes);
    out->missed = missed_share(p, upid, out->ts_ns);
    if (rc < 0)
        hw_pinned_done(out);
    else if (!m->older_or_free && match_in_time(p, list, upid, out->ts_ns, m->ts_ns))
        out->whole = fmax(0, m->parts[HW_PART_FREE].rss - out->pinned);
    return rc;
}

void hw_pinned_done(struct hw_pinned *x)
{
    hw_vec_done(&x->values);
    hw_vec_done(&x->live);
}

#include "views/time/process_view.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"

#include "base/banned.h"

static int by_ts(const void *a, const void *b)
{
    int64_t x = ((const struct hw_process_moment *)a)->ts_ns;
    int64_t y = ((const struct hw_process_moment *)b)->ts_ns;
    return x < y ? -1 : x > y;
}

static int by_dump(const void *a, const void *b)
{
    uint32_t x = ((const struct hw_dump_total *)a)->dump;
    uint32_t y = ((const struct hw_dump_total *)b)->dump;
    return x < y ? -1 : x > y;
}

static void sort_unique(struct hw_process_moment *v, size_t *n)
{
    if (*n == 0)
        return;
    qsort(v, *n, sizeof *v, by_ts);
    size_t kept = 1;
    for (size_t i = 1; i < *n; i++)
        if (v[i].ts_ns != v[kept - 1].ts_ns) {
            v[kept++] = v[i];
        } else {
            v[kept - 1].is_dump |= v[i].is_dump;
            /* Another heap's dump at the same time does not turn a maximum into an ordinary
             * dump. */
            v[kept - 1].is_peak |= v[i].is_peak;
        }
    *n = kept;
}

static bool is_counted(const struct hw_process_view *v, const struct hw_series *s)
{
    return s->upid.v == v->upid.v && s->kind == v->kind;
}

static int collect(struct hw_process_view *v, const struct hw_profile *p, const struct hw_series *s)
{
    for (size_t i = 0; i < s->shown.n; i++) {
        const struct hw_heap_dump *d = &p->dumps.v[s->shown.v[i]];
        struct hw_bytes trigger = hw_strings_get(hw_callsites_strings(p->callsites), d->trigger);
        struct hw_process_moment m = {.ts_ns = d->ts_ns,
                                      .is_peak = hw_bytes_equal(trigger, hw_bytes_str("peak"))};
        m.is_dump = is_counted(v, s) && !m.is_peak &&
                    !hw_bytes_equal(trigger, hw_bytes_str("freed-by-exec"));
        if (hw_vec_push(&v->moments, m) < 0)
            return HW_ENOMEM;
        v->knows_peak |= is_counted(v, s) && m.is_peak;
    }
    for (size_t i = 0; is_counted(v, s) && i < s->peaks.n; i++) {
        struct hw_process_moment m = {.ts_ns = p->dumps.v[s->peaks.v[i]].ts_ns, .at_max = true};
        if (hw_vec_push(&v->peaks, m) < 0)
            return HW_ENOMEM;
    }
    return HW_OK;
}

static int add_totals(struct hw_process_view *v, const struct hw_profile *p,
                      const struct hw_series *s)
{
    struct hw_sum *t;
    int rc = hw_sum_new(p, s, &t);
    if (rc < 0)
        return rc;
    size_t next = 0;
    struct hw_value total = {0};
    for (size_t i = 0; i < v->moments.n && rc == 0; i++) {
        while (rc == 0 && next < s->shown.n &&
               p->dumps.v[s->shown.v[next]].ts_ns <= v->moments.v[i].ts_ns) {
            uint32_t dump = s->shown.v[next++];
            rc = hw_sum_advance(t, dump);
            total = hw_sum_total(t);
            if (rc == 0)
                rc = hw_vec_push(&v->dumps, (struct hw_dump_total){dump, total});
        }
        if (is_counted(v, s))
            hw_value_add(&v->moments.v[i].total, &total);
    }
    hw_sum_free(t);
    return rc;
}

static int add_peaks(struct hw_process_view *v, const struct hw_profile *p,
                     const struct hw_series *s)
{
    hw_values values = {0};
    int rc = HW_OK;
    for (size_t i = 0; i < s->peaks.n && rc == 0; i++) {
        rc = hw_values_at(p, s, s->peaks.v[i], &values);
        struct hw_process_moment key = {.ts_ns = p->dumps.v[s->peaks.v[i]].ts_ns};
        /* NULL if the heaps of the first kind have no recorded maxima. */
        struct hw_process_moment *m =
            v->peaks.n ? bsearch(&key, v->peaks.v, v->peaks.n, sizeof *v->peaks.v, by_ts) : NULL;
        struct hw_dump_total d = {.dump = s->peaks.v[i]};
        for (size_t k = 0; rc == 0 && k < values.n; k++)
            hw_value_add(&d.total, &values.v[k].v);
        if (rc == 0)
            rc = hw_vec_push(&v->dumps, d);
        if (m && is_counted(v, s))
            hw_value_add(&m->total, &d.total);
    }
    hw_vec_done(&values);
    return rc;
}

/* Whether it is a dump of a counted heap; one that only says it was rejected belongs to no
 * series. */
static bool is_counted_dump(const struct hw_process_view *v, const struct hw_series_list *list,
                            const struct hw_heap_dump *d)
{
    const struct hw_series *s = hw_series_find(list, d->upid, d->heap_name);
    return s && is_counted(v, s);
}

static void add_dump_facts(struct hw_process_view *v, const struct hw_heap_dump *d)
{
    int64_t start = d->start_ts_ns > 0 ? d->start_ts_ns : d->ts_ns;
    if (v->start_ns == 0 || start < v->start_ns)
        v->start_ns = start;
    if (d->interval_bytes > v->interval_bytes)
        v->interval_bytes = d->interval_bytes;
    v->knows_peak |= (d->flags & (HW_DUMP_KEEPS_PEAK | HW_DUMP_AT_MAX)) != 0;
    if (d->orig_interval_bytes > v->orig_interval_bytes)
        v->orig_interval_bytes = d->orig_interval_bytes;
}

/* The last dump of a process that ended has HW_DUMP_DISCONNECTED. */
static bool has_ended(const struct hw_profile *p, const struct hw_process_rows *dumps)
{
    int64_t last = INT64_MIN;
    bool ended = false;
    for (size_t i = 0; i < dumps->n; i++) {
        const struct hw_heap_dump *h = &p->dumps.v[dumps->v[i]];
        if (h->ts_ns < last)
            continue;
        ended = (h->ts_ns == last && ended) || (h->flags & HW_DUMP_DISCONNECTED) != 0;
        last = h->ts_ns;
    }
    return ended;
}

bool hw_process_has_heap(const struct hw_profile *p, hw_upid upid, const char *name)
{
    const struct hw_strings *strings = hw_callsites_strings(p->callsites);
    const struct hw_process_rows dumps = hw_by_process_of(&p->dumps_of, upid);
    for (size_t i = 0; i < dumps.n; i++)
        if (hw_bytes_equal(hw_strings_get(strings, p->dumps.v[dumps.v[i]].heap_name),
                           hw_bytes_str(name)))
            return true;
    return false;
}

int hw_process_view_init(struct hw_process_view *v, const struct hw_profile *p,
                         const struct hw_series_list *list, hw_upid upid)
{
    *v = (struct hw_process_view){.upid = upid, .kind = hw_process_kind(p, list, upid, NULL, NULL)};
    const struct hw_process_rows series = hw_series_of(list, upid);
    const struct hw_process_rows dumps = hw_by_process_of(&p->dumps_of, upid);
    int rc = HW_OK;
    for (size_t i = 0; i < series.n && rc == 0; i++)
        rc = collect(v, p, &list->v.v[series.v[i]]);
    sort_unique(v->moments.v, &v->moments.n);
    sort_unique(v->peaks.v, &v->peaks.n);
    v->n_dumps = v->peaks.n;
    for (size_t i = 0; i < v->moments.n; i++)
        v->n_dumps += v->moments.v[i].is_dump;
    for (size_t i = 0; i < series.n && rc == 0; i++) {
        rc = add_totals(v, p, &list->v.v[series.v[i]]);
        if (rc == 0)
            rc = add_peaks(v, p, &list->v.v[series.v[i]]);
    }
    for (size_t i = 0; i < dumps.n; i++)
        if (is_counted_dump(v, list, &p->dumps.v[dumps.v[i]]))
            add_dump_facts(v, &p->dumps.v[dumps.v[i]]);
    if (v->start_ns == 0)
        v->start_ns = p->first_ns;
    if (v->dumps.n)
        qsort(v->dumps.v, v->dumps.n, sizeof *v->dumps.v, by_dump);
    v->ended = has_ended(p, &dumps);
    if (rc < 0)
        hw_process_view_done(v);
    return rc;
}

void hw_process_view_done(struct hw_process_view *v)
{
    hw_vec_done(&v->moments);
    hw_vec_done(&v->peaks);
    hw_vec_done(&v->dumps);
}

const struct hw_value *hw_process_view_dump(const struct hw_process_view *v, uint32_t dump)
{
    struct hw_dump_total key = {.dump = dump};
    const struct hw_dump_total *d =
        v->dumps.n ? bsearch(&key, v->dumps.v, v->dumps.n, sizeof *v->dumps.v, by_dump) : NULL;
    return d ? &d->total : NULL;
}

const struct hw_process_moment *hw_process_view_peak(const struct hw_process_view *v)
{
    const struct hw_process_moment *best = NULL;
    for (size_t i = 0; i < v->peaks.n; i++)
        if (!best || v->peaks.v[i].total.space > best->total.space)
            best = &v->peaks.v[i];
    for (size_t i = 0; i < v->moments.n; i++)
        if (!best || v->moments.v[i].total.space > best->total.space)
            best = &v->moments.v[i];
    return best;
}

bool hw_process_view_cleaned_up(const struct hw_process_view *v)
{
    const struct hw_process_moment *peak = hw_process_view_peak(v);
    if (!peak || v->moments.n == 0)
        return false;
    const struct hw_process_moment *end = &v->moments.v[v->moments.n - 1];
    double share = v->ended ? 0.5 : 0.01;
    return peak->ts_ns != end->ts_ns && peak->total.space > 0 &&
           (double)end->total.space < share * (double)peak->total.space;
}

uint32_t hw_process_dump_at(const struct hw_profile *p, const struct hw_series *s, int64_t ts_ns,
                            bool at_max)
{
    uint32_t found = HW_ID_NONE;
    const hw_dump_list *l = at_max ? &s->peaks : &s->shown;
    for (size_t i = 0; i < l->n; i++) {
        int64_t ts = p->dumps.v[l->v[i]].ts_ns;
        if (at_max ? ts == ts_ns : ts <= ts_ns)
            found = l->v[i];
    }
    return found;
}

static int by_callsite(const void *a, const void *b)
{
    uint32_t x = ((const struct hw_callsite_value *)a)->callsite.v;
    uint32_t y = ((const struct hw_callsite_value *)b)->callsite.v;
    return x < y ? -1 : x > y;
}

static void merge(hw_values *values)
{
    if (values->n == 0)
        return;
    qsort(values->v, values->n, sizeof *values->v, by_callsite);
    size_t kept = 0;
    for (size_t i = 1; i < values->n; i++) {
        if (values->v[i].callsite.v == values->v[kept].callsite.v)
            hw_value_add(&values->v[kept].v, &values->v[i].v);
        else
            values->v[++kept] = values->v[i];
    }
    values->n = kept + 1;
}

enum hw_heap_kind hw_process_kind(const struct hw_profile *p, const struct hw_series_list *list,
                                  hw_upid upid, hw_process_keep keep, const void *ctx)
{
    const struct hw_process_rows series = hw_series_of(list, upid);
    const struct hw_series *first = NULL;
    for (size_t i = 0; i < series.n; i++) {
        const struct hw_series *s = &list->v.v[series.v[i]];
        if ((!first || s->rank < first->rank) && (!keep || keep(ctx, p, s)))
            first = s;
    }
    return first ? first->kind : HW_HEAP_KIND_COUNT;
}

int hw_process_values(const struct hw_profile *p, const struct hw_series_list *list, hw_upid upid,
                      int64_t ts_ns, bool at_max, hw_values *out)
{
    return hw_process_values_of(p, list, upid, ts_ns, at_max, NULL, NULL, out);
}

int hw_process_values_of(const struct hw_profile *p, const struct hw_series_list *list,
                         hw_upid upid, int64_t ts_ns, bool at_max, hw_process_keep keep,
                         const void *ctx, hw_values *out)
{
    const enum hw_heap_kind kind = hw_process_kind(p, list, upid, keep, ctx);
    const struct hw_process_rows series = hw_series_of(list, upid);
    hw_values one = {0};
    int rc = HW_OK;
    hw_vec_clear(out);
    for (size_t i = 0; i < series.n && rc == 0; i++) {
        const struct hw_series *s = &list->v.v[series.v[i]];
        if (s->kind != kind || (keep && !keep(ctx, p, s)))
            continue;
        uint32_t dump = hw_process_dump_at(p, s, ts_ns, at_max);
        if (dump == HW_ID_NONE)
            continue;
        rc = hw_values_at(p, s, dump, &one);
        for (size_t k = 0; rc == 0 && k < one.n; k++)
            if (hw_vec_push(out, one.v[k]) < 0)
                rc = HW_ENOMEM;
    }
    hw_vec_done(&one);
    if (rc == 0)
        merge(out);
    return rc;
}

static struct hw_value last_total(const struct hw_process_view *v)
{
    return v->moments.n ? v->moments.v[v->moments.n - 1].total
           : v->peaks.n ? v->peaks.v[v->peaks.n - 1].total
                        : (struct hw_value){0};
}

static int by_allocated(const void *a, const void *b)
{
    const struct hw_process_view *x = a, *y = b;
    int64_t at_x = last_total(x).alloc_space, at_y = last_total(y).alloc_space;
    if (at_x != at_y)
        return at_x > at_y ? -1 : 1;
    return x->upid.v < y->upid.v ? -1 : x->upid.v > y->upid.v;
}

int hw_process_views_init(const struct hw_profile *p, const struct hw_series_list *list,
                          hw_process_views *views)
{
    for (size_t i = 0; i < list->v.n; i++) {
        if (hw_series_of(list, list->v.v[i].upid).v[0] != i)
            continue; /* not its process's first heap */
        struct hw_process_view v;
        int rc = hw_process_view_init(&v, p, list, list->v.v[i].upid);
        if (rc == HW_OK && hw_vec_push(views, v) < 0) {
            hw_process_view_done(&v);
            rc = HW_ENOMEM;
        }
        if (rc < 0)
            return rc;
    }
    if (views->n)
        qsort(views->v, views->n, sizeof *views->v, by_allocated);
    return HW_OK;
}

void hw_process_views_done(hw_process_views *views)
{
    for (size_t i = 0; i < views->n; i++)
        hw_process_view_done(&views->v[i]);
    hw_vec_done(views);
}

int hw_process_count_dumps(const struct hw_profile *p, const struct hw_series_list *list,
                           size_t *out)
{
    hw_process_views views = {0};
    int rc = hw_process_views_init(p, list, &views);
    *out = 0;
    for (size_t i = 0; rc == HW_OK && i < views.n; i++)
        *out += views.v[i].n_dumps;
    hw_process_views_done(&views);
    return rc;
}

int hw_process_rank_all(const struct hw_profile *p, const struct hw_series_list *list,
                        hw_process_ranks *out)
{
    hw_process_views views = {0};
    int rc = hw_process_views_init(p, list, &views);
    hw_vec_clear(out);
    for (size_t i = 0; rc == HW_OK && i < views.n; i++)
        rc = hw_vec_push(out, (struct hw_process_rank){views.v[i].upid, last_total(&views.v[i])});
    hw_process_views_done(&views);
    return rc;
}

bool hw_process_counter(const struct hw_profile *p, hw_upid upid, const char *name, int64_t ts_ns,
                        double *out, int64_t *at_ns)
{
    const struct hw_strings *strings = hw_callsites_strings(p->callsites);
    struct hw_bytes want = hw_bytes_str(name);
    struct hw_process_rows rows = hw_by_process_of(&p->counters_of, upid);
    uint64_t best = UINT64_MAX;
    for (size_t i = 0; i < rows.n; i++) {
        const struct hw_counter_row *c = &p->counters.v[rows.v[i]];
        if (!hw_bytes_equal(hw_strings_get(strings, c->name), want))
            continue;
        uint64_t a = (uint64_t)c->ts_ns, b = (uint64_t)ts_ns;
        uint64_t distance = c->ts_ns > ts_ns ? a - b : b - a;
        if (distance <= best) {
            best = distance;
            *out = c->value;
            if (at_ns)
                *at_ns = c->ts_ns;
        }
    }
    return best != UINT64_MAX;
}

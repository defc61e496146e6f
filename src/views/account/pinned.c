#include "views/account/pinned.h"

#include <math.h>

#include "base/error.h"

#include "base/banned.h"

#define SAME_MOMENT_NS 60e6 /* a dump is written within that */

static double away(int64_t a, int64_t b)
{
    return fabs((double)a - (double)b);
}

static const struct hw_series *series_of(const struct hw_series_list *list, hw_upid upid)
{
    for (size_t i = 0; i < list->v.n; i++)
        if (list->v.v[i].upid.v == upid.v && list->v.v[i].kind == HW_HEAP_PINNED)
            return &list->v.v[i];
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
        if (best != HW_ID_NONE && away(ts, m->ts_ns) > away(out->ts_ns, m->ts_ns))
            continue;
        best = s->shown.v[i];
        out->ts_ns = ts;
    }
    if (best == HW_ID_NONE)
        return HW_ENOTFOUND;
    int rc = hw_values_at(p, s, best, &out->values);
    for (size_t i = 0; rc == HW_OK && i < out->values.n; i++)
        out->pinned += (double)out->values.v[i].v.space;
    if (rc < 0)
        hw_pinned_done(out);
    else if (!m->older_or_free && away(out->ts_ns, m->ts_ns) <= SAME_MOMENT_NS)
        out->whole = fmax(0, m->parts[HW_PART_FREE].rss - out->pinned);
    return rc;
}

void hw_pinned_done(struct hw_pinned *x)
{
    hw_vec_done(&x->values);
}

#include "import/system/clock_rows.h"

#include "base/error.h"
#include "model/profile.h"
#include "schema/fields.h"
#include "trace/clocks.h"

#include "base/banned.h"

#define CLOCK(name) HW_V_BuiltinClock_BUILTIN_CLOCK_##name

enum { FIRST_SCOPED = 64 }; /* clocks of sequences and of producers */

/* The trace clock at a snapshot, the points [i, end): as read, else converted from another one. */
static bool trace_time(struct hw_clocks *c, size_t i, size_t end, int64_t *ts_ns, bool *was_read)
{
    *was_read = false;
    for (size_t k = i; k < end && !*was_read; k++)
        if (c->points.v[k].clock == hw_clocks_trace_clock(c)) {
            *ts_ns = c->points.v[k].ns;
            *was_read = true;
        }
    for (size_t k = i; k < end && !*was_read; k++) {
        const struct hw_clock_point *p = &c->points.v[k];
        if (p->clock < FIRST_SCOPED && hw_clocks_convert(c, (uint32_t)p->clock, /* sequence = */ 0,
                                                         (uint64_t)p->ns, ts_ns) == HW_CLOCK_OK)
            return true;
    }
    return *was_read;
}

static int add_point(struct hw_profile *p, const struct hw_clock_point *point, int64_t ts_ns,
                     bool was_read)
{
    struct hw_clock_moment at = {ts_ns, point->ns};
    struct hw_clock_row row = {
        .at = at, .clock = (int64_t)point->clock, .snapshot = point->snapshot};
    if (hw_vec_push(&p->clocks, row) < 0)
        return HW_ENOMEM;
    if (was_read && point->clock == CLOCK(REALTIME) && hw_vec_push(&p->wall, at) < 0)
        return HW_ENOMEM;
    return was_read && point->clock == CLOCK(MONOTONIC) && hw_vec_push(&p->monotonic, at) < 0
               ? HW_ENOMEM
               : HW_OK;
}

int hw_import_clocks(struct hw_profile *p, struct hw_clocks *c)
{
    int rc = HW_OK;
    for (size_t i = 0, end; rc == HW_OK && i < c->points.n; i = end) {
        int64_t ts_ns = 0;
        bool was_read;
        for (end = i; end < c->points.n && c->points.v[end].snapshot == c->points.v[i].snapshot;)
            end++;
        if (!trace_time(c, i, end, &ts_ns, &was_read))
            continue;
        for (size_t k = i; rc == HW_OK && k < end; k++)
            rc = add_point(p, &c->points.v[k], ts_ns, was_read);
    }
    return rc;
}

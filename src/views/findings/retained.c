/*
 * The rows of a dump are changes. Checkpoints between two shown dumps belong to the later one, so
 * the changes of such an interval are summed by callsite before negative ones are dropped.
 */
#include "views/findings/retained.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/memory/saturate.h"
#include "model/profile.h"

#include "base/banned.h"

struct interval {
    int64_t *change;       /* by callsite; 0 unless in `seen` */
    HW_VEC(uint32_t) seen; /* callsites with a row; may contain duplicates */
};

static int add_dump(struct interval *st, const struct hw_profile *p, uint32_t dump)
{
    size_t first, n;
    hw_profile_dump_rows(p, dump, &first, &n);
    for (size_t i = first; i < first + n; i++) {
        struct hw_alloc_row r = hw_alloc_row_of(&p->allocs, dump, i);
        st->change[r.callsite.v] = hw_sat_add(st->change[r.callsite.v], r.size);
        if (hw_vec_push(&st->seen, r.callsite.v) < 0)
            return HW_ENOMEM;
    }
    return HW_OK;
}

static int64_t end_interval(struct interval *st)
{
    int64_t grown = 0;
    for (size_t i = 0; i < st->seen.n; i++) {
        int64_t *change = &st->change[st->seen.v[i]];
        grown = hw_sat_add(grown, *change > 0 ? *change : 0);
        *change = 0;
    }
    hw_vec_clear(&st->seen);
    return grown;
}

int hw_retained_of(const struct hw_profile *p, const struct hw_series *s, hw_retained *out)
{
    struct interval st = {.change =
                              calloc(hw_callsites_count(p->callsites) + 1, sizeof *st.change)};
    int rc = st.change ? HW_OK : HW_ENOMEM;
    size_t next = 0;
    for (size_t i = 0; rc == HW_OK && i < s->shown.n; i++) {
        while (rc == HW_OK && next < s->all.n && s->all.v[next] <= s->shown.v[i])
            rc = add_dump(&st, p, s->all.v[next++]);
        if (rc == HW_OK && hw_vec_push(out, end_interval(&st)) < 0)
            rc = HW_ENOMEM;
    }
    free(st.change);
    hw_vec_done(&st.seen);
    return rc;
}

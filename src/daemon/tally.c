#include "daemon/tally.h"

#include "base/error.h"

#include "base/banned.h"

void hw_tally_done(struct hw_tally *t)
{
    hw_vec_done(&t->rows);
    hw_vec_done(&t->touched);
    hw_vec_done(&t->stacks);
    hw_map64_done(&t->by_callsite);
}

static int find_row(struct hw_tally *t, hw_callsite_id callsite, struct hw_tally_row **out)
{
    uint64_t row;
    if (!hw_map64_get(&t->by_callsite, callsite.v, &row)) {
        row = t->rows.n;
        if (hw_vec_reserve(&t->touched, t->rows.n + 1) < 0 ||
            hw_vec_push(&t->rows, (struct hw_tally_row){.callsite = callsite}) < 0)
            return HW_ENOMEM;
        if (hw_map64_put(&t->by_callsite, callsite.v, row) < 0) {
            t->rows.n--;
            return HW_ENOMEM;
        }
    }
    *out = &t->rows.v[row];
    return HW_OK;
}

int hw_tally_set(struct hw_tally *t, uint32_t stack, hw_callsite_id callsite,
                 const struct hw_totals *now)
{
    if (hw_vec_reserve(&t->stacks, (size_t)stack + 1) < 0)
        return HW_ENOMEM;
    while (t->stacks.n <= stack)
        t->stacks.v[t->stacks.n++] = (struct hw_totals){0};
    struct hw_tally_row *r;
    int rc = find_row(t, callsite, &r);
    if (rc < 0)
        return rc;
    struct hw_totals *old = &t->stacks.v[stack];
    r->t.allocated += now->allocated - old->allocated;
    r->t.freed += now->freed - old->freed;
    r->t.alloc_count += now->alloc_count - old->alloc_count;
    r->t.free_count += now->free_count - old->free_count;
    r->t.extra_alloc += now->extra_alloc - old->extra_alloc;
    r->t.extra_free += now->extra_free - old->extra_free;
    r->t.variance += now->variance - old->variance;
    *old = *now;
    if (!r->touched) {
        r->touched = true;
        t->touched.v[t->touched.n++] = (uint32_t)(r - t->rows.v);
    }
    return HW_OK;
}

void hw_tally_clear_touched(struct hw_tally *t)
{
    for (size_t i = 0; i < t->touched.n; i++)
        t->rows.v[t->touched.v[i]].touched = false;
    hw_vec_clear(&t->touched);
}

size_t hw_tally_bytes(const struct hw_tally *t)
{
    return t->rows.cap * sizeof *t->rows.v + t->touched.cap * sizeof *t->touched.v +
           t->stacks.cap * sizeof *t->stacks.v + hw_map64_bytes(&t->by_callsite);
}

/*
 * Nearly every callsite belongs to one stack number, and then the row says what that one added: the
 * new totals replace the old ones. Only if a second number leads to the same callsite do we need to
 * know what each of them added before; these few are kept in `parts`.
 */
#include "daemon/books/callsite_totals.h"

#include "base/error.h"

#include "base/banned.h"

void hw_callsite_totals_done(struct hw_callsite_totals *t)
{
    hw_vec_done(&t->rows);
    hw_vec_done(&t->touched);
    hw_vec_done(&t->parts);
    hw_map64_done(&t->by_callsite);
    hw_map64_done(&t->part_of_stack);
}

static int find_row(struct hw_callsite_totals *t, uint32_t stack, hw_callsite_id callsite,
                    struct hw_callsite_totals_row **out)
{
    uint64_t row;
    if (!hw_map64_get(&t->by_callsite, callsite.v, &row)) {
        struct hw_callsite_totals_row fresh = {.callsite = callsite,
                                               .stack = stack & HW_TOTALS_STACKS};
        row = t->rows.n;
        if (hw_vec_reserve(&t->touched, t->rows.n + 1) < 0 || hw_vec_push(&t->rows, fresh) < 0)
            return HW_ENOMEM;
        if (hw_map64_put(&t->by_callsite, callsite.v, row) < 0) {
            t->rows.n--;
            return HW_ENOMEM;
        }
    }
    *out = &t->rows.v[row];
    return HW_OK;
}

/* What this stack added before; created with nothing. Borrowed until the next one is created. */
static int find_part(struct hw_callsite_totals *t, uint32_t stack, struct hw_totals **out)
{
    uint64_t part;
    if (!hw_map64_get(&t->part_of_stack, stack, &part)) {
        part = t->parts.n;
        if (hw_vec_push(&t->parts, (struct hw_totals){0}) < 0)
            return HW_ENOMEM;
        if (hw_map64_put(&t->part_of_stack, stack, part) < 0) {
            t->parts.n--;
            return HW_ENOMEM;
        }
    }
    *out = &t->parts.v[part];
    return HW_OK;
}

/* Until now it belonged to one stack, which becomes a part like any other. */
static int share(struct hw_callsite_totals *t, struct hw_callsite_totals_row *r)
{
    struct hw_totals *first;
    int rc = find_part(t, r->stack, &first);
    if (rc < 0)
        return rc;
    *first = r->t;
    r->shared = true;
    return HW_OK;
}

static void replace(struct hw_totals *sum, const struct hw_totals *old, const struct hw_totals *now)
{
    sum->allocated += now->allocated - old->allocated;
    sum->freed += now->freed - old->freed;
    sum->alloc_count += now->alloc_count - old->alloc_count;
    sum->free_count += now->free_count - old->free_count;
    sum->rounding += now->rounding - old->rounding;
    sum->extra_alloc += now->extra_alloc - old->extra_alloc;
    sum->extra_free += now->extra_free - old->extra_free;
    sum->variance += now->variance - old->variance;
    sum->variance_objects += now->variance_objects - old->variance_objects;
    sum->variance_alloc_space += now->variance_alloc_space - old->variance_alloc_space;
    sum->variance_rounding += now->variance_rounding - old->variance_rounding;
    sum->variance_alloc_objects += now->variance_alloc_objects - old->variance_alloc_objects;
    sum->temporary += now->temporary - old->temporary;
    sum->temporary_objects += now->temporary_objects - old->temporary_objects;
    sum->variance_temporary += now->variance_temporary - old->variance_temporary;
    sum->variance_temporary_objects +=
        now->variance_temporary_objects - old->variance_temporary_objects;
}

static int set_part(struct hw_callsite_totals *t, struct hw_callsite_totals_row *r, uint32_t stack,
                    const struct hw_totals *now)
{
    struct hw_totals *old;
    int rc = r->shared ? HW_OK : share(t, r);
    if (rc == HW_OK)
        rc = find_part(t, stack, &old);
    if (rc < 0)
        return rc;
    replace(&r->t, old, now);
    *old = *now;
    return HW_OK;
}

int hw_callsite_totals_set(struct hw_callsite_totals *t, uint32_t stack, hw_callsite_id callsite,
                           const struct hw_totals *now)
{
    struct hw_callsite_totals_row *r;
    int rc = find_row(t, stack, callsite, &r);
    if (rc < 0)
        return rc;
    if (!r->shared && r->stack == stack)
        r->t = *now;
    else if ((rc = set_part(t, r, stack, now)) < 0)
        return rc;
    if (!r->touched) {
        r->touched = true;
        t->touched.v[t->touched.n++] = (uint32_t)(r - t->rows.v);
    }
    return HW_OK;
}

size_t hw_callsite_totals_bytes(const struct hw_callsite_totals *t)
{
    return t->rows.cap * sizeof *t->rows.v + t->touched.cap * sizeof *t->touched.v +
           t->parts.cap * sizeof *t->parts.v + hw_map64_bytes(&t->by_callsite) +
           hw_map64_bytes(&t->part_of_stack);
}

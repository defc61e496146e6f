#include "views/account/parts_diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#include "base/banned.h"

enum { PAGE = 4096 };

static double change(const struct hw_parts_diff_row *r)
{
    return r->b - r->a;
}

/* Live bytes are an estimate; the allocator's other parts are the rest, so they have its error. */
static double error_of(enum hw_memory_part part, const struct hw_memory_parts *m, double live_error)
{
    switch (part) {
    case HW_PART_LIVE:
    case HW_PART_FREE:
    case HW_PART_OLDER:
    case HW_PART_MOVED:
        return live_error;
    case HW_PART_ROUNDING:
        return m->requested > 0 ? live_error * m->parts[part].rss / m->requested : 0;
    default:
        return 0;
    }
}

static int add_entries(struct hw_parts_diff *d, const struct hw_parts_diff_side *side,
                       enum hw_memory_part part, bool is_b)
{
    for (size_t i = 0; i < side->parts->entries.n; i++) {
        const struct hw_part_entry *e = &side->parts->entries.v[i];
        struct hw_parts_diff_row r = {.part = part, .name = hw_memory_entry_name(side->p, e)};
        if (e->part != part)
            continue;
        *(is_b ? &r.b : &r.a) = e->bytes.rss;
        if (hw_vec_push(&d->rows, r) < 0)
            return HW_ENOMEM;
    }
    return HW_OK;
}

static int by_name(const void *pa, const void *pb)
{
    const struct hw_parts_diff_row *a = pa, *b = pb;
    return strcmp(a->name, b->name);
}

/* Merges rows of the same name, from `first` on. */
static void merge_rows(struct hw_parts_diff *d, size_t first)
{
    size_t n = first;
    if (d->rows.n > first)
        qsort(&d->rows.v[first], d->rows.n - first, sizeof *d->rows.v, by_name);
    for (size_t i = first; i < d->rows.n; i++) {
        const struct hw_parts_diff_row r = d->rows.v[i];
        if (n == first || strcmp(d->rows.v[n - 1].name, r.name) != 0) {
            d->rows.v[n++] = r;
            continue;
        }
        d->rows.v[n - 1].a += r.a;
        d->rows.v[n - 1].b += r.b;
    }
    d->rows.n = n;
}

static int by_change(const void *pa, const void *pb)
{
    const struct hw_parts_diff_row *a = pa, *b = pb;
    double x = fabs(change(a)), y = fabs(change(b));
    return x > y ? -1 : x < y ? 1 : strcmp(a->name, b->name);
}

static int add_part(struct hw_parts_diff *d, const struct hw_parts_diff_side *a,
                    const struct hw_parts_diff_side *b, enum hw_memory_part part, double live_error)
{
    struct hw_parts_diff_row r = {
        .part = part,
        .a = a->parts->parts[part].rss,
        .b = b->parts->parts[part].rss,
        .error = fmax(error_of(part, a->parts, live_error), error_of(part, b->parts, live_error))};
    if (hw_vec_push(&d->rows, r) < 0)
        return HW_ENOMEM;
    size_t first = d->rows.n;
    int rc = add_entries(d, a, part, /* is_b = */ false);
    if (rc == HW_OK)
        rc = add_entries(d, b, part, /* is_b = */ true);
    merge_rows(d, first);
    if (d->rows.n > first)
        qsort(&d->rows.v[first], d->rows.n - first, sizeof *d->rows.v, by_change);
    return rc;
}

int hw_parts_diff_make(const struct hw_parts_diff_side *a, const struct hw_parts_diff_side *b,
                       double live_error, struct hw_parts_diff *out)
{
    int rc = HW_OK;
    *out = (struct hw_parts_diff){.rss = {.a = a->parts->total.rss, .b = b->parts->total.rss}};
    for (int p = 0; rc == HW_OK && p < HW_PART_COUNT; p++)
        rc = add_part(out, a, b, (enum hw_memory_part)p, live_error);
    if (rc < 0)
        hw_parts_diff_done(out);
    return rc;
}

void hw_parts_diff_done(struct hw_parts_diff *d)
{
    hw_vec_done(&d->rows);
}

bool hw_parts_diff_is_sure(const struct hw_parts_diff_row *r)
{
    return fabs(change(r)) >= PAGE && fabs(change(r)) > r->error;
}

const struct hw_parts_diff_row *hw_parts_diff_most(const struct hw_parts_diff *d)
{
    const struct hw_parts_diff_row *best = NULL;
    for (size_t i = 0; i < d->rows.n; i++) {
        const struct hw_parts_diff_row *r = &d->rows.v[i];
        bool is_own = r->part != HW_PART_PROFILER && r->part != HW_PART_MOVED;
        if (r->name || !is_own || change(r) <= 0 || !hw_parts_diff_is_sure(r))
            continue;
        if (!best || change(r) > change(best))
            best = r;
    }
    return best;
}

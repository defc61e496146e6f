#include "sql/views/dump_sums.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/saturate.h"
#include "model/profile.h"

#include "base/banned.h"

/* Sums of the callsites in a group's dumps; cleared after each group. */
struct sites {
    int64_t *size, *count;
    uint32_t *named;
    size_t n_named, n;
    uint8_t *is_named;
};

static bool is_same(const struct hw_heap_dump *a, const struct hw_heap_dump *b)
{
    return a->ts_ns == b->ts_ns && a->upid.v == b->upid.v && a->heap_name.v == b->heap_name.v;
}

static void add_dump(struct sites *s, const struct hw_profile *p, uint32_t dump,
                     struct hw_dump_sum *out)
{
    size_t first, n;
    hw_alloc_rows_of_dump(&p->allocs, dump, &first, &n);
    if (n == 0)
        return;
    if (out->first_row < 0 || (int64_t)first < out->first_row)
        out->first_row = (int64_t)first;
    if (out->dump == HW_ID_NONE ||
        hw_dump_start(&p->dumps.v[dump]) < hw_dump_start(&p->dumps.v[out->dump]))
        out->dump = dump;
    for (size_t i = first; i < first + n; i++) {
        uint32_t site = p->allocs.callsite[i] < s->n ? p->allocs.callsite[i] : (uint32_t)s->n;
        int64_t size = hw_alloc_size(&p->allocs, i);
        if (!s->is_named[site]) {
            s->is_named[site] = 1;
            s->named[s->n_named++] = site;
        }
        s->size[site] = hw_sat_add(s->size[site], size);
        s->count[site] = hw_sat_add(s->count[site], hw_alloc_samples(&p->allocs, i));
        out->delta = hw_sat_add(out->delta, size);
        if (size > 0)
            out->allocated = hw_sat_add(out->allocated, size);
    }
}

static void close_group(struct sites *s, struct hw_dump_sum *out)
{
    for (size_t i = 0; i < s->n_named; i++) {
        uint32_t site = s->named[i];
        if (s->count[site] > 0)
            out->retained = hw_sat_add(out->retained, s->size[site]);
        s->size[site] = s->count[site] = 0;
        s->is_named[site] = 0;
    }
    s->n_named = 0;
}

static int compare(const void *pa, const void *pb)
{
    const struct hw_heap_dump *a = *(const struct hw_heap_dump *const *)pa;
    const struct hw_heap_dump *b = *(const struct hw_heap_dump *const *)pb;
    if (a->ts_ns != b->ts_ns)
        return a->ts_ns < b->ts_ns ? -1 : 1;
    if (a->upid.v != b->upid.v)
        return a->upid.v < b->upid.v ? -1 : 1;
    if (a->heap_name.v != b->heap_name.v)
        return a->heap_name.v < b->heap_name.v ? -1 : 1;
    return a < b ? -1 : a > b;
}

/* Sorted by time, so that end_ns is non-decreasing; the dumps of a group are adjacent. */
static int make_rows(struct hw_dump_sums *out, struct sites *s, const struct hw_profile *p)
{
    size_t n = p->dumps.n;
    hw_autofree const struct hw_heap_dump **order = calloc(n + 1, sizeof *order);
    if (!order)
        return HW_ENOMEM;
    for (size_t d = 0; d < n; d++)
        order[d] = &p->dumps.v[d];
    qsort(order, n, sizeof *order, compare);
    for (size_t d = 0; d < n;) {
        const struct hw_heap_dump *dump = order[d];
        struct hw_dump_sum row = {.first_row = -1,
                                  .upid = dump->upid,
                                  .heap = dump->heap_name,
                                  .dump = HW_ID_NONE,
                                  .end_ns = dump->ts_ns};
        for (; d < n && is_same(order[d], dump); d++)
            add_dump(s, p, (uint32_t)(order[d] - p->dumps.v), &row);
        close_group(s, &row);
        if (row.first_row >= 0 && hw_vec_push(&out->rows, row) < 0)
            return HW_ENOMEM;
    }
    return HW_OK;
}

int hw_dump_sums_make(struct hw_dump_sums *out, const struct hw_profile *p)
{
    if (out->made)
        return HW_OK;
    size_t n = hw_callsites_count(p->callsites);
    struct sites s = {.size = calloc(n + 1, sizeof *s.size),
                      .count = calloc(n + 1, sizeof *s.count),
                      .named = calloc(n + 1, sizeof *s.named),
                      .is_named = calloc(n + 1, 1),
                      .n = n};
    int rc = s.size && s.count && s.named && s.is_named ? make_rows(out, &s, p) : HW_ENOMEM;
    free(s.size);
    free(s.count);
    free(s.named);
    free(s.is_named);
    if (rc < 0)
        hw_dump_sums_done(out);
    out->made = rc == HW_OK;
    return rc;
}

void hw_dump_sums_done(struct hw_dump_sums *s)
{
    hw_vec_done(&s->rows);
    s->made = false;
}

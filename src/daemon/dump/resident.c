#include "daemon/dump/resident.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/error.h"

#include "base/banned.h"

static int by_address(const void *pa, const void *pb)
{
    const struct hw_mapped_by *a = pa, *b = pb;
    return (a->lo > b->lo) - (a->lo < b->lo);
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* All of the mapping belongs to this call. */
static bool is_one_call(const struct hw_reading_map *m, const struct hw_mapped_by *r, size_t n)
{
    uint64_t at = m->start;
    for (size_t i = 0; i < n; i++) {
        if (r[i].lo > at || r[i].stack != r[0].stack)
            return false;
        at = r[i].hi;
    }
    return at >= m->end;
}

static int ask(struct hw_resident *x, const struct hw_reading_map *m, size_t map, uint64_t lo,
               uint64_t hi, uint32_t stack)
{
    double share = (double)(hi - lo) / (double)(m->end - m->start);
    struct hw_resident_part part = {stack, map, share * (double)m->rss_bytes};
    struct hw_reading_range range = {lo, hi, HW_PAGES_UNKNOWN};
    return hw_vec_push(&x->ask, range) < 0 || hw_vec_push(&x->parts, part) < 0 ? HW_ENOMEM : HW_OK;
}

/* Ranges that have a part of the mapping. */
static int divide_map(struct hw_resident *x, const hw_reading_maps *maps, size_t map,
                      const struct hw_mapped_by *r, size_t n)
{
    const struct hw_reading_map *m = &maps->v[map];
    bool is_full = m->rss_bytes >= m->end - m->start;
    int rc = HW_OK;
    if (n && is_one_call(m, r, n))
        return hw_measured_heap_add(x->to, r[0].stack, (double)m->rss_bytes, 1);
    for (size_t i = 0; rc == HW_OK && i < n; i++) {
        uint64_t lo = later(r[i].lo, m->start), hi = earlier(r[i].hi, m->end);
        rc = is_full ? hw_measured_heap_add(x->to, r[i].stack, (double)(hi - lo), 1)
                     : ask(x, m, map, lo, hi, r[i].stack);
    }
    return rc;
}

int hw_resident_divide(struct hw_resident *r, const hw_reading_maps *maps, hw_mapped_list *mapped)
{
    size_t first = 0;
    int rc = HW_OK;
    if (mapped->n)
        qsort(mapped->v, mapped->n, sizeof *mapped->v, by_address);
    for (size_t i = 0; rc == HW_OK && i < maps->n; i++) {
        const struct hw_reading_map *m = &maps->v[i];
        while (first < mapped->n && mapped->v[first].hi <= m->start)
            first++;
        size_t end = first;
        while (end < mapped->n && mapped->v[end].lo < m->end)
            end++;
        rc = divide_map(r, maps, i, mapped->v + first, end - first);
        first = end > first ? end - 1 : first; /* it may extend into the next mapping */
    }
    return rc;
}

/* What a call had in memory when it was last measured, as far as it fits into a part. */
static double had(const struct hw_measured_heap *m, const struct hw_resident_part *p,
                  const struct hw_reading_range *r)
{
    uint64_t row;
    if (!hw_map64_get(&m->of_stack, p->stack, &row))
        return -1;
    double bytes = (double)hw_totals_live(&m->sites.v[row].told), size = (double)(r->hi - r->lo);
    return bytes < size ? bytes : size;
}

/* Parts [i, k) of one mapping, for which there is no measurement. */
static int divide_unknown(struct hw_resident *r, size_t i, size_t k)
{
    double before = 0, bytes = 0;
    bool were_known = true;
    int rc = HW_OK;
    for (size_t j = i; j < k; j++) {
        double b = had(r->to, &r->parts.v[j], &r->ask.v[j]);
        were_known &= b >= 0;
        before += b;
        bytes += r->parts.v[j].by_size;
    }
    for (size_t j = i; rc == HW_OK && j < k; j++) {
        const struct hw_resident_part *p = &r->parts.v[j];
        double b =
            were_known && before > 0 ? bytes * had(r->to, p, &r->ask.v[j]) / before : p->by_size;
        rc = hw_measured_heap_add(r->to, p->stack, b, b > 0);
    }
    r->divided_bytes += (uint64_t)bytes;
    return rc;
}

int hw_resident_count(struct hw_resident *r, uint64_t page_bytes)
{
    int rc = HW_OK;
    for (size_t i = 0, k; rc == HW_OK && i < r->ask.n; i = k) {
        bool all = true;
        for (k = i; k < r->ask.n && r->parts.v[k].map == r->parts.v[i].map; k++)
            all &= r->ask.v[k].n_pages != HW_PAGES_UNKNOWN;
        if (!all)
            rc = divide_unknown(r, i, k);
        for (size_t j = i; all && rc == HW_OK && j < k; j++) {
            uint64_t bytes = r->ask.v[j].n_pages * page_bytes;
            rc = hw_measured_heap_add(r->to, r->parts.v[j].stack, (double)bytes, bytes > 0);
        }
    }
    return rc;
}

void hw_resident_done(struct hw_resident *r)
{
    hw_vec_done(&r->ask);
    hw_vec_done(&r->parts);
}

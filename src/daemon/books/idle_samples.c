#include "daemon/books/idle_samples.h"

#include <stdlib.h>

#include "base/files/fd.h"
#include "base/memory/lower_bound.h"

#include "base/banned.h"

#define MOST_PAGES (UINT64_C(1) << 24) /* 64 GiB of them */
#define USER_END   (UINT64_C(1) << 56)

void hw_idle_live_done(struct hw_idle_live *l)
{
    hw_map64_done(&l->index);
    hw_vec_done(&l->samples);
    hw_vec_done(&l->empty);
}

int hw_idle_live_put(struct hw_idle_live *l, uint64_t id, const struct hw_idle_sample *s)
{
    if (hw_vec_reserve(&l->samples, l->samples.n + 1) < 0 ||
        hw_vec_reserve(&l->empty, l->samples.n + 1) < 0) /* so that removing needs no memory */
        return HW_ENOMEM;
    hw_idle_live_take(l, id);
    uint32_t row = l->empty.n ? l->empty.v[l->empty.n - 1] : (uint32_t)l->samples.n;
    if (row == UINT32_MAX || hw_map64_put(&l->index, id, row) < 0)
        return HW_ENOMEM;
    if (l->empty.n)
        l->empty.n--;
    else
        l->samples.n++;
    l->samples.v[row] = *s;
    return HW_OK;
}

void hw_idle_live_take(struct hw_idle_live *l, uint64_t id)
{
    uint64_t row;
    if (!hw_map64_take(&l->index, id, &row))
        return;
    l->samples.v[row] = (struct hw_idle_sample){0}; /* of no bytes */
    l->empty.v[l->empty.n++] = (uint32_t)row;
}

/* ---- measuring ---- */

struct page_list {
    uint64_t *v; /* owned */
    bool *idle;  /* owned */
    size_t n;
};

static bool pages_of(const struct hw_idle *x, const struct hw_idle_sample *s, uint64_t *first,
                     uint64_t *n)
{
    if (s->alloc_size == 0 || s->address >= USER_END || s->alloc_size > USER_END)
        return false;
    *first = s->address / x->page_bytes;
    *n = (s->address + s->alloc_size - 1) / x->page_bytes - *first + 1;
    return *n <= MOST_PAGES;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* All pages of all samples, each once, in order. */
static int list_pages(const struct hw_idle *x, const struct hw_idle_sample *s, size_t n,
                      struct page_list *out)
{
    HW_VEC(uint64_t) all = {0};
    uint64_t first, count;
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < n; i++) {
        if (!pages_of(x, &s[i], &first, &count) || all.n + count > MOST_PAGES)
            continue;
        rc = hw_vec_reserve(&all, all.n + count);
        for (uint64_t k = 0; rc == HW_OK && k < count; k++)
            if (all.n == 0 || all.v[all.n - 1] != first + k)
                all.v[all.n++] = first + k;
    }
    if (rc == HW_OK && all.n) {
        qsort(all.v, all.n, sizeof *all.v, by_number);
        size_t left = 1;
        for (size_t i = 1; i < all.n; i++)
            if (all.v[i] != all.v[left - 1])
                all.v[left++] = all.v[i];
        all.n = left;
    }
    bool *idle = rc == HW_OK ? calloc(all.n + 1, sizeof *idle) : NULL;
    if (!idle) {
        hw_vec_done(&all);
        return HW_ENOMEM;
    }
    *out = (struct page_list){all.v, idle, all.n};
    return HW_OK;
}

static bool all_idle(const struct page_list *p, uint64_t first, uint64_t count)
{
    size_t lo = HW_LOWER_BOUND(mid, 0, p->n, p->v[mid] < first);
    for (uint64_t k = 0; k < count; k++, lo++)
        if (lo >= p->n || p->v[lo] != first + k || !p->idle[lo])
            return false;
    return true;
}

int hw_idle_measure(struct hw_idle *x, const struct hw_idle_sample *s, size_t n, bool *idle,
                    struct hw_error *err)
{
    struct page_list p;
    uint64_t first, count;
    if (list_pages(x, s, n, &p) < 0)
        return hw_fail(err, HW_ENOMEM, 0, "pages of %zu samples", n);
    int rc = hw_idle_scan(x, p.v, p.n, p.idle, err);
    for (size_t i = 0; rc == HW_OK && i < n; i++)
        idle[i] = pages_of(x, &s[i], &first, &count) && all_idle(&p, first, count);
    free(p.v);
    free(p.idle);
    return rc;
}

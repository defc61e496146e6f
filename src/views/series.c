#include "views/series.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#include "base/banned.h"

static struct hw_series *series_find(struct hw_series_list *list, const struct hw_heap_dump *d)
{
    for (size_t i = 0; i < list->v.n; i++) {
        struct hw_series *s = &list->v.v[i];
        if (s->upid.v == d->upid.v && s->heap_name.v == d->heap_name.v)
            return s;
    }
    struct hw_series fresh = {.upid = d->upid, .heap_name = d->heap_name};
    if (hw_vec_push(&list->v, fresh) < 0)
        return NULL;
    return &list->v.v[list->v.n - 1];
}

/* A later dump of the same moment replaces an earlier one: its values contain the other's rows. */
static int show(const struct hw_profile *p, struct hw_series *s)
{
    for (size_t i = 0; i < s->all.n; i++) {
        const struct hw_heap_dump *d = &p->dumps.v[s->all.v[i]];
        bool last = i + 1 == s->all.n;
        if (!last && (d->flags & HW_DUMP_CHECKPOINT))
            continue;
        if (!last && p->dumps.v[s->all.v[i + 1]].ts_ns == d->ts_ns)
            continue;
        if (hw_vec_push(&s->shown, s->all.v[i]) < 0)
            return HW_ENOMEM;
    }
    return HW_OK;
}

static bool is_bare_rejection(const struct hw_profile *p, uint32_t dump)
{
    size_t first, n;
    hw_profile_dump_rows(p, dump, &first, &n);
    return n == 0 && (p->dumps.v[dump].flags & HW_DUMP_REJECTED);
}

int hw_series_list_init(struct hw_series_list *list, const struct hw_profile *p)
{
    *list = (struct hw_series_list){0};
    for (uint32_t i = 0; i < p->dumps.n; i++) {
        if (is_bare_rejection(p, i))
            continue;
        struct hw_series *s = series_find(list, &p->dumps.v[i]);
        if (!s)
            goto fail;
        bool peak = p->dumps.v[i].flags & HW_DUMP_AT_MAX;
        if (hw_vec_push(peak ? &s->peaks : &s->all, i) < 0)
            goto fail;
    }
    for (size_t i = 0; i < list->v.n; i++)
        if (show(p, &list->v.v[i]) < 0)
            goto fail;
    return HW_OK;
fail:
    hw_series_list_done(list);
    return HW_ENOMEM;
}

void hw_series_list_done(struct hw_series_list *list)
{
    for (size_t i = 0; i < list->v.n; i++) {
        hw_vec_done(&list->v.v[i].all);
        hw_vec_done(&list->v.v[i].shown);
        hw_vec_done(&list->v.v[i].peaks);
    }
    hw_vec_done(&list->v);
}

struct order {
    const struct hw_profile *p;
    const struct hw_series_list *list;
};

static int by_time(const void *a, const void *b, void *ctx)
{
    const struct order *o = ctx;
    const struct hw_moment *x = a, *y = b;
    const struct hw_heap_dump *dx = &o->p->dumps.v[x->dump], *dy = &o->p->dumps.v[y->dump];
    if (dx->ts_ns != dy->ts_ns)
        return dx->ts_ns < dy->ts_ns ? -1 : 1;
    if (dx->upid.v != dy->upid.v)
        return dx->upid.v < dy->upid.v ? -1 : 1;
    if (x->series != y->series)
        return x->series < y->series ? -1 : 1;
    return x->dump < y->dump ? -1 : x->dump > y->dump;
}

static int add_moments(hw_moment_list *out, uint32_t series, const uint32_t *dumps, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (hw_vec_push(out, (struct hw_moment){series, dumps[i]}) < 0)
            return HW_ENOMEM;
    return HW_OK;
}

int hw_moments(const struct hw_profile *p, const struct hw_series_list *list, hw_moment_list *out)
{
    out->v = NULL;
    out->n = out->cap = 0;
    for (uint32_t i = 0; i < list->v.n; i++) {
        const struct hw_series *s = &list->v.v[i];
        if (add_moments(out, i, s->shown.v, s->shown.n) < 0 ||
            add_moments(out, i, s->peaks.v, s->peaks.n) < 0) {
            hw_vec_done(out);
            return HW_ENOMEM;
        }
    }
    struct order o = {p, list};
    if (out->n)
        qsort_r(out->v, out->n, sizeof *out->v, by_time, &o);
    return HW_OK;
}

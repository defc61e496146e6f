#include "views/time/series.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/map64.h"
#include "views/time/values.h"

#include "base/banned.h"

#define GO_HEAP         "go.alloc"
#define NEXT_TO_NOTHING 16 /* times less */

enum hw_heap_kind hw_heap_kind_of(struct hw_bytes name)
{
    if (hw_bytes_equal(name, hw_bytes_str("java.alloc")) ||
        hw_bytes_equal(name, hw_bytes_str(GO_HEAP)))
        return HW_HEAP_OBJECTS;
    if (hw_bytes_equal(name, hw_bytes_str(HW_RESIDENT_HEAP)))
        return HW_HEAP_RESIDENT;
    if (name.n > 5 && memcmp(name.p, "mmap.", 5) == 0)
        return HW_HEAP_MAPPED;
    if (hw_bytes_equal(name, hw_bytes_str(HW_PINNED_HEAP)))
        return HW_HEAP_PINNED;
    return hw_bytes_equal(name, hw_bytes_str("com.android.art")) ? HW_HEAP_CHURN : HW_HEAP_NATIVE;
}

bool hw_series_has(const struct hw_series_list *list, const struct hw_profile *p, hw_upid upid,
                   const char *heap)
{
    const struct hw_strings *strings = hw_callsites_strings(p->callsites);
    const struct hw_process_rows rows = hw_series_of(list, upid);
    for (size_t i = 0; i < rows.n; i++)
        if (hw_bytes_equal(hw_strings_get(strings, list->v.v[rows.v[i]].heap_name),
                           hw_bytes_str(heap)))
            return true;
    return false;
}

static uint64_t heap_key(hw_upid upid, hw_str_id heap_name)
{
    return (uint64_t)upid.v << 32 | heap_name.v;
}

static struct hw_series *find_or_add(struct hw_series_list *list, const struct hw_profile *p,
                                     const struct hw_heap_dump *d)
{
    uint64_t *at;
    bool is_new;
    if (hw_map64_at(&list->by_heap, heap_key(d->upid, d->heap_name), &at, &is_new) < 0)
        return NULL;
    if (!is_new)
        return &list->v.v[*at];
    *at = list->v.n;
    struct hw_bytes name = hw_strings_get(hw_callsites_strings(p->callsites), d->heap_name);
    uint8_t kind = (uint8_t)hw_heap_kind_of(name);
    struct hw_series fresh = {
        .upid = d->upid, .heap_name = d->heap_name, .kind = kind, .rank = kind};
    if (hw_vec_push(&list->v, fresh) < 0)
        return NULL;
    return &list->v.v[list->v.n - 1];
}

/* A later dump of the same time replaces an earlier one: its values include the earlier rows. */
static int select_shown(const struct hw_profile *p, struct hw_series *s)
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

static int index_processes(struct hw_series_list *list)
{
    return hw_by_process_init(&list->by_process, list->v.v, list->v.n, sizeof *list->v.v);
}

static bool is_bare_rejection(const struct hw_profile *p, uint32_t dump)
{
    size_t first, n;
    hw_profile_dump_rows(p, dump, &first, &n);
    return n == 0 && (p->dumps.v[dump].flags & HW_DUMP_REJECTED);
}

static int add_last(const struct hw_profile *p, const struct hw_series *s, struct hw_value *to)
{
    hw_values values = {0};
    int rc = s->shown.n ? hw_values_at(p, s, s->shown.v[s->shown.n - 1], &values) : HW_OK;
    for (size_t i = 0; rc == HW_OK && i < values.n; i++)
        hw_value_add(to, &values.v[i].v);
    hw_vec_done(&values);
    return rc;
}

bool hw_series_is_behind(const struct hw_series *s)
{
    return s->rank != s->kind;
}

static bool is_little(int64_t x, int64_t beside)
{
    return x <= beside / NEXT_TO_NOTHING;
}

/* of: of a process, which has Go's heap. */
static int rank_beside_go(struct hw_series_list *list, const struct hw_profile *p,
                          const struct hw_series *go)
{
    const struct hw_process_rows of = hw_series_of(list, go->upid);
    struct hw_value native = {0}, managed = {0};
    int rc = add_last(p, go, &managed);
    for (size_t i = 0; rc == HW_OK && i < of.n; i++)
        if (list->v.v[of.v[i]].kind == HW_HEAP_NATIVE)
            rc = add_last(p, &list->v.v[of.v[i]], &native);
    if (rc < 0 || managed.alloc_space == 0 || !is_little(native.space, managed.space) ||
        !is_little(native.alloc_space, managed.alloc_space))
        return rc;
    for (size_t i = 0; i < of.n; i++)
        if (list->v.v[of.v[i]].kind == HW_HEAP_NATIVE)
            list->v.v[of.v[i]].rank = HW_HEAP_KIND_COUNT;
    return HW_OK;
}

static int rank_all(struct hw_series_list *list, const struct hw_profile *p)
{
    const struct hw_strings *strings = hw_callsites_strings(p->callsites);
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < list->v.n; i++)
        if (hw_bytes_equal(hw_strings_get(strings, list->v.v[i].heap_name), hw_bytes_str(GO_HEAP)))
            rc = rank_beside_go(list, p, &list->v.v[i]);
    return rc;
}

int hw_series_list_init(struct hw_series_list *list, const struct hw_profile *p)
{
    *list = (struct hw_series_list){0};
    for (uint32_t i = 0; i < p->dumps.n; i++) {
        if (is_bare_rejection(p, i))
            continue;
        struct hw_series *s = find_or_add(list, p, &p->dumps.v[i]);
        if (!s)
            goto fail;
        bool peak = p->dumps.v[i].flags & HW_DUMP_AT_MAX;
        if (hw_vec_push(peak ? &s->peaks : &s->all, i) < 0)
            goto fail;
    }
    for (size_t i = 0; i < list->v.n; i++)
        if (select_shown(p, &list->v.v[i]) < 0)
            goto fail;
    if (index_processes(list) < 0 || rank_all(list, p) < 0)
        goto fail;
    return HW_OK;
fail:
    hw_series_list_done(list);
    return HW_ENOMEM;
}

const struct hw_series *hw_series_find(const struct hw_series_list *list, hw_upid upid,
                                       hw_str_id heap_name)
{
    uint64_t at;
    bool is_listed = hw_map64_get(&list->by_heap, heap_key(upid, heap_name), &at);
    return is_listed ? &list->v.v[at] : NULL;
}

static void series_done(struct hw_series *s)
{
    hw_vec_done(&s->all);
    hw_vec_done(&s->shown);
    hw_vec_done(&s->peaks);
}

void hw_series_list_done(struct hw_series_list *list)
{
    for (size_t i = 0; i < list->v.n; i++)
        series_done(&list->v.v[i]);
    hw_vec_done(&list->v);
    hw_by_process_done(&list->by_process);
    hw_map64_done(&list->by_heap);
}

int hw_series_list_choose(struct hw_series_list *list, const struct hw_profile *p, const char *heap)
{
    const struct hw_strings *strings = hw_callsites_strings(p->callsites);
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < list->v.n; i++)
        n += strcmp(hw_strings_cstr(strings, list->v.v[i].heap_name), heap) == 0;
    if (n == 0)
        return HW_ENOTFOUND;
    for (size_t i = 0; i < list->v.n; i++) {
        if (strcmp(hw_strings_cstr(strings, list->v.v[i].heap_name), heap) == 0)
            list->v.v[kept++] = list->v.v[i];
        else
            series_done(&list->v.v[i]);
    }
    list->v.n = kept;
    hw_map64_done(&list->by_heap);
    for (size_t i = 0; i < kept; i++)
        if (hw_map64_put(&list->by_heap, heap_key(list->v.v[i].upid, list->v.v[i].heap_name), i) <
            0)
            return HW_ENOMEM;
    return index_processes(list);
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

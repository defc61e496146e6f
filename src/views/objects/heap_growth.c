/* Each graph becomes a list of (name, sums) sorted by name; lists are merged like sorted files. */
#include "views/objects/heap_growth.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "views/time/values.h"

#include "base/banned.h"

struct named_sum {
    struct hw_bytes name;
    struct hw_heap_sum sum;
};

struct class_list {
    struct named_sum *v; /* owned */
    size_t n, at;
};

static int compare_bytes(struct hw_bytes a, struct hw_bytes b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int c = n ? memcmp(a.p, b.p, n) : 0;
    return c ? c : (a.n > b.n) - (a.n < b.n);
}

static int by_name(const void *pa, const void *pb)
{
    return compare_bytes(((const struct named_sum *)pa)->name,
                         ((const struct named_sum *)pb)->name);
}

/* Lists classes with reachable objects, merging those with the same name. */
static int list_classes(const struct hw_profile *p, const struct hw_heap_graph *g,
                        struct class_list *out)
{
    hw_autofree struct hw_class_sum *sums = calloc((size_t)g->n_classes + 1, sizeof *sums);
    *out = (struct class_list){calloc((size_t)g->n_classes + 1, sizeof *out->v), 0, 0};
    if (!sums || !out->v)
        return HW_ENOMEM;
    int rc = hw_heap_class_sums(g, NULL, sums);
    size_t n = 0;
    for (uint32_t c = 0; rc == HW_OK && c < g->n_classes; c++) {
        struct hw_heap_sum *s = &sums[c].reachable;
        s->size = hw_sat_add(s->size, s->native);
        if (s->count)
            out->v[n++] = (struct named_sum){hw_strings_get(hw_callsites_strings(p->callsites),
                                                            hw_class_shown_name(&g->classes[c])),
                                             *s};
    }
    if (n)
        qsort(out->v, n, sizeof *out->v, by_name);
    for (size_t i = 0; i < n; i++) {
        struct named_sum *last = out->n ? &out->v[out->n - 1] : NULL;
        if (last && by_name(last, &out->v[i]) == 0) {
            last->sum.count += out->v[i].sum.count;
            last->sum.size = hw_sat_add(last->sum.size, out->v[i].sum.size);
        } else {
            out->v[out->n++] = out->v[i];
        }
    }
    return rc;
}

static int by_change(const void *pa, const void *pb)
{
    const struct hw_class_change *a = pa, *b = pb;
    int64_t da = hw_sat_sub(a->after.size, a->before.size);
    int64_t db = hw_sat_sub(b->after.size, b->before.size);
    uint64_t ma = da < 0 ? 0 - (uint64_t)da : (uint64_t)da;
    uint64_t mb = db < 0 ? 0 - (uint64_t)db : (uint64_t)db;
    if (ma != mb)
        return ma > mb ? -1 : 1;
    return compare_bytes(a->name, b->name);
}

/* The smallest current name of any list; false = all are at their ends. */
static bool next_name(const struct class_list *lists, size_t n, struct hw_bytes *out)
{
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        const struct class_list *l = &lists[i];
        if (l->at < l->n && (!any || compare_bytes(l->v[l->at].name, *out) < 0)) {
            *out = l->v[l->at].name;
            any = true;
        }
    }
    return any;
}

/* One class over all lists; t and y have room for n values. */
static int add_class(struct class_list *lists, size_t n, struct hw_bytes name, const double *t,
                     double *y, hw_class_changes *out)
{
    struct hw_class_change row = {.name = name};
    int64_t last = 0;
    for (size_t i = 0; i < n; i++) {
        struct class_list *l = &lists[i];
        struct hw_heap_sum s = {0};
        if (l->at < l->n && compare_bytes(l->v[l->at].name, name) == 0)
            s = l->v[l->at++].sum;
        if (i == 0)
            row.before = s;
        row.after = s;
        row.n_rises += i > 0 && s.size > last;
        last = s.size;
        y[i] = (double)s.size;
    }
    int rc = n > 2 ? hw_slope_of(t, y, n, &row.slope) : HW_OK;
    return rc < 0 || hw_vec_push(out, row) == 0 ? rc : HW_ENOMEM;
}

static int merge(struct class_list *lists, size_t n, const double *t, hw_class_changes *out)
{
    hw_autofree double *y = calloc(n + 1, sizeof *y);
    struct hw_bytes name = {0};
    int rc = y ? HW_OK : HW_ENOMEM;
    while (rc == HW_OK && next_name(lists, n, &name))
        rc = add_class(lists, n, name, t, y, out);
    if (rc == HW_OK && out->n)
        qsort(out->v, out->n, sizeof *out->v, by_change);
    return rc;
}

int hw_heap_diff(const struct hw_profile *pa, const struct hw_heap_graph *a,
                 const struct hw_profile *pb, const struct hw_heap_graph *b, hw_class_changes *out)
{
    struct class_list lists[2] = {0};
    hw_class_changes all = {0};
    int rc = list_classes(pa, a, &lists[0]);
    if (rc == HW_OK)
        rc = list_classes(pb, b, &lists[1]);
    if (rc == HW_OK)
        rc = merge(lists, 2, NULL, &all);
    free(lists[0].v);
    free(lists[1].v);
    if (rc < 0) {
        hw_vec_done(&all);
        return rc;
    }
    size_t n = 0;
    for (size_t i = 0; i < all.n; i++)
        if (all.v[i].before.size != all.v[i].after.size ||
            all.v[i].before.count != all.v[i].after.count)
            all.v[n++] = all.v[i];
    all.n = n;
    *out = all;
    return HW_OK;
}

int hw_heap_growth(const struct hw_profile *p, hw_upid upid, hw_class_changes *out,
                   size_t *n_graphs)
{
    struct class_list *lists = calloc(p->graphs.n + 1, sizeof *lists);
    hw_autofree double *t = calloc(p->graphs.n + 1, sizeof *t);
    hw_class_changes rows = {0};
    size_t n = 0;
    int64_t start = 0;
    int rc = lists && t ? HW_OK : HW_ENOMEM;
    for (size_t i = 0; rc == HW_OK && i < p->graphs.n; i++) {
        const struct hw_heap_graph *g = p->graphs.v[i];
        if (g->upid.v != upid.v)
            continue;
        if (n == 0)
            start = g->ts_ns;
        t[n] = (double)hw_sat_sub(g->ts_ns, start) / 1e9;
        rc = list_classes(p, g, &lists[n++]);
    }
    if (rc == HW_OK)
        rc = merge(lists, n, t, &rows);
    for (size_t i = 0; lists && i < n; i++)
        free(lists[i].v);
    free(lists);
    if (rc < 0) {
        hw_vec_done(&rows);
        return rc;
    }
    *out = rows;
    *n_graphs = n;
    return HW_OK;
}

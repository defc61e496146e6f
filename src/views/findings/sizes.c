#include "views/findings/sizes.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/memory/map64.h"
#include "model/profile.h"
#include "views/flame/functions.h"
#include "views/stack_mask.h"
#include "views/time/process_view.h"
#include "views/time/series.h"
#include "views/time/values.h"

#include "base/banned.h"

struct job {
    const struct hw_sizes_query *q;
    hw_size_rows *rows;
    uint32_t series;
    struct hw_map64 row_of; /* function and class of this series -> index of rows */
};

/* Sizes are below 2^63, so the last class is never exceeded. */
static uint8_t class_of(int64_t space, int64_t objects)
{
    if (space <= 0)
        return 0;
    uint64_t n = objects > 0 ? (uint64_t)objects : 1;
    uint64_t size = (uint64_t)space / n + ((uint64_t)space % n >= n - n / 2);
    return size <= 1 ? 0 : (uint8_t)(64 - __builtin_clzll(size - 1));
}

static struct hw_size_value *value_of(struct job *j, hw_callsite_id c, uint8_t class)
{
    uint32_t function = hw_functions_site(j->q->fns, c);
    uint64_t *index;
    bool fresh;
    if (hw_map64_at(&j->row_of, (uint64_t)function << 8 | class, &index, &fresh) < 0)
        return NULL;
    if (fresh) {
        *index = j->rows->n;
        const struct hw_size_row row = {.series = j->series, .function = function, .class = class};
        if (hw_vec_push(j->rows, row) < 0)
            return NULL;
    }
    return &j->rows->v[*index].v;
}

static int add_dump(struct job *j, uint32_t dump)
{
    size_t first, n;
    hw_profile_dump_rows(j->q->p, dump, &first, &n);
    for (size_t i = first; i < first + n; i++) {
        struct hw_alloc_row r = hw_alloc_row_of(&j->q->p->allocs, dump, i);
        if (r.size < 0 || r.count < 0 || r.samples < 0 || (r.size == 0 && r.count == 0))
            continue; /* frees, as in values.c */
        if (!hw_stack_mask_keeps(j->q->mask, r.callsite))
            continue;
        struct hw_size_value *v = value_of(j, r.callsite, class_of(r.size, r.count));
        if (!v)
            return HW_ENOMEM;
        v->alloc_space = hw_sat_add(v->alloc_space, r.size);
        v->alloc_objects = hw_sat_add(v->alloc_objects, r.count);
        if (r.samples == 1)
            v->exact_objects = hw_sat_add(v->exact_objects, r.count);
    }
    return HW_OK;
}

static int add_temporary(struct job *j, hw_callsite_id callsite, const struct hw_value *at)
{
    if (at->temporary_space == 0 && at->temporary_objects == 0)
        return HW_OK;
    struct hw_size_value *v =
        value_of(j, callsite, class_of(at->temporary_space, at->temporary_objects));
    if (!v)
        return HW_ENOMEM;
    v->temporary_space = hw_sat_add(v->temporary_space, at->temporary_space);
    v->temporary_objects = hw_sat_add(v->temporary_objects, at->temporary_objects);
    return HW_OK;
}

/* What is live, and what was freed within a second. */
static int add_values(struct job *j, const struct hw_series *s, uint32_t dump)
{
    hw_values values = {0};
    int rc = hw_values_at(j->q->p, s, dump, &values);
    for (size_t i = 0; rc == HW_OK && i < values.n; i++) {
        const struct hw_value *at = &values.v[i].v;
        if (!hw_stack_mask_keeps(j->q->mask, values.v[i].callsite))
            continue;
        rc = add_temporary(j, values.v[i].callsite, at);
        if (rc < 0 || (at->space == 0 && at->objects == 0))
            continue;
        struct hw_size_value *v =
            value_of(j, values.v[i].callsite, class_of(at->space, at->objects));
        if (!v) {
            rc = HW_ENOMEM;
            break;
        }
        v->space = hw_sat_add(v->space, at->space);
        v->objects = hw_sat_add(v->objects, at->objects);
    }
    hw_vec_done(&values);
    return rc;
}

static int add_series(struct job *j, const struct hw_series *s)
{
    uint32_t dump = hw_process_dump_at(j->q->p, s, j->q->ts_ns, j->q->at_max);
    if (dump == HW_ID_NONE)
        return HW_OK;
    if (j->q->at_max) { /* its rows alone are what was live */
        int rc = add_dump(j, dump);
        return rc < 0 ? rc : add_values(j, s, dump);
    }
    for (size_t i = 0; i < s->all.n; i++) {
        int rc = add_dump(j, s->all.v[i]);
        if (rc < 0)
            return rc;
        if (s->all.v[i] == dump)
            break;
    }
    return add_values(j, s, dump);
}

static int compare(const void *a, const void *b)
{
    const struct hw_size_row *x = a, *y = b;
    if (x->series != y->series)
        return x->series < y->series ? -1 : 1;
    if (x->function != y->function)
        return x->function < y->function ? -1 : 1;
    return x->class < y->class ? -1 : x->class > y->class;
}

static bool keeps(const void *ctx, const struct hw_profile *p, const struct hw_series *s)
{
    (void)p;
    return hw_stack_mask_keeps_heap(ctx, s);
}

int hw_sizes_find(const struct hw_sizes_query *q, hw_size_rows *out)
{
    struct job j = {.q = q, .rows = out};
    const enum hw_heap_kind kind = hw_process_kind(q->p, q->list, q->upid, keeps, q->mask);
    int rc = HW_OK;
    hw_vec_clear(out);
    const struct hw_process_rows heaps = hw_series_of(q->list, q->upid);
    for (size_t i = 0; i < heaps.n && rc == HW_OK; i++) {
        const struct hw_series *s = &q->list->v.v[heaps.v[i]];
        if (!hw_stack_mask_keeps_heap(q->mask, s))
            continue;
        size_t first = out->n;
        j.series = heaps.v[i];
        rc = add_series(&j, s);
        for (size_t k = first; k < out->n; k++)
            out->v[k].summed = s->kind == kind;
        hw_map64_done(&j.row_of);
    }
    if (rc == HW_OK)
        rc = hw_stack_mask_error(q->mask);
    if (rc == HW_OK && out->n)
        qsort(out->v, out->n, sizeof *out->v, compare);
    return rc;
}

void hw_size_value_add(struct hw_size_value *to, const struct hw_size_value *v)
{
    to->alloc_objects = hw_sat_add(to->alloc_objects, v->alloc_objects);
    to->alloc_space = hw_sat_add(to->alloc_space, v->alloc_space);
    to->exact_objects = hw_sat_add(to->exact_objects, v->exact_objects);
    to->objects = hw_sat_add(to->objects, v->objects);
    to->space = hw_sat_add(to->space, v->space);
    to->temporary_objects = hw_sat_add(to->temporary_objects, v->temporary_objects);
    to->temporary_space = hw_sat_add(to->temporary_space, v->temporary_space);
}

void hw_sizes_sum(const hw_size_rows *rows, uint32_t series, uint32_t function,
                  struct hw_size_value out[HW_SIZE_CLASSES])
{
    for (unsigned c = 0; c < HW_SIZE_CLASSES; c++)
        out[c] = (struct hw_size_value){0};
    for (size_t i = 0; i < rows->n; i++) {
        const struct hw_size_row *r = &rows->v[i];
        if ((series == HW_ID_NONE ? r->summed : r->series == series) &&
            (function == HW_ID_NONE || r->function == function))
            hw_size_value_add(&out[r->class], &r->v);
    }
}

struct hw_size_value hw_sizes_total(const struct hw_size_value v[HW_SIZE_CLASSES])
{
    struct hw_size_value sum = {0};
    for (unsigned c = 0; c < HW_SIZE_CLASSES; c++)
        hw_size_value_add(&sum, &v[c]);
    return sum;
}

/*
 * GET /api/v1/traces/ID/sizes: sizes of allocations, and the functions for a range of sizes.
 * GET /api/v1/traces/ID/lifetimes: how long allocations lived.
 *
 * sizes: the selection's process, heap and moment; classes from `low` to `high`;
 * metric sorts. {"classes": [[class, up to, FIGURES, exact]…], "functions": [[name, module, FIGURES]…],
 * "rows" and "total" (of the metric): of all of them}; FIGURES: alloc_objects, alloc_space, objects,
 * space, temporary_objects, temporary_space
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "server/api/pages_internal.h"
#include "views/findings/lifetimes.h"
#include "views/findings/sizes.h"

#include "base/banned.h"

enum { DEFAULT_ROWS = 100 };

static uint64_t parameter(struct hw_http_request *req, const char *name, uint64_t otherwise)
{
    const char *text = hw_http_query(req, name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static void put_function(struct hw_json *j, const struct hw_page_trace *t,
                         const struct hw_page_selection *s, uint32_t function)
{
    hw_json_str(j, hw_page_label(t, s->program, function));
    hw_json_str(j, hw_page_where(t, s->program, function));
}

/* ---- sizes ---- */

struct allocating_function {
    uint32_t function;
    struct hw_size_value v;
};

typedef HW_VEC(struct allocating_function) allocating_functions;

static int64_t figure_of(const struct hw_size_value *v, enum hw_metric m)
{
    const struct hw_value all = {.space = v->space,
                                 .objects = v->objects,
                                 .alloc_space = v->alloc_space,
                                 .alloc_objects = v->alloc_objects,
                                 .temporary_space = v->temporary_space,
                                 .temporary_objects = v->temporary_objects};
    return hw_value_get(&all, m);
}

static int compare(const void *pa, const void *pb, void *ctx)
{
    const struct allocating_function *a = pa, *b = pb;
    int64_t x = figure_of(&a->v, *(const enum hw_metric *)ctx);
    int64_t y = figure_of(&b->v, *(const enum hw_metric *)ctx);
    if (x != y)
        return x > y ? -1 : 1;
    return a->function < b->function ? -1 : a->function > b->function;
}

static void put_value(struct hw_json *j, const struct hw_size_value *v)
{
    hw_json_int(j, v->alloc_objects);
    hw_json_int(j, v->alloc_space);
    hw_json_int(j, v->objects);
    hw_json_int(j, v->space);
    hw_json_int(j, v->temporary_objects);
    hw_json_int(j, v->temporary_space);
}

/* Rows of the selection's heap. */
static bool is_selected(const struct hw_page_trace *t, const struct hw_page_selection *s,
                        const struct hw_size_row *r)
{
    return s->heap_id.v == 0 ? r->summed : t->list.v.v[r->series].heap_name.v == s->heap_id.v;
}

static void put_classes(struct hw_json *j, const struct hw_page_trace *t,
                        const struct hw_page_selection *s, const hw_size_rows *rows)
{
    struct hw_size_value sums[HW_SIZE_CLASSES] = {{0}};
    for (size_t i = 0; i < rows->n; i++)
        if (is_selected(t, s, &rows->v[i]))
            hw_size_value_add(&sums[rows->v[i].class], &rows->v[i].v);
    hw_json_key(j, "classes");
    hw_json_begin_array(j);
    for (unsigned c = 0; c < HW_SIZE_CLASSES; c++) {
        if (sums[c].alloc_objects == 0 && sums[c].space == 0 && sums[c].temporary_space == 0)
            continue;
        hw_json_begin_array(j);
        hw_json_uint(j, c);
        hw_json_double(j, (double)hw_size_up_to(c));
        put_value(j, &sums[c]);
        hw_json_int(j, sums[c].exact_objects);
        hw_json_end_array(j);
    }
    hw_json_end_array(j);
}

static int sum_functions(const struct hw_page_trace *t, const struct hw_page_selection *s,
                         const hw_size_rows *rows, uint64_t low, uint64_t high,
                         allocating_functions *out)
{
    struct hw_size_value *by_function = calloc(t->n_labels + 1, sizeof *by_function);
    enum hw_metric m = s->metric;
    int rc = by_function ? HW_OK : HW_ENOMEM;
    for (size_t i = 0; rc == HW_OK && i < rows->n; i++)
        if (is_selected(t, s, &rows->v[i]) && rows->v[i].class >= low && rows->v[i].class <= high)
            hw_size_value_add(&by_function[rows->v[i].function], &rows->v[i].v);
    for (uint32_t f = 0; rc == HW_OK && f < t->n_labels; f++)
        if (figure_of(&by_function[f], m) > 0)
            rc = hw_vec_push(out, (struct allocating_function){f, by_function[f]});
    if (rc == HW_OK && out->n)
        qsort_r(out->v, out->n, sizeof *out->v, compare, &m);
    free(by_function);
    return rc;
}

static void put_sizes(struct hw_json *j, struct hw_http_request *req, const struct hw_page_trace *t,
                      const struct hw_page_selection *s, const hw_size_rows *rows)
{
    uint64_t low = parameter(req, "low", 0), high = parameter(req, "high", HW_SIZE_CLASSES);
    uint64_t limit = parameter(req, "limit", DEFAULT_ROWS);
    allocating_functions list = {0};
    hw_json_begin_object(j);
    put_classes(j, t, s, rows);
    if (sum_functions(t, s, rows, low, high, &list) < 0)
        j->error = HW_ENOMEM;
    int64_t total = 0;
    for (size_t i = 0; i < list.n; i++)
        total = hw_sat_add(total, figure_of(&list.v[i].v, s->metric));
    hw_json_kv_int(j, "total", total);
    hw_json_kv_uint(j, "rows", list.n);
    hw_json_key(j, "functions");
    hw_json_begin_array(j);
    for (size_t i = 0; i < list.n && i < limit; i++) {
        hw_json_begin_array(j);
        put_function(j, t, s, list.v[i].function);
        put_value(j, &list.v[i].v);
        hw_json_end_array(j);
    }
    hw_json_end_array(j);
    hw_json_end_object(j);
    hw_vec_done(&list);
}

void hw_page_sizes(struct hw_http_request *req, struct hw_page_trace *t)
{
    struct hw_page_selection sel;
    struct hw_error err = {0};
    struct hw_page_mask mask = {0};
    hw_size_rows rows = {0};
    int rc = hw_page_selection_init(&sel, t, req, &err);
    if (rc == HW_OK)
        rc = hw_page_mask_init(&mask, t, &sel);
    if (rc == HW_OK) {
        struct hw_sizes_query q = {.p = t->profile,
                                   .list = &t->list,
                                   .fns = t->functions,
                                   .upid = sel.upid,
                                   .ts_ns = sel.ts_ns,
                                   .at_max = sel.at_max,
                                   .mask = mask.mask};
        rc = hw_sizes_find(&q, &rows);
    }
    if (rc < 0) {
        hw_page_reply_error(req, &err, rc);
    } else {
        struct hw_json j;
        hw_json_init(&j, NULL, NULL, /* pretty = */ false);
        put_sizes(&j, req, t, &sel, &rows);
        hw_page_reply_json(req, &j);
    }
    hw_vec_done(&rows);
    hw_page_mask_done(&mask);
    hw_page_selection_done(&sel);
}

/* ---- lifetimes ---- */

static void put_lifetimes(struct hw_json *j, const struct hw_page_trace *t,
                          const struct hw_page_selection *s, const struct hw_lifetimes *l,
                          uint64_t limit)
{
    hw_json_begin_object(j);
    hw_json_kv_double(j, "step", l->step_s);
    hw_json_kv_uint(j, "dumps", l->n_dumps);
    hw_json_key(j, "buckets");
    hw_json_begin_array(j);
    for (unsigned b = 0; b < HW_LIFETIME_BUCKETS; b++) {
        hw_json_begin_array(j);
        hw_json_double(j, hw_lifetime_bucket_s(b));
        hw_json_double(j, l->bytes[b]);
        hw_json_end_array(j);
    }
    hw_json_end_array(j);
    hw_json_kv_uint(j, "rows", l->v.n);
    hw_json_key(j, "functions");
    hw_json_begin_array(j);
    for (size_t i = 0; i < l->v.n && i < limit; i++) {
        const struct hw_lifetime *r = &l->v.v[i];
        hw_json_begin_array(j);
        put_function(j, t, s, r->function);
        hw_json_int(j, r->alloc_space);
        hw_json_int(j, r->alloc_objects);
        hw_json_int(j, r->space);
        hw_json_double(j, r->mean_lifetime_s);
        hw_json_double(j, r->temporary_least);
        hw_json_double(j, r->temporary_most);
        hw_json_end_array(j);
    }
    hw_json_end_array(j);
    hw_json_end_object(j);
}

/* Rows [name, module, alloc_space, alloc_objects, space, mean lifetime in s, temporary bytes at
 * least, at most]; buckets [lower bound of the mean in s, bytes]. */
void hw_page_lifetimes(struct hw_http_request *req, struct hw_page_trace *t)
{
    struct hw_page_selection sel;
    struct hw_error err = {0};
    struct hw_page_mask mask = {0};
    struct hw_lifetimes l = {0};
    int rc = hw_page_selection_init(&sel, t, req, &err);
    if (rc == HW_OK)
        rc = hw_page_mask_init(&mask, t, &sel);
    const struct hw_process_view *v = rc == HW_OK ? hw_page_view(t, sel.upid) : NULL;
    if (v) {
        struct hw_lifetimes_query q = {.p = t->profile,
                                       .list = &t->list,
                                       .fns = t->functions,
                                       .upid = sel.upid,
                                       .heap_name = sel.heap_id,
                                       .start_ns = v->start_ns,
                                       .mask = mask.mask};
        rc = hw_lifetimes_find(&q, &l);
    }
    if (rc < 0) {
        hw_page_reply_error(req, &err, rc);
    } else {
        struct hw_json j;
        hw_json_init(&j, NULL, NULL, /* pretty = */ false);
        put_lifetimes(&j, t, &sel, &l, parameter(req, "limit", DEFAULT_ROWS));
        hw_page_reply_json(req, &j);
    }
    hw_lifetimes_done(&l);
    hw_page_mask_done(&mask);
    hw_page_selection_done(&sel);
}

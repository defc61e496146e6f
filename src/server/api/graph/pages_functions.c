/*
 * GET /api/v1/traces/ID/table/functions: what each function allocated, itself and with its callees.
 *
 * Rows [name, module, self, total, count, error of total, samples of total, error of self, samples
 * of self, count of self, callers]; match=PATTERN of filter.h. callers=1: the callers on the path
 * of most of its own allocations, [[name, share], ...] nearest first.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "server/api/pages_internal.h"
#include "views/flame/callers.h"

#include "base/banned.h"

struct row {
    const struct hw_function_value *v;
    const struct hw_callers *callers; /* NULL = not requested */
    const char *name, *module;
};

enum column {
    COLUMN_NAME,
    COLUMN_MODULE,
    COLUMN_SELF,
    COLUMN_TOTAL,
    COLUMN_COUNT,
    COLUMN_ERROR,
    COLUMN_AVERAGE
};

static struct {
    const char *name;
    enum column column;
} const columns[] = {{"name", COLUMN_NAME},      {"module", COLUMN_MODULE}, {"self", COLUMN_SELF},
                     {"total", COLUMN_TOTAL},    {"count", COLUMN_COUNT},   {"error", COLUMN_ERROR},
                     {"average", COLUMN_AVERAGE}};

struct order {
    enum column column;
    enum hw_metric metric;
    uint64_t interval_bytes;
    int sign;
};

static int64_t count_of(const struct hw_value *v, enum hw_metric m)
{
    return m >= HW_METRIC_USUAL   ? v->temporary_objects
           : hw_metric_is_live(m) ? v->objects
                                  : v->alloc_objects;
}

static int compare_numbers(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static double share_of_error(const struct hw_function_value *v, const struct order *o)
{
    return hw_figure_error(&v->total, o->metric, o->interval_bytes) /
           (double)hw_value_get(&v->total, o->metric); /* not 0: such rows are left out */
}

static double average(const struct hw_value *v, enum hw_metric m)
{
    int64_t n = count_of(v, m);
    return n ? (double)hw_value_get(v, m) / (double)n : 0;
}

static int compare(const void *pa, const void *pb, void *ctx)
{
    const struct row *a = pa, *b = pb;
    const struct order *o = ctx;
    int c = 0;
    switch (o->column) {
    case COLUMN_NAME:
        c = strcmp(a->name, b->name);
        break;
    case COLUMN_MODULE:
        c = strcmp(a->module, b->module);
        break;
    case COLUMN_SELF:
        c = compare_numbers(hw_value_get(&a->v->self, o->metric),
                            hw_value_get(&b->v->self, o->metric));
        break;
    case COLUMN_TOTAL:
        c = compare_numbers(hw_value_get(&a->v->total, o->metric),
                            hw_value_get(&b->v->total, o->metric));
        break;
    case COLUMN_ERROR: {
        double x = share_of_error(a->v, o), y = share_of_error(b->v, o);
        c = (x > y) - (x < y);
        break;
    }
    case COLUMN_AVERAGE: {
        double x = average(&a->v->total, o->metric), y = average(&b->v->total, o->metric);
        c = (x > y) - (x < y);
        break;
    }
    case COLUMN_COUNT:
        c = compare_numbers(count_of(&a->v->total, o->metric), count_of(&b->v->total, o->metric));
        break;
    }
    return c ? c * o->sign : compare_numbers(a->v->function, b->v->function);
}

static void put_callers(struct hw_json *j, const struct row *r, const struct hw_page_trace *t,
                        const struct hw_page_selection *s)
{
    hw_json_begin_array(j);
    for (size_t i = 0; r->callers && i < r->callers->n; i++) {
        hw_json_begin_array(j);
        hw_json_str(j, hw_page_label(t, s->program, r->callers->function[i]));
        hw_json_double(j, r->callers->share[i]);
        hw_json_end_array(j);
    }
    hw_json_end_array(j);
}

static void put_row(struct hw_json *j, const struct row *r, const struct hw_page_trace *t,
                    const struct hw_page_selection *s)
{
    hw_json_begin_array(j);
    hw_json_str(j, r->name);
    hw_json_str(j, r->module);
    hw_json_int(j, hw_value_get(&r->v->self, s->metric));
    hw_json_int(j, hw_value_get(&r->v->total, s->metric));
    hw_json_int(j, count_of(&r->v->total, s->metric));
    hw_json_double(j, hw_figure_error(&r->v->total, s->metric, s->interval_bytes));
    hw_json_int(j, hw_value_samples(&r->v->total, s->metric));
    hw_json_double(j, hw_figure_error(&r->v->self, s->metric, s->interval_bytes));
    hw_json_int(j, hw_value_samples(&r->v->self, s->metric));
    hw_json_int(j, count_of(&r->v->self, s->metric));
    put_callers(j, r, t, s);
    hw_json_end_array(j);
}

typedef HW_VEC(struct row) rows;

static int choose_rows(const struct hw_page_trace *t, const struct hw_page_selection *s,
                       const hw_function_values *values, const struct hw_callers *callers,
                       const struct hw_pattern *pattern, rows *out)
{
    for (size_t i = 0; i < values->n; i++) {
        const struct hw_function_value *v = &values->v[i];
        struct row r = {v, callers ? &callers[v->function] : NULL,
                        hw_page_label(t, s->program, v->function),
                        hw_page_where(t, s->program, v->function)};
        if (hw_value_get(&v->total, s->metric) == 0 ||
            (pattern && !hw_pattern_matches(pattern, r.name)))
            continue;
        if (hw_vec_push(out, r) < 0)
            return HW_ENOMEM;
    }
    return HW_OK;
}

static uint64_t parameter(struct hw_http_request *req, const char *name, uint64_t otherwise)
{
    const char *text = hw_http_query(req, name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static void reply_rows(struct hw_http_request *req, const struct hw_page_trace *t,
                       const struct hw_page_selection *s, int64_t total, rows *r)
{
    const char *sort = hw_http_query(req, "sort"), *order = hw_http_query(req, "order");
    struct order o = {COLUMN_SELF, s->metric, s->interval_bytes,
                      order && strcmp(order, "asc") == 0 ? 1 : -1};
    uint64_t offset = parameter(req, "offset", 0), limit = parameter(req, "limit", 200);
    struct hw_json j;
    for (size_t i = 0; sort && i < HW_ARRAY_LEN(columns); i++)
        if (strcmp(columns[i].name, sort) == 0)
            o.column = columns[i].column;
    if (r->n)
        qsort_r(r->v, r->n, sizeof *r->v, compare, &o);
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    hw_json_begin_object(&j);
    hw_json_kv_uint(&j, "rows", r->n);
    hw_json_kv_int(&j, "total", total);
    hw_json_key(&j, "data");
    hw_json_begin_array(&j);
    for (size_t i = offset; i < r->n && i - offset < limit; i++)
        put_row(&j, &r->v[i], t, s);
    hw_json_end_array(&j);
    hw_json_end_object(&j);
    hw_page_reply_json(req, &j);
}

void hw_page_functions(struct hw_http_request *req, struct hw_page_trace *t)
{
    const char *match = hw_http_query(req, "match");
    struct hw_page_selection sel;
    struct hw_flame flame = {0};
    struct hw_pattern *pattern = NULL;
    hw_function_values values = {0};
    hw_autofree struct hw_callers *callers = NULL;
    hw_values at = {0};
    struct hw_error err = {0};
    rows chosen = {0};
    int rc = hw_page_selection_init(&sel, t, req, &err);
    sel.flags &= ~(unsigned)HW_PAGE_INVERT;
    if (rc == HW_OK && match && *match)
        rc = hw_pattern_new(match, &pattern, &err);
    if (rc == HW_OK)
        rc = hw_page_values(t, &sel, &at, &err);
    if (rc == HW_OK)
        rc = hw_page_flame_build(t, &sel, &at, /* callers = */ false, /* min_share = */ 0, &flame,
                                 &err);
    if (rc == HW_OK)
        rc = hw_flame_by_function(&flame, t->n_labels, &values);
    if (rc == HW_OK && hw_http_query(req, "callers"))
        rc = hw_callers_find(t->profile->callsites, t->functions, &flame, sel.metric,
                             HW_CALLERS_OF_SELF, &callers);
    if (rc == HW_OK)
        rc = choose_rows(t, &sel, &values, callers, pattern, &chosen);
    if (rc < 0)
        hw_page_reply_error(req, &err, rc);
    else
        reply_rows(req, t, &sel, hw_value_get(hw_flame_total(&flame, 0), sel.metric), &chosen);
    hw_vec_done(&chosen);
    hw_pattern_free(pattern);
    hw_vec_done(&values);
    hw_flame_done(&flame);
    hw_vec_done(&at);
    hw_page_selection_done(&sel);
}

/*
 * GET /api/v1/traces/ID/table/diff: what changed, function by function.
 *
 * Rows [name, module, a, b, change, error, significant, samples of A, of B, [caller…]]; callers: of
 * the stack with most of the row's change, nearest first. Parameters: by=total (including callees),
 * all=1 (also changes within their error), match, sort, order, offset, limit.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "server/api/graph/pages_diff.h"
#include "views/flame/program.h"

#include "base/banned.h"

enum { DEFAULT_ROWS = 200, MAX_CALLERS = 3, NO_NODE = 0 /* the root has no function */ };

enum column { COLUMN_CHANGE, COLUMN_NAME, COLUMN_MODULE, COLUMN_A, COLUMN_B, COLUMN_PERCENT };

static struct {
    const char *name;
    enum column column;
} const columns[] = {{"change", COLUMN_CHANGE}, {"name", COLUMN_NAME}, {"module", COLUMN_MODULE},
                     {"a", COLUMN_A},           {"b", COLUMN_B},       {"percent", COLUMN_PERCENT}};

struct rows {
    const struct hw_page_diff *q;
    HW_VEC(uint32_t) v; /* rows of the diff */
    bool total;         /* including callees; else only the function's own allocations */
    enum column column;
    int sign;
    size_t n_hidden; /* changes within their error */
};

static const struct hw_diff_value *value_of(const struct rows *r, uint32_t row)
{
    const struct hw_diff_row *x = &r->q->diff.rows.v[row];
    return r->total ? &x->total : &x->self;
}

static double number_of(const struct rows *r, uint32_t row)
{
    const struct hw_diff_value *v = value_of(r, row);
    double a = hw_diff_side_a(&r->q->diff, v, r->q->metric);
    double b = hw_diff_side_b(&r->q->diff, v, r->q->metric);
    switch (r->column) {
    case COLUMN_A:
        return a;
    case COLUMN_B:
        return b;
    case COLUMN_PERCENT:
        return a > 0 ? (b - a) / a : HUGE_VAL;
    case COLUMN_CHANGE:
        return fabs(b - a);
    case COLUMN_NAME:
    case COLUMN_MODULE:
        break;
    }
    return 0;
}

static int compare(const void *pa, const void *pb, void *ctx)
{
    const struct rows *r = ctx;
    const struct hw_diff *d = &r->q->diff;
    uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;
    const struct hw_diff_function *fa = &d->functions.v[d->rows.v[a].function];
    const struct hw_diff_function *fb = &d->functions.v[d->rows.v[b].function];
    int c = 0;
    if (r->column == COLUMN_NAME || r->column == COLUMN_MODULE) {
        bool name = r->column == COLUMN_NAME;
        c = strcmp(hw_strings_cstr(d->strings, name ? fa->name : fa->module),
                   hw_strings_cstr(d->strings, name ? fb->name : fb->module));
    } else {
        double x = number_of(r, a), y = number_of(r, b);
        c = (x > y) - (x < y);
    }
    return c ? c * r->sign : (a > b) - (a < b);
}

static int choose(struct rows *r, const struct hw_pattern *pattern, bool all)
{
    const struct hw_diff *d = &r->q->diff;
    for (uint32_t i = 0; i < d->rows.n; i++) {
        const struct hw_diff_value *v = value_of(r, i);
        const struct hw_diff_function *f = &d->functions.v[d->rows.v[i].function];
        if (fabs(hw_diff_change(d, v, r->q->metric)) <= 0 ||
            (pattern && !hw_pattern_matches(pattern, hw_strings_cstr(d->strings, f->name))))
            continue;
        if (!all && !hw_diff_is_significant(d, v, r->q->metric) &&
            !hw_diff_is_open(d, v, r->q->metric))
            r->n_hidden++;
        else if (hw_vec_push(&r->v, i) < 0)
            return HW_ENOMEM;
    }
    if (r->v.n)
        qsort_r(r->v.v, r->v.n, sizeof *r->v.v, compare, r);
    return HW_OK;
}

/* a, b, change, error, significant, samples of A and of B */
static void put_figures(struct hw_json *j, const struct hw_page_diff *q,
                        const struct hw_diff_value *v)
{
    hw_json_double(j, hw_diff_side_a(&q->diff, v, q->metric));
    hw_json_double(j, hw_diff_side_b(&q->diff, v, q->metric));
    hw_json_double(j, hw_diff_change(&q->diff, v, q->metric));
    hw_json_double(j, hw_diff_error(&q->diff, v, q->metric));
    hw_json_bool(j, hw_diff_is_significant(&q->diff, v, q->metric));
    hw_json_int(j, hw_value_samples(&v->a, q->metric));
    hw_json_int(j, hw_value_samples(&v->b, q->metric));
}

static void put_side(struct hw_json *j, const struct hw_page_diff_side *s, const char *key)
{
    const struct hw_process *proc = &s->t->profile->processes.v[s->sel.upid.v];
    hw_json_key(j, key);
    hw_json_begin_object(j);
    hw_json_kv_uint(j, "trace", s->t->id);
    hw_json_kv_str(j, "file", s->t->name);
    hw_json_kv_uint(j, "upid", s->sel.upid.v);
    hw_json_kv_int(j, "pid", proc->pid);
    hw_json_kv_str(j, "name", hw_page_string(s->t, proc->name));
    if (s->sel.program) {
        const struct hw_shown_program *shown = hw_page_program_shown(s->sel.program);
        hw_json_key(j, "program"); /* its module in the rows */
        hw_json_strn(j, (const char *)shown->name.p, shown->name.n);
    }
    hw_json_kv_int(j, "ts", s->sel.ts_ns);
    hw_json_kv_bool(j, "max", s->sel.at_max);
    hw_json_kv_uint(j, "interval", s->sel.interval_bytes);
    hw_json_kv_double(j, "seconds", hw_page_diff_seconds(s));
    hw_json_end_object(j);
}

/* By function, the node with most of its change; NULL = out of memory. The caller frees it. */
static uint32_t *largest_nodes(const struct rows *r)
{
    const struct hw_diff *d = &r->q->diff;
    uint32_t *out = calloc(d->functions.n + 1, sizeof *out);
    for (uint32_t i = 1; out && i < d->nodes.n; i++) {
        const struct hw_diff_node *n = &d->nodes.v[i], *best = &d->nodes.v[out[n->function]];
        double change = fabs(hw_diff_change(d, r->total ? &n->total : &n->self, r->q->metric));
        double most = fabs(hw_diff_change(d, r->total ? &best->total : &best->self, r->q->metric));
        if (out[n->function] == NO_NODE ? change > 0 : change > most)
            out[n->function] = i;
    }
    return out;
}

static void put_callers(struct hw_json *j, const struct hw_diff *d, uint32_t node)
{
    uint32_t of = d->nodes.v[node].function;
    size_t n = 0;
    hw_json_begin_array(j);
    for (uint32_t at = node; n < MAX_CALLERS && at != NO_NODE; at = d->nodes.v[at].parent) {
        uint32_t function = d->nodes.v[at].function;
        if (function == of)
            continue; /* skips the function itself, and recursion */
        hw_json_str(j, hw_strings_cstr(d->strings, d->functions.v[function].name));
        of = function;
        n++;
    }
    hw_json_end_array(j);
}

static void put_table(struct hw_json *j, const struct rows *r, const uint32_t *largest,
                      uint64_t offset, uint64_t limit)
{
    const struct hw_page_diff *q = r->q;
    hw_json_begin_object(j);
    put_side(j, &q->side[HW_PAGE_A], "a");
    put_side(j, &q->side[HW_PAGE_B], "b");
    hw_json_kv_bool(j, "same_run", q->diff.same_run);
    hw_json_key(j, "total");
    hw_json_begin_array(j);
    put_figures(j, q, &q->diff.nodes.v[0].total);
    hw_json_end_array(j);
    hw_json_kv_uint(j, "rows", r->v.n);
    hw_json_kv_uint(j, "hidden", r->n_hidden);
    hw_json_key(j, "data");
    hw_json_begin_array(j);
    for (size_t i = offset; i < r->v.n && i - offset < limit; i++) {
        const struct hw_diff *d = &q->diff;
        const struct hw_diff_function *f = &d->functions.v[d->rows.v[r->v.v[i]].function];
        hw_json_begin_array(j);
        hw_json_str(j, hw_strings_cstr(d->strings, f->name));
        hw_json_str(j, hw_strings_cstr(d->strings, f->module));
        put_figures(j, q, value_of(r, r->v.v[i]));
        put_callers(j, d, largest[d->rows.v[r->v.v[i]].function]);
        hw_json_end_array(j);
    }
    hw_json_end_array(j);
    hw_json_end_object(j);
}

static bool has_value(struct hw_http_request *req, const char *name, const char *value)
{
    const char *text = hw_http_query(req, name);
    return text && strcmp(text, value) == 0;
}

static uint64_t parameter(struct hw_http_request *req, const char *name, uint64_t otherwise)
{
    const char *text = hw_http_query(req, name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

void hw_page_diff_table(struct hw_http_request *req, struct hw_page_trace *t)
{
    const char *match = hw_http_query(req, "match"), *sort = hw_http_query(req, "sort");
    struct hw_page_diff q;
    struct hw_pattern *pattern = NULL;
    struct hw_error err = {0};
    int rc = match && *match ? hw_pattern_new(match, &pattern, &err) : HW_OK;
    if (rc < 0) {
        hw_page_reply_error(req, &err, rc);
        return;
    }
    if (!hw_page_diff_init(&q, req, t)) {
        hw_pattern_free(pattern);
        return;
    }
    struct rows r = {.q = &q,
                     .total = has_value(req, "by", "total"),
                     .sign = has_value(req, "order", "asc") ? 1 : -1};
    for (size_t i = 0; sort && i < HW_ARRAY_LEN(columns); i++)
        if (strcmp(columns[i].name, sort) == 0)
            r.column = columns[i].column;
    uint32_t *largest = largest_nodes(&r);
    rc = largest ? choose(&r, pattern, has_value(req, "all", "1")) : HW_ENOMEM;
    if (rc < 0) {
        hw_page_reply_error(req, &err, rc);
    } else {
        struct hw_json j;
        hw_json_init(&j, NULL, NULL, /* pretty = */ false);
        put_table(&j, &r, largest, parameter(req, "offset", 0),
                  parameter(req, "limit", DEFAULT_ROWS));
        hw_page_reply_json(req, &j);
    }
    free(largest);
    hw_vec_done(&r.v);
    hw_pattern_free(pattern);
    hw_page_diff_done(&q);
}

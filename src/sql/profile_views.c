/*
 * The questions of views/ as functions that give rows:
 *
 *   heapwise_top(UPID [, TS])                    every function with its own and its total
 *                                               values; callers: "load < run", nearest first,
 *                                               the way most of its live bytes came by
 *   heapwise_callers(UPID, TS, PATTERN)          trees around the functions a pattern of
 *   heapwise_callees(UPID, TS, PATTERN)          views/filter.h matches
 *   heapwise_leaks(UPID)                         what grew from dump to dump, and the verdicts
 *   heapwise_diff(UPID_A, TS_A, UPID_B, TS_B [, METRIC])   functions that differ
 *   heapwise_sizes(UPID [, TS])                  sizes of allocations by heap, function and class
 *   heapwise_tree(UPID [, TS, SINCE, HEAP, FILTERS, OPTIONS])       the flamegraph of a selection
 *   heapwise_functions(UPID [, TS, SINCE, HEAP, FILTERS, OPTIONS])  its functions
 *   heapwise_modules()                           what INCLUDE PERFETTO MODULE knows, with its text
 *
 * UPID is that of the table process; TS a time, NULL or left out = the last dump. SINCE: only what
 * came after that time; HEAP: only that one; FILTERS: one a line, as in views/filter.h, matched
 * against shown names; OPTIONS: words, of which `max` (TS is that of a recorded maximum),
 * `all-frames` (allocator frames too), `invert`, `callers` (the upper half of a pivot), `collapse`
 * (direct recursion is one node). Names are
 * raw, as in the other tables; demangle() shows them. Rows are made once a call, as columns of
 * cells.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/strbuf.h"
#include "sql/engine.h"
#include "views/findings/accounting.h"
#include "views/findings/diff.h"
#include "views/findings/leaks.h"
#include "views/findings/lifetimes.h"
#include "views/findings/sizes.h"
#include "views/flame/callers.h"
#include "views/flame/program.h"
#include "views/time/span.h"

#include "base/banned.h"

enum { MAX_ARGS = 6 };

struct cell {
    enum { CELL_NULL, CELL_INT, CELL_REAL, CELL_TEXT } kind;
    int64_t i;
    double d;
    hw_str_id text; /* in answer.strings */
};

/* What one call gives. */
struct answer {
    const struct hw_sql *sql;
    const struct hw_profile *p; /* its */
    HW_VEC(struct cell) cells;  /* row after row */
    struct hw_strings *strings;
    bool failed; /* out of memory */
    struct hw_series_list list;
    struct hw_functions *fns;
    struct hw_error err;
};

struct asked {
    hw_upid upid[2];
    int64_t ts[2]; /* INT64_MAX = the last dump */
    const char *text;
    bool has_since;
    int64_t since;
    const char *heap, *filters, *options; /* NULL = none */
};

struct view {
    const char *name, *columns; /* "a INTEGER, b TEXT" */
    int n_columns;
    const char *args; /* a letter each: u a upid, t a time, p text, S H F O as above; capital: may
                         be left out */
    int (*fill)(struct answer *a, const struct asked *q);
};

/* ---- cells ---- */

static void put(struct answer *a, struct cell c)
{
    if (hw_vec_push(&a->cells, c) < 0)
        a->failed = true;
}

static void put_int(struct answer *a, int64_t v)
{
    put(a, (struct cell){.kind = CELL_INT, .i = v});
}

static void put_real(struct answer *a, double v)
{
    put(a, (struct cell){.kind = CELL_REAL, .d = v});
}

static void put_text(struct answer *a, struct hw_bytes v)
{
    struct cell c = {.kind = CELL_TEXT};
    if (hw_strings_intern(a->strings, v, &c.text) < 0)
        a->failed = true;
    put(a, c);
}

static void put_function(struct answer *a, uint32_t function)
{
    struct hw_strbuf text = {0};
    if (function == HW_ID_NONE) {
        put_text(a, hw_bytes_str(""));
        put_text(a, hw_bytes_str(""));
        return;
    }
    const struct hw_function *fn = hw_functions_get(a->fns, function);
    hw_function_label(&text, a->p->callsites, fn, NULL);
    put_text(a, hw_bytes_of(text.p, text.n));
    hw_strbuf_clear(&text);
    hw_function_module(&text, a->p->callsites, fn);
    put_text(a, hw_bytes_of(text.p, text.n));
    a->failed |= text.failed;
    hw_strbuf_done(&text);
}

/* ---- the functions ---- */

/* A recording with --dump-at-max has no dump of any other moment: then *ts_ns becomes that of the
 * last one until then. */
static bool has_only_peaks(const struct answer *a, hw_upid upid, int64_t *ts_ns)
{
    bool any = false;
    int64_t last = 0;
    for (size_t i = 0; i < a->p->dumps.n; i++) {
        const struct hw_heap_dump *d = &a->p->dumps.v[i];
        if (d->upid.v != upid.v)
            continue;
        if (!(d->flags & HW_DUMP_AT_MAX))
            return false;
        if (d->ts_ns <= *ts_ns && (!any || d->ts_ns > last)) {
            last = d->ts_ns;
            any = true;
        }
    }
    *ts_ns = any ? last : *ts_ns;
    return any;
}

static int values_at(struct answer *a, hw_upid upid, int64_t ts, hw_values *out)
{
    bool at_max = has_only_peaks(a, upid, &ts);
    return hw_process_values(a->p, &a->list, upid, ts, at_max, out);
}

static uint64_t interval_of(const struct answer *a, hw_upid upid)
{
    uint64_t most = 1;
    for (size_t i = 0; i < a->p->dumps.n; i++)
        if (a->p->dumps.v[i].upid.v == upid.v && a->p->dumps.v[i].interval_bytes > most)
            most = a->p->dumps.v[i].interval_bytes;
    return most;
}

static void put_errors(struct answer *a, const struct hw_value *v, uint64_t interval)
{
    for (int m = 0; m < HW_METRIC_COUNT; m++)
        put_real(a, hw_value_error(v, (enum hw_metric)m, interval));
}

static void put_callers(struct answer *a, const struct hw_callers *c)
{
    struct hw_strbuf text = {0};
    hw_callers_text(&text, c, a->p->callsites, a->fns, NULL);
    put_text(a, hw_bytes_of(text.p, text.n));
    a->failed |= text.failed;
    hw_strbuf_done(&text);
}

static int fill_top(struct answer *a, const struct asked *q)
{
    hw_values values = {0};
    hw_autofree struct hw_callers *callers = NULL;
    struct hw_flame tree = {0};
    hw_function_values rows = {0};
    uint64_t interval = interval_of(a, q->upid[0]);
    int rc = values_at(a, q->upid[0], q->ts[0], &values);
    if (rc == 0)
        rc = hw_flame_build(a->p->callsites, a->fns, &values, 0, &tree);
    if (rc == 0)
        rc = hw_flame_by_function(&tree, hw_functions_count(a->fns), &rows);
    if (rc == 0)
        rc = hw_callers_find(a->p->callsites, a->fns, &tree, HW_METRIC_SPACE, HW_CALLERS_OF_TOTAL,
                             &callers);
    for (size_t i = 0; rc == 0 && i < rows.n; i++) {
        const struct hw_function_value *v = &rows.v[i];
        if (!v->total.alloc_samples && !v->total.alloc_space && !v->total.space)
            continue;
        put_function(a, v->function);
        for (int m = 0; m < HW_METRIC_COUNT; m++) {
            put_int(a, hw_value_get(&v->self, (enum hw_metric)m));
            put_int(a, hw_value_get(&v->total, (enum hw_metric)m));
        }
        put_int(a, v->total.samples);
        put_errors(a, &v->total, interval);
        put_callers(a, &callers[v->function]);
    }
    hw_vec_done(&rows);
    hw_flame_done(&tree);
    hw_vec_done(&values);
    return rc;
}

static void put_tree(struct answer *a, const struct hw_flame *t)
{
    for (uint32_t i = 1; i < t->v.n; i++) {
        const struct hw_flame_node *n = &t->v.v[i];
        put_int(a, i);
        put_int(a, n->parent);
        put_int(a, n->depth - 1);
        put_function(a, n->function);
        put_int(a, hw_flame_self(t, i)->space);
        for (int m = 0; m < HW_METRIC_COUNT; m++)
            put_int(a, hw_value_get(hw_flame_total(t, i), (enum hw_metric)m));
    }
}

/* Filters know a program by its file and by what it was started as. */
static int match_filters(struct answer *a, hw_upid upid, const hw_values *values,
                         const hw_filters *filters, const struct hw_namer *namer,
                         struct hw_filter_matches *out)
{
    struct hw_shown_program program =
        hw_program_find(a->p->callsites, values, hw_process_name(a->p, upid));
    return hw_filter_match(filters, a->p->callsites, a->fns, namer, &program, out);
}

static int fill_around(struct answer *a, const struct asked *q, bool callers)
{
    hw_values values = {0};
    hw_filters filters = {0};
    struct hw_filter_matches matches = {0};
    struct hw_flame below = {0}, above = {0};
    struct hw_strbuf text = {0};
    hw_strbuf_addf(&text, "P:%s", q->text);
    int rc = text.failed ? HW_ENOMEM : hw_filters_add(&filters, text.p, &a->err);
    if (rc == 0)
        rc = values_at(a, q->upid[0], q->ts[0], &values);
    if (rc == 0)
        rc = match_filters(a, q->upid[0], &values, &filters, NULL, &matches);
    struct hw_flame_question ask = {
        .cs = a->p->callsites, .fns = a->fns, .values = &values, .filters = &matches};
    if (rc == 0)
        rc = hw_flame_pivot(&ask, &below, &above);
    if (rc == 0)
        put_tree(a, callers ? &above : &below);
    hw_flame_done(&below);
    hw_flame_done(&above);
    hw_filter_matches_done(&matches);
    hw_filters_done(&filters);
    hw_vec_done(&values);
    hw_strbuf_done(&text);
    return rc;
}

static int fill_callers(struct answer *a, const struct asked *q)
{
    return fill_around(a, q, /* callers = */ true);
}

static int fill_callees(struct answer *a, const struct asked *q)
{
    return fill_around(a, q, /* callers = */ false);
}

static void put_leak(struct answer *a, const struct hw_leaks *l, const struct hw_leak *r)
{
    put_text(a, hw_bytes_str(hw_leak_verdict_name(r->verdict)));
    put_function(a, l->tree.v.v[r->node].function);
    put_real(a, r->trend.slope);
    put_real(a, r->trend.slope_low);
    put_real(a, r->trend.slope_high);
    put_real(a, r->trend.tau);
    put_real(a, r->trend.p);
    put_int(a, (int64_t)r->grown);
    put_real(a, r->freed_ratio);
    put_int(a, r->now.space);
    put_real(a, hw_value_error(&r->now, HW_METRIC_SPACE, l->interval_bytes));
    put_int(a, r->now.samples);
    put_int(a, r->rest);
}

static int fill_leaks(struct answer *a, const struct asked *q)
{
    struct hw_process_view view;
    struct hw_leaks leaks;
    int rc = hw_process_view_init(&view, a->p, &a->list, q->upid[0]);
    if (rc < 0)
        return rc;
    struct hw_leaks_question ask = {.p = a->p, .list = &a->list, .view = &view, .fns = a->fns};
    rc = hw_leaks_find(&ask, &leaks);
    if (rc == 0) {
        for (size_t i = 0; i < leaks.v.n; i++)
            put_leak(a, &leaks, &leaks.v.v[i]);
        hw_leaks_done(&leaks);
    }
    hw_process_view_done(&view);
    return rc;
}

static int fill_diff(struct answer *a, const struct asked *q)
{
    hw_values values[2] = {{0}, {0}};
    struct hw_diff_side side[2];
    struct hw_diff d;
    enum hw_metric m = HW_METRIC_SPACE;
    if (q->text && !hw_metric_find(q->text, &m))
        return hw_fail(&a->err, HW_EINVAL, 0, "unknown metric '%.40s'", q->text);
    int rc = HW_OK;
    for (int i = 0; rc == 0 && i < 2; i++) {
        rc = values_at(a, q->upid[i], q->ts[i], &values[i]);
        side[i] = (struct hw_diff_side){.p = a->p,
                                        .fns = a->fns,
                                        .values = &values[i],
                                        .interval_bytes = interval_of(a, q->upid[i])};
    }
    bool same = q->upid[0].v == q->upid[1].v && q->ts[0] <= q->ts[1];
    if (rc == 0)
        rc = hw_diff_make(&side[0], &side[1], same ? HW_DIFF_SAME_RUN : 0, &d);
    for (size_t i = 0; rc == 0 && i < d.rows.n; i++) {
        const struct hw_diff_value *v = &d.rows.v[i].self;
        if (hw_diff_change(&d, v, m) == 0)
            continue;
        put_text(a, hw_strings_get(d.strings, d.functions.v[i].name));
        put_text(a, hw_strings_get(d.strings, d.functions.v[i].module));
        put_int(a, hw_value_get(&v->a, m));
        put_int(a, hw_value_get(&v->b, m));
        put_int(a, (int64_t)hw_diff_change(&d, v, m));
        put_real(a, hw_diff_error(&d, v, m));
        put_int(a, hw_diff_is_significant(&d, v, m));
    }
    if (rc == 0)
        hw_diff_done(&d);
    hw_vec_done(&values[0]);
    hw_vec_done(&values[1]);
    return rc;
}

static int fill_sizes(struct answer *a, const struct asked *q)
{
    hw_size_rows rows = {0};
    const struct hw_sizes_question ask = {
        .p = a->p, .list = &a->list, .fns = a->fns, .upid = q->upid[0], .ts_ns = q->ts[0]};
    int rc = hw_sizes_find(&ask, &rows);
    for (size_t i = 0; rc == 0 && i < rows.n; i++) {
        const struct hw_size_row *r = &rows.v[i];
        uint64_t up_to = hw_size_up_to(r->class);
        put_text(a, hw_strings_get(hw_callsites_strings(a->p->callsites),
                                   a->list.v.v[r->series].heap_name));
        put_function(a, r->function);
        put_int(a, up_to > INT64_MAX ? INT64_MAX : (int64_t)up_to);
        put_int(a, r->v.alloc_objects);
        put_int(a, r->v.alloc_space);
        put_int(a, r->v.exact_objects);
        put_int(a, r->v.objects);
        put_int(a, r->v.space);
    }
    hw_vec_done(&rows);
    return rc;
}

static int fill_lifetimes(struct answer *a, const struct asked *q)
{
    struct hw_process_view view;
    struct hw_lifetimes l;
    int rc = hw_process_view_init(&view, a->p, &a->list, q->upid[0]);
    if (rc < 0)
        return rc;
    const struct hw_lifetimes_question ask = {
        .p = a->p, .list = &a->list, .fns = a->fns, .upid = q->upid[0], .start_ns = view.start_ns};
    rc = hw_lifetimes_find(&ask, &l);
    for (size_t i = 0; rc == 0 && i < l.v.n; i++) {
        const struct hw_lifetime *r = &l.v.v[i];
        put_function(a, r->function);
        put_int(a, r->alloc_space);
        put_int(a, r->alloc_objects);
        put_int(a, r->space);
        put_real(a, r->stay_s);
        put_real(a, r->temporary_least);
        put_real(a, r->temporary_most);
    }
    if (rc == 0)
        hw_lifetimes_done(&l);
    hw_process_view_done(&view);
    return rc;
}

static void put_account(struct answer *a, const struct hw_accounting *account)
{
    struct hw_account_step steps[HW_ACCOUNT_MAX_STEPS];
    size_t n = hw_accounting_steps(account, steps);
    for (size_t i = 0; i < n; i++) {
        put_text(a, hw_bytes_str(steps[i].name));
        put_int(a, steps[i].is_total);
        put_real(a, steps[i].end - steps[i].begin);
        put_int(a, steps[i].at_ns);
    }
}

static int fill_accounting(struct answer *a, const struct asked *q)
{
    struct hw_process_view view;
    struct hw_accounting account;
    hw_values values = {0};
    struct hw_value live = {0};
    int rc = hw_process_view_init(&view, a->p, &a->list, q->upid[0]);
    if (rc < 0)
        return rc;
    size_t n = view.moments.n;
    int64_t ts =
        n && q->ts[0] > view.moments.v[n - 1].ts_ns ? view.moments.v[n - 1].ts_ns : q->ts[0];
    rc = values_at(a, q->upid[0], ts, &values);
    for (size_t i = 0; rc == 0 && i < values.n; i++)
        hw_value_add(&live, &values.v[i].v);
    if (rc == 0 && n)
        rc = hw_accounting_find(a->p, &view, ts, &live, &account);
    if (rc == 0 && n) {
        put_account(a, &account);
        hw_accounting_done(&account);
    }
    hw_vec_done(&values);
    hw_process_view_done(&view);
    return rc;
}

/* ---- selections ---- */

enum option {
    OPTION_MAX = 1,
    OPTION_ALL_FRAMES = 2,
    OPTION_INVERT = 4,
    OPTION_CALLERS = 8,
    OPTION_COLLAPSE = 16
};

static int read_options(struct answer *a, const char *text, unsigned *out)
{
    static const char *const words[] = {"max", "all-frames", "invert", "callers", "collapse"};
    *out = 0;
    for (const char *at = text ? text : ""; *at;) {
        size_t n = strcspn(at, " "), i = 0;
        while (i < HW_ARRAY_LEN(words) && (strlen(words[i]) != n || memcmp(words[i], at, n) != 0))
            i++;
        if (n && i == HW_ARRAY_LEN(words))
            return hw_fail(
                &a->err, HW_EINVAL, 0,
                "unknown option '%.*s'; there are max, all-frames, invert, callers, collapse",
                (int)n, at);
        *out |= n ? 1u << i : 0;
        at += n + (at[n] == ' ');
    }
    return HW_OK;
}

static int read_filters(struct answer *a, const char *lines, hw_filters *out)
{
    char *copy = strdup(lines ? lines : ""), *save = NULL;
    int rc = copy ? HW_OK : HW_ENOMEM;
    for (char *line = copy ? strtok_r(copy, "\n", &save) : NULL; rc == 0 && line;
         line = strtok_r(NULL, "\n", &save))
        rc = hw_filters_add(out, line, &a->err);
    free(copy);
    return rc;
}

static const char *shown_name(void *ctx, hw_str_id raw)
{
    struct answer *a = ctx;
    char *made = a->sql->demangle(hw_strings_cstr(hw_callsites_strings(a->p->callsites), raw));
    hw_str_id id;
    if (!made)
        return NULL;
    int rc = hw_strings_intern(a->strings, hw_bytes_str(made), &id);
    free(made);
    a->failed |= rc < 0;
    return rc < 0 ? NULL : hw_strings_cstr(a->strings, id);
}

static bool find_heap(const struct answer *a, const struct asked *q, struct hw_span *s)
{
    s->one_heap = q->heap && *q->heap;
    for (size_t i = 0; s->one_heap && i < a->list.v.n; i++)
        if (a->list.v.v[i].upid.v == q->upid[0].v &&
            strcmp(hw_strings_cstr(hw_callsites_strings(a->p->callsites), a->list.v.v[i].heap_name),
                   q->heap) == 0) {
            s->heap_name = a->list.v.v[i].heap_name;
            return true;
        }
    return !s->one_heap;
}

static int build_tree(struct answer *a, hw_upid upid, const hw_values *values,
                      const hw_filters *filters, unsigned options, struct hw_flame *out)
{
    struct hw_namer namer = {shown_name, a};
    struct hw_filter_matches matches = {0};
    struct hw_flame other = {0};
    bool pivot = hw_filters_have_pivot(filters);
    if (options & OPTION_CALLERS && !pivot)
        return hw_fail(&a->err, HW_EINVAL, 0, "callers needs a pivot among the filters");
    struct hw_flame_question ask = {.cs = a->p->callsites, .fns = a->fns, .values = values};
    ask.flags = (options & OPTION_ALL_FRAMES ? 0 : HW_FLAME_SITES) |
                (options & OPTION_INVERT && !pivot ? HW_FLAME_INVERTED : 0) |
                (options & OPTION_COLLAPSE ? HW_FLAME_COLLAPSE : 0);
    int rc = HW_OK;
    if (filters->n) {
        rc = match_filters(a, upid, values, filters, a->sql->demangle ? &namer : NULL, &matches);
        ask.filters = &matches;
    }
    if (rc == 0 && pivot)
        rc = options & OPTION_CALLERS ? hw_flame_pivot(&ask, &other, out)
                                      : hw_flame_pivot(&ask, out, &other);
    else if (rc == 0)
        rc = hw_flame_ask(&ask, out);
    hw_flame_done(&other);
    hw_filter_matches_done(&matches);
    return rc;
}

static int select_tree(struct answer *a, const struct asked *q, unsigned *options,
                       struct hw_flame *out)
{
    struct hw_span span = {
        .upid = q->upid[0], .ts_ns = q->ts[0], .has_from = q->has_since, .from_ns = q->since};
    hw_values values = {0};
    hw_filters filters = {0};
    int rc = read_options(a, q->options, options);
    if (rc == 0)
        rc = read_filters(a, q->filters, &filters);
    if (rc == 0 && !find_heap(a, q, &span))
        rc = hw_fail(&a->err, HW_EINVAL, 0, "the process has no heap '%.40s'", q->heap);
    span.at_max = *options & OPTION_MAX || has_only_peaks(a, span.upid, &span.ts_ns);
    span.filters = &filters;
    if (rc == 0)
        rc = hw_span_values(a->p, &a->list, &span, &values);
    if (rc == 0)
        rc = build_tree(a, q->upid[0], &values, &filters, *options, out);
    hw_vec_done(&values);
    hw_filters_done(&filters);
    return rc;
}

static int put_figures(struct answer *a, uint64_t interval, const struct hw_value *self,
                       const struct hw_value *total)
{
    for (int m = 0; m < HW_METRIC_COUNT; m++) {
        put_int(a, hw_value_get(self, (enum hw_metric)m));
        put_int(a, hw_value_get(total, (enum hw_metric)m));
    }
    put_int(a, total->samples);
    put_int(a, total->alloc_samples);
    put_errors(a, total, interval);
    return a->failed ? HW_ENOMEM : HW_OK;
}

static int fill_tree(struct answer *a, const struct asked *q)
{
    struct hw_flame tree = {0};
    unsigned options = 0;
    uint64_t interval = interval_of(a, q->upid[0]);
    int rc = select_tree(a, q, &options, &tree);
    for (uint32_t i = 0; rc == 0 && i < tree.v.n; i++) {
        const struct hw_flame_node *n = &tree.v.v[i];
        put_int(a, i);
        put(a,
            (struct cell){.kind = n->parent == HW_ID_NONE ? CELL_NULL : CELL_INT, .i = n->parent});
        put_int(a, n->depth);
        put_function(a, n->function);
        rc = put_figures(a, interval, hw_flame_self(&tree, i), hw_flame_total(&tree, i));
    }
    hw_flame_done(&tree);
    return rc;
}

static int fill_functions(struct answer *a, const struct asked *q)
{
    struct hw_flame tree = {0};
    hw_function_values rows = {0};
    unsigned options = 0;
    uint64_t interval = interval_of(a, q->upid[0]);
    int rc = select_tree(a, q, &options, &tree);
    if (rc == 0 && options & (OPTION_INVERT | OPTION_CALLERS))
        rc = hw_fail(&a->err, HW_EINVAL, 0, "functions are summed up without invert and callers");
    if (rc == 0)
        rc = hw_flame_by_function(&tree, hw_functions_count(a->fns), &rows);
    for (size_t i = 0; rc == 0 && i < rows.n; i++) {
        const struct hw_function_value *v = &rows.v[i];
        if (!v->total.alloc_samples && !v->total.alloc_space && !v->total.space)
            continue;
        put_function(a, v->function);
        rc = put_figures(a, interval, &v->self, &v->total);
    }
    hw_vec_done(&rows);
    hw_flame_done(&tree);
    return rc;
}

static int fill_modules(struct answer *a, const struct asked *q)
{
    (void)q;
    for (size_t i = 0; i < hw_n_sql_modules; i++) {
        put_text(a, hw_bytes_str(hw_sql_modules[i].name));
        put_text(a, hw_bytes_str(hw_sql_modules[i].sql));
    }
    return HW_OK;
}

#define ERROR_COLUMNS                                                                              \
    "space_error REAL, objects_error REAL, alloc_space_error REAL, alloc_objects_error REAL"
#define FIGURE_COLUMNS                                                                             \
    "self_space INTEGER, space INTEGER, self_objects INTEGER, objects INTEGER, "                   \
    "self_alloc_space INTEGER, alloc_space INTEGER, self_alloc_objects INTEGER, "                  \
    "alloc_objects INTEGER, samples INTEGER, alloc_samples INTEGER, " ERROR_COLUMNS
#define TREE_COLUMNS                                                                               \
    "id INTEGER, parent_id INTEGER, depth INTEGER, name TEXT, map_name TEXT, self_space INTEGER, " \
    "space INTEGER, objects INTEGER, alloc_space INTEGER, alloc_objects INTEGER"

static const struct view views[] = {
    {"heapwise_top",
     "name TEXT, map_name TEXT, self_space INTEGER, space INTEGER, self_objects INTEGER, "
     "objects INTEGER, self_alloc_space INTEGER, alloc_space INTEGER, "
     "self_alloc_objects INTEGER, alloc_objects INTEGER, samples INTEGER, " ERROR_COLUMNS
     ", callers TEXT",
     16, "uT", fill_top},
    {"heapwise_callers", TREE_COLUMNS, 10, "utp", fill_callers},
    {"heapwise_callees", TREE_COLUMNS, 10, "utp", fill_callees},
    {"heapwise_leaks",
     "verdict TEXT, name TEXT, map_name TEXT, slope REAL, slope_low REAL, slope_high REAL, "
     "tau REAL, p REAL, grown INTEGER, freed_ratio REAL, space INTEGER, space_error REAL, "
     "samples INTEGER, is_rest INTEGER",
     14, "u", fill_leaks},
    {"heapwise_diff",
     "name TEXT, map_name TEXT, a INTEGER, b INTEGER, change INTEGER, error REAL, "
     "significant INTEGER",
     7, "ututP", fill_diff},
    {"heapwise_sizes",
     "heap_name TEXT, name TEXT, map_name TEXT, up_to INTEGER, alloc_objects INTEGER, "
     "alloc_space INTEGER, exact_objects INTEGER, objects INTEGER, space INTEGER",
     9, "uT", fill_sizes},
    {"heapwise_lifetimes",
     "name TEXT, map_name TEXT, alloc_space INTEGER, alloc_objects INTEGER, space INTEGER, "
     "stay REAL, temporary_least REAL, temporary_most REAL",
     8, "u", fill_lifetimes},
    {"heapwise_accounting", "name TEXT, is_total INTEGER, bytes REAL, ts INTEGER", 4, "uT",
     fill_accounting},
    {"heapwise_tree",
     "id INTEGER, parent_id INTEGER, depth INTEGER, name TEXT, map_name TEXT, " FIGURE_COLUMNS, 19,
     "uTSHFO", fill_tree},
    {"heapwise_functions", "name TEXT, map_name TEXT, " FIGURE_COLUMNS, 16, "uTSHFO",
     fill_functions},
    {"heapwise_modules", "name TEXT, sql TEXT", 2, "", fill_modules},
};

/* ---- the virtual table ---- */

struct module {
    const struct view *view;
    struct hw_sql *sql; /* borrowed */
};

struct view_vtab {
    sqlite3_vtab base;
    const struct module *module;
};

struct view_cursor {
    sqlite3_vtab_cursor base;
    struct answer answer;
    sqlite3_value *given[MAX_ARGS]; /* owned; NULL = left out */
    size_t at;
};

static int view_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
                        sqlite3_vtab **out, char **message)
{
    const struct module *m = aux;
    struct hw_strbuf text = {0};
    (void)argc;
    (void)argv;
    (void)message;
    hw_strbuf_addf(&text, "CREATE TABLE x(%s", m->view->columns);
    for (size_t i = 0; m->view->args[i]; i++)
        hw_strbuf_addf(&text, ", arg%zu HIDDEN", i + 1);
    hw_strbuf_addc(&text, ')');
    int rc = text.failed ? SQLITE_NOMEM : sqlite3_declare_vtab(db, text.p);
    hw_strbuf_done(&text);
    struct view_vtab *v = rc == SQLITE_OK ? sqlite3_malloc(sizeof *v) : NULL;
    if (!v)
        return rc == SQLITE_OK ? SQLITE_NOMEM : rc;
    *v = (struct view_vtab){.module = m};
    (void)sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
    *out = &v->base;
    return SQLITE_OK;
}

static int view_disconnect(sqlite3_vtab *v)
{
    sqlite3_free(v);
    return SQLITE_OK;
}

/* idxNum has a bit for each argument given; they arrive in their order. */
static int view_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    const struct view *v = ((const struct view_vtab *)base)->module->view;
    int given[MAX_ARGS], n = 0;
    for (int i = 0; i < MAX_ARGS; i++)
        given[i] = -1;
    for (int i = 0; i < info->nConstraint; i++) {
        const struct sqlite3_index_constraint *c = &info->aConstraint[i];
        int arg = c->iColumn - v->n_columns;
        if (arg < 0 || arg >= MAX_ARGS || c->op != SQLITE_INDEX_CONSTRAINT_EQ)
            continue;
        if (!c->usable)
            return SQLITE_CONSTRAINT;
        if (given[arg] < 0)
            given[arg] = i;
    }
    info->idxNum = 0;
    for (int i = 0; i < MAX_ARGS; i++) {
        if (given[i] < 0)
            continue;
        info->idxNum |= 1 << i;
        info->aConstraintUsage[given[i]].argvIndex = ++n;
        info->aConstraintUsage[given[i]].omit = 1;
    }
    info->estimatedCost = 1e6; /* once, not in an inner loop */
    info->estimatedRows = 10000;
    return SQLITE_OK;
}

static int view_open(sqlite3_vtab *v, sqlite3_vtab_cursor **out)
{
    (void)v;
    struct view_cursor *c = sqlite3_malloc(sizeof *c);
    if (!c)
        return SQLITE_NOMEM;
    *c = (struct view_cursor){0};
    *out = &c->base;
    return SQLITE_OK;
}

static void forget(struct view_cursor *c)
{
    hw_vec_done(&c->answer.cells);
    hw_strings_free(c->answer.strings);
    c->answer.strings = NULL;
    for (int i = 0; i < MAX_ARGS; i++) {
        sqlite3_value_free(c->given[i]);
        c->given[i] = NULL;
    }
    c->at = 0;
}

static int view_close(sqlite3_vtab_cursor *base)
{
    forget((struct view_cursor *)base);
    sqlite3_free(base);
    return SQLITE_OK;
}

static int refuse(struct view_cursor *c, const char *text)
{
    sqlite3_vtab *v = c->base.pVtab;
    sqlite3_free(v->zErrMsg);
    v->zErrMsg = sqlite3_mprintf("%s: %s", ((struct view_vtab *)v)->module->view->name, text);
    return SQLITE_ERROR;
}

/* NULL = understood; else what is wrong. *nobody: there is no such process. */
static const char *understand(struct view_cursor *c, struct asked *q, bool *nobody)
{
    const struct module *m = ((struct view_vtab *)c->base.pVtab)->module;
    int n_upids = 0, n_times = 0;
    *q = (struct asked){.ts = {INT64_MAX, INT64_MAX}};
    for (int i = 0; m->view->args[i]; i++) {
        sqlite3_value *v = c->given[i];
        bool set = v && sqlite3_value_type(v) != SQLITE_NULL;
        bool is_int = set && sqlite3_value_numeric_type(v) == SQLITE_INTEGER;
        switch (m->view->args[i]) {
        case 'u':
            if (!is_int)
                return "upid is missing";
            int64_t upid = sqlite3_value_int64(v);
            *nobody |= upid < 1 || (uint64_t)upid > m->sql->profile->processes.n;
            q->upid[n_upids++].v = *nobody ? 0 : (uint32_t)upid - 1;
            break;
        case 't':
        case 'T':
            if (set && !is_int)
                return "ts is not an integer";
            if (set)
                q->ts[n_times] = sqlite3_value_int64(v);
            n_times++;
            break;
        case 'S':
            if (set && !is_int)
                return "since is not an integer";
            q->has_since = set;
            q->since = set ? sqlite3_value_int64(v) : 0;
            break;
        case 'H':
            q->heap = set ? (const char *)sqlite3_value_text(v) : NULL;
            break;
        case 'F':
            q->filters = set ? (const char *)sqlite3_value_text(v) : NULL;
            break;
        case 'O':
            q->options = set ? (const char *)sqlite3_value_text(v) : NULL;
            break;
        case 'p':
        case 'P':
            q->text = set ? (const char *)sqlite3_value_text(v) : NULL;
            if (!q->text && m->view->args[i] == 'p')
                return "the pattern is missing";
            break;
        }
    }
    return NULL;
}

static int make_answer(struct view_cursor *c, const struct asked *q)
{
    const struct module *m = ((struct view_vtab *)c->base.pVtab)->module;
    struct answer *a = &c->answer;
    *a = (struct answer){.sql = m->sql, .p = m->sql->profile};
    int rc = hw_strings_new(&a->strings);
    if (rc == 0)
        rc = hw_series_list_init(&a->list, a->p);
    if (rc == 0)
        rc = hw_functions_new(a->p->callsites, NULL, &a->fns);
    if (rc == 0)
        rc = m->view->fill(a, q);
    hw_functions_free(a->fns);
    a->fns = NULL;
    hw_series_list_done(&a->list);
    if (a->err.code)
        return refuse(c, a->err.text);
    return rc < 0 || a->failed ? SQLITE_NOMEM : SQLITE_OK;
}

static int view_filter(sqlite3_vtab_cursor *base, int number, const char *text, int argc,
                       sqlite3_value **argv)
{
    struct view_cursor *c = (struct view_cursor *)base;
    struct asked q;
    bool nobody = false;
    (void)text;
    (void)argc;
    forget(c);
    for (int i = 0, n = 0; i < MAX_ARGS; i++) {
        if (!(number & 1 << i))
            continue;
        c->given[i] = sqlite3_value_dup(argv[n++]);
        if (!c->given[i])
            return SQLITE_NOMEM;
    }
    const char *wrong = understand(c, &q, &nobody);
    if (wrong)
        return refuse(c, wrong);
    return nobody ? SQLITE_OK : make_answer(c, &q);
}

static int view_next(sqlite3_vtab_cursor *base)
{
    ((struct view_cursor *)base)->at++;
    return SQLITE_OK;
}

static size_t n_columns_of(const struct view_cursor *c)
{
    return (size_t)((struct view_vtab *)c->base.pVtab)->module->view->n_columns;
}

static int view_eof(sqlite3_vtab_cursor *base)
{
    const struct view_cursor *c = (const struct view_cursor *)base;
    return c->at * n_columns_of(c) >= c->answer.cells.n;
}

static int view_column(sqlite3_vtab_cursor *base, sqlite3_context *ctx, int column)
{
    const struct view_cursor *c = (const struct view_cursor *)base;
    size_t n = n_columns_of(c);
    if ((size_t)column >= n) { /* inputs are given back */
        if ((size_t)column - n < MAX_ARGS && c->given[(size_t)column - n])
            sqlite3_result_value(ctx, c->given[(size_t)column - n]);
        return SQLITE_OK;
    }
    const struct cell *cell = &c->answer.cells.v[c->at * n + (size_t)column];
    struct hw_bytes text;
    switch (cell->kind) {
    case CELL_NULL:
        break;
    case CELL_INT:
        sqlite3_result_int64(ctx, cell->i);
        break;
    case CELL_REAL:
        sqlite3_result_double(ctx, cell->d);
        break;
    case CELL_TEXT: /* copied: results may outlive the cursor's answer */
        text = hw_strings_get(c->answer.strings, cell->text);
        sqlite3_result_text64(ctx, text.n ? (const char *)text.p : "", text.n, SQLITE_TRANSIENT,
                              SQLITE_UTF8);
        break;
    }
    return SQLITE_OK;
}

static int view_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    *out = (sqlite3_int64)((struct view_cursor *)base)->at;
    return SQLITE_OK;
}

static const sqlite3_module view_methods = {
    .iVersion = 2,
    .xConnect = view_connect,
    .xDisconnect = view_disconnect,
    .xBestIndex = view_best_index,
    .xOpen = view_open,
    .xClose = view_close,
    .xFilter = view_filter,
    .xNext = view_next,
    .xEof = view_eof,
    .xColumn = view_column,
    .xRowid = view_rowid,
};

int hw_sql_add_profile_views(struct hw_sql *s)
{
    for (size_t i = 0; i < HW_ARRAY_LEN(views); i++) {
        struct module *m = malloc(sizeof *m);
        if (!m)
            return HW_ENOMEM;
        *m = (struct module){&views[i], s};
        if (sqlite3_create_module_v2(s->db, views[i].name, &view_methods, m, free) != SQLITE_OK)
            return HW_ENOMEM; /* m was freed by it */
    }
    return HW_OK;
}

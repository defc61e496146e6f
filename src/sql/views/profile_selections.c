/* Views of a selection: tree, functions and modules, with options and filters. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "sql/engine.h"
#include "sql/views/profile_views_parts.h"
#include "views/flame/callers.h"
#include "views/time/span.h"

#include "base/banned.h"

enum option {
    OPTION_MAX = 1,
    OPTION_ALL_FRAMES = 2,
    OPTION_INVERT = 4,
    OPTION_CALLERS = 8,
    OPTION_COLLAPSE = 16
};

static int read_options(struct hw_view_result *a, const char *text, unsigned *out)
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

static int read_filters(struct hw_view_result *a, const char *lines, hw_filters *out)
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
    struct hw_view_result *a = ctx;
    char *made = a->sql->demangle(hw_strings_cstr(hw_callsites_strings(a->p->callsites), raw));
    hw_str_id id;
    if (!made)
        return NULL;
    int rc = hw_strings_intern(a->strings, hw_bytes_str(made), &id);
    free(made);
    a->failed |= rc < 0;
    return rc < 0 ? NULL : hw_strings_cstr(a->strings, id);
}

static bool find_heap(const struct hw_view_result *a, const struct hw_view_query *q,
                      struct hw_span *s)
{
    s->one_heap = q->heap && *q->heap;
    const struct hw_process_rows heaps = hw_series_of(&a->list, q->upid[0]);
    for (size_t i = 0; s->one_heap && i < heaps.n; i++) {
        hw_str_id name = a->list.v.v[heaps.v[i]].heap_name;
        if (strcmp(hw_strings_cstr(hw_callsites_strings(a->p->callsites), name), q->heap) == 0) {
            s->heap_name = name;
            return true;
        }
    }
    return !s->one_heap;
}

static int build_tree(struct hw_view_result *a, hw_upid upid, const hw_values *values,
                      const hw_filters *filters, unsigned options, struct hw_flame *out)
{
    struct hw_namer namer = {shown_name, a};
    struct hw_filter_matches matches = {0};
    struct hw_flame other = {0};
    bool pivot = hw_filters_have_pivot(filters);
    if (options & OPTION_CALLERS && !pivot)
        return hw_fail(&a->err, HW_EINVAL, 0, "callers needs a pivot among the filters");
    struct hw_flame_input input = {.cs = a->p->callsites, .fns = a->fns, .values = values};
    input.flags = (options & OPTION_ALL_FRAMES ? 0 : HW_FLAME_SITES) |
                  (options & OPTION_INVERT && !pivot ? HW_FLAME_INVERTED : 0) |
                  (options & OPTION_COLLAPSE ? HW_FLAME_COLLAPSE : 0);
    int rc = HW_OK;
    if (filters->n) {
        rc = hw_view_match_filters(a, upid, values, filters, a->sql->demangle ? &namer : NULL,
                                   &matches);
        input.filters = &matches;
    }
    if (rc == 0 && pivot)
        rc = options & OPTION_CALLERS ? hw_flame_pivot(&input, &other, out)
                                      : hw_flame_pivot(&input, out, &other);
    else if (rc == 0)
        rc = hw_flame_build_with(&input, out);
    hw_flame_done(&other);
    hw_filter_matches_done(&matches);
    return rc;
}

static int select_tree(struct hw_view_result *a, const struct hw_view_query *q, unsigned *options,
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
    span.at_max = *options & OPTION_MAX || hw_view_has_only_peaks(a, span.upid, &span.ts_ns);
    span.filters = &filters;
    if (rc == 0)
        rc = hw_span_values(a->p, &a->list, &span, &values);
    if (rc == 0)
        rc = build_tree(a, q->upid[0], &values, &filters, *options, out);
    hw_vec_done(&values);
    hw_filters_done(&filters);
    return rc;
}

static int put_figures(struct hw_view_result *a, uint64_t interval, const struct hw_value *self,
                       const struct hw_value *total)
{
    for (int m = 0; m < HW_METRIC_USUAL; m++) {
        hw_view_put_int(a, hw_value_get(self, (enum hw_metric)m));
        hw_view_put_int(a, hw_value_get(total, (enum hw_metric)m));
    }
    hw_view_put_int(a, total->samples);
    hw_view_put_int(a, total->alloc_samples);
    hw_view_put_errors(a, total, interval);
    hw_view_put_temporary(a, self, total, interval);
    return a->failed ? HW_ENOMEM : HW_OK;
}

int hw_view_fill_tree(struct hw_view_result *a, const struct hw_view_query *q)
{
    struct hw_flame tree = {0};
    unsigned options = 0;
    uint64_t interval = hw_view_interval_of(a, q->upid[0]);
    int rc = select_tree(a, q, &options, &tree);
    for (uint32_t i = 0; rc == 0 && i < tree.v.n; i++) {
        const struct hw_flame_node *n = &tree.v.v[i];
        hw_view_put_int(a, i);
        hw_view_put(a, (struct hw_view_cell){.kind = n->parent == HW_ID_NONE ? CELL_NULL : CELL_INT,
                                             .i = n->parent});
        hw_view_put_int(a, n->depth);
        hw_view_put_function(a, n->function);
        rc = put_figures(a, interval, hw_flame_self(&tree, i), hw_flame_total(&tree, i));
    }
    hw_flame_done(&tree);
    return rc;
}

int hw_view_fill_functions(struct hw_view_result *a, const struct hw_view_query *q)
{
    struct hw_flame tree = {0};
    hw_function_values rows = {0};
    unsigned options = 0;
    uint64_t interval = hw_view_interval_of(a, q->upid[0]);
    int rc = select_tree(a, q, &options, &tree);
    if (rc == 0 && options & (OPTION_INVERT | OPTION_CALLERS))
        rc = hw_fail(&a->err, HW_EINVAL, 0, "functions are summed up without invert and callers");
    if (rc == 0)
        rc = hw_flame_by_function(&tree, hw_functions_count(a->fns), &rows);
    for (size_t i = 0; rc == 0 && i < rows.n; i++) {
        const struct hw_function_value *v = &rows.v[i];
        if (!v->total.alloc_samples && !v->total.alloc_space && !v->total.space)
            continue;
        hw_view_put_function(a, v->function);
        rc = put_figures(a, interval, &v->self, &v->total);
    }
    hw_vec_done(&rows);
    hw_flame_done(&tree);
    return rc;
}

int hw_view_fill_modules(struct hw_view_result *a, const struct hw_view_query *q)
{
    (void)q;
    for (size_t i = 0; i < hw_n_sql_modules; i++) {
        hw_view_put_text(a, hw_bytes_str(hw_sql_modules[i].name));
        hw_view_put_text(a, hw_bytes_str(hw_sql_modules[i].sql));
    }
    return HW_OK;
}

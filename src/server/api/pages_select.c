/* The selection of a request: process, heap, moment or time range, and how to show it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "server/api/pages_internal.h"
#include "views/time/span.h"

#include "base/banned.h"

/* A request's parameters for one side. */
struct params {
    struct hw_http_request *req;
    const char *prefix;
};

static const char *text_of(const struct params *a, const char *name)
{
    char key[32];
    (void)snprintf(key, sizeof key, "%s%s", a->prefix, name);
    return hw_http_query(a->req, key);
}

static int number(const struct params *params, const char *name, int64_t *out, bool *given,
                  struct hw_error *err)
{
    const char *text = text_of(params, name);
    char *end;
    *given = text && *text;
    if (!*given)
        return HW_OK;
    long long v = strtoll(text, &end, 10);
    if (*end)
        return hw_fail(err, HW_EINVAL, 0, "'%.40s' is not a number, which %s takes", text, name);
    *out = v;
    return HW_OK;
}

static bool is_set(const struct params *params, const char *name)
{
    const char *v = text_of(params, name);
    return v && strcmp(v, "1") == 0;
}

static int add_filters(hw_filters *out, const char *lines, struct hw_error *err)
{
    char *copy = strdup(lines), *save = NULL;
    int rc = copy ? HW_OK : hw_fail(err, HW_ENOMEM, 0, "filters");
    for (char *line = copy ? strtok_r(copy, "\n", &save) : NULL; rc == HW_OK && line;
         line = strtok_r(NULL, "\n", &save))
        rc = hw_filters_add(out, line, err);
    free(copy);
    return rc < 0 && err->code == 0 ? hw_fail(err, rc, 0, "filters:") : rc;
}

static int pick_process(struct hw_page_selection *s, const struct hw_page_trace *t,
                        const struct params *params, struct hw_error *err)
{
    int64_t upid = 0;
    bool given;
    int rc = number(params, "upid", &upid, &given, err);
    if (rc < 0)
        return rc;
    const struct hw_process_view *v = t->processes.n ? &t->processes.v[0] : NULL;
    if (given) {
        bool is_id = upid >= 0 && upid < HW_ID_NONE;
        v = hw_page_view(t, (hw_upid){is_id ? (uint32_t)upid : HW_ID_NONE});
    }
    if (v) {
        s->upid = v->upid;
        return HW_OK;
    }
    return hw_fail(err, HW_ENOTFOUND, 0,
                   given ? "no heap profile of process %lld" : "no heap profile", (long long)upid);
}

bool hw_page_selects(const struct hw_page_selection *s, hw_upid upid)
{
    bool found = s->upid.v == upid.v;
    for (size_t i = 0; !found && i < s->n_with; i++)
        found = s->with[i].v == upid.v;
    return found;
}

/* Further processes: comma-separated upids. */
static int pick_further(struct hw_page_selection *s, const struct hw_page_trace *t,
                        const struct params *params, struct hw_error *err)
{
    const char *text = text_of(params, "with");
    while (text && *text) {
        char *end;
        unsigned long long id = strtoull(text, &end, 10);
        const hw_upid upid = {id < HW_ID_NONE ? (uint32_t)id : HW_ID_NONE};
        if (end == text || (*end && *end != ','))
            return hw_fail(err, HW_EINVAL, 0, "'%.40s' is not a list of processes", text);
        if (!hw_page_view(t, upid))
            return hw_fail(err, HW_ENOTFOUND, 0, "no heap profile of process %llu", id);
        if (!hw_page_selects(s, upid) && s->n_with == HW_PAGE_MAX_WITH)
            return hw_fail(err, HW_ELIMIT, 0, "at most %d processes can be added up",
                           HW_PAGE_MAX_WITH + 1);
        if (!hw_page_selects(s, upid))
            s->with[s->n_with++] = upid;
        text = *end ? end + 1 : end;
    }
    return HW_OK;
}

static void pick_program(struct hw_page_selection *s, const struct hw_page_trace *t)
{
    s->program = hw_page_program_of(t, s->upid);
    for (size_t i = 0; i < s->n_with; i++)
        if (hw_page_program_of(t, s->with[i]) != s->program)
            s->program = NULL;
}

/* The default moment for several processes: the end of the one dumped last. */
static void use_last_end(struct hw_page_selection *s, const struct hw_page_trace *t)
{
    for (size_t i = 0; !s->at_max && i < s->n_with; i++) {
        const struct hw_process_view *v = hw_page_view(t, s->with[i]);
        if (v->moments.n && v->moments.v[v->moments.n - 1].ts_ns > s->ts_ns)
            s->ts_ns = v->moments.v[v->moments.n - 1].ts_ns;
    }
}

static int pick_moment(struct hw_page_selection *s, struct hw_page_trace *t,
                       const struct params *params, struct hw_error *err)
{
    const char *at = text_of(params, "at");
    const struct hw_process_view *v = hw_page_view(t, s->upid);
    bool given = false;
    int rc = HW_OK;
    if (!v)
        return hw_fail(err, HW_ENOMEM, 0, "process");
    const struct hw_process_moment *m =
        v->moments.n ? &v->moments.v[v->moments.n - 1] : hw_process_view_peak(v);
    if (at && strcmp(at, "peak") == 0)
        m = hw_process_view_peak(v);
    s->interval_bytes = v->interval_bytes;
    for (size_t i = 0; i < s->n_with; i++) {
        uint64_t interval = hw_page_view(t, s->with[i])->interval_bytes;
        s->interval_bytes = interval > s->interval_bytes ? interval : s->interval_bytes;
    }
    if (m) {
        s->ts_ns = m->ts_ns;
        s->at_max = m->at_max;
    }
    if (!at || !*at)
        use_last_end(s, t);
    if (!at || strcmp(at, "peak") != 0)
        rc = number(params, "at", &s->ts_ns, &given, err);
    if (given)
        s->at_max = is_set(params, "max");
    if (rc == HW_OK)
        rc = number(params, "from", &s->from_ns, &s->has_from, err);
    return rc;
}

/* Heaps of one process may have different sampling intervals. */
static void use_interval(struct hw_page_selection *s, const struct hw_page_trace *t,
                         const struct hw_series *of)
{
    const hw_dump_list *dumps = of->shown.n ? &of->shown : &of->peaks;
    if (dumps->n)
        s->interval_bytes = t->profile->dumps.v[dumps->v[dumps->n - 1]].interval_bytes;
}

static int pick_heap(struct hw_page_selection *s, const struct hw_page_trace *t,
                     const struct params *params, struct hw_error *err)
{
    const char *heap = text_of(params, "heap");
    s->heap = heap ? heap : "";
    if (!*s->heap)
        return HW_OK;
    for (size_t i = 0; i < t->list.v.n; i++)
        if (hw_page_selects(s, t->list.v.v[i].upid) &&
            strcmp(hw_page_string(t, t->list.v.v[i].heap_name), s->heap) == 0) {
            s->heap_id = t->list.v.v[i].heap_name;
            use_interval(s, t, &t->list.v.v[i]);
            return HW_OK;
        }
    return hw_fail(err, HW_ENOTFOUND, 0, "the process has no heap of that name");
}

int hw_page_side_init(struct hw_page_selection *s, struct hw_page_trace *t,
                      struct hw_http_request *req, const char *prefix, struct hw_error *err)
{
    const struct params params = {req, prefix}, both = {req, ""};
    const char *metric = text_of(&both, "metric"), *frames = text_of(&both, "frames");
    const char *filters = text_of(&both, "filters");
    *s = (struct hw_page_selection){.metric = HW_METRIC_SPACE};
    int rc = pick_process(s, t, &params, err);
    if (rc == HW_OK)
        rc = pick_further(s, t, &params, err);
    if (rc == HW_OK)
        pick_program(s, t);
    if (rc == HW_OK)
        rc = pick_moment(s, t, &params, err);
    if (rc == HW_OK)
        rc = pick_heap(s, t, &params, err);
    if (rc == HW_OK && metric && !hw_metric_find(metric, &s->metric))
        rc = hw_fail(err, HW_EINVAL, 0, "unknown metric '%.40s'", metric);
    s->flags = (is_set(&both, "invert") ? HW_PAGE_INVERT : 0) |
               (is_set(&both, "collapse") ? HW_PAGE_COLLAPSE : 0) |
               (is_set(&both, "stable") ? HW_PAGE_STABLE : 0) |
               (frames && strcmp(frames, "all") == 0 ? HW_PAGE_ALL_FRAMES : 0);
    if (rc == HW_OK && filters)
        rc = add_filters(&s->filters, filters, err);
    if (rc < 0)
        hw_page_selection_done(s);
    return rc;
}

int hw_page_selection_init(struct hw_page_selection *s, struct hw_page_trace *t,
                           struct hw_http_request *req, struct hw_error *err)
{
    return hw_page_side_init(s, t, req, "", err);
}

void hw_page_selection_done(struct hw_page_selection *s)
{
    hw_filters_done(&s->filters);
}

unsigned hw_page_flame_flags(const struct hw_page_selection *s)
{
    return (unsigned)(s->flags & HW_PAGE_ALL_FRAMES ? 0 : HW_FLAME_SITES) |
           (unsigned)(s->flags & HW_PAGE_COLLAPSE ? HW_FLAME_COLLAPSE : 0);
}

int hw_page_mask_init(struct hw_page_mask *m, struct hw_page_trace *t,
                      const struct hw_page_selection *s)
{
    struct hw_namer namer = hw_page_namer(t);
    *m = (struct hw_page_mask){0};
    if (s->filters.n == 0)
        return HW_OK;
    int rc = hw_filter_match(&s->filters, t->profile->callsites, t->functions, &namer,
                             hw_page_program_shown(s->program), &m->matches);
    return rc < 0 ? rc
                  : hw_stack_mask_new(t->profile, t->functions, &m->matches,
                                      hw_page_flame_flags(s) & HW_FLAME_SITES, &m->mask);
}

void hw_page_mask_done(struct hw_page_mask *m)
{
    hw_stack_mask_free(m->mask);
    hw_filter_matches_done(&m->matches);
}

/* ---- values ---- */

static int values_of_one(const struct hw_page_trace *t, const struct hw_page_selection *s,
                         hw_values *out, struct hw_error *err)
{
    const struct hw_span span = {.upid = s->upid,
                                 .one_heap = *s->heap != '\0',
                                 .heap_name = s->heap_id,
                                 .filters = &s->filters,
                                 .ts_ns = s->ts_ns,
                                 .at_max = s->at_max,
                                 .has_from = s->has_from,
                                 .from_ns = s->from_ns};
    int rc = hw_span_values(t->profile, &t->list, &span, out);
    return rc < 0 ? hw_fail(err, rc, 0, "values:") : HW_OK;
}

void hw_page_selection_one(const struct hw_page_selection *s, hw_upid upid,
                           struct hw_page_selection *out)
{
    *out = *s;
    out->upid = upid;
    out->n_with = 0;
    out->at_max = s->at_max && upid.v == s->upid.v; /* a maximum belongs to one process */
}

/* Both are sorted by callsite; so is the sum. */
static int add_values(hw_values *to, const hw_values *more)
{
    hw_values sum = {0};
    size_t i = 0, k = 0;
    if (hw_vec_reserve(&sum, to->n + more->n) < 0)
        return HW_ENOMEM;
    while (i < to->n || k < more->n) {
        bool own = k == more->n || (i < to->n && to->v[i].callsite.v <= more->v[k].callsite.v);
        struct hw_callsite_value *last = sum.n ? &sum.v[sum.n - 1] : NULL;
        const struct hw_callsite_value *next = own ? &to->v[i++] : &more->v[k++];
        if (last && last->callsite.v == next->callsite.v)
            hw_value_add(&last->v, &next->v);
        else
            sum.v[sum.n++] = *next;
    }
    hw_vec_done(to);
    *to = sum;
    return HW_OK;
}

int hw_page_values(const struct hw_page_trace *t, const struct hw_page_selection *s, hw_values *out,
                   struct hw_error *err)
{
    struct hw_page_selection one;
    hw_page_selection_one(s, s->upid, &one);
    int rc = values_of_one(t, &one, out, err);
    for (size_t i = 0; rc == HW_OK && i < s->n_with; i++) {
        hw_values more = {0};
        hw_page_selection_one(s, s->with[i], &one);
        rc = values_of_one(t, &one, &more, err);
        if (rc == HW_OK && add_values(out, &more) < 0)
            rc = hw_fail(err, HW_ENOMEM, 0, "values");
        hw_vec_done(&more);
    }
    return rc;
}

/*
 * Runs the page's own requests against the routes and stores the responses. As space is limited,
 * the most important come first: tables and the graphs of the initial moment, then the graphs of
 * the other dumps, comparisons, bottom-up graphs, intervals.
 */
#include "server/api/saved/saved_page.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/text/json_out.h"
#include "base/text/strings.h"
#include "codec/base64.h"
#include "codec/gzip.h"
#include "server/api/pages_assets.h"
#include "server/api/pages_internal.h"
#include "server/api/saved/graph_fit.h"

#include "base/banned.h"

enum {
    MAX_PARAMETERS = 12,
    MAX_PROCESSES = 8,
    MAX_HEAPS = 6,
    HTTP_WORKING = 202, /* still computing: save again */
    MAX_PAGE = 4 << 20,
    WAIT_MS = 5,
    TEXT_BYTES = 24,  /* of a number */
    INDEX_SHARE = 16, /* a 16th of the space is reserved for the index, including the texts */
};

static const char mark[] = "@ANSWERS@";

struct request {
    const char *name; /* "flame" */
    bool graph;
    struct hw_http_pair v[MAX_PARAMETERS]; /* sorted by name; those of the key first */
    size_t n_key, n;
};

struct maker {
    struct hw_page_trace *t;
    struct hw_http_options http;
    unsigned id;
    struct hw_strings *texts;
    struct hw_strbuf blob;
    struct hw_json index;
    size_t space_left, n_left_out;
};

/* ---- questions ---- */

static void add_parameter(struct request *q, const char *name, const char *value)
{
    if (value && *value)
        q->v[q->n++] = (struct hw_http_pair){name, value};
}

static int by_name(const void *a, const void *b)
{
    const struct hw_http_pair *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static void write_key(const struct request *q, struct hw_strbuf *out)
{
    struct hw_http_pair sorted[MAX_PARAMETERS];
    memcpy(sorted, q->v, sizeof sorted);
    qsort(sorted, q->n_key, sizeof *sorted, by_name);
    hw_strbuf_adds(out, q->name);
    for (size_t i = 0; i < q->n_key; i++) {
        hw_strbuf_addc(out, 0x1f);
        hw_strbuf_adds(out, sorted[i].name);
        hw_strbuf_addc(out, '=');
        hw_strbuf_adds(out, sorted[i].value);
    }
}

/* HW_ENOTFOUND: the trace has none. */
static int fetch(struct maker *m, const struct request *q, struct hw_strbuf *out)
{
    char path[64];
    unsigned status = 0;
    (void)snprintf(path, sizeof path, "/api/v1/traces/%u/%s", m->id, q->name);
    if (strcmp(q->name, "status") == 0)
        (void)snprintf(path, sizeof path, "/api/v1/status");
    int rc;
    do {
        hw_strbuf_clear(out);
        rc = hw_http_get(&m->http, path, q->v, q->n, &status, out);
    } while (rc == HW_OK && status == HTTP_WORKING);
    return rc == HW_OK && status != HTTP_OK ? HW_ENOTFOUND : rc;
}

/* n_bytes: of it and of its texts in the index. */
static void store(struct maker *m, const struct request *q, const struct hw_strbuf *packed,
                  size_t n_bytes)
{
    struct hw_strbuf key = {0};
    write_key(q, &key);
    hw_json_begin_array(&m->index);
    hw_json_str(&m->index, key.p);
    hw_json_str(&m->index, q->graph ? "graph" : "json");
    hw_json_uint(&m->index, m->blob.n);
    hw_json_uint(&m->index, packed->n);
    hw_json_end_array(&m->index);
    hw_strbuf_add(&m->blob, packed->p, packed->n);
    m->space_left -= n_bytes < m->space_left ? n_bytes : m->space_left;
    hw_strbuf_done(&key);
}

/* Of a graph as much as fits into `most` bytes; left out if it does not fit at all. */
static int save_within(struct maker *m, const struct request *q, size_t most)
{
    struct hw_strbuf plain = {0}, packed = {0};
    size_t n_bytes = 0;
    int rc = fetch(m, q, &plain);
    struct hw_bytes b = hw_bytes_of(plain.p, plain.n);
    if (rc == HW_OK && q->graph)
        rc = hw_graph_fit(b, most, m->texts, &packed, &n_bytes);
    else if (rc == HW_OK && (rc = hw_deflate(b, HW_GZIP_GZIP, &packed, NULL)) == HW_OK)
        n_bytes = packed.n;
    if (rc == HW_OK && n_bytes <= (q->graph ? most : m->space_left))
        store(m, q, &packed, n_bytes);
    else if (rc == HW_OK)
        m->n_left_out++;
    hw_strbuf_done(&plain);
    hw_strbuf_done(&packed);
    return rc == HW_ENOTFOUND ? HW_OK : rc;
}

static int save(struct maker *m, const struct request *q)
{
    return save_within(m, q, m->space_left);
}

/* ---- a process ---- */

struct moment {
    char at[TEXT_BYTES];
    bool max;
};

static struct moment moment_of(const struct hw_process_moment *p)
{
    struct moment m = {.max = p->at_max};
    (void)snprintf(m.at, sizeof m.at, "%" PRId64, p->ts_ns);
    return m;
}

struct process {
    char upid[TEXT_BYTES];
    const struct hw_process_view *view;
    struct moment end, peak, first;
    struct moment before, shown; /* before: the one before the end; shown: the initial moment */
    int n_metrics;
};

static void find_moments(const struct hw_process_view *v, struct process *p)
{
    const struct hw_process_moment *peak = hw_process_view_peak(v);
    const struct hw_process_moment *last = v->moments.n ? &v->moments.v[v->moments.n - 1] : peak;
    *p = (struct process){.view = v, .n_metrics = HW_METRIC_USUAL};
    (void)snprintf(p->upid, sizeof p->upid, "%" PRIu32, v->upid.v);
    if (!last)
        return;
    p->n_metrics = (int)hw_value_metrics(&last->total);
    p->end = p->first = p->before = moment_of(last);
    p->peak = moment_of(peak ? peak : last);
    p->shown = hw_process_view_cleaned_up(v) ? p->peak : p->end;
    for (size_t i = 0; i < v->moments.n; i++) {
        const struct hw_process_moment *x = &v->moments.v[i];
        if (!x->is_peak && x->ts_ns < strtoll(p->first.at, NULL, 10))
            p->first = moment_of(x);
        /* As in the overview: not one of almost the same time. */
        if (last->ts_ns - x->ts_ns > (last->ts_ns - v->start_ns) / 100)
            p->before = moment_of(x);
    }
}

static struct request request_about(const char *name, const struct process *p,
                                    const struct moment *at, enum hw_metric metric)
{
    struct request q = {.name = name};
    add_parameter(&q, "upid", p->upid);
    if (at) {
        add_parameter(&q, "at", at->at);
        add_parameter(&q, "max", at->max ? "1" : "");
        add_parameter(&q, "metric", hw_metric_name(metric));
    }
    q.n_key = q.n;
    return q;
}

static int save_tables(struct maker *m, const struct process *p)
{
    struct request leaks = request_about("leaks", p, NULL, 0), top;
    int rc = HW_OK;
    add_parameter(&leaks, "limit", "300");
    rc = save(m, &leaks);
    for (int k = 0; rc == HW_OK && k < p->n_metrics; k++) {
        top = request_about("table/functions", p, &p->shown, (enum hw_metric)k);
        add_parameter(&top, "sort", "self");
        add_parameter(&top, "callers", "1");
        add_parameter(&top, "limit", "200");
        rc = save(m, &top);
        struct request account = request_about("accounting", p, &p->shown, (enum hw_metric)k);
        struct request parts = request_about("parts", p, &p->shown, (enum hw_metric)k);
        if (rc == HW_OK && k == 0)
            rc = save(m, &account);
        if (rc == HW_OK && k == 0)
            rc = save(m, &parts);
    }
    return rc;
}

/* Self values, and values including callees; the page requests only bytes. */
static int save_over_time(struct maker *m, const struct process *p)
{
    static const enum hw_metric metrics[] = {HW_METRIC_SPACE, HW_METRIC_ALLOC_SPACE};
    int rc = HW_OK;
    for (size_t k = 0; rc == HW_OK && k < 2 * HW_ARRAY_LEN(metrics); k++) {
        struct request q = request_about("functions-over-time", p, NULL, HW_METRIC_SPACE);
        add_parameter(&q, "metric", hw_metric_name(metrics[k / 2]));
        add_parameter(&q, "total", k % 2 ? "1" : "");
        q.n_key = q.n;
        rc = save(m, &q);
    }
    return rc;
}

static int save_graph(struct maker *m, const struct process *p, const struct moment *at,
                      enum hw_metric metric, const char *from, size_t most)
{
    struct request q = request_about("flame", p, at, metric);
    q.graph = true;
    add_parameter(&q, "from", from);
    q.n_key = q.n;
    return save_within(m, &q, most);
}

/* All metrics of the initial moment: at most half of the remaining space. */
static int save_shown(struct maker *m, const struct process *p)
{
    size_t most = m->space_left / 2 / (size_t)p->n_metrics;
    int rc = HW_OK;
    for (int k = 0; rc == HW_OK && k < p->n_metrics; k++)
        rc = save_graph(m, p, &p->shown, (enum hw_metric)k, "", most);
    return rc;
}

static bool is_moment(const struct moment *a, const struct moment *b)
{
    return a->max == b->max && strcmp(a->at, b->at) == 0;
}

/* Each dump's graphs, and the peak's, which may be a recorded maximum between two of them. */
static int save_moments(struct maker *m, const struct process *p, size_t n_after)
{
    size_t n = p->view->moments.n + 1, left = n * (size_t)p->n_metrics;
    int rc = HW_OK;
    for (size_t i = n; rc == HW_OK && i-- > 0;) {
        struct moment at = i == n - 1 ? p->peak : moment_of(&p->view->moments.v[i]);
        bool twice = is_moment(&at, &p->shown) || (i < n - 1 && is_moment(&at, &p->peak));
        for (int k = 0; rc == HW_OK && k < p->n_metrics; k++, left--)
            if (!twice)
                rc = save_graph(m, p, &at, (enum hw_metric)k, "", m->space_left / (left + n_after));
    }
    return rc;
}

/* The allocations between each dump and the previous one. */
static int save_intervals(struct maker *m, const struct process *p)
{
    static const enum hw_metric metrics[] = {HW_METRIC_ALLOC_SPACE, HW_METRIC_SPACE};
    int rc = HW_OK;
    for (size_t i = 1; rc == HW_OK && i < p->view->moments.n; i++) {
        struct moment from = moment_of(&p->view->moments.v[i - 1]);
        struct moment at = moment_of(&p->view->moments.v[i]);
        size_t left = 2 * (p->view->moments.n - i);
        for (size_t k = 0; rc == HW_OK && k < HW_ARRAY_LEN(metrics); k++)
            rc = save_graph(m, p, &at, metrics[k], from.at, m->space_left / (left + 1));
    }
    return rc;
}

/* Each heap by itself, if there are several. */
static int save_heaps(struct maker *m, const struct process *p)
{
    const struct hw_series_list *list = &m->t->list;
    const struct hw_process_rows heaps = hw_series_of(list, p->view->upid);
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && heaps.n > 1 && i < heaps.n; i++)
        for (int k = 0; rc == HW_OK && k < p->n_metrics; k++) {
            struct request q = request_about("flame", p, &p->shown, (enum hw_metric)k);
            q.graph = true;
            add_parameter(&q, "heap", hw_page_string(m->t, list->v.v[heaps.v[i]].heap_name));
            q.n_key = q.n;
            rc = save_within(m, &q, m->space_left / 8);
        }
    return rc;
}

static int save_bottom_up(struct maker *m, const struct process *p)
{
    int rc = HW_OK;
    for (int k = 0; rc == HW_OK && k < p->n_metrics; k++) {
        struct request q = request_about("flame", p, &p->shown, (enum hw_metric)k);
        q.graph = true;
        add_parameter(&q, "invert", "1");
        q.n_key = q.n;
        add_parameter(&q, "min_share", "0.0001");
        rc = save_within(m, &q, m->space_left / 4);
    }
    return rc;
}

/* ---- comparisons ---- */

static struct request comparison(const char *name, const struct process *p, const struct moment *a,
                                 const struct moment *b, enum hw_metric metric)
{
    struct request q = request_about(name, p, b, metric);
    add_parameter(&q, "a_upid", p->upid);
    add_parameter(&q, "a_at", a->at);
    add_parameter(&q, "a_max", a->max ? "1" : "");
    q.n_key = q.n;
    return q;
}

static int save_comparison(struct maker *m, const struct process *p, const struct moment *a,
                           const struct moment *b, size_t most)
{
    int rc = HW_OK;
    for (int k = 0; rc == HW_OK && k < p->n_metrics; k++) {
        struct request graph = comparison("diff", p, a, b, (enum hw_metric)k);
        graph.graph = true;
        rc = save_within(m, &graph, most / (size_t)p->n_metrics);
        for (int form = 0; rc == HW_OK && form < 4; form++) {
            struct request table = comparison("table/diff", p, a, b, (enum hw_metric)k);
            add_parameter(&table, "by", form & 1 ? "total" : "");
            add_parameter(&table, "all", form & 2 ? "1" : "");
            table.n_key = table.n;
            add_parameter(&table, "limit", "200");
            rc = save(m, &table);
        }
    }
    return rc;
}

/* From the first dump and from the previous one, to the end or to the initial moment. */
static int save_comparisons(struct maker *m, const struct process *p)
{
    const struct moment *pairs[][2] = {
        {&p->first, &p->shown}, {&p->before, &p->end}, {&p->first, &p->end}, {&p->peak, &p->end}};
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < HW_ARRAY_LEN(pairs); i++) {
        bool seen = is_moment(pairs[i][0], pairs[i][1]);
        for (size_t k = 0; k < i; k++)
            seen = seen ||
                   (is_moment(pairs[k][0], pairs[i][0]) && is_moment(pairs[k][1], pairs[i][1]));
        if (!seen)
            rc = save_comparison(m, p, pairs[i][0], pairs[i][1], m->space_left / 4);
    }
    return rc;
}

/* ---- managed heaps ---- */

static int save_heap(struct maker *m, const struct hw_heap_graph *g)
{
    static const char *const tables[] = {"overview", "classes", "strings", "arrays"};
    static const char *const metrics[] = {"object_size", "object_count", "dominated_size",
                                          "dominated_count"};
    char name[32], upid[TEXT_BYTES], at[TEXT_BYTES];
    int rc = HW_OK;
    (void)snprintf(upid, sizeof upid, "%" PRIu32, g->upid.v);
    (void)snprintf(at, sizeof at, "%" PRId64, g->ts_ns);
    for (size_t i = 0; rc == HW_OK && i < HW_ARRAY_LEN(tables) + HW_ARRAY_LEN(metrics); i++) {
        const char *table = i < HW_ARRAY_LEN(tables) ? tables[i] : NULL;
        struct request q = {.name = name, .graph = !table};
        (void)snprintf(name, sizeof name, "heap/%s", table ? table : "flame");
        add_parameter(&q, "upid", upid);
        add_parameter(&q, "at", at);
        add_parameter(&q, "metric", table ? NULL : metrics[i - HW_ARRAY_LEN(tables)]);
        q.n_key = q.n;
        add_parameter(&q, "limit", table ? "100000" : NULL); /* the page sorts them itself */
        rc = save_within(m, &q, m->space_left / 8);
    }
    return rc;
}

/* The last dumps, which pages show initially. */
static int save_heap_graphs(struct maker *m)
{
    const struct hw_profile *p = m->t->profile;
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < p->graphs.n && i < MAX_HEAPS; i++)
        rc = save_heap(m, p->graphs.v[p->graphs.n - 1 - i]);
    return rc;
}

/* ---- the whole page ---- */

static int save_all(struct maker *m, const struct process *v, size_t n)
{
    static const char *const whole[] = {"status", "timeline", "retained", "threads", "heap/dumps"};
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < HW_ARRAY_LEN(whole); i++)
        rc = save(m, &(struct request){.name = whole[i]});
    for (size_t i = 0; rc == HW_OK && i < n; i++) {
        rc = save_tables(m, &v[i]);
        if (rc == HW_OK)
            rc = save_shown(m, &v[i]);
        if (rc == HW_OK)
            rc = save_over_time(m, &v[i]);
    }
    if (rc == HW_OK)
        rc = save_heap_graphs(m);
    for (size_t i = 0; rc == HW_OK && i < n; i++)
        rc = save_comparisons(m, &v[i]);
    for (size_t i = 0; rc == HW_OK && i < n; i++)
        rc = save_moments(m, &v[i], 8);
    for (size_t i = 0; rc == HW_OK && i < n; i++) {
        rc = save_heaps(m, &v[i]);
        if (rc == HW_OK)
            rc = save_bottom_up(m, &v[i]);
    }
    for (size_t i = 0; rc == HW_OK && i < n; i++)
        rc = save_intervals(m, &v[i]);
    return rc;
}

static void put_processes(struct maker *m, const struct process *v, size_t n)
{
    hw_json_key(&m->index, "processes");
    hw_json_begin_array(&m->index);
    for (size_t i = 0; i < n; i++) {
        hw_json_begin_object(&m->index);
        hw_json_kv_str(&m->index, "upid", v[i].upid);
        hw_json_kv_str(&m->index, "end", v[i].end.at);
        hw_json_kv_bool(&m->index, "end_max", v[i].end.max);
        hw_json_kv_str(&m->index, "peak", v[i].peak.at);
        hw_json_kv_bool(&m->index, "peak_max", v[i].peak.max);
        hw_json_end_object(&m->index);
    }
    hw_json_end_array(&m->index);
}

static void put_texts(struct maker *m)
{
    hw_json_key(&m->index, "texts");
    hw_json_begin_array(&m->index);
    for (size_t i = 0; i < hw_strings_count(m->texts); i++) {
        struct hw_bytes text = hw_strings_get(m->texts, (hw_str_id){(uint32_t)i});
        hw_json_strn(&m->index, text.p, text.n);
    }
    hw_json_end_array(&m->index);
}

static int fill(struct maker *m)
{
    struct process v[MAX_PROCESSES];
    size_t n = m->t->processes.n < MAX_PROCESSES ? m->t->processes.n : MAX_PROCESSES;
    for (size_t i = 0; i < n; i++)
        find_moments(&m->t->processes.v[i], &v[i]);
    hw_json_begin_object(&m->index);
    hw_json_kv_str(&m->index, "version", HW_VERSION);
    put_processes(m, v, n);
    hw_json_key(&m->index, "answers");
    hw_json_begin_array(&m->index);
    int rc = save_all(m, v, n);
    hw_json_end_array(&m->index);
    put_texts(m);
    hw_json_kv_uint(&m->index, "n_left_out", m->n_left_out);
    hw_json_end_object(&m->index);
    return rc;
}

/* The index, followed by the responses. */
static int write_answers(struct maker *m, struct hw_strbuf *out)
{
    struct hw_strbuf bytes = {0}, packed = {0};
    int rc = hw_json_finish(&m->index);
    if (rc == HW_OK)
        rc = hw_deflate(hw_bytes_of(m->index.buf.p, m->index.buf.n), HW_GZIP_GZIP, &packed, NULL);
    uint32_t n = (uint32_t)packed.n;
    hw_strbuf_add(&bytes, "HWS1", 4);
    hw_strbuf_add(&bytes, &n, sizeof n);
    hw_strbuf_add(&bytes, packed.p, packed.n);
    hw_strbuf_add(&bytes, m->blob.p, m->blob.n);
    if (rc == HW_OK && (bytes.failed || m->blob.failed))
        rc = HW_ENOMEM;
    if (rc == HW_OK)
        hw_base64_add(out, hw_bytes_of(bytes.p, bytes.n));
    hw_strbuf_done(&bytes);
    hw_strbuf_done(&packed);
    return rc < 0 ? rc : out->failed ? HW_ENOMEM : HW_OK;
}

/* The page without the responses. */
static int read_frame(struct hw_strbuf *out, struct hw_error *err)
{
    for (size_t i = 0; i < hw_n_assets; i++)
        if (strcmp(hw_assets[i].path, "/saved.html") == 0)
            return hw_inflate((struct hw_bytes){hw_assets[i].p, hw_assets[i].n}, MAX_PAGE, out,
                              err);
    return hw_fail(err, HW_EUNSUPPORTED, 0, "this heapwise was built without its page");
}

static struct hw_page_trace *wait_for(struct hw_pages *p, unsigned id)
{
    struct hw_page_trace *traces[HW_PAGES_MAX_TRACES], *found = NULL;
    const struct timespec pause = {.tv_nsec = WAIT_MS * 1000000L};
    unsigned n = hw_page_traces(p, traces);
    for (unsigned i = 0; i < n; i++)
        if (traces[i]->id == id)
            found = traces[i];
        else
            hw_page_trace_unref(traces[i]);
    while (found && atomic_load_explicit(&found->state, memory_order_acquire) == HW_PAGE_LOADING)
        (void)nanosleep(&pause, NULL);
    return found;
}

static int make(struct maker *m, size_t max_bytes, struct hw_strbuf *out, struct hw_error *err)
{
    struct hw_strbuf frame = {0};
    int rc = read_frame(&frame, err);
    const char *at = rc == HW_OK ? memmem(frame.p, frame.n, mark, sizeof mark - 1) : NULL;
    if (rc == HW_OK && !at)
        rc = hw_fail(err, HW_EFORMAT, 0, "the page of this heapwise has no place for answers");
    if (rc == HW_OK && (rc = hw_strings_new(&m->texts)) == HW_OK) {
        size_t space_left = max_bytes > frame.n ? (max_bytes - frame.n) / 4 * 3 : 0;
        m->space_left = space_left - space_left / INDEX_SHARE;
        rc = fill(m);
    }
    if (rc == HW_OK) {
        hw_strbuf_add(out, frame.p, (size_t)(at - frame.p));
        rc = write_answers(m, out);
        at += sizeof mark - 1;
        hw_strbuf_add(out, at, frame.n - (size_t)(at - frame.p));
    }
    hw_strbuf_done(&frame);
    return rc < 0 && !err->code ? hw_fail(err, rc, 0, "the page of '%s'", m->t->name) : rc;
}

int hw_saved_page_make(struct hw_pages *p, unsigned id, size_t max_bytes, struct hw_strbuf *out,
                       size_t *n_left_out, struct hw_error *err)
{
    struct maker m = {.t = wait_for(p, id),
                      .id = id,
                      .http = {.routes = hw_pages_routes, .n_routes = hw_n_pages_routes, .ctx = p}};
    if (!m.t)
        return hw_fail(err, HW_ENOTFOUND, 0, "no trace with that number is open");
    hw_json_init(&m.index, NULL, NULL, /* pretty = */ false);
    int rc = HW_OK;
    if (atomic_load(&m.t->state) == HW_PAGE_FAILED)
        rc = hw_fail(err, HW_EFORMAT, 0, "%s",
                     m.t->failure ? m.t->failure : "the trace cannot be read");
    else if (m.t->processes.n == 0 && m.t->profile->graphs.n == 0)
        rc = hw_fail(err, HW_ENOTFOUND, 0,
                     "'%s' has neither a native heap profile nor a managed heap", m.t->name);
    if (rc == HW_OK)
        rc = make(&m, max_bytes, out, err);
    *n_left_out = m.n_left_out;
    hw_json_done(&m.index);
    hw_strings_free(m.texts);
    hw_strbuf_done(&m.blob);
    hw_page_trace_unref(m.t);
    return rc;
}

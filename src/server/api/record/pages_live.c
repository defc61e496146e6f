/*
 * Watching a recorded process: its current heaps, refreshed continuously.
 *
 * A snapshot is a trace with one dump, loaded like any other, so graphs and tables work as on every
 * page. Pages that watch the same process share the latest snapshot by reference counting.
 * Snapshots are kept only while somebody listens to the events.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "server/api/pages_internal.h"

#include "base/banned.h"

enum { MIN_MS = 250, MAX_MS = 10000, USUAL_MS = 1000, MAX_ROWS = 200 };

struct snapshot {
    struct hw_page_trace *trace;
    unsigned refs; /* live_lock */
    uint64_t seq, at_ns;
    struct hw_page_live_view facts; /* fd closed */
};

struct hw_page_live {
    struct hw_page_live *next;
    int32_t pid;
    unsigned n_listeners;
    uint64_t seq;
    struct snapshot *newest; /* NULL = none yet */
    bool fetching;           /* one of the listeners fetches the next */
};

/* ---- looks, under live_lock ---- */

static void drop(struct snapshot *l)
{
    if (!l || --l->refs)
        return;
    hw_page_trace_free(l->trace);
    free(l);
}

static struct hw_page_live *find(struct hw_pages *p, int32_t pid)
{
    for (struct hw_page_live *v = p->live; v; v = v->next)
        if (v->pid == pid)
            return v;
    return NULL;
}

static struct hw_page_live *listen_to(struct hw_pages *p, int32_t pid)
{
    pthread_mutex_lock(&p->live_lock);
    struct hw_page_live *v = find(p, pid);
    if (!v && (v = calloc(1, sizeof *v))) {
        v->pid = pid;
        v->next = p->live;
        p->live = v;
    }
    if (v)
        v->n_listeners++;
    pthread_mutex_unlock(&p->live_lock);
    return v;
}

static void unlisten(struct hw_pages *p, struct hw_page_live *v)
{
    pthread_mutex_lock(&p->live_lock);
    if (--v->n_listeners == 0) {
        struct hw_page_live **at = &p->live;
        while (*at != v)
            at = &(*at)->next;
        *at = v->next;
        drop(v->newest);
        free(v);
    }
    pthread_mutex_unlock(&p->live_lock);
}

static struct snapshot *newest(struct hw_pages *p, int32_t pid)
{
    pthread_mutex_lock(&p->live_lock);
    struct hw_page_live *v = find(p, pid);
    struct snapshot *l = v ? v->newest : NULL;
    if (l)
        l->refs++;
    pthread_mutex_unlock(&p->live_lock);
    return l;
}

static void release(struct hw_pages *p, struct snapshot *l)
{
    pthread_mutex_lock(&p->live_lock);
    drop(l);
    pthread_mutex_unlock(&p->live_lock);
}

/* ---- the next snapshot ---- */

static int fetch(struct hw_pages *p, int32_t pid, struct snapshot **out, struct hw_error *err)
{
    struct snapshot *l = calloc(1, sizeof *l);
    if (!l)
        return hw_fail(err, HW_ENOMEM, 0, "look");
    l->refs = 1;
    int rc = p->o.recorder->look(p->o.recorder->ctx, pid, &l->facts, err);
    if (rc == HW_OK) {
        l->at_ns = hw_now_monotonic_ns();
        rc = hw_page_trace_read(p, l->facts.fd, l->facts.name, &l->trace, err);
        (void)close(l->facts.fd);
    }
    if (rc < 0)
        free(l);
    else
        *out = l;
    return rc;
}

/* A reference to a snapshot not much older than every_ms. */
static int next_snapshot(struct hw_pages *p, struct hw_page_live *v, unsigned every_ms,
                         struct snapshot **out, struct hw_error *err)
{
    /* 0.7 of the interval: another page's timer may be out of phase. */
    uint64_t old = (uint64_t)every_ms * 700000;
    struct snapshot *l = NULL;
    pthread_mutex_lock(&p->live_lock);
    bool fresh = v->newest && hw_now_monotonic_ns() - v->newest->at_ns < old;
    bool ours = !fresh && !v->fetching;
    if (ours)
        v->fetching = true;
    if (!ours && v->newest) {
        v->newest->refs++;
        *out = v->newest;
    }
    pthread_mutex_unlock(&p->live_lock);
    if (!ours)
        return *out ? HW_OK : HW_EBUSY;
    int rc = fetch(p, v->pid, &l, err);
    pthread_mutex_lock(&p->live_lock);
    v->fetching = false;
    if (rc == HW_OK) {
        drop(v->newest);
        l->seq = ++v->seq;
        l->refs = 2; /* the slot's and the caller's */
        v->newest = l;
        *out = l;
    }
    pthread_mutex_unlock(&p->live_lock);
    return rc;
}

/* ---- events ---- */

struct listener {
    struct hw_pages *pages;
    struct hw_page_live *live;
    unsigned every_ms;
    uint64_t begin_ns;
};

static int by_space(const void *a, const void *b)
{
    int64_t x = ((const struct hw_function_value *)a)->self.space;
    int64_t y = ((const struct hw_function_value *)b)->self.space;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* The largest sites: [name, module, space, objects, alloc_space, alloc_objects, error, samples] */
static int put_rows(struct hw_json *j, const struct hw_page_trace *t,
                    const struct hw_page_program *program, const hw_values *at, uint64_t interval)
{
    struct hw_flame flame = {0};
    hw_function_values values = {0};
    int rc = hw_flame_build(t->profile->callsites, t->functions, at, HW_FLAME_SITES, &flame);
    if (rc == HW_OK)
        rc = hw_flame_by_function(&flame, t->n_labels, &values);
    if (rc == HW_OK && values.n)
        qsort(values.v, values.n, sizeof *values.v, by_space);
    hw_json_key(j, "rows");
    hw_json_begin_array(j);
    for (size_t i = 0; rc == HW_OK && i < values.n && i < MAX_ROWS; i++) {
        const struct hw_function_value *v = &values.v[i];
        if (v->self.alloc_space == 0)
            continue;
        hw_json_begin_array(j);
        hw_json_str(j, hw_page_label(t, program, v->function));
        hw_json_str(j, hw_page_where(t, program, v->function));
        hw_json_int(j, v->self.space);
        hw_json_int(j, v->self.objects);
        hw_json_int(j, v->self.alloc_space);
        hw_json_int(j, v->self.alloc_objects);
        hw_json_double(j, hw_value_error(&v->self, HW_METRIC_SPACE, interval));
        hw_json_int(j, hw_value_samples(&v->self, HW_METRIC_SPACE));
        hw_json_end_array(j);
    }
    hw_json_end_array(j);
    hw_vec_done(&values);
    hw_flame_done(&flame);
    return rc;
}

static int put_snapshot(struct hw_json *j, const struct snapshot *l, const struct listener *who)
{
    const struct hw_page_trace *t = l->trace;
    const struct hw_process_view *v = t->processes.n ? &t->processes.v[0] : NULL;
    const struct hw_page_program *program = v ? hw_page_program_of(t, v->upid) : NULL;
    uint64_t interval_bytes = v ? v->interval_bytes : 0;
    hw_values at = {0};
    struct hw_value total = {0};
    int rc = HW_OK;
    if (v && v->moments.n) {
        const struct hw_process_moment *last = &v->moments.v[v->moments.n - 1];
        total = last->total;
        rc = hw_process_values(t->profile, &t->list, v->upid, last->ts_ns, false, &at);
    }
    hw_json_begin_object(j);
    hw_json_kv_uint(j, "seq", l->seq);
    hw_json_kv_double(j, "seconds", (double)(l->at_ns - who->begin_ns) / 1e9);
    hw_json_kv_str(j, "name", l->facts.name);
    if (program)
        hw_json_kv_str(j, "program", hw_page_program_module(program));
    hw_json_kv_uint(j, "rss", l->facts.rss_bytes);
    hw_json_kv_uint(j, "samples", l->facts.n_samples);
    hw_json_kv_uint(j, "lost", l->facts.n_lost);
    hw_json_kv_uint(j, "interval", interval_bytes);
    hw_json_kv_bool(j, "temporary", hw_value_metrics(&total) == HW_METRIC_COUNT);
    hw_json_kv_int(j, "space", total.space);
    hw_json_kv_int(j, "objects", total.objects);
    hw_json_kv_int(j, "alloc_space", total.alloc_space);
    hw_json_kv_int(j, "alloc_objects", total.alloc_objects);
    hw_json_kv_double(j, "error", hw_value_error(&total, HW_METRIC_SPACE, interval_bytes));
    if (rc == HW_OK)
        rc = put_rows(j, t, program, &at, interval_bytes);
    hw_json_end_object(j);
    hw_vec_done(&at);
    return rc;
}

static int send_snapshot(struct hw_http_stream *s, const struct snapshot *l,
                         const struct listener *who)
{
    struct hw_json j;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    int rc = put_snapshot(&j, l, who);
    if (rc == HW_OK)
        rc = hw_json_finish(&j);
    if (rc == HW_OK)
        rc = hw_http_event_send(s, "look", j.buf.p);
    hw_json_done(&j);
    return rc;
}

static void send_end(struct hw_http_stream *s, const struct hw_error *err)
{
    struct hw_json j;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    hw_json_begin_object(&j);
    hw_json_kv_str(&j, "text", err->code ? err->text : "the recorder gave no data");
    hw_json_end_object(&j);
    if (hw_json_finish(&j) == HW_OK)
        (void)hw_http_event_send(s, "over", j.buf.p); /* fails only if the client has left */
    hw_json_done(&j);
}

static void produce(struct hw_http_stream *s, void *ctx)
{
    struct listener *who = ctx;
    uint64_t sent = 0;
    unsigned failures = 0;
    do {
        struct hw_error err = {0};
        struct snapshot *l = NULL;
        int rc = next_snapshot(who->pages, who->live, who->every_ms, &l, &err);
        if (rc == HW_OK) {
            failures = 0;
            rc = l->seq != sent ? send_snapshot(s, l, who) : HW_OK;
            sent = l->seq;
            release(who->pages, l);
            if (rc < 0)
                return;
        } else if (rc == HW_ENOTFOUND || rc == HW_EINVAL || ++failures > 5) {
            send_end(s, &err);
            return;
        }
    } while (hw_http_event_wait(s, who->every_ms));
}

static void listener_free(void *ctx)
{
    struct listener *who = ctx;
    unlisten(who->pages, who->live);
    free(who);
}

static void events(struct hw_http_request *req, struct hw_pages *p, int32_t pid)
{
    const char *text = hw_http_query(req, "every");
    unsigned long every = text ? strtoul(text, NULL, 10) : USUAL_MS;
    struct listener *who = calloc(1, sizeof *who);
    struct hw_page_live *live = who ? listen_to(p, pid) : NULL;
    if (!live) {
        free(who);
        hw_http_reply_text(req, HTTP_ERROR, hw_errc_text(HW_ENOMEM));
        return;
    }
    every = every < MIN_MS ? MIN_MS : every > MAX_MS ? MAX_MS : every;
    *who = (struct listener){p, live, (unsigned)every, hw_now_monotonic_ns()};
    struct hw_http_producer producer = {.produce = produce, .done = listener_free, .ctx = who};
    hw_http_events(req, &producer);
}

/* ---- routes ---- */

/* GET /api/v1/live/PID/events?every=MS, …/flame, …/table/functions: of the latest snapshot. */
void hw_page_live(struct hw_http_request *req, void *ctx)
{
    static const struct {
        const char *name;
        void (*answer)(struct hw_http_request *req, struct hw_page_trace *t);
    } questions[] = {{"flame", hw_page_flame}, {"table/functions", hw_page_functions}};
    struct hw_pages *p = ctx;
    char *end;
    const char *rest = hw_http_rest(req);
    long pid = strtol(rest, &end, 10);
    if (!p->o.recorder || pid <= 0 || pid > INT32_MAX || *end != '/') {
        hw_http_reply_text(req, HTTP_NOT_FOUND, "no process with that number is being watched\n");
        return;
    }
    if (strcmp(end + 1, "events") == 0) {
        events(req, p, (int32_t)pid);
        return;
    }
    struct snapshot *l = newest(p, (int32_t)pid);
    bool answered = false;
    for (size_t i = 0; l && i < HW_ARRAY_LEN(questions); i++)
        if (strcmp(end + 1, questions[i].name) == 0) {
            questions[i].answer(req, l->trace);
            answered = true;
        }
    if (l)
        release(p, l);
    if (!answered)
        hw_http_reply_text(req, HTTP_NOT_FOUND, "that process is not being watched now\n");
}

void hw_page_live_list(struct hw_http_request *req, void *ctx)
{
    struct hw_pages *p = ctx;
    struct hw_error err = {0};
    struct hw_json j;
    hw_page_recorded_list all = {0};
    if (!p->o.recorder) {
        hw_http_reply_text(req, HTTP_NOT_FOUND, "this server does not record\n");
        return;
    }
    int rc = p->o.recorder->recorded(p->o.recorder->ctx, &all, &err);
    if (rc < 0) {
        hw_page_reply_error(req, &err, rc);
    } else {
        hw_json_init(&j, NULL, NULL, /* pretty = */ false);
        hw_json_begin_array(&j);
        for (size_t i = 0; i < all.n; i++) {
            hw_json_begin_object(&j);
            hw_json_kv_int(&j, "pid", all.v[i].pid);
            hw_json_kv_str(&j, "name", all.v[i].name);
            hw_json_kv_str(&j, "recording", all.v[i].recording);
            hw_json_kv_uint(&j, "samples", all.v[i].samples);
            hw_json_kv_uint(&j, "seconds", all.v[i].seconds);
            hw_json_end_object(&j);
        }
        hw_json_end_array(&j);
        hw_page_reply_json(req, &j);
    }
    hw_vec_done(&all);
}

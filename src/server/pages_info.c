/* The open traces, their contents, and the events that report changes. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "fleet/store/store.h"
#include "server/api/pages_internal.h"
#include "server/api/samples.h"
#include "views/findings/losses.h"
#include "views/findings/retained.h"
#include "views/flame/program.h"

#include "base/banned.h"

enum { POLL_MS = 100, HEARTBEAT_MS = 15000, RECORDINGS_MS = 250, MAX_POINTS = 2000 };

static const char *const stages[] = {
    [HW_PAGE_READING] = "reading", [HW_PAGE_NAMING] = "naming", [HW_PAGE_SUMMING] = "summing"};
static const char *const states[] = {"loading", "ready", "failed"};

/* ---- status ---- */

static void put_process(struct hw_json *j, const struct hw_page_trace *t,
                        const struct hw_process_view *r)
{
    const struct hw_process *proc = &t->profile->processes.v[r->upid.v];
    hw_json_begin_object(j);
    hw_json_kv_uint(j, "upid", r->upid.v);
    hw_json_kv_int(j, "pid", proc->pid);
    hw_json_kv_str(j, "name", hw_page_string(t, proc->name));
    hw_json_kv_str(j, "cmdline", hw_page_string(t, proc->cmdline));
    hw_json_end_object(j);
}

/* Counted as in the report: dumps of several heaps at one moment are one. */
static size_t count_dumps(const struct hw_page_trace *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->processes.n; i++)
        n += t->processes.v[i].n_dumps;
    return n;
}

static void put_losses(struct hw_json *j, const struct hw_page_trace *t)
{
    static const char *const kinds[HW_LOSS_KIND_COUNT] = {
        "samples", "overran", "corrupted", "rejected", "guardrail",
        "timeout", "stack",   "unwinding", "interval", "stat"};
    hw_losses losses = {0};
    hw_json_key(j, "losses");
    hw_json_begin_array(j);
    if (hw_losses_find(t->profile, &losses) == HW_OK)
        for (size_t i = 0; i < losses.n; i++) {
            const struct hw_loss *l = &losses.v[i];
            hw_json_begin_object(j);
            hw_json_kv_str(j, "kind", kinds[l->kind]);
            hw_json_kv_int(j, "upid", l->upid.v == HW_ID_NONE ? -1 : (int64_t)l->upid.v);
            hw_json_kv_uint(j, "count", l->count);
            hw_json_kv_str(j, "detail", hw_page_string(t, l->detail));
            hw_json_kv_bool(j, "incomplete", hw_loss_is_incomplete(l));
            hw_json_end_object(j);
        }
    else
        j->error = HW_ENOMEM;
    hw_json_end_array(j);
    hw_vec_done(&losses);
}

/* The processes with a native heap profile, a managed heap graph or a memory dump. */
static void put_n_processes(struct hw_json *j, const struct hw_page_trace *t)
{
    size_t n = 0, n_upids = t->profile->processes.n;
    bool *is_seen = calloc(n_upids + 1, sizeof *is_seen);
    if (!is_seen) {
        j->error = HW_ENOMEM;
        return;
    }
    for (size_t i = 0; i < t->processes.n; i++)
        is_seen[t->processes.v[i].upid.v] = true;
    for (size_t i = 0; i < t->profile->graphs.n; i++)
        if (t->profile->graphs.v[i]->upid.v < n_upids)
            is_seen[t->profile->graphs.v[i]->upid.v] = true;
    for (size_t i = 0; i < t->profile->memory.processes.n; i++)
        if (t->profile->memory.processes.v[i].upid.v < n_upids)
            is_seen[t->profile->memory.processes.v[i].upid.v] = true;
    for (size_t i = 0; i < n_upids; i++)
        n += is_seen[i];
    free(is_seen);
    hw_json_kv_uint(j, "n_processes", n);
}

static void put_progress(struct hw_json *j, const struct hw_page_trace *t)
{
    hw_json_kv_uint(j, "read", hw_progress_done(&t->progress));
    hw_json_kv_str(j, "stage", stages[atomic_load(&t->stage)]);
}

/* Where it can be reopened; null: it was uploaded, or is not a file. */
static void put_path(struct hw_json *j, const struct hw_page_trace *t)
{
    hw_autofree char *path = t->sent ? NULL : realpath(t->path, NULL);
    hw_json_kv_str(j, "path", path);
}

static void put_trace(struct hw_json *j, const struct hw_page_trace *t)
{
    int state = atomic_load_explicit(&t->state, memory_order_acquire);
    hw_json_begin_object(j);
    hw_json_kv_uint(j, "id", t->id);
    hw_json_kv_str(j, "name", t->name);
    put_path(j, t);
    hw_json_kv_uint(j, "bytes", t->n_bytes);
    if (state == HW_PAGE_READY)
        hw_json_kv_uint(j, "found", hw_pb_view(&t->names).n);
    hw_json_kv_str(j, "state", states[state]);
    hw_json_kv_double(
        j, "seconds",
        (double)(state == HW_PAGE_LOADING ? hw_now_monotonic_ns() - t->begin_ns : t->took_ns) /
            1e9);
    if (state == HW_PAGE_LOADING)
        put_progress(j, t);
    if (state == HW_PAGE_FAILED) {
        struct hw_strbuf hex = {0};
        for (size_t i = 0; i < t->n_head; i++)
            hw_strbuf_addf(&hex, i ? " %02x" : "%02x", t->head[i]);
        hw_json_kv_str(j, "error", t->failure ? t->failure : "cannot be read");
        hw_json_kv_str(j, "head", hex.p ? hex.p : "");
        hw_strbuf_done(&hex);
    }
    if (state == HW_PAGE_READY) {
        hw_json_kv_int(j, "first_ns", t->profile->first_ns);
        hw_json_kv_int(j, "last_ns", t->profile->last_ns);
        hw_json_kv_uint(j, "dumps", count_dumps(t));
        hw_json_kv_uint(j, "heap_graphs", t->profile->graphs.n);
        hw_json_kv_uint(j, "memory_dumps", t->profile->memory.snapshots.n);
        hw_json_kv_uint(j, "slices", t->profile->slices.rows.n);
        put_n_processes(j, t);
        hw_json_key(j, "processes");
        hw_json_begin_array(j);
        for (size_t i = 0; i < t->processes.n; i++)
            put_process(j, t, &t->processes.v[i]);
        hw_json_end_array(j);
        put_losses(j, t);
    }
    hw_json_end_object(j);
}

static void put_samples(struct hw_json *j)
{
    hw_json_key(j, "samples");
    hw_json_begin_array(j);
    for (size_t i = 0; i < hw_n_samples; i++) {
        hw_json_begin_object(j);
        hw_json_kv_str(j, "name", hw_samples[i].name);
        hw_json_kv_str(j, "about", hw_samples[i].about);
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
}

static void put_status(struct hw_json *j, struct hw_pages *p)
{
    struct hw_page_trace *traces[HW_PAGES_MAX_TRACES];
    unsigned changes = atomic_load(&p->changes); /* first: never newer than the data */
    unsigned n = hw_page_traces(p, traces);
    hw_json_begin_object(j);
    hw_json_kv_str(j, "version", HW_VERSION);
    hw_json_kv_uint(j, "changes", changes);
    hw_json_key(j, "traces");
    hw_json_begin_array(j);
    for (unsigned i = 0; i < n; i++) {
        put_trace(j, traces[i]);
        hw_page_trace_unref(traces[i]);
    }
    hw_json_end_array(j);
    put_samples(j);
    hw_json_kv_bool(j, "records", p->o.recorder != NULL);
    hw_json_kv_str(j, "fleet", p->o.store ? p->o.store->shown : "");
    hw_json_end_object(j);
}

void hw_page_status(struct hw_http_request *req, void *ctx)
{
    struct hw_json j;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    put_status(&j, ctx);
    hw_page_reply_json(req, &j);
}

static int send_json(struct hw_http_stream *s, const char *event, struct hw_pages *p,
                     void (*put)(struct hw_json *j, struct hw_pages *p))
{
    struct hw_json j;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    put(&j, p);
    int rc = hw_json_finish(&j);
    if (rc == HW_OK)
        rc = hw_http_event_send(s, event, j.buf.p);
    hw_json_done(&j);
    return rc;
}

static bool is_loading(const struct hw_page_trace *t)
{
    return atomic_load_explicit(&t->state, memory_order_acquire) == HW_PAGE_LOADING;
}

/* The traces being loaded: an array. */
static void put_loading(struct hw_json *j, struct hw_pages *p)
{
    struct hw_page_trace *traces[HW_PAGES_MAX_TRACES];
    unsigned n = hw_page_traces(p, traces);
    hw_json_begin_array(j);
    for (unsigned i = 0; i < n; i++) {
        if (is_loading(traces[i])) {
            hw_json_begin_object(j);
            hw_json_kv_uint(j, "id", traces[i]->id);
            hw_json_kv_uint(j, "bytes", traces[i]->n_bytes);
            put_progress(j, traces[i]);
            hw_json_kv_double(j, "seconds",
                              (double)(hw_now_monotonic_ns() - traces[i]->begin_ns) / 1e9);
            hw_json_end_object(j);
        }
        hw_page_trace_unref(traces[i]);
    }
    hw_json_end_array(j);
}

/* A number that changes whenever put_loading's output does; 0: nothing is being loaded. */
static uint64_t loading_state(struct hw_pages *p)
{
    struct hw_page_trace *traces[HW_PAGES_MAX_TRACES];
    unsigned n = hw_page_traces(p, traces);
    uint64_t sum = 0;
    for (unsigned i = 0; i < n; i++) {
        if (is_loading(traces[i]))
            sum += 1 + 3 * hw_progress_done(&traces[i]->progress) +
                   (uint64_t)atomic_load(&traces[i]->stage);
        hw_page_trace_unref(traces[i]);
    }
    return sum;
}

static unsigned recorder_changes(const struct hw_pages *p)
{
    return p->o.recorder ? p->o.recorder->changes(p->o.recorder->ctx) : 0;
}

/* Event "status" with the text of /status, "recordings" with the recordings: at once and at every
 * change, recordings at most four times a second; "loading" with the progress of loading traces,
 * ten times a second. */
static void produce_events(struct hw_http_stream *s, void *ctx)
{
    struct hw_pages *p = ctx;
    unsigned sent = atomic_load(&p->changes) - 1, sent_recordings = recorder_changes(p) - 1;
    unsigned since_ms = 0, recordings_ms = RECORDINGS_MS;
    uint64_t told_loading = 0;
    int rc = HW_OK;
    while (rc == HW_OK) {
        unsigned now = atomic_load(&p->changes), recordings = recorder_changes(p);
        uint64_t loading = loading_state(p);
        if (now != sent) {
            rc = send_json(s, "status", p, put_status);
            sent = now;
        } else if (recordings != sent_recordings && recordings_ms >= RECORDINGS_MS) {
            rc = send_json(s, "recordings", p, hw_page_put_recordings);
            sent_recordings = recordings;
            recordings_ms = 0;
        } else if (loading && loading != told_loading) {
            rc = send_json(s, "loading", p, put_loading);
            told_loading = loading;
        } else if (since_ms >= HEARTBEAT_MS) {
            rc = hw_http_event_send(s, "alive", "");
            since_ms = 0;
        }
        if (rc == HW_OK && !hw_http_event_wait(s, POLL_MS))
            return;
        hw_page_flame_windows_age(p->flame_windows);
        since_ms += POLL_MS;
        recordings_ms += POLL_MS;
    }
}

void hw_page_events(struct hw_http_request *req, void *ctx)
{
    struct hw_http_producer producer = {.produce = produce_events, .ctx = ctx};
    hw_http_events(req, &producer);
}

/* ---- timeline ---- */

static void put_value(struct hw_json *j, const struct hw_value *v, uint64_t interval_bytes)
{
    for (int m = 0; m < (int)hw_value_metrics(v); m++)
        hw_json_kv_int(j, hw_metric_name((enum hw_metric)m), hw_value_get(v, (enum hw_metric)m));
    hw_json_kv_double(j, "error", hw_value_error(v, HW_METRIC_SPACE, interval_bytes));
    hw_json_key(j, "errors"); /* in the order of metrics */
    hw_json_begin_array(j);
    for (int m = 0; m < (int)hw_value_metrics(v); m++)
        hw_json_double(j, hw_value_error(v, (enum hw_metric)m, interval_bytes));
    hw_json_end_array(j);
    hw_json_kv_int(j, "samples", v->samples);
    hw_json_kv_int(j, "alloc_samples", v->alloc_samples);
}

static void put_dump(struct hw_json *j, const struct hw_page_trace *t, uint32_t dump,
                     const struct hw_value *v)
{
    const struct hw_heap_dump *d = &t->profile->dumps.v[dump];
    hw_json_begin_object(j);
    hw_json_kv_int(j, "ts", d->ts_ns);
    hw_json_kv_int(j, "start", d->start_ts_ns);
    hw_json_kv_uint(j, "flags", d->flags);
    hw_json_kv_str(j, "trigger", hw_page_string(t, d->trigger));
    hw_json_kv_uint(j, "interval", d->interval_bytes);
    hw_json_kv_uint(j, "lost", d->lost_samples);
    put_value(j, v, d->interval_bytes);
    hw_json_end_object(j);
}

static void put_dumps(struct hw_json *j, const struct hw_page_trace *t,
                      const struct hw_process_view *v, const hw_dump_list *dumps)
{
    for (size_t i = 0; i < dumps->n; i++) {
        const struct hw_value *total = hw_process_view_dump(v, dumps->v[i]);
        if (total)
            put_dump(j, t, dumps->v[i], total);
    }
}

static void put_series(struct hw_json *j, const struct hw_page_trace *t,
                       const struct hw_process_view *v, const struct hw_series *s)
{
    hw_json_begin_object(j);
    hw_json_kv_str(j, "heap", hw_page_string(t, s->heap_name));
    hw_json_kv_bool(j, "summed", s->kind == v->kind); /* included in the process's figures */
    hw_json_kv_bool(j, "lives", s->kind != HW_HEAP_CHURN);
    hw_json_key(j, "dumps");
    hw_json_begin_array(j);
    put_dumps(j, t, v, &s->shown);
    put_dumps(j, t, v, &s->peaks);
    hw_json_end_array(j);
    hw_json_end_object(j);
}

static void put_moments(struct hw_json *j, const struct hw_process_view *v)
{
    const struct hw_process_moment *peak = hw_process_view_peak(v);
    hw_json_kv_int(j, "start", v->start_ns);
    hw_json_kv_bool(j, "ended", v->ended);
    hw_json_kv_bool(j, "cleaned_up", hw_process_view_cleaned_up(v));
    hw_json_kv_uint(j, "interval", v->interval_bytes);
    hw_json_key(j, "moments");
    hw_json_begin_array(j);
    for (size_t i = 0; i < v->moments.n + (v->moments.n == 0 && peak); i++) {
        const struct hw_process_moment *m = v->moments.n ? &v->moments.v[i] : peak;
        hw_json_begin_object(j);
        hw_json_kv_int(j, "ts", m->ts_ns);
        hw_json_kv_bool(j, "max", m->at_max);
        hw_json_kv_bool(j, "peak", peak && peak->ts_ns == m->ts_ns);
        hw_json_kv_bool(j, "for_peak", m->is_peak); /* dumped only because it was the maximum */
        put_value(j, &m->total, v->interval_bytes);
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
    if (peak) {
        hw_json_key(j, "peak");
        hw_json_begin_object(j);
        hw_json_kv_int(j, "ts", peak->ts_ns);
        hw_json_kv_bool(j, "max", peak->at_max);
        put_value(j, &peak->total, v->interval_bytes);
        hw_json_end_object(j);
    }
}

static bool is_memory(const char *name)
{
    return strncmp(name, "mem.", 4) == 0 || strncmp(name, "malloc_info.", 12) == 0;
}

/* One counter of a process, reduced to what a screen can show: the maximum of each stretch. */
static void put_counter(struct hw_json *j, const struct hw_page_trace *t, hw_upid upid,
                        hw_str_id name)
{
    const struct hw_profile *p = t->profile;
    const struct hw_process_rows rows = hw_by_process_of(&p->counters_of, upid);
    size_t n = 0, seen = 0;
    for (size_t i = 0; i < rows.n; i++)
        n += p->counters.v[rows.v[i]].name.v == name.v;
    size_t step = n / MAX_POINTS + 1;
    const struct hw_counter_row *best = NULL;
    hw_json_key(j, hw_page_string(t, name));
    hw_json_begin_array(j);
    for (size_t i = 0; i < rows.n; i++) {
        const struct hw_counter_row *c = &p->counters.v[rows.v[i]];
        if (c->name.v != name.v)
            continue;
        best = !best || c->value > best->value ? c : best;
        if (++seen % step != 0 && seen != n)
            continue;
        hw_json_begin_array(j);
        hw_json_int(j, best->ts_ns);
        hw_json_double(j, best->value);
        hw_json_end_array(j);
        best = NULL;
    }
    hw_json_end_array(j);
}

static int put_counters(struct hw_json *j, const struct hw_page_trace *t, hw_upid upid)
{
    const struct hw_profile *p = t->profile;
    const struct hw_process_rows rows = hw_by_process_of(&p->counters_of, upid);
    HW_VEC(uint32_t) names = {0};
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < rows.n; i++) {
        const struct hw_counter_row *c = &p->counters.v[rows.v[i]];
        bool known = !is_memory(hw_page_string(t, c->name));
        for (size_t k = 0; !known && k < names.n; k++)
            known = names.v[k] == c->name.v;
        if (!known)
            rc = hw_vec_push(&names, c->name.v);
    }
    hw_json_key(j, "counters");
    hw_json_begin_object(j);
    for (size_t i = 0; rc == HW_OK && i < names.n; i++)
        put_counter(j, t, upid, (hw_str_id){names.v[i]});
    hw_json_end_object(j);
    hw_vec_done(&names);
    return rc;
}

static int put_tracks(struct hw_json *j, const struct hw_page_trace *t,
                      const struct hw_process_view *v)
{
    hw_upid upid = v->upid;
    const struct hw_process *proc = &t->profile->processes.v[upid.v];
    hw_json_begin_object(j);
    hw_json_kv_uint(j, "upid", upid.v);
    hw_json_kv_int(j, "pid", proc->pid);
    hw_json_kv_str(j, "name", hw_page_string(t, proc->name));
    const struct hw_page_program *program = hw_page_program_of(t, upid);
    if (program) { /* its own module, as shown on pages */
        hw_json_kv_str(j, "program", hw_page_program_module(program));
        hw_json_kv_str(j, "program_file",
                       hw_page_string(t, hw_page_program_shown(program)->module));
    }
    hw_json_kv_int(j, "uid", proc->uid);
    hw_json_kv_int(j, "began", proc->start_ns); /* the process; "start" is the recording of it */
    hw_json_kv_uint(j, "n_dumps", v->n_dumps);  /* counted as in the report */
    put_moments(j, v);
    hw_json_key(j, "heaps");
    hw_json_begin_array(j);
    const struct hw_process_rows heaps = hw_series_of(&t->list, upid);
    for (size_t i = 0; i < heaps.n; i++)
        put_series(j, t, v, &t->list.v.v[heaps.v[i]]);
    hw_json_end_array(j);
    int rc = put_counters(j, t, upid);
    hw_json_end_object(j);
    return rc;
}

static void put_marks(struct hw_json *j, const struct hw_page_trace *t)
{
    hw_json_key(j, "marks");
    hw_json_begin_array(j);
    for (size_t i = 0; i < t->profile->marks.n; i++) {
        hw_json_begin_object(j);
        hw_json_kv_int(j, "ts", t->profile->marks.v[i].ts_ns);
        hw_json_kv_str(j, "name", hw_page_string(t, t->profile->marks.v[i].name));
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
}

static bool has_memory(const struct hw_page_trace *t, hw_upid upid)
{
    const struct hw_profile *p = t->profile;
    const struct hw_process_rows rows = hw_by_process_of(&p->counters_of, upid);
    for (size_t i = 0; i < rows.n; i++)
        if (is_memory(hw_page_string(t, p->counters.v[rows.v[i]].name)))
            return true;
    return false;
}

/* Processes without a heap profile that have memory counters. */
static int put_others(struct hw_json *j, const struct hw_page_trace *t)
{
    int rc = HW_OK;
    hw_json_key(j, "others");
    hw_json_begin_array(j);
    for (uint32_t u = 0; rc == HW_OK && u < t->profile->processes.n; u++) {
        bool profiled = hw_series_of(&t->list, (hw_upid){u}).n > 0;
        if (profiled || !has_memory(t, (hw_upid){u}))
            continue;
        hw_json_begin_object(j);
        hw_json_kv_uint(j, "upid", u);
        hw_json_kv_int(j, "pid", t->profile->processes.v[u].pid);
        hw_json_kv_str(j, "name", hw_page_string(t, t->profile->processes.v[u].name));
        rc = put_counters(j, t, (hw_upid){u});
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
    return rc;
}

/* Marks, and per process: moments (all heaps together), dumps heap by heap, memory counters. */
void hw_page_timeline(struct hw_http_request *req, struct hw_page_trace *t)
{
    struct hw_json j;
    int rc = HW_OK;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    hw_json_begin_object(&j);
    hw_json_kv_int(&j, "first_ns", t->profile->first_ns);
    hw_json_kv_int(&j, "last_ns", t->profile->last_ns);
    put_marks(&j, t);
    hw_json_key(&j, "processes");
    hw_json_begin_array(&j);
    for (size_t i = 0; rc == HW_OK && i < t->processes.n; i++)
        rc = put_tracks(&j, t, &t->processes.v[i]);
    hw_json_end_array(&j);
    if (rc == HW_OK)
        rc = put_others(&j, t);
    hw_json_end_object(&j);
    if (rc < 0 && j.error == 0)
        j.error = rc;
    hw_page_reply_json(req, &j);
}

/* ---- retained memory of intervals ---- */

static int put_retained(struct hw_json *j, const struct hw_page_trace *t, const struct hw_series *s)
{
    hw_retained kept = {0};
    int rc = hw_retained_of(t->profile, s, &kept);
    hw_json_begin_object(j);
    hw_json_kv_uint(j, "upid", s->upid.v);
    hw_json_kv_str(j, "heap", hw_page_string(t, s->heap_name));
    hw_json_key(j, "dumps"); /* [ts, bytes]: those of the timeline except maxima */
    hw_json_begin_array(j);
    for (size_t i = 0; rc == HW_OK && i < kept.n; i++) {
        hw_json_begin_array(j);
        hw_json_int(j, t->profile->dumps.v[s->shown.v[i]].ts_ns);
        hw_json_int(j, kept.v[i]);
        hw_json_end_array(j);
    }
    hw_json_end_array(j);
    hw_json_end_object(j);
    hw_vec_done(&kept);
    return rc;
}

/* Heap by heap: how much of the memory allocated since the previous dump is live at each dump. */
void hw_page_retained(struct hw_http_request *req, struct hw_page_trace *t)
{
    struct hw_json j;
    int rc = HW_OK;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    hw_json_begin_array(&j);
    for (size_t i = 0; rc == HW_OK && i < t->list.v.n; i++)
        rc = put_retained(&j, t, &t->list.v.v[i]);
    hw_json_end_array(&j);
    if (rc < 0 && j.error == 0)
        j.error = rc;
    hw_page_reply_json(req, &j);
}

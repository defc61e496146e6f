/*
 * Answers the pages: which processes there are, what a recording would do, the state of running
 * ones, a process's current heap. Recordings themselves are in web_recording.c.
 */
#include "record/web/web_recorder.h"
#include "config/command/explain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text/json_out.h"
#include "config/config.h"
#include "proc/pid.h"
#include "record/diagnosis.h"
#include "record/live_source.h"
#include "record/web/web_recorder_internal.h"

#include "base/banned.h"

void hw_web_recorder_changed(struct hw_web_recorder *d)
{
    atomic_fetch_add(&d->changes, 1);
}

/* ---- recordings ---- */

static int start(void *ctx, struct hw_bytes json, unsigned *id, struct hw_error *err)
{
    return hw_web_recorder_begin(ctx, json, /* unkept = */ false, id, err);
}

int hw_web_recorder_watch(struct hw_web_recorder *d, struct hw_bytes words, unsigned *id,
                          struct hw_error *err)
{
    return hw_web_recorder_begin(d, words, /* unkept = */ true, id, err);
}

int hw_web_recorder_recorder_pid(struct hw_web_recorder *d, unsigned id)
{
    pthread_mutex_lock(&d->lock);
    const struct hw_web_recording *x = d->all[id - 1];
    int pid = x->controller ? hw_controller_pid(x->controller) : 0;
    pthread_mutex_unlock(&d->lock);
    return pid;
}

bool hw_web_recorder_is_over(struct hw_web_recorder *d, unsigned id, char *why, size_t max)
{
    pthread_mutex_lock(&d->lock);
    const struct hw_web_recording *x = d->all[id - 1];
    bool over = x->state != HW_WEB_RUNNING && x->state != HW_WEB_STOPPING;
    if (over)
        (void)snprintf(why, max, "%s", x->error); /* cut is fine */
    pthread_mutex_unlock(&d->lock);
    return over;
}

static int act(void *ctx, unsigned id, enum hw_page_act what, struct hw_error *err)
{
    struct hw_web_recorder *d = ctx;
    pthread_mutex_lock(&d->lock);
    struct hw_web_recording *x = id >= 1 && id <= d->n ? d->all[id - 1] : NULL;
    bool open = x && (x->state == HW_WEB_RUNNING || x->state == HW_WEB_STOPPING);
    bool program = x && x->program_runs;
    pthread_mutex_unlock(&d->lock);
    if (!x)
        return hw_fail(err, HW_ENOTFOUND, 0, "there is no recording %u", id);
    if (what == HW_PAGE_END_PROGRAM ? !program : !open)
        return hw_fail(err, HW_EBUSY, 0, "recording %u has ended", id);
    switch (what) {
    case HW_PAGE_DISCARD:
        atomic_store(&x->discard, true);
        atomic_store(&x->stop, true);
        break;
    case HW_PAGE_STOP:
        atomic_store(&x->stop, true);
        break;
    case HW_PAGE_DUMP:
        atomic_store(&x->dump, true);
        break;
    case HW_PAGE_END_PROGRAM:
        atomic_store(&x->end_program, true);
        break;
    }
    return HW_OK;
}

static int mark(void *ctx, unsigned id, struct hw_bytes text, struct hw_error *err)
{
    struct hw_web_recorder *d = ctx;
    struct hw_web_recorder_mark m = {.boottime_ns = hw_now_boottime_ns()};
    if (!text.n || text.n > HW_MARK_MAX_BYTES || memchr(text.p, '\0', text.n))
        return hw_fail(err, HW_EINVAL, 0, "a mark needs a name of 1 to %u bytes",
                       HW_MARK_MAX_BYTES);
    memcpy(m.text, text.p, text.n);
    pthread_mutex_lock(&d->lock);
    struct hw_web_recording *x = id >= 1 && id <= d->n ? d->all[id - 1] : NULL;
    int rc = !x ? hw_fail(err, HW_ENOTFOUND, 0, "there is no recording %u", id)
             : x->state != HW_WEB_RUNNING  ? hw_fail(err, HW_EBUSY, 0, "recording %u has ended", id)
             : hw_vec_push(&x->due, m) < 0 ? hw_fail(err, HW_ENOMEM, 0, "mark")
                                           : HW_OK;
    pthread_mutex_unlock(&d->lock);
    return rc;
}

/* ---- state as JSON ---- */

static void put_state(void *ctx, struct hw_json *j)
{
    struct hw_web_recorder *d = ctx;
    hw_json_begin_array(j);
    pthread_mutex_lock(&d->lock);
    for (unsigned i = 0; i < d->n; i++)
        hw_web_recording_put(j, d->all[i]);
    pthread_mutex_unlock(&d->lock);
    hw_json_end_array(j);
}

static unsigned changes(void *ctx)
{
    struct hw_web_recorder *d = ctx;
    return atomic_load(&d->changes);
}

static int put_processes(void *ctx, struct hw_json *j, struct hw_error *err)
{
    struct hw_recorders all;
    hw_process_rows rows = {0};
    struct hw_web_recorder *d = ctx;
    int rc = hw_recorders_query(&all, err);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&d->known_lock);
    rc = hw_processes_find(&all, NULL, NULL, /* every = */ true, &d->known, &rows);
    pthread_mutex_unlock(&d->known_lock);
    if (rc < 0)
        (void)hw_fail(err, rc, 0, "cannot read /proc"); /* returned below */
    hw_json_begin_array(j);
    for (size_t i = 0; i < rows.n; i++) {
        const struct hw_process_row *r = &rows.v[i];
        char user[32];
        hw_json_begin_object(j);
        hw_json_kv_int(j, "pid", r->pid);
        hw_json_kv_str(j, "name", r->name);
        hw_json_kv_str(j, "user", hw_user_name(r->uid, user));
        hw_json_kv_uint(j, "rss", r->rss_kb * 1024);
        hw_json_kv_str(j, "allocator", r->allocator);
        hw_json_kv_bool(j, "eligible", !r->why.code);
        hw_json_kv_str(j, "code", r->why.code);
        hw_json_kv_str(j, "reason", r->why.code ? r->why.text : NULL);
        hw_json_kv_str(j, "remedy", r->why.code ? hw_explain_remedy(r->why.code) : NULL);
        hw_json_kv_str(j, "recording", r->session ? r->session->ref : NULL);
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
    hw_vec_done(&rows);
    hw_recorders_done(&all);
    return rc;
}

/* A usage error is an answer too: the page shows it next to the field. */
static int put_plan(void *ctx, struct hw_bytes json, struct hw_json *j, struct hw_error *err)
{
    struct hw_web_recorder *d = ctx;
    struct hw_web_request w = {0};
    struct hw_error why = {0};
    struct hw_strbuf shell = {0}, text = {0};
    int rc = hw_web_request_read(json, &w, &why);
    if (rc < 0 && rc != HW_EINVAL) {
        *err = why;
        return rc;
    }
    hw_json_begin_object(j);
    hw_json_kv_bool(j, "commands", d->commands);
    hw_json_kv_str(j, "error", rc < 0 ? why.text : NULL);
    hw_json_key(j, "checks");
    bool ready = false;
    if (rc < 0) {
        hw_json_begin_array(j);
        hw_json_end_array(j);
    } else {
        ready = hw_web_recorder_check(&w, d->commands, j);
        hw_web_request_shell(&w, &shell);
        (void)hw_config_binary_to_text(hw_bytes_of(w.config.p, w.config.n), &text, NULL);
    }
    hw_json_kv_bool(j, "ready", ready);
    hw_json_kv_str(j, "command", shell.p ? shell.p : "");
    hw_json_kv_str(j, "config", text.p ? text.p : "");
    hw_json_end_object(j);
    hw_strbuf_done(&shell);
    hw_strbuf_done(&text);
    hw_web_request_done(&w);
    return HW_OK;
}

/* ---- readings of live processes ---- */

static int recorded(void *ctx, hw_page_recorded_list *out, struct hw_error *err)
{
    struct hw_recorders all;
    (void)ctx;
    int rc = hw_recorders_query(&all, err);
    if (rc < 0)
        return rc;
    for (size_t r = 0; r < all.all.n; r++)
        for (size_t i = 0; i < all.all.v[r].state.sessions.n; i++) {
            const struct hw_service_session *s = &all.all.v[r].state.sessions.v[i];
            for (size_t k = 0; rc == HW_OK && k < s->targets.n; k++) {
                const struct hw_service_target *t = &s->targets.v[k];
                struct hw_page_recorded one = {
                    .pid = t->pid, .samples = t->samples, .seconds = s->seconds};
                (void)snprintf(one.name, sizeof one.name, "%s", t->name); /* cut is fine */
                (void)snprintf(one.recording, sizeof one.recording, "%s", s->ref);
                if (hw_vec_push(out, one) < 0)
                    rc = hw_fail(err, HW_ENOMEM, 0, "recorded processes");
            }
        }
    hw_recorders_done(&all);
    return rc;
}

/* The connection is kept between snapshots; after a failure it is reopened the next time. */
static struct hw_live_source *take_source(struct hw_web_recorder *d, int32_t pid)
{
    struct hw_live_source *found = NULL;
    pthread_mutex_lock(&d->lock);
    for (size_t i = 0; i < HW_WEB_MAX_SOURCES && !found; i++)
        if (d->sources[i].source && d->sources[i].pid == pid) {
            found = d->sources[i].source;
            d->sources[i].source = NULL; /* nobody else may use it meanwhile */
        }
    pthread_mutex_unlock(&d->lock);
    return found;
}

static void keep_source(struct hw_web_recorder *d, int32_t pid, struct hw_live_source *s)
{
    pthread_mutex_lock(&d->lock);
    struct hw_web_recorder_source *slot = &d->sources[d->next_source++ % HW_WEB_MAX_SOURCES];
    struct hw_live_source *old = slot->source;
    *slot = (struct hw_web_recorder_source){pid, s};
    pthread_mutex_unlock(&d->lock);
    hw_live_source_free(old);
}

static int look(void *ctx, int32_t pid, struct hw_page_live_view *out, struct hw_error *err)
{
    struct hw_web_recorder *d = ctx;
    struct hw_live_source *s = take_source(d, pid);
    struct hw_control_live facts;
    int rc = s ? HW_OK : hw_live_source_open(0, pid, &s, err);
    *out = (struct hw_page_live_view){.fd = -1};
    if (rc == HW_OK)
        rc = hw_live_source_fetch(s, &out->fd, &facts, err);
    if (rc < 0) {
        hw_live_source_free(s);
        return rc;
    }
    out->n_samples = facts.n_samples;
    out->n_lost = facts.n_lost;
    out->rss_bytes = hw_proc_rss_bytes(pid);
    (void)snprintf(out->name, sizeof out->name, "%s", hw_live_source_name(s));
    keep_source(d, pid, s);
    return HW_OK;
}

/* ---- the recorder ---- */

int hw_web_recorder_new(const struct hw_cli *cli, bool commands, struct hw_web_recorder **out,
                        struct hw_error *err)
{
    struct hw_web_recorder *d = calloc(1, sizeof *d);
    if (!d)
        return hw_fail(err, HW_ENOMEM, 0, "recordings");
    d->cli = cli;
    d->commands = commands;
    d->ops = (struct hw_page_recorder){.ctx = d,
                                       .processes = put_processes,
                                       .plan = put_plan,
                                       .start = start,
                                       .act = act,
                                       .mark = mark,
                                       .state = put_state,
                                       .changes = changes,
                                       .recorded = recorded,
                                       .look = look};
    pthread_mutex_init(&d->lock, NULL);
    pthread_mutex_init(&d->known_lock, NULL);
    int rc = hw_web_tracked_new(d, err);
    if (rc < 0)
        hw_web_recorder_free(d);
    else
        *out = d;
    return rc;
}

void hw_web_recorder_set_pages(struct hw_web_recorder *d, struct hw_pages *pages)
{
    d->pages = pages;
}

const struct hw_page_recorder *hw_web_recorder_recorder(const struct hw_web_recorder *d)
{
    return &d->ops;
}

void hw_web_recorder_free(struct hw_web_recorder *d)
{
    if (!d)
        return;
    for (unsigned i = 0; i < d->n; i++)
        atomic_store(&d->all[i]->give_up, true);
    for (unsigned i = 0; i < d->n; i++) {
        (void)pthread_join(d->all[i]->thread, NULL);
        hw_web_recording_free(d->all[i]);
    }
    for (size_t i = 0; i < HW_WEB_MAX_SOURCES; i++)
        hw_live_source_free(d->sources[i].source);
    hw_web_tracked_free(d->own);
    hw_vec_done(&d->known);
    pthread_mutex_destroy(&d->known_lock);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

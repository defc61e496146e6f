/*
 * A recording: the requesting thread sets it up (so that errors are its answer), then a separate
 * thread runs the loop of recording.h, controlled by flags. The page is shown a copy under the
 * recorder's lock.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text/json_out.h"
#include "config/command/explain.h"
#include "open/symbol_options.h"
#include "proc/pid.h"
#include "record/diagnosis.h"
#include "record/process_reads.h"
#include "record/web/web_recorder_internal.h"

#include "base/banned.h"

enum { STATUS_MS = 500, MAX_WARNINGS = 20 };

static const char *const state_names[] = {"running", "stopping", "done",
                                          "empty",   "failed",   "discarded"};

/* ---- callbacks of the loop, in the recording's thread ---- */

static void on_status(void *ctx, struct hw_bytes json)
{
    struct hw_web_recording *x = ctx;
    struct hw_service_state now, old;
    if (hw_service_read(json, &now, NULL) < 0)
        return; /* the next one is half a second away */
    pthread_mutex_lock(&x->recorder->lock);
    old = x->seen;
    x->seen = now;
    pthread_mutex_unlock(&x->recorder->lock);
    hw_service_state_done(&old);
    hw_web_recorder_changed(x->recorder);
}

static void on_warning(void *ctx, struct hw_bytes text)
{
    struct hw_web_recording *x = ctx;
    char *copy = strndup((const char *)text.p, text.n);
    pthread_mutex_lock(&x->recorder->lock);
    if (!copy || x->warnings.n >= MAX_WARNINGS || hw_vec_push(&x->warnings, copy) < 0)
        free(copy);
    pthread_mutex_unlock(&x->recorder->lock);
    hw_web_recorder_changed(x->recorder);
}

static void take_marks(struct hw_web_recording *x)
{
    struct hw_error ignored;
    pthread_mutex_lock(&x->recorder->lock);
    for (size_t i = 0; i < x->due.n && !x->r.is_ended; i++)
        x->n_marks +=
            hw_controller_mark(x->controller, 0, x->due.v[i].boottime_ns, x->due.v[i].text,
                               &ignored) == HW_OK; /* its death ends the loop */
    bool any = x->due.n > 0;
    hw_vec_clear(&x->due);
    pthread_mutex_unlock(&x->recorder->lock);
    if (any)
        hw_web_recorder_changed(x->recorder);
}

static void take_orders(struct hw_web_recording *x)
{
    struct hw_error ignored;
    take_marks(x); /* even before an end that may be due */
    if (atomic_exchange(&x->stop, false))
        hw_recording_stop(&x->r);
    if (atomic_exchange(&x->dump, false) && !x->r.is_ended)
        (void)hw_controller_dump(x->controller, NULL, 0, &ignored); /* its death ends the loop */
    if (atomic_exchange(&x->end_program, false) && x->launched && x->r.program_status == -1)
        (void)kill(x->launch.pid, SIGTERM); /* not reaped yet, so it is that process */
    if (atomic_load(&x->give_up))
        hw_recording_give_up(&x->r);
}

static void each(void *ctx)
{
    struct hw_web_recording *x = ctx;
    struct hw_error ignored;
    uint64_t now = hw_now_monotonic_ns();
    take_orders(x);
    if (now >= x->next_status_ns && !x->r.is_ended && !x->r.recorder_gone) {
        x->next_status_ns = now + STATUS_MS * UINT64_C(1000000);
        (void)hw_controller_request_status(x->controller, &ignored); /* its death ends the loop */
    }
    pthread_mutex_lock(&x->recorder->lock);
    x->progress = x->r.last;
    if (x->state == HW_WEB_RUNNING && x->r.stop_sent) {
        x->state = HW_WEB_STOPPING;
        hw_web_recorder_changed(x->recorder);
    }
    bool runs = x->launched && x->r.program_status == -1;
    if (x->program_runs != runs)
        hw_web_recorder_changed(x->recorder);
    x->program_runs = runs;
    pthread_mutex_unlock(&x->recorder->lock);
}

static void show_end(struct hw_web_recording *x, enum hw_web_recorder_state state, const char *code,
                     const char *text)
{
    pthread_mutex_lock(&x->recorder->lock);
    x->state = state;
    x->code = code;
    x->ended_ns = hw_now_monotonic_ns();
    (void)snprintf(x->error, sizeof x->error, "%s", text);
    if (x->r.is_ended) {
        x->progress.bytes_written = x->r.ended.bytes_written;
        x->progress.n_samples = x->r.ended.n_samples;
        x->progress.n_lost = x->r.ended.n_lost;
        x->progress.n_dumps = x->r.ended.n_dumps;
    }
    pthread_mutex_unlock(&x->recorder->lock);
    hw_web_recorder_changed(x->recorder);
}

static int name_file(struct hw_web_recording *x, const struct hw_seen_target *t,
                     struct hw_error *err)
{
    int pid = t ? t->pid : x->launched ? x->launch.pid : (int)x->words.pids.v[0];
    const char *name = t && t->name ? t->name : x->name;
    int rc = hw_output_finish(&x->output, name, pid, err);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&x->recorder->lock);
    free(x->file);
    x->file = realpath(x->output.final_name, NULL);
    pthread_mutex_unlock(&x->recorder->lock);
    return HW_OK;
}

/* The file is complete: renames, symbolizes and opens it. */
static void written(void *ctx)
{
    struct hw_web_recording *x = ctx;
    struct hw_error err = {0};
    struct hw_finding why = {0};
    const struct hw_seen_target *t = hw_recording_main_target(&x->r);
    if (x->unkept && hw_recording_is_empty(&x->r, t))
        hw_diagnose_recording(&x->r, x->program, &why);
    if (atomic_load(&x->discard) || x->unkept) {
        hw_output_discard(&x->output);
        show_end(x, HW_WEB_DISCARDED, why.code, why.text);
        return;
    }
    if (name_file(x, t, &err) < 0) {
        show_end(x, HW_WEB_FAILED, NULL, err.text);
        return;
    }
    if (hw_recording_is_empty(&x->r, t)) {
        if (x->words.attach && !t)
            hw_diagnose_wanted(x->words.pids.v, x->words.pids.n, NULL, 0, /* no_running = */ false,
                               &why);
        else
            hw_diagnose_recording(&x->r, x->program, &why);
        show_end(x, HW_WEB_EMPTY, why.code, why.text);
        return;
    }
    if (!hw_opt_flag(&x->words.cli.opts, HW_OPT_NO_SYMBOLIZE))
        (void)hw_symbol_options_add(&x->words.cli, x->output.final_name,
                                    NULL); /* else without lines */
    unsigned id = 0;
    if (hw_pages_open(x->recorder->pages, x->output.final_name, &id, &err) == HW_OK) {
        pthread_mutex_lock(&x->recorder->lock);
        x->trace = id;
        pthread_mutex_unlock(&x->recorder->lock);
    }
    if (x->r.is_ended && x->r.ended.status < 0)
        show_end(x, HW_WEB_FAILED, NULL, x->r.reason);
    else if (x->r.recorder_gone)
        show_end(x, HW_WEB_FAILED, "recorder-gone", "the recorder is gone; the trace ends there");
    else
        show_end(x, HW_WEB_DONE, NULL, err.code ? err.text : "");
}

static void *run_thread(void *ctx)
{
    struct hw_web_recording *x = ctx;
    struct hw_error err = {0};
    int rc = hw_recording_run(&x->r, &err);
    pthread_mutex_lock(&x->recorder->lock);
    bool open = x->state == HW_WEB_RUNNING || x->state == HW_WEB_STOPPING;
    x->program_runs = false;
    pthread_mutex_unlock(&x->recorder->lock);
    if (open) { /* the program could not be run: nothing was written */
        hw_output_discard(&x->output);
        show_end(x, HW_WEB_FAILED, NULL,
                 rc < 0 && err.code ? err.text : "the recording did not end");
    }
    struct hw_controller *c = x->controller;
    pthread_mutex_lock(&x->recorder->lock);
    x->controller = NULL;
    pthread_mutex_unlock(&x->recorder->lock);
    hw_controller_free(c);
    hw_web_recorder_changed(x->recorder);
    return NULL;
}

/* ---- set up ---- */

/* A pid says little in a heading or file name. */
static void name_target(struct hw_web_recording *x)
{
    struct hw_pid p;
    const char *name = x->words.cli.opts.args[0];
    char argv0[sizeof x->name] = "";
    if (x->words.attach && hw_pid_open((int32_t)x->words.pids.v[0], &p, NULL) == HW_OK) {
        hw_read_argv0(&p, argv0, sizeof argv0);
        hw_pid_done(&p);
        if (hw_proc_shown_name(argv0)[0])
            name = hw_proc_shown_name(argv0);
    }
    (void)snprintf(x->name, sizeof x->name, "%s", name); /* cut is fine */
}

static int set_up(struct hw_web_recording *x, struct hw_error *err)
{
    const struct hw_opts *o = &x->words.cli.opts;
    struct hw_record_words words = hw_web_record_request(&x->words);
    struct hw_control_start start = hw_record_start(&words);
    sigset_t none;
    name_target(x);
    sigemptyset(&none);
    int rc = hw_controller_spawn(NULL, &x->controller, err);
    if (rc == HW_OK && !x->words.attach) {
        struct hw_launch_options launch = {
            .argv = o->args,
            .library = x->library,
            .python_allocators = hw_opt_flag(o, HW_OPT_PYTHON_ALLOCATORS),
            .background = true,
            .mask = &none,
        };
        rc = hw_launch_prepare(&launch, hw_controller_socket(x->controller), &x->launch, err);
        x->launched = rc == HW_OK;
    }
    if (rc == HW_OK)
        rc = hw_output_open(x->unkept ? "/dev/null" : NULL, x->name,
                            x->launched ? x->launch.pid : (int)x->words.pids.v[0],
                            /* force = */ false, &x->output, err);
    if (rc < 0)
        return rc;
    x->file = x->output.part ? realpath(x->output.part, NULL) : NULL;
    x->r = (struct hw_recording){
        .cli = &x->words.cli,
        .controller = x->controller,
        .launch = x->launched ? &x->launch : NULL,
        .follow_fork = hw_opt_flag(o, HW_OPT_FOLLOW_FORK),
        .stop_with_program = x->launched,
        .awaited = x->words.pids.v,
        .n_awaited = x->words.pids.n,
        .own_signals = true,
        .written = written,
        .each = each,
        .warned = on_warning,
        .status = on_status,
        .ctx = x,
    };
    return hw_recording_start(&x->r, &start, hw_bytes_of(x->words.config.p, x->words.config.n),
                              x->output.fd, err);
}

void hw_web_recording_free(struct hw_web_recording *x)
{
    hw_controller_free(x->controller);
    if (x->launched)
        hw_launch_done(&x->launch);
    hw_recording_done(&x->r);
    hw_output_done(&x->output);
    hw_service_state_done(&x->seen);
    for (size_t i = 0; i < x->warnings.n; i++)
        free(x->warnings.v[i]);
    hw_vec_done(&x->warnings);
    hw_vec_done(&x->due);
    hw_web_request_done(&x->words);
    free(x->library);
    free(x->program);
    free(x->file);
    free(x);
}

/* Everything that can fail before a process is created. */
static int prepare(struct hw_web_recorder *d, struct hw_web_recording *x, struct hw_error *err)
{
    struct hw_json checks;
    hw_json_init(&checks, NULL, NULL, /* pretty = */ false);
    bool good = hw_web_recorder_check(&x->words, d->commands, &checks);
    hw_json_done(&checks);
    if (!good)
        return hw_fail(err, HW_EINVAL, 0, "this cannot be recorded: see the marked fields");
    struct hw_record_words w = hw_web_record_request(&x->words); /* of those that are left */
    hw_strbuf_clear(&x->words.config);
    int rc = hw_record_config(&w, &x->words.config, err);
    if (rc == HW_OK && !x->words.attach) {
        x->program = hw_launch_find_program(x->words.cli.opts.args[0]);
        rc = hw_launch_find_library(hw_opt_text(&x->words.cli.opts, HW_OPT_PRELOAD_LIBRARY),
                                    x->program, &x->library, err);
    }
    struct hw_strbuf shell = {0};
    hw_web_request_shell(&x->words, &shell);
    (void)snprintf(x->shell, sizeof x->shell, "%s", shell.p ? shell.p : ""); /* cut is fine */
    hw_strbuf_done(&shell);
    return rc;
}

/* Takes over the recording: adds it to the list and starts its thread. */
static int enlist(struct hw_web_recorder *d, struct hw_web_recording *x, unsigned *id,
                  struct hw_error *err)
{
    int rc = HW_OK;
    pthread_mutex_lock(&d->lock);
    if (d->n == HW_WEB_MAX_RECORDINGS)
        rc = hw_fail(
            err, HW_ELIMIT, 0,
            "this server has made %u recordings, which is its limit; start another server for more",
            d->n);
    x->id = d->n + 1;
    x->started_ns = hw_now_monotonic_ns();
    x->program_runs = x->launched;
    if (rc == HW_OK && pthread_create(&x->thread, NULL, run_thread, x) != 0)
        rc = hw_fail_sys(err, "cannot start a thread");
    if (rc == HW_OK) {
        d->all[d->n++] = x;
        *id = x->id;
    }
    pthread_mutex_unlock(&d->lock);
    return rc;
}

int hw_web_recorder_begin(struct hw_web_recorder *d, struct hw_bytes words, bool unkept,
                          unsigned *id, struct hw_error *err)
{
    struct hw_web_recording *x = calloc(1, sizeof *x);
    if (!x)
        return hw_fail(err, HW_ENOMEM, 0, "recording");
    x->recorder = d;
    x->unkept = unkept;
    x->output = HW_OUTPUT_NONE;
    int rc = hw_web_request_read(words, &x->words, err);
    if (rc == HW_OK)
        rc = prepare(d, x, err);
    if (rc == HW_OK)
        rc = set_up(x, err);
    if (rc == HW_OK)
        rc = enlist(d, x, id, err);
    if (rc < 0) {
        hw_output_discard(&x->output);
        hw_web_recording_free(x);
    }
    hw_web_recorder_changed(d);
    return rc;
}

/* ---- state as JSON ---- */

static void put_targets(struct hw_json *j, const struct hw_web_recording *x)
{
    hw_json_key(j, "targets");
    hw_json_begin_array(j);
    for (size_t i = 0; i < x->seen.sessions.n; i++)
        for (size_t k = 0; k < x->seen.sessions.v[i].targets.n; k++) {
            const struct hw_service_target *t = &x->seen.sessions.v[i].targets.v[k];
            hw_json_begin_object(j);
            hw_json_kv_int(j, "pid", t->pid);
            hw_json_kv_str(j, "name", t->name);
            hw_json_kv_str(j, "state", t->state);
            hw_json_kv_uint(j, "samples", t->samples);
            hw_json_kv_uint(j, "dumps", t->dumps);
            hw_json_kv_uint(j, "buffer", t->buffer);
            hw_json_kv_uint(j, "buffered", t->buffered);
            hw_json_kv_uint(j, "rss", hw_proc_rss_bytes(t->pid));
            hw_json_end_object(j);
        }
    hw_json_end_array(j);
}

void hw_web_recording_put(struct hw_json *j, const struct hw_web_recording *x)
{
    uint64_t now = x->ended_ns ? x->ended_ns : hw_now_monotonic_ns();
    const struct hw_opts *o = &x->words.cli.opts;
    hw_json_begin_object(j);
    hw_json_kv_uint(j, "id", x->id);
    hw_json_kv_str(j, "state", state_names[x->state]);
    hw_json_kv_str(j, "command", x->shell);
    hw_json_kv_str(j, "target", x->name);
    hw_json_kv_bool(j, "launched", x->launched);
    hw_json_kv_int(j, "program", x->launched ? x->launch.pid : -1);
    hw_json_kv_bool(j, "program_runs", x->program_runs);
    hw_json_kv_uint(j, "elapsed_ms", (now - x->started_ns) / 1000000);
    hw_json_kv_uint(j, "duration_ms", hw_opt_num(o, HW_OPT_DURATION));
    hw_json_kv_uint(j, "interval",
                    hw_opt_flag(o, HW_OPT_EXACT) ? 1 : hw_opt_num(o, HW_OPT_INTERVAL));
    hw_json_kv_uint(j, "shmem", hw_opt_num(o, HW_OPT_SHMEM_SIZE));
    hw_json_kv_uint(j, "bytes", x->progress.bytes_written);
    hw_json_kv_uint(j, "samples", x->progress.n_samples);
    hw_json_kv_uint(j, "lost", x->progress.n_lost);
    hw_json_kv_uint(j, "dumps", x->progress.n_dumps);
    hw_json_kv_uint(j, "marks", x->n_marks);
    hw_json_kv_str(j, "file", x->file);
    hw_json_kv_uint(j, "trace", x->trace);
    hw_json_kv_str(j, "error", x->error[0] ? x->error : NULL);
    hw_json_kv_str(j, "code", x->code);
    hw_json_kv_str(j, "remedy", x->code ? hw_explain_remedy(x->code) : NULL);
    hw_json_key(j, "warnings");
    hw_json_begin_array(j);
    for (size_t i = 0; i < x->warnings.n; i++)
        hw_json_str(j, x->warnings.v[i]);
    hw_json_end_array(j);
    put_targets(j, x);
    hw_json_end_object(j);
}

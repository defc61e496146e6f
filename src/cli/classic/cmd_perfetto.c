/*
 * perfetto: a configuration, a running service, an output file (doc/design/commands.md).
 *
 * Messages keep their classic wording; a refused configuration exits with 1 (0 would hide it from
 * scripts).
 */
#include "cli/classic/perfetto_command.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/log.h"
#include "cli/cli.h"
#include "record/controller.h"
#include "record/diagnosis.h"

#include "base/banned.h"

enum { BACKGROUND_WAIT_MS = 30000, ANSWER_MS = 10000 };

/* ---- the recording ---- */

static void notify(const struct hw_perfetto *p, char status)
{
    const struct hw_optval *v = &p->cli->opts.v[HW_OPT_NOTIFY_FD];
    if (v->set && write((int)v->num, &status, 1) != 1)
        hw_log(WARN, "cannot write to descriptor %d", (int)v->num);
    if (p->ready_fd >= 0 && write(p->ready_fd, &status, 1) != 1)
        hw_log(WARN, "nobody is waiting for the start any more");
}

static void on_started(void *ctx)
{
    const struct hw_perfetto *p = ctx;
    if (p->checked.duration_ms)
        fprintf(stderr,
                "Connected to the Perfetto traced service, starting tracing for %" PRIu32 " ms\n",
                p->checked.duration_ms);
    else
        fprintf(stderr, "Connected to the Perfetto traced service, starting tracing\n");
    notify(p, 0);
}

static void on_stopping(void *ctx)
{
    (void)ctx;
    fprintf(stderr, "SIGINT/SIGTERM received: disabling tracing.\n");
}

/* Why a profile has no samples. The status stays 0: the other data sources were recorded. */
static void tell_if_empty(struct hw_perfetto *p)
{
    struct hw_finding f;
    if (p->is_checked && !p->checked.heapprofd.n)
        return;
    if (!hw_recording_is_empty(&p->recording, hw_recording_main_target(&p->recording)))
        return;
    hw_diagnose_recording(&p->recording, NULL, &f);
    const struct hw_heapprofd_config *h = p->is_checked ? &p->checked.heapprofd.v[0] : NULL;
    if (h && f.code && strcmp(f.code, "no-process") == 0) {
        if (h->all)
            (void)snprintf(f.text, sizeof f.text, "no preloaded process was there or started");
        else if (h->pids.n || h->process_cmdline.n)
            hw_diagnose_wanted(h->pids.v, h->pids.n, h->process_cmdline.v, h->process_cmdline.n,
                               h->no_running, &f);
        else
            (void)snprintf(f.text, sizeof f.text,
                           "the configuration has no process_cmdline, pid or all");
    }
    hw_diagnose_print(p->cli, &f);
}

static int finish(struct hw_perfetto *p)
{
    const struct hw_recording *r = &p->recording;
    if (p->path && strcmp(p->path, "-") == 0) {
        if (hw_perfetto_copy_to_stdout(p) != HW_EXIT_OK) {
            hw_cli_error(p->cli, NULL, "cannot write the trace to standard output");
            return HW_EXIT_FAILED;
        }
    }
    if (r->recorder_gone)
        return HW_EXIT_FAILED;
    if (r->ended.status < 0) {
        hw_cli_error(p->cli, NULL, "the recording ended early: %s", r->reason);
        return HW_EXIT_FAILED;
    }
    if (p->checked.write_into_file || !p->path) /* attached: whoever detached it knows the name */
        fprintf(stderr, "Trace written into the output file\n");
    else
        fprintf(stderr, "Wrote %" PRIu64 " bytes into %s\n", r->ended.bytes_written,
                strcmp(p->path, "-") == 0 ? "stdout" : p->path);
    tell_if_empty(p);
    return HW_EXIT_OK;
}

static int refused(struct hw_perfetto *p, const struct hw_error *err)
{
    hw_cli_error(p->cli, NULL, "the service refused: %s", err->text);
    if (p->made_file)
        (void)unlink(p->path); /* it is empty */
    return HW_EXIT_FAILED;
}

/* --detach: the service goes on alone; the trace is written by it anyway. */
static int detach(struct hw_perfetto *p, const char *key)
{
    struct hw_error err = {0};
    struct hw_controller_event e;
    int rc = hw_controller_detach(p->controller, key, &err);
    if (rc == 0)
        rc = hw_controller_wait(p->controller, HW_CTL_DETACHED, ANSWER_MS, &e, &err);
    if (rc < 0) {
        hw_cli_error(p->cli, NULL, "cannot detach '%s': %s; the recording ends", key, err.text);
        return HW_EXIT_FAILED;
    }
    on_started(p);
    fprintf(stderr, "Recording into %s in the background of the service\n", p->path);
    hw_cli_hint("end it with: perfetto --attach %s --stop", key);
    return HW_EXIT_OK;
}

static void prepare(struct hw_perfetto *p)
{
    p->recording.cli = p->cli;
    p->recording.controller = p->controller;
    p->recording.started = on_started;
    p->recording.stopping = on_stopping;
    p->recording.ctx = p;
}

static int record(struct hw_perfetto *p)
{
    struct hw_error err = {0};
    sigset_t mask;
    const struct hw_control_start start = {.flags = HW_START_CHECKPOINTS};
    const char *key = hw_opt_text(&p->cli->opts, HW_OPT_DETACH);
    hw_perfetto_delay_start(p);
    int status = hw_perfetto_connect(p);
    if (status == HW_EXIT_OK)
        status = hw_perfetto_open_output(p);
    if (status != HW_EXIT_OK)
        return status;
    prepare(p);
    if (hw_recording_block_signals(&mask, &err) < 0)
        return hw_cli_fail(p->cli, &err);
    if (hw_recording_start(&p->recording, &start, hw_bytes_of(p->config.p, p->config.n), p->fd,
                           &err) < 0)
        return refused(p, &err);
    if (key)
        return detach(p, key);
    if (hw_recording_run(&p->recording, &err) < 0)
        hw_cli_error(p->cli, "recorder-gone", "%s; the trace ends there", err.text);
    return finish(p);
}

/* --attach: continues as if this command had started it; with --stop ends it at once. */
static int attach(struct hw_perfetto *p, const char *key)
{
    struct hw_error err = {0};
    struct hw_controller_event e;
    sigset_t mask;
    int status = hw_perfetto_connect(p);
    if (status != HW_EXIT_OK)
        return status;
    int rc = hw_recording_block_signals(&mask, &err);
    if (rc == 0)
        rc = hw_controller_attach(p->controller, key, &err);
    if (rc == 0)
        rc = hw_controller_wait(p->controller, HW_CTL_ATTACHED, ANSWER_MS, &e, &err);
    if (rc < 0) {
        hw_cli_error(p->cli, "no-recording", "Session re-attach failed: %s", err.text);
        return HW_EXIT_FAILED;
    }
    prepare(p);
    p->recording.started = NULL;
    if (hw_opt_flag(&p->cli->opts, HW_OPT_STOP_ATTACHED))
        rc = hw_controller_stop(p->controller, 0, &err);
    else
        notify(p, 0);
    if (rc == 0)
        rc = hw_recording_adopt(&p->recording, &err);
    if (rc == 0)
        rc = hw_recording_run(&p->recording, &err);
    if (rc < 0)
        hw_cli_error(p->cli, "recorder-gone", "%s; the trace ends there", err.text);
    return finish(p);
}

/* ---- background ---- */

static int parent(struct hw_perfetto *p, pid_t child, int ready)
{
    printf("%d\n", (int)child);
    (void)fflush(stdout);
    if (!hw_opt_flag(&p->cli->opts, HW_OPT_BACKGROUND_WAIT))
        return HW_EXIT_OK;
    struct pollfd f = {.fd = ready, .events = POLLIN};
    char status;
    int n = poll(&f, 1, BACKGROUND_WAIT_MS);
    if (n > 0 && read(ready, &status, 1) == 1 && status == 0)
        return HW_EXIT_OK;
    hw_cli_error(p->cli, NULL,
                 n == 0 ? "the recording did not start within 30 s"
                        : "the recording did not start");
    return HW_EXIT_FAILED;
}

static int in_background(struct hw_perfetto *p)
{
    int pair[2];
    if (pipe2(pair, O_CLOEXEC) < 0) {
        hw_cli_error(p->cli, NULL, "pipe: %s", strerror(errno));
        return HW_EXIT_FAILED;
    }
    hw_autofd int ready = pair[0], tell = pair[1];
    pid_t child = fork();
    if (child < 0) {
        hw_cli_error(p->cli, NULL, "fork: %s", strerror(errno));
        return HW_EXIT_FAILED;
    }
    if (child > 0) {
        (void)close(hw_fd_take(&tell)); /* the child's death ends our wait */
        return parent(p, child, ready);
    }
    (void)setsid();
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
        (void)dup2(null, STDIN_FILENO);
        if (!p->path || strcmp(p->path, "-") != 0)
            (void)dup2(null, STDOUT_FILENO); /* a caller's $(perfetto -d …) must end with the
                                                parent */
    }
    p->ready_fd = tell;
    return record(p);
}

/* ---- which of them ---- */

struct pair {
    enum hw_option_id one, other;
};

/* Options that exclude each other; the message for the first conflict, NULL = none. */
static const char *contradiction(const struct hw_opts *o)
{
    static const struct pair excluded[] = {
        {HW_OPT_ATTACH, HW_OPT_CONFIG_FILE},     {HW_OPT_ATTACH, HW_OPT_OUT},
        {HW_OPT_ATTACH, HW_OPT_DETACH},          {HW_OPT_ATTACH, HW_OPT_CLONE},
        {HW_OPT_ATTACH, HW_OPT_CLONE_NAME},      {HW_OPT_ATTACH, HW_OPT_BACKGROUND},
        {HW_OPT_ATTACH, HW_OPT_BACKGROUND_WAIT}, {HW_OPT_DETACH, HW_OPT_BACKGROUND},
        {HW_OPT_DETACH, HW_OPT_BACKGROUND_WAIT}, {HW_OPT_DETACH, HW_OPT_CLONE},
        {HW_OPT_DETACH, HW_OPT_CLONE_NAME},      {HW_OPT_CLONE, HW_OPT_CONFIG_FILE},
        {HW_OPT_CLONE_NAME, HW_OPT_CONFIG_FILE}, {HW_OPT_CLONE, HW_OPT_CLONE_NAME},
    };
    static char text[160];
    for (size_t i = 0; i < HW_ARRAY_LEN(excluded); i++) {
        if (!o->v[excluded[i].one].set || !o->v[excluded[i].other].set)
            continue;
        (void)snprintf(text, sizeof text, "--%s and --%s exclude each other",
                       hw_options[excluded[i].one].name, hw_options[excluded[i].other].name);
        return text;
    }
    if (o->v[HW_OPT_STOP_ATTACHED].set && !o->v[HW_OPT_ATTACH].set)
        return "--stop is supported only in combination with --attach";
    if (o->v[HW_OPT_QUERY_LONG].set && !o->v[HW_OPT_QUERY].set)
        return "--long can only be used with --query";
    return NULL;
}

static int run_new(struct hw_perfetto *p)
{
    const struct hw_opts *o = &p->cli->opts;
    int status = hw_perfetto_load_config(p);
    if (status != HW_EXIT_OK)
        return status;
    if (!hw_opt_text(o, HW_OPT_OUT) && !p->checked.output_path)
        return hw_perfetto_open_output(p); /* says what is missing */
    const char *out = hw_opt_text(o, HW_OPT_OUT);
    if (o->v[HW_OPT_DETACH].set && out && strcmp(out, "-") == 0) {
        hw_cli_error(p->cli, NULL,
                     "--detach needs a file: nobody is left to write to standard "
                     "output");
        return HW_EXIT_FAILED;
    }
    if (hw_opt_flag(o, HW_OPT_BACKGROUND) || hw_opt_flag(o, HW_OPT_BACKGROUND_WAIT))
        return in_background(p);
    return record(p);
}

static int run(struct hw_perfetto *p)
{
    const struct hw_opts *o = &p->cli->opts;
    const char *wrong = contradiction(o);
    if (wrong) {
        hw_cli_error(p->cli, NULL, "%s", wrong);
        return HW_EXIT_FAILED;
    }
    if (o->v[HW_OPT_IS_DETACHED].set)
        return hw_perfetto_is_detached(p, hw_opt_text(o, HW_OPT_IS_DETACHED));
    if (hw_opt_flag(o, HW_OPT_QUERY) || hw_opt_flag(o, HW_OPT_QUERY_RAW))
        return hw_perfetto_query(p);
    if (o->v[HW_OPT_CLONE].set || o->v[HW_OPT_CLONE_NAME].set)
        return hw_perfetto_clone(p);
    if (o->v[HW_OPT_ATTACH].set)
        return attach(p, hw_opt_text(o, HW_OPT_ATTACH));
    return run_new(p);
}

int hw_cmd_perfetto(struct hw_cli *cli)
{
    struct hw_perfetto p = {.cli = cli, .fd = -1, .ready_fd = -1};
    int status = run(&p);
    if (status != HW_EXIT_OK && !p.recording.is_started)
        notify(&p, 1);
    hw_controller_free(p.controller);
    hw_recording_done(&p.recording);
    if (p.is_checked)
        hw_trace_config_done(&p.checked);
    if (p.fd >= 0)
        (void)close(p.fd);
    hw_strbuf_done(&p.config);
    return status;
}

/*
 * perfetto: a configuration, a running service, an output file (spec/cli.md 4).
 *
 * Messages keep their classic wording; the status of a refused configuration is 1 (0 would hide it
 * from scripts).
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/controller.h"
#include "cli/recording.h"
#include "codec/pb.h"
#include "config/config.h"
#include "daemon/recorder.h"
#include "schema/fields.h"
#include "schema/schema.h"

#include "base/banned.h"

enum { MAX_CONFIG = 16 << 20, BACKGROUND_WAIT_MS = 30000 };

struct perfetto {
    struct hw_cli *cli;
    struct hw_strbuf config; /* binary */
    struct hw_trace_config checked;
    bool is_checked;
    const char *path; /* of the output; "-" */
    int fd;
    bool made_file; /* by us: removed when nothing starts */
    int ready_fd;   /* -D: tells the parent; -1 */
    struct hw_controller *controller;
    struct hw_recording recording;
};

static const char test_config[] = "buffers { size_kb: 1024 }\n"
                                  "data_sources { config { name: \"linux.system_info\" } }\n"
                                  "duration_ms: 2000\n";

/* ---- the configuration ---- */

static int read_source(const char *name, char **text, size_t *n, struct hw_error *err)
{
    if (strcmp(name, ":test") == 0) {
        *text = strdup(test_config);
        *n = sizeof test_config - 1;
        return *text ? HW_OK : hw_fail(err, HW_ENOMEM, 0, "configuration");
    }
    if (strcmp(name, "-") == 0)
        return hw_fd_read_file(STDIN_FILENO, MAX_CONFIG, text, n, err);
    return hw_file_read(AT_FDCWD, name, MAX_CONFIG, text, n, err);
}

/* A binary TraceConfig has at least one field that the schema knows, and no text does. */
static bool looks_like_config(struct hw_bytes binary)
{
    const struct hw_schema_message *m = hw_schema_message_find("TraceConfig");
    struct hw_pb_reader r = hw_pb_read(binary);
    struct hw_pb_field f;
    struct hw_strbuf text = {0};
    bool known = false;
    while (hw_pb_next(&r, &f) > 0)
        known |= m && hw_schema_field_by_number(m, f.number) != NULL;
    bool whole = hw_config_binary_to_text(binary, &text, NULL) == 0;
    hw_strbuf_done(&text);
    return known && whole;
}

static bool looks_like_text(struct hw_bytes b)
{
    for (size_t i = 0; i < b.n; i++)
        if (b.p[i] < 0x20 && !(b.p[i] >= '\t' && b.p[i] <= '\r'))
            return false;
    return true;
}

static int to_binary(struct perfetto *p, const char *name, struct hw_bytes raw)
{
    const struct hw_opts *o = &p->cli->opts;
    struct hw_error err = {0};
    bool lossy = hw_opt_flag(o, HW_OPT_TXT_LOSSY);
    if (hw_opt_flag(o, HW_OPT_TXT) || lossy || strcmp(name, ":test") == 0) {
        if (hw_config_text_to_binary(name, raw, lossy, &p->config, &err) == 0)
            return HW_EXIT_OK;
        fprintf(stderr, "%s\n", err.text);
        return HW_EXIT_FAILED;
    }
    if (raw.n && !looks_like_config(raw)) {
        fprintf(stderr, "The trace config is invalid, bailing out.\n");
        if (looks_like_text(raw))
            hw_cli_hint("it looks like text: add --txt");
        return HW_EXIT_FAILED;
    }
    hw_strbuf_add(&p->config, raw.p, raw.n);
    return HW_EXIT_OK;
}

static int add_attributes(struct perfetto *p)
{
    const struct hw_optval *v = &p->cli->opts.v[HW_OPT_ADD_ATTRIBUTE];
    struct hw_pb w = {0};
    for (size_t i = 0; i < v->list.n; i++) {
        const char *text = v->list.v[i];
        size_t key = strcspn(text, "=");
        hw_pb_begin(&w, HW_F_TraceConfig_trace_attributes);
        hw_pb_begin(&w, HW_F_TraceAttributes_attribute);
        hw_pb_bytes(&w, HW_F_TraceAttributes_Attribute_key, text, key);
        hw_pb_str(&w, HW_F_TraceAttributes_Attribute_string_value, text[key] ? text + key + 1 : "");
        hw_pb_end(&w);
        hw_pb_end(&w);
    }
    hw_strbuf_add(&p->config, w.buf.p, w.buf.n);
    bool failed = hw_pb_failed(&w) || p->config.failed;
    hw_pb_done(&w);
    if (failed)
        hw_cli_error(p->cli, NULL, "out of memory");
    return failed ? HW_EXIT_FAILED : HW_EXIT_OK;
}

static int load_config(struct perfetto *p)
{
    const char *name = hw_opt_text(&p->cli->opts, HW_OPT_CONFIG_FILE);
    struct hw_error err = {0};
    hw_autofree char *text = NULL;
    size_t n = 0;
    if (!name) {
        hw_cli_error(p->cli, NULL, "no configuration: -c FILE, or -c - for standard input");
        return HW_EXIT_FAILED;
    }
    if (read_source(name, &text, &n, &err) < 0)
        return hw_cli_fail(p->cli, &err);
    int status = to_binary(p, name, hw_bytes_of(text, n));
    if (status != HW_EXIT_OK)
        return status;
    if (p->config.n == 0) {
        fprintf(stderr, "The TraceConfig is empty\n");
        return HW_EXIT_FAILED;
    }
    status = add_attributes(p);
    if (status != HW_EXIT_OK)
        return status;
    if (hw_config_read(hw_bytes_of(p->config.p, p->config.n), &p->checked, &err) < 0) {
        hw_cli_error(p->cli, NULL, "the configuration is refused: %s", err.text);
        return HW_EXIT_FAILED;
    }
    p->is_checked = true; /* its warnings come from the service */
    return HW_EXIT_OK;
}

/* ---- the output ---- */

static int open_output(struct perfetto *p)
{
    const struct hw_opts *o = &p->cli->opts;
    const char *out = hw_opt_text(o, HW_OPT_OUT);
    if (hw_opt_flag(o, HW_OPT_UPLOAD)) {
        hw_cli_error(p->cli, NULL, "--upload exists on Android only; use --out");
        return HW_EXIT_FAILED;
    }
    if (out && p->checked.output_path) {
        hw_cli_error(p->cli, NULL, "--out and output_path in the configuration exclude each other");
        return HW_EXIT_FAILED;
    }
    p->path = out ? out : p->checked.output_path;
    if (!p->path) {
        fprintf(stderr, "Either --out or --upload is required\n");
        return HW_EXIT_FAILED;
    }
    if (strcmp(p->path, "-") == 0) {
        if (isatty(STDOUT_FILENO)) {
            hw_cli_error(p->cli, NULL, "a trace is not for a terminal: redirect it");
            return HW_EXIT_FAILED;
        }
        p->fd = memfd_create("heapwise-trace", MFD_CLOEXEC);
    } else {
        bool fresh = !out || hw_opt_flag(o, HW_OPT_NO_CLOBBER);
        p->made_file = access(p->path, F_OK) != 0;
        p->fd = open(p->path, O_RDWR | O_CREAT | O_CLOEXEC | (fresh ? O_EXCL : O_TRUNC), 0600);
    }
    if (p->fd >= 0)
        return HW_EXIT_OK;
    hw_cli_error(p->cli, NULL, "cannot write '%s': %s", p->path, strerror(errno));
    return HW_EXIT_FAILED;
}

static int copy_to_stdout(const struct perfetto *p)
{
    char buffer[1 << 16];
    off_t at = 0;
    for (;;) {
        ssize_t n = pread(p->fd, buffer, sizeof buffer, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? HW_EXIT_FAILED : HW_EXIT_OK;
        if (hw_fd_write_all(STDOUT_FILENO, buffer, (size_t)n) < 0)
            return HW_EXIT_FAILED;
        at += n;
    }
}

/* ---- the recording ---- */

static void notify(const struct perfetto *p, char status)
{
    const struct hw_optval *v = &p->cli->opts.v[HW_OPT_NOTIFY_FD];
    if (v->set && write((int)v->num, &status, 1) != 1)
        hw_log(WARN, "cannot write to descriptor %d", (int)v->num);
    if (p->ready_fd >= 0 && write(p->ready_fd, &status, 1) != 1)
        hw_log(WARN, "nobody waits for the start any more");
}

static void on_started(void *ctx)
{
    const struct perfetto *p = ctx;
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

static int connect_service(struct perfetto *p)
{
    struct hw_error err = {0};
    int rc = hw_controller_connect(NULL, &p->controller, &err);
    if (rc == 0)
        return HW_EXIT_OK;
    fprintf(stderr, "Could not connect to the traced socket %s: %s [no-service]\n",
            hw_default_consumer_socket(), err.text);
    hw_cli_hint("start the service: traced (or heapprofd)");
    return HW_EXIT_FAILED;
}

/* cmd_trace_start_delay: a random pause, so that many machines do not start at once. */
static void delay_start(const struct perfetto *p)
{
    struct hw_pb_reader r = hw_pb_read(hw_bytes_of(p->config.p, p->config.n));
    struct hw_pb_field f, g;
    uint64_t low = 0, high = 0, random = 0;
    while (hw_pb_next(&r, &f) > 0) {
        if (f.number != HW_F_TraceConfig_cmd_trace_start_delay || f.wire != HW_PB_BYTES)
            continue;
        struct hw_pb_reader inner = hw_pb_read(f.bytes);
        while (hw_pb_next(&inner, &g) > 0) {
            if (g.number == HW_F_TraceConfig_CmdTraceStartDelay_min_delay_ms)
                low = (uint32_t)g.value;
            else if (g.number == HW_F_TraceConfig_CmdTraceStartDelay_max_delay_ms)
                high = (uint32_t)g.value;
        }
    }
    if (high < low)
        high = low;
    if (high == 0 || getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return;
    uint64_t ms = low + random % (high - low + 1);
    struct timespec pause = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    (void)nanosleep(&pause, NULL); /* a signal only shortens it */
}

static int finish(struct perfetto *p)
{
    const struct hw_recording *r = &p->recording;
    if (strcmp(p->path, "-") == 0) {
        if (copy_to_stdout(p) != HW_EXIT_OK) {
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
    if (p->checked.write_into_file)
        fprintf(stderr, "Trace written into the output file\n");
    else
        fprintf(stderr, "Wrote %" PRIu64 " bytes into %s\n", r->ended.bytes_written,
                strcmp(p->path, "-") == 0 ? "stdout" : p->path);
    return HW_EXIT_OK;
}

static int refused(struct perfetto *p, const struct hw_error *err)
{
    hw_cli_error(p->cli, NULL, "the service refuses: %s", err->text);
    if (p->made_file)
        (void)unlink(p->path); /* it is empty */
    return HW_EXIT_FAILED;
}

static int record(struct perfetto *p)
{
    struct hw_error err = {0};
    sigset_t mask;
    const struct hw_control_start start = {.flags = HW_START_CHECKPOINTS};
    delay_start(p);
    int status = connect_service(p);
    if (status == HW_EXIT_OK)
        status = open_output(p);
    if (status != HW_EXIT_OK)
        return status;
    p->recording.cli = p->cli;
    p->recording.controller = p->controller;
    p->recording.started = on_started;
    p->recording.stopping = on_stopping;
    p->recording.ctx = p;
    if (hw_recording_block_signals(&mask, &err) < 0)
        return hw_cli_fail(p->cli, &err);
    if (hw_recording_start(&p->recording, &start, hw_bytes_of(p->config.p, p->config.n), p->fd,
                           &err) < 0)
        return refused(p, &err);
    if (hw_recording_run(&p->recording, &err) < 0)
        hw_cli_error(p->cli, "recorder-gone", "%s; the trace ends where it was", err.text);
    return finish(p);
}

/* ---- background ---- */

static int parent(struct perfetto *p, pid_t child, int ready)
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

static int in_background(struct perfetto *p)
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
            (void)dup2(null, STDOUT_FILENO); /* a caller's $(perfetto -d …) ends with the parent */
    }
    p->ready_fd = tell;
    return record(p);
}

/* ---- the service's state ---- */

static int query(struct perfetto *p)
{
    enum { ANSWER_MS = 5000 };
    struct hw_error err = {0};
    struct hw_controller_event e;
    int status = connect_service(p);
    if (status != HW_EXIT_OK)
        return status;
    int rc = hw_controller_ask_status(p->controller, &err);
    while (rc == 0) {
        rc = hw_controller_next(p->controller, ANSWER_MS, &e, &err);
        if (rc == 0)
            rc = hw_fail(&err, HW_ETIMEOUT, 0, "the service does not answer");
        else if (rc > 0 && e.type == HW_CTL_STATUS_REPLY) {
            printf("%.*s\n", (int)e.body.n, (const char *)e.body.p);
            return HW_EXIT_OK;
        } else if (rc > 0)
            rc = 0;
    }
    return hw_cli_fail(p->cli, &err);
}

static int run(struct perfetto *p)
{
    const struct hw_opts *o = &p->cli->opts;
    if (hw_opt_flag(o, HW_OPT_QUERY) || hw_opt_flag(o, HW_OPT_QUERY_RAW))
        return query(p);
    int status = load_config(p);
    if (status != HW_EXIT_OK)
        return status;
    if (!hw_opt_text(o, HW_OPT_OUT) && !p->checked.output_path)
        return open_output(p); /* says what is missing */
    if (hw_opt_flag(o, HW_OPT_BACKGROUND) || hw_opt_flag(o, HW_OPT_BACKGROUND_WAIT))
        return in_background(p);
    return record(p);
}

int hw_cmd_perfetto(struct hw_cli *cli)
{
    struct perfetto p = {.cli = cli, .fd = -1, .ready_fd = -1};
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

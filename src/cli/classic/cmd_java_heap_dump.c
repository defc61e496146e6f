/*
 * java_heap_dump: heap graphs from the service, or from an embedded recorder if none runs
 * (doc/design/commands.md). It writes the same configuration as the original.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "cli/cli.h"
#include "codec/pb.h"
#include "daemon/recorder.h"
#include "record/build_config.h"
#include "record/controller.h"
#include "record/recording.h"
#include "schema/fields.h"

#include "base/banned.h"

enum { ONE_MS = 1000, WHEN_DONE_MS = 20000, STOP_TIMEOUT_MS = 100000, DISCARD = 2 };

struct job {
    struct hw_cli *cli;
    HW_VEC(uint64_t) pids;
    struct hw_strbuf config;
    struct hw_controller *controller;
    struct hw_recording recording;
    char *path; /* owned */
    bool when_done;
};

static uint32_t duration_of(const struct hw_opts *o)
{
    if (hw_opt_flag(o, HW_OPT_JHD_OOM))
        return (uint32_t)hw_opt_num(o, HW_OPT_JHD_OOM_SECONDS) * ONE_MS;
    if (hw_opt_num(o, HW_OPT_JHD_INTERVAL))
        return 0;
    return hw_opt_flag(o, HW_OPT_JHD_WHEN_DONE) ? WHEN_DONE_MS : ONE_MS;
}

static int parse_pids(struct job *j)
{
    const struct hw_optval *pids = &j->cli->opts.v[HW_OPT_JHD_PID];
    for (size_t i = 0; i < pids->list.n; i++) {
        uint64_t pid;
        if (hw_parse_uint(pids->list.v[i], &pid, NULL) < 0) {
            fprintf(stderr, "FATAL: invalid PID %s\n", pids->list.v[i]);
            return HW_EXIT_FAILED;
        }
        if (hw_vec_push(&j->pids, pid) < 0) {
            hw_cli_error(j->cli, NULL, "out of memory");
            return HW_EXIT_FAILED;
        }
    }
    return HW_EXIT_OK;
}

static int put_source(const struct job *j, struct hw_pb *w, struct hw_error *err)
{
    const struct hw_opts *o = &j->cli->opts;
    bool oom = hw_opt_flag(o, HW_OPT_JHD_OOM);
    struct hw_config_values values = {0};
    hw_config_take_options(&values, o);
    hw_config_set_numbers(&values, HW_JAVA_HPROF_FIELD(pid), j->pids.v, j->pids.n);
    if (oom)
        hw_config_set(&values, HW_JAVA_HPROF_FIELD(dump_oome_callstack), 1);
    int rc = hw_config_put_source(w, oom ? "android.java_hprof.oom" : "android.java_hprof",
                                  "java_hprof_config", &values, err);
    hw_config_values_done(&values);
    return rc;
}

static int build(struct job *j)
{
    const struct hw_opts *o = &j->cli->opts;
    struct hw_pb w = {0};
    struct hw_error err = {0};
    int status = parse_pids(j);
    if (status != HW_EXIT_OK)
        return status;
    hw_pb_begin(&w, HW_F_TraceConfig_buffers);
    hw_pb_uint(&w, HW_F_TraceConfig_BufferConfig_size_kb, hw_opt_num(o, HW_OPT_JHD_BUFFER) / 1024);
    hw_pb_uint(&w, HW_F_TraceConfig_BufferConfig_fill_policy, DISCARD);
    hw_pb_end(&w);
    int rc = put_source(j, &w, &err);
    if (duration_of(o))
        hw_pb_uint(&w, HW_F_TraceConfig_duration_ms, duration_of(o));
    hw_pb_uint(&w, HW_F_TraceConfig_data_source_stop_timeout_ms, STOP_TIMEOUT_MS);
    hw_strbuf_add(&j->config, w.buf.p, w.buf.n);
    if (rc == HW_OK && (hw_pb_failed(&w) || j->config.failed))
        rc = hw_fail(&err, HW_ENOMEM, 0, "configuration");
    hw_pb_done(&w);
    return rc < 0 ? hw_cli_fail(j->cli, &err) : HW_EXIT_OK;
}

/* ---- the recording ---- */

static int open_output(struct job *j)
{
    const char *out = hw_opt_text(&j->cli->opts, HW_OPT_JHD_OUT), *dir = getenv("TMPDIR");
    int fd;
    if (out) {
        j->path = strdup(out);
        fd = j->path ? open(out, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
    } else {
        if (asprintf(&j->path, "%s/java_heap_dump-XXXXXX", dir && *dir ? dir : "/tmp") < 0)
            j->path = NULL;
        fd = j->path ? mkostemp(j->path, O_CLOEXEC) : -1;
    }
    if (fd < 0)
        hw_cli_error(j->cli, NULL, "cannot write '%s': %s", j->path ? j->path : "the trace",
                     strerror(errno));
    return fd;
}

static void each(void *ctx)
{
    struct job *j = ctx;
    if (j->when_done && j->recording.last.n_dumps)
        hw_recording_stop(&j->recording);
}

static int record(struct job *j, int fd)
{
    struct hw_error err = {0};
    struct hw_recording *r = &j->recording;
    const struct hw_control_start start = {0};
    sigset_t mask;
    int rc = hw_controller_connect(NULL, &j->controller, &err);
    if (rc == HW_ENOTFOUND) {
        err = (struct hw_error){0};
        rc = hw_controller_spawn(hw_default_producer_socket(), &j->controller, &err);
    }
    if (rc == 0)
        rc = hw_recording_block_signals(&mask, &err);
    r->cli = j->cli;
    r->controller = j->controller;
    r->each = each;
    r->ctx = j;
    if (rc == 0)
        rc = hw_recording_start(r, &start, hw_bytes_of(j->config.p, j->config.n), fd, &err);
    if (rc == 0)
        rc = hw_recording_run(r, &err);
    if (rc < 0) {
        hw_cli_error(j->cli, NULL, "%s", err.text);
        return HW_EXIT_FAILED;
    }
    if (r->ended.status < 0 || r->recorder_gone) {
        hw_cli_error(j->cli, NULL, "the recording ended early: %s", r->reason);
        return HW_EXIT_FAILED;
    }
    return HW_EXIT_OK;
}

static int dump(struct job *j)
{
    int fd = open_output(j);
    if (fd < 0)
        return HW_EXIT_FAILED;
    int status = record(j, fd);
    if (status != HW_EXIT_OK)
        return status;
    if (j->recording.ended.n_dumps == 0 && hw_opt_flag(&j->cli->opts, HW_OPT_JHD_OOM)) {
        hw_cli_error(j->cli, "no-data", "no JVM ran out of memory within %u s",
                     duration_of(&j->cli->opts) / ONE_MS);
        return HW_EXIT_NO_DATA;
    }
    if (j->recording.ended.n_dumps == 0) {
        hw_cli_error(j->cli, "no-data", "no JVM was dumped; the trace in %s has no heap graph",
                     j->path);
        return HW_EXIT_NO_DATA;
    }
    printf("Wrote profile to %s\n", j->path);
    return HW_EXIT_OK;
}

int hw_cmd_java_heap_dump(struct hw_cli *cli)
{
    struct job j = {.cli = cli};
    struct hw_error err = {0};
    const struct hw_opts *o = &cli->opts;
    if (o->n_args || (!o->v[HW_OPT_JHD_PID].list.n && !o->v[HW_OPT_JHD_NAME].list.n)) {
        fputs("FATAL: Neither PID nor NAME given.\n", stderr);
        return HW_EXIT_FAILED;
    }
    j.when_done = hw_opt_flag(o, HW_OPT_JHD_WHEN_DONE) || hw_opt_flag(o, HW_OPT_JHD_OOM);
    int status = build(&j);
    if (status == HW_EXIT_OK && hw_opt_flag(o, HW_OPT_JHD_PRINT_CONFIG))
        status = hw_print_config(&j.config, &err) < 0 ? hw_cli_fail(cli, &err) : HW_EXIT_OK;
    else if (status == HW_EXIT_OK)
        status = dump(&j);
    hw_controller_free(j.controller);
    hw_recording_done(&j.recording);
    hw_strbuf_done(&j.config);
    hw_vec_done(&j.pids);
    free(j.path);
    return status;
}

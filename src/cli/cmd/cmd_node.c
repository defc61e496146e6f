/*
 * node: a heap snapshot of a running Node.js, by its own inspector.
 *
 * Signals that end us are blocked: an inspector that we opened is closed before we end.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/progress.h"
#include "cli/cli.h"
#include "cli/find_process.h"
#include "cli/parts/progress_line.h"
#include "config/command/units.h"
#include "config/config.h"
#include "node/inspector.h"
#include "node/snapshot.h"
#include "proc/pid.h"
#include "record/output.h"
#include "record/process_reads.h"

#include "base/banned.h"

enum { MAX_NAME = 256, END_MS = 1000 };

/* What a snapshot may take on disk: an object of 16 bytes is a line of some 30, a reference of 8 one of
 * some 15, and texts are there once; the rest is for small heaps. */
#define TIMES_MEMORY 16u
#define AT_LEAST     (UINT64_C(1) << 30)

struct job {
    struct hw_cli *cli;
    struct hw_pid pid;
    char name[MAX_NAME];
    struct hw_output output;
    struct hw_inspector inspector;
    struct hw_node_wait wait;
    uint64_t bytes, ns;
};

/* ---- which process ---- */

static struct hw_node_file look(const struct hw_pid *pid)
{
    struct hw_node_file file = {0};
    if (hw_read_files(pid, hw_node_inspect, &file, sizeof file) < 0)
        return (struct hw_node_file){0};
    return file;
}

/* Is a script of that name among its arguments? */
static bool has_script(const struct hw_pid *pid, const char *word)
{
    hw_autofree char *cmdline = NULL;
    size_t n = 0;
    if (hw_read_cmdline(pid, &cmdline, &n) < 0)
        return false;
    for (size_t at = strnlen(cmdline, n) + 1; at < n; at += strnlen(cmdline + at, n - at) + 1) {
        const char *slash = memrchr(cmdline + at, '/', strnlen(cmdline + at, n - at));
        if (strcmp(slash ? slash + 1 : cmdline + at, word) == 0)
            return true;
    }
    return false;
}

static bool is_meant(const struct hw_pid *pid, const char *word)
{
    char argv0[MAX_NAME];
    hw_read_argv0(pid, argv0, sizeof argv0);
    return (hw_config_name_matches(word, argv0) || has_script(pid, word)) && look(pid).is_node;
}

static void port_of(const struct job *j, struct hw_node_port *out)
{
    hw_autofree char *cmdline = NULL, *environ = NULL;
    size_t n = 0, n_environ = 0;
    const struct hw_opts *o = &j->cli->opts;
    if (hw_read_cmdline(&j->pid, &cmdline, &n) < 0)
        n = 0;
    if (hw_read_environ(&j->pid, &environ, &n_environ) < 0)
        n_environ = 0;
    hw_node_port(cmdline, n, environ, n_environ, out);
    if (hw_opt_num(o, HW_OPT_NODE_PORT))
        *out = (struct hw_node_port){.port = (uint16_t)hw_opt_num(o, HW_OPT_NODE_PORT)};
}

/* ---- the snapshot ---- */

static uint64_t most_bytes(const struct hw_pid *pid)
{
    struct hw_proc_status st;
    if (hw_proc_status(pid->dir, &st) < 0)
        return AT_LEAST;
    return AT_LEAST + (st.vm_rss_kb + st.vm_swap_kb) * 1024 * TIMES_MEMORY;
}

/* A connection is closed some moments before its process is gone. */
static bool has_ended(const struct hw_pid *pid)
{
    struct pollfd p = {.fd = pid->pidfd, .events = POLLIN};
    return poll(&p, 1, END_MS) > 0;
}

static int take(struct job *j, struct hw_error *err)
{
    struct hw_progress progress;
    struct hw_progress_line waiting = {0};
    struct hw_snapshot_job job = {
        .fd = j->output.fd, .max_bytes = most_bytes(&j->pid), .progress = &progress};
    char what[64];
    uint64_t begun = hw_now_monotonic_ns();
    hw_progress_init(&progress, 100);
    (void)snprintf(what, sizeof what, "taking a heap snapshot of %d", j->pid.pid);
    if (!hw_opt_flag(&j->cli->opts, HW_OPT_QUIET))
        hw_progress_line_begin(&waiting, what, &progress);
    int rc = hw_snapshot_take(&j->inspector.link, &job, err);
    hw_progress_line_end(&waiting);
    if (rc < 0)
        hw_error_prefix(err, "snapshot of process %d", j->pid.pid);
    j->bytes = job.bytes;
    j->ns = hw_now_monotonic_ns() - begun;
    return rc;
}

static int open_and_take(struct job *j, struct hw_error *err)
{
    struct hw_node_port port;
    const struct hw_opts *o = &j->cli->opts;
    const struct hw_node_file file = look(&j->pid);
    int rc = hw_node_check(&j->pid, &file, err);
    if (rc == HW_OK)
        rc = hw_output_open_as(".heapsnapshot", hw_opt_text(o, HW_OPT_NODE_OUTPUT), j->name,
                               j->pid.pid, hw_opt_flag(o, HW_OPT_FORCE), &j->output, err);
    if (rc != HW_OK)
        return rc;
    port_of(j, &port);
    rc = hw_inspector_open(&j->pid, &port, &j->wait, &j->inspector, err);
    if (rc == HW_OK && j->inspector.is_ours && !hw_opt_flag(o, HW_OPT_QUIET))
        fprintf(
            stderr,
            "until the snapshot is taken, every user of this machine can reach the inspector of "
            "process %d (port %u) and run code in the program\n",
            j->pid.pid, j->inspector.listener.here.port);
    if (rc == HW_OK)
        rc = take(j, err);
    if (rc == HW_EGONE && has_ended(&j->pid))
        (void)hw_fail(err, rc, 0,
                      "process %d ended during its snapshot, which takes memory: the kernel's log "
                      "or its own standard error tells why",
                      j->pid.pid);
    return rc;
}

static void tell(const struct job *j)
{
    char bytes[HW_UNIT_MAX], time[HW_UNIT_MAX];
    if (hw_opt_flag(&j->cli->opts, HW_OPT_QUIET))
        return;
    fprintf(stderr, "%s; the program stood still for up to %s\n",
            hw_fmt_bytes(bytes, (double)j->bytes), hw_fmt_duration(time, (int64_t)j->ns));
    if (j->output.to_stdout)
        return;
    fprintf(stderr, "wrote %s\n", j->output.final_name);
    hw_cli_hint_path("heapwise graph", j->output.final_name);
}

static void block_signals(sigset_t *ends)
{
    (void)sigemptyset(ends);
    (void)sigaddset(ends, SIGINT);
    (void)sigaddset(ends, SIGTERM);
    (void)sigaddset(ends, SIGHUP);
    (void)sigaddset(ends, SIGQUIT);
    (void)sigprocmask(SIG_BLOCK, ends, NULL);
}

static int dump(struct job *j)
{
    struct hw_error err = {0}, open = {0};
    sigset_t ends;
    block_signals(&ends);
    int rc = open_and_take(j, &err);
    int rc_close = j->inspector.wait ? hw_inspector_close(&j->inspector, &open) : HW_OK;
    if (rc == HW_OK)
        rc = hw_output_finish(&j->output, j->name, j->pid.pid, &err);
    else
        hw_output_discard(&j->output);
    int status = rc == HW_OK ? HW_EXIT_OK : HW_EXIT_FAILED;
    if (rc < 0)
        status = hw_cli_fail(j->cli, &err);
    else if (rc == HW_OK)
        tell(j);
    if (rc == HW_NODE_STOPPED) {
        const struct timespec now = {0};
        int signal = sigtimedwait(&ends, NULL, &now);
        hw_cli_error(j->cli, NULL, "stopped; no snapshot was written");
        status = HW_EXIT_SIGNAL + (signal > 0 ? signal : SIGINT);
    }
    if (rc_close < 0)
        hw_cli_error(j->cli, hw_errc_name(open.code), "%s", open.text);
    return rc_close < 0 && status == HW_EXIT_OK ? HW_EXIT_INCOMPLETE : status;
}

int hw_cmd_node(struct hw_cli *cli)
{
    static const struct hw_wanted_process wanted = {
        .kind = "Node.js process",
        .kinds = "Node.js processes",
        .command = "heapwise node dump",
        .names = "it is called by its program or its script (server.js)",
        .is_meant = is_meant,
    };
    struct job j = {.cli = cli, .pid = HW_PID_NONE, .output = HW_OUTPUT_NONE};
    const struct hw_opts *o = &cli->opts;
    if (o->n_args != 2 || strcmp(o->args[0], "dump") != 0) {
        hw_cli_error(cli, NULL, "one process at a time: heapwise node dump PID|NAME");
        return hw_cli_usage_exit(cli);
    }
    j.wait = (struct hw_node_wait){hw_opt_num(o, HW_OPT_NODE_TIMEOUT), hw_output_stop_requested};
    int status = hw_find_process(cli, &wanted, o->args[1], &j.pid);
    if (status == HW_EXIT_OK) {
        hw_read_argv0(&j.pid, j.name, sizeof j.name);
        status = dump(&j);
    }
    hw_output_done(&j.output);
    hw_pid_done(&j.pid);
    return status;
}

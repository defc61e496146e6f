/*
 * java: heap graphs of running JVMs.
 *
 * No recorder is needed: the JVM is asked, forks, and the child walks the heap. The result is a
 * trace like any other, with one graph per dump.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "cli/cli.h"
#include "cli/find_process.h"
#include "cli/parts/progress_line.h"
#include "config/command/units.h"
#include "config/config.h"
#include "daemon/java/java_dump.h"
#include "daemon/procfs_packets.h"
#include "import/import.h"
#include "java/jvm/jvm_attach.h"
#include "java/name.h"
#include "proc/pid.h"
#include "proc/smaps.h"
#include "record/diagnosis.h"
#include "record/output.h"
#include "record/process_reads.h"
#include "trace/writer.h"

#include "base/banned.h"

enum {
    N_SEQUENCES = 1,
    MAX_NAME = 256,
    STALL_MS = 300,
    MAX_FAILED = 3,
    AFTER_FAILURE_NS = 500000000,
    FORK_FELT_NS = 50000000
};

struct job {
    struct hw_cli *cli;
    struct hw_pid pid;
    char name[MAX_NAME];
    struct hw_output output;
    struct hw_trace_writer *writer;
    struct hw_java_dump *dump;
    uint32_t sequence;
    unsigned n_dumps;
};

/* ---- which process ---- */

static void name_of(const struct hw_pid *pid, char *out, size_t max)
{
    hw_autofree char *cmdline = NULL;
    size_t n = 0;
    out[0] = 0;
    if (hw_read_cmdline(pid, &cmdline, &n) == 0 && n)
        hw_java_main_name(cmdline, n, out, max);
    if (!out[0])
        hw_read_argv0(pid, out, max);
}

static bool is_meant(const struct hw_pid *pid, const char *word)
{
    char argv0[MAX_NAME], name[MAX_NAME];
    struct hw_jvm jvm;
    name_of(pid, name, sizeof name);
    hw_read_argv0(pid, argv0, sizeof argv0);
    if (!hw_java_name_matches(word, name) && !hw_config_name_matches(word, argv0))
        return false;
    return hw_jvm_inspect(pid, &jvm, NULL) == 0;
}

/* ---- the trace ---- */

static int begin_trace(struct job *j, struct hw_error *err)
{
    const struct hw_opts *o = &j->cli->opts;
    int rc = hw_output_open(hw_opt_text(o, HW_OPT_OUTPUT), j->name, j->pid.pid,
                            hw_opt_flag(o, HW_OPT_FORCE), &j->output, err);
    if (rc == 0)
        rc = hw_trace_writer_new(j->output.fd, &j->writer, err);
    if (rc < 0)
        return rc;
    hw_trace_writer_set_compression(j->writer, HW_TRACE_DEFLATE, 0);
    j->sequence = hw_trace_writer_sequence(j->writer);
    rc = hw_trace_write_preamble(j->writer, hw_bytes_of("", 0), 0, 0, N_SEQUENCES, err);
    if (rc == 0)
        rc = hw_write_process(j->writer, j->sequence, &j->pid, err);
    return rc;
}

static int end_trace(struct job *j, struct hw_error *err)
{
    int rc = hw_trace_write_stats(j->writer, /* n_missed = */ 0, err);
    if (rc == 0)
        rc = hw_trace_writer_flush(j->writer, err);
    if (rc == 0)
        rc = hw_output_finish(&j->output, j->name, j->pid.pid, err);
    return rc;
}

/* ---- dumps ---- */

static void tell(const struct job *j, const struct hw_java_dump_figures *f)
{
    char objects[HW_UNIT_MAX], bytes[HW_UNIT_MAX], stop[HW_UNIT_MAX], walk[HW_UNIT_MAX];
    char native[HW_UNIT_MAX];
    struct hw_strbuf steps = {0};
    if (hw_opt_flag(&j->cli->opts, HW_OPT_QUIET))
        return;
    fprintf(stderr, "%s objects, %s; the JVM was paused for %s at most, the walk took %s\n",
            hw_fmt_count(objects, (double)f->sums.objects),
            hw_fmt_bytes(bytes, (double)f->sums.bytes), hw_fmt_duration(stop, (int64_t)f->call_ns),
            hw_fmt_duration(walk, (int64_t)f->walk_ns));
    if (f->sums.native_bytes)
        fprintf(stderr, "%s more outside of the heap belong to objects in it\n",
                hw_fmt_bytes(native, (double)f->sums.native_bytes));
    if (f->fork_ns > FORK_FELT_NS && j->n_dumps == 1)
        hw_cli_hint("a fork copies a table entry for each page in memory; with "
                    "-XX:+UseTransparentHugePages there are few");
    hw_java_dump_steps(j->dump, &steps);
    if (steps.n)
        fprintf(stderr, "the usual way did not work: %s\n", steps.p);
    hw_strbuf_done(&steps);
    if (f->sums.stale)
        fprintf(stderr,
                "objects of classes that were loaded as the dump began, shown as <unknown class>: "
                "%llu\n",
                (unsigned long long)f->sums.stale);
    if (f->sums.untold_roots)
        fprintf(stderr, "roots whose thread is not listed, as there are too many: %llu\n",
                (unsigned long long)f->sums.untold_roots);
    if (f->sums.unnamed_roots)
        fprintf(stderr, "roots whose method is not listed, as there are too many: %llu\n",
                (unsigned long long)f->sums.unnamed_roots);
}

static int write_smaps(struct job *j, uint64_t boottime_ns, struct hw_error *err)
{
    struct hw_smaps m;
    int rc = hw_smaps_read(j->pid.dir, /* rollup = */ 0, &m);
    if (rc < 0)
        return hw_fail(err, rc, 0, "memory map of %d:", j->pid.pid);
    rc = hw_write_smaps(j->writer, j->sequence, boottime_ns, j->pid.pid, &m, err);
    hw_smaps_done(&m);
    return rc;
}

static int dump_once(struct job *j, struct hw_error *err)
{
    struct hw_java_dump_figures f;
    struct hw_progress_line waiting = {0};
    char what[64];
    (void)snprintf(what, sizeof what, "walking the heap of %d", j->pid.pid);
    if (!hw_opt_flag(&j->cli->opts, HW_OPT_QUIET))
        hw_progress_line_begin(&waiting, what, /* progress = */ NULL);
    int rc = hw_java_dump_take(j->dump, &f, err);
    hw_progress_line_end(&waiting);
    if (rc == 0 && hw_opt_flag(&j->cli->opts, HW_OPT_JAVA_SMAPS))
        rc = write_smaps(j, f.boottime_ns, err);
    if (rc == 0)
        rc = hw_java_dump_write(j->dump, j->writer, j->sequence, &f, /* moment = */ NULL, err);
    if (rc == 0) {
        j->n_dumps++;
        tell(j, &f);
    }
    return rc;
}

/* Sleeps until done or until a signal that ends us. */
static bool wait_for(uint64_t ns, const sigset_t *ends)
{
    struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    return sigtimedwait(ends, NULL, &t) < 0;
}

static int dump_repeatedly(struct job *j, struct hw_error *err)
{
    const struct hw_opts *o = &j->cli->opts;
    uint64_t every = hw_opt_num(o, HW_OPT_JAVA_INTERVAL) * 1000000;
    uint64_t all = hw_opt_num(o, HW_OPT_JAVA_DURATION) * 1000000;
    uint64_t begun = hw_now_monotonic_ns(), next = begun;
    unsigned n_failed = 0; /* in a row */
    sigset_t ends;
    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGINT);
    (void)sigaddset(&ends, SIGTERM);
    if (every)
        (void)sigprocmask(SIG_BLOCK, &ends, NULL); /* checked between dumps */
    for (;;) {
        int rc = dump_once(j, err);
        n_failed = rc < 0 ? n_failed + 1 : 0;
        if (rc < 0 && (!every || j->n_dumps == 0))
            return rc;
        if (rc < 0) { /* the dumps taken so far stay */
            if (hw_pid_alive(&j->pid))
                fprintf(stderr, "one dump is missing: %s\n", err->text);
            if (n_failed == MAX_FAILED || !hw_pid_alive(&j->pid))
                return HW_OK;
            *err = (struct hw_error){0};
        }
        uint64_t now = hw_now_monotonic_ns();
        next += every;
        if (next < now)
            next = now; /* the dump took longer than the interval */
        if (n_failed && next < now + AFTER_FAILURE_NS)
            next = now + AFTER_FAILURE_NS;
        if (!every || (all && next - begun > all) || !wait_for(next - now, &ends))
            return HW_OK;
    }
}

static int dump_graphs(struct job *j)
{
    const struct hw_opts *o = &j->cli->opts;
    const struct hw_optval *ignore = &o->v[HW_OPT_JAVA_IGNORE];
    struct hw_error err = {0};
    struct hw_java_dump_options options = {
        .pid = &j->pid,
        .allow_pause = hw_opt_flag(o, HW_OPT_JAVA_PAUSE),
        .read_hprof = hw_import_fd,
        .fail = (uint32_t)hw_opt_num(o, HW_OPT_JAVA_STALL),
        .stall_ms = hw_opt_num(o, HW_OPT_JAVA_STALL) ? STALL_MS : 0,
        .ignored_types = (const char *const *)ignore->list.v,
        .n_ignored = ignore->list.n,
    };
    int rc = hw_java_dump_open(&options, &j->dump, &err);
    if (rc == 0)
        rc = begin_trace(j, &err);
    if (rc == 0)
        rc = dump_repeatedly(j, &err);
    if (rc == 0)
        rc = end_trace(j, &err);
    if (rc < 0) {
        hw_output_discard(&j->output);
        return hw_cli_fail(j->cli, &err);
    }
    if (!j->output.to_stdout && !hw_opt_flag(o, HW_OPT_QUIET)) {
        fprintf(stderr, "wrote %s\n", j->output.final_name);
        hw_cli_hint_path("heapwise graph", j->output.final_name);
    }
    return HW_EXIT_OK;
}

static int dump_hprof(struct job *j, const char *path)
{
    struct hw_error err = {0};
    struct hw_jvm jvm;
    hw_autofree char *full = NULL;
    char here[4096];
    if (path[0] != '/' && getcwd(here, sizeof here)) {
        if (asprintf(&full, "%s/%s", here, path) < 0)
            full = NULL;
        path = full ? full : path;
    }
    if (hw_jvm_inspect(&j->pid, &jvm, &err) ||
        hw_jvm_dump_heap(&jvm, path, /* live = */ false, &err))
        return hw_cli_fail(j->cli, &err);
    if (!hw_opt_flag(&j->cli->opts, HW_OPT_QUIET)) {
        fprintf(stderr, "the JVM wrote %s\n", path);
        hw_cli_hint_path("heapwise graph", path);
    }
    return HW_EXIT_OK;
}

int hw_cmd_java(struct hw_cli *cli)
{
    struct job j = {.cli = cli, .pid = HW_PID_NONE, .output = HW_OUTPUT_NONE};
    const struct hw_opts *o = &cli->opts;
    if (o->n_args != 2 || strcmp(o->args[0], "dump") != 0) {
        hw_cli_error(cli, NULL, "one process at a time: heapwise java dump PID|NAME");
        return hw_cli_usage_exit(cli);
    }
    static const struct hw_wanted_process wanted = {
        .kind = "JVM",
        .kinds = "JVMs",
        .command = "heapwise java dump",
        .names = "a JVM's name is its main class, its archive or the program",
        .is_meant = is_meant,
    };
    int status = hw_find_process(cli, &wanted, o->args[1], &j.pid);
    const char *hprof = hw_opt_text(o, HW_OPT_JAVA_HPROF);
    if (status == HW_EXIT_OK) {
        name_of(&j.pid, j.name, sizeof j.name);
        status = hprof ? dump_hprof(&j, hprof) : dump_graphs(&j);
    }
    hw_java_dump_free(j.dump);
    hw_trace_writer_free(j.writer);
    hw_output_done(&j.output);
    hw_pid_done(&j.pid);
    return status;
}

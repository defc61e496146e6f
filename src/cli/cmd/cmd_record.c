/*
 * record: an embedded recorder, the program as its child, one file.
 *
 * The program is forked first and held, because the file's name and the recorder need its pid
 * before its first instruction.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/log.h"
#include "base/text/json_out.h"
#include "base/text/text_parts.h"
#include "cli/cli.h"
#include "cli/parts/open_profile.h"
#include "cli/parts/ui.h"
#include "cli/report/recorded.h"
#include "cli/report/report.h"
#include "config/command/explain.h"
#include "daemon/recorder.h"
#include "import/import.h"
#include "open/export_file.h"
#include "open/symbol_options.h"
#include "record/build_config.h"
#include "record/diagnosis.h"
#include "record/output.h"
#include "record/record_options.h"
#include "record/recording.h"
#include "record/running.h"

#include "base/banned.h"
#include "cli/parts/json_page.h"

#define ALL_NAME "all" /* in the file's name when several programs are recorded */

struct record {
    struct hw_cli *cli;
    struct hw_strbuf config;
    char *library, *program;
    struct hw_controller *controller;
    struct hw_launch launch;
    struct hw_output output;
    int infra_rc; /* of --memory-infra */
    struct hw_recording recording;
    hw_running_pids pids; /* attach: the processes named */
    bool all, attach, launched;
    bool told; /* symbols added, report shown: before the program ends if the recording ended
                  first */
    const struct hw_seen_target *target; /* program that the output is named after; NULL = none */
    struct hw_finding hidden;            /* why malloc was not seen, though mappings were */
    bool has_graph;                      /* of a Java heap: data without a sample */
    int named;                           /* result of renaming the file */
    struct hw_error name_error;
};

static struct hw_record_words words_of(const struct record *r)
{
    return (struct hw_record_words){.opts = &r->cli->opts,
                                    .attach = r->attach,
                                    .all =
                                        hw_opt_flag(&r->cli->opts, HW_OPT_RECORD_ALL) && !r->attach,
                                    .pids = r->pids.v,
                                    .n_pids = r->pids.n};
}

static int usage(const struct record *r, const char *text)
{
    hw_cli_error(r->cli, NULL, "%s", text);
    hw_cli_hint("heapwise help %s", r->attach ? "attach" : "record");
    return HW_EXIT_USAGE;
}

/* Conflicting options; an exit code or 0. */
static int check_options(struct record *r)
{
    struct hw_error err = {0};
    struct hw_record_words w = words_of(r);
    return hw_record_check(&w, &err) < 0 ? usage(r, err.text) : HW_EXIT_OK;
}

/* What to make of the trace after the recording. */
static int check_memory_infra(const struct record *r)
{
    const char *path = hw_opt_text(&r->cli->opts, HW_OPT_MEMORY_INFRA);
    const char *trace = hw_opt_text(&r->cli->opts, HW_OPT_OUTPUT);
    struct hw_error err = {0};
    if (!path)
        return HW_EXIT_OK;
    if (trace && strcmp(trace, "-") == 0)
        return usage(r, "--memory-infra reads the trace, which goes to standard output: name a "
                        "file with -o");
    return hw_output_check(path, &err) < 0 ? hw_cli_fail(r->cli, &err) : HW_EXIT_OK;
}

/* Everything that can fail before a process is created; an exit code or 0. */
static int prepare(struct record *r)
{
    struct hw_error err = {0};
    const struct hw_opts *o = &r->cli->opts;
    struct hw_record_words w = words_of(r);
    int rc = hw_record_config(&w, &r->config, &err);
    if (rc < 0) {
        hw_cli_error(r->cli, NULL, "%s", err.text);
        return HW_EXIT_USAGE;
    }
    if (hw_opt_flag(o, HW_OPT_PRINT_CONFIG))
        return HW_EXIT_OK;
    int status = check_memory_infra(r);
    if (status != HW_EXIT_OK || r->all)
        return status;
    if (o->n_args == 0)
        return usage(r, "no command given");
    r->program = hw_launch_find_program(o->args[0]);
    if (!r->program) {
        hw_cli_error(r->cli, NULL, "command not found: '%s'", o->args[0]);
        return HW_EXIT_NOT_FOUND;
    }
    rc = hw_launch_find_library(hw_opt_text(o, HW_OPT_PRELOAD_LIBRARY), r->program, &r->library,
                                &err);
    if (rc < 0) {
        hw_cli_error(r->cli, "library-not-found", "%s", err.text);
        return HW_EXIT_FAILED;
    }
    return HW_EXIT_OK;
}

/* The program that was really profiled. */
static const struct hw_seen_target *main_target(struct record *r)
{
    size_t n = hw_recording_programs(&r->recording);
    const struct hw_seen_target *t = n > 1 ? hw_recorded_most(&r->recording, r->output.part) : NULL;
    return t ? t : hw_recording_main_target(&r->recording);
}

/* Not if only mappings are asked for. */
static bool wants_malloc(const struct hw_opts *o)
{
    const struct hw_optval *heaps = &o->v[HW_OPT_HEAP];
    bool wants = !heaps->set;
    for (size_t i = 0; heaps->set && i < heaps->list.n; i++)
        wants |= strncmp(heaps->list.v[i], "mmap.", 5) != 0;
    return wants;
}

/* An allocator inside the program is not seen, but what it maps is: no empty file, and no profile
 * of malloc. */
static void look_for_malloc(struct record *r)
{
    if (!r->launched || !r->target || !r->target->name || !r->output.part ||
        !wants_malloc(&r->cli->opts) || !hw_recorded_only_mappings(r->output.part))
        return;
    hw_autofree char *program = hw_recorded_program(r->output.part, hw_base_name(r->target->name));
    const char *path = program ? program : r->program;
    hw_diagnose_file(path, /* loads = */ false, &r->hidden);
}

/* The program may run on for days after the recording: results are then shown at once. */
static bool program_runs_on(const struct record *r)
{
    siginfo_t i = {0};
    return r->launched && r->launch.pid > 0 &&
           waitid(P_PID, (id_t)r->launch.pid, &i, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           i.si_pid == 0;
}

/* Where the trace was meant to be, or where it could be saved. */
static bool has_file(const struct record *r)
{
    return r->named == 0 || r->output.rescued;
}

static void tell(struct record *r);

/* As soon as the recording is complete: the program may run on for days. */
static void on_written(void *ctx)
{
    struct record *r = ctx;
    r->target = main_target(r);
    look_for_malloc(r);
    r->has_graph = hw_opt_flag(&r->cli->opts, HW_OPT_JAVA_GRAPH) && r->output.part &&
                   hw_recorded_graph(r->output.part);
    int pid = r->target ? r->target->pid : r->launched ? r->launch.pid : (int)getpid();
    const char *name = r->target && r->target->name ? r->target->name
                       : r->launched                ? r->cli->opts.args[0]
                                                    : ALL_NAME;
    if (r->all && hw_recording_programs(&r->recording) > 1) {
        pid = (int)getpid();
        name = ALL_NAME;
    }
    r->named = hw_output_finish(&r->output, name, pid, &r->name_error);
    if (r->named < 0)
        hw_cli_error(r->cli, "output-failed", "%s", r->name_error.text);
    if (has_file(r) && program_runs_on(r))
        tell(r);
}

/* Shorter intervals were usually meant in seconds. */
enum { LEAST_STEP_MS = 50 };

static void on_started(void *ctx)
{
    const struct record *r = ctx;
    const uint64_t step_ms = hw_opt_num(&r->cli->opts, HW_OPT_CONTINUOUS);
    if (hw_opt_flag(&r->cli->opts, HW_OPT_QUIET))
        return;
    if (step_ms && step_ms < LEAST_STEP_MS)
        hw_log(WARN,
               "a dump every %llu ms costs much time and makes a large file; a bare number is "
               "milliseconds: "
               "-c %llus is seconds",
               (unsigned long long)step_ms, (unsigned long long)step_ms);
    if (r->launched && isatty(STDERR_FILENO))
        fprintf(stderr, "recording %s (%d) into %s; it ends with the program, or by Ctrl-C\n",
                r->cli->opts.args[0], r->launch.pid,
                r->output.to_stdout ? "standard output" : r->output.final_name);
    if (r->attach)
        fprintf(stderr, "attaching to %zu process%s; Ctrl-C ends the recording, %s on\n", r->pids.n,
                r->pids.n == 1 ? "" : "es", r->pids.n == 1 ? "the process runs" : "they run");
    else if (hw_opt_flag(&r->cli->opts, HW_OPT_RECORD_ALL))
        fputs("recording every process that may be profiled, and each new one; Ctrl-C ends it\n",
              stderr);
    else if (r->all)
        fputs("recording the processes of that name, and each new one; Ctrl-C ends it\n", stderr);
}

static void on_outlived(void *ctx)
{
    const struct record *r = ctx;
    char who[256];
    size_t n = hw_recorded_offspring(&r->recording, /* living = */ true, who, sizeof who);
    if (!hw_opt_flag(&r->cli->opts, HW_OPT_QUIET))
        fprintf(stderr,
                "'%s' has ended, and the recording lasts as long as what it started "
                "(--follow-fork)%s%s; "
                "Ctrl-C ends it\n",
                r->cli->opts.args[0], n ? ": " : "", who);
}

static void note_left_out(const struct record *r)
{
    char who[256];
    size_t n = hw_recorded_offspring(&r->recording, /* living = */ false, who, sizeof who);
    if (r->launched && n)
        fprintf(stderr, "note: %zu child process%s not recorded: %s%s\n", n,
                n == 1 ? " was" : "es were", who,
                r->recording.follow_fork ? "" : "; --follow-fork records what a command starts");
}

/* --all: preloaded programs know the service's socket, so we listen there. */
static int set_up_all(struct record *r, struct hw_error *err)
{
    const struct hw_opts *o = &r->cli->opts;
    sigset_t mask;
    int rc = hw_recording_block_signals(&mask, err);
    if (rc == 0)
        rc = hw_controller_connect(NULL, &r->controller, err);
    if (rc == HW_ENOTFOUND)
        rc = hw_controller_spawn(r->attach ? NULL : hw_default_producer_socket(), &r->controller,
                                 err);
    if (rc == 0)
        rc = hw_output_open(hw_opt_text(o, HW_OPT_OUTPUT), ALL_NAME, (int)getpid(),
                            hw_opt_flag(o, HW_OPT_FORCE), &r->output, err);
    return rc;
}

static int set_up_command(struct record *r, struct hw_error *err)
{
    const struct hw_opts *o = &r->cli->opts;
    const char *path = hw_opt_text(o, HW_OPT_OUTPUT);
    sigset_t mask;
    struct hw_launch_options launch = {
        .argv = o->args,
        .library = r->library,
        .python_allocators = hw_opt_flag(o, HW_OPT_PYTHON_ALLOCATORS),
        .stdout_to_stderr = path && strcmp(path, "-") == 0,
        .mask = &mask,
    };
    int rc = hw_recording_block_signals(&mask, err);
    if (rc == 0)
        rc = hw_controller_spawn(NULL, &r->controller, err);
    if (rc == 0)
        rc = hw_launch_prepare(&launch, hw_controller_socket(r->controller), &r->launch, err);
    if (rc < 0)
        return rc;
    r->launched = true;
    r->recording.launch = &r->launch;
    return hw_output_open(path, o->args[0], r->launch.pid, hw_opt_flag(o, HW_OPT_FORCE), &r->output,
                          err);
}

static int set_up(struct record *r, struct hw_error *err)
{
    const struct hw_opts *o = &r->cli->opts;
    int rc = r->all ? set_up_all(r, err) : set_up_command(r, err);
    if (rc < 0)
        return rc;
    r->recording.cli = r->cli;
    r->recording.controller = r->controller;
    r->recording.follow_fork = hw_opt_flag(o, HW_OPT_FOLLOW_FORK);
    r->recording.stop_with_program = !r->all;
    r->recording.awaited = r->pids.v;
    r->recording.n_awaited = r->pids.n;
    /* Do not write into the program's own output on the same terminal. */
    r->recording.progress = !hw_opt_flag(o, HW_OPT_QUIET) && (r->all || !isatty(STDOUT_FILENO));
    r->recording.started = on_started;
    r->recording.written = on_written;
    r->recording.outlived = on_outlived;
    r->recording.ctx = r;
    struct hw_record_words w = words_of(r);
    struct hw_control_start start = hw_record_start(&w);
    return hw_recording_start(&r->recording, &start, hw_bytes_of(r->config.p, r->config.n),
                              r->output.fd, err);
}

/* ---- summary and exit status ---- */

static bool is_empty(const struct record *r)
{
    return !r->has_graph && hw_recording_is_empty(&r->recording, r->target);
}

/* A graph in the file is what was asked for, too. */
static bool lacks_malloc(const struct record *r)
{
    return is_empty(r) || (r->hidden.code && !r->has_graph);
}

static void write_summary(const struct record *r, const struct hw_seen_target *t, int status)
{
    const struct hw_control_ended *e = &r->recording.ended;
    struct hw_json j;
    hw_json_page_begin(&j, stdout, "recording", 0);
    hw_json_kv_str(&j, "trace", has_file(r) ? r->output.final_name : r->output.part);
    hw_json_kv_int(&j, "pid", t ? t->pid : -1);
    hw_json_kv_str(&j, "name", t ? t->name : NULL);
    hw_json_kv_uint(&j, "bytes", e->bytes_written);
    hw_json_kv_uint(&j, "samples", e->n_samples);
    hw_json_kv_uint(&j, "lost", e->n_lost);
    hw_json_kv_uint(&j, "dumps", e->n_dumps);
    hw_json_kv_uint(&j, "processes", e->n_targets);
    hw_json_kv_uint(&j, "missed_processes", e->n_missed);
    hw_json_kv_uint(&j, "unrecorded_processes",
                    hw_recorded_offspring(&r->recording, /* living = */ false, NULL, 0));
    hw_json_kv_bool(&j, "complete",
                    r->recording.is_ended && e->status == 0 && e->n_lost == 0 && e->n_missed == 0);
    hw_json_kv_bool(&j, "empty", lacks_malloc(r));
    hw_json_kv_int(&j, "program_status", status);
    (void)hw_json_page_end(&j); /* main notices a broken standard output */
}

/* The program's own status as a shell reports it. */
static int program_exit(const struct hw_recording *r)
{
    int s = r->program_status;
    if (s == -1)
        return HW_EXIT_OK; /* gave up waiting: it runs on */
    return WIFSIGNALED(s) ? HW_EXIT_SIGNAL + WTERMSIG(s) : WEXITSTATUS(s);
}

static int recording_exit(const struct record *r, bool empty)
{
    const struct hw_recording *rec = &r->recording;
    if (rec->recorder_gone || rec->ended.status < 0 || r->named < 0 || r->infra_rc < 0)
        return HW_EXIT_FAILED;
    if (empty)
        return HW_EXIT_NO_DATA;
    return rec->ended.n_lost || rec->ended.n_missed ? HW_EXIT_INCOMPLETE : HW_EXIT_OK;
}

/*
 * If the program ended by itself, its status is returned whatever became of the recording: whoever
 * starts it through us must see no difference. Without one, the recording's status counts.
 */
static int final_status(const struct record *r, bool empty)
{
    int own = recording_exit(r, empty);
    if (hw_opt_flag(&r->cli->opts, HW_OPT_NO_PASSTHROUGH))
        return own;
    bool by_itself =
        r->launched && r->recording.program_status != -1 && WIFEXITED(r->recording.program_status);
    if (r->recording.n_interrupts && !by_itself)
        return empty || own == HW_EXIT_FAILED ? own : HW_EXIT_OK; /* Ctrl-C: data was written */
    return r->launched && r->recording.program_status != -1 ? program_exit(&r->recording) : own;
}

static void tell_result(const struct record *r, bool empty)
{
    struct stat st;
    if (hw_opt_flag(&r->cli->opts, HW_OPT_QUIET) || r->output.to_stdout ||
        stat(r->output.final_name, &st) < 0)
        return;
    struct hw_strbuf word = {0};
    hw_strbuf_add_shell_word(&word, r->output.final_name);
    fprintf(stderr, "wrote %s (%.1f KiB)\n", r->output.final_name, (double)st.st_size / 1024);
    if (!empty)
        fprintf(stderr, "next: heapwise %s %s\n",
                hw_opt_flag(&r->cli->opts, HW_OPT_NO_REPORT) ? "report" : "ui",
                word.p ? word.p : r->output.final_name);
    hw_strbuf_done(&word);
}

/* The last message before a wait that would otherwise be puzzling. */
static void tell_waiting(const struct record *r)
{
    if (!program_runs_on(r) || r->recording.n_interrupts > 1)
        return;
    bool whole = r->recording.is_ended && r->recording.ended.status >= 0;
    fprintf(stderr,
            "\nThe recording %s. '%s' runs on without being recorded (pid %d);\n"
            "this command waits for its end. Ctrl-C ends both; to end it from elsewhere: kill %d\n",
            whole ? "is complete" : "ended early", r->cli->opts.args[0], r->launch.pid,
            r->launch.pid);
}

static void show_report(const struct record *r)
{
    const struct hw_opts *o = &r->cli->opts;
    if (hw_opt_flag(o, HW_OPT_QUIET))
        return;
    if (r->output.to_stdout || hw_opt_flag(o, HW_OPT_NO_REPORT) || hw_opt_flag(o, HW_OPT_JSON)) {
        hw_recorded_say_lost(&r->recording);
        return;
    }
    /* On standard error: standard output belongs to the program, byte for byte. */
    struct hw_report_options options = hw_report_defaults(r->cli, STDERR_FILENO);
    options.named = options.is_followed = true;
    options.path = r->output.final_name;
    fputc('\n', stderr);
    (void)hw_report_file(r->cli, r->output.final_name, &options, stderr); /* prints its errors */
}

/* Adds source lines while the binaries are there: they may be gone when the trace is read. */
static void add_names(const struct record *r)
{
    if (r->output.to_stdout || hw_opt_flag(&r->cli->opts, HW_OPT_NO_SYMBOLIZE))
        return;
    if (hw_symbol_options_add(r->cli, r->output.final_name, NULL) < 0 &&
        hw_symbol_options_symbols_asked(r->cli))
        fputs("Failed to symbolize. Continuing without symbols.\n", stderr);
}

static void write_memory_infra(struct record *r)
{
    const char *path = hw_opt_text(&r->cli->opts, HW_OPT_MEMORY_INFRA);
    struct hw_error err = {0};
    if (!path)
        return;
    r->infra_rc = hw_export_file(&hw_export_memory_infra, r->output.final_name, path, &err);
    if (r->infra_rc < 0)
        (void)hw_cli_fail(r->cli, &err);
    else if (!hw_opt_flag(&r->cli->opts, HW_OPT_QUIET))
        fprintf(stderr, "wrote %s\n", path);
}

/* Hints if the command itself replaces LD_PRELOAD, which loads our library into its programs. */
static void hint_at_preload(const struct record *r)
{
    const char *word = r->launched ? hw_launch_replaces_preload(r->cli->opts.args) : NULL;
    if (word)
        hw_cli_hint(
            "'%.100s' takes LD_PRELOAD away, and with it heapwise's library: what it runs is not "
            "profiled; set it before heapwise (LD_PRELOAD=... heapwise record -- ...), "
            "or keep what is there (LD_PRELOAD=$LD_PRELOAD:...)",
            word);
}

/* All output for people: symbols, the report or why there is none, the file. Once. */
static void tell(struct record *r)
{
    const struct hw_recording *rec = &r->recording;
    const struct hw_opts *o = &r->cli->opts;
    if (r->told)
        return;
    r->told = true;
    hw_recording_find_more(&r->recording);
    if (rec->recorder_gone)
        hw_cli_error(r->cli, "recorder-gone", "%s; the trace ends there",
                     rec->stop_sent ? "the recorder is not ending the recording"
                                    : "the recorder is gone");
    if (is_empty(r)) {
        struct hw_finding f;
        hw_diagnose_recording(rec, r->program, &f);
        if (!r->program && f.code && strcmp(f.code, "no-process") == 0)
            hw_diagnose_wanted(r->pids.v, r->pids.n, o->v[HW_OPT_NAME].list.v,
                               o->v[HW_OPT_NAME].list.n, /* no_running = */ false, &f);
        hw_diagnose_print(r->cli, &f);
        if (rec->is_ended)
            write_memory_infra(r); /* on request: empty, but a valid trace */
    } else {
        add_names(r);
        write_memory_infra(r);
        if (!hw_recording_is_empty(rec, r->target))
            show_report(r);
        else if (!hw_opt_flag(o, HW_OPT_QUIET))
            fprintf(stderr, "no allocation was sampled; `heapwise graph %s` shows the heap graph\n",
                    r->output.final_name);
        if (r->target && hw_recording_is_starter(r->target) && !hw_opt_flag(o, HW_OPT_QUIET))
            fprintf(stderr,
                    "note: only '%s' was profiled, which starts other programs; none of those "
                    "contacted the recorder [not-seen]\n",
                    r->target->name);
        if (r->hidden.code) {
            hw_cli_error(r->cli, r->hidden.code, "the profile of malloc is empty: %s",
                         r->hidden.text);
            hw_cli_hint("%s", hw_explain_remedy(r->hidden.code));
        }
    }
    if (rec->is_ended && rec->ended.status < 0)
        hw_cli_error(r->cli, NULL, "the recording ended early: %s", rec->reason);
    tell_result(r, is_empty(r));
    if (!hw_opt_flag(o, HW_OPT_QUIET)) {
        hint_at_preload(r);
        note_left_out(r);
        tell_waiting(r);
    }
}

static int finish(struct record *r)
{
    if (has_file(r))
        tell(r);
    if (hw_opt_flag(&r->cli->opts, HW_OPT_JSON))
        write_summary(r, r->target, program_exit(&r->recording));
    int status = final_status(r, lacks_malloc(r));
    if (hw_opt_flag(&r->cli->opts, HW_OPT_OPEN) && !is_empty(r)) {
        (void)fflush(stdout);
        int shown = hw_ui_show(r->cli, r->output.final_name);
        status = status ? status : shown;
    }
    return status;
}

/* A command that could not be run has exit codes of its own. */
static int not_run(const struct record *r, int rc, const struct hw_error *err)
{
    hw_cli_error(r->cli, NULL, "'%s': %s", r->cli->opts.args[0], err->text);
    return rc == HW_ENOTFOUND ? HW_EXIT_NOT_FOUND : HW_EXIT_NOT_RUNNABLE;
}

static int record(struct record *r)
{
    struct hw_error err = {0};
    int status = prepare(r);
    if (status != HW_EXIT_OK)
        return status;
    if (hw_opt_flag(&r->cli->opts, HW_OPT_PRINT_CONFIG))
        return hw_print_config(&r->config, &err) < 0 ? hw_cli_fail(r->cli, &err) : HW_EXIT_OK;
    int rc = set_up(r, &err);
    if (rc < 0) {
        hw_output_discard(&r->output);
        return hw_cli_fail(r->cli, &err);
    }
    rc = hw_recording_run(&r->recording, &err);
    if (rc < 0 && !r->recording.recorder_gone) {
        hw_output_discard(&r->output);
        return r->launched && r->launch.pid < 0 ? not_run(r, rc, &err) : hw_cli_fail(r->cli, &err);
    }
    return finish(r);
}

static int run(struct record *r)
{
    int status = check_options(r);
    if (status == HW_EXIT_OK && r->attach)
        status = hw_running_find(r->cli, &r->pids);
    if (status == HW_EXIT_OK)
        status = record(r);
    if (r->launched)
        hw_launch_done(&r->launch);
    hw_controller_free(r->controller);
    hw_recording_done(&r->recording);
    hw_output_done(&r->output);
    hw_strbuf_done(&r->config);
    hw_vec_done(&r->pids);
    free(r->library);
    free(r->program);
    return status;
}

int hw_cmd_record(struct hw_cli *cli)
{
    struct record r = {.cli = cli,
                       .output = HW_OUTPUT_NONE,
                       .all = hw_opt_flag(&cli->opts, HW_OPT_RECORD_ALL) ||
                              cli->opts.v[HW_OPT_NAME].list.n};
    return run(&r);
}

/* The same without a command: the arguments are processes. */
int hw_cmd_attach(struct hw_cli *cli)
{
    struct record r = {.cli = cli, .output = HW_OUTPUT_NONE, .all = true, .attach = true};
    return run(&r);
}

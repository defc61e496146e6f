/*
 * Runs heap_profile: a directory, a recorder, perhaps a command, then pprof files.
 *
 * host: the recorder is embedded and starts the command. Otherwise the targets are preloaded
 * processes, which know the service's socket: a running service is used, or else an embedded
 * recorder listens on that same socket for processes that start from now on.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/log.h"
#include "cli/classic/heap_profile.h"
#include "cli/cli.h"
#include "codec/pb.h"
#include "config/command/explain.h"
#include "config/config.h"
#include "daemon/policy/selinux.h"
#include "daemon/recorder.h"
#include "enrich/lines/demangle.h"
#include "export/pprof/pprof_dir.h"
#include "import/import.h"
#include "model/profile.h"
#include "open/symbol_options.h"
#include "record/diagnosis.h"
#include "record/recording.h"

#include "base/banned.h"

struct run {
    struct hw_heap_profile *h;
    struct hw_cli *cli;
    char dir[4096];
    char link[4096 + 32]; /* "" = none was made */
    bool own_dir;
    int fd; /* raw-trace */
    char *library, *program;
    struct hw_controller *controller;
    struct hw_launch launch;
    bool launched;
    struct hw_recording recording;
    int selinux_guard; /* selinux.h */
    pid_t perf;
};

/* ---- the directory ---- */

static const char *temp_dir(void)
{
    static const char *const names[] = {"TMPDIR", "TEMP"};
    for (size_t i = 0; i < 2; i++) {
        const char *v = getenv(names[i]);
        if (v && v[0])
            return v;
    }
    return "/tmp";
}

static bool is_empty(const char *path, bool *exists)
{
    DIR *d = opendir(path);
    *exists = d != NULL;
    bool empty = true;
    for (const struct dirent *e; d && (e = readdir(d));)
        empty &= strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
    if (d)
        (void)closedir(d);
    return empty;
}

static int make_directory(struct run *r)
{
    const char *given = hw_opt_text(&r->cli->opts, HW_OPT_OUTPUT_DIR);
    int n;
    if (given) {
        bool exists, empty = is_empty(given, &exists);
        if (!exists || !empty) {
            fprintf(stderr, "FATAL: Output directory %s not %s\n", given,
                    exists ? "empty" : "found");
            return HW_EXIT_FAILED;
        }
        n = snprintf(r->dir, sizeof r->dir, "%s", given);
    } else {
        n = snprintf(r->dir, sizeof r->dir, "%s/heap_profile-XXXXXX", temp_dir());
    }
    if (n < 0 || (size_t)n >= sizeof r->dir) {
        hw_cli_error(r->cli, NULL, "the output directory's name is too long");
        return HW_EXIT_FAILED;
    }
    if (!given && !mkdtemp(r->dir)) {
        hw_cli_error(r->cli, NULL, "cannot make a directory in '%s': %s", temp_dir(),
                     strerror(errno));
        return HW_EXIT_FAILED;
    }
    r->own_dir = !given;
    return HW_EXIT_OK;
}

/* Replaces the link in one step: a reader sees the old one or the new one. */
static void link_latest(struct run *r)
{
    char fresh[sizeof r->link + 16];
    (void)snprintf(r->link, sizeof r->link, "%s/heap_profile-latest", temp_dir());
    (void)snprintf(fresh, sizeof fresh, "%s.%d", r->link, (int)getpid());
    if (symlink(r->dir, fresh) == 0 && rename(fresh, r->link) == 0)
        return;
    hw_log(WARN, "cannot replace '%s': %s", r->link, strerror(errno));
    (void)unlink(fresh);
    r->link[0] = 0;
}

static int open_raw_trace(struct run *r, struct hw_error *err)
{
    hw_autofd int dir = open(r->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return hw_fail_sys(err, "cannot open '%s'", r->dir);
    r->fd = openat(dir, "raw-trace", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return r->fd < 0 ? hw_fail_sys(err, "cannot write '%s/raw-trace'", r->dir) : HW_OK;
}

static void remove_directory(const struct run *r)
{
    if (!r->own_dir)
        return;
    char path[sizeof r->dir + 16];
    (void)snprintf(path, sizeof path, "%s/raw-trace", r->dir);
    (void)unlink(path);
    (void)rmdir(r->dir); /* anything else in there stays */
}

/* ---- the recorder ---- */

static int find_recorder(struct run *r, struct hw_error *err)
{
    if (r->h->host)
        return hw_controller_spawn(NULL, &r->controller, err);
    int rc = hw_controller_connect(NULL, &r->controller, err);
    if (rc != HW_ENOTFOUND || hw_opt_flag(&r->cli->opts, HW_OPT_NO_START))
        return rc;
    return hw_controller_spawn(hw_default_producer_socket(), &r->controller, err);
}

static int start_command(struct run *r, const sigset_t *mask, struct hw_error *err)
{
    if (!r->h->host)
        return HW_OK;
    r->program = hw_launch_find_program(r->h->command[0]);
    if (!r->program)
        return hw_fail(err, HW_ENOTFOUND, 0, "command not found: '%s'", r->h->command[0]);
    int rc = hw_launch_find_library(hw_opt_text(&r->cli->opts, HW_OPT_PRELOAD_LIBRARY), r->program,
                                    &r->library, err);
    if (rc < 0)
        return rc;
    const struct hw_launch_options o = {.argv = r->h->command, .library = r->library, .mask = mask};
    rc = hw_launch_prepare(&o, hw_controller_socket(r->controller), &r->launch, err);
    r->launched = rc == 0;
    return rc;
}

static void on_started(void *ctx)
{
    const struct run *r = ctx;
    (void)r;
    printf("Profiling active. Press Ctrl+C to terminate.\n");
    (void)fflush(stdout);
}

static void on_stopping(void *ctx)
{
    (void)ctx;
    printf("Waiting for profiler shutdown...\n");
    (void)fflush(stdout);
}

/* Runs perf on the recorder, for its developers. */
static void start_perf(struct run *r)
{
    if (!hw_opt_flag(&r->cli->opts, HW_OPT_SIMPLEPERF))
        return;
    char *perf = hw_launch_find_program("perf");
    int pid = hw_controller_pid(r->controller);
    if (!perf || pid == 0) {
        hw_log(WARN, "--simpleperf: %s",
               perf ? "the recorder is a service; profile its process" : "perf is not installed");
        free(perf);
        return;
    }
    char data[sizeof r->dir + 16], pid_text[16];
    (void)snprintf(data, sizeof data, "%s/perf.data", r->dir);
    (void)snprintf(pid_text, sizeof pid_text, "%d", pid);
    r->perf = fork();
    if (r->perf == 0) {
        sigset_t none; /* ours are blocked for the loop; perf ends on SIGINT */
        sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        (void)execl(perf, "perf", "record", "-q", "-g", "-o", data, "-p", pid_text, (char *)NULL);
        _exit(127);
    }
    free(perf);
}

/* It writes its file on SIGINT; if it hangs, the user must still get the results. */
static void end_perf(struct run *r)
{
    enum { PATIENCE_MS = 10000, STEP_MS = 20 };
    struct timespec step = {0, STEP_MS * 1000000};
    struct stat st;
    char data[sizeof r->dir + 16];
    if (r->perf <= 0)
        return;
    (void)kill(r->perf, SIGINT);
    int ms = 0;
    while (waitpid(r->perf, NULL, WNOHANG) == 0) {
        if ((ms += STEP_MS) >= PATIENCE_MS)
            (void)kill(r->perf, SIGKILL);
        (void)nanosleep(&step, NULL); /* a signal only cuts it short */
    }
    (void)snprintf(data, sizeof data, "%s/perf.data", r->dir);
    if (stat(data, &st) == 0 && st.st_size > 0)
        printf("perf of the recorder: perf report -i %s\n", data);
    else
        hw_log(WARN, "--simpleperf: perf wrote nothing; its message is above");
}

static int check_config(struct run *r, struct hw_error *err)
{
    struct hw_trace_config c;
    int rc = hw_config_read(hw_bytes_of(r->h->config.p, r->h->config.n), &c, err);
    if (rc == 0)
        hw_trace_config_done(&c); /* its warnings come from the recorder */
    return rc;
}

static int start(struct run *r, struct hw_error *err)
{
    sigset_t mask;
    int rc = check_config(r, err);
    if (rc == 0)
        rc = hw_recording_block_signals(&mask, err);
    if (rc == 0)
        rc = find_recorder(r, err);
    if (rc == 0)
        rc = start_command(r, &mask, err);
    if (rc == 0)
        rc = open_raw_trace(r, err);
    if (rc < 0)
        return rc;
    struct hw_control_start s = {.flags = HW_START_CHECKPOINTS};
    if (r->h->launched_only)
        s.flags |= HW_START_LAUNCHED;
    if (hw_opt_flag(&r->cli->opts, HW_OPT_FOLLOW_FORK))
        s.flags |= HW_START_FOLLOW_FORK;
    else if (r->h->launched_only)
        s.flags |= HW_START_STRIP_ENV;
    if (hw_opt_flag(&r->cli->opts, HW_OPT_IDLE))
        s.flags |= HW_START_IDLE;
    r->recording.cli = r->cli;
    r->recording.controller = r->controller;
    r->recording.launch = r->launched ? &r->launch : NULL;
    r->recording.stop_with_program = true;
    r->recording.follow_fork = hw_opt_flag(&r->cli->opts, HW_OPT_FOLLOW_FORK);
    r->recording.started = on_started;
    r->recording.stopping = on_stopping;
    r->recording.ctx = r;
    rc = hw_recording_start(&r->recording, &s, hw_bytes_of(r->h->config.p, r->h->config.n), r->fd,
                            err);
    if (rc == 0)
        start_perf(r);
    return rc;
}

/* ---- the results ---- */

enum { PATH_ROOM = 4096 + 32 };

static const char *in_dir(const struct run *r, const char *name, char path[PATH_ROOM])
{
    (void)snprintf(path, PATH_ROOM, "%s/%s", r->dir, name); /* both lengths are known */
    return path;
}

/* Appends one file of the directory to another; a missing file adds nothing. */
static bool append(const struct run *r, const char *from, int to)
{
    enum { CHUNK = 1 << 16 };
    char path[PATH_ROOM];
    hw_autofree char *buffer = malloc(CHUNK);
    hw_autofd int fd = open(in_dir(r, from, path), O_RDONLY | O_CLOEXEC);
    ssize_t n = 0;
    if (fd < 0 || !buffer)
        return fd < 0 && errno == ENOENT;
    while ((n = read(fd, buffer, CHUNK)) > 0)
        if (hw_fd_write_all(to, buffer, (size_t)n) < 0)
            return false;
    return n == 0;
}

static bool write_original_names(const struct run *r)
{
    char path[PATH_ROOM];
    struct hw_pb made = {0};
    struct hw_error err = {0};
    int rc = hw_symbol_options_deobfuscate(getenv("PERFETTO_PROGUARD_MAP"), NULL, &made, &err);
    struct hw_bytes b = hw_pb_view(&made);
    if (rc == 0 && b.n) {
        hw_autofd int fd = open(in_dir(r, "deobfuscation-packets", path),
                                O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (fd < 0 || hw_fd_write_all(fd, b.p, b.n) < 0) {
            rc = hw_fail_sys(&err, "cannot write '%s'", path);
            (void)unlink(path); /* half a packet would corrupt the trace */
        }
    }
    bool written = rc == 0 && b.n;
    hw_pb_done(&made);
    if (rc < 0)
        fprintf(stderr, "%s\nFailed to deobfuscate. Continuing without deobfuscation.\n", err.text);
    return written;
}

/* Writes symbols, deobfuscation-packets, and symbolized-trace with all; true = the last exists. */
static bool add_names(const struct run *r)
{
    char path[PATH_ROOM], trace[PATH_ROOM];
    int symbols = 0;
    if (!hw_opt_flag(&r->cli->opts, HW_OPT_NO_SYMBOLIZE))
        symbols = hw_symbol_options_add(r->cli, in_dir(r, "raw-trace", trace),
                                        in_dir(r, "symbols", path));
    if (symbols < 0 && hw_symbol_options_symbols_asked(r->cli))
        fprintf(stderr, "Failed to symbolize. Continuing without symbols.\n");
    bool names = hw_symbol_options_map_asked() && write_original_names(r);
    if (symbols <= 0 && !names)
        return false;
    hw_autofd int fd =
        open(in_dir(r, "symbolized-trace", path), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd >= 0 && append(r, "raw-trace", fd) && append(r, "symbols", fd) &&
        append(r, "deobfuscation-packets", fd))
        return true;
    fprintf(stderr, "Failed to write '%s': %s\n", path, strerror(errno));
    (void)unlink(path); /* half a trace would pass for a whole one */
    return false;
}

static int convert(struct run *r, size_t *n_files, struct hw_error *err)
{
    char path[PATH_ROOM];
    struct hw_profile *p = NULL;
    struct hw_demangler *names = NULL;
    int rc = hw_import_file(
        add_names(r) ? in_dir(r, "symbolized-trace", path) : in_dir(r, "raw-trace", path), &p, err);
    if (rc == 0)
        rc = hw_demangler_new(hw_callsites_strings(p->callsites), &names);
    if (rc == 0) {
        const struct hw_namer namer = {.shown = hw_demangle_shown, .ctx = names};
        const struct hw_pprof_dir o = {.dir = r->dir,
                                       .pid = -1,
                                       .gzip = true,
                                       .no_annotations =
                                           hw_opt_flag(&r->cli->opts, HW_OPT_NO_ANNOTATIONS),
                                       .namer = &namer,
                                       .warnings = stderr};
        rc = hw_pprof_dir_write(p, &o, n_files, err);
    }
    hw_demangler_free(names);
    hw_profile_free(p);
    return rc;
}

static int no_profiles(struct run *r)
{
    struct hw_finding f;
    const struct hw_optval *names = &r->cli->opts.v[HW_OPT_NAME];
    fprintf(stderr, "No profiles generated\n");
    hw_diagnose_recording(&r->recording, r->program, &f);
    if (!f.code) { /* samples came, but all values in the dumps are zero */
        hw_cli_hint("'heapwise stats %s/raw-trace' shows what was recorded and what was lost",
                    r->dir);
        return HW_EXIT_FAILED;
    }
    if (!r->program && strcmp(f.code, "no-process") == 0)
        hw_diagnose_wanted(r->h->pids.v, r->h->pids.n, names->list.v, names->list.n,
                           hw_opt_flag(&r->cli->opts, HW_OPT_NO_RUNNING), &f);
    hw_diagnose_print(r->cli, &f);
    hw_cli_hint("doc/guide/%s says what to try", hw_explain_page(f.code));
    return HW_EXIT_FAILED;
}

/* Our status is about the profiles, as in the original; the command's is printed. */
static void tell_command_failed(const struct run *r)
{
    int status = r->recording.program_status;
    if (!r->launched || status == -1 || status == 0 || r->recording.n_interrupts)
        return;
    if (WIFSIGNALED(status))
        fprintf(stderr, "'%s' was ended by signal %d (%s)\n", r->h->command[0], WTERMSIG(status),
                strsignal(WTERMSIG(status)));
    else
        fprintf(stderr, "'%s' ended with exit status %d\n", r->h->command[0], WEXITSTATUS(status));
}

static int results(struct run *r)
{
    struct hw_error err = {0};
    size_t n_files = 0;
    end_perf(r);
    tell_command_failed(r);
    if (convert(r, &n_files, &err) < 0) {
        hw_cli_error(r->cli, hw_errc_name(err.code), "cannot convert the trace: %s", err.text);
        if (n_files == 0)
            return HW_EXIT_FAILED; /* err says why */
    }
    if (n_files == 0)
        return no_profiles(r);
    if (r->own_dir)
        link_latest(r);
    if (r->link[0])
        printf("Wrote profiles to %s (symlink %s)\n", r->dir, r->link);
    else
        printf("Wrote profiles to %s\n", r->dir);
    printf("The raw-trace and heap_dump.* (pprof) files can be visualized with "
           "https://ui.perfetto.dev.\n");
    if (r->recording.is_ended && r->recording.ended.status < 0)
        hw_cli_error(r->cli, NULL, "the recording ended early: %s", r->recording.reason);
    return HW_EXIT_OK;
}

static int work(struct run *r)
{
    struct hw_error err = {0};
    int status = make_directory(r);
    if (status != HW_EXIT_OK)
        return status;
    int rc = start(r, &err);
    if (rc == 0)
        rc = hw_recording_run(&r->recording, &err);
    if (rc < 0 && !r->recording.recorder_gone) {
        remove_directory(r);
        (void)hw_cli_fail(r->cli, &err);
        if (rc == HW_ENOTFOUND && !r->h->host)
            hw_cli_hint("%s", hw_explain_remedy("no-service"));
        return HW_EXIT_FAILED;
    }
    if (rc < 0)
        hw_cli_error(r->cli, "recorder-gone", "%s; the trace ends there", err.text);
    return results(r);
}

static void disable_selinux(struct run *r)
{
    struct hw_error err;
    r->selinux_guard = -1;
    if (hw_opt_flag(&r->cli->opts, HW_OPT_DISABLE_SELINUX) &&
        hw_selinux_disable(HW_SELINUX_ROOT, &r->selinux_guard, &err) < 0)
        hw_log(WARN, "--disable-selinux: %s", err.text);
}

int hw_heap_profile_run(struct hw_heap_profile *h)
{
    static const enum hw_option_id converters[] = {HW_OPT_TRACECONV_BINARY,
                                                   HW_OPT_TRACE_TO_TEXT_BINARY};
    for (size_t i = 0; i < HW_ARRAY_LEN(converters); i++) {
        const struct hw_optval *v = &h->cli->opts.v[converters[i]];
        if (v->set && access(v->text, X_OK) < 0) {
            hw_cli_error(h->cli, NULL, "--%s '%s': %s", hw_options[converters[i]].name, v->text,
                         strerror(errno));
            hw_cli_hint("leave the option out: the converter is built in");
            return HW_EXIT_FAILED;
        }
        if (v->set)
            hw_log(WARN, "--%s is not needed, and not called: the converter is built in",
                   hw_options[converters[i]].name);
    }
    struct run *r = calloc(1, sizeof *r);
    if (!r) {
        hw_cli_error(h->cli, NULL, "out of memory");
        return HW_EXIT_FAILED;
    }
    r->h = h;
    r->cli = h->cli;
    r->fd = -1;
    disable_selinux(r); /* before a recorder starts: it asks what kind of machine this is */
    int status = work(r);
    if (r->launched)
        hw_launch_done(&r->launch);
    hw_controller_free(r->controller);
    hw_recording_done(&r->recording);
    if (r->fd >= 0)
        (void)close(r->fd);
    hw_selinux_restore(HW_SELINUX_ROOT, r->selinux_guard);
    free(r->library);
    free(r->program);
    free(r);
    return status;
}

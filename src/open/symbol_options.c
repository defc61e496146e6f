#include "open/symbol_options.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/plural.h"
#include "base/text/strbuf.h"
#include "codec/pb.h"
#include "config/command/command.h"
#include "enrich/proguard.h"
#include "enrich/symbols/symbolize.h"
#include "import/deobfuscate.h"
#include "import/import.h"
#include "model/profile.h"
#include "schema/fields.h"

#include "base/banned.h"

#define CHEAP_BYTES   (256ull << 20)
#define CHEAP_NS      2000000000u
#define WAIT_CHEAP_NS 4000000000u
#define WAIT_ASKED_NS 600000000000u
#define CHILD_NOTHING 3

static const char *environment(const char *name)
{
    const char *v = getenv(name);
    return v && v[0] ? v : NULL;
}

bool hw_symbol_options_symbols_asked(const struct hw_cli *cli)
{
    return environment("PERFETTO_BINARY_PATH") || environment("BREAKPAD_SYMBOL_DIR") ||
           cli->opts.v[HW_OPT_SYMBOLS].list.n;
}

bool hw_symbol_options_map_asked(void)
{
    return environment("PERFETTO_PROGUARD_MAP") != NULL;
}

static void put_escaped(const char *text)
{
    struct hw_strbuf b = {0};
    hw_strbuf_add_escaped(&b, text, strlen(text));
    fputs(b.p ? b.p : "", stderr);
    hw_strbuf_done(&b);
}

static void tell_missing(void *ctx, const char *path, const char *build_id, const char *other)
{
    (void)ctx;
    fputs("Could not find ", stderr);
    put_escaped(path);
    fprintf(stderr, " (Build ID: %s).\n", build_id);
    if (!other)
        return;
    fputs("  another build is at ", stderr);
    put_escaped(other);
    fputc('\n', stderr);
}

static void tell_warning(void *ctx, const char *text)
{
    (void)ctx;
    put_escaped(text);
    fputc('\n', stderr);
}

/* Progress: on a terminal only, one line that is written again. */
static void tell_progress(void *ctx, size_t done, size_t total)
{
    (void)ctx;
    if (done < total)
        fprintf(stderr, "\r\033[Ksymbolizing %zu of %zu frames", done, total);
    else
        fputs("\r\033[K", stderr);
}

static void tell_files(void *ctx, size_t files)
{
    (void)ctx;
    fprintf(stderr, "\r\033[Klooking for symbols: %zu files", files);
}

static void tell_fetching(void *ctx, uint64_t done, uint64_t total)
{
    (void)ctx;
    if (total)
        fprintf(stderr, "\r\033[Kdebuginfod: %llu of %llu KiB; Ctrl-C continues without",
                (unsigned long long)done >> 10, (unsigned long long)total >> 10);
    else
        fputs("\r\033[Kwaiting for debuginfod; Ctrl-C continues without", stderr);
}

/* The first Ctrl-C ends the search for names, the second one the program. */
static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

static bool is_interrupted(void *ctx)
{
    (void)ctx;
    return interrupted;
}

/* Only where nobody else has taken the signal. */
static bool catch_interrupt(struct sigaction *before)
{
    const struct sigaction act = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    interrupted = 0;
    return sigaction(SIGINT, NULL, before) == 0 && !(before->sa_flags & SA_SIGINFO) &&
           before->sa_handler == SIG_DFL && sigaction(SIGINT, &act, NULL) == 0;
}

static void tell_summary(const struct hw_symbolize_result *r)
{
    fprintf(stderr, "symbolized %zu of %zu frame%s in %zu file%s", r->n_symbolized, r->n_frames,
            hw_plural(r->n_frames), r->n_modules, hw_plural(r->n_modules));
    if (r->n_left)
        fprintf(stderr, "; %zu left", r->n_left);
    if (r->n_missing)
        fprintf(stderr, "; %zu file%s not found", r->n_missing, hw_plural(r->n_missing));
    if (r->n_no_build_id)
        fprintf(stderr, "; %zu frame%s in files without build id", r->n_no_build_id,
                hw_plural(r->n_no_build_id));
    size_t told = r->n_symbolized + r->n_left + r->n_no_build_id;
    if (r->n_missing == 0 && told < r->n_frames)
        fprintf(stderr, "; %zu in files that have no debug information (heapwise explain no-names)",
                r->n_frames - told);
    fputc('\n', stderr);
    if (r->n_missing && !environment("PERFETTO_BINARY_PATH"))
        hw_cli_hint("PERFETTO_BINARY_PATH=DIR[:DIR...] names the directories to search");
}

static int read_mode(enum hw_binaries_mode *out, struct hw_error *err)
{
    const char *mode = environment("PERFETTO_SYMBOLIZER_MODE");
    *out = HW_BINARIES_FIND;
    if (!mode || strcmp(mode, "find") == 0)
        return HW_OK;
    if (strcmp(mode, "index") != 0)
        return hw_fail(err, HW_EINVAL, 0,
                       "PERFETTO_SYMBOLIZER_MODE: '%s' is neither find nor index", mode);
    *out = HW_BINARIES_INDEX;
    return HW_OK;
}

/* NULL = our own reader. */
static const char *other_symbolizer(const struct hw_cli *cli)
{
    const char *name = hw_opt_text(&cli->opts, HW_OPT_SYMBOLIZER);
    return name && name[0] && strcmp(name, "libdw") != 0 ? name : NULL;
}

int hw_symbol_options_symbolize_from(const struct hw_cli *cli, struct hw_profile *p,
                                     const struct hw_symbol_options_where *w, unsigned flags,
                                     struct hw_pb *out, struct hw_error *err)
{
    struct hw_symbolize_result r;
    struct hw_symbolize_options o = {.where = w->binaries,
                                     .breakpad_dirs = w->breakpad_dirs,
                                     .n_breakpad_dirs = w->n_breakpad_dirs,
                                     .llvm_symbolizer = other_symbolizer(cli),
                                     .debuginfod = true};
    o.where.no_paths = flags & HW_SYMBOL_OPTIONS_AWAY;
    if (!(flags & HW_SYMBOL_OPTIONS_QUIET)) {
        o.missing = tell_missing;
        o.warn = tell_warning;
        if (isatty(STDERR_FILENO)) {
            o.progress = tell_progress;
            o.fetching = tell_fetching;
            o.where.progress = tell_files;
        }
    }
    if (flags & HW_SYMBOL_OPTIONS_CHEAP) {
        o.debuginfod = false; /* nobody asked for a network */
        o.max_file_bytes = CHEAP_BYTES;
        o.budget_ns = CHEAP_NS;
        o.unnamed_only = true;
    }
    struct sigaction before;
    bool caught = !(flags & HW_SYMBOL_OPTIONS_CHEAP) && catch_interrupt(&before);
    if (caught)
        o.stopped = o.where.stopped = is_interrupted;
    int rc = hw_symbolize(p, &o, out, &r, err);
    if (caught)
        (void)sigaction(SIGINT, &before, NULL);
    if (rc == HW_OK && !(flags & HW_SYMBOL_OPTIONS_QUIET))
        tell_summary(&r);
    return rc;
}

struct hw_binaries_where hw_symbol_options_places(const struct hw_cli *cli)
{
    const struct hw_optval *more = &cli->opts.v[HW_OPT_SYMBOLS];
    return (struct hw_binaries_where){.roots = environment("PERFETTO_BINARY_PATH"),
                                      .more = (const char *const *)more->list.v,
                                      .n_more = more->list.n};
}

int hw_symbol_options_symbolize(const struct hw_cli *cli, struct hw_profile *p, unsigned flags,
                                struct hw_pb *out, struct hw_error *err)
{
    const char *breakpad = environment("BREAKPAD_SYMBOL_DIR");
    struct hw_symbol_options_where w = {
        .binaries = hw_symbol_options_places(cli),
        .breakpad_dirs = &breakpad,
        .n_breakpad_dirs = breakpad != NULL,
    };
    int rc = read_mode(&w.binaries.mode, err);
    return rc < 0 ? rc : hw_symbol_options_symbolize_from(cli, p, &w, flags, out, err);
}

/* The model takes original names from packets, so the packets just made are read. */
static int apply(struct hw_profile *p, struct hw_bytes trace)
{
    struct hw_pb_reader packets = hw_pb_read(trace);
    struct hw_pb_field packet, data;
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&packets, &packet) == 1) {
        struct hw_pb_reader fields = hw_pb_read(packet.bytes);
        while (rc == HW_OK && hw_pb_next(&fields, &data) == 1)
            if (data.number == HW_F_TracePacket_deobfuscation_mapping)
                rc = hw_import_deobfuscation(p, data.bytes);
    }
    return rc;
}

int hw_symbol_options_deobfuscate(const char *list, struct hw_profile *p, struct hw_pb *out,
                                  struct hw_error *err)
{
    struct hw_pb packets = {0};
    int rc = hw_proguard_write_all(list, &packets, err);
    struct hw_bytes made = hw_pb_view(&packets);
    if (rc == HW_OK && p) {
        rc = apply(p, made);
        if (rc < 0)
            (void)hw_fail(err, rc, 0, "original names:"); /* returned below */
    }
    if (rc == HW_OK && out)
        hw_strbuf_add(&out->buf, made.p, made.n);
    hw_pb_done(&packets);
    return rc;
}

static void by_map(const struct hw_cli *cli, struct hw_profile *p, const char *word,
                   struct hw_pb *out)
{
    struct hw_error err = {0};
    hw_autofree char *all = NULL; /* of all packages */
    if (!strchr(word, '=') && asprintf(&all, "=%s", word) < 0)
        all = NULL;
    if (hw_symbol_options_deobfuscate(all ? all : word, p, out, &err) < 0)
        hw_cli_error(cli, NULL, "cannot deobfuscate: %s", err.text);
}

void hw_symbol_options_by_environment(const struct hw_cli *cli, struct hw_profile *p)
{
    hw_symbol_options_by_environment_to(cli, p, 0, NULL);
}

void hw_symbol_options_by_environment_to(const struct hw_cli *cli, struct hw_profile *p,
                                         unsigned flags, struct hw_pb *out)
{
    struct hw_error err = {0};
    flags |= hw_opt_flag(&cli->opts, HW_OPT_QUIET) ? HW_SYMBOL_OPTIONS_QUIET : 0;
    if (hw_symbol_options_symbols_asked(cli) &&
        hw_symbol_options_symbolize(cli, p, flags, out, &err) < 0)
        hw_cli_error(cli, NULL, "cannot symbolize: %s", err.text);
    err = (struct hw_error){0};
    if (hw_symbol_options_map_asked() &&
        hw_symbol_options_deobfuscate(getenv("PERFETTO_PROGUARD_MAP"), p, out, &err) < 0)
        hw_cli_error(cli, NULL, "cannot deobfuscate: %s", err.text);
    const struct hw_optval *maps = &cli->opts.v[HW_OPT_NAME_MAPS];
    for (size_t i = 0; i < maps->list.n; i++)
        by_map(cli, p, maps->list.v[i], out);
}

/* ---- at the end of a recording ---- */

static _Noreturn void child(const struct hw_cli *cli, const char *trace, int out_fd)
{
    struct hw_error err = {0};
    struct hw_profile *p;
    struct hw_pb made = {0};
    unsigned flags = hw_symbol_options_symbols_asked(cli)
                         ? 0
                         : HW_SYMBOL_OPTIONS_QUIET | HW_SYMBOL_OPTIONS_CHEAP;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody waits any more */
    int rc = hw_import_file(trace, &p, &err);
    if (rc == HW_OK)
        rc = hw_symbol_options_symbolize(cli, p, flags, &made, &err);
    struct hw_bytes b = hw_pb_view(&made);
    if (rc < 0 || (b.n && hw_fd_write_all(out_fd, b.p, b.n) < 0)) {
        if (!(flags & HW_SYMBOL_OPTIONS_QUIET))
            hw_cli_error(cli, NULL, "%s", rc < 0 ? err.text : "cannot write the symbols");
        _exit(1);
    }
    _exit(b.n ? 0 : CHILD_NOTHING); /* exit: the parent's buffered output is not ours to write */
}

/* The child's status, or -1 when it had to be killed. */
static int wait_for(pid_t pid, uint64_t limit_ns)
{
    const struct timespec pause = {.tv_nsec = 2000000};
    uint64_t end = hw_now_monotonic_ns() + limit_ns;
    int status;
    for (;;) {
        pid_t got = waitpid(pid, &status, WNOHANG);
        if (got == pid)
            return status;
        if (got < 0 && errno != EINTR)
            return -1;
        if (hw_now_monotonic_ns() > end)
            break;
        (void)nanosleep(&pause, NULL);
    }
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, &status, 0);
    return -1;
}

int hw_symbol_options_add(const struct hw_cli *cli, const char *trace, const char *out)
{
    struct stat st;
    if (stat(trace, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    hw_autofd int fd = out ? open(out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)
                           : open(trace, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0)
        return HW_ESYS;
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        child(cli, trace, fd);
    int status = pid < 0 ? -1
                         : wait_for(pid, hw_symbol_options_symbols_asked(cli) ? WAIT_ASKED_NS
                                                                              : WAIT_CHEAP_NS);
    if (status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 1;
    if (out)
        (void)unlink(out);
    else
        (void)ftruncate(fd, st.st_size); /* half a packet would be damage */
    return status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == CHILD_NOTHING ? 0 : HW_ESYS;
}

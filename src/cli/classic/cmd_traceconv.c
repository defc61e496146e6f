/* traceconv MODE [INPUT [OUTPUT]]: the classic converter. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/plural.h"
#include "base/text/strbuf.h"
#include "cli/cli.h"
#include "cli/parts/bundle_write.h"
#include "cli/parts/open_profile.h"
#include "codec/pb.h"
#include "codec/unpack.h"
#include "config/config.h"
#include "enrich/lines/demangle.h"
#include "export/chrome.h"
#include "export/export.h"
#include "export/firefox/firefox.h"
#include "export/pprof/pprof_dir.h"
#include "import/import.h"
#include "model/profile.h"
#include "open/symbol_options.h"
#include "open/whole_file.h"
#include "trace/reader.h"
#include "trace/text.h"
#include "views/objects/heap_tree.h"

#include "base/banned.h"

#define MAX_INPUT (16ull << 30)

struct conv {
    const struct hw_cli *cli;
    const char *in_name, *out_name;
    struct hw_strbuf in; /* the whole input, decompressed */
    int out_fd;
    struct hw_whole_file out;
};

/* ---- input and output ---- */

static int read_input(struct conv *c, struct hw_error *err)
{
    bool is_pipe = strcmp(c->in_name, "-") == 0;
    hw_autofd int fd = is_pipe ? dup(STDIN_FILENO) : open(c->in_name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return hw_fail_sys(err, "cannot open '%s'", c->in_name);
    char *text;
    size_t n;
    int rc = hw_import_refuse_directory(fd, c->in_name, err);
    rc = rc < 0 ? rc : hw_fd_read_file(fd, MAX_INPUT, &text, &n, err);
    if (rc < 0)
        return rc;
    if (hw_is_packed(hw_bytes_of(text, n))) {
        rc = hw_unpack(hw_bytes_of(text, n), &c->in, err);
        free(text);
        return rc;
    }
    c->in = (struct hw_strbuf){.p = text, .n = n, .cap = n + 1};
    return HW_OK;
}

static int open_output(struct conv *c, struct hw_error *err)
{
    c->out_fd = STDOUT_FILENO;
    if (strcmp(c->out_name, "-") == 0)
        return HW_OK;
    int rc = hw_whole_file_open(c->out_name, 0666, &c->out, err);
    c->out_fd = rc == HW_OK ? c->out.fd : -1;
    return rc;
}

static int close_output(struct conv *c, int rc, struct hw_error *err)
{
    if (c->out_fd == STDOUT_FILENO || c->out_fd < 0)
        return rc;
    return hw_whole_file_close(&c->out, rc, err);
}

static int refuse_terminal(const struct conv *c, struct hw_error *err)
{
    if (strcmp(c->out_name, "-") != 0 || !isatty(STDOUT_FILENO))
        return HW_OK;
    return hw_fail(err, HW_EINVAL, 0, "the output is binary and standard output is a terminal");
}

/* ---- text, binary, decompress_packets ---- */

/* Packet by packet: for traces only, not for the other formats we read. */
static int open_packets(struct conv *c, struct hw_trace_reader **out, struct hw_error *err)
{
    int rc = read_input(c, err);
    if (rc < 0)
        return rc;
    struct hw_bytes file = hw_bytes_of(c->in.p, c->in.n);
    const struct hw_importer *known =
        hw_importer_find(hw_bytes_of(file.p, file.n < 4096 ? file.n : 4096));
    if (known && strcmp(known->name, "perfetto") != 0)
        return hw_fail(err, HW_EINVAL, 0,
                       "'%s' is not a Perfetto trace but '%s': it has no packets", c->in_name,
                       known->name);
    return hw_trace_reader_open_bytes(file, out, err);
}

static int was_a_trace(const struct conv *c, const struct hw_trace_reader *r, struct hw_error *err)
{
    if (hw_trace_reader_stats(r)->packets)
        return HW_OK;
    return c->in.n ? hw_fail(err, HW_EFORMAT, 0, "'%s': no packet in %zu byte%s", c->in_name,
                             c->in.n, hw_plural(c->in.n))
                   : hw_fail(err, HW_EFORMAT, 0, "'%s' is empty", c->in_name);
}

static int to_text(struct conv *c, struct hw_error *err)
{
    struct hw_trace_reader *r = NULL;
    size_t damaged = 0;
    int rc = open_packets(c, &r, err);
    if (rc == 0)
        rc = open_output(c, err);
    if (rc == 0)
        rc = hw_trace_print_text(r, c->out_fd, &damaged, err);
    if (rc == 0)
        rc = was_a_trace(c, r, err);
    if (damaged)
        hw_cli_error(c->cli, NULL, "%zu damaged messages were cut; see the comments in the text",
                     damaged);
    hw_trace_reader_free(r);
    return rc;
}

static int to_binary(struct conv *c, struct hw_error *err)
{
    struct hw_strbuf out = {0};
    int rc = refuse_terminal(c, err);
    if (rc == 0)
        rc = read_input(c, err);
    if (rc == 0)
        rc = hw_text_to_message("Trace", c->in_name, hw_bytes_of(c->in.p, c->in.n),
                                /* lossy = */ false, &out, err);
    if (rc == 0)
        rc = open_output(c, err);
    if (rc == 0 && hw_fd_write_all(c->out_fd, out.p, out.n) < 0)
        rc = hw_fail_sys(err, "cannot write '%s'", c->out_name);
    hw_strbuf_done(&out);
    return rc;
}

enum { F_TRACE_PACKET = 1, FLUSH_BYTES = 256 * 1024 };

static int flush(struct conv *c, struct hw_pb *out, struct hw_error *err)
{
    struct hw_bytes b = hw_pb_view(out);
    if (hw_pb_failed(out))
        return hw_fail(err, HW_ENOMEM, 0, "output");
    if (hw_fd_write_all(c->out_fd, b.p, b.n) < 0)
        return hw_fail_sys(err, "cannot write '%s'", c->out_name);
    hw_pb_clear(out);
    return HW_OK;
}

static int copy_packets(struct conv *c, struct hw_trace_reader *r, struct hw_error *err)
{
    struct hw_pb out = {0};
    struct hw_packet p;
    int rc;
    while ((rc = hw_trace_reader_next(r, &p, err)) == 1) {
        hw_pb_bytes(&out, F_TRACE_PACKET, p.bytes.p, p.bytes.n);
        rc = HW_OK;
        if (hw_pb_view(&out).n >= FLUSH_BYTES)
            rc = flush(c, &out, err);
        if (rc < 0)
            break;
    }
    if (rc == 0)
        rc = flush(c, &out, err);
    hw_pb_done(&out);
    return rc;
}

static int decompress(struct conv *c, struct hw_error *err)
{
    struct hw_trace_reader *r = NULL;
    int rc = refuse_terminal(c, err);
    if (rc == 0)
        rc = open_packets(c, &r, err);
    if (rc == 0)
        rc = open_output(c, err);
    if (rc == 0)
        rc = copy_packets(c, r, err);
    if (rc == 0)
        rc = was_a_trace(c, r, err);
    if (r) {
        const struct hw_reader_stats *s = hw_trace_reader_stats(r);
        uint64_t lost =
            s->damaged_packets + s->damaged_compressed + s->unpacked_cut + s->unsupported_packets;
        if (lost)
            hw_cli_error(c->cli, NULL, "%llu packet%s could not be read and %s left out",
                         (unsigned long long)lost, hw_plural(lost), lost == 1 ? "is" : "are");
    }
    hw_trace_reader_free(r);
    return rc;
}

/* ---- profile ---- */

/* <$TMPDIR|$TEMP|/tmp>/<what>_profile-<yymmddHHMMSS><5 letters>, made new. */
static int make_dir(const char *what, struct hw_strbuf *dir, struct hw_error *err)
{
    const char *base = getenv("TMPDIR");
    if (!base || !base[0])
        base = getenv("TEMP");
    if (!base || !base[0])
        base = "/tmp";
    char stamp[32];
    struct tm tm;
    time_t now = time(NULL);
    if (!localtime_r(&now, &tm) || strftime(stamp, sizeof stamp, "%y%m%d%H%M%S", &tm) == 0)
        return hw_fail(err, HW_ESYS, 0, "cannot read the clock");
    for (int attempt = 0; attempt < 20; attempt++) {
        unsigned char r[5];
        char letters[6] = {0};
        if (getrandom(r, sizeof r, 0) != (ssize_t)sizeof r)
            return hw_fail_sys(err, "cannot get random bytes");
        for (size_t i = 0; i < sizeof r; i++)
            letters[i] = (char)('a' + r[i] % 26);
        hw_strbuf_clear(dir);
        hw_strbuf_addf(dir, "%s/%s_profile-%s%s", base, what, stamp, letters);
        if (dir->failed)
            return hw_fail(err, HW_ENOMEM, 0, "directory name");
        if (mkdir(dir->p, 0700) == 0)
            return HW_OK;
        if (errno != EEXIST)
            break;
    }
    return hw_fail_sys(err, "cannot create directory '%s'", dir->p ? dir->p : base);
}

static int read_timestamps(const struct conv *c, int64_t **out, size_t *n, struct hw_error *err)
{
    const struct hw_optval *v = &c->cli->opts.v[HW_OPT_CONV_TIMES];
    *n = 0;
    *out = calloc(v->list.n + 1, sizeof **out);
    if (!*out)
        return hw_fail(err, HW_ENOMEM, 0, "timestamps");
    for (size_t i = 0; i < v->list.n; i++) {
        uint64_t ts;
        if (hw_parse_uint(v->list.v[i], &ts, NULL) < 0 || ts > INT64_MAX)
            return hw_fail(err, HW_EINVAL, 0, "--timestamps: '%s' is not a time in ns",
                           v->list.v[i]);
        (*out)[(*n)++] = (int64_t)ts;
    }
    return HW_OK;
}

static bool has_native(const struct hw_profile *p)
{
    return p->allocs.n > 0;
}

static bool has_graphs(const struct hw_profile *p)
{
    return p->graphs.n > 0;
}

static bool has_cpu(const struct hw_profile *p)
{
    return p->cpu.samples.n > 0;
}

/* The kinds of profiles a trace can hold. */
static const struct kind {
    enum hw_option_id option;
    const char *flag, *directory;
    bool (*is_there)(const struct hw_profile *p);
    int (*write)(const struct hw_profile *p, const struct hw_pprof_dir *o, size_t *n_files,
                 struct hw_error *err);
} kinds[] = {
    {HW_OPT_CONV_ALLOC, "--alloc", "heap", has_native, hw_pprof_dir_write},
    {HW_OPT_CONV_PERF, "--perf", "perf", has_cpu, hw_pprof_dir_write_cpu},
    {HW_OPT_CONV_JAVA, "--java-heap", "heap", has_graphs, hw_pprof_dir_write_graphs},
};

static int write_profiles(struct conv *c, const struct hw_profile *p, struct hw_pprof_dir *o,
                          const struct kind *kind, size_t *n_files, struct hw_error *err)
{
    struct hw_demangler *dem;
    struct hw_strbuf made = {0};
    int rc = hw_demangler_new(hw_callsites_strings(p->callsites), &dem);
    if (rc < 0)
        return hw_fail(err, rc, 0, "names");
    struct hw_namer namer = {hw_demangle_shown, dem};
    o->namer = &namer;
    o->dir = hw_opt_text(&c->cli->opts, HW_OPT_CONV_DIR);
    if (!o->dir) {
        rc = make_dir(kind->directory, &made, err);
        o->dir = made.p;
    } else if (mkdir(o->dir, 0777) < 0 && errno != EEXIST) {
        rc = hw_fail_sys(err, "cannot create directory '%s'", o->dir);
    }
    if (rc == 0)
        rc = kind->write(p, o, n_files, err);
    if (rc == 0 && *n_files)
        printf("Wrote profiles to %s\n", o->dir);
    if (*n_files == 0 && made.p)
        (void)rmdir(made.p); /* leaves no empty directory behind; not fatal */
    hw_demangler_free(dem);
    hw_strbuf_done(&made);
    return rc;
}

/* Picks the kind of profile: among those given, or all. 1 = *out is set, 0 = none. */
static int choose_kind(const struct hw_profile *p, const struct hw_opts *opts, bool java,
                       const struct kind **out, struct hw_error *err)
{
    struct hw_strbuf flags = {0};
    bool given = java;
    size_t n = 0;
    for (size_t i = 0; i < HW_ARRAY_LEN(kinds); i++)
        given |= hw_opt_flag(opts, kinds[i].option);
    for (size_t i = 0; i < HW_ARRAY_LEN(kinds); i++) {
        bool asked = java ? kinds[i].option == HW_OPT_CONV_JAVA
                          : !given || hw_opt_flag(opts, kinds[i].option);
        if (!asked || !kinds[i].is_there(p))
            continue;
        *out = &kinds[i];
        hw_strbuf_addf(&flags, "%s%s", n++ ? ", " : "", kinds[i].flag);
    }
    int rc = n > 1 ? hw_fail(err, HW_EINVAL, 0,
                             "more than one type of profile found in the trace, pass an explicit "
                             "disambiguation flag: %s",
                             flags.failed ? "" : flags.p)
                   : (int)n;
    if (n == 0 && !given)
        rc = hw_fail(err, HW_ENOTFOUND, 0, "no profile found in the trace");
    hw_strbuf_done(&flags);
    return rc;
}

static int profile_of(struct conv *c, bool java, struct hw_error *err)
{
    const struct hw_opts *opts = &c->cli->opts;
    struct hw_profile *p = NULL;
    int64_t *timestamps = NULL;
    const struct kind *kind = NULL;
    struct hw_pprof_dir o = {.pid = -1,
                             .new_names = hw_opt_flag(opts, HW_OPT_NEW_NAMES),
                             .raw_counts = hw_opt_flag(opts, HW_OPT_RAW_COUNTS),
                             .no_annotations = hw_opt_flag(opts, HW_OPT_NO_ANNOTATIONS),
                             .warnings = stderr};
    if (opts->v[HW_OPT_CONV_PID].set)
        o.pid = (int64_t)opts->v[HW_OPT_CONV_PID].num;
    int rc = read_timestamps(c, &timestamps, &o.n_timestamps, err);
    o.timestamps_ns = timestamps;
    size_t n_files = 0;
    if (rc == 0)
        rc = hw_import_file(hw_input_path(c->in_name), &p, err);
    if (rc == 0)
        rc = choose_kind(p, opts, java, &kind, err);
    if (rc == 1) {
        hw_symbol_options_by_environment(c->cli, p);
        rc = write_profiles(c, p, &o, kind, &n_files, err);
        if (rc == 0 && n_files == 0 && !java && !hw_opt_flag(opts, kind->option))
            rc = hw_fail(err, HW_ENOTFOUND, 0, "no profile found in the trace");
    }
    hw_profile_free(p);
    free(timestamps);
    return rc;
}

static int profile(struct conv *c, struct hw_error *err)
{
    return profile_of(c, /* java = */ false, err);
}

static int java_profile(struct conv *c, struct hw_error *err)
{
    return profile_of(c, /* java = */ true, err);
}

/* ---- json ---- */

static int to_json(struct conv *c, struct hw_error *err)
{
    struct hw_profile *p = NULL;
    int rc = hw_import_file(hw_input_path(c->in_name), &p, err);
    if (rc == 0)
        rc = open_output(c, err);
    if (rc == 0)
        rc = hw_export_chrome(p, c->out_fd, err);
    hw_profile_free(p);
    return rc;
}

static int to_firefox(struct conv *c, struct hw_error *err)
{
    struct hw_profile *p = NULL;
    struct hw_demangler *dem = NULL;
    int rc = hw_import_file(hw_input_path(c->in_name), &p, err);
    if (rc == 0 && !has_native(p))
        rc = hw_fail(err, HW_ENOTFOUND, 0, "no native heap profile in the trace");
    if (rc == 0) {
        hw_symbol_options_by_environment(c->cli, p);
        rc = hw_demangler_new(hw_callsites_strings(p->callsites), &dem);
        if (rc < 0)
            (void)hw_fail(err, rc, 0, "names");
    }
    if (rc == 0)
        rc = open_output(c, err);
    if (rc == 0) {
        struct hw_namer namer = {hw_demangle_shown, dem};
        rc = hw_export_firefox(p, &namer, c->out_fd, err);
    }
    hw_demangler_free(dem);
    hw_profile_free(p);
    return rc;
}

static int to_hprof(struct conv *c, struct hw_error *err)
{
    struct hw_profile *p = NULL;
    struct hw_export_input in = {.notes = stderr};
    int rc = refuse_terminal(c, err);
    if (rc == 0)
        rc = hw_import_file(hw_input_path(c->in_name), &p, err);
    if (rc == 0) {
        hw_symbol_options_by_environment(c->cli, p);
        in.profile = p;
        in.graph = hw_heap_graph_pick(p, /* pid = */ -1);
        if (!in.graph)
            rc = hw_fail(
                err, HW_ENOTFOUND, 0,
                "no heap graph in the trace; heapwise java dump PID makes one of a running JVM");
    }
    if (rc == 0)
        rc = open_output(c, err);
    FILE *out = rc == 0 ? fdopen(dup(c->out_fd), "w") : NULL;
    if (rc == 0 && !out)
        rc = hw_fail_sys(err, "cannot write '%s'", c->out_name);
    if (rc == 0)
        rc = hw_export_hprof.write(&in, out, err);
    if (out && fclose(out) != 0 && rc == 0)
        rc = hw_fail_sys(err, "cannot write '%s'", c->out_name);
    hw_profile_free(p);
    return rc;
}

/* ---- symbolize, deobfuscate ---- */

static int put_packets(struct conv *c, struct hw_pb *made, int rc, struct hw_error *err)
{
    if (rc == 0)
        rc = open_output(c, err);
    if (rc == 0)
        rc = flush(c, made, err);
    hw_pb_done(made);
    return rc;
}

static int symbolize(struct conv *c, struct hw_error *err)
{
    struct hw_profile *p = NULL;
    struct hw_pb made = {0};
    int rc = refuse_terminal(c, err);
    if (rc == 0)
        rc = hw_import_file(hw_input_path(c->in_name), &p, err);
    if (rc == 0)
        rc = hw_symbol_options_symbolize(c->cli, p, 0, &made, err);
    hw_profile_free(p);
    return put_packets(c, &made, rc, err);
}

static int deobfuscate(struct conv *c, struct hw_error *err)
{
    struct hw_profile *p = NULL;
    struct hw_pb made = {0};
    const char *list = getenv("PERFETTO_PROGUARD_MAP");
    int rc = refuse_terminal(c, err);
    if (rc == 0 && !(list && list[0]))
        rc = hw_fail(err, HW_EINVAL, 0,
                     "no name map: set PERFETTO_PROGUARD_MAP=package=file[:package=file...]");
    if (rc == 0)
        rc = hw_import_file(hw_input_path(c->in_name), &p, err); /* not a trace: an error */
    hw_profile_free(p);
    if (rc == 0)
        rc = hw_symbol_options_deobfuscate(list, NULL, &made, err);
    return put_packets(c, &made, rc, err);
}

/* ---- modes ---- */

#define NO_KERNEL_EVENTS                                                                           \
    "it shows what the kernel's scheduler and ftrace did, and a heap profile records neither; "    \
    "for "                                                                                         \
    "counters over time take mode json"

static const struct mode {
    const char *name;
    int (*run)(struct conv *c, struct hw_error *err);
    const char *summary; /* without run: what it would need */
    bool has_output;
} modes[] = {
    {"profile", profile, "pprof files in a directory", false},
    {"text", to_text, "protobuf text of the whole trace", true},
    {"binary", to_binary, "protobuf text back to a trace", true},
    {"decompress_packets", decompress, "the trace with compressed packets expanded", true},
    {"json", to_json, "processes and counters over time, as chrome://tracing opens", true},
    {"systrace", NULL, NO_KERNEL_EVENTS, true},
    {"ctrace", NULL, NO_KERNEL_EVENTS, true},
    {"java_heap_profile", java_profile, "pprof files of Java heap graphs", false},
    {"hprof", to_hprof, "Java heap dump of the last heap graph of the largest process", true},
    {"symbolize", symbolize, "functions and lines of the trace's addresses, as packets", true},
    {"deobfuscate", deobfuscate, "original names by a ProGuard map, as packets", true},
    {"firefox", to_firefox, "allocations over time, for profiler.firefox.com", true},
    {"bundle", NULL, "one archive of trace, symbols and name maps: INPUT OUTPUT", true},
};

static int usage(const struct hw_cli *cli, const char *text, const char *word)
{
    if (word)
        hw_cli_error(cli, NULL, "%s '%s'", text, word);
    else
        hw_cli_error(cli, NULL, "%s", text);
    fprintf(stderr, "Usage: %s MODE [OPTIONS] [INPUT [OUTPUT]]\nmodes:\n", cli->command->name);
    for (size_t i = 0; i < HW_ARRAY_LEN(modes); i++)
        if (modes[i].run || strcmp(modes[i].name, "bundle") == 0)
            fprintf(stderr, "  %-20s %s\n", modes[i].name, modes[i].summary);
    return HW_EXIT_FAILED;
}

static bool profile_option_given(const struct hw_opts *o)
{
    return o->v[HW_OPT_CONV_PID].set || o->v[HW_OPT_CONV_TIMES].set || o->v[HW_OPT_CONV_DIR].set;
}

static bool bundle_option_given(const struct hw_opts *o)
{
    return o->v[HW_OPT_SYMBOL_PATHS].set || o->v[HW_OPT_NO_AUTO_SYMBOL_PATHS].set ||
           o->v[HW_OPT_PROGUARD_MAP].set || o->v[HW_OPT_NO_AUTO_PROGUARD_MAPS].set;
}

static int run_mode(struct hw_cli *cli, const struct mode *m)
{
    struct conv c = {.cli = cli, .in_name = "-", .out_name = "-", .out_fd = -1};
    struct hw_error err = {0};
    if (cli->opts.n_args > 1)
        c.in_name = cli->opts.args[1];
    if (cli->opts.n_args > 2)
        c.out_name = cli->opts.args[2];
    int rc = m->run(&c, &err);
    rc = close_output(&c, rc, &err);
    hw_strbuf_done(&c.in);
    if (rc == HW_ENOTFOUND) {
        fprintf(stderr, "%s\n", err.text);
        return HW_EXIT_FAILED;
    }
    return rc < 0 ? (hw_cli_fail(cli, &err), HW_EXIT_FAILED) : HW_EXIT_OK;
}

int hw_cmd_traceconv(struct hw_cli *cli)
{
    const struct hw_opts *o = &cli->opts;
    if (hw_opt_flag(o, HW_OPT_CONV_VERSION)) {
        printf("heapwise %s\n", HW_VERSION);
        return HW_EXIT_OK;
    }
    if (o->n_args == 0)
        return usage(cli, "which mode?", NULL);
    const struct mode *m = NULL;
    for (size_t i = 0; i < HW_ARRAY_LEN(modes); i++)
        if (strcmp(modes[i].name, o->args[0]) == 0)
            m = &modes[i];
    if (!m)
        return usage(cli, "unknown mode", o->args[0]);
    bool bundles = strcmp(m->name, "bundle") == 0;
    if (bundles && o->n_args != 3)
        return usage(cli, "INPUT and OUTPUT, please, for mode", m->name);
    if (!bundles && bundle_option_given(o))
        return usage(cli, "--symbol-paths and --proguard-map are not for mode", m->name);
    if (bundles && profile_option_given(o))
        return usage(cli, "--pid, --timestamps and --output-dir are not for mode", m->name);
    if (bundles)
        return hw_bundle_write(cli, o->args[1], o->args[2]) ? HW_EXIT_FAILED : HW_EXIT_OK;
    if (!m->run) {
        hw_cli_error(cli, NULL, "mode '%s': %s", m->name, m->summary);
        return HW_EXIT_FAILED;
    }
    if (o->n_args > (m->has_output ? 3u : 2u))
        return usage(cli, "too many arguments for mode", m->name);
    if (m->run != profile && m->run != java_profile && profile_option_given(o))
        return usage(cli, "--pid, --timestamps and --output-dir are not for mode", m->name);
    return run_mode(cli, m);
}

#include "cli/parts/bundle_write.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/arena.h"
#include "base/memory/vec.h"
#include "cli/cli.h"
#include "cli/parts/open_profile.h"
#include "codec/pb.h"
#include "codec/tar.h"
#include "enrich/proguard.h"
#include "import/import.h"
#include "model/profile.h"
#include "open/symbol_options.h"
#include "open/whole_file.h"

#include "base/banned.h"

struct bundle {
    const struct hw_cli *cli;
    const char *in, *out;
    struct hw_arena texts;
    HW_VEC(const char *) roots;
    struct hw_pb symbols, maps;
    bool verbose;
};

/* ---- where to look ---- */

static int add_root(struct bundle *b, const char *before, const char *behind)
{
    struct stat st;
    size_t n = strlen(before), m = strlen(behind);
    char *path = hw_arena_alloc(&b->texts, n + m + 1);
    if (!path)
        return HW_ENOMEM;
    memcpy(path, before, n);
    memcpy(path + n, behind, m + 1);
    if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
        return HW_OK;
    if (b->verbose)
        fprintf(stderr, "looking for symbols in %s\n", path);
    return hw_vec_push(&b->roots, path) < 0 ? HW_ENOMEM : HW_OK;
}

static int add_usual_roots(struct bundle *b)
{
    static const struct {
        const char *variable, *place; /* without a variable: the directory itself */
    } usual[] = {
        {NULL, "/usr/lib/debug"},
        {"HOME", "/.debug"},
        {"ANDROID_PRODUCT_OUT", "/symbols"},
        {NULL, "./app/build/intermediates/cmake"},
        {NULL, "./app/build/intermediates/merged_native_libs"},
        {NULL, "./.build-id"},
    };
    int rc = HW_OK;
    for (size_t i = 0; i < HW_ARRAY_LEN(usual) && rc == HW_OK; i++) {
        const char *base = usual[i].variable ? getenv(usual[i].variable) : "";
        if (base && (base[0] || !usual[i].variable))
            rc = add_root(b, base, usual[i].place);
    }
    return rc;
}

static int add_roots(struct bundle *b)
{
    const struct hw_opts *o = &b->cli->opts;
    const enum hw_option_id lists[] = {HW_OPT_SYMBOL_PATHS, HW_OPT_SYMBOLS};
    int rc = HW_OK;
    for (size_t l = 0; l < HW_ARRAY_LEN(lists); l++)
        for (size_t i = 0; i < o->v[lists[l]].list.n && rc == HW_OK; i++)
            rc = add_root(b, o->v[lists[l]].list.v[i], "");
    for (const char *p = getenv("PERFETTO_BINARY_PATH"); p && *p && rc == HW_OK;) {
        size_t n = strcspn(p, ":");
        const char *root = hw_arena_copy(&b->texts, p, n);
        rc = !root ? HW_ENOMEM : n ? add_root(b, root, "") : HW_OK;
        p += n + (p[n] == ':');
    }
    const char *breakpad = getenv("BREAKPAD_SYMBOL_DIR");
    if (rc == HW_OK && breakpad && breakpad[0])
        rc = add_root(b, breakpad, "");
    if (rc == HW_OK && !hw_opt_flag(o, HW_OPT_NO_AUTO_SYMBOL_PATHS))
        rc = add_usual_roots(b);
    return rc;
}

/* ---- the parts ---- */

static int find_symbols(struct bundle *b, struct hw_error *err)
{
    struct hw_profile *p = NULL;
    int rc = add_roots(b);
    if (rc < 0)
        return hw_fail(err, rc, 0, "directories:");
    const struct hw_symbol_options_where w = {
        .binaries = {.more = b->roots.v,
                     .n_more = b->roots.n,
                     .mode = HW_BINARIES_INDEX,
                     .paths_too = !hw_opt_flag(&b->cli->opts, HW_OPT_NO_AUTO_SYMBOL_PATHS)},
        .breakpad_dirs = b->roots.v,
        .n_breakpad_dirs = b->roots.n,
    };
    rc = hw_import_file(hw_input_path(b->in), &p, err);
    if (rc == HW_OK)
        rc = hw_symbol_options_symbolize_from(
            b->cli, p, &w, hw_opt_flag(&b->cli->opts, HW_OPT_QUIET) ? HW_SYMBOL_OPTIONS_QUIET : 0,
            &b->symbols, err);
    hw_profile_free(p);
    return rc;
}

/* "[PACKAGE=]FILE" */
static int add_map(struct bundle *b, const char *text, struct hw_error *err)
{
    const char *equals = strchr(text, '=');
    struct hw_proguard *m;
    int rc = hw_proguard_read(equals ? equals + 1 : text, &m, err);
    if (rc < 0)
        return rc;
    if (b->verbose)
        fprintf(stderr, "name map %s\n", equals ? equals + 1 : text);
    rc = hw_proguard_write(m, hw_bytes_of(text, equals ? (size_t)(equals - text) : 0), &b->maps);
    hw_proguard_free(m);
    return rc < 0 ? hw_fail(err, rc, 0, "name map '%s':", text) : HW_OK;
}

/* A broken map that nobody named only costs its names. */
static void add_found_map(struct bundle *b, const char *text)
{
    struct hw_error err = {0};
    if (add_map(b, text, &err) < 0)
        hw_cli_error(b->cli, NULL, "%s; going on without it", err.text);
}

static int find_maps(struct bundle *b, struct hw_error *err)
{
    const struct hw_optval *named = &b->cli->opts.v[HW_OPT_PROGUARD_MAP];
    int rc = HW_OK;
    if (!hw_opt_flag(&b->cli->opts, HW_OPT_NO_AUTO_PROGUARD_MAPS)) {
        glob_t found = {0};
        if (glob("app/build/outputs/mapping/*/mapping.txt", 0, NULL, &found) == 0)
            for (size_t i = 0; i < found.gl_pathc; i++)
                add_found_map(b, found.gl_pathv[i]);
        globfree(&found);
        for (const char *p = getenv("PERFETTO_PROGUARD_MAP"); p && *p;) {
            size_t n = strcspn(p, ":");
            const char *entry = hw_arena_copy(&b->texts, p, n);
            if (!entry)
                return hw_fail(err, HW_ENOMEM, 0, "name maps");
            if (n)
                add_found_map(b, entry);
            p += n + (p[n] == ':');
        }
    }
    for (size_t i = 0; i < named->list.n && rc == HW_OK; i++)
        rc = add_map(b, named->list.v[i], err);
    return rc;
}

/* ---- the archive ---- */

static int put(int fd, const void *p, size_t n, struct hw_error *err)
{
    return hw_fd_write_all(fd, p, n) < 0 ? hw_fail_sys(err, "cannot write the archive") : HW_OK;
}

static int put_padding(int fd, uint64_t size, struct hw_error *err)
{
    static const uint8_t zeros[2 * HW_TAR_BLOCK];
    return put(fd, zeros, hw_tar_padding(size), err);
}

static int put_header(int fd, const char *name, uint64_t size, int64_t mtime_s,
                      struct hw_error *err)
{
    uint8_t header[HW_TAR_BLOCK];
    int rc = hw_tar_header(name, size, mtime_s, header);
    return rc < 0 ? hw_fail(err, rc, 0, "archive member '%s':", name)
                  : put(fd, header, sizeof header, err);
}

static int put_bytes(int fd, const char *name, struct hw_bytes b, struct hw_error *err)
{
    if (b.n == 0)
        return HW_OK;
    int rc = put_header(fd, name, b.n, time(NULL), err);
    if (rc == HW_OK)
        rc = put(fd, b.p, b.n, err);
    return rc < 0 ? rc : put_padding(fd, b.n, err);
}

/* The size precedes the bytes, so a file that grows is truncated and one that shrinks refused.
 */
static int put_trace(struct bundle *b, int fd, struct hw_error *err)
{
    struct stat st;
    hw_autofd int in = open(b->in, O_RDONLY | O_CLOEXEC);
    uint8_t block[65536];
    if (in < 0 || fstat(in, &st) < 0)
        return hw_fail_sys(err, "cannot read '%s'", b->in);
    uint64_t size = (uint64_t)st.st_size, done = 0;
    int rc = put_header(fd, "trace.perfetto", size, st.st_mtime, err);
    while (rc == HW_OK && done < size) {
        size_t want = size - done < sizeof block ? (size_t)(size - done) : sizeof block;
        ssize_t n = read(in, block, want);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return hw_fail_sys(err, "cannot read '%s'", b->in);
        if (n == 0)
            return hw_fail(err, HW_ETRUNCATED, done, "'%s' shrank while it was read", b->in);
        rc = put(fd, block, (size_t)n, err);
        done += (uint64_t)n;
    }
    return rc < 0 ? rc : put_padding(fd, size, err);
}

static int write_archive(struct bundle *b, struct hw_error *err)
{
    static const uint8_t end[2 * HW_TAR_BLOCK];
    bool to_stdout = strcmp(b->out, "-") == 0;
    if (to_stdout && isatty(STDOUT_FILENO))
        return hw_fail(err, HW_EINVAL, 0, "the archive is binary and standard output a terminal");
    struct hw_whole_file file;
    int rc = to_stdout ? HW_OK : hw_whole_file_open(b->out, 0666, &file, err);
    if (rc < 0)
        return rc;
    int fd = to_stdout ? STDOUT_FILENO : file.fd;
    rc = put_trace(b, fd, err);
    if (rc == HW_OK)
        rc = put_bytes(fd, "symbols.pb", hw_pb_view(&b->symbols), err);
    if (rc == HW_OK)
        rc = put_bytes(fd, "deobfuscation.pb", hw_pb_view(&b->maps), err);
    if (rc == HW_OK)
        rc = put(fd, end, sizeof end, err);
    return to_stdout ? rc : hw_whole_file_close(&file, rc, err);
}

/* The input is read twice and its size written first, so it must be a regular file, and not the
 * output.
 */
static int check_files(const struct bundle *b, struct hw_error *err)
{
    struct stat in, out;
    hw_autofd int fd = open(b->in, O_PATH | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &in) < 0)
        return hw_fail_sys(err, "cannot open '%s'", b->in);
    int rc = hw_import_refuse_directory(fd, b->in, err);
    if (rc < 0)
        return rc;
    if (!S_ISREG(in.st_mode))
        return hw_fail(err, HW_EINVAL, 0, "'%s' is not a regular file", b->in);
    if (stat(b->out, &out) == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
        return hw_fail(err, HW_EINVAL, 0, "'%s' is the trace itself", b->out);
    return HW_OK;
}

int hw_bundle_write(const struct hw_cli *cli, const char *in, const char *out)
{
    struct hw_error err = {0};
    struct bundle b = {.cli = cli,
                       .in = in,
                       .out = out,
                       .verbose = hw_opt_flag(&cli->opts, HW_OPT_VERBOSE) ||
                                  hw_opt_flag(&cli->opts, HW_OPT_CONV_VERBOSE)};
    int rc = check_files(&b, &err);
    if (rc == HW_OK)
        rc = find_maps(&b, &err);
    if (rc == HW_OK)
        rc = find_symbols(&b, &err);
    if (rc == HW_OK)
        rc = write_archive(&b, &err);
    if (rc == HW_OK && !hw_opt_flag(&cli->opts, HW_OPT_QUIET))
        fprintf(stderr, "Wrote %s.\n", out);
    hw_vec_done(&b.roots);
    hw_arena_done(&b.texts);
    hw_pb_done(&b.symbols);
    hw_pb_done(&b.maps);
    return rc < 0 ? hw_cli_fail(cli, &err) : HW_EXIT_OK;
}

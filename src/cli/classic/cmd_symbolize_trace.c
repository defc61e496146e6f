/*
 * symbolize_trace FILE - names for the addresses in a memory-infra trace, in place
 *
 * The result is written next to the file under another name and replaces it when complete; the
 * original is kept as FILE.BACKUP.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/vec.h"
#include "base/text/strbuf.h"
#include "base/text/text_parts.h"
#include "cli/cli.h"
#include "codec/gzip.h"
#include "codec/source.h"
#include "enrich/symbols/debuginfod.h"
#include "enrich/symbols/module_names.h"
#include "import/import.h"
#include "import/memory_infra/memory_infra_names.h"

#include "base/banned.h"

struct place {               /* an address in a file */
    uint32_t path, build_id; /* of the region, as text */
    uint64_t va;
    size_t address;
};

struct run {
    const struct hw_cli *cli;
    const char *path;
    bool inlines;
    struct hw_infra_names *names;
    const struct hw_infra_region *regions;
    const struct hw_infra_address *addresses;
    size_t n_addresses, n_named;
    struct hw_module_names *modules;
    HW_VEC(struct place) places;
    HW_VEC(uint64_t) va;
    const struct place *at; /* of the current module */
    size_t n_at, next;
    HW_VEC(const char *) dirs;
    struct hw_strbuf lib_unstripped, symbol_dir;
    struct hw_error err;
};

/* ---- names without symbols ---- */

static int name_by_module(struct run *r, const struct place *p)
{
    const char *path = hw_infra_names_text(r->names, (hw_str_id){p->path});
    const char *const unnamed = "<unnamed>";
    if (!path[0])
        return hw_infra_names_set(r->names, p->address, &unnamed, 1);
    struct hw_strbuf text = {0};
    hw_strbuf_addf(&text, "<%s> + 0x%llx", hw_base_name(path), (unsigned long long)p->va);
    const char *name = text.p;
    int rc = text.failed ? HW_ENOMEM : hw_infra_names_set(r->names, p->address, &name, 1);
    hw_strbuf_done(&text);
    return rc;
}

/* ---- modules ---- */

/* The file's own address of the instruction; of the byte before it for a return address. */
static uint64_t va_of(const struct hw_infra_address *a, const struct hw_infra_region *r)
{
    uint64_t first = r->has_va ? r->first_va : r->start - r->first_start;
    return a->pc - a->is_return - r->start + first;
}

static int compare_places(const void *pa, const void *pb)
{
    const struct place *a = pa, *b = pb;
    if (a->path != b->path)
        return a->path < b->path ? -1 : 1;
    if (a->build_id != b->build_id)
        return a->build_id < b->build_id ? -1 : 1;
    if (a->va != b->va)
        return a->va < b->va ? -1 : 1;
    return a->address < b->address ? -1 : a->address > b->address;
}

static int find_places(struct run *r)
{
    static const char *const unresolved = "<unresolved>";
    for (size_t i = 0; i < r->n_addresses; i++) {
        const struct hw_infra_address *a = &r->addresses[i];
        int rc = HW_OK;
        if (a->region == HW_ID_NONE) {
            rc = hw_infra_names_set(r->names, i, &unresolved, 1);
        } else {
            const struct hw_infra_region *x = &r->regions[a->region];
            struct place p = {x->path.v, x->build_id.v, va_of(a, x), i};
            rc = hw_vec_push(&r->places, p) < 0 ? HW_ENOMEM : HW_OK;
        }
        if (rc < 0)
            return rc;
    }
    if (r->places.n)
        qsort(r->places.v, r->places.n, sizeof *r->places.v, compare_places);
    return HW_OK;
}

static int on_names(void *ctx, size_t index, const char *const *names, size_t n)
{
    struct run *r = ctx;
    uint64_t va = r->va.v[index];
    int rc = HW_OK;
    for (; rc == HW_OK && r->next < r->n_at && r->at[r->next].va == va; r->next++) {
        if (n == 0)
            rc = name_by_module(r, &r->at[r->next]);
        else if (r->inlines)
            rc = hw_infra_names_set(r->names, r->at[r->next].address, names, n);
        else
            rc = hw_infra_names_set(r->names, r->at[r->next].address, &names[n - 1], 1);
        r->n_named += n > 0;
    }
    return rc;
}

static struct hw_bytes raw_id(const char *hex, uint8_t out[static 64])
{
    size_t n = 0;
    for (; n < 64 && hex[2 * n] && hex[2 * n + 1]; n++) {
        unsigned byte;
        char pair[3] = {hex[2 * n], hex[2 * n + 1], 0};
        if (sscanf(pair, "%2x", &byte) != 1)
            break;
        out[n] = (uint8_t)byte;
    }
    return hw_bytes_of(out, n);
}

/* Without `fo`, the addresses of a non-PIE executable are those of the process. */
static int take_fixed_addresses(struct run *r, struct place *at, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct hw_infra_address *a = &r->addresses[at[i].address];
        if (!r->regions[a->region].has_va)
            at[i].va = a->pc - a->is_return;
    }
    qsort(at, n, sizeof *at, compare_places);
    return HW_OK;
}

static int ask(struct run *r, struct hw_named_module *module)
{
    hw_vec_clear(&r->va);
    for (size_t i = 0; i < r->n_at; i++)
        if ((i == 0 || r->at[i].va != r->at[i - 1].va) && hw_vec_push(&r->va, r->at[i].va) < 0)
            return HW_ENOMEM;
    return hw_module_resolve(module, r->va.v, r->va.n, on_names, r, &r->err);
}

static void tell_problem(const char *path, const char *why)
{
    struct hw_strbuf text = {0};
    hw_strbuf_add_escaped(&text, path, strlen(path));
    printf("Problem with '%s': %s.\n", text.p ? text.p : "", why);
    hw_strbuf_done(&text);
}

static int do_module(struct run *r, struct place *at, size_t n)
{
    const char *path = hw_infra_names_text(r->names, (hw_str_id){at->path});
    uint8_t id[64];
    struct hw_bytes build_id = raw_id(hw_infra_names_text(r->names, (hw_str_id){at->build_id}), id);
    struct hw_named_module *module = NULL;
    struct hw_error why = {0};
    size_t named = r->n_named;
    int rc = HW_OK;
    r->at = at;
    r->n_at = n;
    r->next = 0;
    if (path[0] == '/') /* else [heap], [vdso], no file */
        rc = hw_module_open(r->modules, path, build_id, &module, &why);
    if (rc == HW_ENOTFOUND)
        tell_problem(path, why.text);
    else if (rc < 0) {
        r->err = why;
        return rc;
    }
    rc = HW_OK;
    if (module && hw_module_is_fixed(module))
        rc = take_fixed_addresses(r, at, n);
    if (rc == HW_OK && module)
        rc = ask(r, module);
    const char *lacks = module && r->n_named < named + n ? hw_module_lacks(module) : NULL;
    if (rc == HW_OK && lacks)
        tell_problem(path, lacks);
    hw_module_close(module);
    for (; rc == HW_OK && r->next < n; r->next++)
        rc = name_by_module(r, &at[r->next]);
    return rc;
}

static int do_modules(struct run *r)
{
    int rc = find_places(r);
    for (size_t i = 0, end; rc == HW_OK && i < r->places.n; i = end) {
        for (end = i + 1; end < r->places.n; end++)
            if (r->places.v[end].path != r->places.v[i].path ||
                r->places.v[end].build_id != r->places.v[i].build_id)
                break;
        rc = do_module(r, r->places.v + i, end - i);
    }
    if (rc < 0 && !r->err.code)
        (void)hw_fail(&r->err, rc, 0, "names:");
    return rc;
}

/* ---- options ---- */

static int list_dirs(struct run *r)
{
    const struct hw_opts *o = &r->cli->opts;
    const char *out = hw_opt_text(o, HW_OPT_ST_OUTPUT_DIR);
    const char *base = hw_opt_text(o, HW_OPT_ST_SYMBOL_BASE), *home = getenv("HOME");
    int rc = 0;
    if (out) {
        hw_strbuf_addf(&r->lib_unstripped, "%s/lib.unstripped", out);
        rc |= hw_vec_push(&r->dirs, r->lib_unstripped.p);
        rc |= hw_vec_push(&r->dirs, out);
    }
    if (base)
        hw_strbuf_adds(&r->symbol_dir, base);
    else if (home)
        hw_strbuf_addf(&r->symbol_dir, "%s/symbols", home);
    if (r->symbol_dir.n && !hw_opt_flag(o, HW_OPT_ST_LOCAL))
        rc |= hw_vec_push(&r->dirs, r->symbol_dir.p);
    if (rc || r->symbol_dir.failed || r->lib_unstripped.failed)
        return hw_fail(&r->err, HW_ENOMEM, 0, "directories");
    return HW_OK;
}

static int open_modules(struct run *r)
{
    const struct hw_opts *o = &r->cli->opts;
    bool own = hw_opt_flag(o, HW_OPT_ST_ONLY_CHROME) || hw_opt_flag(o, HW_OPT_ST_ONLY_OWN);
    bool local = hw_opt_flag(o, HW_OPT_ST_LOCAL);
    int rc = list_dirs(r);
    struct hw_module_names_options m = {
        .dirs = r->dirs.v,
        .n_dirs = r->dirs.n,
        .program = hw_opt_text(o, HW_OPT_ST_ADDR2LINE),
        .no_system_files = own,
        .no_paths = own && !local,
        .paths_only = local,
        .ignore_build_id = hw_opt_flag(o, HW_OPT_ST_IGNORE_ID),
        .debuginfod = hw_debuginfod_configured(),
    };
    if (hw_opt_flag(o, HW_OPT_ST_BREAKPAD)) {
        m.breakpad_dir = hw_opt_text(o, HW_OPT_ST_BREAKPAD_DIR);
        if (!m.breakpad_dir)
            m.breakpad_dir = r->symbol_dir.p ? r->symbol_dir.p : ".";
    }
    return rc < 0 ? rc : hw_module_names_new(&m, &r->modules, &r->err);
}

/* ---- files ---- */

struct sink {
    int fd;
    struct hw_gzip_writer *gzip; /* NULL = plain */
};

static int put_bytes(void *ctx, struct hw_bytes b, struct hw_error *err)
{
    struct sink *s = ctx;
    if (s->gzip)
        return hw_gzip_write(s->gzip, b, err);
    return hw_fd_write_all(s->fd, b.p, b.n) < 0 ? hw_fail_sys(err, "cannot write") : HW_OK;
}

static int open_source(struct run *r, struct hw_source *source, int *fd, bool *packed)
{
    uint8_t head[2];
    *fd = open(r->path, O_RDONLY | O_CLOEXEC);
    if (*fd < 0)
        return hw_fail_sys(&r->err, "cannot open '%s'", r->path);
    int rc = hw_import_refuse_directory(*fd, r->path, &r->err);
    if (rc < 0) {
        (void)close(*fd);
        return rc;
    }
    *packed = pread(*fd, head, 2, 0) == 2 && hw_gzip_is(hw_bytes_of(head, 2));
    rc = *packed ? hw_source_gzip_fd(*fd, source) : hw_source_fd(*fd, source);
    if (rc < 0)
        (void)close(*fd);
    return rc < 0 ? hw_fail(&r->err, rc, 0, "'%s':", r->path) : HW_OK;
}

static int write_to(struct run *r, int fd)
{
    struct sink sink = {.fd = fd};
    struct hw_source source;
    bool packed;
    int in, rc = open_source(r, &source, &in, &packed);
    if (rc < 0)
        return rc;
    if (packed)
        rc = hw_gzip_writer_new(fd, &sink.gzip, &r->err);
    if (rc == HW_OK)
        rc = hw_infra_names_write(r->names, &source, put_bytes, &sink, &r->err);
    if (rc == HW_OK && packed)
        rc = hw_gzip_writer_end(sink.gzip, &r->err);
    hw_gzip_writer_free(sink.gzip);
    hw_source_done(&source);
    (void)close(in);
    return rc;
}

/* An older backup is the file as recorded: it is kept. */
static int keep_backup(struct run *r)
{
    struct hw_strbuf backup = {0};
    int rc = HW_OK;
    hw_strbuf_addf(&backup, "%s.BACKUP", r->path);
    if (backup.failed)
        rc = hw_fail(&r->err, HW_ENOMEM, 0, "'%s'", r->path);
    else if (link(r->path, backup.p) < 0 && errno != EEXIST)
        rc = hw_fail_sys(&r->err, "cannot keep '%s'", backup.p);
    hw_strbuf_done(&backup);
    return rc;
}

static int replace_file(struct run *r)
{
    struct hw_strbuf path = {0};
    struct stat st;
    hw_strbuf_addf(&path, "%s.XXXXXX", r->path);
    if (path.failed)
        return hw_fail(&r->err, HW_ENOMEM, 0, "'%s'", r->path);
    hw_autofd int fd = mkostemp(path.p, O_CLOEXEC);
    int rc = fd < 0 ? hw_fail_sys(&r->err, "cannot create '%s'", path.p) : write_to(r, fd);
    if (rc == HW_OK && stat(r->path, &st) == 0 && fchmod(fd, st.st_mode & 0777) < 0)
        rc = hw_fail_sys(&r->err, "cannot write '%s'", path.p);
    if (rc == HW_OK && !hw_opt_flag(&r->cli->opts, HW_OPT_ST_NO_BACKUP))
        rc = keep_backup(r);
    if (rc == HW_OK && rename(path.p, r->path) < 0)
        rc = hw_fail_sys(&r->err, "cannot replace '%s'", r->path);
    if (rc < 0 && fd >= 0)
        (void)unlink(path.p);
    hw_strbuf_done(&path);
    return rc;
}

static int read_names(struct run *r)
{
    struct hw_source source;
    bool packed;
    int in, rc = open_source(r, &source, &in, &packed);
    if (rc < 0)
        return rc;
    rc = hw_infra_names_read(&source, &r->names, &r->err);
    if (rc < 0)
        hw_error_prefix(&r->err, "'%s'", r->path);
    hw_source_done(&source);
    (void)close(in);
    return rc;
}

static int nothing_to_do(const struct run *r)
{
    puts("Nothing to symbolize.");
    if (hw_infra_names_n_heaps(r->names) == 0)
        hw_cli_hint("the trace has no heap dump: record with --memory-infra, or with a heap "
                    "profiler switched on");
    else
        hw_cli_hint("no frame is an address: stacks may be pseudo stacks, already have names, or "
                    "unwinding failed in the target (neither frame pointers nor unwind tables)");
    return HW_OK;
}

static int run(struct run *r)
{
    size_t n_regions;
    int rc = read_names(r);
    if (rc < 0)
        return rc;
    bool retype = hw_opt_flag(&r->cli->opts, HW_OPT_ST_FRAME_AS_TYPE);
    r->regions = hw_infra_names_regions(r->names, &n_regions);
    r->addresses = hw_infra_names_addresses(r->names, &r->n_addresses);
    if (r->n_addresses == 0 && !retype)
        return nothing_to_do(r);
    rc = open_modules(r);
    if (rc == HW_OK)
        rc = do_modules(r);
    if (rc == HW_OK && retype)
        hw_infra_names_frames_as_types(r->names);
    if (rc == HW_OK)
        rc = replace_file(r);
    if (rc == HW_OK)
        printf("Symbolized %zu of %zu addresses.\n", r->n_named, r->n_addresses);
    return rc;
}

int hw_cmd_symbolize_trace(struct hw_cli *cli)
{
    struct run r = {.cli = cli};
    if (cli->opts.n_args != 1) {
        hw_cli_error(cli, NULL, cli->opts.n_args ? "more than one trace" : "which trace?");
        hw_cli_hint("symbolize_trace FILE.json[.gz]");
        return hw_cli_usage_exit(cli);
    }
    r.path = cli->opts.args[0];
    r.inlines = hw_opt_flag(&cli->opts, HW_OPT_ST_INLINES);
    int rc = run(&r);
    hw_module_names_free(r.modules);
    hw_infra_names_free(r.names);
    hw_vec_done(&r.places);
    hw_vec_done(&r.va);
    hw_vec_done(&r.dirs);
    hw_strbuf_done(&r.lib_unstripped);
    hw_strbuf_done(&r.symbol_dir);
    return rc < 0 ? hw_cli_fail(cli, &r.err) : HW_EXIT_OK;
}

#include "enrich/symbols/module_names.h"

#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/strbuf.h"
#include "base/text/text_parts.h"
#include "elf/elf.h"
#include "enrich/binaries.h"
#include "enrich/lines/addr2line.h"
#include "enrich/lines/demangle.h"
#include "enrich/lines/line_reader.h"
#include "enrich/lines/llvm.h"
#include "enrich/symbols/breakpad.h"
#include "enrich/symbols/breakpad_dir.h"
#include "enrich/symbols/debuginfod.h"

#include "base/banned.h"

#define OTHER_BUILD "build id mismatch"

enum { LLVM_LIMIT_MS = 60000 };

struct hw_module_names {
    struct hw_module_names_options o;
    struct hw_binaries *binaries;
    struct hw_breakpad_dir *breakpads;
    struct hw_line_reader *reader;
    struct hw_llvm *llvm; /* NULL: not asked for */
    struct hw_debuginfod *debuginfod;
    uint32_t n_files;
};

struct hw_named_module {
    struct hw_module_names *names; /* borrowed */
    struct hw_breakpad *breakpad;  /* NULL: an ELF file */
    int fd;
    uint32_t number; /* of the reader */
    char *path;      /* owned: under which another program can open it */
    bool is_fixed, has_debug_info, has_symtab;
    bool is_other_there; /* a directory has a file of the name, of another build */
};

void hw_module_names_free(struct hw_module_names *m)
{
    if (!m)
        return;
    hw_binaries_free(m->binaries);
    hw_breakpad_dir_close(m->breakpads);
    hw_line_reader_free(m->reader);
    hw_llvm_stop(m->llvm);
    hw_debuginfod_free(m->debuginfod);
    free(m);
}

static bool is_llvm(const char *program)
{
    return strstr(hw_base_name(program), "symbolizer") != NULL;
}

static int start(struct hw_module_names *m, struct hw_error *err)
{
    struct hw_binaries_where where = {.more = m->o.dirs,
                                      .n_more = m->o.paths_only ? 0 : m->o.n_dirs};
    int rc = HW_OK;
    if (m->o.breakpad_dir)
        return hw_breakpad_dir_open(m->o.breakpad_dir, &m->breakpads, err);
    if (m->o.program && is_llvm(m->o.program))
        rc = hw_llvm_start(m->o.program, LLVM_LIMIT_MS, &m->llvm, err);
    if (rc == HW_OK && (rc = hw_binaries_new(&where, &m->binaries)) < 0)
        (void)hw_fail(err, rc, 0, "files:");
    if (rc == HW_OK && (rc = hw_line_reader_new(0, &m->reader)) < 0)
        (void)hw_fail(err, rc, 0, "debug info:");
    if (rc == HW_OK && m->o.debuginfod && !m->o.paths_only)
        (void)hw_debuginfod_new(NULL, NULL, &m->debuginfod); /* without one: no server is asked */
    return rc;
}

int hw_module_names_new(const struct hw_module_names_options *o, struct hw_module_names **out,
                        struct hw_error *err)
{
    struct hw_module_names *m = calloc(1, sizeof *m);
    if (!m)
        return hw_fail(err, HW_ENOMEM, 0, "names");
    m->o = *o;
    int rc = start(m, err);
    if (rc < 0)
        hw_module_names_free(m);
    else
        *out = m;
    return rc;
}

/* ---- which file ---- */

static void drop_file(struct hw_named_module *x)
{
    if (x->fd >= 0)
        (void)close(x->fd);
    x->fd = -1;
    free(x->path);
    x->path = NULL;
}

/* Kept if better than the previous one; accepted if it has debug info. */
static int consider(void *ctx, int fd, const char *path)
{
    struct hw_named_module *x = ctx;
    struct hw_elf *elf;
    struct hw_elf_info info;
    bool debug = false;
    int kept = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (kept < 0)
        return 0;
    bool good = hw_elf_open(kept, &elf, NULL) == HW_OK;
    if (good) {
        good = hw_elf_get_info(elf, &info, NULL) == HW_OK;
        hw_elf_close(elf);
    }
    if (good)
        (void)hw_line_reader_check_file(x->names->reader, ++x->names->n_files, kept, 0, &debug,
                                        NULL);
    if (!good || (x->fd >= 0 && !debug && !(info.has_symtab && !x->has_symtab))) {
        (void)close(kept);
        return 0;
    }
    drop_file(x);
    x->fd = kept;
    x->number = x->names->n_files;
    x->path = strdup(path);
    x->is_fixed = info.type == ET_EXEC;
    x->has_debug_info = debug;
    x->has_symtab = info.has_symtab;
    return x->path ? debug : HW_ENOMEM;
}

static bool is_system_path(const char *path)
{
    static const char *const dirs[] = {"/usr/", "/lib/", "/lib64/", "/lib32/", "/bin/", "/sbin/"};
    if (strncmp(path, "/usr/local/", 11) == 0)
        return false;
    for (size_t i = 0; i < HW_ARRAY_LEN(dirs); i++)
        if (hw_starts_with(path, dirs[i]))
            return true;
    return false;
}

struct search {
    struct hw_named_module *x;
    const char *path; /* as the trace says */
};

static bool counts(const struct hw_module_names *m, const char *path)
{
    return !m->o.no_paths && !(m->o.no_system_files && is_system_path(path));
}

static int offered(void *ctx, int fd, const char *path)
{
    struct search *s = ctx;
    if (strcmp(path, s->path) == 0 && !counts(s->x->names, path))
        return 0;
    return consider(s->x, fd, path);
}

/* Why the file at a path is of no use; NULL = it was taken. */
static const char *try_path(struct hw_named_module *x, const char *path, struct hw_bytes build_id)
{
    uint8_t id[HW_BUILD_ID_MAX];
    uint32_t n = 0;
    uint64_t bias;
    struct stat st;
    hw_autofd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return "file doesn't exist";
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return "not a file";
    if (hw_elf_read_identity(fd, id, &n, &bias, NULL) < 0)
        return "file is not symbolizable";
    if (build_id.n && !x->names->o.ignore_build_id && !hw_bytes_equal(hw_bytes_of(id, n), build_id))
        return OTHER_BUILD;
    return consider(x, fd, path) < 0 || x->fd < 0 ? "file is not symbolizable" : NULL;
}

static uint32_t id_at(const char *path, uint8_t id[static HW_BUILD_ID_MAX])
{
    uint64_t bias;
    uint32_t n = 0;
    hw_autofd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    return fd >= 0 && hw_elf_read_identity(fd, id, &n, &bias, NULL) == HW_OK ? n : 0;
}

/* The path, then its base name in the directories. */
static const char *try_paths(struct hw_named_module *x, const char *path, struct hw_bytes build_id)
{
    const struct hw_module_names_options *o = &x->names->o;
    const char *why = "file doesn't exist";
    if (counts(x->names, path))
        why = try_path(x, path, build_id);
    else
        why = x->names->o.no_paths ? "a file of this machine" : "a file of the system";
    for (size_t i = 0; !x->has_debug_info && i < o->n_dirs; i++) {
        struct hw_strbuf at = {0};
        hw_strbuf_addf(&at, "%s/%s", o->dirs[i], hw_base_name(path));
        const char *there = at.failed ? "out of memory" : try_path(x, at.p, build_id);
        if (!there || (why && strcmp(there, "file doesn't exist") != 0))
            why = there;
        x->is_other_there |= there && strcmp(there, OTHER_BUILD) == 0;
        hw_strbuf_done(&at);
    }
    return x->fd >= 0 ? NULL : why;
}

/* By build id elsewhere: a stripped file is better than none, and worse than its unstripped
 * twin. */
static int try_trees(struct hw_named_module *x, const char *path, struct hw_bytes build_id)
{
    struct search s = {x, path};
    int fd, rc = hw_binaries_offer(x->names->binaries, path, build_id, offered, &s, NULL);
    if (rc != 0 || !x->names->debuginfod)
        return rc;
    if (hw_debuginfod_find(x->names->debuginfod, build_id, &fd, NULL) < 0)
        return HW_OK;
    rc = consider(x, fd, path);
    (void)close(fd);
    if (rc >= 0 && x->fd >= 0) { /* it has no name but this one */
        struct hw_strbuf name = {0};
        hw_strbuf_addf(&name, "/proc/%d/fd/%d", (int)getpid(), x->fd);
        free(x->path);
        x->path = hw_strbuf_take(&name);
        hw_strbuf_done(&name);
    }
    return rc;
}

static int find_elf(struct hw_named_module *x, const char *path, struct hw_bytes build_id,
                    struct hw_error *err)
{
    uint8_t id[HW_BUILD_ID_MAX];
    const char *why = try_paths(x, path, build_id);
    if (build_id.n == 0 && x->fd >= 0) /* the file says which one it is */
        build_id = hw_bytes_of(id, id_at(x->path, id));
    if (build_id.n && !x->has_debug_info && !x->names->o.paths_only) {
        int rc = try_trees(x, path, build_id);
        if (rc < 0)
            return hw_fail(err, rc, 0, "'%s':", path);
    }
    return x->fd >= 0 ? HW_OK : hw_fail(err, HW_ENOTFOUND, 0, "%s", why);
}

static int find_breakpad(struct hw_named_module *x, const char *path, struct hw_bytes build_id,
                         struct hw_error *err)
{
    bool other;
    int rc = hw_breakpad_dir_find(x->names->breakpads, path, build_id, x->names->o.ignore_build_id,
                                  &other, &x->breakpad, err);
    if (rc == HW_ENOTFOUND)
        return hw_fail(err, rc, 0, other ? OTHER_BUILD : "no symbol file");
    if (rc == HW_EFORMAT)
        err->code = HW_ENOTFOUND; /* the other files may be good */
    return rc == HW_EFORMAT ? HW_ENOTFOUND : rc;
}

int hw_module_open(struct hw_module_names *m, const char *path, struct hw_bytes build_id,
                   struct hw_named_module **out, struct hw_error *err)
{
    struct hw_named_module *x = calloc(1, sizeof *x);
    if (!x)
        return hw_fail(err, HW_ENOMEM, 0, "'%s'", path);
    x->names = m;
    x->fd = -1;
    int rc =
        m->breakpads ? find_breakpad(x, path, build_id, err) : find_elf(x, path, build_id, err);
    if (rc < 0)
        hw_module_close(x);
    else
        *out = x;
    return rc;
}

void hw_module_close(struct hw_named_module *x)
{
    if (!x)
        return;
    hw_breakpad_free(x->breakpad);
    drop_file(x);
    free(x);
}

const char *hw_module_lacks(const struct hw_named_module *x)
{
    if (x->breakpad || x->has_debug_info || x->has_symtab)
        return NULL;
    return x->is_other_there ? OTHER_BUILD : "file is not symbolizable: it is stripped";
}

bool hw_module_is_fixed(const struct hw_named_module *x)
{
    return x->is_fixed;
}

/* ---- answers ---- */

struct asked {
    hw_module_fn answer;
    void *ctx;
};

static int on_lines(void *ctx, size_t index, const struct hw_line *chain, size_t n)
{
    struct asked *a = ctx;
    const char *names[HW_MAX_INLINE_DEPTH] = {NULL};
    char *made[HW_MAX_INLINE_DEPTH];
    size_t n_names = 0;
    for (size_t i = 0; i < n && i < HW_MAX_INLINE_DEPTH; i++) {
        if (!chain[i].function || !chain[i].function[0])
            continue;
        made[n_names] = hw_demangle_text(chain[i].function);
        names[n_names] = made[n_names] ? made[n_names] : chain[i].function;
        n_names++;
    }
    int rc = a->answer(a->ctx, index, names, n_names);
    while (n_names)
        free(made[--n_names]);
    return rc;
}

static int on_read(void *ctx, size_t index, const struct hw_line *chain, size_t n, bool folded)
{
    (void)folded; /* the mark is for profiles, where it is explained */
    return on_lines(ctx, index, chain, n);
}

static int from_breakpad(struct hw_named_module *x, const uint64_t *va, size_t n, struct asked *a)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct hw_line line;
        bool known = hw_breakpad_at(x->breakpad, va[i], &line);
        rc = on_lines(a, i, &line, known ? 1 : 0);
    }
    return rc;
}

/* The symbols alone, when debug info cannot be read. */
static int from_symbols(struct hw_named_module *x, const uint64_t *va, size_t n, struct asked *a)
{
    struct hw_elf *elf;
    int rc = hw_elf_open(x->fd, &elf, NULL);
    if (rc < 0)
        return rc;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct hw_line line = {.function = hw_elf_function_at(elf, va[i], NULL)};
        rc = on_lines(a, i, &line, line.function ? 1 : 0);
    }
    hw_elf_close(elf);
    return rc;
}

int hw_module_resolve(struct hw_named_module *x, const uint64_t *ascending, size_t n,
                      hw_module_fn answer, void *ctx, struct hw_error *err)
{
    struct hw_module_names *m = x->names;
    struct asked a = {answer, ctx};
    if (x->breakpad)
        return from_breakpad(x, ascending, n, &a);
    if (m->llvm)
        return hw_llvm_resolve(m->llvm, x->path, ascending, n, on_lines, &a, err);
    if (m->o.program)
        return hw_addr2line(m->o.program, x->path, ascending, n, on_lines, &a, err);
    int rc = hw_line_reader_resolve(m->reader, x->number, x->fd, ascending, n, 0, on_read, &a, err);
    if (rc == HW_EGONE || rc == HW_ETIMEOUT || rc == HW_EFORMAT)
        rc = from_symbols(x, ascending, n, &a);
    return rc;
}

#include "enrich/lines/disassemble.h"

#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/files/helper.h"
#include "base/memory/lower_bound.h"
#include "elf/image.h"
#include "elf/symbols.h"
#include "enrich/lines/line_reader.h"
#include "enrich/load_bias.h"
#include "model/callsites.h"

#include "base/banned.h"

enum { MAX_OUTPUT = 16 << 20, TOOL_S = 10, LINES_S = 10 };
static const uint64_t max_memory = UINT64_C(2) << 30;

/* ---- the files ---- */

struct files {
    struct hw_code *code;
    const struct hw_mapping *m;
    uint64_t rel_pc;
    bool has_range;
    int code_fd, lines_fd; /* -1 = not found yet */
    struct hw_line_reader *reader;
    uint32_t n_looked, lines_file; /* their numbers at the reader */
    uint64_t deadline_ns;
};

static bool take_range(struct files *f, const struct hw_image *img, const char *section,
                       uint64_t va)
{
    struct hw_symbols s = {0};
    const struct hw_symbol *at = NULL;
    if (hw_symbols_add(&s, img, section, NULL) == HW_OK) {
        hw_symbols_sort(&s);
        at = hw_symbols_at(&s, va);
    }
    if (at && at->end > at->start && va < at->end) {
        struct hw_code *c = f->code;
        c->start = at->start;
        c->end = at->end;
        c->cut = c->end - c->start > HW_DISASSEMBLE_MAX_BYTES;
        if (c->cut)
            c->end = c->start + HW_DISASSEMBLE_MAX_BYTES;
        hw_strbuf_clear(&c->function);
        hw_strbuf_adds(&c->function, at->name);
        f->has_range = true;
    }
    hw_symbols_done(&s);
    return f->has_range;
}

static void find_range(struct files *f, const struct hw_image *img, uint64_t va)
{
    uint8_t *inner = NULL;
    size_t n;
    struct hw_image packed;
    if (take_range(f, img, ".symtab", va))
        return;
    if (hw_image_debugdata(img, &inner, &n, NULL) == HW_OK &&
        hw_image_open(&packed, -1, inner, n, /* with_sections = */ true, NULL) == HW_OK) {
        (void)take_range(f, &packed, ".symtab", va);
        hw_image_close(&packed);
    }
    free(inner);
    if (!f->has_range)
        (void)take_range(f, img, ".dynsym", va);
}

/* Debug info kept apart has the code's sections without their bytes. */
static bool has_code(const struct hw_image *img, uint64_t va)
{
    for (size_t i = 0; i < img->n_sections; i++) {
        const struct hw_image_section *s = &img->sections[i];
        if (s->type == SHT_PROGBITS && (s->flags & SHF_EXECINSTR) && va >= s->va &&
            va - s->va < s->bytes)
            return true;
    }
    return false;
}

static int consider(void *ctx, int fd, const char *path)
{
    struct files *f = ctx;
    struct hw_image img;
    bool debug = false;
    if (hw_image_open(&img, fd, NULL, 0, /* with_sections = */ true, NULL) < 0)
        return 0;
    struct hw_code_place place = hw_code_place_of(&img);
    uint64_t shift = hw_load_bias_missing(&place, f->m), va = f->rel_pc + shift;
    if (!f->has_range)
        find_range(f, &img, va);
    if (f->code_fd < 0 && has_code(&img, va) &&
        (f->code_fd = fcntl(fd, F_DUPFD_CLOEXEC, HW_HELPER_FD + 1)) >= 0) {
        f->code->shift = shift;
        hw_strbuf_adds(&f->code->path, path);
    }
    hw_image_close(&img);
    if (f->lines_fd < 0 && f->reader &&
        hw_line_reader_check_file(f->reader, ++f->n_looked, fd, f->deadline_ns, &debug, NULL) ==
            HW_OK &&
        debug && (f->lines_fd = fcntl(fd, F_DUPFD_CLOEXEC, HW_HELPER_FD + 1)) >= 0)
        f->lines_file = f->n_looked;
    return f->has_range && f->code_fd >= 0 && f->lines_fd >= 0;
}

static int find_files(struct files *f, const struct hw_binaries_where *where, size_t n_where,
                      const char *path, struct hw_bytes id, struct hw_error *err)
{
    if (id.n == 0)
        return hw_fail(err, HW_ENOTFOUND, 0,
                       "the trace has no build id of '%s', so no file is known to be the one that "
                       "ran; link with -Wl,--build-id",
                       path);
    int found = 0;
    for (size_t i = 0; i < n_where && found == 0; i++) {
        struct hw_binaries *b = NULL;
        int rc = hw_binaries_new(&where[i], &b);
        found = rc < 0 ? rc : hw_binaries_offer(b, path, id, consider, f, NULL);
        hw_binaries_free(b);
    }
    if (found < 0)
        return hw_fail(err, found, 0, "files of '%s'", path);
    if (f->code_fd < 0)
        return hw_fail(err, HW_ENOTFOUND, 0,
                       "no file with the code of '%s' and its build id is here; name its directory "
                       "with --symbols, or on the Symbols page",
                       path);
    if (!f->has_range)
        return hw_fail(
            err, HW_ENOTFOUND, 0,
            "no symbol of '%s' says where the function at 0x%llx begins; a copy with its "
            "symbols, below a directory of --symbols, would",
            path, (unsigned long long)f->rel_pc);
    return HW_OK;
}

/* ---- the tool ---- */

static int start_tool(const char *tool, int code_fd, const struct hw_code *c, int *out, pid_t *pid)
{
    char from[48], to[48], file[32], path[4096];
    int ends[2];
    const char *own = getenv("PATH");
    (void)snprintf(from, sizeof from, "--start-address=0x%llx", (unsigned long long)c->start);
    (void)snprintf(to, sizeof to, "--stop-address=0x%llx", (unsigned long long)c->end);
    (void)snprintf(file, sizeof file, "/proc/self/fd/%d", HW_HELPER_FD);
    (void)snprintf(path, sizeof path, "PATH=%s", own ? own : "/usr/bin:/bin");
    char *argv[] = {(char *)(uintptr_t)tool,
                    (char[]){"-d"},
                    (char[]){"-w"},
                    (char[]){"-z"},
                    (char[]){"-C"},
                    (char[]){"--no-show-raw-insn"},
                    from,
                    to,
                    file,
                    NULL};
    char *env[] = {path, (char[]){"LC_ALL=C"}, NULL}; /* no DEBUGINFOD_URLS: nobody asked */
    if (pipe2(ends, O_CLOEXEC) < 0)
        return errno;
    const struct hw_helper h = {.program = tool,
                                .argv = argv,
                                .env = env,
                                .in = -1,
                                .out = ends[1],
                                .more = code_fd,
                                .max_memory = max_memory,
                                .max_cpu_s = TOOL_S};
    int rc = hw_helper_start(&h, pid);
    (void)close(ends[1]);
    if (rc)
        (void)close(ends[0]);
    else
        *out = ends[0];
    return rc;
}

static int read_output(int fd, struct hw_strbuf *out)
{
    uint64_t end_ns = hw_now_monotonic_ns() + TOOL_S * UINT64_C(1000000000);
    char part[1 << 16];
    for (;;) {
        uint64_t now_ns = hw_now_monotonic_ns();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (now_ns >= end_ns)
            return HW_ETIMEOUT;
        if (poll(&p, 1, (int)((end_ns - now_ns) / 1000000) + 1) <= 0)
            continue;
        ssize_t n = read(fd, part, sizeof part);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? HW_ESYS : HW_OK;
        if (out->n + (size_t)n > MAX_OUTPUT)
            return HW_ELIMIT;
        hw_strbuf_add(out, part, (size_t)n);
        if (out->failed)
            return HW_ENOMEM;
    }
}

/* HW_ENOTFOUND: it is not here. */
static int run_tool(const char *tool, int code_fd, struct hw_code *c, struct hw_error *err)
{
    struct hw_strbuf out = {0};
    int fd = -1;
    pid_t pid;
    int code = start_tool(tool, code_fd, c, &fd, &pid);
    if (code) {
        errno = code;
        return code == ENOENT || code == EACCES ? HW_ENOTFOUND
                                                : hw_fail_sys(err, "cannot start '%s'", tool);
    }
    int rc = read_output(fd, &out);
    (void)close(fd);
    (void)kill(pid, SIGKILL); /* ours, not waited for yet: no other has its number */
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    if (rc == HW_OK)
        rc = hw_disassemble_parse(hw_bytes_of(out.p, out.n), c);
    hw_strbuf_done(&out);
    if (rc < 0)
        return hw_fail(err, rc, 0, "'%s' did not end within its limits of time and output", tool);
    return HW_OK;
}

static int disassemble(int code_fd, struct hw_code *c, struct hw_error *err)
{
    static const char *const tools[] = {"objdump", "llvm-objdump"};
    bool any = false;
    for (size_t i = 0; i < HW_ARRAY_LEN(tools); i++) {
        int rc = run_tool(tools[i], code_fd, c, err);
        if (rc < 0 && rc != HW_ENOTFOUND)
            return rc;
        any = any || rc == HW_OK;
        c->tool = tools[i];
        if (rc == HW_OK && c->list.n)
            return HW_OK;
    }
    if (!any)
        return hw_fail(err, HW_ENOTFOUND, 0,
                       "neither objdump nor llvm-objdump is on this machine: install binutils "
                       "(or llvm)");
    return hw_fail(err, HW_EUNSUPPORTED, 0,
                   "the disassembler here does not know this file's processor; install llvm, or "
                   "binutils-multiarch");
}

/* 1 = a number in hexadecimal was there. */
static int take_hex(const uint8_t **p, const uint8_t *end, uint64_t *out)
{
    const uint8_t *at = *p;
    uint64_t v = 0;
    for (; at < end && isxdigit(*at) && at - *p < 16; at++)
        v = v << 4 | (uint64_t)(isdigit(*at) ? *at - '0' : (*at | 0x20) - 'a' + 10);
    bool any = at > *p;
    *p = at;
    *out = v;
    return any;
}

static int take_line(struct hw_code *c, const uint8_t *p, const uint8_t *end)
{
    struct hw_instruction x = {.file = HW_ID_NONE};
    while (p < end && *p == ' ')
        p++;
    if (!take_hex(&p, end, &x.va) || p == end || *p++ != ':')
        return HW_OK;
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    while (end > p && isspace(end[-1]))
        end--;
    if (x.va < c->start || x.va >= c->end || end == p ||
        (c->list.n && c->list.v[c->list.n - 1].va >= x.va))
        return HW_OK;
    x.text = (uint32_t)c->texts.n;
    for (; p < end; p++)
        hw_strbuf_add(&c->texts, *p == '\t' ? " " : (const char *)p, *p ? 1 : 0);
    hw_strbuf_add(&c->texts, "", 1);
    return c->texts.failed || hw_vec_push(&c->list, x) < 0 ? HW_ENOMEM : HW_OK;
}

int hw_disassemble_parse(struct hw_bytes output, struct hw_code *out)
{
    const uint8_t *p = output.p, *end = hw_bytes_end(output);
    int rc = HW_OK;
    while (rc == HW_OK && p < end) {
        const uint8_t *stop = memchr(p, '\n', (size_t)(end - p));
        stop = stop ? stop : end;
        rc = take_line(out, p, stop);
        p = stop < end ? stop + 1 : end;
    }
    return rc;
}

/* ---- lines ---- */

static int on_line(void *ctx, size_t index, const struct hw_line *chain, size_t n, bool folded)
{
    struct hw_code *c = ctx;
    struct hw_instruction *x = &c->list.v[index];
    (void)folded;
    if (n == 0 || !chain[0].file || !chain[0].line)
        return HW_OK;
    const struct hw_instruction *before = index ? x - 1 : NULL;
    x->line = chain[0].line;
    if (before && before->file != HW_ID_NONE &&
        strcmp(c->texts.p + before->file, chain[0].file) == 0) {
        x->file = before->file;
        return HW_OK;
    }
    x->file = (uint32_t)c->texts.n;
    hw_strbuf_add(&c->texts, chain[0].file, strlen(chain[0].file) + 1);
    return c->texts.failed ? HW_ENOMEM : HW_OK;
}

/* Broken debug info costs only the lines. */
static void add_lines(struct files *f)
{
    struct hw_code *c = f->code;
    HW_VEC(uint64_t) va = {0};
    bool ok = f->lines_fd >= 0;
    for (size_t i = 0; ok && i < c->list.n; i++)
        ok = hw_vec_push(&va, c->list.v[i].va) == 0;
    if (ok && va.n)
        (void)hw_line_reader_resolve(f->reader, f->lines_file, f->lines_fd, va.v, va.n,
                                     f->deadline_ns, on_line, c, NULL);
    hw_vec_done(&va);
}

int hw_disassemble(const struct hw_binaries_where *where, size_t n_where,
                   const struct hw_mapping *m, const char *path, struct hw_bytes build_id,
                   uint64_t rel_pc, struct hw_code *out, struct hw_error *err)
{
    struct files f = {.code = out, .m = m, .rel_pc = rel_pc, .code_fd = -1, .lines_fd = -1};
    f.deadline_ns = hw_now_monotonic_ns() + LINES_S * UINT64_C(1000000000);
    int rc = hw_line_reader_new(0, &f.reader);
    if (rc == HW_OK)
        rc = find_files(&f, where, n_where, path, build_id, err);
    if (rc == HW_OK)
        rc = disassemble(f.code_fd, out, err);
    if (rc == HW_OK)
        add_lines(&f);
    if (rc == HW_OK && (out->texts.failed || out->path.failed || out->function.failed))
        rc = hw_fail(err, HW_ENOMEM, 0, "instructions");
    if (f.code_fd >= 0)
        (void)close(f.code_fd);
    if (f.lines_fd >= 0)
        (void)close(f.lines_fd);
    hw_line_reader_free(f.reader);
    return rc;
}

const struct hw_instruction *hw_code_at(const struct hw_code *c, uint64_t va)
{
    size_t low = HW_LOWER_BOUND(mid, 0, c->list.n, c->list.v[mid].va <= va);
    return low && va < c->end ? &c->list.v[low - 1] : NULL;
}

void hw_code_done(struct hw_code *c)
{
    hw_vec_done(&c->list);
    hw_strbuf_done(&c->texts);
    hw_strbuf_done(&c->function);
    hw_strbuf_done(&c->path);
}

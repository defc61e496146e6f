#include "enrich/symbols/breakpad.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/files/machine_memory.h"
#include "base/memory/lower_bound.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "base/text/strbuf.h"
#include "base/text/text_parts.h"
#include "enrich/binaries.h"
#include "model/callsites.h"

#include "base/banned.h"

#define MAX_FILE     ((size_t)2 << 30)
#define MAX_LINE     ((size_t)1 << 20)
#define PUBLIC_REACH 0xffffu

struct span {
    uint64_t start, size;
    const char *name;    /* of functions and publics */
    uint32_t line, file; /* of lines */
    bool is_public;
};

typedef HW_VEC(struct span) span_list;

struct hw_breakpad {
    char *text;
    span_list functions, lines; /* sorted by start */
    struct hw_map64 files;      /* number -> name */
};

void hw_breakpad_free(struct hw_breakpad *b)
{
    if (!b)
        return;
    free(b->text);
    hw_vec_done(&b->functions);
    hw_vec_done(&b->lines);
    hw_map64_done(&b->files);
    free(b);
}

/* ---- words of a line ---- */

static char *word(char **rest)
{
    while (**rest == ' ' || **rest == '\t')
        (*rest)++;
    char *w = *rest;
    while (**rest && **rest != ' ' && **rest != '\t')
        (*rest)++;
    if (**rest)
        *(*rest)++ = 0;
    return *w ? w : NULL;
}

static bool number(char **rest, int base, uint64_t *out)
{
    const char *w = word(rest);
    char *end;
    if (!w || !isxdigit((unsigned char)w[0]))
        return false;
    errno = 0;
    *out = strtoull(w, &end, base);
    return errno == 0 && *end == 0;
}

static const char *name(char *rest)
{
    while (*rest == ' ')
        rest++;
    return rest;
}

/* ---- records ---- */

/* FUNC [m] address size param_size name, PUBLIC [m] address param_size name */
static int read_symbol(struct hw_breakpad *b, char *rest, bool is_public)
{
    struct span s = {.is_public = is_public};
    uint64_t params;
    if (rest[0] == 'm' && rest[1] == ' ')
        rest += 2;
    if (!number(&rest, 16, &s.start) || (!is_public && !number(&rest, 16, &s.size)) ||
        !number(&rest, 16, &params))
        return HW_EFORMAT;
    s.name = name(rest);
    return hw_vec_push(&b->functions, s) < 0 ? HW_ENOMEM : HW_OK;
}

static int read_file(struct hw_breakpad *b, char *rest)
{
    uint64_t n;
    if (!number(&rest, 10, &n) || n > UINT32_MAX)
        return HW_EFORMAT;
    return hw_map64_put(&b->files, n, (uint64_t)(uintptr_t)name(rest));
}

static int read_line(struct hw_breakpad *b, char *rest)
{
    struct span s = {0};
    uint64_t line, file;
    if (!number(&rest, 16, &s.start) || !number(&rest, 16, &s.size) || !number(&rest, 10, &line) ||
        !number(&rest, 10, &file) || file > UINT32_MAX)
        return HW_EFORMAT;
    s.line = line > UINT32_MAX ? 0 : (uint32_t)line;
    s.file = (uint32_t)file;
    return hw_vec_push(&b->lines, s) < 0 ? HW_ENOMEM : HW_OK;
}

static int read_record(struct hw_breakpad *b, char *line, bool *has_function)
{
    if (hw_starts_with(line, "FUNC ")) {
        *has_function = true;
        return read_symbol(b, line + 5, /* is_public = */ false);
    }
    if (hw_starts_with(line, "PUBLIC "))
        return read_symbol(b, line + 7, /* is_public = */ true);
    if (hw_starts_with(line, "FILE "))
        return read_file(b, line + 5);
    if (hw_starts_with(line, "STACK ") || hw_starts_with(line, "INFO ") ||
        hw_starts_with(line, "INLINE") || !line[0])
        return HW_OK;
    return *has_function ? read_line(b, line) : HW_EFORMAT;
}

static int compare(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return y->is_public - x->is_public; /* of two at one address the function is found first */
}

static int parse(struct hw_breakpad *b, struct hw_error *err)
{
    bool has_function = false;
    uint64_t number_of_line = 0;
    const uint64_t most = hw_machine_memory() / 4 / sizeof(struct span);
    for (char *at = b->text; at && *at;) {
        char *end = strchr(at, '\n'), *line = at;
        at = end ? end + 1 : NULL;
        if (end)
            *end = 0;
        size_t n = strlen(line);
        if (n && line[n - 1] == '\r')
            line[n - 1] = 0;
        number_of_line++;
        if (n > MAX_LINE)
            return hw_fail(err, HW_ELIMIT, number_of_line, "line %llu is longer than %zu bytes",
                           (unsigned long long)number_of_line, MAX_LINE);
        if (b->functions.n + b->lines.n > most)
            return hw_fail(err, HW_ELIMIT, number_of_line,
                           "line %llu: too many records for the available memory",
                           (unsigned long long)number_of_line);
        if (number_of_line == 1) {
            if (hw_starts_with(line, "MODULE "))
                continue;
            return hw_fail(err, HW_EFORMAT, 1,
                           "line 1: no MODULE record: this is not a symbol file");
        }
        int rc = read_record(b, line, &has_function);
        if (rc < 0)
            return hw_fail(err, rc, number_of_line, "line %llu: no record of a symbol file",
                           (unsigned long long)number_of_line);
    }
    if (number_of_line == 0)
        return hw_fail(err, HW_EFORMAT, 1, "line 1: no MODULE record: this is not a symbol file");
    if (b->functions.n)
        qsort(b->functions.v, b->functions.n, sizeof *b->functions.v, compare);
    if (b->lines.n)
        qsort(b->lines.v, b->lines.n, sizeof *b->lines.v, compare);
    return HW_OK;
}

static int parse_owned(char *text, struct hw_breakpad **out, struct hw_error *err)
{
    struct hw_breakpad *b = calloc(1, sizeof *b);
    if (!b) {
        free(text);
        return hw_fail(err, HW_ENOMEM, 0, "symbol file");
    }
    b->text = text;
    int rc = parse(b, err);
    if (rc < 0) {
        hw_breakpad_free(b);
        return rc;
    }
    *out = b;
    return HW_OK;
}

int hw_breakpad_parse(struct hw_bytes text, struct hw_breakpad **out, struct hw_error *err)
{
    char *copy = malloc(text.n + 1);
    if (!copy)
        return hw_fail(err, HW_ENOMEM, 0, "symbol file");
    if (text.n)
        memcpy(copy, text.p, text.n);
    copy[text.n] = 0;
    return parse_owned(copy, out, err);
}

static size_t max_file(void)
{
    uint64_t share = hw_machine_memory() / 4;
    return share < MAX_FILE ? (size_t)share : MAX_FILE;
}

/* Of both spellings; the tools that make them write upper case. */
static int read_file_of(struct hw_strbuf *path, const char *dir, struct hw_bytes build_id,
                        char **text, size_t *n, struct hw_error *err)
{
    hw_strbuf_addf(path, "%s/", dir);
    size_t at = path->n;
    hw_build_id_add(path, build_id);
    hw_strbuf_adds(path, ".breakpad");
    if (path->failed)
        return hw_fail(err, HW_ENOMEM, 0, "symbol file");
    if (access(path->p, F_OK) < 0)
        for (size_t i = at; path->p[i] != '.'; i++)
            path->p[i] = (char)toupper((unsigned char)path->p[i]);
    struct stat st;
    if (stat(path->p, &st) < 0)
        return errno == ENOENT || errno == ENOTDIR ? HW_ENOTFOUND
                                                   : hw_fail_sys(err, "cannot read '%s'", path->p);
    if (!S_ISREG(st.st_mode))
        return hw_fail(err, HW_EINVAL, 0, "'%s' is not a regular file", path->p);
    return hw_file_read(AT_FDCWD, path->p, max_file(), text, n, err);
}

int hw_breakpad_open(const char *dir, struct hw_bytes build_id, struct hw_breakpad **out,
                     struct hw_error *err)
{
    struct hw_strbuf path = {0};
    char *text = NULL;
    size_t n;
    int rc = build_id.n ? read_file_of(&path, dir, build_id, &text, &n, err) : HW_ENOTFOUND;
    if (rc == HW_OK) {
        rc = parse_owned(text, out, err);
        if (rc < 0)
            hw_error_prefix(err, "%s", path.p);
    }
    hw_strbuf_done(&path);
    return rc;
}

/* ---- addresses ---- */

/* The last span that starts at or before the address. */
static size_t last_before(const span_list *l, uint64_t address)
{
    return HW_LOWER_BOUND(mid, 0, l->n, l->v[mid].start <= address);
}

bool hw_breakpad_at(const struct hw_breakpad *b, uint64_t address, struct hw_line *out)
{
    size_t i = last_before(&b->functions, address);
    if (i == 0)
        return false;
    const struct span *s = &b->functions.v[i - 1];
    uint64_t away = address - s->start;
    *out = (struct hw_line){.function = s->name};
    if (s->is_public)
        return away <= PUBLIC_REACH;
    if (away >= s->size)
        return false;
    size_t k = last_before(&b->lines, address);
    const struct span *line = k ? &b->lines.v[k - 1] : NULL;
    uint64_t file;
    if (line && address - line->start < line->size && line->start >= s->start &&
        hw_map64_get(&b->files, line->file, &file)) {
        out->file = (const char *)(uintptr_t)file;
        out->line = line->line;
    }
    return true;
}

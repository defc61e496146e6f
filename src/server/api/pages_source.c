/*
 * GET /api/v1/traces/ID/lines?by=   a selection's figures by file and line, or by file and function
 * GET /api/v1/traces/ID/source?file=NAME   the text of a source file
 * GET /api/v1/traces/ID/binaries?mapping=N   where the file of a mapping was searched
 *
 * File names come from traces, which are untrusted. So the name must occur in the trace's own
 * symbols, have the extension of a source file and no "..", and resolve to a regular text file of
 * reasonable size. Names are resolved only below the directories of --sources, absolute ones by
 * their trailing components; no link is followed there. If the server serves only its own user,
 * absolute names in traces that the user opened are also used as they are.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "model/symbol_sets.h"
#include "server/api/pages_internal.h"
#include "views/flame/source_lines.h"

#include "base/banned.h"

enum { MAX_SOURCE = 8 << 20 };

/* ---- figures ---- */

/* Bytes and their count, whichever of them is the metric. */
static void put_line(struct hw_json *j, struct hw_page_trace *t,
                     const struct hw_page_selection *sel, const struct hw_line_row *r,
                     enum hw_lines_by by)
{
    enum hw_metric of_bytes = hw_metric_is_bytes(sel->metric) ? sel->metric : sel->metric - 1;
    hw_json_begin_array(j);
    hw_json_str(j, hw_page_string(t, r->file));
    hw_json_uint(j, r->line);
    hw_json_int(j, hw_value_get(&r->self, sel->metric));
    hw_json_int(j, hw_value_get(&r->total, sel->metric));
    hw_json_int(j, hw_value_samples(&r->total, sel->metric));
    hw_json_double(j, hw_figure_error(&r->total, sel->metric, sel->interval_bytes));
    hw_json_int(j, hw_value_get(&r->total, of_bytes));
    hw_json_int(j, hw_value_get(&r->total, of_bytes + 1));
    if (by == HW_LINES_BY_FUNCTION)
        hw_json_str(j, hw_page_label(t, sel->program, r->function));
    hw_json_end_array(j);
}

void hw_page_lines(struct hw_http_request *req, struct hw_page_trace *t)
{
    struct hw_page_selection sel;
    hw_values values = {0};
    hw_line_rows rows = {0};
    struct hw_error err = {0};
    struct hw_json j;
    const char *by_text = hw_http_query(req, "by");
    enum hw_lines_by by =
        by_text && strcmp(by_text, "function") == 0 ? HW_LINES_BY_FUNCTION : HW_LINES_BY_LINE;
    int rc = hw_page_selection_init(&sel, t, req, &err);
    if (rc == HW_OK && by_text && by == HW_LINES_BY_LINE && strcmp(by_text, "line") != 0)
        rc = hw_fail(&err, HW_EINVAL, 0, "by=%.40s: line and function are known", by_text);
    if (rc == HW_OK)
        rc = hw_page_values(t, &sel, &values, &err);
    const struct hw_flame_input q = {.cs = t->profile->callsites,
                                     .fns = t->functions,
                                     .values = &values,
                                     .flags = sel.flags & HW_PAGE_ALL_FRAMES ? 0 : HW_FLAME_SITES};
    if (rc == HW_OK)
        rc = hw_lines_find(&q, by, &rows);
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    hw_json_begin_array(&j);
    for (size_t i = 0; rc == HW_OK && i < rows.n; i++)
        if (hw_value_get(&rows.v[i].total, sel.metric) > 0)
            put_line(&j, t, &sel, &rows.v[i], by);
    hw_json_end_array(&j);
    if (rc < 0) {
        hw_json_done(&j);
        hw_page_reply_error(req, &err, rc);
    } else {
        hw_page_reply_json(req, &j);
    }
    hw_vec_done(&rows);
    hw_vec_done(&values);
    hw_page_selection_done(&sel);
}

/* ---- texts ---- */

static bool is_named(const struct hw_page_trace *t, const char *file)
{
    const struct hw_callsites *cs = t->profile->callsites;
    const struct hw_symbol_sets *sets = hw_callsites_get_symbol_sets(cs);
    for (size_t i = 0; i < sets->lines.n; i++)
        if (sets->lines.v[i].file.v && strcmp(hw_page_string(t, sets->lines.v[i].file), file) == 0)
            return true;
    for (uint32_t i = 0; i < hw_callsites_n_frames(cs); i++) {
        hw_str_id id = hw_callsites_get_frame(cs, (hw_frame_id){i})->file;
        if (id.v && strcmp(hw_page_string(t, id), file) == 0)
            return true;
    }
    return false;
}

static bool is_source(const char *file)
{
    static const char *const ends[] = {"c",   "cc",  "cpp", "cxx", "c++", "C",     "h",     "hh",
                                       "hpp", "hxx", "h++", "inl", "inc", "tcc",   "ipp",   "s",
                                       "S",   "asm", "m",   "mm",  "rs",  "go",    "java",  "kt",
                                       "py",  "js",  "ts",  "d",   "zig", "swift", "ml",    "hs",
                                       "cs",  "y",   "l",   "def", "f90", "f",     "scala", "rb"};
    const char *slash = strrchr(file, '/'), *dot = strrchr(slash ? slash : file, '.');
    bool detour = strcmp(file, "..") == 0 || strncmp(file, "../", 3) == 0 || strstr(file, "/../");
    if (!dot || detour)
        return !detour && strstr(file, "/c++/"); /* C++ library headers have no extension */
    for (size_t i = 0; i < HW_ARRAY_LEN(ends); i++)
        if (strcmp(dot + 1, ends[i]) == 0)
            return true;
    return false;
}

/*
 * The name itself, then its trailing components below each directory, longest first. *where says
 * which.
 */
static int open_source(const struct hw_page_trace *t, const char *file, struct hw_strbuf *where)
{
    const struct hw_pages_options *o = &t->pages->o;
    int fd = -1;
    hw_strbuf_adds(where, file);
    if (file[0] == '/' && o->own && !t->sent)
        fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    for (size_t i = 0; fd < 0 && i < o->n_sources; i++)
        for (const char *end = file; fd < 0 && end; end = strchr(end, '/')) {
            while (*end == '/')
                end++;
            hw_strbuf_clear(where);
            hw_strbuf_addf(where, "%s/%s", o->sources[i], end);
            fd = *end ? hw_files_open_below(o->sources[i], end) : -1;
        }
    return fd;
}

static int read_source(int fd, struct hw_strbuf *out, struct hw_error *err)
{
    struct stat st;
    char part[1 << 16];
    ssize_t n = 0;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return hw_fail(err, HW_EINVAL, 0, "it is not a regular file");
    while (out->n <= MAX_SOURCE && (n = read(fd, part, sizeof part)) > 0)
        hw_strbuf_add(out, part, (size_t)n);
    if (n < 0)
        return hw_fail_sys(err, "it cannot be read");
    if (out->n > MAX_SOURCE)
        return hw_fail(err, HW_ELIMIT, 0, "it is larger than 8 MiB");
    if (out->failed)
        return HW_ENOMEM;
    return out->n && memchr(out->p, 0, out->n) ? hw_fail(err, HW_EINVAL, 0, "it is not text")
                                               : HW_OK;
}

static void reply_not_found(struct hw_http_request *req, const struct hw_pages_options *o,
                            const char *file)
{
    struct hw_strbuf b = {0};
    hw_strbuf_addf(&b, "'%s' is not here", file);
    for (size_t i = 0; i < o->n_sources; i++)
        hw_strbuf_addf(&b, "%s%s", i ? ", " : ", nor are its ends below ", o->sources[i]);
    hw_strbuf_adds(&b, o->n_sources ? "; --sources DIR names another one"
                                    : "; --sources DIR names directories in which to look");
    hw_http_reply_text(req, HTTP_NOT_FOUND, b.p ? b.p : "");
    hw_strbuf_done(&b);
}

void hw_page_source(struct hw_http_request *req, struct hw_page_trace *t)
{
    const char *file = hw_http_query(req, "file");
    const struct hw_pages_options *o = &t->pages->o;
    struct hw_strbuf text = {0}, where = {0};
    struct hw_error err = {0};
    if (!file || !*file || !is_named(t, file)) {
        hw_http_reply_text(req, HTTP_NOT_FOUND, "no symbol of this trace names that file");
        return;
    }
    if (!is_source(file)) {
        hw_http_reply_text(req, HTTP_BAD, "its name is not that of a source file");
        return;
    }
    hw_autofd int fd = open_source(t, file, &where);
    int rc = fd < 0 ? HW_ENOTFOUND : read_source(fd, &text, &err);
    if (rc == HW_ENOTFOUND) {
        reply_not_found(req, o, file);
    } else if (rc < 0) {
        hw_page_reply_error(req, &err, rc);
    } else {
        struct hw_json j;
        hw_json_init(&j, NULL, NULL, /* pretty = */ false);
        hw_json_begin_object(&j);
        hw_json_kv_str(&j, "path", where.p);
        hw_json_key(&j, "text");
        hw_json_strn(&j, text.p ? text.p : "", text.n);
        hw_json_end_object(&j);
        hw_page_reply_json(req, &j);
    }
    hw_strbuf_done(&text);
    hw_strbuf_done(&where);
}

/* ---- files with symbols ---- */

static void put_try(void *ctx, const char *path, enum hw_binaries_try how, struct hw_bytes id)
{
    static const char *const words[] = {"not there", "no ELF file", "another build", "fits"};
    struct hw_strbuf hex = {0};
    struct hw_json *j = ctx;
    hw_json_begin_array(j);
    hw_json_str(j, path);
    hw_json_str(j, words[how]);
    if (how == HW_TRY_OTHER_ID)
        hw_hex_add(&hex, id);
    hw_json_strn(j, hex.p ? hex.p : "", hex.n);
    hw_json_end_array(j);
    hw_strbuf_done(&hex);
}

static int keep_looking(void *ctx, int fd, const char *path)
{
    (void)ctx;
    (void)fd;
    (void)path;
    return 0;
}

/* Searches for one file only: an index would walk all directories. */
void hw_page_binaries(struct hw_http_request *req, struct hw_page_trace *t)
{
    const char *text = hw_http_query(req, "mapping");
    char *end = NULL;
    unsigned long long n = text && *text ? strtoull(text, &end, 10) : ULLONG_MAX;
    struct hw_callsites *cs = t->profile->callsites;
    struct hw_binaries *b = NULL;
    struct hw_json j;
    if (n >= hw_callsites_n_mappings(cs) || *end) {
        hw_http_reply_text(req, HTTP_NOT_FOUND, "no mapping with that number");
        return;
    }
    const struct hw_mapping *m = hw_callsites_get_mapping(cs, (hw_mapping_id){(uint32_t)n});
    struct hw_binaries_where where = t->pages->o.symbols;
    where.mode = HW_BINARIES_FIND;
    where.no_paths = t->away;
    where.tried = put_try;
    where.ctx = &j;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    hw_json_begin_array(&j);
    int rc = hw_binaries_new(&where, &b);
    if (rc == HW_OK)
        rc = hw_binaries_offer(b, hw_page_string(t, m->path),
                               hw_strings_get(hw_callsites_strings(cs), m->build_id), keep_looking,
                               NULL, NULL);
    hw_json_end_array(&j);
    if (rc < 0)
        j.error = rc;
    hw_page_reply_json(req, &j);
    hw_binaries_free(b);
}

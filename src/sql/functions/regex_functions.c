/*
 * regexp(pattern, text), which the operator REGEXP calls; regexp_extract(text, pattern): the first
 * group, or the whole match of an expression without groups, NULL without a match;
 * regexp_replace_simple(text, pattern, by): replaces every match.
 *
 * Expressions are those of views/filter.h (POSIX extended, without the constructs that make glibc
 * slow). regexp searches a text's first 8 KiB. Finding the position of a match costs more, as glibc
 * restarts at each letter: the other two search only the first MAX_SEARCHED and leave the rest as
 * it is.
 */
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text/strbuf.h"
#include "sql/engine.h"
#include "views/filter.h"

#include "base/banned.h"

enum {
    MAX_SEARCHED = 1024,
    MAX_WALKED = 16384,
    PURE = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS
};

static void free_pattern(void *p)
{
    hw_pattern_free(p);
}

static void fail(sqlite3_context *ctx, int rc, const struct hw_error *err)
{
    if (rc == HW_ENOMEM)
        sqlite3_result_error_nomem(ctx);
    else
        sqlite3_result_error(ctx, err->text, -1);
}

/* Compiled once per statement for a constant pattern. SQLite owns it. */
static struct hw_pattern *pattern_of(sqlite3_context *ctx, sqlite3_value *value)
{
    struct hw_pattern *p = sqlite3_get_auxdata(ctx, 0);
    struct hw_strbuf text = {0};
    struct hw_error err = {0};
    if (p)
        return p;
    hw_strbuf_addf(&text, "/%s/", (const char *)sqlite3_value_text(value));
    int rc = text.failed ? HW_ENOMEM : hw_pattern_new(text.p, &p, &err);
    hw_strbuf_done(&text);
    if (rc < 0) {
        fail(ctx, rc, &err);
        return NULL;
    }
    sqlite3_set_auxdata(ctx, 0, p, free_pattern);
    p = sqlite3_get_auxdata(ctx, 0);
    if (!p) /* out of memory: SQLite has freed it */
        sqlite3_result_error_nomem(ctx);
    return p;
}

static void regexp(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    (void)argc;
    const char *pattern = (const char *)sqlite3_value_text(argv[0]);
    const char *text = (const char *)sqlite3_value_text(argv[1]);
    if (!pattern || !text)
        return;
    const struct hw_pattern *p = pattern[0] ? pattern_of(ctx, argv[0]) : NULL;
    if (p || !pattern[0]) /* the empty expression matches everything */
        sqlite3_result_int(ctx, !p || hw_pattern_matches(p, text));
}

/* ---- positions of matches ---- */

struct expression {
    char *text; /* owned */
    regex_t regex;
    bool compiled;
    size_t walked; /* letters searched: glibc caches a state for each */
};

static void free_expression(void *p)
{
    struct expression *e = p;
    if (e->compiled)
        regfree(&e->regex);
    free(e->text);
    free(e);
}

static int compile(struct expression *e, struct hw_error *err)
{
    char message[160];
    int rc = regcomp(&e->regex, e->text, REG_EXTENDED);
    e->compiled = rc == 0;
    e->walked = 0;
    if (rc == 0)
        return HW_OK;
    (void)regerror(rc, &e->regex, message, sizeof message); /* truncated if longer */
    return hw_fail(err, HW_EINVAL, 0, "regular expression %.100s: %s", e->text, message);
}

static struct expression *expression_of(sqlite3_context *ctx, sqlite3_value *value)
{
    enum { PATTERN_ARG = 1, MAX_PATTERN = 512 };
    struct expression *e = sqlite3_get_auxdata(ctx, PATTERN_ARG);
    struct hw_error err = {0};
    const char *text = (const char *)sqlite3_value_text(value);
    if (e)
        return e;
    e = calloc(1, sizeof *e);
    if (e)
        e->text = strdup(text);
    int rc = e && e->text ? hw_pattern_check_regex(text, &err) : HW_ENOMEM;
    if (rc == HW_OK && strlen(text) > MAX_PATTERN)
        rc = hw_fail(&err, HW_EINVAL, 0, "a pattern is too long");
    if (rc == HW_OK)
        rc = compile(e, &err);
    if (rc < 0) {
        fail(ctx, rc, &err);
        if (e)
            free_expression(e);
        return NULL;
    }
    sqlite3_set_auxdata(ctx, PATTERN_ARG, e, free_expression);
    e = sqlite3_get_auxdata(ctx, PATTERN_ARG);
    if (!e)
        sqlite3_result_error_nomem(ctx);
    return e;
}

/* The first match in text[from, n). at[1] is the first group's, -1 = none. */
static bool find(struct expression *e, const char *text, size_t from, size_t n, regmatch_t at[2])
{
    if (e->walked > MAX_WALKED) {
        regfree(&e->regex);
        e->compiled = false;
        if (compile(e, NULL) < 0)
            return false;
    }
    e->walked += n - from;
    at[0] = (regmatch_t){(regoff_t)from, (regoff_t)n};
    at[1] = (regmatch_t){-1, -1};
    return regexec(&e->regex, text, e->regex.re_nsub ? 2 : 1, at,
                   REG_STARTEND | (from ? REG_NOTBOL : 0)) == 0;
}

/* False: the result, NULL or an error, is set. */
static bool read_args(sqlite3_context *ctx, int argc, sqlite3_value **argv, struct expression **e,
                      const char **text, size_t *n)
{
    for (int i = 0; i < argc; i++)
        if (sqlite3_value_type(argv[i]) == SQLITE_NULL)
            return false;
    *text = (const char *)sqlite3_value_text(argv[0]);
    *n = *text ? strnlen(*text, MAX_SEARCHED) : 0;
    if (*text && sqlite3_value_text(argv[1]))
        *e = expression_of(ctx, argv[1]);
    else
        sqlite3_result_error_nomem(ctx);
    return *text && *e;
}

static void regexp_extract(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    struct expression *e = NULL;
    const char *text;
    regmatch_t at[2];
    size_t n;
    if (!read_args(ctx, argc, argv, &e, &text, &n) || !find(e, text, 0, n, at))
        return;
    const regmatch_t *m = e->regex.re_nsub ? &at[1] : &at[0];
    if (m->rm_so >= 0)
        sqlite3_result_text(ctx, text + m->rm_so, m->rm_eo - m->rm_so, SQLITE_TRANSIENT);
}

static void regexp_replace(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    struct expression *e = NULL;
    const char *text;
    struct hw_strbuf out = {0};
    regmatch_t at[2];
    size_t n, from = 0, copied = 0;
    if (!read_args(ctx, argc, argv, &e, &text, &n))
        return;
    const char *by = (const char *)sqlite3_value_text(argv[2]);
    size_t all = (size_t)sqlite3_value_bytes(argv[0]);
    while (by && from <= n && find(e, text, from, n, at)) {
        size_t start = (size_t)at[0].rm_so, end = (size_t)at[0].rm_eo;
        hw_strbuf_add(&out, text + copied, start - copied);
        hw_strbuf_adds(&out, by);
        copied = end;
        from = end > start ? end : end + 1; /* after an empty match one letter is copied */
    }
    hw_strbuf_add(&out, text + copied, all - copied);
    if (!by || out.failed)
        sqlite3_result_error_nomem(ctx);
    else
        sqlite3_result_text64(ctx, out.n ? out.p : "", out.n, SQLITE_TRANSIENT, SQLITE_UTF8);
    hw_strbuf_done(&out);
}

int hw_sql_add_regex_functions(struct hw_sql *s)
{
    static const struct {
        const char *name;
        int n_args;
        void (*run)(sqlite3_context *, int, sqlite3_value **);
    } functions[] = {
        {"regexp", 2, regexp},
        {"regexp_extract", 2, regexp_extract},
        {"regexp_replace_simple", 3, regexp_replace},
    };
    for (size_t i = 0; i < HW_ARRAY_LEN(functions); i++)
        if (sqlite3_create_function_v2(s->db, functions[i].name, functions[i].n_args, PURE, NULL,
                                       functions[i].run, NULL, NULL, NULL) != SQLITE_OK)
            return HW_ENOMEM;
    return HW_OK;
}

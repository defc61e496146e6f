/*
 * Perfetto's additions to SQL, processed before SQLite sees a statement:
 *
 *   INCLUDE PERFETTO MODULE a.b.c
 *   CREATE [OR REPLACE] PERFETTO TABLE name[(column TYPE, ...)] AS select    -> a table in memory
 *   CREATE [OR REPLACE] PERFETTO VIEW name[(column TYPE, ...)] AS select     -> a view
 *   CREATE [OR REPLACE] PERFETTO INDEX name ON table(columns)                -> an index
 *   CREATE [OR REPLACE] PERFETTO FUNCTION f(a TYPE, ...) RETURNS TYPE AS select
 *   CREATE [OR REPLACE] PERFETTO FUNCTION f(a TYPE, ...) RETURNS TABLE(column TYPE, ...) AS select
 *   CREATE [OR REPLACE] PERFETTO MACRO m(a Type, ...) RETURNS Type AS text
 *   m!(text, ...)        the macro's text, with $a replaced by the argument
 *
 * Macros are expanded outside in, up to a depth and a size, which end mutual recursion.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "sql/engine.h"
#include "sql/modules/token_macros.h"
#include "sql/tokens.h"

#include "base/banned.h"

enum { MAX_MACRO_DEPTH = 32, MAX_EXPANDED = 4 << 20, MAX_MACROS = 4096, MAX_PARAMS = 64 };

struct names {
    char *v[MAX_PARAMS]; /* owned */
    size_t n;
};

static void names_done(struct names *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->v[i]);
    l->n = 0;
}

/* ---- macros ---- */

static struct hw_macro *find_macro(struct hw_sql *s, struct hw_bytes name)
{
    for (size_t i = 0; i < s->macros.n; i++)
        if (hw_bytes_equal(hw_bytes_str(s->macros.v[i].name), name))
            return &s->macros.v[i];
    return NULL;
}

static struct hw_bytes trim(struct hw_bytes b)
{
    while (b.n && strchr(" \t\r\n", b.p[0]))
        b = hw_bytes_of(b.p + 1, b.n - 1);
    while (b.n && strchr(" \t\r\n", b.p[b.n - 1]))
        b.n--;
    return b;
}

/* Reads "(text, text...)" off *rest; texts may contain parentheses. */
static int take_arguments(struct hw_bytes *rest, struct hw_bytes *out, size_t *n)
{
    struct hw_token t;
    int depth = 0;
    const uint8_t *start = NULL;
    *n = 0;
    while (hw_token_take(rest, &t)) {
        if (t.kind != HW_TOKEN_OTHER)
            continue;
        uint8_t c = t.text.p[0];
        if (c == '(' && depth++ == 0)
            start = t.text.p + 1;
        bool ends = c == ')' && --depth == 0;
        if (ends || (c == ',' && depth == 1)) {
            if (*n == MAX_PARAMS)
                return HW_ELIMIT;
            struct hw_bytes text = trim(hw_bytes_of(start, (size_t)(t.text.p - start)));
            if (!ends || text.n || *n)
                out[(*n)++] = text;
            start = t.text.p + 1;
        }
        if (ends)
            return HW_OK;
    }
    return HW_EINVAL;
}

static void substitute(const struct hw_macro *m, const struct hw_bytes *args, struct hw_strbuf *out)
{
    struct hw_bytes rest = hw_bytes_str(m->body);
    struct hw_token t;
    while (hw_token_take(&rest, &t)) {
        struct hw_bytes text = t.text;
        if (t.kind == HW_TOKEN_VARIABLE && t.text.p[0] == '$')
            for (size_t i = 0; i < m->n_params; i++)
                if (hw_bytes_equal(hw_bytes_str(m->params[i]),
                                   hw_bytes_of(t.text.p + 1, t.text.n - 1)))
                    text = args[i];
        hw_strbuf_add(out, text.p, text.n);
    }
}

static int expand(struct hw_sql *s, struct hw_bytes text, unsigned depth, struct hw_strbuf *out,
                  struct hw_error *err);

/* A macro of token_macros.h: expands its arguments first. */
static int expand_tokens(struct hw_sql *s, struct hw_bytes name, const struct hw_bytes *args,
                         size_t n, unsigned depth, struct hw_strbuf *out, struct hw_error *err)
{
    struct hw_strbuf texts[MAX_PARAMS] = {{0}};
    struct hw_bytes expanded[MAX_PARAMS];
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < n; i++) {
        rc = expand(s, args[i], depth + 1, &texts[i], err);
        expanded[i] = hw_bytes_of(texts[i].p ? texts[i].p : "", texts[i].n);
    }
    if (rc == HW_OK)
        rc = hw_token_macro_put(name, expanded, n, out, err);
    for (size_t i = 0; i < n; i++)
        hw_strbuf_done(&texts[i]);
    return rc;
}

static int expand_call(struct hw_sql *s, struct hw_bytes name, struct hw_bytes *rest,
                       unsigned depth, struct hw_strbuf *out, struct hw_error *err)
{
    struct hw_bytes args[MAX_PARAMS];
    size_t n = 0;
    const struct hw_macro *m = find_macro(s, name);
    int show = name.n > 80 ? 80 : (int)name.n;
    bool of_tokens = !m && hw_token_macro_exists(name);
    if (!m && !of_tokens)
        return hw_fail(err, HW_EINVAL, 0, "no such macro: %.*s", show, (const char *)name.p);
    if (take_arguments(rest, args, &n) < 0)
        return hw_fail(err, HW_EINVAL, 0, "%.*s!( has no end", show, (const char *)name.p);
    if (m && n != m->n_params)
        return hw_fail(err, HW_EINVAL, 0, "%s! takes %zu arguments, not %zu", m->name, m->n_params,
                       n);
    if (depth >= MAX_MACRO_DEPTH)
        return hw_fail(err, HW_EINVAL, 0, "macros are nested too deeply at %.*s!", show,
                       (const char *)name.p);
    if (of_tokens)
        return expand_tokens(s, name, args, n, depth, out, err);
    struct hw_strbuf body = {0};
    substitute(m, args, &body);
    int rc = body.failed ? HW_ENOMEM : HW_OK;
    if (rc == HW_OK && body.n > MAX_EXPANDED)
        rc = hw_fail(err, HW_ELIMIT, 0, "the text of %s! becomes too long", m->name);
    if (rc == HW_OK)
        rc = expand(s, hw_bytes_of(body.p, body.n), depth + 1, out, err);
    hw_strbuf_done(&body);
    return rc;
}

/* Is it `name!(`? *rest is at the end of the name. */
static bool is_call(struct hw_bytes *rest)
{
    struct hw_bytes ahead = *rest;
    struct hw_token t;
    if (ahead.n == 0 || ahead.p[0] != '!')
        return false;
    ahead = hw_bytes_of(ahead.p + 1, ahead.n - 1);
    struct hw_bytes at_bracket = ahead;
    if (!hw_token_take_word(&ahead, &t) || t.text.p[0] != '(')
        return false;
    *rest = at_bracket;
    return true;
}

static int expand(struct hw_sql *s, struct hw_bytes text, unsigned depth, struct hw_strbuf *out,
                  struct hw_error *err)
{
    struct hw_token t;
    int rc = HW_OK;
    while (rc == HW_OK && hw_token_take(&text, &t)) {
        if (t.kind == HW_TOKEN_WORD && is_call(&text))
            rc = expand_call(s, t.text, &text, depth, out, err);
        else
            hw_strbuf_add(out, t.text.p, t.text.n);
        if (rc == HW_OK && (out->failed || out->n > MAX_EXPANDED))
            rc = out->failed ? HW_ENOMEM
                             : hw_fail(err, HW_ELIMIT, 0, "macros make the statement too long");
    }
    return rc;
}

/* ---- the parts of a CREATE PERFETTO ---- */

struct create {
    bool replace;
    struct hw_bytes rest; /* after the kind */
    char *name;           /* owned */
};

static char *text_of(struct hw_bytes b)
{
    return strndup((const char *)b.p, b.n);
}

static bool take_name(struct hw_bytes *rest, char **out)
{
    struct hw_token t;
    if (!hw_token_take_word(rest, &t) || t.kind != HW_TOKEN_WORD)
        return false;
    *out = text_of(t.text);
    return *out != NULL;
}

static bool take_if(struct hw_bytes *rest, const char *word)
{
    struct hw_bytes ahead = *rest;
    struct hw_token t;
    if (!hw_token_take_word(&ahead, &t) || !hw_token_is(&t, word))
        return false;
    *rest = ahead;
    return true;
}

/* "(name TYPE, ...)" -> names. A type is one word, possibly with parentheses: JOINID(t.c). */
static int take_params(struct hw_bytes *rest, struct names *out)
{
    struct hw_bytes parts[MAX_PARAMS];
    size_t n;
    struct hw_token t;
    int rc = take_arguments(rest, parts, &n);
    for (size_t i = 0; rc == HW_OK && i < n; i++) {
        char *name = NULL;
        if (!take_name(&parts[i], &name) || !hw_token_take_word(&parts[i], &t) ||
            t.kind != HW_TOKEN_WORD) {
            free(name);
            return HW_EINVAL;
        }
        out->v[out->n++] = name;
    }
    return rc;
}

static int fail_syntax(struct hw_error *err, const char *what, const char *name)
{
    return hw_fail(err, HW_EINVAL, 0, "CREATE PERFETTO %s%s%.80s: %s", what, name ? " " : "",
                   name ? name : "", "syntax error");
}

/* Runs statements that we generated. */
static int run_text(struct hw_sql *s, const char *text, struct hw_error *err)
{
    return hw_sql_run(s, text, strlen(text), NULL, NULL, err);
}

static int drop_first(struct hw_sql *s, const struct create *c, const char *kind,
                      struct hw_error *err)
{
    struct hw_strbuf text = {0};
    if (!c->replace)
        return HW_OK;
    hw_strbuf_addf(&text, "DROP %s IF EXISTS \"%s\"", kind, c->name);
    int rc = text.failed ? HW_ENOMEM : run_text(s, text.p, err);
    hw_strbuf_done(&text);
    return rc;
}

/* The declared columns must be those of the select. */
static int check_columns(struct hw_sql *s, const struct names *columns, struct hw_bytes select,
                         const char *name, struct hw_error *err)
{
    sqlite3_stmt *stmt;
    if (columns->n == 0)
        return HW_OK;
    if (sqlite3_prepare_v2(s->db, (const char *)select.p, (int)select.n, &stmt, NULL) != SQLITE_OK)
        return HW_OK; /* running it reports the error, with its position */
    int n = sqlite3_column_count(stmt), rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < columns->n; i++) {
        bool found = false;
        for (int k = 0; k < n && !found; k++)
            found = sqlite3_stricmp(sqlite3_column_name(stmt, k), columns->v[i]) == 0;
        if (!found)
            rc = hw_fail(err, HW_EINVAL, 0,
                         "%.80s: its schema has column '%.80s', which its select does not", name,
                         columns->v[i]);
    }
    if (rc == HW_OK && (size_t)n != columns->n)
        rc = hw_fail(err, HW_EINVAL, 0, "%.80s: its schema has %zu columns, its select %d", name,
                     columns->n, n);
    sqlite3_finalize(stmt);
    return rc;
}

static int create_relation(struct hw_sql *s, struct create *c, const char *kind,
                           struct hw_strbuf *out, struct hw_error *err)
{
    struct names columns = {0};
    struct hw_bytes ahead = c->rest;
    struct hw_token t;
    int rc = HW_OK;
    if (hw_token_take_word(&ahead, &t) && t.text.p[0] == '(')
        rc = take_params(&c->rest, &columns);
    if (rc < 0 || !take_if(&c->rest, "AS"))
        rc = fail_syntax(err, kind, c->name);
    if (rc == HW_OK)
        rc = check_columns(s, &columns, c->rest, c->name, err);
    names_done(&columns);
    if (rc == HW_OK)
        rc = drop_first(s, c, kind, err);
    if (rc < 0)
        return rc;
    hw_strbuf_addf(out, "CREATE %s \"%s\" AS ", kind, c->name);
    hw_strbuf_add(out, c->rest.p, c->rest.n);
    return HW_OK;
}

static int create_index(struct hw_sql *s, struct create *c, struct hw_strbuf *out,
                        struct hw_error *err)
{
    int rc = drop_first(s, c, "INDEX", err);
    if (rc < 0)
        return rc;
    hw_strbuf_addf(out, "CREATE INDEX \"%s\" ", c->name);
    hw_strbuf_add(out, c->rest.p, c->rest.n);
    return HW_OK;
}

static int create_function(struct hw_sql *s, struct create *c, struct hw_error *err)
{
    struct names params = {0}, columns = {0};
    char *type = NULL, *body = NULL;
    int rc = take_params(&c->rest, &params);
    bool rows = false;
    if (rc == HW_OK && take_if(&c->rest, "RETURNS")) {
        rows = take_if(&c->rest, "TABLE");
        if (rows)
            rc = take_params(&c->rest, &columns);
        else if (!take_name(&c->rest, &type))
            rc = HW_EINVAL;
    } else {
        rc = HW_EINVAL;
    }
    if (rc == HW_OK && !take_if(&c->rest, "AS"))
        rc = HW_EINVAL;
    if (rc < 0 || (rows && columns.n == 0)) {
        rc = fail_syntax(err, "FUNCTION", c->name);
        goto done;
    }
    body = text_of(trim(c->rest));
    struct hw_sql_signature f = {c->name, params.v, params.n, columns.v, columns.n, body};
    if (!body)
        rc = HW_ENOMEM;
    else if (hw_sql_is_table(c->name))
        rc = hw_fail(err, HW_EINVAL, 0, "%s is a table", c->name);
    else
        rc = rows ? hw_sql_add_table_function(s, &f, err) : hw_sql_add_scalar(s, &f, err);
done:
    free(type);
    free(body);
    names_done(&params);
    names_done(&columns);
    return rc;
}

static int create_macro(struct hw_sql *s, struct create *c, struct hw_error *err)
{
    struct names params = {0};
    char *type = NULL, *body = NULL, **kept = NULL;
    int rc = take_params(&c->rest, &params);
    if (rc == HW_OK &&
        (!take_if(&c->rest, "RETURNS") || !take_name(&c->rest, &type) || !take_if(&c->rest, "AS")))
        rc = HW_EINVAL;
    free(type);
    if (rc < 0) {
        names_done(&params);
        return fail_syntax(err, "MACRO", c->name);
    }
    struct hw_macro *old = find_macro(s, hw_bytes_str(c->name));
    if (old && !c->replace) {
        names_done(&params);
        return hw_fail(err, HW_EINVAL, 0, "macro %.80s already exists", c->name);
    }
    body = text_of(trim(c->rest));
    kept = calloc(params.n + 1, sizeof *kept);
    if (!body || !kept || s->macros.n >= MAX_MACROS ||
        (!old && hw_vec_reserve(&s->macros, s->macros.n + 1) < 0)) {
        free(body);
        free(kept);
        names_done(&params);
        return hw_fail(err, s->macros.n >= MAX_MACROS ? HW_ELIMIT : HW_ENOMEM, 0, "macro");
    }
    memcpy(kept, params.v, params.n * sizeof *kept);
    if (!old)
        old = &s->macros.v[s->macros.n++];
    else {
        for (size_t i = 0; i < old->n_params; i++)
            free(old->params[i]);
        free(old->params);
        free(old->body);
        free(old->name);
    }
    *old = (struct hw_macro){c->name, body, kept, params.n};
    c->name = NULL; /* moved */
    return HW_OK;
}

/* ---- modules ---- */

/* Packages have priority over our modules, later ones over earlier ones. NULL = no such module. */
static const char *module_text(const struct hw_sql *s, struct hw_bytes name)
{
    bool own = true;
    for (size_t i = s->n_packages; i-- > 0;) {
        const char *text = hw_sql_packages_find(s->packages[i], name);
        if (text)
            return text;
        own = own && !s->packages[i]->without_own;
    }
    for (size_t i = 0; own && i < hw_n_sql_modules; i++)
        if (hw_bytes_equal(hw_bytes_str(hw_sql_modules[i].name), name))
            return hw_sql_modules[i].sql;
    return NULL;
}

static int include_one(struct hw_sql *s, struct hw_bytes name, struct hw_error *err)
{
    for (size_t i = 0; i < s->included.n; i++)
        if (hw_bytes_equal(hw_bytes_str(s->included.v[i]), name))
            return HW_OK;
    const char *text = module_text(s, name);
    if (!text)
        return hw_fail(err, HW_EINVAL, 0, "unknown module '%.*s'", name.n > 100 ? 100 : (int)name.n,
                       (const char *)name.p);
    char *copy = text_of(name);
    if (!copy || hw_vec_push(&s->included, copy) < 0) {
        free(copy);
        return HW_ENOMEM;
    }
    size_t index = s->included.n - 1;
    int rc = run_text(s, text, err);
    if (rc < 0) { /* not included: a second attempt must fail the same way */
        hw_error_prefix(err, "module %.80s", copy);
        s->included.v[index] = s->included.v[--s->included.n];
        free(copy);
    }
    return rc;
}

static bool begins_with(const char *name, struct hw_bytes prefix)
{
    return strlen(name) > prefix.n && memcmp(name, prefix.p, prefix.n) == 0;
}

/* `a.b.*`: every module with this prefix. */
static int include_all(struct hw_sql *s, struct hw_bytes prefix, struct hw_error *err)
{
    bool own = true, any = false;
    int rc = HW_OK;
    for (size_t k = 0; k < s->n_packages; k++) {
        own = own && !s->packages[k]->without_own;
        for (size_t i = 0; rc == HW_OK && i < s->packages[k]->modules.n; i++)
            if (begins_with(s->packages[k]->modules.v[i].name, prefix)) {
                any = true;
                rc = include_one(s, hw_bytes_str(s->packages[k]->modules.v[i].name), err);
            }
    }
    for (size_t i = 0; rc == HW_OK && own && i < hw_n_sql_modules; i++)
        if (begins_with(hw_sql_modules[i].name, prefix)) {
            any = true;
            rc = include_one(s, hw_bytes_str(hw_sql_modules[i].name), err);
        }
    if (rc == HW_OK && !any)
        return hw_fail(err, HW_EINVAL, 0, "no module begins with '%.*s'",
                       prefix.n > 100 ? 100 : (int)prefix.n, (const char *)prefix.p);
    return rc;
}

static int include_module(struct hw_sql *s, struct hw_bytes rest, struct hw_error *err)
{
    struct hw_bytes name = trim(rest);
    if (name.n >= 1 && name.p[name.n - 1] == '*')
        return include_all(s, hw_bytes_of(name.p, name.n - 1), err);
    return include_one(s, name, err);
}

/* 1 = CREATE PERFETTO, out->rest is after PERFETTO; 0 = plain SQL. */
static int is_perfetto_create(struct hw_bytes text, struct create *out)
{
    *out = (struct create){0};
    if (!take_if(&text, "CREATE"))
        return 0;
    if (take_if(&text, "OR")) {
        if (!take_if(&text, "REPLACE"))
            return 0;
        out->replace = true;
    }
    if (!take_if(&text, "PERFETTO"))
        return 0;
    out->rest = text;
    return 1;
}

static int rewrite_create(struct hw_sql *s, struct create *c, struct hw_strbuf *out,
                          struct hw_error *err)
{
    static const char *const kinds[] = {"TABLE", "VIEW", "INDEX", "FUNCTION", "MACRO"};
    size_t kind = 0;
    while (kind < HW_ARRAY_LEN(kinds) && !take_if(&c->rest, kinds[kind]))
        kind++;
    if (kind == HW_ARRAY_LEN(kinds))
        return hw_fail(err, HW_EINVAL, 0,
                       "CREATE PERFETTO makes a TABLE, VIEW, INDEX, FUNCTION or MACRO");
    if (!take_name(&c->rest, &c->name))
        return fail_syntax(err, kinds[kind], NULL);
    switch (kind) {
    case 0:
    case 1:
        return create_relation(s, c, kinds[kind], out, err);
    case 2:
        return create_index(s, c, out, err);
    case 3:
        return create_function(s, c, err);
    default:
        return create_macro(s, c, err);
    }
}

int hw_sql_rewrite(struct hw_sql *s, struct hw_bytes statement, struct hw_strbuf *out,
                   struct hw_error *err)
{
    struct hw_bytes rest = statement;
    struct create c;
    /* A macro's body is stored unexpanded: it is expanded where it is used. */
    if (is_perfetto_create(statement, &c)) {
        struct hw_bytes ahead = c.rest;
        if (take_if(&ahead, "MACRO")) {
            int rc = rewrite_create(s, &c, out, err);
            free(c.name);
            return rc;
        }
    }
    if (take_if(&rest, "INCLUDE") && take_if(&rest, "PERFETTO") && take_if(&rest, "MODULE"))
        return include_module(s, rest, err);
    struct hw_strbuf text = {0};
    int rc = expand(s, statement, 0, &text, err);
    if (rc == HW_OK)
        rc = hw_sql_add_auto_ids(s, &text);
    struct hw_bytes expanded = hw_bytes_of(text.p ? text.p : "", text.n);
    if (rc == HW_OK && is_perfetto_create(expanded, &c)) {
        rc = rewrite_create(s, &c, out, err);
        free(c.name);
    } else if (rc == HW_OK) {
        hw_strbuf_add(out, expanded.p, expanded.n);
    }
    hw_strbuf_done(&text);
    return rc == HW_OK && out->failed ? HW_ENOMEM : rc;
}

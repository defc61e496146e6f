/*
 * Functions defined by scripts. Their bodies are selects with $parameters; a call binds the
 * arguments and runs the select. A function may call others and itself, up to a depth.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "sql/engine.h"

#include "base/banned.h"

struct hw_sql_function {
    struct hw_sql *sql;
    char *name, *body; /* owned */
    char **params;     /* owned */
    size_t n_params;
    char **columns; /* owned */
    size_t n_columns;
    sqlite3_stmt *ready; /* cached, not running; NULL = none */
    struct hw_sql_function *next, **link;
};

static void strings_free(char **v, size_t n)
{
    for (size_t i = 0; v && i < n; i++)
        free(v[i]);
    free(v);
}

static void function_free(void *p)
{
    struct hw_sql_function *f = p;
    if (!f)
        return;
    sqlite3_finalize(f->ready);
    if (f->link)
        *f->link = f->next;
    if (f->next)
        f->next->link = f->link;
    strings_free(f->params, f->n_params);
    strings_free(f->columns, f->n_columns);
    free(f->name);
    free(f->body);
    free(f);
}

static char **strings_copy(char **v, size_t n)
{
    char **copy = calloc(n + 1, sizeof *copy);
    for (size_t i = 0; copy && i < n; i++) {
        copy[i] = strdup(v[i]);
        if (!copy[i]) {
            strings_free(copy, n);
            return NULL;
        }
    }
    return copy;
}

static struct hw_sql_function *function_new(struct hw_sql *s, const struct hw_sql_signature *sig)
{
    struct hw_sql_function *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->sql = s;
    f->name = strdup(sig->name);
    f->body = strdup(sig->body);
    f->params = strings_copy(sig->params, sig->n_params);
    f->columns = strings_copy(sig->columns, sig->n_columns);
    f->n_params = f->params ? sig->n_params : 0;
    f->n_columns = f->columns ? sig->n_columns : 0;
    if (!f->name || !f->body || !f->params || !f->columns) {
        function_free(f);
        return NULL;
    }
    f->next = s->functions;
    f->link = &s->functions;
    if (f->next)
        f->next->link = &f->next;
    s->functions = f;
    return f;
}

void hw_sql_functions_finalize(struct hw_sql *s)
{
    for (struct hw_sql_function *f = s->functions; f; f = f->next) {
        sqlite3_finalize(f->ready);
        f->ready = NULL;
    }
}

static int prepare(struct hw_sql_function *f, sqlite3_stmt **out)
{
    *out = f->ready;
    f->ready = NULL;
    if (*out)
        return SQLITE_OK;
    int rc = sqlite3_prepare_v3(f->sql->db, f->body, -1, SQLITE_PREPARE_PERSISTENT, out, NULL);
    return rc == SQLITE_OK && !*out ? SQLITE_ERROR : rc;
}

/* Keeps one statement for the next call. */
static void release_stmt(struct hw_sql_function *f, sqlite3_stmt *stmt)
{
    sqlite3_reset(stmt);
    sqlite3_clear_bindings(stmt);
    if (f->ready)
        sqlite3_finalize(stmt);
    else
        f->ready = stmt;
}

static int bind(struct hw_sql_function *f, sqlite3_stmt *stmt, int i, sqlite3_value *value)
{
    char name[256];
    (void)snprintf(name, sizeof name, "$%s", f->params[i]); /* truncated names are not found */
    int at = sqlite3_bind_parameter_index(stmt, name);
    return at ? sqlite3_bind_value(stmt, at, value) : SQLITE_OK; /* unused parameters are fine */
}

static void scalar_result(struct hw_sql_function *f, sqlite3_stmt *stmt, sqlite3_context *ctx)
{
    int rc = sqlite3_step(stmt);
    if (rc == SQLITE_DONE)
        return; /* NULL */
    if (rc == SQLITE_ROW) {
        sqlite3_value *value = sqlite3_value_dup(sqlite3_column_value(stmt, 0));
        rc = value ? sqlite3_step(stmt) : SQLITE_NOMEM;
        if (rc == SQLITE_DONE)
            sqlite3_result_value(ctx, value);
        sqlite3_value_free(value);
        if (rc == SQLITE_DONE)
            return;
    }
    if (rc != SQLITE_ROW) {
        sqlite3_result_error(ctx, sqlite3_errmsg(f->sql->db), -1);
        sqlite3_result_error_code(ctx, rc);
        return;
    }
    char text[200];
    (void)snprintf(text, sizeof text, "%.100s: its select gives more than one row", f->name);
    sqlite3_result_error(ctx, text, -1);
}

static void scalar_call(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    struct hw_sql_function *f = sqlite3_user_data(ctx);
    sqlite3_stmt *stmt;
    if (f->sql->function_depth >= HW_SQL_MAX_CALL_DEPTH) {
        sqlite3_result_error(ctx, "functions call each other too deeply", -1);
        return;
    }
    if (prepare(f, &stmt) != SQLITE_OK) {
        sqlite3_result_error(ctx, sqlite3_errmsg(f->sql->db), -1);
        return;
    }
    int rc = SQLITE_OK;
    for (int i = 0; rc == SQLITE_OK && i < argc; i++)
        rc = bind(f, stmt, i, argv[i]);
    f->sql->function_depth++;
    if (rc == SQLITE_OK)
        scalar_result(f, stmt, ctx);
    else
        sqlite3_result_error_code(ctx, rc);
    f->sql->function_depth--;
    release_stmt(f, stmt);
}

/* The body must be one select that can be prepared now and has this many columns. */
static int check_body(struct hw_sql *s, const struct hw_sql_signature *sig, size_t n_columns,
                      struct hw_error *err)
{
    sqlite3_stmt *stmt;
    const char *tail;
    if (sqlite3_prepare_v2(s->db, sig->body, -1, &stmt, &tail) != SQLITE_OK)
        return hw_fail(err, HW_EINVAL, 0, "%.80s: %.300s", sig->name, sqlite3_errmsg(s->db));
    bool reads = stmt && sqlite3_stmt_readonly(stmt);
    size_t n = stmt ? (size_t)sqlite3_column_count(stmt) : 0;
    sqlite3_finalize(stmt);
    if (!reads || n != n_columns)
        return hw_fail(err, HW_EINVAL, 0, "%.80s: a select of %zu columns is needed", sig->name,
                       n_columns);
    return HW_OK;
}

int hw_sql_add_scalar(struct hw_sql *s, const struct hw_sql_signature *sig, struct hw_error *err)
{
    struct hw_sql_function *f = function_new(s, sig);
    if (!f)
        return HW_ENOMEM;
    /* Registered first: the body may call the function itself. */
    if (sqlite3_create_function_v2(s->db, sig->name, (int)sig->n_params, SQLITE_UTF8, f,
                                   scalar_call, NULL, NULL, function_free) != SQLITE_OK)
        return hw_fail(err, HW_EINVAL, 0, "%.80s: %s", sig->name, sqlite3_errmsg(s->db));
    int rc = check_body(s, sig, 1, err);
    if (rc < 0)
        (void)sqlite3_create_function_v2(s->db, sig->name, (int)sig->n_params, SQLITE_UTF8, NULL,
                                         NULL, NULL, NULL, NULL);
    return rc;
}

/* ---- functions that return rows ---- */

struct function_vtab {
    sqlite3_vtab base;
    struct hw_sql_function *f;
};

struct function_cursor {
    sqlite3_vtab_cursor base;
    sqlite3_stmt *stmt;
    sqlite3_value **args; /* owned copies, n_params */
    bool has_row;
    sqlite3_int64 row;
};

static bool has_column(const struct hw_sql_function *f, const char *name)
{
    for (size_t i = 0; i < f->n_columns; i++)
        if (sqlite3_stricmp(f->columns[i], name) == 0)
            return true;
    return false;
}

static int rows_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
                        sqlite3_vtab **out, char **message)
{
    struct hw_sql_function *f = aux;
    struct hw_strbuf text = {0};
    (void)argc;
    (void)argv;
    (void)message;
    hw_strbuf_adds(&text, "CREATE TABLE x(");
    for (size_t i = 0; i < f->n_columns; i++)
        hw_strbuf_addf(&text, "%s\"%s\"", i ? ", " : "", f->columns[i]);
    for (size_t i = 0; i < f->n_params; i++) /* also allows WHERE param = … */
        hw_strbuf_addf(&text, ", \"%s%s\" HIDDEN", has_column(f, f->params[i]) ? "in_" : "",
                       f->params[i]);
    hw_strbuf_addc(&text, ')');
    int rc = text.failed ? SQLITE_NOMEM : sqlite3_declare_vtab(db, text.p);
    hw_strbuf_done(&text);
    struct function_vtab *v = rc == SQLITE_OK ? sqlite3_malloc(sizeof *v) : NULL;
    if (!v)
        return rc == SQLITE_OK ? SQLITE_NOMEM : rc;
    *v = (struct function_vtab){.f = f};
    *out = &v->base;
    return SQLITE_OK;
}

static int rows_disconnect(sqlite3_vtab *v)
{
    sqlite3_free(v);
    return SQLITE_OK;
}

/* Every parameter needs a value: argument i is parameter i. */
static int rows_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    const struct hw_sql_function *f = ((struct function_vtab *)base)->f;
    size_t n = 0;
    for (int i = 0; i < info->nConstraint; i++) {
        const struct sqlite3_index_constraint *c = &info->aConstraint[i];
        int param = c->iColumn - (int)f->n_columns;
        if (param < 0 || c->op != SQLITE_INDEX_CONSTRAINT_EQ)
            continue;
        if (!c->usable)
            return SQLITE_CONSTRAINT;
        if (info->aConstraintUsage[i].argvIndex == 0) {
            info->aConstraintUsage[i].argvIndex = param + 1;
            info->aConstraintUsage[i].omit = 1;
            n++;
        }
    }
    if (n != f->n_params) {
        base->zErrMsg =
            sqlite3_mprintf("%s takes %d arguments, not %d", f->name, (int)f->n_params, (int)n);
        return SQLITE_ERROR;
    }
    info->estimatedCost = 1000;
    info->estimatedRows = 100;
    return SQLITE_OK;
}

static int rows_open(sqlite3_vtab *base, sqlite3_vtab_cursor **out)
{
    (void)base;
    struct function_cursor *c = sqlite3_malloc(sizeof *c);
    if (!c)
        return SQLITE_NOMEM;
    *c = (struct function_cursor){0};
    *out = &c->base;
    return SQLITE_OK;
}

static struct hw_sql_function *function_of(const struct function_cursor *c)
{
    return ((struct function_vtab *)c->base.pVtab)->f;
}

static void clear_args(struct function_cursor *c, size_t n)
{
    for (size_t i = 0; c->args && i < n; i++)
        sqlite3_value_free(c->args[i]);
    free(c->args);
    c->args = NULL;
}

static int rows_close(sqlite3_vtab_cursor *base)
{
    struct function_cursor *c = (struct function_cursor *)base;
    if (c->stmt)
        release_stmt(function_of(c), c->stmt);
    clear_args(c, function_of(c)->n_params);
    sqlite3_free(c);
    return SQLITE_OK;
}

static int fail_vtab(sqlite3_vtab *v, int rc, const char *text)
{
    sqlite3_free(v->zErrMsg);
    v->zErrMsg = sqlite3_mprintf("%s", text);
    return rc == SQLITE_OK ? SQLITE_ERROR : rc;
}

static int rows_next(sqlite3_vtab_cursor *base)
{
    struct function_cursor *c = (struct function_cursor *)base;
    struct hw_sql_function *f = function_of(c);
    if (f->sql->function_depth >= HW_SQL_MAX_CALL_DEPTH)
        return fail_vtab(base->pVtab, SQLITE_ERROR, "functions call each other too deeply");
    f->sql->function_depth++;
    int rc = sqlite3_step(c->stmt);
    f->sql->function_depth--;
    c->has_row = rc == SQLITE_ROW;
    c->row++;
    if (rc == SQLITE_ROW || rc == SQLITE_DONE)
        return SQLITE_OK;
    return fail_vtab(base->pVtab, rc, sqlite3_errmsg(f->sql->db));
}

static int rows_filter(sqlite3_vtab_cursor *base, int number, const char *text, int argc,
                       sqlite3_value **argv)
{
    struct function_cursor *c = (struct function_cursor *)base;
    struct hw_sql_function *f = function_of(c);
    (void)number;
    (void)text;
    if (c->stmt)
        release_stmt(f, c->stmt);
    c->stmt = NULL;
    clear_args(c, f->n_params);
    c->args = calloc(f->n_params + 1, sizeof *c->args);
    if (!c->args)
        return SQLITE_NOMEM;
    int rc = prepare(f, &c->stmt);
    if (rc != SQLITE_OK)
        return fail_vtab(base->pVtab, rc, sqlite3_errmsg(f->sql->db));
    for (int i = 0; rc == SQLITE_OK && i < argc; i++) {
        c->args[i] = sqlite3_value_dup(argv[i]);
        rc = c->args[i] ? bind(f, c->stmt, i, argv[i]) : SQLITE_NOMEM;
    }
    c->row = -1;
    return rc == SQLITE_OK ? rows_next(base) : rc;
}

static int rows_eof(sqlite3_vtab_cursor *base)
{
    return !((struct function_cursor *)base)->has_row;
}

static int rows_column(sqlite3_vtab_cursor *base, sqlite3_context *ctx, int column)
{
    struct function_cursor *c = (struct function_cursor *)base;
    size_t n = function_of(c)->n_columns;
    if ((size_t)column < n)
        sqlite3_result_value(ctx, sqlite3_column_value(c->stmt, column));
    else
        sqlite3_result_value(ctx, c->args[(size_t)column - n]);
    return SQLITE_OK;
}

static int rows_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    *out = ((struct function_cursor *)base)->row;
    return SQLITE_OK;
}

static const sqlite3_module rows_module = {
    .iVersion = 2,
    .xConnect = rows_connect,
    .xDisconnect = rows_disconnect,
    .xBestIndex = rows_best_index,
    .xOpen = rows_open,
    .xClose = rows_close,
    .xFilter = rows_filter,
    .xNext = rows_next,
    .xEof = rows_eof,
    .xColumn = rows_column,
    .xRowid = rows_rowid,
};

int hw_sql_add_table_function(struct hw_sql *s, const struct hw_sql_signature *sig,
                              struct hw_error *err)
{
    int rc = check_body(s, sig, sig->n_columns, err);
    if (rc < 0)
        return rc;
    struct hw_sql_function *f = function_new(s, sig);
    if (!f)
        return HW_ENOMEM;
    if (sqlite3_create_module_v2(s->db, sig->name, &rows_module, f, function_free) != SQLITE_OK)
        return hw_fail(err, HW_EINVAL, 0, "%.80s: %s", sig->name, sqlite3_errmsg(s->db));
    return HW_OK;
}

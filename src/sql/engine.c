/*
 * The connection: an empty in-memory database, the model's tables as virtual tables, and the rules
 * for what scripts may do. Scripts may create tables, views and indexes, all in memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "sql/engine.h"
#include "sql/flame/allocation_tree.h"
#include "sql/graph_modules.h"
#include "sql/graphs/graph_functions.h"
#include "sql/modules/module_texts.h"
#include "sql/tokens.h"

#include "base/banned.h"

enum {
    STEPS_PER_CHECK = 1000,
    CHECKS_PER_WATCH = 512, /* some 10 ms */
    MAX_SCRIPT_DEPTH = 16,
    MAX_TEXT = 64 << 20, /* one value */
    MAX_SQL = 8 << 20,
    MAX_PATTERN = 500 /* of LIKE and GLOB: compared at every position of a text */
};

/* ---- what scripts may not do ---- */

static bool is_listed(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (name && sqlite3_stricmp(name, list[i]) == 0)
            return true;
    return false;
}

static int authorize(void *ctx, int action, const char *a, const char *b, const char *database,
                     const char *view)
{
    /* The read-only ones; all others may write or change our settings. */
    static const char *const pragmas[] = {
        "table_info",  "table_xinfo",    "table_list",    "index_list",
        "index_info",  "index_xinfo",    "function_list", "module_list",
        "pragma_list", "collation_list", "database_list", "compile_options",
    };
    static const char *const functions[] = {"load_extension", "fts3_tokenizer"};
    (void)ctx;
    (void)database;
    (void)view;
    switch (action) {
    case SQLITE_ATTACH: /* VACUUM and VACUUM INTO come here too */
    case SQLITE_DETACH:
    case SQLITE_CREATE_TRIGGER:
    case SQLITE_CREATE_TEMP_TRIGGER:
        return SQLITE_DENY;
    case SQLITE_CREATE_VTABLE: /* b: the module */
    case SQLITE_DROP_VTABLE:
        return b && sqlite3_stricmp(b, HW_SQL_FLAME_MODULE) == 0 ? SQLITE_OK : SQLITE_DENY;
    case SQLITE_PRAGMA:
        return is_listed(a, pragmas, HW_ARRAY_LEN(pragmas)) ? SQLITE_OK : SQLITE_DENY;
    case SQLITE_FUNCTION:
        return is_listed(b, functions, HW_ARRAY_LEN(functions)) ? SQLITE_DENY : SQLITE_OK;
    default:
        return SQLITE_OK;
    }
}

bool hw_sql_must_stop(struct hw_sql *s)
{
    s->steps++;
    if (s->stop && s->steps % CHECKS_PER_WATCH == 0 && s->stop(s->stop_ctx))
        s->interrupted = 1;
    if (s->interrupted)
        return true;
    if (s->limits.max_steps && s->steps > s->limits.max_steps)
        return true;
    return s->deadline_ns && (int64_t)hw_now_monotonic_ns() > s->deadline_ns;
}

static int progress(void *ctx)
{
    return hw_sql_must_stop(ctx);
}

static void configure(sqlite3 *db)
{
    (void)sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    (void)sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
    (void)sqlite3_limit(db, SQLITE_LIMIT_LENGTH, MAX_TEXT);
    (void)sqlite3_limit(db, SQLITE_LIMIT_SQL_LENGTH, MAX_SQL);
    (void)sqlite3_limit(db, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, MAX_PATTERN);
    (void)sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
    (void)sqlite3_limit(db, SQLITE_LIMIT_WORKER_THREADS, 0);
}

/* ---- functions of the trace ---- */

static void trace_time(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    const struct hw_sql *s = sqlite3_user_data(ctx);
    (void)argc;
    (void)argv;
    sqlite3_result_int64(ctx, s->profile->first_ns);
}

static void trace_end(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    const struct hw_sql *s = sqlite3_user_data(ctx);
    (void)argc;
    (void)argv;
    sqlite3_result_int64(ctx, s->profile->last_ns);
}

static void text_function(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    char *(*fn)(const char *);
    void *data = sqlite3_user_data(ctx);
    (void)argc;
    memcpy(&fn, &data, sizeof fn);
    const char *text = (const char *)sqlite3_value_text(argv[0]);
    char *made = text && fn ? fn(text) : NULL;
    if (made)
        sqlite3_result_text(ctx, made, -1, free);
    else
        sqlite3_result_value(ctx, argv[0]);
}

/* if(condition, then [, else]): the name of iif in newer SQLite versions. */
static void choose(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    bool number = sqlite3_value_numeric_type(argv[0]) == SQLITE_FLOAT;
    bool holds = number ? sqlite3_value_double(argv[0]) != 0 : sqlite3_value_int64(argv[0]) != 0;
    if (holds)
        sqlite3_result_value(ctx, argv[1]);
    else if (argc > 2)
        sqlite3_result_value(ctx, argv[2]);
}

enum { PURE = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS };

int hw_sql_use_demangler(struct hw_sql *s, char *(*fn)(const char *text))
{
    s->demangle = fn;
    s->derived.callstacks.demangle = fn;
    void *data;
    memcpy(&data, &fn, sizeof data);
    int rc = sqlite3_create_function_v2(s->db, "demangle", 1, PURE, data, text_function, NULL, NULL,
                                        NULL);
    return rc == SQLITE_OK ? HW_OK : HW_ENOMEM;
}

/* ---- open, close ---- */

static int set_up(struct hw_sql *s, struct hw_error *err)
{
    if (sqlite3_open_v2(":memory:", &s->db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
                            SQLITE_OPEN_MEMORY,
                        NULL) != SQLITE_OK)
        return HW_ENOMEM;
    configure(s->db);
    int rc = hw_sql_derived_init(&s->derived, s->profile);
    if (rc == HW_OK)
        rc = hw_sql_add_tables(s);
    if (rc == HW_OK)
        rc = hw_sql_add_flamegraph(s);
    if (rc == HW_OK)
        rc = hw_sql_add_profile_views(s);
    if (rc == HW_OK)
        rc = hw_sql_add_dominators(s);
    if (rc == HW_OK)
        rc = hw_sql_add_graph_functions(s);
    if (rc == HW_OK)
        rc = hw_sql_add_allocation_tree(s);
    if (rc == HW_OK)
        rc = hw_sql_add_flame_tables(s);
    if (rc == HW_OK)
        rc = hw_sql_add_functions(s);
    if (rc == HW_OK)
        rc = hw_sql_add_text_functions(s);
    if (rc == HW_OK)
        rc = hw_sql_add_printf(s);
    if (rc == HW_OK)
        rc = hw_sql_add_regex_functions(s);
    if (rc == HW_OK)
        rc = hw_sql_add_value_functions(s);
    if (rc == HW_OK)
        rc = hw_sql_add_array_functions(s);
    if (rc < 0)
        return rc;
    if (sqlite3_create_function_v2(s->db, "trace_start", 0, PURE, s, trace_time, NULL, NULL,
                                   NULL) != SQLITE_OK ||
        sqlite3_create_function_v2(s->db, "trace_end", 0, PURE, s, trace_end, NULL, NULL, NULL) !=
            SQLITE_OK ||
        sqlite3_create_function_v2(s->db, "if", 2, PURE, NULL, choose, NULL, NULL, NULL) !=
            SQLITE_OK ||
        sqlite3_create_function_v2(s->db, "if", 3, PURE, NULL, choose, NULL, NULL, NULL) !=
            SQLITE_OK)
        return HW_ENOMEM;
    /* Sorting large results must not leave files behind. */
    if (sqlite3_exec(s->db, "PRAGMA temp_store = MEMORY", NULL, NULL, NULL) != SQLITE_OK)
        return hw_fail(err, HW_EINVAL, 0, "%s", sqlite3_errmsg(s->db));
    sqlite3_set_authorizer(s->db, authorize, s);
    sqlite3_progress_handler(s->db, STEPS_PER_CHECK, progress, s);
    static const char *const always[] = {hw_sql_prelude, hw_sql_public_views, hw_sql_sample_views};
    rc = hw_sql_use_demangler(s, NULL); /* until the caller sets one */
    for (size_t i = 0; rc == HW_OK && i < HW_ARRAY_LEN(always); i++)
        rc = hw_sql_run(s, always[i], strlen(always[i]), NULL, NULL, err);
    return rc;
}

int hw_sql_open(const struct hw_profile *p, const struct hw_sql_limits *limits, struct hw_sql **out,
                struct hw_error *err)
{
    if (!p->frozen)
        return hw_fail(err, HW_EINVAL, 0, "the profile is still being filled");
    struct hw_sql *s = calloc(1, sizeof *s);
    if (!s)
        return hw_fail(err, HW_ENOMEM, 0, "SQL");
    s->profile = p;
    int rc = set_up(s, err);
    if (rc < 0) {
        hw_sql_close(s);
        return err && err->text[0] ? rc : hw_fail(err, rc, 0, "SQL: %s", hw_errc_text(rc));
    }
    if (limits)
        s->limits = *limits;
    *out = s;
    return HW_OK;
}

void hw_sql_close(struct hw_sql *s)
{
    if (!s)
        return;
    hw_sql_functions_finalize(s);
    (void)sqlite3_close_v2(s->db); /* cannot fail */
    for (size_t i = 0; s->indexes && i < hw_n_tables; i++) {
        for (int k = 0; s->indexes[i] && k < hw_tables[i].n_columns; k++)
            hw_index_done(&s->indexes[i][k]);
        free(s->indexes[i]);
    }
    free(s->indexes);
    hw_sql_derived_done(&s->derived);
    for (size_t i = 0; i < s->macros.n; i++) {
        struct hw_macro *m = &s->macros.v[i];
        for (size_t k = 0; k < m->n_params; k++)
            free(m->params[k]);
        free(m->params);
        free(m->name);
        free(m->body);
    }
    hw_vec_done(&s->macros);
    for (size_t i = 0; i < s->included.n; i++)
        free(s->included.v[i]);
    hw_vec_done(&s->included);
    free(s);
}

int hw_sql_use_packages(struct hw_sql *s, const struct hw_sql_packages *k)
{
    if (s->n_packages == HW_SQL_MAX_PACKAGES)
        return HW_ELIMIT;
    s->packages[s->n_packages++] = k;
    return HW_OK;
}

void hw_sql_interrupt(struct hw_sql *s)
{
    s->interrupted = 1;
}

void hw_sql_watch(struct hw_sql *s, bool (*stop)(void *ctx), void *ctx)
{
    s->stop = stop;
    s->stop_ctx = ctx;
}

const struct hw_profile *hw_sql_profile(const struct hw_sql *s)
{
    return s->profile;
}

void hw_sql_limit_memory(uint64_t bytes)
{
    (void)sqlite3_hard_heap_limit64(bytes > INT64_MAX ? INT64_MAX : (sqlite3_int64)bytes);
}

uint64_t hw_sql_memory_left(void)
{
    sqlite3_int64 most = sqlite3_hard_heap_limit64(-1), used = sqlite3_memory_used();
    if (most <= 0)
        return UINT64_MAX;
    return used < most ? (uint64_t)(most - used) : 0;
}

uint64_t hw_sql_memory_kept(const struct hw_sql *s)
{
    int now = 0, peak;
    (void)sqlite3_db_status(s->db, SQLITE_DBSTATUS_CACHE_USED, &now, &peak, 0); /* cannot fail */
    return (now > 0 ? (uint64_t)now : 0) + s->kept_bytes;
}

/* ---- running ---- */

struct position {
    const char *script;    /* contains the statement; for line numbers */
    const char *statement; /* NULL: rewritten */
};

static unsigned line_of(const struct position *at, const char *where)
{
    unsigned line = 1;
    for (const char *c = at->script; c < where; c++)
        line += *c == '\n';
    return line;
}

/* SQLite's message, with the source line and a caret below. */
static int sql_fail(struct hw_sql *s, const struct position *at, const char *text,
                    struct hw_error *err)
{
    int code = sqlite3_errcode(s->db), offset = sqlite3_error_offset(s->db);
    const char *message = sqlite3_errmsg(s->db);
    if (code == SQLITE_INTERRUPT)
        return s->interrupted
                   ? hw_fail(err, HW_ETIMEOUT, 0, "interrupted")
                   : hw_fail(err, HW_ETIMEOUT, 0, "the query took too long: its limit is %g s",
                             s->limits.timeout_ms / 1e3);
    if (code == SQLITE_NOMEM)
        return hw_fail(err, HW_ENOMEM, 0, "the query needs more memory than it may have");
    if (offset < 0 || (size_t)offset > strlen(text))
        return hw_fail(err, HW_EINVAL, 0, "%.300s", message);
    const char *where = text + offset, *start = where;
    while (start > text && start[-1] != '\n' && where - start < 60)
        start--;
    size_t n = strcspn(start, "\n");
    if (n > 76)
        n = 76;
    unsigned line = line_of(at, at->statement ? at->statement + offset : at->script);
    if (!at->statement)
        return hw_fail(err, HW_EINVAL, (uint64_t)offset, "%.200s\n  %.*s\n  %*s^", message, (int)n,
                       start, (int)(where - start), "");
    return hw_fail(err, HW_EINVAL, (uint64_t)(at->statement + offset - at->script),
                   "%.200s\n  line %u: %.*s\n  %*s^", message, line, (int)n, start,
                   (int)(where - start) + snprintf(NULL, 0, "line %u: ", line), "");
}

static struct hw_sql_cell cell_of(sqlite3_stmt *stmt, int i)
{
    struct hw_sql_cell c = {.type = HW_SQL_NULL};
    switch (sqlite3_column_type(stmt, i)) {
    case SQLITE_INTEGER:
        c.type = HW_SQL_INT;
        c.i = sqlite3_column_int64(stmt, i);
        break;
    case SQLITE_FLOAT:
        c.type = HW_SQL_REAL;
        c.d = sqlite3_column_double(stmt, i);
        break;
    case SQLITE_TEXT:
        c.type = HW_SQL_TEXT;
        c.p = sqlite3_column_text(stmt, i);
        c.n = (size_t)sqlite3_column_bytes(stmt, i);
        break;
    case SQLITE_BLOB:
        c.type = HW_SQL_BLOB;
        c.p = sqlite3_column_blob(stmt, i);
        c.n = (size_t)sqlite3_column_bytes(stmt, i);
        break;
    default:
        break;
    }
    if (c.type == HW_SQL_TEXT && !c.p)
        c.type = HW_SQL_NULL; /* out of memory; the next step fails */
    return c;
}

struct spent {
    uint64_t rows, bytes;
};

static int send_row(struct hw_sql *s, sqlite3_stmt *stmt, int n, struct hw_sql_cell *cells,
                    struct spent *spent, const struct hw_sql_sink *sink, struct hw_error *err)
{
    for (int i = 0; i < n; i++) {
        cells[i] = cell_of(stmt, i);
        spent->bytes += cells[i].n;
    }
    spent->rows++;
    if ((s->limits.max_rows && spent->rows > s->limits.max_rows) ||
        (s->limits.max_bytes && spent->bytes > s->limits.max_bytes))
        return hw_fail(err, HW_ELIMIT, 0, "the result is too large after %llu rows; use LIMIT",
                       (unsigned long long)spent->rows - 1);
    return sink ? sink->row(sink->ctx, (size_t)n, cells) : HW_OK;
}

static int send_names(sqlite3_stmt *stmt, int n, const struct hw_sql_sink *sink)
{
    const char **names = calloc((size_t)n, sizeof *names);
    if (!names)
        return HW_ENOMEM;
    for (int i = 0; i < n; i++) {
        names[i] = sqlite3_column_name(stmt, i);
        if (!names[i])
            names[i] = "";
    }
    int rc = sink->begin(sink->ctx, (size_t)n, names);
    free(names);
    return rc;
}

static int step_all(struct hw_sql *s, sqlite3_stmt *stmt, const struct position *at,
                    const char *text, const struct hw_sql_sink *sink, struct hw_error *err)
{
    int n = sqlite3_column_count(stmt), rc = HW_OK, step;
    if (n == 0)
        sink = NULL;
    struct hw_sql_cell *cells = calloc((size_t)n + 1, sizeof *cells);
    struct spent spent = {0};
    if (!cells)
        return HW_ENOMEM;
    bool begun = false; /* the header waits for the first row, so that an early error has none */
    while ((step = sqlite3_step(stmt)) == SQLITE_ROW) {
        if (sink && !begun)
            rc = send_names(stmt, n, sink);
        begun = true;
        if (rc == HW_OK)
            rc = send_row(s, stmt, n, cells, &spent, sink, err);
        if (rc != HW_OK)
            break;
    }
    free(cells);
    if (rc == HW_OK && step != SQLITE_DONE)
        return sql_fail(s, at, text, err);
    if (rc == HW_OK && sink && !begun)
        rc = send_names(stmt, n, sink);
    if (rc >= 0 && sink)
        rc = sink->end(sink->ctx);
    return rc < 0 ? rc : HW_OK;
}

static int run_plain(struct hw_sql *s, const char *text, const struct position *at,
                     const struct hw_sql_sink *sink, struct hw_error *err)
{
    sqlite3_stmt *stmt;
    const char *tail = text;
    while (*tail) {
        const char *now = tail;
        if (sqlite3_prepare_v2(s->db, now, -1, &stmt, &tail) != SQLITE_OK)
            return sql_fail(s, at, now, err);
        if (!stmt)
            return HW_OK; /* blanks and comments */
        int rc = step_all(s, stmt, at, now, sink, err);
        sqlite3_finalize(stmt);
        if (rc < 0)
            return rc;
    }
    return HW_OK;
}

static bool is_blank(struct hw_bytes b)
{
    struct hw_token t;
    return !hw_token_take_word(&b, &t);
}

/* Appends the statement's first line to a message without a position. */
static void append_line(struct hw_bytes statement, const char *script, struct hw_error *err)
{
    struct hw_bytes from = statement;
    struct hw_token t;
    if (!err || strstr(err->text, "\n  ") || !hw_token_take_word(&from, &t))
        return;
    struct position at = {.script = script};
    const char *start = (const char *)t.text.p, *end = (const char *)statement.p + statement.n;
    size_t used = strlen(err->text), n = 0;
    while (start + n < end && start[n] != '\n' && n < 76)
        n++;
    (void)snprintf(err->text + used, sizeof err->text - used, "\n  line %u: %.*s",
                   line_of(&at, start), (int)n, start);
}

static int run_statement(struct hw_sql *s, struct hw_bytes statement, const char *script,
                         const struct hw_sql_sink *sink, struct hw_error *err)
{
    struct hw_strbuf text = {0};
    if (s->script_depth == 1) {
        s->steps = 0;
        s->deadline_ns = s->limits.timeout_ms ? (int64_t)hw_now_monotonic_ns() +
                                                    (int64_t)s->limits.timeout_ms * 1000000
                                              : 0;
    }
    int rc = hw_sql_rewrite(s, statement, &text, err);
    if (rc == HW_OK && text.n) {
        bool same = hw_bytes_equal(statement, hw_bytes_of(text.p, text.n));
        struct position at = {script, same ? (const char *)statement.p : NULL};
        rc = run_plain(s, text.p, &at, sink, err);
    }
    hw_strbuf_done(&text);
    if (rc < 0 && err && !err->text[0])
        (void)hw_fail(err, rc, 0, "%s", hw_errc_text(rc));
    if (rc == HW_EINVAL && s->script_depth == 1)
        append_line(statement, script, err);
    return rc;
}

static int check_script(const struct hw_sql *s, const char *script, size_t n, struct hw_error *err)
{
    if (n && memchr(script, 0, n))
        return hw_fail(err, HW_EINVAL, 0, "a NUL byte in SQL");
    if (n > MAX_SQL || s->script_depth >= MAX_SCRIPT_DEPTH)
        return hw_fail(err, HW_ELIMIT, 0, "the script is too long or nested too deeply");
    return HW_OK;
}

/* Takes the next non-blank statement off *rest. */
static bool take_statement(struct hw_bytes *rest, struct hw_bytes *statement)
{
    while (hw_token_statement(rest, statement))
        if (!is_blank(*statement))
            return true;
    return false;
}

bool hw_sql_find_statement(const char *text, size_t n, size_t *at, size_t *len)
{
    struct hw_bytes rest = hw_bytes_of(text + *at, n - *at), statement;
    struct hw_token t;
    if (*at >= n || !take_statement(&rest, &statement))
        return false;
    struct hw_bytes from = statement; /* skips leading blanks and comments */
    if (hw_token_take_word(&from, &t))
        statement.n -= (size_t)(t.text.p - statement.p);
    *at = (size_t)((const char *)t.text.p - text);
    *len = statement.n;
    return true;
}

int hw_sql_run_one(struct hw_sql *s, const char *script, size_t n, size_t *at,
                   const struct hw_sql_sink *sink, struct hw_error *err)
{
    struct hw_bytes rest = hw_bytes_of(script + *at, n - *at), statement;
    int rc = check_script(s, script, n, err);
    if (rc < 0 || *at >= n || !take_statement(&rest, &statement))
        return rc;
    if (s->script_depth++ == 0)
        s->interrupted = 0;
    rc = run_statement(s, statement, script, sink, err);
    s->script_depth--;
    *at = (size_t)((const char *)rest.p - script);
    return rc < 0 ? rc : 1;
}

int hw_sql_run(struct hw_sql *s, const char *script, size_t n, const struct hw_sql_sink *sink,
               size_t *n_statements, struct hw_error *err)
{
    struct hw_bytes rest = hw_bytes_of(script, n), statement;
    size_t count = 0;
    int rc = check_script(s, script, n, err);
    if (rc < 0)
        return rc;
    if (s->script_depth++ == 0)
        s->interrupted = 0;
    while (rc == HW_OK && take_statement(&rest, &statement)) {
        count++;
        rc = run_statement(s, statement, script, sink, err);
    }
    s->script_depth--;
    if (n_statements)
        *n_statements = count;
    return rc;
}

/*
 * printf and format in bounded time. SQLite's own processes every width of a format, whatever its
 * limit of a text: '%.*c' of 2,000,000,000 takes 12 s, and deadlines are not checked within a call.
 * So the widths are added up and checked first; then SQLite's function runs, in an otherwise empty
 * connection.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/saturate.h"
#include "sql/engine.h"

#include "base/banned.h"

/* One for each of the two names; initialized by its first call. */
struct formatter {
    sqlite3 *db;
    sqlite3_stmt *stmt; /* with n_args parameters */
    int n_args;
};

static void formatter_free(void *p)
{
    struct formatter *f = p;
    sqlite3_finalize(f->stmt);
    (void)sqlite3_close(f->db); /* cannot fail: its statement is finalized */
    free(f);
}

/* ---- the widths in a format ---- */

struct counts {
    const char *at;
    int argc, next; /* the argument that comes next */
    sqlite3_value **argv;
};

static int64_t count_read(struct counts *c)
{
    int64_t n = 0;
    if (*c->at == '*') {
        c->at++;
        n = c->next < c->argc ? sqlite3_value_int(c->argv[c->next]) : 0;
        c->next++;
        return n < 0 ? -n : n;
    }
    for (; *c->at >= '0' && *c->at <= '9'; c->at++)
        n = n > INT32_MAX ? n : n * 10 + (*c->at - '0');
    return n;
}

/* The sum of widths and precisions. A text's precision truncates, so it costs nothing. */
static int64_t counts_of(const char *format, int argc, sqlite3_value **argv)
{
    struct counts c = {format, argc, 1, argv};
    int64_t sum = 0;
    while ((c.at = strchr(c.at, '%'))) {
        c.at++;
        c.at += strspn(c.at, "-+ #0!,");
        int64_t precision = 0;
        sum = hw_sat_add(sum, count_read(&c));
        if (*c.at == '.') {
            c.at++;
            precision = count_read(&c);
        }
        c.at += strspn(c.at, "l");
        if (!*c.at)
            break;
        if (!strchr("sqQwz", *c.at))
            sum = hw_sat_add(sum, precision);
        c.next += *c.at != '%' && *c.at != 'n';
        c.at++;
    }
    return sum;
}

/* ---- the call ---- */

static int prepare(struct formatter *f, int n_args)
{
    if (f->stmt && f->n_args == n_args)
        return SQLITE_OK;
    sqlite3_finalize(f->stmt);
    f->stmt = NULL;
    f->n_args = n_args;
    int rc = SQLITE_OK;
    if (!f->db)
        rc =
            sqlite3_open_v2(":memory:", &f->db,
                            SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_MEMORY, NULL);
    struct hw_strbuf sql = {0};
    hw_strbuf_adds(&sql, "SELECT printf(");
    for (int i = 0; i < n_args; i++)
        hw_strbuf_adds(&sql, i ? ", ?" : "?");
    hw_strbuf_addc(&sql, ')');
    if (rc == SQLITE_OK)
        rc = sql.failed
                 ? SQLITE_NOMEM
                 : sqlite3_prepare_v3(f->db, sql.p, -1, SQLITE_PREPARE_PERSISTENT, &f->stmt, NULL);
    hw_strbuf_done(&sql);
    return rc;
}

static void call(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    struct formatter *f = sqlite3_user_data(ctx);
    int max = sqlite3_limit(sqlite3_context_db_handle(ctx), SQLITE_LIMIT_LENGTH, -1);
    const char *format = argc ? (const char *)sqlite3_value_text(argv[0]) : NULL;
    if (format && counts_of(format, argc, argv) > max) {
        sqlite3_result_error_toobig(ctx);
        return;
    }
    int rc = prepare(f, argc);
    if (rc == SQLITE_OK)
        (void)sqlite3_limit(f->db, SQLITE_LIMIT_LENGTH, max);
    for (int i = 0; rc == SQLITE_OK && i < argc; i++)
        rc = sqlite3_bind_value(f->stmt, i + 1, argv[i]);
    if (rc == SQLITE_OK && (rc = sqlite3_step(f->stmt)) == SQLITE_ROW) {
        sqlite3_result_value(ctx, sqlite3_column_value(f->stmt, 0));
        rc = SQLITE_OK;
    }
    if (rc == SQLITE_TOOBIG)
        sqlite3_result_error_toobig(ctx);
    else if (rc != SQLITE_OK)
        sqlite3_result_error_code(ctx, rc);
    if (f->stmt) {
        sqlite3_reset(f->stmt);
        sqlite3_clear_bindings(f->stmt);
    }
}

int hw_sql_add_printf(struct hw_sql *s)
{
    static const char *const names[] = {"printf", "format"};
    for (size_t i = 0; i < HW_ARRAY_LEN(names); i++) {
        struct formatter *f = calloc(1, sizeof *f);
        if (!f)
            return HW_ENOMEM;
        /* Frees f even on failure. */
        if (sqlite3_create_function_v2(s->db, names[i], -1,
                                       SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, f,
                                       call, NULL, NULL, formatter_free) != SQLITE_OK)
            return HW_ENOMEM;
    }
    return HW_OK;
}

/*
 * Exports everything to one SQLite file: the model's and the scripts' tables as tables, views as
 * views. The file is a second connection, so the scripts' connection can never write to files. It
 * is written under a temporary name and renamed when complete.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text/strbuf.h"
#include "sql/engine.h"

#include "base/banned.h"

static int fail_file(sqlite3 *file, struct hw_error *err)
{
    return hw_fail(err, HW_ESYS, 0, "cannot write the database: %.300s", sqlite3_errmsg(file));
}

/* CREATE TABLE and INSERT statements for the columns of `from`. */
static int make_texts(sqlite3_stmt *from, const char *table, struct hw_strbuf *create,
                      struct hw_strbuf *insert)
{
    int n = sqlite3_column_count(from);
    char *name = sqlite3_mprintf("\"%w\"", table);
    hw_strbuf_addf(create, "CREATE TABLE %s(", name ? name : "");
    hw_strbuf_addf(insert, "INSERT INTO %s VALUES(", name ? name : "");
    bool ok = name != NULL;
    for (int i = 0; i < n; i++) {
        const char *type = sqlite3_column_decltype(from, i);
        char *column = sqlite3_mprintf("\"%w\" %s", sqlite3_column_name(from, i), type ? type : "");
        hw_strbuf_addf(create, "%s%s", i ? "," : "", column ? column : "");
        hw_strbuf_adds(insert, i ? ",?" : "?");
        ok = ok && column;
        sqlite3_free(column);
    }
    sqlite3_free(name);
    hw_strbuf_addc(create, ')');
    hw_strbuf_addc(insert, ')');
    return ok && !create->failed && !insert->failed ? HW_OK : HW_ENOMEM;
}

static int copy_rows(sqlite3_stmt *from, sqlite3_stmt *to, int n)
{
    int rc;
    while ((rc = sqlite3_step(from)) == SQLITE_ROW) {
        for (int i = 0; i < n; i++)
            if (sqlite3_bind_value(to, i + 1, sqlite3_column_value(from, i)) != SQLITE_OK)
                return HW_ENOMEM;
        if (sqlite3_step(to) != SQLITE_DONE)
            return HW_ESYS;
        sqlite3_reset(to);
    }
    return rc == SQLITE_DONE ? HW_OK : HW_EINVAL;
}

static int copy_table(struct hw_sql *s, sqlite3 *file, const char *table, struct hw_error *err)
{
    struct hw_strbuf create = {0}, insert = {0};
    sqlite3_stmt *from = NULL, *to = NULL;
    char *select = sqlite3_mprintf("SELECT * FROM \"%w\"", table);
    int rc = HW_OK;
    if (!select || sqlite3_prepare_v2(s->db, select, -1, &from, NULL) != SQLITE_OK)
        rc = hw_fail(err, HW_EINVAL, 0, "%.80s: %.200s", table, sqlite3_errmsg(s->db));
    if (rc == HW_OK)
        rc = make_texts(from, table, &create, &insert);
    if (rc == HW_OK && (sqlite3_exec(file, create.p, NULL, NULL, NULL) != SQLITE_OK ||
                        sqlite3_prepare_v2(file, insert.p, -1, &to, NULL) != SQLITE_OK))
        rc = fail_file(file, err);
    if (rc == HW_OK) {
        rc = copy_rows(from, to, sqlite3_column_count(from));
        if (rc == HW_ESYS)
            rc = fail_file(file, err);
        else if (rc < 0)
            (void)hw_fail(err, rc, 0, "%.80s: %.200s", table, sqlite3_errmsg(s->db));
    }
    sqlite3_finalize(from);
    sqlite3_finalize(to);
    sqlite3_free(select);
    hw_strbuf_done(&create);
    hw_strbuf_done(&insert);
    return rc;
}

/* Tables of scripts are copied, views and indexes created by their own SQL. */
static int copy_scripts_work(struct hw_sql *s, sqlite3 *file, struct hw_error *err)
{
    sqlite3_stmt *list;
    int rc = HW_OK;
    if (sqlite3_prepare_v2(s->db,
                           "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL "
                           "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
                           "AND sql NOT LIKE 'CREATE VIRTUAL %' "
                           "ORDER BY type = 'view', type = 'index', rowid",
                           -1, &list, NULL) != SQLITE_OK)
        return hw_fail(err, HW_EINVAL, 0, "%s", sqlite3_errmsg(s->db));
    while (rc == HW_OK && sqlite3_step(list) == SQLITE_ROW) {
        const char *type = (const char *)sqlite3_column_text(list, 0);
        const char *name = (const char *)sqlite3_column_text(list, 1);
        const char *sql = (const char *)sqlite3_column_text(list, 2);
        if (!type || !name || !sql)
            rc = HW_ENOMEM;
        else if (strcmp(type, "table") == 0)
            rc = copy_table(s, file, name, err);
        else if (strcmp(name, "trace_bounds") == 0) /* uses functions that only we have */
            rc = copy_table(s, file, name, err);
        else if (sqlite3_exec(file, sql, NULL, NULL, NULL) != SQLITE_OK)
            rc = fail_file(file, err);
    }
    sqlite3_finalize(list);
    return rc;
}

/* The internal tables of modules are costly, and useful only with the modules' views. */
static bool has_views_above(const struct hw_sql *s)
{
    static const char prefix[] = "android.memory.heap_graph.";
    for (size_t i = 0; i < s->included.n; i++)
        if (strncmp(s->included.v[i], prefix, sizeof prefix - 1) == 0)
            return true;
    return false;
}

static int fill_file(struct hw_sql *s, sqlite3 *file, struct hw_error *err)
{
    int rc = HW_OK;
    if (sqlite3_exec(file, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN", NULL, NULL,
                     NULL) != SQLITE_OK)
        return fail_file(file, err);
    for (size_t i = 0; rc == HW_OK && i < hw_n_tables; i++)
        if (!hw_tables[i].prepare || has_views_above(s))
            rc = copy_table(s, file, hw_tables[i].name, err);
    if (rc == HW_OK)
        rc = copy_scripts_work(s, file, err);
    if (rc == HW_OK && sqlite3_exec(file, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
        rc = fail_file(file, err);
    return rc;
}

int hw_sql_part_begin(struct hw_strbuf *part, const char *path, struct hw_error *err)
{
    hw_strbuf_addf(part, "%s.part.%d", path, (int)getpid());
    if (part->failed)
        return hw_fail(err, HW_ENOMEM, 0, "export");
    (void)unlink(part->p); /* left by a killed process with our pid */
    return HW_OK;
}

int hw_sql_part_end(struct hw_strbuf *part, const char *path, int rc, struct hw_error *err)
{
    if (rc == HW_OK && rename(part->p, path) < 0)
        rc = hw_fail_sys(err, "cannot rename to '%.200s'", path);
    if (rc < 0)
        (void)unlink(part->p);
    hw_strbuf_done(part);
    return rc < 0 && err && !err->text[0] ? hw_fail(err, rc, 0, "export:") : rc;
}

int hw_sql_export(struct hw_sql *s, const char *path, struct hw_error *err)
{
    struct hw_strbuf part = {0};
    sqlite3 *file = NULL;
    int rc = hw_sql_part_begin(&part, path, err);
    if (rc < 0)
        return rc;
    s->interrupted = 0;
    s->steps = 0;
    s->deadline_ns = 0;
    if (sqlite3_open_v2(part.p, &file, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) !=
        SQLITE_OK)
        rc = hw_fail(err, HW_ESYS, 0, "cannot create '%.200s': %.200s", path, sqlite3_errmsg(file));
    if (rc == HW_OK)
        rc = fill_file(s, file, err);
    if (sqlite3_close(file) != SQLITE_OK && rc == HW_OK)
        rc = hw_fail(err, HW_ESYS, 0, "cannot write '%.200s'", path);
    return hw_sql_part_end(&part, path, rc, err);
}

/*
 * Tables of CREATE PERFETTO TABLE have a column _auto_id, the row's number from 0, which `select *`
 * does not show. SQLite's tables have rowid, from 1, but no hidden columns. So a statement that
 * mentions _auto_id sees its tables through common table expressions of the same names:
 *
 *   SELECT a._auto_id FROM a      ->  WITH a AS (SELECT *, rowid - 1 AS _auto_id FROM main.a)
 *                                     SELECT a._auto_id FROM a
 *
 * In such a statement `select *` shows it, too. The expressions are inserted at the first SELECT or
 * WITH outside parentheses; a statement without one is left unchanged.
 */
#include <string.h>

#include "base/error.h"
#include "sql/engine.h"
#include "sql/tokens.h"

#include "base/banned.h"

enum { MAX_TABLES = 32 };

static const char auto_id[] = "_auto_id";

struct tables {
    struct hw_bytes v[MAX_TABLES];
    size_t n;
};

/* A table made by a script, without a column of that name. */
static bool is_script_table(struct hw_sql *s, struct hw_bytes name)
{
    sqlite3_stmt *stmt;
    if (sqlite3_prepare_v2(
            s->db,
            "SELECT 1 FROM sqlite_schema m WHERE type = 'table' AND name = ? COLLATE NOCASE"
            " AND sql NOT LIKE 'CREATE VIRTUAL %' AND NOT EXISTS"
            " (SELECT 1 FROM pragma_table_info(m.name) WHERE name = '_auto_id')",
            -1, &stmt, NULL) != SQLITE_OK)
        return false;
    bool found =
        sqlite3_bind_text(stmt, 1, (const char *)name.p, (int)name.n, SQLITE_STATIC) == SQLITE_OK &&
        sqlite3_step(stmt) == SQLITE_ROW;
    sqlite3_finalize(stmt);
    return found;
}

static void add_table(struct hw_sql *s, struct tables *t, struct hw_bytes name)
{
    for (size_t i = 0; i < t->n; i++)
        if (hw_bytes_equal(t->v[i], name))
            return;
    if (t->n < MAX_TABLES && is_script_table(s, name))
        t->v[t->n++] = name;
}

/* Where to insert the expressions; has_with: right after an existing WITH. NULL = nowhere. */
static const uint8_t *find_insertion(struct hw_bytes text, bool *has_with)
{
    struct hw_token t;
    int depth = 0;
    while (hw_token_take_word(&text, &t)) {
        if (t.kind == HW_TOKEN_OTHER)
            depth += t.text.p[0] == '(' ? 1 : t.text.p[0] == ')' ? -1 : 0;
        if (t.kind != HW_TOKEN_WORD || depth != 0)
            continue;
        if (hw_token_is(&t, "SELECT"))
            return t.text.p;
        if (!hw_token_is(&t, "WITH"))
            continue;
        struct hw_bytes ahead = text;
        const uint8_t *behind = hw_bytes_end(t.text);
        if (hw_token_take_word(&ahead, &t) && hw_token_is(&t, "RECURSIVE"))
            behind = hw_bytes_end(t.text);
        *has_with = true;
        return behind;
    }
    return NULL;
}

static void put_expressions(const struct tables *t, bool has_with, struct hw_strbuf *out)
{
    hw_strbuf_adds(out, has_with ? " " : "WITH ");
    for (size_t i = 0; i < t->n; i++) {
        int n = (int)t->v[i].n;
        const char *name = (const char *)t->v[i].p;
        hw_strbuf_addf(out, "%s%.*s AS (SELECT *, rowid - 1 AS _auto_id FROM main.%.*s)",
                       i ? ", " : "", n, name, n, name);
    }
    hw_strbuf_adds(out, has_with ? "," : " ");
}

int hw_sql_add_auto_ids(struct hw_sql *s, struct hw_strbuf *statement)
{
    struct tables tables = {.n = 0};
    struct hw_bytes text = hw_bytes_of(statement->p ? statement->p : "", statement->n), rest = text;
    struct hw_token t;
    bool named = false, has_with = false;
    if (text.n == 0 || !memmem(text.p, text.n, auto_id, sizeof auto_id - 1))
        return HW_OK;
    while (hw_token_take_word(&rest, &t)) {
        if (t.kind != HW_TOKEN_WORD)
            continue;
        if (hw_token_is(&t, auto_id))
            named = true;
        else
            add_table(s, &tables, t.text);
    }
    const uint8_t *insertion = named && tables.n ? find_insertion(text, &has_with) : NULL;
    if (!insertion)
        return HW_OK;
    struct hw_strbuf out = {0};
    size_t before = (size_t)(insertion - text.p);
    hw_strbuf_add(&out, text.p, before);
    put_expressions(&tables, has_with, &out);
    hw_strbuf_add(&out, insertion, text.n - before);
    hw_strbuf_done(statement);
    *statement = out;
    return out.failed ? HW_ENOMEM : HW_OK;
}

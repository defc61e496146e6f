#include "sql/flame/flame_source.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "base/text/strbuf.h"
#include "model/ids.h"
#include "sql/engine.h"

#include "base/banned.h"

enum { ID, PARENT, FIRST_COLUMN, N_FIXED = 4, NUMBER_TEXT = 64 };
#define MAX_ROWS (1u << 28)

static const char *const fixed_names[N_FIXED] = {"id", "parent_id", "name", "value"};

void hw_flame_source_free(struct hw_flame_source *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n_columns; i++) {
        free(s->columns[i].name);
        sqlite3_free(s->columns[i].cells);
    }
    hw_strings_free(s->strings);
    free(s->parent);
    free(s->ident);
    free(s->row_of_ident);
    free(s);
}

size_t hw_flame_source_bytes(const struct hw_flame_source *s)
{
    return s->capacity * s->n_columns * sizeof(struct hw_row_cell) + s->n * 3 * sizeof(uint32_t) +
           hw_strings_bytes(s->strings);
}

size_t hw_flame_source_column(const struct hw_flame_source *s, const char *name)
{
    for (size_t i = HW_FLAME_VALUE; i < s->n_columns; i++)
        if (sqlite3_stricmp(s->columns[i].name, name) == 0)
            return i;
    return s->n_columns;
}

const char *hw_flame_cell_text(const struct hw_flame_source *s, const struct hw_row_cell *c,
                               char *buffer)
{
    switch (c->type) {
    case HW_SQL_TEXT:
        return hw_strings_cstr(s->strings, (hw_str_id){(uint32_t)c->i});
    case HW_SQL_INT:
        return sqlite3_snprintf(NUMBER_TEXT, buffer, "%lld", (sqlite3_int64)c->i);
    case HW_SQL_REAL:
        return sqlite3_snprintf(NUMBER_TEXT, buffer, "%!.15g", c->d);
    case HW_SQL_NULL:
    case HW_SQL_BLOB:
        break;
    }
    return NULL;
}

/* ---- reading ---- */

static int check_columns(struct hw_flame_source *s, sqlite3_stmt *stmt, struct hw_error *err)
{
    int n = sqlite3_column_count(stmt);
    for (int i = 0; i < N_FIXED; i++)
        if (i >= n || sqlite3_stricmp(sqlite3_column_name(stmt, i), fixed_names[i]) != 0)
            return hw_fail(err, HW_EINVAL, 0,
                           "flamegraph: the columns must begin with id, parent_id, name, value");
    if (n - FIRST_COLUMN > HW_FLAME_MAX_COLUMNS)
        return hw_fail(err, HW_ELIMIT, 0, "flamegraph: more than %d columns", HW_FLAME_MAX_COLUMNS);
    for (int i = FIRST_COLUMN; i < n; i++) {
        const char *name = sqlite3_column_name(stmt, i);
        char *copy = name ? strdup(name) : NULL;
        if (!copy)
            return HW_ENOMEM;
        bool twice = hw_flame_source_column(s, name) < s->n_columns;
        s->columns[s->n_columns++].name = copy;
        if (twice)
            return hw_fail(err, HW_EINVAL, 0, "flamegraph: two columns are named '%.80s'", name);
    }
    return HW_OK;
}

static int grow(struct hw_flame_source *s)
{
    size_t capacity = s->capacity ? 2 * s->capacity : 256;
    if (s->n >= MAX_ROWS)
        return HW_ELIMIT;
    for (size_t i = 0; i < s->n_columns; i++) {
        struct hw_row_cell *more =
            sqlite3_realloc64(s->columns[i].cells, capacity * sizeof *s->columns[i].cells);
        if (!more)
            return HW_ENOMEM;
        s->columns[i].cells = more;
    }
    s->capacity = capacity;
    return HW_OK;
}

static int read_text(struct hw_flame_source *s, sqlite3_stmt *stmt, int from,
                     struct hw_row_cell *out)
{
    hw_str_id id;
    if (sqlite3_column_type(stmt, from) != SQLITE_TEXT && !sqlite3_column_text(stmt, from))
        return HW_ENOMEM;
    /* Read as a blob: as text, SQLite would copy it to append a NUL. */
    const void *text = sqlite3_column_blob(stmt, from);
    size_t n = (size_t)sqlite3_column_bytes(stmt, from);
    if (!text && n)
        return HW_ENOMEM;
    int rc = hw_strings_intern(s->strings, hw_bytes_of(text ? text : "", n), &id);
    if (rc == HW_OK)
        *out = (struct hw_row_cell){.type = HW_SQL_TEXT, .i = id.v};
    return rc;
}

static int read_cell(struct hw_flame_source *s, sqlite3_stmt *stmt, size_t column,
                     struct hw_error *err)
{
    struct hw_flame_column *c = &s->columns[column];
    struct hw_row_cell *out = &c->cells[s->n];
    int from = (int)column + FIRST_COLUMN, type = sqlite3_column_type(stmt, from);
    *out = (struct hw_row_cell){.type = HW_SQL_NULL};
    if (type == SQLITE_NULL)
        return HW_OK;
    if (type == SQLITE_BLOB)
        return hw_fail(err, HW_EINVAL, 0, "flamegraph: column '%.80s' has a blob", c->name);
    if (type == SQLITE_TEXT || column == HW_FLAME_NAME) {
        if (column == HW_FLAME_VALUE)
            return hw_fail(err, HW_EINVAL, 0, "flamegraph: a value is not a number");
        c->has_text = true;
        return read_text(s, stmt, from, out);
    }
    if (type == SQLITE_INTEGER) {
        *out = (struct hw_row_cell){.type = HW_SQL_INT, .i = sqlite3_column_int64(stmt, from)};
        c->has_negative |= out->i < 0;
    } else {
        *out = (struct hw_row_cell){.type = HW_SQL_REAL, .d = sqlite3_column_double(stmt, from)};
        c->has_real = true;
        c->has_negative |= out->d < 0;
    }
    return HW_OK;
}

struct reading {
    bool scattered; /* false: the ids so far are consecutive from first_id */
    int64_t first_id;
    struct hw_map64 rows; /* id -> row, used once the ids are scattered */
    HW_VEC(int64_t) parents;
    HW_VEC(bool) has_parent;
};

/* The map reserves one key; this keeps -1 usable. */
static uint64_t key_of(int64_t id)
{
    return (uint64_t)id << 1 ^ (uint64_t)(id >> 63);
}

static int put_id(struct reading *r, int64_t id, size_t row)
{
    uint64_t *at;
    bool fresh;
    int rc = hw_map64_at(&r->rows, key_of(id), &at, &fresh);
    if (rc == HW_OK && fresh)
        *at = row;
    return rc;
}

/* Ids are usually consecutive; the map is built only when one is not. */
static int read_id(struct reading *r, sqlite3_stmt *stmt, size_t row)
{
    bool is_null = sqlite3_column_type(stmt, ID) == SQLITE_NULL;
    int64_t id = sqlite3_column_int64(stmt, ID);
    int rc = HW_OK;
    if (row == 0)
        r->first_id = id;
    bool in_turn = !is_null && (uint64_t)id - (uint64_t)r->first_id == row && id >= r->first_id;
    if (!r->scattered && in_turn)
        return HW_OK;
    for (size_t i = 0; rc == HW_OK && !r->scattered && i < row; i++)
        rc = put_id(r, r->first_id + (int64_t)i, i);
    r->scattered = true;
    return rc == HW_OK && !is_null ? put_id(r, id, row) : rc;
}

static bool find_row(const struct reading *r, int64_t id, size_t n, uint64_t *out)
{
    if (r->scattered)
        return hw_map64_get(&r->rows, key_of(id), out);
    *out = (uint64_t)id - (uint64_t)r->first_id;
    return id >= r->first_id && *out < n;
}

static int read_row(struct hw_flame_source *s, struct reading *r, sqlite3_stmt *stmt,
                    struct hw_error *err)
{
    bool has_parent = sqlite3_column_type(stmt, PARENT) != SQLITE_NULL;
    int rc = s->n == s->capacity ? grow(s) : HW_OK;
    for (size_t i = 0; rc == HW_OK && i < s->n_columns; i++)
        rc = read_cell(s, stmt, i, err);
    if (rc == HW_OK)
        rc = read_id(r, stmt, s->n);
    if (rc == HW_OK && (hw_vec_push(&r->parents, sqlite3_column_int64(stmt, PARENT)) < 0 ||
                        hw_vec_push(&r->has_parent, has_parent) < 0))
        rc = HW_ENOMEM;
    if (rc < 0)
        return rc;
    const struct hw_row_cell *value = hw_flame_cell(s, s->n++, HW_FLAME_VALUE);
    s->value_sum += value->type == HW_SQL_INT    ? (double)value->i
                    : value->type == HW_SQL_REAL ? value->d
                                                 : 0;
    return HW_OK;
}

static int find_parents(struct hw_flame_source *s, const struct reading *r)
{
    s->parent = malloc((s->n + 1) * sizeof *s->parent);
    if (!s->parent)
        return HW_ENOMEM;
    for (size_t i = 0; i < s->n; i++) {
        uint64_t row;
        bool found = r->has_parent.v[i] && find_row(r, r->parents.v[i], s->n, &row);
        s->parent[i] = found ? (uint32_t)row : HW_ID_NONE;
    }
    return HW_OK;
}

static int read_all(struct hw_sql *sql, struct hw_flame_source *s, sqlite3_stmt *stmt,
                    struct hw_error *err)
{
    enum { ROWS_PER_LOOK = 1 << 14 };
    struct reading r = {0};
    int rc = hw_strings_new(&s->strings), step = SQLITE_DONE;
    while (rc == HW_OK && (step = sqlite3_step(stmt)) == SQLITE_ROW) {
        rc = read_row(s, &r, stmt, err);
        if (rc == HW_OK && s->n % ROWS_PER_LOOK == 0 &&
            sql->kept_bytes + hw_flame_source_bytes(s) > hw_sql_memory_left())
            rc = HW_ENOMEM;
    }
    if (rc == HW_OK && step == SQLITE_INTERRUPT)
        rc = HW_ETIMEOUT;
    else if (rc == HW_OK && step == SQLITE_NOMEM)
        rc = HW_ENOMEM;
    else if (rc == HW_OK && step != SQLITE_DONE)
        rc = hw_fail(err, HW_EINVAL, 0, "%.300s", sqlite3_errmsg(sql->db));
    if (rc == HW_OK)
        rc = find_parents(s, &r);
    hw_map64_done(&r.rows);
    hw_vec_done(&r.parents);
    hw_vec_done(&r.has_parent);
    return rc;
}

int hw_flame_source_read(struct hw_sql *sql, const char *from, struct hw_flame_source **out,
                         struct hw_error *err)
{
    sqlite3_stmt *stmt = NULL;
    const char *tail = NULL;
    struct hw_strbuf text = {0};
    hw_strbuf_addf(&text, "SELECT * FROM %s", from);
    struct hw_flame_source *s = text.failed ? NULL : calloc(1, sizeof *s);
    int rc = s ? HW_OK : HW_ENOMEM;
    if (rc == HW_OK && sqlite3_prepare_v2(sql->db, text.p, -1, &stmt, &tail) != SQLITE_OK)
        rc = hw_fail(err, HW_EINVAL, 0, "%.300s", sqlite3_errmsg(sql->db));
    if (rc == HW_OK && (*tail || !stmt || !sqlite3_stmt_readonly(stmt)))
        rc = hw_fail(err, HW_EINVAL, 0, "flamegraph: one select in brackets is needed");
    if (rc == HW_OK)
        rc = check_columns(s, stmt, err);
    if (rc == HW_OK)
        rc = read_all(sql, s, stmt, err);
    sqlite3_finalize(stmt);
    hw_strbuf_done(&text);
    if (rc < 0)
        hw_flame_source_free(s);
    else
        *out = s;
    return rc;
}

/* ---- numbering frames ---- */

/* Equal cells share a number; here NULL equals NULL. */
struct numbers {
    struct hw_map64 by_type[HW_SQL_TEXT + 1];
    uint64_t n;
};

static int cell_number(struct numbers *t, const struct hw_row_cell *c, uint64_t *out)
{
    uint64_t *at;
    bool fresh;
    int rc =
        hw_map64_at(&t->by_type[c->type], c->type == HW_SQL_NULL ? 0 : key_of(c->i), &at, &fresh);
    if (rc == HW_OK) {
        if (fresh)
            *at = t->n++;
        *out = *at;
    }
    return rc;
}

static void numbers_done(struct numbers *t)
{
    for (size_t i = 0; i <= HW_SQL_TEXT; i++)
        hw_map64_done(&t->by_type[i]);
}

/* Refines the idents by the values of one more column. */
static int refine(struct hw_flame_source *s, uint32_t *ident, size_t column)
{
    struct numbers numbers = {0};
    struct hw_map64 pairs = {0};
    uint64_t n = 0, number = 0, *at;
    bool fresh;
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < s->n; i++) {
        rc = cell_number(&numbers, hw_flame_cell(s, i, column), &number);
        if (rc == HW_OK)
            rc = hw_map64_at(&pairs, (uint64_t)ident[i] << 32 | number, &at, &fresh);
        if (rc < 0)
            break;
        if (fresh)
            *at = n++;
        ident[i] = (uint32_t)*at;
    }
    numbers_done(&numbers);
    hw_map64_done(&pairs);
    return rc;
}

static int find_rows(struct hw_flame_source *s)
{
    s->n_idents = 0;
    for (size_t i = 0; i < s->n; i++)
        if (s->ident[i] >= s->n_idents)
            s->n_idents = s->ident[i] + 1u;
    free(s->row_of_ident);
    s->row_of_ident = malloc((s->n_idents + 1) * sizeof *s->row_of_ident);
    if (!s->row_of_ident)
        return HW_ENOMEM;
    for (size_t i = s->n; i-- > 0;)
        s->row_of_ident[s->ident[i]] = (uint32_t)i;
    return HW_OK;
}

int hw_flame_source_number(struct hw_flame_source *s, uint64_t columns)
{
    columns |= 1u << HW_FLAME_NAME;
    if (s->ident && s->ident_columns == columns)
        return HW_OK;
    uint32_t *ident = calloc(s->n + 1, sizeof *ident);
    int rc = ident ? HW_OK : HW_ENOMEM;
    for (size_t i = 0; rc == HW_OK && i < s->n_columns; i++)
        if (columns >> i & 1)
            rc = refine(s, ident, i);
    free(s->ident);
    s->ident = ident;
    s->ident_columns = columns;
    if (rc == HW_OK)
        rc = find_rows(s);
    if (rc < 0) {
        free(s->ident);
        s->ident = NULL;
    }
    return rc;
}

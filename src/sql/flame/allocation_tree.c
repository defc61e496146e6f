#include "sql/flame/allocation_tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/profile.h"
#include "sql/engine.h"
#include "sql/graphs/row_list.h"

#include "base/banned.h"

enum { KEY, N_SUMS = 4, WIDTH = 1 + N_SUMS };
enum { ID, PARENT, NAME, MAPPING, FILE_NAME, LINE, FIRST_SUM, LIST = FIRST_SUM + N_SUMS };

struct tree_vtab {
    sqlite3_vtab base;
    struct hw_sql *sql;
};

struct tree_cursor {
    sqlite3_vtab_cursor base;
    struct hw_row_cell *sums; /* owned: N_SUMS for each callsite of the list */
    uint32_t *sums_of;        /* owned: by callsite, + 1; 0: not in the tree, HW_ID_NONE: no sums */
    uint32_t at;
    struct hw_callstack_row row; /* the row at `at` */
};

/* ---- the table ---- */

static int tree_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
                        sqlite3_vtab **out, char **message)
{
    (void)argc;
    (void)argv;
    (void)message;
    int rc = sqlite3_declare_vtab(
        db, "CREATE TABLE x(id INTEGER, parent_id INTEGER, name TEXT, mapping_name TEXT,"
            " source_file TEXT, line_number INTEGER, self_size, self_count, self_alloc_size,"
            " self_alloc_count, list HIDDEN)");
    struct tree_vtab *v = rc == SQLITE_OK ? sqlite3_malloc(sizeof *v) : NULL;
    if (!v)
        return rc == SQLITE_OK ? SQLITE_NOMEM : rc;
    *v = (struct tree_vtab){.sql = aux};
    *out = &v->base;
    return SQLITE_OK;
}

static int tree_disconnect(sqlite3_vtab *v)
{
    sqlite3_free(v);
    return SQLITE_OK;
}

static int tree_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    bool found = false;
    for (int i = 0; i < info->nConstraint; i++) {
        const struct sqlite3_index_constraint *c = &info->aConstraint[i];
        if (c->iColumn != LIST || c->op != SQLITE_INDEX_CONSTRAINT_EQ)
            continue;
        if (!c->usable)
            return SQLITE_CONSTRAINT;
        info->aConstraintUsage[i].argvIndex = 1;
        info->aConstraintUsage[i].omit = 1;
        found = true;
    }
    if (!found) {
        base->zErrMsg = sqlite3_mprintf("_hw_allocation_tree takes 1 argument");
        return SQLITE_ERROR;
    }
    info->estimatedCost = 1e6;
    info->estimatedRows = 10000;
    return SQLITE_OK;
}

static int tree_open(sqlite3_vtab *v, sqlite3_vtab_cursor **out)
{
    (void)v;
    struct tree_cursor *c = sqlite3_malloc(sizeof *c);
    if (!c)
        return SQLITE_NOMEM;
    *c = (struct tree_cursor){0};
    *out = &c->base;
    return SQLITE_OK;
}

static void clear(struct tree_cursor *c)
{
    free(c->sums);
    free(c->sums_of);
    c->sums = NULL;
    c->sums_of = NULL;
    c->at = 0;
}

static int tree_close(sqlite3_vtab_cursor *base)
{
    clear((struct tree_cursor *)base);
    sqlite3_free(base);
    return SQLITE_OK;
}

static const struct hw_callstack_rows *rows_of(const struct tree_cursor *c)
{
    return &((const struct tree_vtab *)c->base.pVtab)->sql->derived.callstacks;
}

/* Moves to the next row that is in the tree, from `at` on. */
static void skip_to_row(struct tree_cursor *c)
{
    const struct hw_callstack_rows *rows = rows_of(c);
    if (!c->sums_of)
        return;
    while (c->at < rows->n && !c->sums_of[rows->callsite[c->at]])
        c->at = rows->first[rows->callsite[c->at] + 1];
    if (c->at < rows->n)
        c->row =
            hw_callstack_row(rows, ((const struct tree_vtab *)c->base.pVtab)->sql->profile, c->at);
}

/* Reads the list; its callsites and their callers form the tree. */
static int read_sums(struct tree_cursor *c, const struct hw_callsites *cs,
                     const struct hw_row_list *l)
{
    size_t n = hw_callsites_count(cs), n_rows = l->width == WIDTH ? hw_row_list_rows(l) : 0;
    c->sums_of = calloc(n + 1, sizeof *c->sums_of);
    c->sums = malloc((n_rows + 1) * N_SUMS * sizeof *c->sums);
    if (!c->sums_of || !c->sums || n_rows >= HW_ID_NONE - 1)
        return SQLITE_NOMEM;
    for (size_t i = 0; i < n_rows; i++) {
        int64_t id;
        if (!hw_row_list_int(l, i, KEY, &id) || id < 0 || (uint64_t)id >= n)
            continue;
        for (uint32_t up = (uint32_t)id; up != HW_ID_NONE && !c->sums_of[up];
             up = hw_callsites_get(cs, (hw_callsite_id){up})->parent.v)
            c->sums_of[up] = HW_ID_NONE;
        memcpy(&c->sums[i * N_SUMS], hw_row_list_cell(l, i, 1), N_SUMS * sizeof *c->sums);
        c->sums_of[id] = (uint32_t)i + 1;
    }
    return SQLITE_OK;
}

static int tree_filter(sqlite3_vtab_cursor *base, int number, const char *text, int argc,
                       sqlite3_value **argv)
{
    struct tree_cursor *c = (struct tree_cursor *)base;
    struct hw_sql *sql = ((struct tree_vtab *)base->pVtab)->sql;
    (void)number;
    (void)text;
    clear(c);
    const struct hw_row_list *l = argc > 0 ? hw_row_list_of(argv[0]) : NULL;
    if (!l)
        return SQLITE_OK;
    if (hw_callstack_rows_make(&sql->derived.callstacks, sql->profile) < 0)
        return SQLITE_NOMEM;
    int rc = read_sums(c, sql->profile->callsites, l);
    if (rc == SQLITE_OK)
        skip_to_row(c);
    return rc;
}

static int tree_next(sqlite3_vtab_cursor *base)
{
    struct tree_cursor *c = (struct tree_cursor *)base;
    c->at++;
    skip_to_row(c);
    return SQLITE_OK;
}

static int tree_eof(sqlite3_vtab_cursor *base)
{
    const struct tree_cursor *c = (const struct tree_cursor *)base;
    return !c->sums_of || c->at >= rows_of(c)->n;
}

/* Static: texts live as long as the connection. */
static void put_text(sqlite3_context *ctx, struct hw_bytes text)
{
    sqlite3_result_text64(ctx, text.p ? (const char *)text.p : "", text.n, SQLITE_STATIC,
                          SQLITE_UTF8);
}

static void put_sum(sqlite3_context *ctx, const struct tree_cursor *c, int which)
{
    uint32_t at = c->row.is_leaf ? c->sums_of[c->row.callsite] : HW_ID_NONE;
    if (at == HW_ID_NONE) {
        sqlite3_result_int64(ctx, 0);
        return;
    }
    const struct hw_row_cell *cell = &c->sums[(size_t)(at - 1) * N_SUMS + (size_t)which];
    if (cell->type == HW_SQL_REAL)
        sqlite3_result_double(ctx, cell->d);
    else
        sqlite3_result_int64(ctx, cell->i);
}

static int tree_column(sqlite3_vtab_cursor *base, sqlite3_context *ctx, int column)
{
    const struct tree_cursor *c = (const struct tree_cursor *)base;
    const struct hw_profile *p = ((const struct tree_vtab *)base->pVtab)->sql->profile;
    const struct hw_strings *strings = hw_callsites_strings(p->callsites);
    hw_str_id path = {0}; /* of the nameless mapping */
    switch (column) {
    case ID:
        sqlite3_result_int64(ctx, c->at);
        break;
    case PARENT:
        if (c->row.parent != HW_ID_NONE)
            sqlite3_result_int64(ctx, c->row.parent);
        break;
    case NAME:
        put_text(ctx, c->row.name);
        break;
    case MAPPING:
        if (c->row.mapping != HW_ID_NONE)
            path = hw_callsites_get_mapping(p->callsites, (hw_mapping_id){c->row.mapping})->path;
        put_text(ctx, hw_strings_get(strings, path));
        break;
    case FILE_NAME:
        if (c->row.file.v)
            put_text(ctx, hw_strings_get(strings, c->row.file));
        break;
    case LINE:
        if (c->row.line)
            sqlite3_result_int64(ctx, c->row.line);
        break;
    case LIST:
        break;
    default:
        put_sum(ctx, c, column - FIRST_SUM);
    }
    return SQLITE_OK;
}

static int tree_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    *out = ((struct tree_cursor *)base)->at;
    return SQLITE_OK;
}

/* ---- sums over the model's rows ---- */

struct choice {
    const struct hw_profile *p;
    int64_t upid, first_ts, last_ts;
    bool any_upid;
    const unsigned char *heap; /* NULL = any */
};

static bool is_chosen(const struct choice *c, const struct hw_heap_dump *d)
{
    return (c->any_upid || hw_profile_upid_shown(c->p, d->upid) == c->upid) &&
           d->ts_ns >= c->first_ts && d->ts_ns <= c->last_ts &&
           (!c->heap ||
            hw_bytes_equal(hw_strings_get(hw_callsites_strings(c->p->callsites), d->heap_name),
                           hw_bytes_str((const char *)c->heap)));
}

static void add(struct hw_row_cell *to, int64_t v)
{
    if (__builtin_add_overflow(to->i, v, &to->i))
        to->i = v > 0 ? INT64_MAX : INT64_MIN;
}

static int add_rows(const struct hw_alloc_rows *a, size_t first, size_t n, uint32_t *row_of,
                    struct hw_row_list *l)
{
    for (size_t i = first; i < first + n; i++) {
        uint32_t site = a->callsite[i];
        if (site == HW_ID_NONE)
            continue;
        if (!row_of[site]) {
            if (hw_vec_reserve(&l->cells, l->cells.n + WIDTH) < 0)
                return HW_ENOMEM;
            row_of[site] = (uint32_t)(l->cells.n / WIDTH) + 1;
            for (size_t k = 0; k < WIDTH; k++)
                l->cells.v[l->cells.n++] =
                    (struct hw_row_cell){.type = HW_SQL_INT, .i = k == KEY ? site : 0};
        }
        struct hw_row_cell *sums = &l->cells.v[(size_t)(row_of[site] - 1) * WIDTH + 1];
        int64_t size = hw_alloc_size(a, i), count = hw_alloc_samples(a, i);
        add(&sums[0], size);
        add(&sums[1], count);
        add(&sums[2], size > 0 ? size : 0);
        add(&sums[3], count > 0 ? count : 0);
    }
    return HW_OK;
}

static int64_t bound_of(sqlite3_value *v, int64_t otherwise)
{
    return sqlite3_value_type(v) == SQLITE_NULL ? otherwise : sqlite3_value_int64(v);
}

static void allocation_sums(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    const struct hw_sql *sql = sqlite3_user_data(ctx);
    const struct hw_profile *p = sql->profile;
    struct hw_row_list *l = argc == 4 ? calloc(1, sizeof *l) : NULL;
    uint32_t *row_of = calloc(hw_callsites_count(p->callsites) + 1, sizeof *row_of);
    int rc = l && row_of ? HW_OK : HW_ENOMEM;
    if (rc == HW_OK) {
        struct choice c = {.p = p,
                           .any_upid = sqlite3_value_type(argv[0]) == SQLITE_NULL,
                           .upid = sqlite3_value_int64(argv[0]),
                           .first_ts = bound_of(argv[1], INT64_MIN),
                           .last_ts = bound_of(argv[2], INT64_MAX),
                           .heap = sqlite3_value_text(argv[3])};
        l->width = WIDTH;
        for (uint32_t d = 0; rc == HW_OK && d < p->dumps.n; d++) {
            size_t first, n;
            if (!is_chosen(&c, &p->dumps.v[d]))
                continue;
            hw_alloc_rows_of_dump(&p->allocs, d, &first, &n);
            rc = add_rows(&p->allocs, first, n, row_of, l);
        }
    }
    free(row_of);
    if (rc == HW_OK) {
        hw_row_list_result(ctx, l);
        return;
    }
    if (l)
        hw_vec_done(&l->cells);
    free(l);
    sqlite3_result_error_nomem(ctx);
}

static const sqlite3_module tree_methods = {
    .iVersion = 2,
    .xConnect = tree_connect,
    .xDisconnect = tree_disconnect,
    .xBestIndex = tree_best_index,
    .xOpen = tree_open,
    .xClose = tree_close,
    .xFilter = tree_filter,
    .xNext = tree_next,
    .xEof = tree_eof,
    .xColumn = tree_column,
    .xRowid = tree_rowid,
};

int hw_sql_add_allocation_tree(struct hw_sql *s)
{
    bool done = sqlite3_create_module_v2(s->db, "_hw_allocation_tree", &tree_methods, s, NULL) ==
                    SQLITE_OK &&
                sqlite3_create_function_v2(s->db, "_hw_sums_of_allocations", 4, SQLITE_UTF8, s,
                                           allocation_sums, NULL, NULL, NULL) == SQLITE_OK;
    return done ? HW_OK : HW_ENOMEM;
}

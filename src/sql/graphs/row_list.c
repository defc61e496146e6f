#include "sql/graphs/row_list.h"

#include <stdlib.h>

#include "base/error.h"

#include "base/banned.h"

static const char list_type[] = "hw_row_list";

static void list_free(void *p)
{
    struct hw_row_list *l = p;
    if (!l)
        return;
    hw_vec_done(&l->cells);
    hw_strings_free(l->strings);
    hw_map64_done(&l->row_of);
    free(l);
}

static int put_text(struct hw_row_list *l, sqlite3_value *v, struct hw_row_cell *out)
{
    hw_str_id id;
    const unsigned char *text = sqlite3_value_text(v);
    int rc = l->strings ? HW_OK : hw_strings_new(&l->strings);
    if (rc == HW_OK && !text)
        rc = HW_ENOMEM;
    if (rc == HW_OK)
        rc = hw_strings_intern(l->strings, hw_bytes_of(text, (size_t)sqlite3_value_bytes(v)), &id);
    if (rc == HW_OK)
        *out = (struct hw_row_cell){.type = HW_SQL_TEXT, .i = id.v};
    return rc;
}

static int put_cell(struct hw_row_list *l, sqlite3_value *v)
{
    struct hw_row_cell c = {.type = HW_SQL_NULL};
    int rc = HW_OK;
    switch (sqlite3_value_type(v)) {
    case SQLITE_INTEGER:
        c.type = HW_SQL_INT;
        c.i = sqlite3_value_int64(v);
        break;
    case SQLITE_FLOAT:
        c.type = HW_SQL_REAL;
        c.d = sqlite3_value_double(v);
        break;
    case SQLITE_TEXT:
        rc = put_text(l, v, &c);
        break;
    default:
        break;
    }
    return rc == HW_OK && hw_vec_push(&l->cells, c) < 0 ? HW_ENOMEM : rc;
}

/* The list being filled; NULL: out of memory, already reported to SQLite. */
static struct hw_row_list *list_of(sqlite3_context *ctx, int argc)
{
    struct hw_row_list **at = sqlite3_aggregate_context(ctx, sizeof *at);
    if (at && !*at)
        *at = calloc(1, sizeof **at);
    if (!at || !*at) {
        sqlite3_result_error_nomem(ctx);
        return NULL;
    }
    (*at)->width = (size_t)argc;
    return *at;
}

static void gather_step(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    struct hw_row_list *l = list_of(ctx, argc);
    for (int i = 0; l && i < argc; i++)
        if (put_cell(l, argv[i]) < 0) {
            sqlite3_result_error_nomem(ctx);
            return;
        }
}

/* ---- sums by a key ---- */

static void add_real(struct hw_row_cell *to, double d)
{
    double sum = to->type == HW_SQL_REAL ? to->d : (double)to->i;
    to->type = HW_SQL_REAL;
    to->d = sum + d;
}

static void add_value(struct hw_row_cell *to, sqlite3_value *v)
{
    switch (sqlite3_value_numeric_type(v)) {
    case SQLITE_INTEGER:
        if (to->type == HW_SQL_REAL)
            add_real(to, (double)sqlite3_value_int64(v));
        else if (__builtin_add_overflow(to->i, sqlite3_value_int64(v), &to->i))
            to->i = sqlite3_value_int64(v) > 0 ? INT64_MAX : INT64_MIN;
        break;
    case SQLITE_FLOAT:
        add_real(to, sqlite3_value_double(v));
        break;
    default:
        break;
    }
}

/* The key's row; a new one is all zeros. */
static int row_of_key(struct hw_row_list *l, sqlite3_value *key, uint64_t *out)
{
    uint64_t *at;
    bool fresh;
    int64_t id = sqlite3_value_int64(key);
    /* Keeps -1 usable: INT64_MIN becomes the map's reserved key. */
    int rc = hw_map64_at(&l->row_of, (uint64_t)id << 1 ^ (uint64_t)(id >> 63), &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh) {
        *at = l->cells.n / l->width;
        if (hw_vec_reserve(&l->cells, l->cells.n + l->width) < 0)
            return HW_ENOMEM;
        for (size_t i = 0; i < l->width; i++)
            l->cells.v[l->cells.n++] = (struct hw_row_cell){.type = HW_SQL_INT, .i = i ? 0 : id};
    }
    *out = *at;
    return HW_OK;
}

static void sum_step(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    struct hw_row_list *l = argc > 0 ? list_of(ctx, argc) : NULL;
    uint64_t row;
    if (!l || sqlite3_value_type(argv[0]) != SQLITE_INTEGER)
        return;
    if (row_of_key(l, argv[0], &row) < 0) {
        sqlite3_result_error_nomem(ctx);
        return;
    }
    for (int i = 1; i < argc; i++)
        add_value(&l->cells.v[row * l->width + (size_t)i], argv[i]);
}

static void gather_final(sqlite3_context *ctx)
{
    struct hw_row_list **at = sqlite3_aggregate_context(ctx, 0);
    if (at && *at)
        hw_row_list_result(ctx, *at);
}

const struct hw_row_list *hw_row_list_of(sqlite3_value *value)
{
    return sqlite3_value_pointer(value, list_type);
}

void hw_row_list_result(sqlite3_context *ctx, struct hw_row_list *l)
{
    sqlite3_result_pointer(ctx, l, list_type, list_free);
}

int hw_row_list_bind(sqlite3_stmt *stmt, int parameter, struct hw_row_list *l)
{
    return sqlite3_bind_pointer(stmt, parameter, l, list_type, NULL);
}

int hw_sql_add_gather(sqlite3 *db)
{
    return sqlite3_create_function_v2(db, "_hw_gather", -1, SQLITE_UTF8, NULL, NULL, gather_step,
                                      gather_final, NULL) == SQLITE_OK &&
                   sqlite3_create_function_v2(db, "_hw_sum_by", -1, SQLITE_UTF8, NULL, NULL,
                                              sum_step, gather_final, NULL) == SQLITE_OK
               ? HW_OK
               : HW_ENOMEM;
}

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

static void gather_step(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    struct hw_row_list **at = sqlite3_aggregate_context(ctx, sizeof *at);
    if (at && !*at)
        *at = calloc(1, sizeof **at);
    if (!at || !*at) {
        sqlite3_result_error_nomem(ctx);
        return;
    }
    (*at)->width = (size_t)argc;
    for (int i = 0; i < argc; i++)
        if (put_cell(*at, argv[i]) < 0) {
            sqlite3_result_error_nomem(ctx);
            return;
        }
}

static void gather_final(sqlite3_context *ctx)
{
    struct hw_row_list **at = sqlite3_aggregate_context(ctx, 0);
    if (at && *at)
        sqlite3_result_pointer(ctx, *at, list_type, list_free);
}

const struct hw_row_list *hw_row_list_of(sqlite3_value *value)
{
    return sqlite3_value_pointer(value, list_type);
}

int hw_sql_add_gather(sqlite3 *db)
{
    return sqlite3_create_function_v2(db, "_hw_gather", -1, SQLITE_UTF8, NULL, NULL, gather_step,
                                      gather_final, NULL) == SQLITE_OK
               ? HW_OK
               : HW_ENOMEM;
}

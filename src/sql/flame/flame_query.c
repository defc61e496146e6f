#include "sql/flame/flame_query.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "base/text/strbuf.h"
#include "sql/engine.h"

#include "base/banned.h"

enum {
    NUMBER_TEXT = 64,
    BYTES_PER_NODE = 256, /* frame_forest.c's peak, with two values */
    MAX_NODES = 1 << 26,
    MAX_TEXT = 64 << 20, /* as SQLite's limit of a value */
    IDENTS_PER_CHECK = 1 << 12
};

/* ---- columns ---- */

static int column_of(const struct hw_flame_source *s, const char *name, size_t *out,
                     struct hw_error *err)
{
    *out = hw_flame_source_column(s, name);
    return *out < s->n_columns
               ? HW_OK
               : hw_fail(err, HW_EINVAL, 0, "flamegraph: there is no column '%.80s'", name);
}

static int find_values(struct hw_flame_query *q, const struct hw_flame_config *c,
                       struct hw_error *err)
{
    const struct hw_flame_source *s = q->source;
    for (size_t i = 0; i < c->values.n; i++) {
        size_t column;
        int rc = column_of(s, c->values.v[i], &column, err);
        if (rc < 0)
            return rc;
        if (s->columns[column].has_text)
            return hw_fail(err, HW_EINVAL, 0, "flamegraph: column '%.80s' has texts, not numbers",
                           c->values.v[i]);
        if (s->columns[column].has_negative)
            return hw_fail(err, HW_EINVAL, 0, "flamegraph: column '%.80s' has negative values",
                           c->values.v[i]);
        if (q->value_of[column] >= 0)
            continue;
        q->is_real[q->n_values] = s->columns[column].has_real;
        q->value_of[column] = (int)q->n_values++;
    }
    return HW_OK;
}

static int find_properties(struct hw_flame_query *q, const struct hw_flame_config *c,
                           uint64_t *groupings, struct hw_error *err)
{
    size_t column;
    int rc = HW_OK;
    *groupings = 0;
    for (size_t i = 0; rc == HW_OK && i < c->groupings.n; i++) {
        rc = column_of(q->source, c->groupings.v[i], &column, err);
        if (rc < 0)
            break;
        q->role[column] = HW_FLAME_GROUPING;
        *groupings |= UINT64_C(1) << column;
    }
    for (size_t i = 0; rc == HW_OK && i < c->aggregates.n; i++) {
        rc = column_of(q->source, c->aggregates.v[i].column, &column, err);
        if (rc < 0)
            break;
        q->role[column] = HW_FLAME_AGGREGATE;
        q->aggregate[column] = c->aggregates.v[i].kind;
    }
    return rc;
}

/* A column as an array for the forest; NULL becomes 0. */
static hw_forest_number *numbers_of(const struct hw_flame_source *s, size_t column, bool is_real)
{
    hw_forest_number *v = malloc((s->n + 1) * sizeof *v);
    for (size_t i = 0; v && i < s->n; i++) {
        const struct hw_row_cell *c = hw_flame_cell(s, i, column);
        v[i] = (hw_forest_number){0};
        if (is_real)
            v[i].d = c->type == HW_SQL_REAL ? c->d : c->type == HW_SQL_INT ? (double)c->i : 0;
        else if (c->type == HW_SQL_INT)
            v[i].i = c->i;
    }
    return v;
}

/* ---- marks ---- */

static bool is_found(const struct hw_flame_query *q, const struct hw_pattern *pattern, size_t row)
{
    char number[NUMBER_TEXT];
    for (size_t i = 0; i < q->source->n_columns; i++) {
        if (i != HW_FLAME_NAME && q->role[i] != HW_FLAME_GROUPING)
            continue;
        const char *text = hw_flame_cell_text(q->source, hw_flame_cell(q->source, row, i), number);
        if (text && (!pattern || hw_pattern_matches(pattern, text)))
            return true;
    }
    return false;
}

static struct hw_forest_mark mark_of(const struct hw_flame_query *q,
                                     const struct hw_flame_config *c, size_t row)
{
    struct hw_forest_mark mark = {0};
    unsigned bit = 0;
    for (size_t i = 0; i < c->filters.n; i++) {
        const struct hw_flame_filter *f = &c->filters.v[i];
        unsigned show = f->kind == HW_FLAME_SHOW_STACK ? bit++ : 0;
        if (!is_found(q, f->pattern, row))
            continue;
        if (f->kind == HW_FLAME_SHOW_STACK)
            mark.show |= UINT64_C(1) << show;
        else
            mark.flags |= f->kind == HW_FLAME_HIDE_FRAME ? HW_MARK_HIDE_FRAME : HW_MARK_HIDE_STACK;
    }
    if (c->has_view_pattern && is_found(q, c->view_pattern, row))
        mark.flags |= HW_MARK_PIVOT;
    return mark;
}

static int make_marks(struct hw_sql *sql, const struct hw_flame_query *q,
                      const struct hw_flame_config *c, struct hw_forest_mark **out)
{
    const struct hw_flame_source *s = q->source;
    struct hw_forest_mark *marks = malloc((s->n_idents + 1) * sizeof *marks);
    *out = marks;
    if (!marks)
        return HW_ENOMEM;
    for (size_t i = 0; i < s->n_idents; i++) {
        if (i % IDENTS_PER_CHECK == IDENTS_PER_CHECK - 1 && hw_sql_must_stop(sql))
            return HW_ETIMEOUT;
        marks[i] = mark_of(q, c, s->row_of_ident[i]);
    }
    return HW_OK;
}

/* ---- the forest ---- */

static bool must_stop(void *ctx)
{
    return hw_sql_must_stop(ctx);
}

static uint32_t max_nodes(const struct hw_sql *sql)
{
    uint64_t left = hw_sql_memory_left();
    left = left > sql->kept_bytes ? left - sql->kept_bytes : 0;
    return left / BYTES_PER_NODE < MAX_NODES ? (uint32_t)(left / BYTES_PER_NODE) + 1 : MAX_NODES;
}

static int build(struct hw_sql *sql, struct hw_flame_query *q, const struct hw_flame_config *c)
{
    const struct hw_flame_source *s = q->source;
    struct hw_forest_values values[HW_FLAME_MAX_COLUMNS] = {{0}};
    hw_forest_number *numbers[HW_FLAME_MAX_COLUMNS] = {0};
    struct hw_forest_mark *marks = NULL;
    int rc = c->filters.n || c->has_view_pattern ? make_marks(sql, q, c, &marks) : HW_OK;
    for (size_t i = HW_FLAME_VALUE; rc == HW_OK && i < s->n_columns; i++) {
        int k = q->value_of[i];
        if (k < 0)
            continue;
        numbers[k] = numbers_of(s, i, q->is_real[k]);
        values[k] = (struct hw_forest_values){q->is_real[k], numbers[k]};
        rc = numbers[k] ? HW_OK : HW_ENOMEM;
    }
    struct hw_forest_source source = {s->n, s->n_idents, q->n_values, s->parent, s->ident, values};
    struct hw_forest_query query = {.view = c->view,
                                    .marks = marks,
                                    .max_nodes = max_nodes(sql),
                                    .stop = must_stop,
                                    .ctx = sql};
    for (size_t i = 0, bit = 0; i < c->filters.n; i++)
        if (c->filters.v[i].kind == HW_FLAME_SHOW_STACK)
            query.show_all |= UINT64_C(1) << bit++;
    if (rc == HW_OK)
        rc = hw_forest_build(&source, &query, &q->forest);
    for (size_t k = 0; k < q->n_values; k++)
        free(numbers[k]);
    free(marks);
    return rc;
}

int hw_flame_query_make(struct hw_sql *sql, struct hw_flame_source *source,
                        const struct hw_flame_config *config, struct hw_flame_query *out,
                        struct hw_error *err)
{
    uint64_t groupings;
    *out = (struct hw_flame_query){.source = source};
    for (size_t i = 0; i < HW_FLAME_MAX_COLUMNS; i++)
        out->value_of[i] = -1;
    int rc = find_values(out, config, err);
    if (rc == HW_OK)
        rc = find_properties(out, config, &groupings, err);
    if (rc == HW_OK)
        rc = hw_flame_source_number(source, groupings);
    if (rc == HW_OK)
        rc = build(sql, out, config);
    /* A copy: another query may renumber the source while this one's rows are read. */
    size_t bytes = (source->n_idents + 1) * sizeof *out->ident_rows;
    out->ident_rows = rc == HW_OK ? malloc(bytes) : NULL;
    if (rc == HW_OK && !out->ident_rows)
        rc = HW_ENOMEM;
    if (rc == HW_OK && source->n_idents)
        memcpy(out->ident_rows, source->row_of_ident, bytes - sizeof *out->ident_rows);
    if (rc == HW_ELIMIT)
        (void)hw_fail(err, rc, 0, "flamegraph: too many nodes for the memory that is left");
    if (rc < 0)
        hw_flame_query_done(out);
    return rc;
}

void hw_flame_query_done(struct hw_flame_query *q)
{
    hw_forest_done(&q->forest);
    free(q->ident_rows);
    *q = (struct hw_flame_query){0};
}

/* ---- cells ---- */

static void set_text(sqlite3_context *ctx, const char *text, size_t n)
{
    sqlite3_result_text64(ctx, text, n, SQLITE_TRANSIENT, SQLITE_UTF8);
}

static void set_cell(const struct hw_flame_query *q, const struct hw_row_cell *c,
                     sqlite3_context *ctx)
{
    struct hw_bytes text;
    switch (c->type) {
    case HW_SQL_INT:
        sqlite3_result_int64(ctx, c->i);
        break;
    case HW_SQL_REAL:
        sqlite3_result_double(ctx, c->d);
        break;
    case HW_SQL_TEXT:
        text = hw_strings_get(q->source->strings, (hw_str_id){(uint32_t)c->i});
        set_text(ctx, (const char *)text.p, text.n);
        break;
    case HW_SQL_NULL:
    case HW_SQL_BLOB:
        break;
    }
}

static const struct hw_row_cell *own_cell(const struct hw_flame_query *q, size_t node,
                                          size_t column)
{
    return hw_flame_cell(q->source, q->ident_rows[q->forest.nodes[node].ident], column);
}

void hw_flame_query_name(const struct hw_flame_query *q, size_t node, sqlite3_context *ctx)
{
    set_cell(q, own_cell(q, node, HW_FLAME_NAME), ctx);
}

void hw_flame_query_value(const struct hw_flame_query *q, const hw_forest_number *values,
                          size_t node, size_t value, sqlite3_context *ctx)
{
    hw_forest_number n = values[node * q->n_values + value];
    if (q->is_real[value])
        sqlite3_result_double(ctx, n.d);
    else
        sqlite3_result_int64(ctx, n.i);
}

static void set_sum(const struct hw_flame_query *q, size_t node, size_t column,
                    sqlite3_context *ctx)
{
    struct hw_forest_cursor at = {0};
    int64_t sum = 0;
    double real = 0;
    bool any = false, is_real = false;
    while (hw_forest_next_row(&q->forest, node, &at)) {
        const struct hw_row_cell *c = hw_flame_cell(q->source, at.row, column);
        any |= c->type == HW_SQL_INT || c->type == HW_SQL_REAL;
        if (c->type == HW_SQL_INT && __builtin_add_overflow(sum, c->i, &sum))
            sum = c->i > 0 ? INT64_MAX : INT64_MIN;
        is_real |= c->type == HW_SQL_REAL;
        real += c->type == HW_SQL_REAL ? c->d : c->type == HW_SQL_INT ? (double)c->i : 0;
    }
    if (any && is_real)
        sqlite3_result_double(ctx, real);
    else if (any)
        sqlite3_result_int64(ctx, sum);
}

static bool same_cell(const struct hw_row_cell *a, const struct hw_row_cell *b)
{
    return a->type == b->type && a->i == b->i; /* reals are compared by their bits */
}

/* The number of distinct values other than NULL; *first: the first one. */
static int count_values(const struct hw_flame_query *q, size_t node, size_t column,
                        const struct hw_row_cell **first, size_t *n)
{
    struct hw_forest_cursor at = {0};
    struct hw_map64 seen[HW_SQL_TEXT + 1] = {{0}};
    uint64_t *slot;
    bool fresh;
    int rc = HW_OK;
    *first = NULL;
    *n = 0;
    while (rc == HW_OK && hw_forest_next_row(&q->forest, node, &at)) {
        const struct hw_row_cell *c = hw_flame_cell(q->source, at.row, column);
        if (c->type == HW_SQL_NULL || (*first && same_cell(c, *first)))
            continue;
        if (!*first)
            *first = c;
        rc = hw_map64_at(&seen[c->type], (uint64_t)c->i, &slot, &fresh);
        *n += rc == HW_OK && fresh;
    }
    for (size_t i = 0; i <= HW_SQL_TEXT; i++)
        hw_map64_done(&seen[i]);
    return rc;
}

static void set_summary(const struct hw_flame_query *q, size_t node, size_t column,
                        sqlite3_context *ctx)
{
    const struct hw_row_cell *first;
    char number[NUMBER_TEXT];
    size_t n;
    if (count_values(q, node, column, &first, &n) < 0) {
        sqlite3_result_error_nomem(ctx);
    } else if (n == 1) {
        set_cell(q, first, ctx);
    } else if (n > 1) {
        char *text =
            sqlite3_mprintf("%s and %llu others", hw_flame_cell_text(q->source, first, number),
                            (unsigned long long)n);
        if (text)
            sqlite3_result_text(ctx, text, -1, sqlite3_free);
        else
            sqlite3_result_error_nomem(ctx);
    }
}

static void set_list(const struct hw_flame_query *q, size_t node, size_t column,
                     sqlite3_context *ctx)
{
    struct hw_forest_cursor at = {0};
    struct hw_strbuf list = {0};
    char number[NUMBER_TEXT];
    bool any = false;
    while (list.n <= MAX_TEXT && hw_forest_next_row(&q->forest, node, &at)) {
        const char *text =
            hw_flame_cell_text(q->source, hw_flame_cell(q->source, at.row, column), number);
        if (!text)
            continue;
        hw_strbuf_adds(&list, any ? "," : "");
        hw_strbuf_adds(&list, text);
        any = true;
    }
    if (list.failed)
        sqlite3_result_error_nomem(ctx);
    else if (list.n > MAX_TEXT)
        sqlite3_result_error_toobig(ctx);
    else if (any)
        set_text(ctx, list.p ? list.p : "", list.n);
    hw_strbuf_done(&list);
}

void hw_flame_query_property(const struct hw_flame_query *q, size_t node, size_t column,
                             sqlite3_context *ctx)
{
    switch (q->role[column]) {
    case HW_FLAME_UNUSED:
        return;
    case HW_FLAME_GROUPING:
        set_cell(q, own_cell(q, node, column), ctx);
        return;
    case HW_FLAME_AGGREGATE:
        break;
    }
    switch (q->aggregate[column]) {
    case HW_FLAME_SUM:
        set_sum(q, node, column, ctx);
        break;
    case HW_FLAME_ONE_OR_SUMMARY:
        set_summary(q, node, column, ctx);
        break;
    case HW_FLAME_CONCAT:
        set_list(q, node, column, ctx);
        break;
    }
}

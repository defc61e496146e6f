/*
 * GET /api/v1/traces/ID/table/NAME: rows of any table or view of SQL, column by column.
 *
 * sort=a,-b (- = descending), filter=one condition per line, offset, limit. A condition is a
 * column, a comparison and a value: `size>1MiB`, `name~^std::`, `heap_name=libc.malloc`,
 * `name:alloc` (contains that text). The response is {"rows": total number, "offset": n, "columns":
 * [{"name": …, "values": […]}…]}; cells as in pages_query.c.
 *
 * Comparisons become SQL, which pushes them down to the tables. Patterns are matched here, as in
 * filters, with a scan of the table.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/text_parts.h"
#include "config/numbers.h"
#include "server/api/pages_internal.h"
#include "views/filter.h"

#include "base/banned.h"

enum { DEFAULT_ROWS = 200, MAX_ROWS = 10000, MAX_CONDITIONS = 32, MAX_NAME = 128 };

struct held { /* a cell of the requested rows */
    struct hw_sql_cell cell;
    size_t text; /* offset in texts */
};

struct pattern_on {
    char column[MAX_NAME];
    struct hw_pattern *pattern; /* owned */
    size_t index;               /* of the column; SIZE_MAX = no such column */
};

struct table {
    struct hw_processor_job job;
    struct hw_strbuf where, order, sql;
    struct pattern_on patterns[MAX_CONDITIONS];
    size_t n_patterns;
    uint64_t offset, limit;
    bool counting; /* the first of two statements */
    uint64_t rows; /* in all */
    size_t n_columns;
    char **names; /* owned */
    HW_VEC(struct held) cells;
    struct hw_strbuf texts;
};

static void table_done(struct table *q)
{
    for (size_t i = 0; i < q->n_patterns; i++)
        hw_pattern_free(q->patterns[i].pattern);
    for (size_t i = 0; i < q->n_columns; i++)
        free(q->names[i]);
    free(q->names);
    hw_strbuf_done(&q->where);
    hw_strbuf_done(&q->order);
    hw_strbuf_done(&q->sql);
    hw_strbuf_done(&q->texts);
    hw_vec_done(&q->cells);
}

/* ---- request ---- */

/* In brackets: unlike in double quotes, an unknown name never becomes a string. */
static int add_name(struct hw_strbuf *out, const char *p, size_t n, struct hw_error *err)
{
    if (n == 0 || n >= MAX_NAME || memchr(p, ']', n) || memchr(p, '[', n))
        return hw_fail(err, HW_EINVAL, 0, "'%.*s' cannot be the name of a table or column",
                       (int)(n < MAX_NAME ? n : MAX_NAME), p);
    hw_strbuf_addc(out, '[');
    hw_strbuf_add(out, p, n);
    hw_strbuf_addc(out, ']');
    return HW_OK;
}

static void add_text(struct hw_strbuf *out, const char *p, size_t n)
{
    hw_strbuf_addc(out, '\'');
    for (size_t i = 0; i < n; i++) {
        if (p[i] == '\'')
            hw_strbuf_addc(out, '\'');
        hw_strbuf_addc(out, p[i]);
    }
    hw_strbuf_addc(out, '\'');
}

/* A number, or a size with a unit. */
static bool read_number(const char *text, double *out)
{
    char *end;
    uint64_t size;
    *out = strtod(text, &end);
    if (*text && *end == '\0')
        return true;
    if (hw_parse_size(text, &size, NULL) < 0)
        return false;
    *out = (double)size;
    return true;
}

static int add_comparison(struct table *q, const char *column, size_t n, const char *op,
                          const char *value, struct hw_error *err)
{
    bool equal = op[0] == '=' || op[0] == '!';
    double number = 0;
    bool is_number = read_number(value, &number);
    if (!equal && !is_number)
        return hw_fail(err, HW_EINVAL, 0, "'%s' is not a number to compare with", value);
    hw_strbuf_adds(&q->where, q->where.n ? " and (" : " where (");
    int rc = add_name(&q->where, column, n, err);
    if (rc < 0)
        return rc;
    if (equal && strcmp(value, "null") == 0) {
        hw_strbuf_adds(&q->where, op[0] == '=' ? " is null)" : " is not null)");
        return HW_OK;
    }
    hw_strbuf_addf(&q->where, " %s ", op[0] == '=' ? "is" : op[0] == '!' ? "is not" : op);
    if (is_number)
        hw_strbuf_addf(&q->where, "%.17g", number);
    else
        add_text(&q->where, value, strlen(value));
    hw_strbuf_addc(&q->where, ')');
    return HW_OK;
}

static int add_pattern(struct table *q, const char *column, size_t n, bool regex, const char *value,
                       struct hw_error *err)
{
    struct pattern_on *p = &q->patterns[q->n_patterns];
    struct hw_strbuf text = {0};
    if (q->n_patterns == MAX_CONDITIONS || n == 0 || n >= sizeof p->column)
        return hw_fail(err, HW_EINVAL, 0, "at most %d conditions, each with a column",
                       MAX_CONDITIONS);
    hw_strbuf_addf(&text, regex ? "/%s/" : "%s", value);
    int rc = text.failed ? HW_ENOMEM : hw_pattern_new(text.p, &p->pattern, err);
    hw_strbuf_done(&text);
    if (rc < 0)
        return rc;
    memcpy(p->column, column, n);
    p->column[n] = '\0';
    p->index = SIZE_MAX;
    q->n_patterns++;
    return HW_OK;
}

static int add_condition(struct table *q, const char *line, struct hw_error *err)
{
    static const char *const ops[] = {">=", "<=", "!=", ">", "<", "=", "~", ":"};
    size_t n = strcspn(line, "><!=~:");
    for (size_t i = 0; i < HW_ARRAY_LEN(ops); i++) {
        const char *value = line + n + strlen(ops[i]);
        if (!hw_starts_with(line + n, ops[i]))
            continue;
        if (*ops[i] == '~' || *ops[i] == ':')
            return add_pattern(q, line, n, *ops[i] == '~', value, err);
        return add_comparison(q, line, n, ops[i], value, err);
    }
    return hw_fail(
        err, HW_EINVAL, 0,
        "'%s' is not a condition: that is a column, one of > < >= <= = != ~ (pattern) : (text), "
        "and a value",
        line);
}

static int read_conditions(struct table *q, const char *text, struct hw_error *err)
{
    hw_autofree char *copy = strdup(text);
    char *rest = copy;
    int rc = copy ? HW_OK : HW_ENOMEM;
    for (char *line; rc == HW_OK && (line = strsep(&rest, "\n"));)
        if (*line)
            rc = add_condition(q, line, err);
    return rc;
}

static int read_order(struct table *q, const char *text, struct hw_error *err)
{
    int rc = HW_OK;
    while (rc == HW_OK && *text) {
        size_t n = strcspn(text, ",");
        bool falling = *text == '-';
        hw_strbuf_adds(&q->order, q->order.n ? ", " : " order by ");
        rc = add_name(&q->order, text + falling, n - falling, err);
        hw_strbuf_adds(&q->order, falling ? " desc" : "");
        text += n + (text[n] == ',');
    }
    return rc;
}

static uint64_t parameter(struct hw_http_request *req, const char *name, uint64_t otherwise)
{
    const char *text = hw_http_query(req, name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static int read_query(struct table *q, struct hw_http_request *req, const char *name,
                      struct hw_error *err)
{
    const char *filter = hw_http_query(req, "filter"), *sort = hw_http_query(req, "sort");
    struct hw_strbuf table = {0};
    q->offset = parameter(req, "offset", 0);
    q->limit = parameter(req, "limit", DEFAULT_ROWS);
    q->limit = q->limit < MAX_ROWS ? q->limit : MAX_ROWS;
    q->offset = q->offset < INT64_MAX ? q->offset : INT64_MAX;
    int rc = add_name(&table, name, strlen(name), err);
    if (rc == HW_OK && filter)
        rc = read_conditions(q, filter, err);
    if (rc == HW_OK && sort)
        rc = read_order(q, sort, err);
    const char *where = q->where.p ? q->where.p : "", *order = q->order.p ? q->order.p : "";
    q->counting = q->n_patterns == 0;
    if (rc == HW_OK && q->counting)
        hw_strbuf_addf(&q->sql, "select count(*) from %s%s;\n", table.p, where);
    if (rc == HW_OK)
        hw_strbuf_addf(&q->sql, "select * from %s%s%s", table.p, where, order);
    if (rc == HW_OK && q->counting)
        hw_strbuf_addf(&q->sql, " limit %" PRIu64 " offset %" PRIu64, q->limit, q->offset);
    if (rc == HW_OK && (q->sql.failed || q->where.failed || q->order.failed))
        rc = HW_ENOMEM;
    hw_strbuf_done(&table);
    return rc;
}

/* ---- answer ---- */

static int begin_rows(void *ctx, size_t n, const char *const *names)
{
    struct table *q = ctx;
    if (q->counting)
        return HW_OK;
    q->names = calloc(n + 1, sizeof *q->names);
    if (!q->names)
        return HW_ENOMEM;
    for (; q->n_columns < n; q->n_columns++) {
        q->names[q->n_columns] = strdup(names[q->n_columns]);
        if (!q->names[q->n_columns])
            return HW_ENOMEM;
        for (size_t i = 0; i < q->n_patterns; i++)
            if (strcmp(q->patterns[i].column, names[q->n_columns]) == 0)
                q->patterns[i].index = q->n_columns;
    }
    for (size_t i = 0; i < q->n_patterns; i++)
        if (q->patterns[i].index == SIZE_MAX)
            return HW_ENOTFOUND;
    return HW_OK;
}

static bool matches(const struct table *q, const struct hw_sql_cell *cells)
{
    for (size_t i = 0; i < q->n_patterns; i++) {
        const struct hw_sql_cell *c = &cells[q->patterns[i].index];
        struct hw_strbuf text = {0};
        if (c->type == HW_SQL_TEXT)
            hw_strbuf_add(&text, c->p, c->n);
        else if (c->type == HW_SQL_INT)
            hw_strbuf_addf(&text, "%" PRId64, c->i);
        else if (c->type == HW_SQL_REAL)
            hw_strbuf_addf(&text, "%.17g", c->d);
        bool yes = c->type != HW_SQL_NULL && c->type != HW_SQL_BLOB &&
                   hw_pattern_matches(q->patterns[i].pattern, text.p ? text.p : "");
        hw_strbuf_done(&text);
        if (!yes)
            return false;
    }
    return true;
}

static int add_row(void *ctx, size_t n, const struct hw_sql_cell *cells)
{
    struct table *q = ctx;
    if (q->counting) {
        q->rows = (uint64_t)cells[0].i;
        return HW_OK;
    }
    if (q->n_patterns) { /* else SQL applied offset and limit */
        uint64_t at = q->rows;
        if (!matches(q, cells))
            return HW_OK;
        q->rows++;
        if (at < q->offset || at - q->offset >= q->limit)
            return HW_OK;
    }
    for (size_t i = 0; i < n; i++) {
        struct held h = {cells[i], q->texts.n};
        if (h.cell.type == HW_SQL_TEXT || h.cell.type == HW_SQL_BLOB)
            hw_strbuf_add(&q->texts, h.cell.p, h.cell.n);
        if (q->texts.failed || hw_vec_push(&q->cells, h) < 0)
            return HW_ENOMEM;
    }
    return HW_OK;
}

static int end_rows(void *ctx)
{
    struct table *q = ctx;
    q->counting = false; /* the rows come next */
    return HW_OK;
}

static int run_table(struct hw_sql *db, void *ctx, struct hw_error *err)
{
    struct table *q = ctx;
    struct hw_sql_sink sink = {begin_rows, add_row, end_rows, q};
    return hw_sql_run(db, q->sql.p, q->sql.n, &sink, NULL, err);
}

static bool has_left(void *ctx)
{
    return hw_http_gone(ctx);
}

static void reply_table(struct hw_http_request *req, const struct table *q)
{
    struct hw_json j;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    hw_json_begin_object(&j);
    hw_json_kv_uint(&j, "rows", q->rows);
    hw_json_kv_uint(&j, "offset", q->offset);
    hw_json_key(&j, "columns");
    hw_json_begin_array(&j);
    for (size_t c = 0; c < q->n_columns; c++) {
        hw_json_begin_object(&j);
        hw_json_kv_str(&j, "name", q->names[c]);
        hw_json_key(&j, "values");
        hw_json_begin_array(&j);
        for (size_t i = c; i < q->cells.n; i += q->n_columns) {
            struct hw_sql_cell cell = q->cells.v[i].cell;
            if (cell.type == HW_SQL_TEXT || cell.type == HW_SQL_BLOB)
                cell.p = q->texts.p ? (const void *)(q->texts.p + q->cells.v[i].text) : "";
            hw_page_put_cell(&j, &cell);
        }
        hw_json_end_array(&j);
        hw_json_end_object(&j);
    }
    hw_json_end_array(&j);
    hw_json_end_object(&j);
    hw_page_reply_json(req, &j);
}

void hw_page_table(struct hw_http_request *req, struct hw_page_trace *t, const char *name)
{
    struct table q = {.job = {.processor = t->processor,
                              .client = hw_http_client(req),
                              .gone = has_left,
                              .ctx = req}};
    struct hw_error err = {0};
    int rc = read_query(&q, req, name, &err);
    if (rc == HW_OK)
        rc = hw_processor_with(t->processor, &q.job, run_table, &q, &err);
    if (rc == HW_ENOTFOUND)
        (void)hw_fail(&err, HW_EINVAL, 0, "the table '%s' has no such column", name);
    if (rc < 0)
        hw_page_reply_error(req, &err, rc == HW_ENOTFOUND ? HW_EINVAL : rc);
    else
        reply_table(req, &q);
    table_done(&q);
}

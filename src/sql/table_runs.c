/*
 * Rows of heap_profile_allocation are stored dump by dump, and all rows of a dump have the same
 * time, process and heap. So a search by these reads one row per dump, and sorting by them sorts
 * the dumps: 200 of them, not 10^7 rows.
 *
 * A plan is a string with two letters per part: the operation (the constants below) and the column.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/lower_bound.h"
#include "sql/engine.h"

#include "base/banned.h"

enum { EQUAL = '=', RISING = '<', FALLING = '>', FIRST_COLUMN = 'A', MAX_COLUMNS = 'z' - 'A' };

/* Is the column constant within a run? */
static bool is_constant(const struct hw_table *t, int column)
{
    if (!t->runs || column < 0 || column >= t->n_columns || column >= MAX_COLUMNS)
        return false;
    enum hw_column_order order = t->columns[column].order;
    return order == HW_ORDER_RUN || order == HW_ORDER_RISING;
}

void hw_runs_plan_equal(struct hw_strbuf *plan, int column)
{
    hw_strbuf_addc(plan, EQUAL);
    hw_strbuf_addc(plan, (char)(FIRST_COLUMN + column));
}

/* Every column of the ORDER BY must be constant within runs. The id may be the last one: the rows
 * of a run are in its order. */
bool hw_runs_plan_orders(struct hw_strbuf *plan, const struct hw_table *t,
                         const sqlite3_index_info *info)
{
    int n = 0;
    for (; n < info->nOrderBy && is_constant(t, info->aOrderBy[n].iColumn);)
        n++;
    if (n < info->nOrderBy) {
        int by = info->aOrderBy[n].iColumn;
        bool is_id = by < 0 || t->columns[by].order == HW_ORDER_DENSE;
        if (n == 0 || !is_id || info->aOrderBy[n].desc)
            return false;
    }
    for (int i = 0; i < n; i++) {
        hw_strbuf_addc(plan, info->aOrderBy[i].desc ? FALLING : RISING);
        hw_strbuf_addc(plan, (char)(FIRST_COLUMN + info->aOrderBy[i].iColumn));
    }
    return n > 0;
}

int hw_runs_n_args(const char *plan)
{
    int n = 0;
    for (; *plan; plan += 2)
        n += plan[0] == EQUAL;
    return n;
}

/* False: certainly not equal. Values that are not comparable here may be. */
static bool may_equal(const struct hw_sql_cell *c, sqlite3_value *v)
{
    int type = sqlite3_value_type(v);
    if (type == SQLITE_NULL || c->type == HW_SQL_NULL)
        return false;
    if (c->type == HW_SQL_INT && type == SQLITE_INTEGER)
        return c->i == sqlite3_value_int64(v);
    if (c->type != HW_SQL_TEXT || type != SQLITE_TEXT)
        return true;
    const void *text = sqlite3_value_blob(v);
    return (size_t)sqlite3_value_bytes(v) == c->n &&
           (c->n == 0 || !text || !memcmp(text, c->p, c->n));
}

struct scan {
    const struct hw_sql_derived *x;
    const struct hw_table *t;
    const struct hw_alloc_run *runs;
    const char *plan;
    sqlite3_value **argv;
};

static bool may_match(const struct scan *s, uint32_t run)
{
    int arg = 0;
    for (const char *part = s->plan; *part; part += 2) {
        struct hw_sql_cell c;
        if (part[0] != EQUAL)
            continue;
        s->t->cell(s->x, (uint32_t)s->runs[run].first, part[1] - FIRST_COLUMN, &c);
        if (!may_equal(&c, s->argv[arg++]))
            return false;
    }
    return true;
}

static int compare_texts(const struct hw_sql_cell *a, const struct hw_sql_cell *b)
{
    size_t n = a->n < b->n ? a->n : b->n;
    int c = n ? memcmp(a->p, b->p, n) : 0;
    return c ? c : (a->n > b->n) - (a->n < b->n);
}

/* SQLite's order; cells of a column have one type, or are NULL. */
static int compare_cells(const struct hw_sql_cell *a, const struct hw_sql_cell *b)
{
    bool no_a = a->type == HW_SQL_NULL, no_b = b->type == HW_SQL_NULL;
    if (no_a || no_b)
        return no_b - no_a;
    return a->type == HW_SQL_INT ? (a->i > b->i) - (a->i < b->i) : compare_texts(a, b);
}

static int compare_runs(const void *pa, const void *pb, void *ctx)
{
    const struct scan *s = ctx;
    uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;
    for (const char *part = s->plan; *part; part += 2) {
        struct hw_sql_cell ca, cb;
        if (part[0] == EQUAL)
            continue;
        s->t->cell(s->x, (uint32_t)s->runs[a].first, part[1] - FIRST_COLUMN, &ca);
        s->t->cell(s->x, (uint32_t)s->runs[b].first, part[1] - FIRST_COLUMN, &cb);
        int c = compare_cells(&ca, &cb);
        if (c)
            return part[0] == FALLING ? -c : c;
    }
    return (a > b) - (a < b);
}

static size_t run_end(const struct hw_alloc_run *runs, size_t n_runs, size_t run, size_t n_rows)
{
    return run + 1 < n_runs ? runs[run + 1].first : n_rows;
}

int hw_runs_pick(const struct hw_sql_derived *x, const struct hw_table *t, const char *plan,
                 sqlite3_value **argv, struct hw_run_scan *out)
{
    size_t n;
    struct scan s = {x, t, t->runs(x, &n), plan, argv};
    size_t n_rows = t->count(x);
    size_t first = HW_LOWER_BOUND(i, 0, n, run_end(s.runs, n, i, n_rows) <= out->from);
    bool sorts = strchr(plan, RISING) || strchr(plan, FALLING);
    hw_vec_clear(&out->runs);
    out->next = 0;
    for (size_t i = first; i < n && s.runs[i].first < out->to; i++)
        if (may_match(&s, (uint32_t)i) && hw_vec_push(&out->runs, (uint32_t)i) < 0)
            return HW_ENOMEM;
    if (sorts && out->runs.n)
        qsort_r(out->runs.v, out->runs.n, sizeof *out->runs.v, compare_runs, &s);
    return HW_OK;
}

bool hw_runs_next(const struct hw_sql_derived *x, const struct hw_table *t, struct hw_run_scan *s,
                  size_t *from, size_t *to)
{
    size_t n;
    const struct hw_alloc_run *runs = t->runs(x, &n);
    while (s->next < s->runs.n) {
        uint32_t run = s->runs.v[s->next++];
        size_t first = runs[run].first, end = run_end(runs, n, run, t->count(x));
        if (first < s->from)
            first = s->from;
        if (end > s->to)
            end = s->to;
        if (first >= end)
            continue;
        *from = first;
        *to = end;
        return true;
    }
    return false;
}

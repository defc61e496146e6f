/*
 * An index is the rows sorted by one column, built when a query first filters or sorts by it: 4
 * bytes per row, and none if the rows already are in that order. It stores no values: they are read
 * from the table. Integers in a small range, such as callsite ids, are sorted by counting; other
 * values are copied and sorted together with their rows.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/radix.h"
#include "sql/engine.h"

#include "base/banned.h"

struct hw_index_key {
    union {
        int64_t i;
        double d;
        const uint8_t *p;
    };
    uint32_t n; /* length of a text */
    uint32_t row;
};

static int compare_text(const uint8_t *a, size_t na, const uint8_t *b, size_t nb)
{
    if (a == b && na == nb) /* interned texts usually share an address */
        return 0;
    size_t n = na < nb ? na : nb;
    int c = n ? memcmp(a, b, n) : 0;
    return c ? c : (na > nb) - (na < nb);
}

static int by_row(const struct hw_index_key *a, const struct hw_index_key *b)
{
    return (a->row > b->row) - (a->row < b->row);
}

static int compare_ints(const void *pa, const void *pb)
{
    const struct hw_index_key *a = pa, *b = pb;
    return a->i != b->i ? (a->i < b->i ? -1 : 1) : by_row(a, b);
}

static int compare_reals(const void *pa, const void *pb)
{
    const struct hw_index_key *a = pa, *b = pb;
    return a->d < b->d ? -1 : a->d > b->d ? 1 : by_row(a, b);
}

static int compare_texts(const void *pa, const void *pb)
{
    const struct hw_index_key *a = pa, *b = pb;
    int c = compare_text(a->p, a->n, b->p, b->n);
    return c ? c : by_row(a, b);
}

typedef int (*compare_fn)(const void *, const void *);

static compare_fn compare_of(enum hw_column_class class)
{
    switch (class) {
    case HW_CLASS_INT:
        return compare_ints;
    case HW_CLASS_REAL:
        return compare_reals;
    case HW_CLASS_TEXT:
        return compare_texts;
    }
    return compare_ints;
}

static bool key_of(const struct hw_sql_cell *c, uint32_t row, struct hw_index_key *out)
{
    *out = (struct hw_index_key){.row = row};
    switch (c->type) {
    case HW_SQL_INT:
        out->i = c->i;
        return true;
    case HW_SQL_REAL:
        if (c->d != c->d) /* SQLite turns NaN into NULL */
            return false;
        out->d = c->d;
        return true;
    case HW_SQL_TEXT:
    case HW_SQL_BLOB:
        out->p = c->p;
        out->n = (uint32_t)c->n;
        return true;
    case HW_SQL_NULL:
        break;
    }
    return false;
}

enum { SMALL = 4096 };

/* A stable radix sort. The sign bit is flipped so that negative integers come first. */
static int sort_integers(struct hw_index_key *keys, size_t n)
{
    struct hw_radix16 *records = malloc(n * sizeof *records);
    if (!records)
        return HW_ENOMEM;
    for (size_t i = 0; i < n; i++)
        records[i] = (struct hw_radix16){(uint64_t)keys[i].i ^ 1ull << 63, keys[i].row, 0};
    int rc = hw_radix_sort16(records, n);
    for (size_t i = 0; rc == HW_OK && i < n; i++)
        keys[i] =
            (struct hw_index_key){.i = (int64_t)(records[i].key ^ 1ull << 63), .row = records[i].a};
    free(records);
    return rc;
}

/* A distinct text of a column. */
struct text {
    const uint8_t *p;
    uint32_t n, rank;
};

static int compare_text_order(const void *pa, const void *pb)
{
    const struct text *a = *(struct text *const *)pa, *b = *(struct text *const *)pb;
    return compare_text(a->p, a->n, b->p, b->n);
}

typedef HW_VEC(struct text) texts;

/* Finds the distinct texts by address, and sets each record's text. An interned text has one
 * address; a text with several is listed several times. 1 = done, 0 = too many texts, or a clash of
 * addresses. */
static int find_texts(const struct hw_index_key *keys, size_t n, texts *out,
                      struct hw_radix16 *records)
{
    struct hw_map64 seen = {0};
    int rc = 1;
    for (size_t i = 0; rc == 1 && i < n; i++) {
        uint64_t *at, address = (uint64_t)(uintptr_t)keys[i].p ^ (uint64_t)keys[i].n << 48;
        bool fresh;
        rc = hw_map64_at(&seen, address, &at, &fresh) < 0 ? HW_ENOMEM : 1;
        if (rc == 1 && fresh) {
            *at = out->n;
            if (hw_vec_push(out, (struct text){keys[i].p, keys[i].n, 0}) < 0)
                rc = HW_ENOMEM;
        }
        if (rc == 1 &&
            (out->v[*at].p != keys[i].p || out->v[*at].n != keys[i].n || out->n > n / 4 + 1))
            rc = 0;
        if (rc == 1)
            records[i] = (struct hw_radix16){0, keys[i].row, (uint32_t)*at};
    }
    hw_map64_done(&seen);
    return rc;
}

/* Ranks texts in sorted order; equal ones share a rank. */
static int rank_texts(texts *t)
{
    struct text **order = malloc((t->n + 1) * sizeof *order);
    if (!order)
        return HW_ENOMEM;
    for (size_t i = 0; i < t->n; i++)
        order[i] = &t->v[i];
    qsort(order, t->n, sizeof *order, compare_text_order);
    for (size_t i = 1; i < t->n; i++)
        order[i]->rank = order[i - 1]->rank + (compare_text_order(&order[i - 1], &order[i]) != 0);
    free(order);
    return HW_OK;
}

/* With few distinct texts, only those are compared, and the rows are radix-sorted by rank. */
static int sort_texts(struct hw_index_key *keys, size_t n)
{
    texts t = {0};
    struct hw_radix16 *records = malloc(n * sizeof *records);
    int rc = records ? find_texts(keys, n, &t, records) : HW_ENOMEM;
    if (rc == 0)
        qsort(keys, n, sizeof *keys, compare_texts);
    if (rc == 1) {
        rc = rank_texts(&t);
        for (size_t i = 0; rc == HW_OK && i < n; i++)
            records[i].key = t.v[records[i].b].rank;
        if (rc == HW_OK)
            rc = hw_radix_sort16(records, n);
        for (size_t i = 0; rc == HW_OK && i < n; i++) {
            const struct text *text = &t.v[records[i].b];
            keys[i] = (struct hw_index_key){.p = text->p, .n = text->n, .row = records[i].a};
        }
    }
    free(records);
    hw_vec_done(&t);
    return rc;
}

static int sort_keys(struct hw_index_key *keys, size_t n, enum hw_column_class class)
{
    if (class == HW_CLASS_INT && n > SMALL)
        return sort_integers(keys, n);
    if (class == HW_CLASS_TEXT && n > SMALL)
        return sort_texts(keys, n);
    qsort(keys, n, sizeof *keys, compare_of(class));
    return HW_OK;
}

/* The result of a scan over all cells of a column. */
struct scan {
    size_t n_null, n_changes;
    int64_t min, max; /* of integers */
    bool is_sorted;   /* the rows are in the index's order */
};

static struct scan scan_column(const struct hw_sql_derived *x, const struct hw_table *t, int column)
{
    compare_fn compare = compare_of(t->columns[column].class);
    struct scan out = {.min = INT64_MAX, .max = INT64_MIN, .is_sorted = true};
    struct hw_index_key last = {0}, key;
    size_t n = t->count(x);
    for (uint32_t row = 0; row < n; row++) {
        struct hw_sql_cell c;
        t->cell(x, row, column, &c);
        if (!key_of(&c, row, &key)) {
            out.is_sorted = out.is_sorted && out.n_null == row;
            out.n_null++;
            continue;
        }
        if (c.type == HW_SQL_INT && c.i < out.min)
            out.min = c.i;
        if (c.type == HW_SQL_INT && c.i > out.max)
            out.max = c.i;
        if (!out.is_sorted)
            continue;
        key.row = last.row = 0; /* only the values are compared */
        int order = out.n_null == row ? -1 : compare(&last, &key);
        out.is_sorted = order <= 0;
        out.n_changes += order < 0;
        last = key;
    }
    return out;
}

/* A counting sort. 1 = done, 0 = the range of values is too large. */
static int count_integers(struct hw_index *ix, const struct hw_sql_derived *x,
                          const struct hw_table *t, int column, const struct scan *scan)
{
    uint64_t range = (uint64_t)scan->max - (uint64_t)scan->min + 1;
    struct hw_sql_cell c;
    if (scan->n_null == ix->n || range == 0 || range > 2 * (uint64_t)ix->n + 1024)
        return 0;
    uint32_t *at = calloc((size_t)range, sizeof *at), sum = (uint32_t)scan->n_null, null = 0;
    if (!at)
        return HW_ENOMEM;
    for (uint32_t row = 0; row < ix->n; row++) {
        t->cell(x, row, column, &c);
        if (c.type == HW_SQL_INT)
            at[(uint64_t)c.i - (uint64_t)scan->min]++;
    }
    for (size_t i = 0; i < range; i++) {
        uint32_t n = at[i];
        at[i] = sum;
        sum += n;
        ix->n_distinct += n > 0;
    }
    for (uint32_t row = 0; row < ix->n; row++) {
        t->cell(x, row, column, &c);
        if (c.type == HW_SQL_INT)
            ix->rows[at[(uint64_t)c.i - (uint64_t)scan->min]++] = row;
        else
            ix->rows[null++] = row;
    }
    free(at);
    return 1;
}

static int sort_rows(struct hw_index *ix, const struct hw_sql_derived *x, const struct hw_table *t,
                     int column)
{
    enum hw_column_class class = t->columns[column].class;
    compare_fn compare = compare_of(class);
    size_t n_null = 0, n_set = 0;
    struct hw_index_key *keys = malloc((ix->n - ix->n_null + 1) * sizeof *keys);
    if (!keys)
        return HW_ENOMEM;
    for (uint32_t row = 0; row < ix->n; row++) {
        struct hw_sql_cell c;
        t->cell(x, row, column, &c);
        if (key_of(&c, row, &keys[n_set]))
            n_set++;
        else
            ix->rows[n_null++] = row;
    }
    int rc = sort_keys(keys, n_set, class);
    for (size_t i = 0; rc == HW_OK && i < n_set; i++) {
        struct hw_index_key before = keys[i ? i - 1 : 0];
        before.row = keys[i].row;
        ix->n_distinct += i == 0 || compare(&before, &keys[i]) != 0;
        ix->rows[n_null + i] = keys[i].row;
    }
    free(keys);
    return rc;
}

int hw_index_build(struct hw_index *ix, const struct hw_sql_derived *x, const struct hw_table *t,
                   int column)
{
    struct scan scan = scan_column(x, t, column);
    struct hw_index made = {
        .n = t->count(x), .n_null = scan.n_null, .n_distinct = scan.n_null > 0, .is_made = true};
    int rc = 1;
    if (scan.is_sorted) {
        made.n_distinct += scan.n_changes;
    } else {
        made.rows = malloc((made.n + 1) * sizeof *made.rows);
        rc = made.rows ? 0 : HW_ENOMEM;
        if (rc == 0 && t->columns[column].class == HW_CLASS_INT)
            rc = count_integers(&made, x, t, column, &scan);
        if (rc == 0)
            rc = sort_rows(&made, x, t, column);
    }
    if (rc < 0)
        free(made.rows);
    else
        *ix = made;
    return rc < 0 ? rc : HW_OK;
}

void hw_index_done(struct hw_index *ix)
{
    free(ix->rows);
    *ix = (struct hw_index){0};
}

/* Compares without rounding: a long double holds both. */
static int compare_int_real(int64_t a, double b)
{
    long double wide = (long double)a, other = (long double)b;
    return (wide > other) - (wide < other);
}

static int compare_value(const struct hw_index_key *k, enum hw_column_class class, sqlite3_value *v,
                         int type)
{
    switch (class) {
    case HW_CLASS_INT:
        if (type == SQLITE_INTEGER) {
            int64_t w = sqlite3_value_int64(v);
            return (k->i > w) - (k->i < w);
        }
        return compare_int_real(k->i, sqlite3_value_double(v));
    case HW_CLASS_REAL:
        if (type == SQLITE_INTEGER)
            return -compare_int_real(sqlite3_value_int64(v), k->d);
        return (k->d > sqlite3_value_double(v)) - (k->d < sqlite3_value_double(v));
    case HW_CLASS_TEXT:
        return compare_text(k->p, k->n, sqlite3_value_blob(v), (size_t)sqlite3_value_bytes(v));
    }
    return 0;
}

bool hw_index_bound(const struct hw_index *ix, const struct hw_sql_derived *x,
                    const struct hw_table *t, int column, sqlite3_value *value, bool above,
                    size_t *out)
{
    int type = sqlite3_value_type(value);
    enum hw_column_class class = t->columns[column].class;
    bool is_number = type == SQLITE_INTEGER || type == SQLITE_FLOAT;
    if (class == HW_CLASS_TEXT ? type != SQLITE_TEXT : !is_number)
        return false;
    if (class == HW_CLASS_TEXT && sqlite3_value_bytes(value) && !sqlite3_value_blob(value))
        return false; /* out of memory */
    size_t low = ix->n_null, high = ix->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        struct hw_sql_cell cell;
        struct hw_index_key key;
        t->cell(x, hw_index_row(ix, mid), column, &cell);
        (void)key_of(&cell, 0, &key); /* not NULL: those come first */
        int c = compare_value(&key, class, value, type);
        if (c < 0 || (above && c == 0))
            low = mid + 1;
        else
            high = mid;
    }
    *out = low;
    return true;
}

static bool is_same_cell(const struct hw_sql_cell *a, const struct hw_sql_cell *b)
{
    if (a->type != b->type || a->type == HW_SQL_NULL)
        return a->type == b->type;
    if (a->type == HW_SQL_INT)
        return a->i == b->i;
    if (a->type == HW_SQL_REAL)
        return a->d == b->d;
    return compare_text(a->p, a->n, b->p, b->n) == 0;
}

size_t hw_index_group(const struct hw_index *ix, const struct hw_sql_derived *x,
                      const struct hw_table *t, int column, size_t low, size_t high)
{
    struct hw_sql_cell last, before;
    if (low == high)
        return high;
    t->cell(x, hw_index_row(ix, --high), column, &last);
    while (high > low) {
        t->cell(x, hw_index_row(ix, high - 1), column, &before);
        if (!is_same_cell(&last, &before))
            break;
        high--;
    }
    return high;
}

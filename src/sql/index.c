/*
 * An index is the rows sorted by one column, made when a query first filters by it: 16 bytes a row,
 * beside the key, so that a search touches nothing else. Columns that already rise with the row
 * number (times, dumps) are only read, not sorted.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/radix.h"
#include "sql/engine.h"

#include "base/banned.h"

static int compare_text(const uint8_t *a, size_t na, const uint8_t *b, size_t nb)
{
    if (a == b && na == nb) /* interned: mostly the same address */
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
        if (c->d != c->d) /* SQLite shows NaN as NULL */
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

/* Integers by their digits; rows of equal keys stay in their order. The sign bit is turned round so
 * that negative ones come first. */
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

static int sort_keys(struct hw_index_key *keys, size_t n, enum hw_column_class class)
{
    if (class == HW_CLASS_INT && n > SMALL)
        return sort_integers(keys, n);
    qsort(keys, n, sizeof *keys, compare_of(class));
    return HW_OK;
}

int hw_index_build(struct hw_index *ix, const struct hw_sql_derived *x, const struct hw_table *t,
                   int column)
{
    size_t n = t->count(x), n_null = 0, n_set = 0;
    struct hw_index_key *keys = malloc((n + 1) * sizeof *keys);
    uint32_t *nulls = malloc((n + 1) * sizeof *nulls);
    if (!keys || !nulls) {
        free(keys);
        free(nulls);
        return HW_ENOMEM;
    }
    compare_fn compare = compare_of(t->columns[column].class);
    bool sorted = true;
    for (uint32_t row = 0; row < n; row++) {
        struct hw_sql_cell c;
        t->cell(x, row, column, &c);
        if (!key_of(&c, row, &keys[n_set])) {
            nulls[n_null++] = row;
            continue;
        }
        sorted = sorted && (n_set == 0 || compare(&keys[n_set - 1], &keys[n_set]) < 0);
        n_set++;
    }
    int rc = sorted ? HW_OK : sort_keys(keys, n_set, t->columns[column].class);
    if (rc < 0) {
        free(keys);
        free(nulls);
        return rc;
    }
    size_t distinct = n_null > 0;
    for (size_t i = 0; i < n_set; i++) {
        struct hw_index_key after = keys[i];
        after.row = i ? keys[i - 1].row : 0;
        distinct += i == 0 || compare(&keys[i - 1], &after) != 0;
    }
    memmove(keys + n_null, keys, n_set * sizeof *keys);
    for (size_t i = 0; i < n_null; i++)
        keys[i] = (struct hw_index_key){.row = nulls[i]};
    free(nulls);
    *ix = (struct hw_index){keys, n, n_null, distinct};
    return HW_OK;
}

void hw_index_done(struct hw_index *ix)
{
    free(ix->keys);
    *ix = (struct hw_index){0};
}

/* An integer against a double without rounding either: a long double holds both. */
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

bool hw_index_bound(const struct hw_index *ix, enum hw_column_class class, sqlite3_value *value,
                    bool above, size_t *out)
{
    int type = sqlite3_value_type(value);
    bool is_number = type == SQLITE_INTEGER || type == SQLITE_FLOAT;
    if (class == HW_CLASS_TEXT ? type != SQLITE_TEXT : !is_number)
        return false;
    if (class == HW_CLASS_TEXT && sqlite3_value_bytes(value) && !sqlite3_value_blob(value))
        return false; /* no memory to convert it */
    size_t low = ix->n_null, high = ix->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int c = compare_value(&ix->keys[mid], class, value, type);
        if (c < 0 || (above && c == 0))
            low = mid + 1;
        else
            high = mid;
    }
    *out = low;
    return true;
}

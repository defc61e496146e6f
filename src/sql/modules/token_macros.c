#include "sql/modules/token_macros.h"

#include <inttypes.h>

#include "base/error.h"
#include "sql/tokens.h"

#include "base/banned.h"

static void put_quoted(struct hw_strbuf *out, struct hw_bytes text)
{
    hw_strbuf_addc(out, '\'');
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] == '\'')
            hw_strbuf_addc(out, '\'');
        hw_strbuf_addc(out, (char)text.p[i]);
    }
    hw_strbuf_addc(out, '\'');
}

/* "(a, b)" -> a, b; numbered: c1 AS a, c2 AS b. */
static void put_columns(struct hw_strbuf *out, struct hw_bytes list, bool numbered)
{
    struct hw_token t;
    unsigned n = 0;
    while (hw_token_take_word(&list, &t)) {
        if (t.kind != HW_TOKEN_WORD && t.kind != HW_TOKEN_QUOTED)
            continue;
        hw_strbuf_adds(out, n++ ? ", " : "");
        if (numbered)
            hw_strbuf_addf(out, "c%u AS ", n);
        hw_strbuf_add(out, t.text.p, t.text.n);
    }
}

static void put_stringify(const struct hw_bytes *args, struct hw_strbuf *out)
{
    put_quoted(out, args[0]);
}

static void put_plain_columns(const struct hw_bytes *args, struct hw_strbuf *out)
{
    put_columns(out, args[0], /* numbered = */ false);
}

static void put_scan_columns(const struct hw_bytes *args, struct hw_strbuf *out)
{
    put_columns(out, args[0], /* numbered = */ true);
}

static void put_scan_step(const struct hw_bytes *args, struct hw_strbuf *out)
{
    struct hw_bytes rest = args[0];
    struct hw_token t;
    struct hw_strbuf text = {0};
    hw_strbuf_adds(&text, "(SELECT id, ");
    put_columns(&text, args[1], /* numbered = */ false);
    hw_strbuf_adds(&text, " FROM ");
    while (hw_token_take(&rest, &t)) {
        if (t.kind == HW_TOKEN_VARIABLE && hw_bytes_equal(t.text, hw_bytes_str("$table"))) {
            hw_strbuf_adds(&text, "(SELECT c0 AS id, ");
            put_columns(&text, args[1], /* numbered = */ true);
            hw_strbuf_adds(&text, " FROM _hw_scan_rows(?1))");
        } else {
            hw_strbuf_add(&text, t.text.p, t.text.n);
        }
    }
    hw_strbuf_addc(&text, ')');
    out->failed |= text.failed;
    put_quoted(out, hw_bytes_of(text.p ? text.p : "", text.n));
    hw_strbuf_done(&text);
}

/* ---- allocations ---- */

/*
 * Front ends query the allocations of a process up to a time always in this form:
 *
 *     (SELECT callsite_id, size, count, max(size, 0) AS alloc_size, max(count, 0) AS alloc_count
 *      FROM heap_profile_allocation [a] [WHERE upid = N AND ts <= N AND heap_name = 'x'])
 *
 * SQLite takes a third of a microsecond per row, a loop over the model's columns some ten
 * nanoseconds. Any other form is left to SQLite.
 */
struct allocations {
    struct hw_bytes alias, upid, heap;
    int64_t first_ts, last_ts;
};

static bool take(struct hw_bytes *rest, const char *const *words, size_t n)
{
    struct hw_token t;
    for (size_t i = 0; i < n; i++)
        if (!hw_token_take_word(rest, &t) || !hw_token_is(&t, words[i]))
            return false;
    return true;
}

static bool take_one(struct hw_bytes *rest, const char *word)
{
    struct hw_bytes ahead = *rest;
    if (!take(&ahead, &word, 1))
        return false;
    *rest = ahead;
    return true;
}

static bool take_number(struct hw_bytes *rest, struct hw_bytes *text, int64_t *out)
{
    enum { MOST_DIGITS = 18 };
    struct hw_token t;
    *out = 0;
    if (!hw_token_take_word(rest, &t) || t.kind != HW_TOKEN_WORD || t.text.n > MOST_DIGITS)
        return false;
    *text = t.text;
    for (size_t i = 0; i < t.text.n; i++) {
        if (t.text.p[i] < '0' || t.text.p[i] > '9')
            return false;
        *out = *out * 10 + (t.text.p[i] - '0');
    }
    return true;
}

static bool take_time(struct hw_bytes *rest, struct allocations *a)
{
    bool below = take_one(rest, "<"), above = !below && take_one(rest, ">");
    bool equal = take_one(rest, "=");
    struct hw_bytes text;
    int64_t ts;
    if ((!below && !above && !equal) || !take_number(rest, &text, &ts))
        return false;
    int64_t last = above ? INT64_MAX : equal ? ts : ts - 1;
    int64_t first = below ? INT64_MIN : equal ? ts : ts + 1;
    a->last_ts = last < a->last_ts ? last : a->last_ts;
    a->first_ts = first > a->first_ts ? first : a->first_ts;
    return true;
}

static bool take_condition(struct hw_bytes *rest, struct allocations *a)
{
    struct hw_bytes ahead = *rest;
    struct hw_token t;
    int64_t number;
    if (a->alias.n && hw_token_take_word(&ahead, &t) && hw_bytes_equal(t.text, a->alias)) {
        if (!take_one(&ahead, "."))
            return false;
        *rest = ahead;
    }
    if (take_one(rest, "ts"))
        return take_time(rest, a);
    if (take_one(rest, "upid"))
        return !a->upid.n && take_one(rest, "=") && take_number(rest, &a->upid, &number);
    if (!take_one(rest, "heap_name") || a->heap.n || !take_one(rest, "=") ||
        !hw_token_take_word(rest, &t) || t.kind != HW_TOKEN_STRING)
        return false;
    a->heap = t.text;
    return true;
}

static bool read_allocations(struct hw_bytes rest, struct allocations *a)
{
    static const char *const head[] = {"(",           "select", "callsite_id",
                                       ",",           "size",   ",",
                                       "count",       ",",      "max",
                                       "(",           "size",   ",",
                                       "0",           ")",      "as",
                                       "alloc_size",  ",",      "max",
                                       "(",           "count",  ",",
                                       "0",           ")",      "as",
                                       "alloc_count", "from",   "heap_profile_allocation"};
    struct hw_token t;
    *a = (struct allocations){.first_ts = INT64_MIN, .last_ts = INT64_MAX};
    if (!take(&rest, head, HW_ARRAY_LEN(head)))
        return false;
    struct hw_bytes ahead = rest;
    if (hw_token_take_word(&ahead, &t) && t.kind == HW_TOKEN_WORD && !hw_token_is(&t, "where")) {
        a->alias = t.text;
        rest = ahead;
    }
    bool any = take_one(&rest, "where");
    while (any) {
        if (!take_condition(&rest, a))
            return false;
        any = take_one(&rest, "and");
    }
    return take_one(&rest, ")") && !hw_token_take_word(&rest, &t);
}

static void put_bound(struct hw_strbuf *out, int64_t bound, int64_t none)
{
    if (bound == none)
        hw_strbuf_adds(out, "NULL, ");
    else
        hw_strbuf_addf(out, "%" PRId64 ", ", bound);
}

/* Reads a hidden column, so that a view with the table's name is not mistaken for it. */
static void put_allocation_list(const struct hw_bytes *args, struct hw_strbuf *out)
{
    struct allocations a;
    if (!read_allocations(args[0], &a)) {
        hw_strbuf_adds(out, "(SELECT _hw_sum_by(callsite_id, size, count, alloc_size, alloc_count)"
                            " FROM ");
        hw_strbuf_add(out, args[0].p, args[0].n);
        hw_strbuf_addc(out, ')');
        return;
    }
    hw_strbuf_adds(out, "(SELECT _hw_sums_of_allocations(");
    hw_strbuf_add(out, a.upid.n ? (const void *)a.upid.p : "NULL", a.upid.n ? a.upid.n : 4);
    hw_strbuf_adds(out, ", ");
    put_bound(out, a.first_ts, INT64_MIN);
    put_bound(out, a.last_ts, INT64_MAX);
    hw_strbuf_add(out, a.heap.n ? (const void *)a.heap.p : "NULL", a.heap.n ? a.heap.n : 4);
    hw_strbuf_adds(out, ") FROM (SELECT heap_profile_id FROM heap_profile_allocation LIMIT 1)"
                        " WHERE heap_profile_id >= 0)");
}

static const struct token_macro {
    const char *name;
    size_t n_args;
    void (*put)(const struct hw_bytes *args, struct hw_strbuf *out);
} macros[] = {
    {"__intrinsic_stringify", 1, put_stringify}, {"_hw_allocation_list", 1, put_allocation_list},
    {"_hw_columns", 1, put_plain_columns},       {"_hw_scan_columns", 1, put_scan_columns},
    {"_hw_scan_step", 2, put_scan_step},
};

static const struct token_macro *find(struct hw_bytes name)
{
    for (size_t i = 0; i < HW_ARRAY_LEN(macros); i++)
        if (hw_bytes_equal(name, hw_bytes_str(macros[i].name)))
            return &macros[i];
    return NULL;
}

bool hw_token_macro_exists(struct hw_bytes name)
{
    return find(name) != NULL;
}

int hw_token_macro_put(struct hw_bytes name, const struct hw_bytes *args, size_t n,
                       struct hw_strbuf *out, struct hw_error *err)
{
    const struct token_macro *m = find(name);
    if (!m || n != m->n_args)
        return hw_fail(err, HW_EINVAL, 0, "%s! takes %zu arguments, not %zu", m ? m->name : "",
                       m ? m->n_args : 0, n);
    m->put(args, out);
    return out->failed ? HW_ENOMEM : HW_OK;
}

/*
 * instr, replace, trim, ltrim and rtrim with SQLite's results in bounded time. SQLite's own compare
 * the needle at every position, so one call on two long texts takes hours, and deadlines are not
 * checked within a call: instr of 5 MB in 10 MB had not ended after ten minutes. These search in
 * linear time (memmem); trim accepts at most MAX_TRIM different characters.
 */
#include <string.h>

#include "base/error.h"
#include "sql/engine.h"

#include "base/banned.h"

enum { MAX_TRIM = 256, PURE = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS };

/* Which end; a function's user data points into it. */
enum end { LEFT = 1, RIGHT = 2 };
static const int both_ends = LEFT | RIGHT, left_end = LEFT, right_end = RIGHT;

static bool is_continuation(uint8_t byte)
{
    return (byte & 0xc0) == 0x80;
}

/* As text; NULL for a NULL, or out of memory (SQLite then fails the statement). */
static struct hw_bytes text_of(sqlite3_value *v)
{
    const unsigned char *p = sqlite3_value_text(v);
    return hw_bytes_of(p, p ? (size_t)sqlite3_value_bytes(v) : 0);
}

static struct hw_bytes blob_of(sqlite3_value *v)
{
    const void *p = sqlite3_value_blob(v);
    return hw_bytes_of(p ? p : "", p ? (size_t)sqlite3_value_bytes(v) : 0);
}

static void instr(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    (void)argc;
    int a = sqlite3_value_type(argv[0]), b = sqlite3_value_type(argv[1]);
    if (a == SQLITE_NULL || b == SQLITE_NULL)
        return;
    bool blobs = a == SQLITE_BLOB && b == SQLITE_BLOB;
    struct hw_bytes hay = blobs ? blob_of(argv[0]) : text_of(argv[0]);
    struct hw_bytes needle = blobs ? blob_of(argv[1]) : text_of(argv[1]);
    if (!hay.p || !needle.p) {
        sqlite3_result_error_nomem(ctx);
        return;
    }
    const uint8_t *at = needle.n ? memmem(hay.p, hay.n, needle.p, needle.n) : hay.p;
    /* SQLite searches a text by characters: a match within one counts only at the start. */
    if (at && !blobs && needle.n && is_continuation(needle.p[0]) && at != hay.p)
        at = NULL;
    sqlite3_int64 position = at ? 1 : 0;
    for (const uint8_t *c = hay.p; at && c < at; c++)
        position += blobs || c == hay.p || !is_continuation(*c);
    sqlite3_result_int64(ctx, position);
}

static size_t count_of(struct hw_bytes hay, struct hw_bytes needle)
{
    size_t n = 0;
    const uint8_t *p = hay.p, *end = hw_bytes_end(hay);
    while ((p = memmem(p, (size_t)(end - p), needle.p, needle.n))) {
        n++;
        p += needle.n;
    }
    return n;
}

static void copy_replaced(uint8_t *out, struct hw_bytes hay, struct hw_bytes needle,
                          struct hw_bytes by)
{
    const uint8_t *p = hay.p, *end = hw_bytes_end(hay), *at;
    while ((at = memmem(p, (size_t)(end - p), needle.p, needle.n))) {
        memcpy(out, p, (size_t)(at - p));
        out += at - p;
        memcpy(out, by.p, by.n);
        out += by.n;
        p = at + needle.n;
    }
    memcpy(out, p, (size_t)(end - p));
}

static void replace(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    struct hw_bytes v[3];
    for (int i = 0; i < argc; i++) {
        if (sqlite3_value_type(argv[i]) == SQLITE_NULL)
            return;
        v[i] = text_of(argv[i]);
        if (!v[i].p) {
            sqlite3_result_error_nomem(ctx);
            return;
        }
    }
    if (v[1].n == 0 || v[1].p[0] == 0) { /* SQLite treats a text that begins with NUL as empty */
        sqlite3_result_value(ctx, argv[0]);
        return;
    }
    /* Each is below SQLite's limit of a value, so products stay below 2^62. */
    uint64_t n = count_of(v[0], v[1]), size = v[0].n - n * v[1].n + n * v[2].n;
    if (size > (uint64_t)sqlite3_limit(sqlite3_context_db_handle(ctx), SQLITE_LIMIT_LENGTH, -1)) {
        sqlite3_result_error_toobig(ctx);
        return;
    }
    uint8_t *out = sqlite3_malloc64(size + 1);
    if (!out) {
        sqlite3_result_error_nomem(ctx);
        return;
    }
    copy_replaced(out, v[0], v[1], v[2]);
    sqlite3_result_text64(ctx, (char *)out, size, sqlite3_free, SQLITE_UTF8);
}

/* Bytes of the character at p: as in SQLite, a lead byte and all continuation bytes after it. */
static size_t char_size(const uint8_t *p, const uint8_t *end)
{
    size_t n = 1;
    if (*p >= 0xc0)
        while (p + n < end && is_continuation(p[n]))
            n++;
    return n;
}

struct set {
    struct hw_bytes chars[MAX_TRIM];
    size_t n;
};

/* Reads up to a NUL, as SQLite does. */
static bool set_read(struct set *set, struct hw_bytes text)
{
    set->n = 0;
    for (const uint8_t *p = text.p, *end = hw_bytes_end(text); p < end && *p;) {
        struct hw_bytes c = hw_bytes_of(p, char_size(p, end));
        size_t i = 0;
        while (i < set->n && !hw_bytes_equal(set->chars[i], c))
            i++;
        if (i == MAX_TRIM)
            return false;
        if (i == set->n)
            set->chars[set->n++] = c;
        p += c.n;
    }
    return true;
}

/* The length of the set's character that the text starts or ends with; 0 = none. */
static size_t set_match(const struct set *set, struct hw_bytes text, enum end end)
{
    for (size_t i = 0; i < set->n; i++) {
        struct hw_bytes c = set->chars[i];
        if (c.n <= text.n && memcmp(end == LEFT ? text.p : hw_bytes_end(text) - c.n, c.p, c.n) == 0)
            return c.n;
    }
    return 0;
}

static void trim(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    (void)argc;
    if (sqlite3_value_type(argv[0]) == SQLITE_NULL || sqlite3_value_type(argv[1]) == SQLITE_NULL)
        return;
    const int *ends = sqlite3_user_data(ctx);
    struct hw_bytes text = text_of(argv[0]), chars = text_of(argv[1]);
    struct set set;
    size_t n;
    if (!text.p || !chars.p) {
        sqlite3_result_error_nomem(ctx);
        return;
    }
    if (!set_read(&set, chars)) {
        sqlite3_result_error(ctx, "trim: more than 256 different characters", -1);
        return;
    }
    while ((*ends & LEFT) && (n = set_match(&set, text, LEFT)))
        text = hw_bytes_of(text.p + n, text.n - n);
    while ((*ends & RIGHT) && (n = set_match(&set, text, RIGHT)))
        text.n -= n;
    sqlite3_result_text64(ctx, (const char *)text.p, text.n, SQLITE_TRANSIENT, SQLITE_UTF8);
}

/* _to_breakpad_module(mapping, build_id) */
static void to_breakpad_module(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    struct hw_strbuf id = {0};
    (void)argc; /* declared with two */
    if (hw_breakpad_module_add(&id, text_of(argv[0]), text_of(argv[1]))) {
        if (id.failed)
            sqlite3_result_error_nomem(context);
        else
            sqlite3_result_text64(context, id.p, id.n, SQLITE_TRANSIENT, SQLITE_UTF8);
    }
    hw_strbuf_done(&id);
}

int hw_sql_add_text_functions(struct hw_sql *s)
{
    static const struct {
        const char *name;
        int n_args;
        void (*run)(sqlite3_context *, int, sqlite3_value **);
        const int *ends;
    } functions[] = {
        {"instr", 2, instr, NULL},      {"replace", 3, replace, NULL},
        {"trim", 2, trim, &both_ends},  {"ltrim", 2, trim, &left_end},
        {"rtrim", 2, trim, &right_end}, {"_to_breakpad_module", 2, to_breakpad_module, NULL},
    };
    for (size_t i = 0; i < HW_ARRAY_LEN(functions); i++) {
        void *ends = NULL;
        memcpy(&ends, &functions[i].ends, sizeof ends); /* read only; SQLite's type lacks const */
        if (sqlite3_create_function_v2(s->db, functions[i].name, functions[i].n_args, PURE, ends,
                                       functions[i].run, NULL, NULL, NULL) != SQLITE_OK)
            return HW_ENOMEM;
    }
    return HW_OK;
}

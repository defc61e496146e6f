/*
 * Small scalar functions of Perfetto's trace processor that SQLite lacks or defines differently
 * (unhex returns a number here). NULL arguments give NULL unless stated otherwise.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/memory/map64.h"
#include "base/text/strbuf.h"
#include "sql/engine.h"

#include "base/banned.h"

enum { PURE = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS };

static struct hw_bytes bytes_of(sqlite3_value *v)
{
    bool blob = sqlite3_value_type(v) == SQLITE_BLOB;
    const void *p = blob ? sqlite3_value_blob(v) : sqlite3_value_text(v);
    return hw_bytes_of(p ? p : "", p ? (size_t)sqlite3_value_bytes(v) : 0);
}

static bool is_null(int argc, sqlite3_value **argv)
{
    for (int i = 0; i < argc; i++)
        if (sqlite3_value_type(argv[i]) == SQLITE_NULL)
            return true;
    return false;
}

/* Takes ownership of the buffer. */
static void set_text(sqlite3_context *ctx, char *p, size_t n)
{
    if (p)
        sqlite3_result_text64(ctx, p, n, sqlite3_free, SQLITE_UTF8);
    else
        sqlite3_result_error_nomem(ctx);
}

/* ---- texts ---- */

/* By characters: continuation bytes stay after their lead byte. */
static void reverse(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    if (is_null(argc, argv))
        return;
    struct hw_bytes b = bytes_of(argv[0]);
    char *out = sqlite3_malloc64(b.n + 1);
    for (size_t at = 0; out && at < b.n;) {
        size_t len = 1;
        while (at + len < b.n && (b.p[at + len] & 0xc0) == 0x80)
            len++;
        memcpy(out + b.n - at - len, b.p + at, len);
        at += len;
    }
    set_text(ctx, out, b.n);
}

/* Part i between separators; NULL after the last one. */
static void str_split(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    if (is_null(argc, argv))
        return;
    struct hw_bytes text = bytes_of(argv[0]), by = bytes_of(argv[1]);
    int64_t index = sqlite3_value_int64(argv[2]);
    if (by.n == 0 || index < 0) {
        sqlite3_result_error(ctx, "str_split: a separator and a number >= 0 are needed", -1);
        return;
    }
    for (;;) {
        const uint8_t *end = memmem(text.p, text.n, by.p, by.n);
        size_t n = end ? (size_t)(end - text.p) : text.n;
        if (index-- == 0) {
            sqlite3_result_text64(ctx, (const char *)text.p, n, SQLITE_TRANSIENT, SQLITE_UTF8);
            return;
        }
        if (!end)
            return;
        text = hw_bytes_of(text.p + n + by.n, text.n - n - by.n);
    }
}

static const char base64_letters[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void base64_encode(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    if (is_null(argc, argv))
        return;
    struct hw_bytes b = bytes_of(argv[0]);
    char *out = sqlite3_malloc64((b.n + 2) / 3 * 4 + 1), *p = out;
    for (size_t i = 0; out && i < b.n; i += 3) {
        size_t left = b.n - i;
        uint32_t v = (uint32_t)b.p[i] << 16 | (left > 1 ? (uint32_t)b.p[i + 1] << 8 : 0) |
                     (left > 2 ? b.p[i + 2] : 0);
        *p++ = base64_letters[v >> 18];
        *p++ = base64_letters[v >> 12 & 63];
        *p++ = left > 1 ? base64_letters[v >> 6 & 63] : '=';
        *p++ = left > 2 ? base64_letters[v & 63] : '=';
    }
    set_text(ctx, out, out ? (size_t)(p - out) : 0);
}

/* NULL for invalid base64. */
static void base64_decode(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    if (is_null(argc, argv))
        return;
    struct hw_bytes b = bytes_of(argv[0]);
    uint32_t held = 0;
    unsigned bits = 0;
    size_t n = 0;
    while (b.n && b.p[b.n - 1] == '=')
        b.n--;
    uint8_t *out = sqlite3_malloc64(b.n + 1);
    for (size_t i = 0; out && i < b.n; i++) {
        const char *letter = b.p[i] ? strchr(base64_letters, b.p[i]) : NULL;
        if (!letter) {
            sqlite3_free(out);
            return;
        }
        held = held << 6 | (uint32_t)(letter - base64_letters);
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            out[n++] = (uint8_t)(held >> bits);
        }
    }
    if (out)
        sqlite3_result_blob64(ctx, out, n, sqlite3_free);
    else
        sqlite3_result_error_nomem(ctx);
}

/* "ff", "0xFF" -> 255; NULL if invalid. */
static void unhex(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    if (is_null(argc, argv))
        return;
    struct hw_bytes b = bytes_of(argv[0]);
    uint64_t n = 0;
    if (b.n > 2 && b.p[0] == '0' && (b.p[1] == 'x' || b.p[1] == 'X'))
        b = hw_bytes_of(b.p + 2, b.n - 2);
    if (b.n == 0 || b.n > 16)
        return;
    for (size_t i = 0; i < b.n; i++) {
        const char *digit = b.p[i] ? strchr(digits, b.p[i]) : NULL;
        if (!digit)
            return;
        n = n << 4 | (uint64_t)((digit - digits) % 16);
    }
    sqlite3_result_int64(ctx, (sqlite3_int64)n);
}

/* A hash of any values, including NULL; depends on their order. */
static void hash(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    uint64_t h = 0x68772d68617368; /* an arbitrary seed */
    for (int i = 0; i < argc; i++) {
        int type = sqlite3_value_type(argv[i]);
        uint64_t v = 0;
        double d;
        struct hw_bytes b;
        if (type == SQLITE_INTEGER) {
            v = (uint64_t)sqlite3_value_int64(argv[i]);
        } else if (type == SQLITE_FLOAT) {
            d = sqlite3_value_double(argv[i]);
            memcpy(&v, &d, sizeof v);
        } else if (type != SQLITE_NULL) {
            b = bytes_of(argv[i]);
            v = hw_hash_bytes(b.p, b.n);
        }
        h = hw_hash_mix(hw_hash_mix(h, (uint64_t)type), v);
    }
    sqlite3_result_int64(ctx, (sqlite3_int64)h);
}

/* ---- times ---- */

/* ns of the trace's clock -> ns since 1970; NULL if the trace has no such clock. */
static void to_realtime(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    const struct hw_sql *s = sqlite3_user_data(ctx);
    int64_t wall;
    if (!is_null(argc, argv) && hw_profile_wall_ns(s->profile, sqlite3_value_int64(argv[0]), &wall))
        sqlite3_result_int64(ctx, wall);
}

/* The same in CLOCK_MONOTONIC. */
static void to_monotonic(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    const struct hw_sql *s = sqlite3_user_data(ctx);
    int64_t monotonic_ns;
    if (!is_null(argc, argv) &&
        hw_profile_monotonic_ns(s->profile, sqlite3_value_int64(argv[0]), &monotonic_ns))
        sqlite3_result_int64(ctx, monotonic_ns);
}

enum { NS_PER_S = 1000000000 };

/* 2023-01-30T09:46:32.123456789 in UTC. */
static void abs_time_str(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    const struct hw_sql *s = sqlite3_user_data(ctx);
    int64_t wall;
    char text[64];
    struct tm tm;
    if (is_null(argc, argv) ||
        !hw_profile_wall_ns(s->profile, sqlite3_value_int64(argv[0]), &wall) || wall < 0)
        return;
    time_t seconds = (time_t)(wall / NS_PER_S);
    if (!gmtime_r(&seconds, &tm) || strftime(text, sizeof text - 12, "%Y-%m-%dT%H:%M:%S", &tm) == 0)
        return;
    size_t n = strlen(text);
    (void)snprintf(text + n, sizeof text - n, ".%09d", (int)(wall % NS_PER_S));
    sqlite3_result_text(ctx, text, -1, SQLITE_TRANSIENT);
}

/* hours:minutes:seconds, then milliseconds, microseconds and nanoseconds as groups. */
static void to_timecode(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    char text[80];
    if (is_null(argc, argv))
        return;
    int64_t ns = sqlite3_value_int64(argv[0]), seconds = ns / NS_PER_S;
    int rest = (int)(ns % NS_PER_S);
    (void)snprintf(text, sizeof text, "%02" PRId64 ":%02d:%02d %03d %03d %03d", seconds / 3600,
                   (int)(seconds / 60 % 60), (int)(seconds % 60), rest / 1000000,
                   rest / 1000 % 1000, rest % 1000);
    sqlite3_result_text(ctx, text, -1, SQLITE_TRANSIENT);
}

int hw_sql_add_value_functions(struct hw_sql *s)
{
    static const struct {
        const char *name;
        int n_args;
        void (*run)(sqlite3_context *, int, sqlite3_value **);
    } functions[] = {
        {"reverse", 1, reverse},
        {"str_split", 3, str_split},
        {"base64_encode", 1, base64_encode},
        {"base64_decode", 1, base64_decode},
        {"unhex", 1, unhex},
        {"hash", -1, hash},
        {"to_realtime", 1, to_realtime},
        {"to_monotonic", 1, to_monotonic},
        {"abs_time_str", 1, abs_time_str},
        {"to_timecode", 1, to_timecode},
    };
    for (size_t i = 0; i < HW_ARRAY_LEN(functions); i++)
        if (sqlite3_create_function_v2(s->db, functions[i].name, functions[i].n_args, PURE, s,
                                       functions[i].run, NULL, NULL, NULL) != SQLITE_OK)
            return HW_ENOMEM;
    return HW_OK;
}

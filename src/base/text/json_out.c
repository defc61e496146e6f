#include "base/text/json_out.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/banned.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/utf8.h"

void hw_json_init(struct hw_json *j, int (*write)(void *ctx, const void *p, size_t n), void *ctx,
                  bool pretty)
{
    *j = (struct hw_json){.write = write, .ctx = ctx, .pretty = pretty};
}

void hw_json_done(struct hw_json *j)
{
    hw_strbuf_done(&j->buf);
}

static void flush(struct hw_json *j)
{
    if (j->buf.failed && !j->error)
        j->error = HW_ENOMEM;
    if (!j->write)
        return;
    if (!j->error && j->buf.n)
        j->error = j->write(j->ctx, j->buf.p, j->buf.n);
    hw_strbuf_clear(&j->buf);
}

static void line_break(struct hw_json *j)
{
    if (!j->pretty)
        return;
    hw_strbuf_addc(&j->buf, '\n');
    for (uint32_t i = 0; i < j->depth; i++)
        hw_strbuf_add(&j->buf, "  ", 2);
}

/* What stands before a member: a comma, a line break; nothing behind a key. */
static void before_value(struct hw_json *j)
{
    if (j->after_key) {
        j->after_key = false;
        return;
    }
    uint64_t level = 1ull << (j->depth & 63u);
    assert(j->depth == 0 || !(j->is_object & level)); /* a member of an object needs a key */
    if (j->depth == 0)
        return;
    if (j->has_members & level)
        hw_strbuf_addc(&j->buf, ',');
    j->has_members |= level;
    line_break(j);
}

static void begin(struct hw_json *j, char c, bool object)
{
    before_value(j);
    hw_strbuf_addc(&j->buf, c);
    j->depth++;
    assert(j->depth < HW_JSON_MAX_DEPTH);
    uint64_t level = 1ull << j->depth;
    j->has_members &= ~level;
    j->is_object = object ? j->is_object | level : j->is_object & ~level;
}

static void end(struct hw_json *j, char c, bool object)
{
    uint64_t level = 1ull << (j->depth & 63u);
    assert(j->depth > 0 && !j->after_key && !!(j->is_object & level) == object);
    (void)object;
    bool had = (j->has_members & level) != 0;
    j->depth--;
    if (had)
        line_break(j);
    hw_strbuf_addc(&j->buf, c);
    if (j->buf.n >= HW_JSON_FLUSH_BYTES)
        flush(j);
}

void hw_json_begin_object(struct hw_json *j)
{
    begin(j, '{', true);
}

void hw_json_end_object(struct hw_json *j)
{
    end(j, '}', true);
}

void hw_json_begin_array(struct hw_json *j)
{
    begin(j, '[', false);
}

void hw_json_end_array(struct hw_json *j)
{
    end(j, ']', false);
}

static void add_char(struct hw_strbuf *b, unsigned char c)
{
    switch (c) {
    case '"':
        hw_strbuf_add(b, "\\\"", 2);
        break;
    case '\\':
        hw_strbuf_add(b, "\\\\", 2);
        break;
    case '\n':
        hw_strbuf_add(b, "\\n", 2);
        break;
    case '\t':
        hw_strbuf_add(b, "\\t", 2);
        break;
    case '\r':
        hw_strbuf_add(b, "\\r", 2);
        break;
    default:
        if (c < 0x20 || c == 0x7f)
            hw_strbuf_addf(b, "\\u%04x", c);
        else
            hw_strbuf_addc(b, (char)c);
    }
}

static void add_quoted(struct hw_strbuf *b, const void *text, size_t n)
{
    const unsigned char *p = text;
    hw_strbuf_addc(b, '"');
    for (size_t i = 0; i < n;) {
        size_t len = hw_utf8_len(p + i, n - i);
        if (len == 1)
            add_char(b, p[i]);
        else if (len)
            hw_strbuf_add(b, p + i, len);
        else
            hw_strbuf_adds(b, "\xef\xbf\xbd");
        i += len ? len : 1;
    }
    hw_strbuf_addc(b, '"');
}

void hw_json_key(struct hw_json *j, const char *key)
{
    hw_json_keyn(j, key, strlen(key));
}

void hw_json_keyn(struct hw_json *j, const void *key, size_t n)
{
    uint64_t level = 1ull << (j->depth & 63u);
    assert(j->depth > 0 && (j->is_object & level) && !j->after_key);
    if (j->has_members & level)
        hw_strbuf_addc(&j->buf, ',');
    j->has_members |= level;
    line_break(j);
    add_quoted(&j->buf, key, n);
    hw_strbuf_adds(&j->buf, j->pretty ? ": " : ":");
    j->after_key = true;
}

void hw_json_strn(struct hw_json *j, const void *p, size_t n)
{
    before_value(j);
    add_quoted(&j->buf, p, n);
}

void hw_json_str(struct hw_json *j, const char *s)
{
    if (s)
        hw_json_strn(j, s, strlen(s));
    else
        hw_json_null(j);
}

void hw_json_int(struct hw_json *j, int64_t v)
{
    before_value(j);
    hw_strbuf_addf(&j->buf, "%lld", (long long)v);
}

void hw_json_uint(struct hw_json *j, uint64_t v)
{
    before_value(j);
    hw_strbuf_addf(&j->buf, "%llu", (unsigned long long)v);
}

void hw_json_double(struct hw_json *j, double v)
{
    if (!isfinite(v)) {
        hw_json_null(j);
        return;
    }
    before_value(j);
    char text[40] = "";
    bool whole = fabs(v) < 0x1p53 && v == floor(v); /* readers of integers refuse exponents */
    if (whole)
        (void)snprintf(text, sizeof text, "%.0f", v);
    for (int digits = 6; !whole && digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, v); /* 17 digits and signs fit */
        if (strtod(text, NULL) == v)
            break;
    }
    hw_strbuf_adds(&j->buf, text);
}

void hw_json_bool(struct hw_json *j, bool v)
{
    before_value(j);
    hw_strbuf_adds(&j->buf, v ? "true" : "false");
}

void hw_json_null(struct hw_json *j)
{
    before_value(j);
    hw_strbuf_adds(&j->buf, "null");
}

int hw_json_finish(struct hw_json *j)
{
    assert(j->depth == 0 && !j->after_key);
    if (j->pretty)
        hw_strbuf_addc(&j->buf, '\n');
    flush(j);
    return j->error;
}

int hw_json_write_fd(void *ctx, const void *p, size_t n)
{
    return hw_fd_write_all(*(const int *)ctx, p, n);
}

void hw_json_kv_str(struct hw_json *j, const char *key, const char *v)
{
    hw_json_key(j, key);
    hw_json_str(j, v);
}

void hw_json_kv_int(struct hw_json *j, const char *key, int64_t v)
{
    hw_json_key(j, key);
    hw_json_int(j, v);
}

void hw_json_kv_uint(struct hw_json *j, const char *key, uint64_t v)
{
    hw_json_key(j, key);
    hw_json_uint(j, v);
}

void hw_json_kv_hex(struct hw_json *j, const char *key, uint64_t v)
{
    char text[17];
    (void)snprintf(text, sizeof text, "%llx", (unsigned long long)v);
    hw_json_kv_str(j, key, text);
}

void hw_json_kv_double(struct hw_json *j, const char *key, double v)
{
    hw_json_key(j, key);
    hw_json_double(j, v);
}

void hw_json_kv_doubles(struct hw_json *j, const char *key, const double *v, size_t n)
{
    hw_json_key(j, key);
    hw_json_begin_array(j);
    for (size_t i = 0; i < n; i++)
        hw_json_double(j, v[i]);
    hw_json_end_array(j);
}

void hw_json_kv_bool(struct hw_json *j, const char *key, bool v)
{
    hw_json_key(j, key);
    hw_json_bool(j, v);
}

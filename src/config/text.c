/*
 * Text form → binary, driven by the schema tables.
 *
 *     message  = { field } ;
 *     field    = key [":"] value [";" | ","] ;
 *     key      = word | "[" word "]" ;
 *     value    = scalar | "{" message "}" | "<" message ">" | "[" value { "," value } "]" ;
 *
 * Open messages stand on a stack of our own, so that input decides no recursion. Each level keeps
 * the fields it has seen (a scalar given twice is an error) and, inside a list of messages, the
 * field that the list belongs to. Skipped messages (lossy) are levels without a schema.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "codec/pb.h"
#include "config/config.h"
#include "schema/schema.h"

#include "base/banned.h"

#define MAX_FIELDS 512u /* of one message, for the "seen" bits */

struct mark { /* where a token begins, for messages */
    size_t offset;
    uint32_t row, col;
    size_t n;
};

struct level {
    const struct hw_schema_message *message; /* NULL: skipped */
    const struct hw_schema_field *list;      /* inside "[" of a list of messages */
    bool in_list;
    char close;
    struct mark open;
    uint64_t seen[MAX_FIELDS / 64];
};

struct parser {
    const char *name;
    const uint8_t *text;
    size_t n, pos;
    uint32_t row, col;
    bool lossy;
    struct hw_pb out;
    struct level levels[HW_PB_MAX_DEPTH];
    unsigned depth; /* index of the innermost level */
    struct hw_error *err;
};

struct token {
    struct mark at;
    struct hw_bytes bytes;
};

/* ---- messages ---- */

/* The part of a long line around the token, with what a terminal could take amiss replaced. */
static void quote_line(const struct parser *p, const struct mark *at, struct hw_strbuf *b)
{
    enum { MAX_SHOWN = 100, BEFORE = 60 };
    size_t start = at->offset, end = at->offset;
    while (start > 0 && p->text[start - 1] != '\n' && at->offset - start < BEFORE)
        start--;
    while (end < p->n && p->text[end] != '\n' && end - start < MAX_SHOWN)
        end++;
    hw_strbuf_addc(b, '\n');
    for (size_t i = start; i < end; i++)
        hw_strbuf_addc(b, p->text[i] < 0x20 && p->text[i] != '\t' ? '?' : (char)p->text[i]);
    hw_strbuf_addc(b, '\n');
    for (size_t i = start; i < at->offset; i++)
        hw_strbuf_addc(b, p->text[i] == '\t' ? '\t' : ' ');
    hw_strbuf_addc(b, '^');
    for (size_t i = 1; i < at->n && at->offset + i < end; i++)
        hw_strbuf_addc(b, '~');
}

static int fail_at(struct parser *p, const struct mark *at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int fail_at(struct parser *p, const struct mark *at, const char *fmt, ...)
{
    char message[256];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(message, sizeof message, fmt, ap); /* cut text is still text */
    va_end(ap);
    struct hw_strbuf where = {0};
    quote_line(p, at, &where);
    int rc = hw_fail(p->err, HW_EINVAL, at->offset, "%s:%u:%u error: %s%s", p->name, at->row,
                     at->col, message, where.failed ? "" : where.p);
    hw_strbuf_done(&where);
    return rc;
}

static struct mark here(const struct parser *p, size_t n)
{
    return (struct mark){p->pos, p->row, p->col, n};
}

/* Nested messages are known by their last name in messages. */
static const char *short_name(const struct hw_schema_message *m)
{
    const char *dot = strrchr(m->name, '.');
    return dot ? dot + 1 : m->name;
}

static const char *type_name(const struct hw_schema_field *f)
{
    static const char *const names[HW_T_COUNT] = {
        [HW_T_BOOL] = "bool",     [HW_T_INT32] = "int32",     [HW_T_INT64] = "int64",
        [HW_T_UINT32] = "uint32", [HW_T_UINT64] = "uint64",   [HW_T_SINT32] = "sint32",
        [HW_T_SINT64] = "sint64", [HW_T_FIXED32] = "fixed32", [HW_T_FIXED64] = "fixed64",
        [HW_T_FLOAT] = "float",   [HW_T_DOUBLE] = "double",   [HW_T_STRING] = "string",
        [HW_T_BYTES] = "bytes",   [HW_T_ENUM] = "enum",       [HW_T_MESSAGE] = "message",
    };
    return f->type < HW_T_COUNT ? names[f->type] : "?";
}

static struct level *top(struct parser *p)
{
    return &p->levels[p->depth];
}

static int wrong_kind(struct parser *p, const struct hw_schema_field *f, const struct token *t)
{
    return fail_at(p, &t->at,
                   "Expected value of type %s for field %s in proto %s instead saw '%.*s'",
                   type_name(f), f->name, short_name(top(p)->message),
                   (int)(t->bytes.n < 60 ? t->bytes.n : 60), (const char *)t->bytes.p);
}

/* ---- tokens ---- */

static bool at_end(const struct parser *p)
{
    return p->pos >= p->n;
}

static char look(const struct parser *p)
{
    return at_end(p) ? '\0' : (char)p->text[p->pos];
}

static void step(struct parser *p)
{
    if (p->text[p->pos++] == '\n') {
        p->row++;
        p->col = 1;
    } else {
        p->col++;
    }
}

static void skip_blank(struct parser *p)
{
    while (!at_end(p)) {
        char c = look(p);
        if (c == '#')
            while (!at_end(p) && look(p) != '\n')
                step(p);
        else if (c == ' ' || (c >= '\t' && c <= '\r'))
            step(p);
        else
            return;
    }
}

static int end_of_input(struct parser *p)
{
    struct mark m = here(p, 1);
    return fail_at(p, &m, "Unexpected end of input");
}

static int stray(struct parser *p)
{
    if (at_end(p))
        return end_of_input(p);
    struct mark m = here(p, 1);
    unsigned char c = p->text[p->pos];
    if (isprint(c))
        return fail_at(p, &m, "Unexpected character '%c'", c);
    return fail_at(p, &m, "Unexpected character '\\x%02x'", c);
}

static bool word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '-' || c == '+';
}

/* A number or identifier; what follows must be able to follow one. */
static int read_word(struct parser *p, struct token *out)
{
    skip_blank(p);
    if (at_end(p) || !word_char(look(p)))
        return stray(p);
    out->at = here(p, 0);
    out->bytes.p = p->text + p->pos;
    while (!at_end(p) && word_char(look(p)))
        step(p);
    out->at.n = out->bytes.n = p->pos - out->at.offset;
    if (!at_end(p) && !strchr(" \t\n\v\f\r;#,}]>{<:[\"'", look(p)))
        return stray(p);
    return HW_OK;
}

/* [full.name]: the brackets belong to the key, as in the schema. */
static int read_key(struct parser *p, struct token *out)
{
    if (look(p) != '[')
        return read_word(p, out);
    struct mark start = here(p, 0);
    step(p);
    struct token inner;
    int rc = read_word(p, &inner);
    if (rc < 0)
        return rc;
    skip_blank(p);
    if (look(p) != ']')
        return stray(p);
    step(p);
    start.n = p->pos - start.offset;
    out->at = start;
    out->bytes = hw_bytes_of(p->text + start.offset, start.n);
    return HW_OK;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Behind "\x": one or two digits. */
static int hex_escape(struct parser *p, const struct mark *at, struct hw_strbuf *b)
{
    int v = hex_digit(look(p));
    if (at_end(p) || v < 0)
        return fail_at(p, at, "Malformed string escape");
    step(p);
    if (!at_end(p) && hex_digit(look(p)) >= 0) {
        v = v * 16 + hex_digit(look(p));
        step(p);
    }
    hw_strbuf_addc(b, (char)v);
    return HW_OK;
}

static int octal_escape(struct parser *p, const struct mark *at, struct hw_strbuf *b)
{
    int v = 0;
    for (int i = 0; i < 3; i++) {
        if (at_end(p) || look(p) < '0' || look(p) > '7')
            return fail_at(p, at, "Malformed string escape");
        v = v * 8 + (look(p) - '0');
        step(p);
    }
    if (v > 0377)
        return fail_at(p, at, "Malformed string escape");
    hw_strbuf_addc(b, (char)v);
    return HW_OK;
}

static int escape(struct parser *p, struct hw_strbuf *b)
{
    static const char from[] = "\\'\"?abfnrtv", to[] = "\\'\"?\a\b\f\n\r\t\v";
    struct mark at = here(p, 2);
    step(p);
    if (at_end(p))
        return end_of_input(p);
    char c = look(p);
    if (c >= '0' && c <= '9')
        return octal_escape(p, &at, b);
    const char *known = c ? strchr(from, c) : NULL;
    if (!known && c != 'x')
        return fail_at(p, &at, "Unknown string escape");
    step(p);
    if (c == 'x')
        return hex_escape(p, &at, b);
    hw_strbuf_addc(b, to[known - from]);
    return HW_OK;
}

/* One or more strings side by side; the bytes go into b, the token covers the first as written. */
static int read_string(struct parser *p, struct hw_strbuf *b, struct token *out)
{
    bool first = true;
    while (look(p) == '"' || look(p) == '\'') {
        char quote = look(p);
        struct mark start = here(p, 1);
        step(p);
        while (!at_end(p) && look(p) != quote) {
            if (look(p) == '\\') {
                int rc = escape(p, b);
                if (rc < 0)
                    return rc;
                continue;
            }
            hw_strbuf_addc(b, look(p));
            step(p);
        }
        if (at_end(p))
            return end_of_input(p);
        step(p);
        if (first) {
            start.n = p->pos - start.offset;
            out->at = start;
            out->bytes = hw_bytes_of(p->text + start.offset, start.n);
        }
        first = false;
        skip_blank(p);
    }
    return b->failed ? hw_fail(p->err, HW_ENOMEM, 0, "string in '%s'", p->name) : HW_OK;
}

/* ---- scalars ---- */

static bool parse_integer(struct hw_bytes t, bool *negative, uint64_t *out)
{
    size_t i = 0;
    uint64_t v = 0;
    *negative = i < t.n && t.p[i] == '-';
    i += *negative;
    unsigned base = 10;
    if (t.n - i > 2 && t.p[i] == '0' && (t.p[i + 1] | 32) == 'x') {
        base = 16;
        i += 2;
    }
    if (i >= t.n)
        return false;
    for (; i < t.n; i++) {
        int d = hex_digit((char)t.p[i]);
        if (d < 0 || (unsigned)d >= base || __builtin_mul_overflow(v, (uint64_t)base, &v) ||
            __builtin_add_overflow(v, (uint64_t)d, &v))
            return false;
    }
    *out = v;
    return true;
}

/* Whether a signed or unsigned field of so many bits can hold the number; gives its varint. */
static bool fits(bool is_signed, unsigned bits, bool negative, uint64_t v, uint64_t *out)
{
    if (!is_signed) {
        *out = v;
        return (!negative || v == 0) && (bits == 64 || v >> bits == 0);
    }
    uint64_t limit = 1ull << (bits - 1);
    *out = negative ? 0 - v : v;
    return negative ? v <= limit : v < limit;
}

static bool parse_double(struct hw_bytes t, double *out)
{
    char copy[64], *end;
    if (t.n == 0 || t.n >= sizeof copy)
        return false;
    memcpy(copy, t.p, t.n);
    copy[t.n] = 0;
    *out = strtod(copy, &end);
    return *end == 0;
}

static uint64_t zigzag(uint64_t v)
{
    return v << 1 ^ (uint64_t)((int64_t)v >> 63);
}

static int put_enum(struct parser *p, const struct hw_schema_field *f, const struct token *t)
{
    const struct hw_schema_value *v = hw_schema_value_by_name(f->enumeration, t->bytes);
    bool negative;
    uint64_t number, varint;
    if (v)
        hw_pb_sint64(&p->out, f->number, v->number);
    else if (parse_integer(t->bytes, &negative, &number) &&
             fits(true, 32, negative, number, &varint))
        hw_pb_sint64(&p->out, f->number, (int64_t)varint);
    else if (!p->lossy)
        return fail_at(p, &t->at, "Unexpected value '%.*s' for enum field %s in proto %s",
                       (int)(t->bytes.n < 60 ? t->bytes.n : 60), (const char *)t->bytes.p, f->name,
                       short_name(top(p)->message));
    return HW_OK;
}

static int put_bool(struct parser *p, const struct hw_schema_field *f, const struct token *t)
{
    bool yes = hw_bytes_equal(t->bytes, hw_bytes_str("true"));
    if (!yes && !hw_bytes_equal(t->bytes, hw_bytes_str("false")))
        return fail_at(p, &t->at,
                       "Expected 'true' or 'false' for boolean field %s in proto %s instead saw "
                       "'%.*s'",
                       f->name, short_name(top(p)->message),
                       (int)(t->bytes.n < 60 ? t->bytes.n : 60), (const char *)t->bytes.p);
    hw_pb_uint(&p->out, f->number, yes);
    return HW_OK;
}

static int put_integer(struct parser *p, const struct hw_schema_field *f, const struct token *t)
{
    bool is_signed = f->type == HW_T_INT32 || f->type == HW_T_INT64 || f->type == HW_T_SINT32 ||
                     f->type == HW_T_SINT64;
    bool is_32 = f->type == HW_T_INT32 || f->type == HW_T_UINT32 || f->type == HW_T_SINT32 ||
                 f->type == HW_T_FIXED32;
    bool negative;
    uint64_t v, varint;
    if (!parse_integer(t->bytes, &negative, &v) ||
        !fits(is_signed, is_32 ? 32 : 64, negative, v, &varint))
        return wrong_kind(p, f, t);
    if (f->type == HW_T_SINT32 || f->type == HW_T_SINT64)
        hw_pb_uint(&p->out, f->number, zigzag(varint));
    else if (f->type == HW_T_FIXED64)
        hw_pb_fixed64(&p->out, f->number, varint);
    else
        hw_pb_uint(&p->out, f->number, varint);
    return HW_OK;
}

/* float and fixed32 fields: no message that we read as text has one, and the codec writes none. */
static int put_float(struct parser *p, const struct hw_schema_field *f, const struct token *t)
{
    double v;
    if (!parse_double(t->bytes, &v))
        return wrong_kind(p, f, t);
    hw_pb_double(&p->out, f->number, v);
    return HW_OK;
}

static int put_scalar(struct parser *p, const struct hw_schema_field *f, const struct token *t)
{
    switch ((enum hw_schema_type)f->type) {
    case HW_T_BOOL:
        return put_bool(p, f, t);
    case HW_T_ENUM:
        return put_enum(p, f, t);
    case HW_T_INT32:
    case HW_T_INT64:
    case HW_T_UINT32:
    case HW_T_UINT64:
    case HW_T_SINT32:
    case HW_T_SINT64:
    case HW_T_FIXED64:
        return put_integer(p, f, t);
    case HW_T_DOUBLE:
        return put_float(p, f, t);
    case HW_T_FIXED32:
    case HW_T_FLOAT:
        return fail_at(p, &t->at, "Field %s in proto %s cannot be given as text", f->name,
                       short_name(top(p)->message));
    case HW_T_STRING:
    case HW_T_BYTES:
    case HW_T_MESSAGE:
    case HW_T_COUNT:
        break;
    }
    return wrong_kind(p, f, t);
}

/* A scalar of field f; f NULL: read and forgotten. */
static int read_scalar(struct parser *p, const struct hw_schema_field *f)
{
    skip_blank(p);
    struct token t;
    if (look(p) == '"' || look(p) == '\'') {
        struct hw_strbuf text = {0};
        int rc = read_string(p, &text, &t);
        if (rc == 0 && f && f->type != HW_T_STRING && f->type != HW_T_BYTES)
            rc = wrong_kind(p, f, &t);
        else if (rc == 0 && f)
            hw_pb_bytes(&p->out, f->number, text.p, text.n);
        hw_strbuf_done(&text);
        return rc;
    }
    int rc = read_word(p, &t);
    return rc < 0 || !f ? rc : put_scalar(p, f, &t);
}

/* ---- messages ---- */

static int open_message(struct parser *p, const struct hw_schema_field *f)
{
    struct mark at = here(p, 1);
    if (p->depth + 1 >= HW_PB_MAX_DEPTH)
        return fail_at(p, &at, "Messages are nested more than %u deep", HW_PB_MAX_DEPTH);
    char close = look(p) == '{' ? '}' : '>';
    step(p);
    if (f)
        hw_pb_begin(&p->out, f->number);
    p->levels[++p->depth] =
        (struct level){.message = f ? f->message : NULL, .close = close, .open = at};
    return HW_OK;
}

static int close_message(struct parser *p)
{
    if (p->depth == 0 || look(p) != top(p)->close) {
        struct mark at = here(p, 1);
        return fail_at(p, &at, "Unmatched closing brace");
    }
    step(p);
    if (top(p)->message)
        hw_pb_end(&p->out);
    p->depth--;
    return HW_OK;
}

/* Fields seen once may not come again, unless they repeat. */
static int check_repeated(struct parser *p, const struct hw_schema_field *f,
                          const struct token *key)
{
    struct level *l = top(p);
    size_t i = (size_t)(f - l->message->fields);
    if (f->repeated || i >= MAX_FIELDS)
        return HW_OK;
    if (l->seen[i / 64] & 1ull << (i % 64))
        return fail_at(p, &key->at, "Saw non-repeating field '%s' more than once", f->name);
    l->seen[i / 64] |= 1ull << (i % 64);
    return HW_OK;
}

static int find_field(struct parser *p, const struct token *key, const struct hw_schema_field **out)
{
    *out = NULL;
    if (!top(p)->message)
        return HW_OK;
    *out = hw_schema_field_by_name(top(p)->message, key->bytes);
    if (*out)
        return check_repeated(p, *out, key);
    if (p->lossy)
        return HW_OK;
    return fail_at(p, &key->at, "No field named \"%.*s\" in proto %s",
                   (int)(key->bytes.n < 100 ? key->bytes.n : 100), (const char *)key->bytes.p,
                   short_name(top(p)->message));
}

static void skip_separator(struct parser *p)
{
    skip_blank(p);
    if (look(p) == ';' || look(p) == ',')
        step(p);
}

static bool opens_message(char c)
{
    return c == '{' || c == '<';
}

/* Behind "[" or ",": scalars are read to the end here, messages one at a time. */
static int list_member(struct parser *p)
{
    struct level *l = top(p);
    skip_blank(p);
    if (look(p) == ']') {
        step(p);
        l->in_list = false;
        skip_separator(p);
        return HW_OK;
    }
    if (look(p) == ',') {
        step(p);
        return HW_OK;
    }
    if (at_end(p))
        return end_of_input(p);
    if (opens_message(look(p)) && (!l->list || l->list->type == HW_T_MESSAGE))
        return open_message(p, l->list);
    return read_scalar(p, l->list);
}

static int read_field(struct parser *p)
{
    struct token key;
    const struct hw_schema_field *f = NULL;
    int rc = read_key(p, &key);
    if (rc == 0)
        rc = find_field(p, &key, &f);
    if (rc < 0)
        return rc;
    skip_blank(p);
    if (look(p) == ':')
        step(p);
    skip_blank(p);
    if (at_end(p))
        return end_of_input(p);
    struct token brace = {here(p, 1), {p->text + p->pos, 1}};
    if (look(p) == '[') {
        if (f && !f->repeated)
            return wrong_kind(p, f, &brace);
        step(p);
        top(p)->list = f;
        top(p)->in_list = true;
        return HW_OK;
    }
    if (opens_message(look(p)))
        return f && f->type != HW_T_MESSAGE ? wrong_kind(p, f, &brace) : open_message(p, f);
    rc = read_scalar(p, f);
    if (rc == 0)
        skip_separator(p);
    return rc;
}

static int parse(struct parser *p)
{
    for (;;) {
        skip_blank(p);
        int rc;
        if (top(p)->in_list)
            rc = list_member(p);
        else if (at_end(p))
            break;
        else if (look(p) == '}' || look(p) == '>') {
            rc = close_message(p);
            if (rc == 0 && !top(p)->in_list)
                skip_separator(p);
        } else
            rc = read_field(p);
        if (rc < 0)
            return rc;
    }
    if (p->depth > 0)
        return fail_at(p, &top(p)->open, "Nested message not closed");
    return HW_OK;
}

int hw_config_text_to_binary(const char *name, struct hw_bytes text, bool lossy,
                             struct hw_strbuf *out, struct hw_error *err)
{
    return hw_text_to_message("TraceConfig", name, text, lossy, out, err);
}

int hw_text_to_message(const char *message, const char *name, struct hw_bytes text, bool lossy,
                       struct hw_strbuf *out, struct hw_error *err)
{
    const struct hw_schema_message *root = hw_schema_message_find(message);
    if (!root)
        return hw_fail(err, HW_ENOTFOUND, 0, "no %s in the schema", message);
    struct parser *p = calloc(1, sizeof *p);
    if (!p)
        return hw_fail(err, HW_ENOMEM, 0, "parser of '%s'", name);
    p->name = name;
    p->text = text.p;
    p->n = text.n;
    p->row = p->col = 1;
    p->lossy = lossy;
    p->err = err;
    p->levels[0].message = root;
    int rc = parse(p);
    if (rc == 0 && hw_pb_failed(&p->out))
        rc = hw_fail(err, HW_ENOMEM, 0, "'%s'", name);
    if (rc == 0)
        hw_strbuf_add(out, p->out.buf.p, p->out.buf.n);
    if (rc == 0 && out->failed)
        rc = hw_fail(err, HW_ENOMEM, 0, "'%s'", name);
    hw_pb_done(&p->out);
    free(p);
    return rc;
}

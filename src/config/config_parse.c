/*
 * Text form → binary, driven by the schema tables.
 *
 *     message  = { field } ;
 *     field    = key [":"] value [";" | ","] ;
 *     key      = word | "[" word "]" ;
 *     value    = scalar | "{" message "}" | "<" message ">" | "[" value { "," value } "]" ;
 *
 * Open messages are kept on an explicit stack, so input cannot make us recurse. Each level
 * remembers the fields it has seen (a scalar given twice is an error) and, inside a list of
 * messages, the field the list belongs to. Skipped messages (lossy) are levels without a schema.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text/hex.h"
#include "codec/pb.h"
#include "config/config.h"
#include "config/lexer.h"
#include "schema/schema.h"

#include "base/banned.h"

#define MAX_FIELDS 512u /* of one message, for the "seen" bits */

struct level {
    const struct hw_schema_message *message; /* NULL: skipped */
    const struct hw_schema_field *list;      /* inside "[" of a list of messages */
    bool in_list;
    char close;
    struct hw_mark open;
    uint64_t seen[MAX_FIELDS / 64];
};

struct parser {
    struct hw_lexer in;
    bool lossy;
    struct hw_pb out;
    struct level levels[HW_PB_MAX_DEPTH];
    unsigned depth; /* index of the innermost level */
};

/* ---- messages ---- */

/* Error messages name a nested message by its last component. */
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

static int wrong_kind(struct parser *p, const struct hw_schema_field *f, const struct hw_token *t)
{
    return hw_lex_fail(&p->in, &t->at,
                       "Expected value of type %s for field %s in proto %s instead saw '%.*s'",
                       type_name(f), f->name, short_name(top(p)->message),
                       (int)(t->bytes.n < 60 ? t->bytes.n : 60), (const char *)t->bytes.p);
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
        int d = hw_hex_digit((char)t.p[i]);
        if (d < 0 || (unsigned)d >= base || __builtin_mul_overflow(v, (uint64_t)base, &v) ||
            __builtin_add_overflow(v, (uint64_t)d, &v))
            return false;
    }
    *out = v;
    return true;
}

/* Whether a signed or unsigned field of that many bits can hold the number; sets its varint. */
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

static int put_enum(struct parser *p, const struct hw_schema_field *f, const struct hw_token *t)
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
        return hw_lex_fail(&p->in, &t->at, "Unexpected value '%.*s' for enum field %s in proto %s",
                           (int)(t->bytes.n < 60 ? t->bytes.n : 60), (const char *)t->bytes.p,
                           f->name, short_name(top(p)->message));
    return HW_OK;
}

static int put_bool(struct parser *p, const struct hw_schema_field *f, const struct hw_token *t)
{
    bool yes = hw_bytes_equal(t->bytes, hw_bytes_str("true"));
    if (!yes && !hw_bytes_equal(t->bytes, hw_bytes_str("false")))
        return hw_lex_fail(
            &p->in, &t->at,
            "Expected 'true' or 'false' for boolean field %s in proto %s instead saw "
            "'%.*s'",
            f->name, short_name(top(p)->message), (int)(t->bytes.n < 60 ? t->bytes.n : 60),
            (const char *)t->bytes.p);
    hw_pb_uint(&p->out, f->number, yes);
    return HW_OK;
}

static int put_integer(struct parser *p, const struct hw_schema_field *f, const struct hw_token *t)
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

/*
 * float and fixed32 fields: no message that we read as text has any, and the codec cannot write
 * them.
 */
static int put_float(struct parser *p, const struct hw_schema_field *f, const struct hw_token *t)
{
    double v;
    if (!parse_double(t->bytes, &v))
        return wrong_kind(p, f, t);
    hw_pb_double(&p->out, f->number, v);
    return HW_OK;
}

static int put_scalar(struct parser *p, const struct hw_schema_field *f, const struct hw_token *t)
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
        return hw_lex_fail(&p->in, &t->at, "Field %s in proto %s cannot be given as text", f->name,
                           short_name(top(p)->message));
    case HW_T_STRING:
    case HW_T_BYTES:
    case HW_T_MESSAGE:
    case HW_T_COUNT:
        break;
    }
    return wrong_kind(p, f, t);
}

/* A scalar of field f; f NULL: read and discarded. */
static int read_scalar(struct parser *p, const struct hw_schema_field *f)
{
    hw_lex_skip_blank(&p->in);
    struct hw_token t;
    if (hw_lex_look(&p->in) == '"' || hw_lex_look(&p->in) == '\'') {
        struct hw_strbuf text = {0};
        int rc = hw_lex_string(&p->in, &text, &t);
        if (rc == 0 && f && f->type != HW_T_STRING && f->type != HW_T_BYTES)
            rc = wrong_kind(p, f, &t);
        else if (rc == 0 && f)
            hw_pb_bytes(&p->out, f->number, text.p, text.n);
        hw_strbuf_done(&text);
        return rc;
    }
    int rc = hw_lex_word(&p->in, &t);
    return rc < 0 || !f ? rc : put_scalar(p, f, &t);
}

/* ---- messages ---- */

static int open_message(struct parser *p, const struct hw_schema_field *f)
{
    struct hw_mark at = hw_lex_here(&p->in, 1);
    if (p->depth + 1 >= HW_PB_MAX_DEPTH)
        return hw_lex_fail(&p->in, &at, "Messages are nested more than %u deep", HW_PB_MAX_DEPTH);
    char close = hw_lex_look(&p->in) == '{' ? '}' : '>';
    hw_lex_step(&p->in);
    if (f)
        hw_pb_begin(&p->out, f->number);
    p->levels[++p->depth] =
        (struct level){.message = f ? f->message : NULL, .close = close, .open = at};
    return HW_OK;
}

static int close_message(struct parser *p)
{
    if (p->depth == 0 || hw_lex_look(&p->in) != top(p)->close) {
        struct hw_mark at = hw_lex_here(&p->in, 1);
        return hw_lex_fail(&p->in, &at, "Unmatched closing brace");
    }
    hw_lex_step(&p->in);
    if (top(p)->message)
        hw_pb_end(&p->out);
    p->depth--;
    return HW_OK;
}

/* Only repeated fields may occur twice. */
static int check_repeated(struct parser *p, const struct hw_schema_field *f,
                          const struct hw_token *key)
{
    struct level *l = top(p);
    size_t i = (size_t)(f - l->message->fields);
    if (f->repeated || i >= MAX_FIELDS)
        return HW_OK;
    if (l->seen[i / 64] & 1ull << (i % 64))
        return hw_lex_fail(&p->in, &key->at, "Saw non-repeating field '%s' more than once",
                           f->name);
    l->seen[i / 64] |= 1ull << (i % 64);
    return HW_OK;
}

static int find_field(struct parser *p, const struct hw_token *key,
                      const struct hw_schema_field **out)
{
    *out = NULL;
    if (!top(p)->message)
        return HW_OK;
    *out = hw_schema_field_by_name(top(p)->message, key->bytes);
    if (*out)
        return check_repeated(p, *out, key);
    if (p->lossy)
        return HW_OK;
    return hw_lex_fail(&p->in, &key->at, "No field named \"%.*s\" in proto %s",
                       (int)(key->bytes.n < 100 ? key->bytes.n : 100), (const char *)key->bytes.p,
                       short_name(top(p)->message));
}

static void skip_separator(struct parser *p)
{
    hw_lex_skip_blank(&p->in);
    if (hw_lex_look(&p->in) == ';' || hw_lex_look(&p->in) == ',')
        hw_lex_step(&p->in);
}

static bool opens_message(char c)
{
    return c == '{' || c == '<';
}

/* After "[" or ",": scalars are all read here, messages one at a time. */
static int list_member(struct parser *p)
{
    struct level *l = top(p);
    hw_lex_skip_blank(&p->in);
    if (hw_lex_look(&p->in) == ']') {
        hw_lex_step(&p->in);
        l->in_list = false;
        skip_separator(p);
        return HW_OK;
    }
    if (hw_lex_look(&p->in) == ',') {
        hw_lex_step(&p->in);
        return HW_OK;
    }
    if (hw_lex_at_end(&p->in))
        return hw_lex_end_of_input(&p->in);
    if (opens_message(hw_lex_look(&p->in)) && (!l->list || l->list->type == HW_T_MESSAGE))
        return open_message(p, l->list);
    return read_scalar(p, l->list);
}

static int read_field(struct parser *p)
{
    struct hw_token key;
    const struct hw_schema_field *f = NULL;
    int rc = hw_lex_key(&p->in, &key);
    if (rc == 0)
        rc = find_field(p, &key, &f);
    if (rc < 0)
        return rc;
    hw_lex_skip_blank(&p->in);
    if (hw_lex_look(&p->in) == ':')
        hw_lex_step(&p->in);
    hw_lex_skip_blank(&p->in);
    if (hw_lex_at_end(&p->in))
        return hw_lex_end_of_input(&p->in);
    struct hw_token brace = {hw_lex_here(&p->in, 1), {p->in.text + p->in.pos, 1}};
    if (hw_lex_look(&p->in) == '[') {
        if (f && !f->repeated)
            return wrong_kind(p, f, &brace);
        hw_lex_step(&p->in);
        top(p)->list = f;
        top(p)->in_list = true;
        return HW_OK;
    }
    if (opens_message(hw_lex_look(&p->in)))
        return f && f->type != HW_T_MESSAGE ? wrong_kind(p, f, &brace) : open_message(p, f);
    rc = read_scalar(p, f);
    if (rc == 0)
        skip_separator(p);
    return rc;
}

static int parse(struct parser *p)
{
    for (;;) {
        hw_lex_skip_blank(&p->in);
        int rc;
        if (top(p)->in_list)
            rc = list_member(p);
        else if (hw_lex_at_end(&p->in))
            break;
        else if (hw_lex_look(&p->in) == '}' || hw_lex_look(&p->in) == '>') {
            rc = close_message(p);
            if (rc == 0 && !top(p)->in_list)
                skip_separator(p);
        } else
            rc = read_field(p);
        if (rc < 0)
            return rc;
    }
    if (p->depth > 0)
        return hw_lex_fail(&p->in, &top(p)->open, "Nested message not closed");
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
    p->in = (struct hw_lexer){
        .name = name, .text = text.p, .n = text.n, .row = 1, .col = 1, .err = err};
    p->lossy = lossy;
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

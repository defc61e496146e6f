/*
 * Strings and numbers take most of the time, so each has one tight loop; containers are one bit per
 * level in a stack of fixed size, as nothing may recurse on the depth of the input.
 *
 * What jansson rejects is rejected here, too: raw control characters, bytes that are not UTF-8,
 * unpaired surrogates, NUL in a member's name (it keeps names as C strings), numbers beyond an
 * int64_t or a double. A test makes both read the same texts. Only numbers of more than 511
 * characters are rejected here alone.
 */
#include "codec/json_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text/hex.h"
#include "base/text/strbuf.h"
#include "base/text/utf8.h"

#include "base/banned.h"

enum { MAX_DEPTH = 2048, MAX_NOTED = 16, MAX_INTEGER_DIGITS = 18, MAX_REAL = 512 };

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

static const uint8_t *skip_space(const uint8_t *p, const uint8_t *end)
{
    while (p < end && is_space(*p))
        p++;
    return p;
}

/* ---- strings ---- */

/* The four hexadecimal digits at p; -1 if there are fewer. */
static int32_t hex4(const uint8_t *p, const uint8_t *end)
{
    int32_t v = 0;
    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int d = hw_hex_digit((char)p[i]);
        if (d < 0)
            return -1;
        v = v << 4 | d;
    }
    return v;
}

/* Decodes an escape after its backslash: returns its length, 0 if it is invalid. */
static size_t escape(const uint8_t *p, const uint8_t *end, uint32_t *code)
{
    static const char letters[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    if (p == end)
        return 0;
    const char *at = *p ? strchr(letters, *p) : NULL;
    if (at) {
        *code = (uint8_t)means[at - letters];
        return 1;
    }
    if (*p != 'u')
        return 0;
    int32_t high = hex4(p + 1, end);
    if (high < 0 || (high >= 0xdc00 && high <= 0xdfff))
        return 0;
    *code = (uint32_t)high;
    if (high < 0xd800 || high > 0xdbff)
        return 5;
    if (end - p < 7 || p[5] != '\\' || p[6] != 'u')
        return 0;
    int32_t low = hex4(p + 7, end);
    if (low < 0xdc00 || low > 0xdfff)
        return 0;
    *code = 0x10000 + ((uint32_t)(high & 0x3ff) << 10 | (uint32_t)(low & 0x3ff));
    return 11;
}

/* The end of the string whose first byte (after the quote) is p; NULL if it is invalid. */
static const uint8_t *check_string(const uint8_t *p, const uint8_t *end, bool *has_nul)
{
    *has_nul = false;
    while (p < end) {
        uint8_t c = *p;
        if (c == '"')
            return p + 1;
        if (c < 0x20)
            return NULL;
        if (c == '\\') {
            uint32_t code = 1;
            size_t n = escape(p + 1, end, &code);
            if (n == 0)
                return NULL;
            *has_nul |= code == 0;
            p += 1 + n;
        } else if (c < 0x80) {
            p++;
        } else {
            size_t n = hw_utf8_len(p, (size_t)(end - p));
            if (n == 0)
                return NULL;
            p += n;
        }
    }
    return NULL;
}

/* The same for a checked string. */
static const uint8_t *skip_string(const uint8_t *p, const uint8_t *end)
{
    while (p < end && *p != '"')
        p += *p == '\\' ? 2 : 1;
    return p < end ? p + 1 : end;
}

static struct hw_bytes decode(struct hw_bytes raw, struct hw_strbuf *scratch)
{
    const uint8_t *p = raw.p, *end = hw_bytes_end(raw);
    hw_strbuf_clear(scratch);
    while (p < end) {
        const uint8_t *back = memchr(p, '\\', (size_t)(end - p));
        uint32_t code = 0;
        hw_strbuf_add(scratch, p, (size_t)((back ? back : end) - p));
        if (!back)
            break;
        size_t n = escape(back + 1, end, &code);
        hw_utf8_add_code(scratch, code);
        p = back + 1 + n;
    }
    return hw_bytes_of(scratch->p, scratch->n);
}

struct hw_bytes hw_json_value_string(const struct hw_json_value *v, struct hw_strbuf *scratch)
{
    if (v->type != HW_JSON_STRING)
        return hw_bytes_of("", 0);
    if (v->text.n == 0 || !memchr(v->text.p, '\\', v->text.n))
        return v->text;
    return decode(v->text, scratch);
}

/* Names are short, so they are decoded while comparing. */
static bool is_name(struct hw_bytes raw, const char *name)
{
    const uint8_t *p = raw.p, *end = hw_bytes_end(raw);
    size_t n = strlen(name);
    if (raw.n == 0 || !memchr(p, '\\', raw.n))
        return raw.n == n && memcmp(p, name, n) == 0;
    for (; p < end && *name; name++) {
        uint32_t code = *p;
        p += *p == '\\' ? 1 + escape(p + 1, end, &code) : 1;
        if (code != (uint8_t)*name)
            return false;
    }
    return p == end && !*name;
}

/* ---- numbers ---- */

/* Parsed by the C library; longer numbers are not worth a larger buffer. */
static double real_of(const uint8_t *p, size_t n)
{
    char text[MAX_REAL];
    size_t kept = n < sizeof text ? n : sizeof text - 1;
    memcpy(text, p, kept);
    text[kept] = 0;
    return strtod(text, NULL);
}

static bool fits_integer(const uint8_t *p, size_t n)
{
    bool minus = *p == '-';
    uint64_t v = 0, limit = (uint64_t)INT64_MAX + minus;
    for (size_t i = minus; i < n; i++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, p[i] - '0', &v) ||
            v > limit)
            return false;
    return true;
}

/* The end of the number at p; NULL if it is not a number, or too large. */
static const uint8_t *check_number(const uint8_t *p, const uint8_t *end)
{
    const uint8_t *from = p;
    bool real = false;
    p += *p == '-';
    if (p == end || !is_digit(*p))
        return NULL;
    if (*p++ != '0')
        while (p < end && is_digit(*p))
            p++;
    if (p - from <= MAX_INTEGER_DIGITS && (p == end || (*p != '.' && (*p | 0x20) != 'e')))
        return p;
    if (p < end && *p == '.') {
        real = true;
        if (++p == end || !is_digit(*p))
            return NULL;
        while (p < end && is_digit(*p))
            p++;
    }
    if (p < end && (*p | 0x20) == 'e') {
        real = true;
        p++;
        p += p < end && (*p == '+' || *p == '-');
        if (p == end || !is_digit(*p))
            return NULL;
        while (p < end && is_digit(*p))
            p++;
    }
    size_t n = (size_t)(p - from);
    if (real)
        return n < MAX_REAL && isfinite(real_of(from, n)) ? p : NULL;
    return fits_integer(from, n) ? p : NULL;
}

/* ---- cursors ---- */

static const uint8_t *skip_container(const uint8_t *p, const uint8_t *end)
{
    size_t depth = 0;
    while (p < end) {
        uint8_t c = *p++;
        if (c == '"')
            p = skip_string(p, end);
        else if (c == '{' || c == '[')
            depth++;
        else if ((c == '}' || c == ']') && --depth == 0)
            return p;
    }
    return end;
}

static const uint8_t *read_number(const uint8_t *p, const uint8_t *end, struct hw_json_value *out)
{
    const uint8_t *from = p;
    bool minus = *p == '-';
    uint64_t v = 0;
    p += minus;
    while (p < end && is_digit(*p))
        v = v * 10 + (uint64_t)(*p++ - '0');
    out->type = HW_JSON_INTEGER;
    out->integer = (int64_t)(minus ? 0 - v : v);
    while (p < end && (*p == '.' || *p == 'e' || *p == 'E' || *p == '+' || *p == '-')) {
        out->type = HW_JSON_REAL;
        for (p++; p < end && is_digit(*p);)
            p++;
    }
    out->text = hw_bytes_of(from, (size_t)(p - from));
    return p;
}

static const uint8_t *read_value(const uint8_t *p, const uint8_t *end, struct hw_json_value *out)
{
    const uint8_t *from = p;
    size_t n;
    switch (*p) {
    case '"':
        p = skip_string(p + 1, end);
        out->type = HW_JSON_STRING;
        out->text = hw_bytes_of(from + 1, (size_t)(p - from) - 2);
        return p;
    case '{':
    case '[':
        p = skip_container(p, end);
        out->type = *from == '{' ? HW_JSON_OBJECT : HW_JSON_LIST;
        break;
    case 't':
    case 'f':
    case 'n':
        n = *p == 'f' ? 5 : 4;
        out->type = *p == 't' ? HW_JSON_TRUE : *p == 'f' ? HW_JSON_FALSE : HW_JSON_NULL;
        p += n < (size_t)(end - p) ? n : (size_t)(end - p);
        break;
    default:
        return read_number(p, end, out);
    }
    out->text = hw_bytes_of(from, (size_t)(p - from));
    return p;
}

static bool is_scalar_begin(uint8_t c)
{
    return c == '"' || c == '{' || c == '[' || c == '-' || is_digit(c) || c == 't' || c == 'f' ||
           c == 'n';
}

struct hw_json_cursor hw_json_enter(const struct hw_json_value *v)
{
    if (v->type != HW_JSON_OBJECT && v->type != HW_JSON_LIST)
        return (struct hw_json_cursor){0};
    return (struct hw_json_cursor){v->text.p + 1, hw_bytes_end(v->text)};
}

/* Skips spaces, commas and colons to the next value or name. */
static bool advance(struct hw_json_cursor *c)
{
    while (c->p < c->end && (is_space(*c->p) || *c->p == ',' || *c->p == ':'))
        c->p++;
    return c->p < c->end && is_scalar_begin(*c->p);
}

bool hw_json_next(struct hw_json_cursor *c, struct hw_json_value *out)
{
    if (!advance(c))
        return false;
    c->p = read_value(c->p, c->end, out);
    return true;
}

bool hw_json_next_member(struct hw_json_cursor *c, struct hw_bytes *name, struct hw_json_value *out)
{
    struct hw_json_value key;
    if (!hw_json_next(c, &key) || !hw_json_next(c, out))
        return false;
    *name = key.text;
    return true;
}

void hw_json_members(const struct hw_json_value *object, const char *const *names, size_t n,
                     struct hw_json_value *out)
{
    struct hw_json_value v;
    struct hw_bytes key;
    for (size_t i = 0; i < n; i++)
        out[i] = (struct hw_json_value){0};
    if (object->type != HW_JSON_OBJECT)
        return;
    struct hw_json_cursor c = hw_json_enter(object);
    while (hw_json_next_member(&c, &key, &v))
        for (size_t i = 0; i < n; i++)
            if (is_name(key, names[i]))
                out[i] = v;
}

double hw_json_value_real(const struct hw_json_value *v)
{
    if (v->type == HW_JSON_INTEGER)
        return (double)v->integer;
    return v->type == HW_JSON_REAL ? real_of(v->text.p, v->text.n) : 0;
}

/* ---- the check ---- */

struct check {
    struct hw_json_text *t;
    const uint8_t *p, *end;
    unsigned depth, max_noted;
    uint64_t is_object[MAX_DEPTH / 64];
    uint32_t owner[MAX_NOTED + 1]; /* by level: note of its object */
    uint32_t last[MAX_NOTED + 1];  /* by level: note of the last member */
    unsigned n_noted;              /* levels, from the outermost on, that are noted */
    uint32_t note;                 /* of the member whose value comes next; 0 = none */
};

static bool in_object(const struct check *k)
{
    return k->depth && (k->is_object[(k->depth - 1) / 64] >> ((k->depth - 1) % 64) & 1);
}

static int open_container(struct check *k, bool object)
{
    unsigned at = k->depth;
    if (at >= MAX_DEPTH)
        return HW_ELIMIT;
    uint64_t bit = 1ull << (at % 64);
    k->is_object[at / 64] = object ? k->is_object[at / 64] | bit : k->is_object[at / 64] & ~bit;
    /* Members are noted only if all objects around this one are noted, too. */
    if (object && k->n_noted == at && at < k->max_noted && (at == 0 || k->note)) {
        k->owner[at] = k->note;
        k->last[at] = 0;
        k->n_noted = at + 1;
    }
    k->note = 0;
    k->depth++;
    return HW_OK;
}

static uint32_t offset(const struct check *k)
{
    return (uint32_t)(k->p - k->t->text.p);
}

/* Reads a member's name and its colon. */
static int read_name(struct check *k)
{
    bool has_nul;
    k->p = skip_space(k->p, k->end);
    if (k->p == k->end || *k->p != '"')
        return HW_EFORMAT;
    struct hw_json_note note = {.name_at = offset(k) + 1};
    const uint8_t *after = check_string(k->p + 1, k->end, &has_nul);
    if (!after || has_nul)
        return HW_EFORMAT;
    k->p = after;
    note.name_n = offset(k) - note.name_at - 1;
    k->p = skip_space(k->p, k->end);
    if (k->p == k->end || *k->p != ':')
        return HW_EFORMAT;
    k->p++;
    k->note = 0;
    unsigned level = k->depth - 1;
    if (k->n_noted != k->depth)
        return HW_OK;
    if (hw_vec_push(&k->t->notes, note) < 0)
        return HW_ENOMEM;
    uint32_t index = (uint32_t)k->t->notes.n - 1;
    if (k->last[level])
        k->t->notes.v[k->last[level]].next = index;
    else
        k->t->notes.v[k->owner[level]].first = index;
    k->last[level] = k->note = index;
    return HW_OK;
}

static int check_scalar(struct check *k)
{
    static const struct {
        const char *word;
        size_t n;
    } words[] = {{"true", 4}, {"false", 5}, {"null", 4}};
    const uint8_t *after = NULL;
    bool has_nul;
    if (*k->p == '"')
        after = check_string(k->p + 1, k->end, &has_nul);
    else if (*k->p == '-' || is_digit(*k->p))
        after = check_number(k->p, k->end);
    for (size_t i = 0; !after && i < HW_ARRAY_LEN(words); i++)
        if ((size_t)(k->end - k->p) >= words[i].n && memcmp(k->p, words[i].word, words[i].n) == 0)
            after = k->p + words[i].n;
    if (!after)
        return HW_EFORMAT;
    k->p = after;
    return HW_OK;
}

static void note_end(struct check *k, uint32_t note)
{
    if (note)
        k->t->notes.v[note].n = offset(k) - k->t->notes.v[note].at;
}

/* Reads a value, or the start of one: 1 = complete, 0 = its contents follow. */
static int begin_value(struct check *k)
{
    k->p = skip_space(k->p, k->end);
    if (k->p == k->end)
        return HW_EFORMAT;
    uint8_t c = *k->p;
    uint32_t note = k->note;
    if (note)
        k->t->notes.v[note].at = offset(k);
    if (c != '{' && c != '[') {
        int rc = k->depth == 0 ? HW_EFORMAT : k->depth >= MAX_DEPTH ? HW_ELIMIT : check_scalar(k);
        note_end(k, rc < 0 ? 0 : note);
        k->note = 0;
        return rc < 0 ? rc : 1;
    }
    int rc = open_container(k, c == '{');
    if (rc < 0)
        return rc;
    k->p = skip_space(k->p + 1, k->end);
    if (k->p < k->end && *k->p == (c == '{' ? '}' : ']'))
        return 1; /* it is empty: end_value() closes it */
    return c == '{' ? read_name(k) : HW_OK;
}

/* After a value: closes containers, up to the next value. 1 = the text is complete. */
static int end_value(struct check *k)
{
    while (k->depth) {
        bool object = in_object(k);
        k->p = skip_space(k->p, k->end);
        if (k->p == k->end)
            return HW_EFORMAT;
        if (*k->p == ',') {
            k->p++;
            return object ? read_name(k) : HW_OK;
        }
        if (*k->p != (object ? '}' : ']'))
            return HW_EFORMAT;
        k->p++;
        k->depth--;
        if (k->n_noted > k->depth) {
            uint32_t owner = k->owner[k->depth];
            k->n_noted = k->depth;
            note_end(k, owner);
        } else if (k->n_noted == k->depth && k->depth) {
            note_end(k, k->last[k->depth - 1]); /* a list, or an object too deep to be noted */
        }
    }
    return 1;
}

int hw_json_text_read(struct hw_json_text *t, struct hw_bytes text, unsigned max_depth)
{
    struct check k = {.t = t, .p = text.p, .end = hw_bytes_end(text)};
    int rc = HW_OK;
    t->text = text;
    hw_vec_clear(&t->notes);
    k.max_noted = max_depth < MAX_NOTED ? max_depth : MAX_NOTED;
    if (text.n == 0)
        return HW_EFORMAT;
    if (text.n >= UINT32_MAX)
        return HW_ELIMIT;
    if (hw_vec_push(&t->notes, (struct hw_json_note){0}) < 0)
        return HW_ENOMEM;
    while (rc == HW_OK) {
        rc = begin_value(&k);
        if (rc == 1)
            rc = end_value(&k);
    }
    if (rc < 0)
        return rc;
    const uint8_t *first = skip_space(text.p, k.end);
    t->notes.v[0].at = (uint32_t)(first - text.p);
    t->notes.v[0].n = (uint32_t)(k.p - first);
    return skip_space(k.p, k.end) == k.end ? HW_OK : HW_EFORMAT;
}

void hw_json_text_done(struct hw_json_text *t)
{
    hw_vec_done(&t->notes);
}

uint32_t hw_json_text_find(const struct hw_json_text *t, uint32_t object, const char *name)
{
    uint32_t found = 0;
    for (uint32_t i = t->notes.v[object].first; i; i = t->notes.v[i].next)
        if (is_name(hw_json_text_name(t, i), name))
            found = i;
    return found;
}

struct hw_json_value hw_json_text_get(const struct hw_json_text *t, uint32_t note)
{
    struct hw_json_value v = {0};
    const struct hw_json_note *x = &t->notes.v[note];
    const uint8_t *p = t->text.p + x->at;
    if (*p == '{' || *p == '[')
        return (struct hw_json_value){.type = *p == '{' ? HW_JSON_OBJECT : HW_JSON_LIST,
                                      .text = hw_bytes_of(p, x->n)};
    (void)read_value(p, p + x->n, &v);
    return v;
}

struct hw_bytes hw_json_text_name(const struct hw_json_text *t, uint32_t note)
{
    const struct hw_json_note *x = &t->notes.v[note];
    return hw_bytes_of(t->text.p + x->name_at, x->name_n);
}

#include "config/lexer.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text/hex.h"
#include "base/text/strbuf.h"

#include "base/banned.h"

/* The part of a long line around the token, with control bytes replaced. */
static void quote_line(const struct hw_lexer *p, const struct hw_mark *at, struct hw_strbuf *b)
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

int hw_lex_fail(struct hw_lexer *p, const struct hw_mark *at, const char *fmt, ...)
{
    char message[256];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(message, sizeof message, fmt, ap); /* truncated text will do */
    va_end(ap);
    struct hw_strbuf where = {0};
    quote_line(p, at, &where);
    int rc = hw_fail(p->err, HW_EINVAL, at->offset, "%s:%u:%u error: %s%s", p->name, at->row,
                     at->col, message, where.failed ? "" : where.p);
    hw_strbuf_done(&where);
    return rc;
}

struct hw_mark hw_lex_here(const struct hw_lexer *p, size_t n)
{
    return (struct hw_mark){p->pos, p->row, p->col, n};
}

bool hw_lex_at_end(const struct hw_lexer *p)
{
    return p->pos >= p->n;
}

char hw_lex_look(const struct hw_lexer *p)
{
    return hw_lex_at_end(p) ? '\0' : (char)p->text[p->pos];
}

void hw_lex_step(struct hw_lexer *p)
{
    if (p->text[p->pos++] == '\n') {
        p->row++;
        p->col = 1;
    } else {
        p->col++;
    }
}

void hw_lex_skip_blank(struct hw_lexer *p)
{
    while (!hw_lex_at_end(p)) {
        char c = hw_lex_look(p);
        if (c == '#')
            while (!hw_lex_at_end(p) && hw_lex_look(p) != '\n')
                hw_lex_step(p);
        else if (c == ' ' || (c >= '\t' && c <= '\r'))
            hw_lex_step(p);
        else
            return;
    }
}

int hw_lex_end_of_input(struct hw_lexer *p)
{
    struct hw_mark m = hw_lex_here(p, 1);
    return hw_lex_fail(p, &m, "Unexpected end of input");
}

static int stray(struct hw_lexer *p)
{
    if (hw_lex_at_end(p))
        return hw_lex_end_of_input(p);
    struct hw_mark m = hw_lex_here(p, 1);
    unsigned char c = p->text[p->pos];
    if (isprint(c))
        return hw_lex_fail(p, &m, "Unexpected character '%c'", c);
    return hw_lex_fail(p, &m, "Unexpected character '\\x%02x'", c);
}

static bool word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '-' || c == '+';
}

int hw_lex_word(struct hw_lexer *p, struct hw_token *out)
{
    hw_lex_skip_blank(p);
    if (hw_lex_at_end(p) || !word_char(hw_lex_look(p)))
        return stray(p);
    out->at = hw_lex_here(p, 0);
    out->bytes.p = p->text + p->pos;
    while (!hw_lex_at_end(p) && word_char(hw_lex_look(p)))
        hw_lex_step(p);
    out->at.n = out->bytes.n = p->pos - out->at.offset;
    if (!hw_lex_at_end(p) && !strchr(" \t\n\v\f\r;#,}]>{<:[\"'", hw_lex_look(p)))
        return stray(p);
    return HW_OK;
}

int hw_lex_key(struct hw_lexer *p, struct hw_token *out)
{
    if (hw_lex_look(p) != '[')
        return hw_lex_word(p, out);
    struct hw_mark start = hw_lex_here(p, 0);
    hw_lex_step(p);
    struct hw_token inner;
    int rc = hw_lex_word(p, &inner);
    if (rc < 0)
        return rc;
    hw_lex_skip_blank(p);
    if (hw_lex_look(p) != ']')
        return stray(p);
    hw_lex_step(p);
    start.n = p->pos - start.offset;
    out->at = start;
    out->bytes = hw_bytes_of(p->text + start.offset, start.n);
    return HW_OK;
}

/* After "\x": one or two digits. */
static int hex_escape(struct hw_lexer *p, const struct hw_mark *at, struct hw_strbuf *b)
{
    int v = hw_hex_digit(hw_lex_look(p));
    if (hw_lex_at_end(p) || v < 0)
        return hw_lex_fail(p, at, "Malformed string escape");
    hw_lex_step(p);
    if (!hw_lex_at_end(p) && hw_hex_digit(hw_lex_look(p)) >= 0) {
        v = v * 16 + hw_hex_digit(hw_lex_look(p));
        hw_lex_step(p);
    }
    hw_strbuf_addc(b, (char)v);
    return HW_OK;
}

static int octal_escape(struct hw_lexer *p, const struct hw_mark *at, struct hw_strbuf *b)
{
    int v = 0;
    for (int i = 0; i < 3; i++) {
        if (hw_lex_at_end(p) || hw_lex_look(p) < '0' || hw_lex_look(p) > '7')
            return hw_lex_fail(p, at, "Malformed string escape");
        v = v * 8 + (hw_lex_look(p) - '0');
        hw_lex_step(p);
    }
    if (v > 0377)
        return hw_lex_fail(p, at, "Malformed string escape");
    hw_strbuf_addc(b, (char)v);
    return HW_OK;
}

static int escape(struct hw_lexer *p, struct hw_strbuf *b)
{
    static const char from[] = "\\'\"?abfnrtv", to[] = "\\'\"?\a\b\f\n\r\t\v";
    struct hw_mark at = hw_lex_here(p, 2);
    hw_lex_step(p);
    if (hw_lex_at_end(p))
        return hw_lex_end_of_input(p);
    char c = hw_lex_look(p);
    if (c >= '0' && c <= '9')
        return octal_escape(p, &at, b);
    const char *known = c ? strchr(from, c) : NULL;
    if (!known && c != 'x')
        return hw_lex_fail(p, &at, "Unknown string escape");
    hw_lex_step(p);
    if (c == 'x')
        return hex_escape(p, &at, b);
    hw_strbuf_addc(b, to[known - from]);
    return HW_OK;
}

int hw_lex_string(struct hw_lexer *p, struct hw_strbuf *b, struct hw_token *out)
{
    bool first = true;
    while (hw_lex_look(p) == '"' || hw_lex_look(p) == '\'') {
        char quote = hw_lex_look(p);
        struct hw_mark start = hw_lex_here(p, 1);
        hw_lex_step(p);
        while (!hw_lex_at_end(p) && hw_lex_look(p) != quote) {
            if (hw_lex_look(p) == '\\') {
                int rc = escape(p, b);
                if (rc < 0)
                    return rc;
                continue;
            }
            hw_strbuf_addc(b, hw_lex_look(p));
            hw_lex_step(p);
        }
        if (hw_lex_at_end(p))
            return hw_lex_end_of_input(p);
        hw_lex_step(p);
        if (first) {
            start.n = p->pos - start.offset;
            out->at = start;
            out->bytes = hw_bytes_of(p->text + start.offset, start.n);
        }
        first = false;
        hw_lex_skip_blank(p);
    }
    return b->failed ? hw_fail(p->err, HW_ENOMEM, 0, "string in '%s'", p->name) : HW_OK;
}

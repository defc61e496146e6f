#include "sql/tokens.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/banned.h"

static bool word_char(uint8_t c)
{
    return isalnum(c) || c == '_' || c >= 0x80;
}

/* Length of the quoted text that starts here; a doubled closing quote is part of it. */
static size_t quoted(struct hw_bytes b, uint8_t close)
{
    size_t i = 1;
    while (i < b.n) {
        if (b.p[i] == close) {
            if (close == ']' || i + 1 >= b.n || b.p[i + 1] != close)
                return i + 1;
            i++;
        }
        i++;
    }
    return b.n;
}

static size_t comment(struct hw_bytes b)
{
    if (b.n >= 2 && b.p[0] == '-' && b.p[1] == '-') {
        const uint8_t *end = memchr(b.p, '\n', b.n);
        return end ? (size_t)(end - b.p) + 1 : b.n;
    }
    if (b.n >= 2 && b.p[0] == '/' && b.p[1] == '*') {
        const uint8_t *end = b.n >= 4 ? memmem(b.p + 2, b.n - 2, "*/", 2) : NULL;
        return end ? (size_t)(end - b.p) + 2 : b.n;
    }
    return 0;
}

static size_t word_length(struct hw_bytes b, size_t from)
{
    size_t i = from;
    while (i < b.n && word_char(b.p[i]))
        i++;
    return i;
}

bool hw_token_take(struct hw_bytes *rest, struct hw_token *out)
{
    if (rest->n == 0)
        return false;
    uint8_t c = rest->p[0];
    size_t n = comment(*rest);
    enum hw_token_kind kind = HW_TOKEN_SPACE;
    if (n == 0 && isspace(c)) {
        while (n < rest->n && isspace(rest->p[n]))
            n++;
    } else if (n == 0 && (c == '"' || c == '`' || c == '[')) {
        kind = HW_TOKEN_QUOTED;
        n = quoted(*rest, c == '[' ? ']' : c);
    } else if (n == 0 && c == '\'') {
        kind = HW_TOKEN_STRING;
        n = quoted(*rest, c);
    } else if (n == 0 && word_char(c)) {
        kind = HW_TOKEN_WORD;
        n = word_length(*rest, 1);
    } else if (n == 0) {
        n = c == '$' || c == ':' || c == '@' ? word_length(*rest, 1) : 1;
        kind = n > 1 ? HW_TOKEN_VARIABLE : HW_TOKEN_OTHER;
    }
    *out = (struct hw_token){kind, hw_bytes_of(rest->p, n)};
    *rest = hw_bytes_of(rest->p + n, rest->n - n);
    return true;
}

bool hw_token_take_word(struct hw_bytes *rest, struct hw_token *out)
{
    while (hw_token_take(rest, out))
        if (out->kind != HW_TOKEN_SPACE)
            return true;
    return false;
}

bool hw_token_is(const struct hw_token *t, const char *word)
{
    size_t n = strlen(word);
    return t->text.n == n && strncasecmp((const char *)t->text.p, word, n) == 0;
}

bool hw_token_statement(struct hw_bytes *rest, struct hw_bytes *out)
{
    struct hw_token t;
    const uint8_t *start = rest->p;
    if (rest->n == 0)
        return false;
    while (hw_token_take(rest, &t))
        if (t.kind == HW_TOKEN_OTHER && t.text.p[0] == ';') {
            *out = hw_bytes_of(start, (size_t)(t.text.p - start));
            return true;
        }
    *out = hw_bytes_of(start, (size_t)(rest->p - start));
    return true;
}

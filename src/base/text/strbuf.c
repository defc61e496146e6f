#include "base/text/strbuf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"

#include "base/banned.h"
#include "base/error.h"

void hw_strbuf_done(struct hw_strbuf *b)
{
    free(b->p);
    *b = (struct hw_strbuf){0};
}

void hw_strbuf_clear(struct hw_strbuf *b)
{
    b->n = 0;
    if (b->p)
        b->p[0] = 0;
}

int hw_strbuf_reserve(struct hw_strbuf *b, size_t more)
{
    size_t want;
    if (b->failed || __builtin_add_overflow(b->n, more, &want) || want == SIZE_MAX)
        goto fail;
    want++; /* the NUL */
    if (want <= b->cap)
        return HW_OK;
    size_t cap = b->cap ? b->cap : 64;
    while (cap < want)
        if (__builtin_mul_overflow(cap, (size_t)2, &cap))
            goto fail;
    char *grown = realloc(b->p, cap);
    if (!grown)
        goto fail;
    b->p = grown;
    b->cap = cap;
    return HW_OK;
fail:
    b->failed = true;
    return HW_ENOMEM;
}

void hw_strbuf_add(struct hw_strbuf *b, const void *p, size_t n)
{
    if (hw_strbuf_reserve(b, n) < 0)
        return;
    if (n)
        memcpy(b->p + b->n, p, n);
    b->n += n;
    b->p[b->n] = 0;
}

void hw_strbuf_addc(struct hw_strbuf *b, char c)
{
    hw_strbuf_add(b, &c, 1);
}

void hw_strbuf_adds(struct hw_strbuf *b, const char *s)
{
    hw_strbuf_add(b, s, strlen(s));
}

void hw_strbuf_addf(struct hw_strbuf *b, const char *fmt, ...)
{
    char small[256];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(small, sizeof small, fmt, ap);
    va_end(ap);
    if (n < 0)
        return;
    if ((size_t)n < sizeof small) {
        hw_strbuf_add(b, small, (size_t)n);
        return;
    }
    if (hw_strbuf_reserve(b, (size_t)n) < 0)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(b->p + b->n, (size_t)n + 1, fmt, ap); /* fits: measured above */
    va_end(ap);
    b->n += (size_t)n;
}

void hw_strbuf_add_escaped(struct hw_strbuf *b, const void *p, size_t n)
{
    const unsigned char *c = p;
    for (size_t i = 0, len; i < n; i += len ? len : 1) {
        len = hw_utf8_len(c + i, n - i);
        uint32_t code = len ? hw_utf8_code(c + i, len) : 0;
        if (len == 0 || (len == 1 && hw_utf8_is_hidden(code)))
            hw_strbuf_addf(b, "\\x%02x", c[i]);
        else if (hw_utf8_is_hidden(code))
            hw_strbuf_addf(b, "\\u{%x}", code);
        else
            hw_strbuf_add(b, c + i, len);
    }
}

enum shell_need { SHELL_PLAIN, SHELL_QUOTES, SHELL_ESCAPES };

static enum shell_need shell_need_of(const unsigned char *c, size_t n)
{
    static const char plain[] = "%+,-./:=@_^";
    enum shell_need need = n ? SHELL_PLAIN : SHELL_QUOTES;
    for (size_t i = 0, len; i < n; i += len) {
        len = hw_utf8_len(c + i, n - i);
        if (len == 0 || hw_utf8_is_hidden(hw_utf8_code(c + i, len)))
            return SHELL_ESCAPES;
        bool is_word = (c[i] >= '0' && c[i] <= '9') || (c[i] >= 'A' && c[i] <= 'Z') ||
                       (c[i] >= 'a' && c[i] <= 'z') || c[i] >= 0x80 || strchr(plain, c[i]);
        if (!is_word)
            need = SHELL_QUOTES;
    }
    return need;
}

void hw_strbuf_add_shell_word(struct hw_strbuf *b, const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    size_t n = strlen(text);
    enum shell_need need = shell_need_of(c, n);
    if (need != SHELL_PLAIN)
        hw_strbuf_adds(b, need == SHELL_ESCAPES ? "$'" : "'");
    for (size_t i = 0; i < n; i++) {
        if (need == SHELL_ESCAPES && (c[i] < 0x20 || c[i] >= 0x7f))
            hw_strbuf_addf(b, "\\x%02x", c[i]);
        else if (need == SHELL_ESCAPES && (c[i] == '\'' || c[i] == '\\'))
            hw_strbuf_addf(b, "\\%c", c[i]);
        else if (need == SHELL_QUOTES && c[i] == '\'')
            hw_strbuf_adds(b, "'\\''");
        else
            hw_strbuf_addc(b, (char)c[i]);
    }
    if (need != SHELL_PLAIN)
        hw_strbuf_addc(b, '\'');
}

char *hw_strbuf_take(struct hw_strbuf *b)
{
    if (hw_strbuf_reserve(b, 0) < 0)
        return NULL;
    b->p[b->n] = 0;
    char *r = b->p;
    *b = (struct hw_strbuf){0};
    return r;
}

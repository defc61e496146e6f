#include "base/text/utf8.h"

#include <stdio.h>
#include <string.h>

#include "base/text/strbuf.h"

#include "base/banned.h"

size_t hw_utf8_len(const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    static const struct {
        unsigned char lo, hi, second_lo, second_hi;
        size_t len;
    } forms[] = {
        {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
        {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
        {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    if (p[0] < 0x80)
        return 1;
    for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
        if (p[0] < forms[f].lo || p[0] > forms[f].hi)
            continue;
        if (n < forms[f].len || p[1] < forms[f].second_lo || p[1] > forms[f].second_hi)
            return 0;
        for (size_t i = 2; i < forms[f].len; i++)
            if ((p[i] & 0xc0) != 0x80)
                return 0;
        return forms[f].len;
    }
    return 0;
}

uint32_t hw_utf8_code(const void *bytes, size_t len)
{
    const unsigned char *p = bytes;
    uint32_t code = len == 1 ? p[0] : p[0] & (0xffu >> (len + 1));
    for (size_t i = 1; i < len; i++)
        code = code << 6 | (p[i] & 0x3f);
    return code;
}

bool hw_utf8_is_hidden(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        {0, 0x1f},        {0x7f, 0x9f},       {0xad, 0xad},     {0x34f, 0x34f},   {0x61c, 0x61c},
        {0x115f, 0x1160}, {0x17b4, 0x17b5},   {0x180e, 0x180e}, {0x200b, 0x200f}, {0x2028, 0x202e},
        {0x2060, 0x206f}, {0x3164, 0x3164},   {0xfe00, 0xfe0f}, {0xfeff, 0xfeff}, {0xfff0, 0xfffb},
        {0xfffe, 0xffff}, {0xe0000, 0xe0fff},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (c >= ranges[i].first && c <= ranges[i].last)
            return true;
    return (c & 0xfffe) == 0xfffe; /* no characters, and not allowed in XML */
}

size_t hw_utf8_escape(char *out, size_t max, const char *text, const char *keep)
{
    size_t n = strlen(text), used = 0;
    for (size_t i = 0, len; i < n; i += len ? len : 1) {
        char word[16];
        len = hw_utf8_len(text + i, n - i);
        uint32_t code = len ? hw_utf8_code(text + i, len) : 0;
        bool hidden = hw_utf8_is_hidden(code) && !(len == 1 && strchr(keep, text[i]));
        if (len == 0 || (len == 1 && hidden))
            (void)snprintf(word, sizeof word, "\\x%02x", (unsigned char)text[i]);
        else if (hidden)
            (void)snprintf(word, sizeof word, "\\u{%x}", code);
        else
            (void)snprintf(word, sizeof word, "%.*s", (int)len, text + i);
        size_t more = strlen(word);
        if (more >= max - used)
            break;
        memcpy(out + used, word, more);
        used += more;
    }
    out[used] = '\0';
    return used;
}

bool hw_utf8_valid(const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (size_t i = 0, len; i < n; i += len) {
        len = hw_utf8_len(p + i, n - i);
        if (len == 0)
            return false;
    }
    return true;
}

void hw_utf8_add_code(struct hw_strbuf *out, uint32_t code)
{
    if (code < 0x80) {
        hw_strbuf_addc(out, (char)code);
        return;
    }
    if (code < 0x800) {
        hw_strbuf_addc(out, (char)(0xc0 | code >> 6));
    } else {
        if (code < 0x10000) {
            hw_strbuf_addc(out, (char)(0xe0 | code >> 12));
        } else {
            hw_strbuf_addc(out, (char)(0xf0 | code >> 18));
            hw_strbuf_addc(out, (char)(0x80 | (code >> 12 & 0x3f)));
        }
        hw_strbuf_addc(out, (char)(0x80 | (code >> 6 & 0x3f)));
    }
    hw_strbuf_addc(out, (char)(0x80 | (code & 0x3f)));
}

void hw_utf8_add_clean(struct hw_strbuf *out, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (size_t i = 0, len; i < n; i += len ? len : 1) {
        len = hw_utf8_len(p + i, n - i);
        if (len)
            hw_strbuf_add(out, p + i, len);
        else
            hw_strbuf_adds(out, "\xef\xbf\xbd");
    }
}

#include "export/markup.h"

#include <stdbool.h>

#include "base/banned.h"

/* One code point; its length, or 0 when the bytes are no UTF-8 (overlong, surrogate, cut). */
static size_t decode(struct hw_bytes b, uint32_t *out)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint8_t c = b.p[0];
    size_t n = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : (c & 0xf0) == 0xe0 ? 3 : 4;
    if (n == 4 && (c < 0xf0 || c > 0xf4))
        return 0;
    if (n > b.n)
        return 0;
    uint32_t v = n == 1 ? c : c & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((b.p[i] & 0xc0) != 0x80)
            return 0;
        v = v << 6 | (b.p[i] & 0x3f);
    }
    if (v < least[n] || v > 0x10ffff || (v >= 0xd800 && v < 0xe000))
        return 0;
    *out = v;
    return n;
}

static bool is_hidden(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        {0, 0x1f},        {0x7f, 0x9f},       {0xad, 0xad},     {0x34f, 0x34f},   {0x61c, 0x61c},
        {0x115f, 0x1160}, {0x17b4, 0x17b5},   {0x180e, 0x180e}, {0x200b, 0x200f}, {0x2028, 0x202e},
        {0x2060, 0x206f}, {0x3164, 0x3164},   {0xfe00, 0xfe0f}, {0xfeff, 0xfeff}, {0xfff0, 0xfffb},
        {0xfffe, 0xffff}, {0xe0000, 0xe0fff},
    };
    for (size_t i = 0; i < HW_ARRAY_LEN(ranges); i++)
        if (c >= ranges[i].first && c <= ranges[i].last)
            return true;
    return (c & 0xfffe) == 0xfffe; /* no characters, and not allowed in XML */
}

static void add(struct hw_strbuf *out, struct hw_bytes text, bool entities)
{
    for (size_t i = 0; i < text.n;) {
        uint32_t c;
        size_t n = decode(hw_bytes_of(text.p + i, text.n - i), &c);
        if (n == 0)
            hw_strbuf_adds(out, "\xef\xbf\xbd");
        else if (is_hidden(c))
            hw_strbuf_addf(out, "\\u{%x}", c);
        else if (entities && (c == '&' || c == '<' || c == '>' || c == '"' || c == '\''))
            hw_strbuf_addf(out, "&#%u;", c);
        else
            hw_strbuf_add(out, text.p + i, n);
        i += n ? n : 1;
    }
}

void hw_visible_add(struct hw_strbuf *out, struct hw_bytes text)
{
    add(out, text, false);
}

void hw_markup_add(struct hw_strbuf *out, struct hw_bytes text)
{
    add(out, text, true);
}

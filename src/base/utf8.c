#include "base/utf8.h"

#include "base/strbuf.h"

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

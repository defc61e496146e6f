#include "export/markup.h"

#include <stdbool.h>

#include "base/text/utf8.h"

#include "base/banned.h"

static void add(struct hw_strbuf *out, struct hw_bytes text, bool entities)
{
    for (size_t i = 0; i < text.n;) {
        size_t n = hw_utf8_len(text.p + i, text.n - i);
        uint32_t c = n ? hw_utf8_code(text.p + i, n) : 0;
        if (n == 0)
            hw_strbuf_adds(out, "\xef\xbf\xbd");
        else if (hw_utf8_is_hidden(c))
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

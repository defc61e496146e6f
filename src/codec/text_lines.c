#include "codec/text_lines.h"

#include <string.h>

#include "base/text/hex.h"

#include "base/banned.h"

bool hw_lines_next(struct hw_lines *l, struct hw_bytes *line)
{
    if (l->rest.n == 0)
        return false;
    const uint8_t *end = memchr(l->rest.p, '\n', l->rest.n);
    size_t n = end ? (size_t)(end - l->rest.p) : l->rest.n, used = n + (end != NULL);
    *line = hw_bytes_of(l->rest.p, n && l->rest.p[n - 1] == '\r' ? n - 1 : n);
    l->offset = l->next_offset;
    l->next_offset += used;
    l->number++;
    l->rest = hw_bytes_skip(l->rest, used);
    return true;
}

bool hw_word_next(struct hw_bytes *line, struct hw_bytes *word)
{
    size_t start = 0, end;
    while (start < line->n && line->p[start] == ' ')
        start++;
    for (end = start; end < line->n && line->p[end] != ' ';)
        end++;
    if (start == end)
        return false;
    *word = hw_bytes_of(line->p + start, end - start);
    *line = hw_bytes_of(line->p + end, line->n - end);
    return true;
}

static bool number(struct hw_bytes *line, uint64_t base, uint64_t *out)
{
    struct hw_bytes rest = *line, word;
    uint64_t v = 0;
    if (!hw_word_next(&rest, &word))
        return false;
    for (size_t i = 0; i < word.n; i++) {
        uint64_t d = (uint64_t)hw_hex_digit((char)word.p[i]);
        if (d >= base || /* no digit: UINT64_MAX */
            __builtin_mul_overflow(v, base, &v) || __builtin_add_overflow(v, d, &v))
            return false;
    }
    *line = rest;
    *out = v;
    return true;
}

bool hw_word_hex(struct hw_bytes *line, uint64_t *out)
{
    return number(line, 16, out);
}

bool hw_word_decimal(struct hw_bytes *line, uint64_t *out)
{
    return number(line, 10, out);
}

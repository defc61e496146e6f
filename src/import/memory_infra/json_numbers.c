#include "import/memory_infra/json_numbers.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/banned.h"

static size_t string_end(const char *text, size_t n, size_t i)
{
    for (i++; i < n && text[i] != '"'; i++)
        i += text[i] == '\\';
    return i < n ? i + 1 : n;
}

/* text[n] is not part of the number, so the conversions stop there. */
static bool is_huge(const char *text, size_t n)
{
    bool real = memchr(text, '.', n) || memchr(text, 'e', n) || memchr(text, 'E', n);
    errno = 0;
    if (real)
        return isinf(strtod(text, NULL));
    (void)strtoll(text, NULL, 10); /* for errno */
    return errno == ERANGE;
}

size_t hw_json_drop_huge(char *text, size_t n)
{
    size_t n_dropped = 0;
    for (size_t i = 0, end; i < n; i = end) {
        end = text[i] == '"' ? string_end(text, n, i) : i + 1;
        if (text[i] != '-' && (text[i] < '0' || text[i] > '9'))
            continue;
        while (end < n && text[end] && strchr("0123456789+-.eE", text[end]))
            end++;
        if (end == n || end - i < 4 || !is_huge(text + i, end - i))
            continue;
        memset(text + i, ' ', end - i);
        memcpy(text + i, "null", 4);
        n_dropped++;
    }
    return n_dropped;
}

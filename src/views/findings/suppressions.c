#include "views/findings/suppressions.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#include "base/banned.h"

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct hw_bytes trim(struct hw_bytes b)
{
    while (b.n && is_space(b.p[0]))
        b = hw_bytes_of(b.p + 1, b.n - 1);
    while (b.n && is_space(b.p[b.n - 1]))
        b.n--;
    return b;
}

static int add_line(struct hw_suppressions *s, struct hw_bytes line, size_t number,
                    struct hw_error *err)
{
    static const char word[] = "leak:";
    size_t len = sizeof word - 1;
    line = trim(line);
    if (line.n == 0 || line.p[0] == '#')
        return HW_OK;
    if (line.n <= len || memcmp(line.p, word, len) != 0)
        return hw_fail(err, HW_EFORMAT, 0, "line %zu of the suppressions is not `leak:PATTERN`",
                       number);
    char *pattern = strndup((const char *)line.p + len, line.n - len);
    if (!pattern || hw_vec_push(&s->v, pattern) < 0) {
        free(pattern);
        return HW_ENOMEM;
    }
    return HW_OK;
}

int hw_suppressions_read(struct hw_bytes text, struct hw_suppressions *out, struct hw_error *err)
{
    struct hw_suppressions s = {0};
    size_t number = 1;
    for (size_t at = 0; at < text.n; number++) {
        const uint8_t *end = memchr(text.p + at, '\n', text.n - at);
        size_t n = end ? (size_t)(end - text.p) - at : text.n - at;
        int rc = add_line(&s, hw_bytes_of(text.p + at, n), number, err);
        if (rc < 0) {
            hw_suppressions_done(&s);
            return rc;
        }
        at += n + 1;
    }
    *out = s;
    return HW_OK;
}

void hw_suppressions_done(struct hw_suppressions *s)
{
    for (size_t i = 0; i < s->v.n; i++)
        free(s->v.v[i]);
    hw_vec_done(&s->v);
}

/* The parts between stars must occur in order; `^` and `$` anchor the first and the last. */
static bool matches(const char *pattern, const char *name)
{
    bool anchored = *pattern == '^';
    pattern += anchored;
    for (;;) {
        size_t n = strcspn(pattern, "*");
        bool last = pattern[n] == 0, at_end = last && n > 0 && pattern[n - 1] == '$';
        size_t len = n - at_end;
        const char *found = name;
        if (at_end) {
            size_t left = strlen(name);
            if (left < len || (anchored && left != len))
                return false;
            return memcmp(name + left - len, pattern, len) == 0;
        }
        if (anchored)
            found = strncmp(name, pattern, len) == 0 ? name : NULL;
        else
            found = memmem(name, strlen(name), pattern, len);
        if (!found)
            return false;
        if (last)
            return true;
        name = found + len;
        pattern += n + 1;
        anchored = false;
    }
}

bool hw_suppressions_match(const struct hw_suppressions *s, const char *name)
{
    for (size_t i = 0; i < s->v.n; i++)
        if (matches(s->v.v[i], name))
            return true;
    return false;
}

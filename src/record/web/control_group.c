#include "record/web/control_group.h"

#include <stddef.h>
#include <string.h>

#include "base/text/strbuf.h"

#include "base/banned.h"

enum { CONTAINER_ID = 64 };

struct part {
    const char *p;
    size_t n;
};

static bool ends_with(struct part x, const char *end)
{
    size_t n = strlen(end);
    return x.n > n && memcmp(x.p + x.n - n, end, n) == 0;
}

/* The next component that is not a slice; n 0 = end of line. */
static struct part next_part(const char **at)
{
    struct part x = {*at, 0};
    do {
        x.p += x.n;
        x.p += strspn(x.p, "/");
        x.n = strcspn(x.p, "/\n");
    } while (ends_with(x, ".slice"));
    *at = x.p + x.n;
    return x;
}

static bool is_manager(struct part x)
{
    return x.n > 5 && memcmp(x.p, "user@", 5) == 0 && ends_with(x, ".service");
}

static char *unit_of_path(const char *path, bool one_user)
{
    struct hw_strbuf b = {0};
    struct part first = next_part(&path), unit = first;
    if (is_manager(first))
        unit = next_part(&path);
    if (!ends_with(unit, ".service"))
        return NULL;
    if (unit.p != first.p && !one_user)
        hw_strbuf_addf(&b, "%.*s/", (int)first.n, first.p);
    hw_strbuf_add(&b, unit.p, unit.n);
    return hw_strbuf_take(&b);
}

/* Lines are "NUMBER:CONTROLLERS:PATH"; the kernel allows no newline in a group's name. */
char *hw_control_group_unit(const char *text, bool one_user)
{
    char *unit = NULL;
    for (const char *line = text; !unit && *line; line += *line == '\n') {
        size_t n = strcspn(line, "\n");
        const char *colon = memchr(line, ':', n);
        colon = colon ? memchr(colon + 1, ':', n - (size_t)(colon + 1 - line)) : NULL;
        if (colon)
            unit = unit_of_path(colon + 1, one_user);
        line += n;
    }
    return unit;
}

char *hw_control_group_container(const char *text)
{
    const char *found = NULL;
    for (const char *p = text; *p; p += *p != 0) {
        size_t n = strspn(p, "0123456789abcdef");
        if (n >= CONTAINER_ID)
            found = p + n - CONTAINER_ID;
        p += n;
    }
    return found ? strndup(found, CONTAINER_ID) : NULL;
}

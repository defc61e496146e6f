/*
 * env.c - taking our variables out of the environment, so that children are not profiled
 *
 * The strings are changed in place and the pointers moved up; nothing is freed, since the program
 * may hold pointers into them. Nobody else may be reading the environment: it is done by the
 * constructor while there is one thread, and in the child of a fork.
 */
#include <string.h>

#include "client/client.h"

extern char **environ;

#define OUR_NAME "libheapprofd_glibc_preload.so"

static bool is_named(const char *entry, const char *name)
{
    size_t n = strlen(name);
    return strncmp(entry, name, n) == 0 && entry[n] == '=';
}

static bool is_ours(const char *p, size_t n)
{
    size_t name = strlen(OUR_NAME);
    return n >= name && memcmp(p + n - name, OUR_NAME, name) == 0 &&
           (n == name || p[n - name - 1] == '/');
}

/* Removes our entry from "a:b c"; gives true when nothing is left. */
static bool preload_strip(char *value)
{
    char *out = value;
    for (char *p = value; *p;) {
        size_t sep = strspn(p, ": ");
        size_t n = strcspn(p + sep, ": ");
        if (n != 0 && !is_ours(p + sep, n)) {
            if (out != value)
                *out++ = ':';
            memmove(out, p + sep, n);
            out += n;
        }
        p += sep + n;
    }
    *out = '\0';
    return out == value;
}

void hw_env_strip(void)
{
    if (!environ)
        return;
    char **out = environ;
    for (char **e = environ; *e; e++) {
        bool drop = is_named(*e, "HEAPWISE_SOCKET") || is_named(*e, "HEAPWISE_HELD") ||
                    is_named(*e, "PERFETTO_HEAPPROFD_BLOCKING_INIT") ||
                    (is_named(*e, "LD_PRELOAD") && preload_strip(strchr(*e, '=') + 1));
        if (!drop)
            *out++ = *e;
    }
    *out = NULL;
}

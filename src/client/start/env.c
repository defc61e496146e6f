/*
 * env.c - taking our variables out of the environment, so that children are not profiled
 *
 * The strings are changed in place and the pointers moved up; nothing is freed, since the program
 * may hold pointers into them. The kernel's array keeps its length, as the auxiliary vector follows
 * it and a runtime without libc (Go's) finds it from there: in the place of a removed entry another
 * one appears twice, and libc gets an array of its own. If we were put in at the exec, that starts
 * before any constructor has run (sanitizer.c). No other thread may be reading the environment:
 * this is done by the constructor while there is one thread, and in the child of a fork.
 */
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "client/client.h"
#include "client/start/env.h"

extern char **environ;

#define OUR_NAME "libheapprofd_glibc_preload.so"

static char **kernels; /* the array on the first stack */
static bool is_stripped;

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

/* Removes our entry from "a:b c"; true when nothing is left. */
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

/* True: not for the program or its children. LD_PRELOAD keeps the entries that are not ours. */
static bool is_to_go(char *entry)
{
    return is_named(entry, "HEAPWISE_SOCKET") || is_named(entry, "HEAPWISE_HELD") ||
           is_named(entry, "PERFETTO_HEAPPROFD_BLOCKING_INIT") ||
           (is_named(entry, "LD_PRELOAD") && preload_strip(strchr(entry, '=') + 1));
}

/* Moves the remaining entries up, in place. again: an entry that occurs more than once; NULL =
 * none */
static void close_up(char **env, const char *again)
{
    char **out = env;
    bool seen = again && *again == '\0'; /* there was none to repeat */
    for (char **e = env; *e; e++)
        if (!is_to_go(*e) && !(*e == again && seen)) {
            seen |= *e == again;
            *out++ = *e;
        }
    *out = NULL;
}

static size_t length(char *const *env)
{
    size_t n = 0;
    while (env[n])
        n++;
    return n;
}

/* The last remaining entry is repeated once for each removed one. */
static void close_up_in_length(char **env, const char *again)
{
    static char nothing[] = "";
    size_t n = length(env);
    close_up(env, again);
    size_t kept = length(env);
    for (size_t i = kept; i < n; i++)
        env[i] = kept ? env[kept - 1] : nothing;
}

/* Without memory libc keeps the kernel's array: a variable twice is better than one of ours. */
static void divide(char **env, const char *again)
{
    size_t n = length(env);
    char **copy = mmap(NULL, (n + 1) * sizeof *copy, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy != MAP_FAILED) {
        memcpy(copy, env, n * sizeof *copy);
        close_up(copy, again);
        environ = copy;
    }
    close_up_in_length(env, again);
}

void hw_env_init(void)
{
    if (!kernels)
        kernels = environ;
}

void hw_env_strip(void)
{
    const char *again = is_stripped ? NULL : hw_start_repeated_entry();
    is_stripped = true;
    if (environ && environ == kernels)
        divide(environ, again);
    else if (environ)
        close_up(environ, again);
}

#include "daemon/policy/process_match.h"

#include <stdio.h>
#include <string.h>

#include "config/config.h"

#include "base/banned.h"

#define COMM_BYTES 15u /* that the kernel keeps */
#define FIRST_ARGS 4   /* "python3 -u ./server": exec of the script named it `server` */

/* a: cut, as the kernel cuts it */
static bool is_cut(const char *a, const char *whole, size_t n)
{
    size_t len = n < COMM_BYTES ? n : COMM_BYTES;
    return len > 0 && strlen(a) == len && memcmp(a, whole, len) == 0;
}

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool hw_name_may_be_comm(const char *wanted, const char *comm)
{
    const char *base = base_of(wanted);
    return !strchr(wanted, '*') && is_cut(comm, base, strcspn(base, "@"));
}

bool hw_name_is_meant(const char *wanted, const char *cmdline, size_t n, const char *comm,
                      const char *exe)
{
    char argv0[512];
    if (n == 0 || cmdline[0] == '\0')
        return false; /* a kernel thread */
    (void)snprintf(argv0, sizeof argv0, "%.*s", (int)(n < sizeof argv0 ? n : sizeof argv0 - 1),
                   cmdline);
    if (hw_config_name_matches(wanted, argv0))
        return true;
    if (!hw_name_may_be_comm(wanted, comm) || is_cut(comm, exe, strlen(exe)))
        return false;
    const char *p = cmdline, *end = cmdline + n;
    for (int i = 0; i < FIRST_ARGS && p < end; i++) {
        char arg[512];
        size_t len = strnlen(p, (size_t)(end - p));
        (void)snprintf(arg, sizeof arg, "%.*s", (int)(len < sizeof arg ? len : sizeof arg - 1), p);
        const char *base = base_of(arg);
        if (is_cut(comm, base, strlen(base)))
            return false;
        p += len + 1;
    }
    return true;
}

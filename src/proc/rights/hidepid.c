/*
 *     23 28 0:22 / /proc rw,nosuid shared:12 - proc proc rw,hidepid=invisible
 *     number ...   where  ...  optional fields  - type source options
 *
 * A later mount at the same place covers the one before.
 */
#include "proc/rights/hidepid.h"

#include <fcntl.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"

#include "base/banned.h"

#define MAX_MOUNTS (4u << 20)

static bool is_proc(const char *line, size_t n)
{
    static const char where[] = " / /proc ", type[] = " - proc ";
    return memmem(line, n, where, sizeof where - 1) && memmem(line, n, type, sizeof type - 1);
}

/* Off is 0 or "off"; older kernels do not show it then. */
static bool hides(const char *line, size_t n)
{
    static const char option[] = ",hidepid=";
    const char *p = memmem(line, n, option, sizeof option - 1);
    const char *value = p ? p + sizeof option - 1 : NULL;
    return value && *value != '0' && strncmp(value, "off", 3) != 0;
}

bool hw_hidepid_parse(const char *mountinfo)
{
    bool is = false;
    for (const char *line = mountinfo; *line;) {
        size_t n = strcspn(line, "\n");
        if (is_proc(line, n))
            is = hides(line, n);
        line += n + (line[n] == '\n');
    }
    return is;
}

static bool is_set_for(const char *path)
{
    hw_autofree char *text = NULL;
    size_t n;
    return hw_file_read(AT_FDCWD, path, MAX_MOUNTS, &text, &n, NULL) == HW_OK &&
           hw_hidepid_parse(text);
}

bool hw_hidepid_is_set(void)
{
    return is_set_for("/proc/self/mountinfo") || is_set_for("/proc/1/mountinfo");
}

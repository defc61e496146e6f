#include "java/name.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

#include "base/banned.h"

static const char *const with_value[] = {"-cp",
                                         "-classpath",
                                         "--class-path",
                                         "-p",
                                         "--module-path",
                                         "--add-modules",
                                         "--upgrade-module-path",
                                         "--describe-module",
                                         "--add-exports",
                                         "--add-opens",
                                         "--add-reads",
                                         "--enable-native-access",
                                         "--limit-modules",
                                         "--patch-module",
                                         "--source"};

static bool takes_value(const char *option)
{
    for (size_t i = 0; i < HW_ARRAY_LEN(with_value); i++)
        if (strcmp(option, with_value[i]) == 0)
            return true;
    return false;
}

static const char *last_part(const char *path, char separator)
{
    const char *at = strrchr(path, separator);
    return at && at[1] ? at + 1 : path;
}

void hw_java_main_name(const char *cmdline, size_t n, char *out, size_t max)
{
    const char *end = cmdline + n;
    out[0] = 0;
    for (const char *p = cmdline + strnlen(cmdline, n) + 1; p < end; p += strlen(p) + 1) {
        bool jar = strcmp(p, "-jar") == 0;
        bool module = strcmp(p, "-m") == 0 || strcmp(p, "--module") == 0;
        if (jar || module || takes_value(p)) {
            p += strlen(p) + 1;
            if (p >= end)
                return;
            if (!jar && !module)
                continue;
        } else if (p[0] == '-' || p[0] == '@') {
            continue;
        }
        (void)snprintf(out, max, "%s", jar || !module ? last_part(p, '/') : p);
        return;
    }
}

bool hw_java_name_matches(const char *word, const char *name)
{
    size_t n = strlen(word);
    if (!name[0] || !n)
        return false;
    if (strcmp(word, name) == 0 || strcmp(word, last_part(name, '.')) == 0)
        return true;
    return strncmp(word, name, n) == 0 && strcmp(name + n, ".jar") == 0;
}

#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text/utf8.h"

#include "base/banned.h"

static struct {
    const char *program;
    enum hw_log_level level;
} g_log = {"heapwise", HW_LOG_WARN};

static const char *const level_names[HW_LOG_LEVEL_COUNT] = {"error", "warning", "info", "debug"};

void hw_log_init(const char *program)
{
    g_log.program = program;
    const char *want = secure_getenv("HEAPWISE_LOG");
    for (int i = 0; want && i < HW_LOG_LEVEL_COUNT; i++)
        if (strncmp(want, level_names[i], 4) == 0)
            g_log.level = (enum hw_log_level)i;
}

void hw_log_set_level(enum hw_log_level level)
{
    g_log.level = level;
}

void hw_log_write(enum hw_log_level level, const char *fmt, ...)
{
    if (level > g_log.level)
        return;
    int saved = errno;
    char line[2048], text[2048];
    int n = snprintf(line, sizeof line, "%s: ", g_log.program);
    if (level != HW_LOG_INFO)
        n += snprintf(line + n, sizeof line - (size_t)n, "%s: ", level_names[level]);
    va_list ap;
    va_start(ap, fmt);
    if (vsnprintf(text, sizeof text, fmt, ap) < 0)
        text[0] = '\0';
    va_end(ap);
    /* It quotes names that strangers gave: no such name is a command to a terminal, or a line. */
    size_t len = (size_t)n + hw_utf8_escape(line + n, sizeof line - (size_t)n - 1, text, "\t");
    line[len] = '\n';
    /* One write, so that lines of several processes do not mix. */
    if (write(STDERR_FILENO, line, len + 1) < 0)
        errno = 0; /* nobody is left to tell */
    errno = saved;
}

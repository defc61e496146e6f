/* The text is cut, never reallocated: an error path must not fail for want of memory. */
#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/banned.h"

const char *hw_errc_name(int code)
{
    switch (code) {
    case 0:
        return "OK";
#define X(name, value, text)                                                                       \
    case value:                                                                                    \
        return #name;
        HW_ERRORS(X)
#undef X
    default:
        return "E?";
    }
}

const char *hw_errc_text(int code)
{
    switch (code) {
    case 0:
        return "success";
#define X(name, value, text)                                                                       \
    case value:                                                                                    \
        return text;
        HW_ERRORS(X)
#undef X
    default:
        return "unknown error";
    }
}

int hw_fail(struct hw_error *err, int code, uint64_t offset, const char *fmt, ...)
{
    if (!err)
        return code;
    va_list ap;
    va_start(ap, fmt);
    err->code = code;
    err->sys_errno = 0;
    err->offset = offset;
    (void)vsnprintf(err->text, sizeof err->text, fmt, ap); /* cut text is still text */
    va_end(ap);
    return code;
}

int hw_fail_sys(struct hw_error *err, const char *fmt, ...)
{
    int saved = errno;
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        err->code = HW_ESYS;
        err->sys_errno = saved;
        err->offset = 0;
        int n = vsnprintf(err->text, sizeof err->text, fmt, ap);
        va_end(ap);
        if (n >= 0 && (size_t)n < sizeof err->text)
            (void)snprintf(err->text + n, sizeof err->text - (size_t)n, ": %s", strerror(saved));
    }
    errno = saved;
    return HW_ESYS;
}

void hw_error_prefix(struct hw_error *err, const char *fmt, ...)
{
    if (!err)
        return;
    char old[HW_ERROR_TEXT_MAX];
    memcpy(old, err->text, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof err->text)
        (void)snprintf(err->text + n, sizeof err->text - (size_t)n, ": %.*s",
                       (int)(sizeof err->text - (size_t)n), old);
}

/* The text is cut, never reallocated: an error path must not fail for want of memory. */
#include "base/error.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/banned.h"

const char *hw_errc_name(int code)
{
    switch (code) {
    case 0:
        return "OK";
#define X(name, value, text, advice)                                                               \
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
#define X(name, value, text, advice)                                                               \
    case value:                                                                                    \
        return text;
        HW_ERRORS(X)
#undef X
    default:
        return "unknown error";
    }
}

/* What only names its subject gets a reason: memory is all that ENOMEM can mean, and a last ':'
 * asks for the code's own words. */
static void add_reason(struct hw_error *err)
{
    size_t n = strlen(err->text);
    bool open = n && err->text[n - 1] == ':';
    if (open || (err->code == HW_ENOMEM && !strstr(err->text, "memory")))
        (void)snprintf(err->text + n, sizeof err->text - n, "%s%s",
                       open ? " "
                       : n  ? ": "
                            : "",
                       hw_errc_text(err->code));
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
    add_reason(err);
    return code;
}

/* Where the kernel's words leave open what to do. */
static const char *remedy(int sys_errno)
{
    if (sys_errno == EISDIR)
        return " (name a file in it)";
    if (sys_errno == EFBIG)
        return " (raise the limit of file sizes: ulimit -f)";
    return sys_errno == EMFILE ? " (raise the limit of descriptors: ulimit -n)" : "";
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
            (void)snprintf(err->text + n, sizeof err->text - (size_t)n, ": %s%s", strerror(saved),
                           remedy(saved));
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

/*
 * error.h - error codes and the text that goes with one failure
 *
 * Why:     every function that can fail returns one of these codes; readers of files add offset and
 *          text without allocating.
 * Shapes:  0 is success, negative an HW_E code, positive only where a function documents it.
 * Owns:    nothing; a struct hw_error lives in its caller's frame.
 * Errors:  hw_fail* fill err when it is not NULL and return the code, so that one writes
 *          `return hw_fail(err, HW_EFORMAT, off, "...")`. The first failure wins: callers that only
 *          pass an error on do not call hw_fail again; hw_error_prefix puts a context before it.
 */
#ifndef HW_BASE_ERROR_H
#define HW_BASE_ERROR_H

#include <stdarg.h>
#include <stdint.h>

#include "base/errors.def"

enum hw_errc {
    HW_OK = 0,
#define X(name, value, text, advice) HW_##name = value,
    HW_ERRORS(X)
#undef X
};

#define HW_ERROR_TEXT_MAX 512

struct hw_error {
    int code;        /* HW_E… */
    int sys_errno;   /* errno of a failed system call, else 0 */
    uint64_t offset; /* byte offset in the input, 0 when there is none */
    char text[HW_ERROR_TEXT_MAX];
};

/* Fills err (NULL is fine), returns code. No newline; behind a last ':' comes the code's text. */
int hw_fail(struct hw_error *err, int code, uint64_t offset, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The same for a failed system call: appends strerror(errno), returns HW_ESYS, keeps errno. */
int hw_fail_sys(struct hw_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Puts "context: " before the text that err holds. */
void hw_error_prefix(struct hw_error *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

const char *hw_errc_name(int code); /* "ETRUNCATED"; "OK" for 0; "E?" for others */
const char *hw_errc_text(int code);

#endif

/*
 * suppressions.h - known leaks that should not be reported
 *
 * Shapes:  LeakSanitizer's files: a line `leak:PATTERN` each, `#` begins a comment. A pattern is
 *          searched in the function names and module paths of a stack; `*` matches anything, `^`
 *          and `$` the ends of the name.
 * Owns:    its copies.
 * Errors:  HW_EFORMAT with the line; HW_ENOMEM.
 */
#ifndef HW_VIEWS_FINDINGS_SUPPRESSIONS_H
#define HW_VIEWS_FINDINGS_SUPPRESSIONS_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/memory/vec.h"

struct hw_error;

struct hw_suppressions {
    HW_VEC(char *) v; /* owned patterns */
};

int hw_suppressions_read(struct hw_bytes text, struct hw_suppressions *out, struct hw_error *err);
void hw_suppressions_done(struct hw_suppressions *s);
bool hw_suppressions_match(const struct hw_suppressions *s, const char *name);

#endif

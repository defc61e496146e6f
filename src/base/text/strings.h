/*
 * strings.h - same bytes, same number
 *
 * Shapes:  ids are dense from 0; id 0 is the empty string and always there. Strings may hold any
 *          byte, also NUL; each is followed by a NUL of ours.
 * Owns:    a copy of each string, never moved: a view stays valid until hw_strings_free.
 * Errors:  HW_ENOMEM, HW_ELIMIT (2^32 - 1 strings). On error the table is as it was.
 * Threads: one owner at a time; any number of readers once it no longer changes.
 */
#ifndef HW_BASE_TEXT_STRINGS_H
#define HW_BASE_TEXT_STRINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

typedef struct {
    uint32_t v;
} hw_str_id;

struct hw_strings;

int hw_strings_new(struct hw_strings **out);
void hw_strings_free(struct hw_strings *s);
int hw_strings_intern(struct hw_strings *s, struct hw_bytes text, hw_str_id *out);
bool hw_strings_has(const struct hw_strings *s, struct hw_bytes text);
struct hw_bytes hw_strings_get(const struct hw_strings *s, hw_str_id id); /* unknown id: "" */
const char *hw_strings_cstr(const struct hw_strings *s, hw_str_id id);
size_t hw_strings_count(const struct hw_strings *s);
size_t hw_strings_bytes(const struct hw_strings *s); /* of memory */

#endif

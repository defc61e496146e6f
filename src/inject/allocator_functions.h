/*
 * allocator_functions.h - the functions of an allocator, and its code, in the file that defines them
 *
 * Why:     functions that no table leads to are found by name in the file's symbol table.
 * Owns:    text.
 * Errors:  HW_ENOTFOUND: no malloc there, or no symbols (err says which); HW_EUNSUPPORTED,
 *          HW_ENOMEM.
 */
#ifndef HW_INJECT_ALLOCATOR_FUNCTIONS_H
#define HW_INJECT_ALLOCATOR_FUNCTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/attach.h"

struct hw_error;
struct hw_map;

struct hw_allocator {
    uint64_t base; /* what to add to a link-time address to get the target's */
    uint64_t entry[HW_HOOKED_COUNT], end[HW_HOOKED_COUNT]; /* the target's; 0 = none */
    uint64_t text_at, text_bytes;
    uint8_t *text; /* of the file */
};

/* fd: the file behind the executable mapping m. */
int hw_allocator_read(int fd, const struct hw_map *m, struct hw_allocator *out,
                      struct hw_error *err);
void hw_allocator_done(struct hw_allocator *a);
/* Does it define malloc for others, or, whole, for itself? */
bool hw_allocator_is_in(int fd, bool whole);

#endif

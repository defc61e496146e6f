/*
 * function_table.h - where a file's functions begin and end, by its unwind information
 *
 * Why:     releases are stripped of symbols, not of what exceptions need. A function that the compiler split has an entry for
 *          each part.
 * Shapes:  .eh_frame_hdr as every linker writes it: sorted pairs of a function's and its record's address, both relative to
 *          the section. Link-time addresses.
 * Owns:    copies of the two sections.
 * Errors:  false and 0: there is no such table, or no such function.
 * Threads: one owner at a time.
 */
#ifndef HW_ELF_FUNCTION_TABLE_H
#define HW_ELF_FUNCTION_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hw_image;

struct hw_function_table {
    uint8_t *hdr, *frames; /* owned */
    size_t n_hdr, n_frames;
    uint64_t hdr_va, frames_va;
    uint32_t n;
};

/* Also of one that could not be read, hw_function_table_done() is wanted. */
bool hw_function_table_read(struct hw_function_table *t, const struct hw_image *img);
void hw_function_table_done(struct hw_function_table *t);

/* The bytes of the function that begins at va; 0: none does. */
uint64_t hw_function_bytes(const struct hw_function_table *t, uint64_t va);
/* The one that va is in. */
bool hw_function_of(const struct hw_function_table *t, uint64_t va, uint64_t *start,
                    uint64_t *n_bytes);

#endif

/*
 * text_lines.h - text formats a line at a time, and the words and numbers of a line
 *
 * Why:     several formats are lines of words; their files may have unterminated lines, or not be
 *          text at all.
 * Shapes:  views into the text. A line comes without its end ("\n" or "\r\n"); the last one needs
 *          none. Words are separated by spaces.
 * Owns:    nothing.
 */
#ifndef HW_CODEC_TEXT_LINES_H
#define HW_CODEC_TEXT_LINES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

struct hw_lines {
    struct hw_bytes rest;
    size_t offset; /* of the last line returned */
    size_t next_offset;
    uint64_t number; /* of the last line returned, from 1 */
};

static inline struct hw_lines hw_lines_of(struct hw_bytes text)
{
    return (struct hw_lines){.rest = text};
}

bool hw_lines_next(struct hw_lines *l, struct hw_bytes *line); /* false at the end */

/* Removes the next word from the line; false if there is none. */
bool hw_word_next(struct hw_bytes *line, struct hw_bytes *word);
/* The next word as a number; false if there is none or it is not a number; then it stays. */
bool hw_word_hex(struct hw_bytes *line, uint64_t *out);
bool hw_word_decimal(struct hw_bytes *line, uint64_t *out);

#endif

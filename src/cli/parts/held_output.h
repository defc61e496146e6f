/*
 * held_output.h - a command's text, kept until it is known to be whole
 *
 * Why:     a command that finds out late that it cannot answer would leave a table's head before
 *          its error, and a script would read half an answer.
 * Shapes:  between begin and end everything that is printed to stdout stays in memory.
 * Owns:    the text until the end.
 * Errors:  HW_ENOMEM. After one of begin stdout is as it was; one of end means that not all could
 *          be kept, and nothing is shown.
 * Threads: the main one; stdout is the process's.
 */
#ifndef HW_CLI_PARTS_HELD_OUTPUT_H
#define HW_CLI_PARTS_HELD_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct hw_held_output {
    FILE *out; /* the stdout that was */
    char *text;
    size_t n;
};

int hw_held_output_begin(struct hw_held_output *h);
/* stdout is what it was; show: and gets the text. */
int hw_held_output_end(struct hw_held_output *h, bool show);

#endif

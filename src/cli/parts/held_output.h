/*
 * held_output.h - a command's output, held back until it is known to be complete
 *
 * Why:     a command that fails late would print a table's header before its error, and a script
 *          would read half an answer.
 * Shapes:  between begin and end everything that is printed to stdout stays in memory.
 * Owns:    the text until the end.
 * Errors:  HW_ENOMEM. If begin fails, stdout is unchanged; if end fails, the output was incomplete
 *          and nothing is shown.
 * Threads: the main one; stdout is the process's.
 */
#ifndef HW_CLI_PARTS_HELD_OUTPUT_H
#define HW_CLI_PARTS_HELD_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct hw_held_output {
    FILE *out; /* the original stdout */
    char *text;
    size_t n;
};

int hw_held_output_begin(struct hw_held_output *h);
/* Restores stdout; show: and writes the text to it. */
int hw_held_output_end(struct hw_held_output *h, bool show);

#endif

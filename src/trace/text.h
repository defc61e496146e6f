/*
 * text.h - a whole trace as protobuf text
 *
 * Shapes:  `packet { … }` per packet, like protoc's text form of the message Trace; compressed
 *          packets are printed as their content.
 * Errors:  HW_ESYS if the output cannot be written; those of trace/reader.h. Damage is skipped,
 *          marked by a comment and counted.
 */
#ifndef HW_TRACE_TEXT_H
#define HW_TRACE_TEXT_H

#include <stddef.h>

struct hw_error;
struct hw_trace_reader;

/* Prints the reader's remaining packets. damaged: messages that were cut; may be NULL. */
int hw_trace_print_text(struct hw_trace_reader *r, int out_fd, size_t *damaged,
                        struct hw_error *err);

#endif

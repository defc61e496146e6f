/*
 * text.h - a whole trace as protobuf text
 *
 * Shapes:  `packet { … }` per packet, what protoc's text form of the message Trace looks like;
 *          compressed packets are printed as what they hold.
 * Errors:  HW_ESYS when the output cannot be written; those of trace/reader.h. Damage is passed
 *          over, marked by a comment and counted.
 */
#ifndef HW_TRACE_TEXT_H
#define HW_TRACE_TEXT_H

#include <stddef.h>

struct hw_error;
struct hw_trace_reader;

/* Prints what the reader still has to give. damaged: messages cut; may be NULL. */
int hw_trace_print_text(struct hw_trace_reader *r, int out_fd, size_t *damaged,
                        struct hw_error *err);

#endif

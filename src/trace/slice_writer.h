/*
 * slice_writer.h - what threads do, as track events
 *
 * Why:     a program's scopes are slices of the public format, so other readers draw them, too.
 * Shapes:  all slices of a trace are on one sequence, which interns names and categories in pairs.
 *          Write a thread before its first event.
 * Owns:    its table of names; the writer is borrowed.
 * Errors:  those of trace/writer.h.
 * Source:  doc/formats/trace.md, "Track events"
 */
#ifndef HW_TRACE_SLICE_WRITER_H
#define HW_TRACE_SLICE_WRITER_H

#include <stdint.h>

#include "base/bytes.h"

struct hw_error;
struct hw_slice_writer;
struct hw_trace_writer;

int hw_slice_writer_new(struct hw_trace_writer *w, struct hw_slice_writer **out);
void hw_slice_writer_free(struct hw_slice_writer *s); /* NULL is fine */

struct hw_slice_thread {
    uint64_t track; /* its number: unique in the trace */
    int32_t pid, tid;
    struct hw_bytes name; /* may be empty */
};
int hw_slice_write_thread(struct hw_slice_writer *s, uint64_t boottime_ns,
                          const struct hw_slice_thread *t, struct hw_error *err);
int hw_slice_write_begin(struct hw_slice_writer *s, uint64_t boottime_ns, uint64_t track,
                         struct hw_bytes category, struct hw_bytes name, struct hw_error *err);
int hw_slice_write_end(struct hw_slice_writer *s, uint64_t boottime_ns, uint64_t track,
                       struct hw_error *err);

#endif

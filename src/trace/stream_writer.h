/*
 * stream_writer.h - raw allocations and frees (stream_allocations)
 *
 * Why:     with stream_allocations a session records events, not sums; readers of raw traces find
 *          them in these packets.
 * Shapes:  one packet for a run of allocations, one for a run of frees, in the given order; the
 *          format has parallel arrays.
 * Errors:  those of trace/writer.h.
 * Source:  doc/formats/trace.md, "Native dumps"
 */
#ifndef HW_TRACE_STREAM_WRITER_H
#define HW_TRACE_STREAM_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hw_error;
struct hw_trace_writer;

struct hw_stream_event {
    uint64_t address;
    uint64_t size, sample_size, time_ns; /* of allocations */
    uint64_t sequence_number;
    uint32_t heap_id;
    bool is_free;
};

int hw_trace_stream(struct hw_trace_writer *w, uint32_t sequence, uint64_t boottime_ns,
                    const struct hw_stream_event *events, size_t n, struct hw_error *err);

#endif

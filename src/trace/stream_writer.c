#include "trace/stream_writer.h"

#include "base/error.h"
#include "codec/pb.h"
#include "schema/fields.h"
#include "trace/writer.h"

#include "base/banned.h"

#define MAX_RUN 4096u /* events in one packet */

static void write_allocs(struct hw_pb *pb, const struct hw_stream_event *e, size_t n)
{
    hw_pb_begin(pb, HW_F_TracePacket_streaming_allocation);
    for (size_t i = 0; i < n; i++) {
        hw_pb_uint(pb, HW_F_StreamingAllocation_address, e[i].address);
        hw_pb_uint(pb, HW_F_StreamingAllocation_size, e[i].size);
        hw_pb_uint(pb, HW_F_StreamingAllocation_sample_size, e[i].sample_size);
        hw_pb_uint(pb, HW_F_StreamingAllocation_clock_monotonic_coarse_timestamp, e[i].time_ns);
        hw_pb_uint(pb, HW_F_StreamingAllocation_heap_id, e[i].heap_id);
        hw_pb_uint(pb, HW_F_StreamingAllocation_sequence_number, e[i].sequence_number);
    }
    hw_pb_end(pb);
}

static void write_frees(struct hw_pb *pb, const struct hw_stream_event *e, size_t n)
{
    hw_pb_begin(pb, HW_F_TracePacket_streaming_free);
    for (size_t i = 0; i < n; i++) {
        hw_pb_uint(pb, HW_F_StreamingFree_address, e[i].address);
        hw_pb_uint(pb, HW_F_StreamingFree_heap_id, e[i].heap_id);
        hw_pb_uint(pb, HW_F_StreamingFree_sequence_number, e[i].sequence_number);
    }
    hw_pb_end(pb);
}

int hw_trace_stream(struct hw_trace_writer *w, uint32_t sequence, uint64_t boottime_ns,
                    const struct hw_stream_event *events, size_t n, struct hw_error *err)
{
    for (size_t i = 0; i < n;) {
        size_t run = 1;
        while (i + run < n && run < MAX_RUN && events[i + run].is_free == events[i].is_free)
            run++;
        struct hw_pb *pb = hw_trace_begin(w, sequence, boottime_ns);
        if (events[i].is_free)
            write_frees(pb, events + i, run);
        else
            write_allocs(pb, events + i, run);
        int rc = hw_trace_end(w, err);
        if (rc < 0)
            return rc;
        i += run;
    }
    return HW_OK;
}

/* The fields of a heap dump about its process and heap, before its samples. */
#include "codec/pb.h"
#include "schema/fields.h"
#include "trace/profile_writer.h"

#include "base/banned.h"

#define F_PROCESS(name) HW_F_ProfilePacket_ProcessHeapSamples_##name
#define F_STATS(name)   HW_F_ProfilePacket_ProcessStats_##name

static void put_flag(struct hw_pb *pb, uint32_t field, bool on)
{
    if (on)
        hw_pb_uint(pb, field, 1);
}

static void put_number(struct hw_pb *pb, uint32_t field, uint64_t v)
{
    if (v)
        hw_pb_uint(pb, field, v);
}

static void put_histogram(struct hw_pb *pb, const uint64_t *counts)
{
    hw_pb_begin(pb, F_STATS(unwinding_time_us));
    for (uint32_t i = 0; i < HW_UNWIND_BUCKETS; i++) {
        bool last = i + 1 == HW_UNWIND_BUCKETS;
        hw_pb_begin(pb, HW_F_ProfilePacket_Histogram_buckets);
        if (!last)
            hw_pb_uint(pb, HW_F_ProfilePacket_Histogram_Bucket_upper_limit, 1ull << i);
        put_flag(pb, HW_F_ProfilePacket_Histogram_Bucket_max_bucket, last);
        hw_pb_uint(pb, HW_F_ProfilePacket_Histogram_Bucket_count, counts[i]);
        hw_pb_end(pb);
    }
    hw_pb_end(pb);
}

static void put_stats(struct hw_pb *pb, const struct hw_dump_head *h)
{
    hw_pb_begin(pb, F_PROCESS(stats));
    hw_pb_uint(pb, F_STATS(unwinding_errors), h->unwinding_errors);
    hw_pb_uint(pb, F_STATS(heap_samples), h->heap_samples);
    hw_pb_uint(pb, F_STATS(map_reparses), h->map_reparses);
    put_histogram(pb, h->unwinding_time_us);
    hw_pb_uint(pb, F_STATS(total_unwinding_time_us), h->total_unwinding_time_us);
    hw_pb_uint(pb, F_STATS(client_spinlock_blocked_us), h->client_spinlock_blocked_us);
    hw_pb_end(pb);
}

void hw_dump_head_put(struct hw_pb *pb, const struct hw_dump_head *h)
{
    hw_pb_uint(pb, F_PROCESS(pid), h->pid);
    put_flag(pb, F_PROCESS(from_startup), h->from_startup);
    put_flag(pb, F_PROCESS(rejected_concurrent), h->rejected_concurrent);
    put_flag(pb, F_PROCESS(disconnected), h->disconnected);
    put_flag(pb, F_PROCESS(buffer_overran), h->buffer_overran);
    put_flag(pb, F_PROCESS(buffer_corrupted), h->buffer_corrupted);
    put_flag(pb, F_PROCESS(hit_guardrail), h->hit_guardrail);
    hw_pb_str(pb, F_PROCESS(heap_name), h->heap_name);
    hw_pb_uint(pb, F_PROCESS(sampling_interval_bytes), h->interval_bytes);
    hw_pb_uint(pb, F_PROCESS(orig_sampling_interval_bytes), h->orig_interval_bytes);
    hw_pb_uint(pb, F_PROCESS(timestamp), h->timestamp_ns);
    put_number(pb, F_PROCESS(start_timestamp), h->start_timestamp_ns);
    put_number(pb, F_PROCESS(client_error), h->client_error);
    put_flag(pb, F_PROCESS(checkpoint), h->checkpoint);
    put_flag(pb, F_PROCESS(keeps_peak), h->keeps_peak);
    put_flag(pb, F_PROCESS(all_variances), h->all_variances);
    put_flag(pb, F_PROCESS(has_rounding), h->has_rounding);
    put_flag(pb, F_PROCESS(has_temporary), h->has_temporary);
    if (h->trigger)
        hw_pb_str(pb, F_PROCESS(trigger), h->trigger);
    put_number(pb, F_PROCESS(lost_samples), h->lost_samples);
    put_number(pb, F_PROCESS(lost_slices), h->lost_slices);
    if (h->lost_reason)
        hw_pb_str(pb, F_PROCESS(lost_reason), h->lost_reason);
    put_stats(pb, h);
}

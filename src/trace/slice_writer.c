#include "trace/slice_writer.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/memory/map64.h"
#include "codec/pb.h"
#include "schema/fields.h"
#include "trace/writer.h"

#include "base/banned.h"

struct hw_slice_writer {
    struct hw_trace_writer *writer;
    uint32_t sequence;
    struct hw_map64 iids; /* hash of category and name → iid, the same for both */
};

int hw_slice_writer_new(struct hw_trace_writer *w, struct hw_slice_writer **out)
{
    struct hw_slice_writer *s = calloc(1, sizeof *s);
    if (!s)
        return HW_ENOMEM;
    s->writer = w;
    s->sequence = hw_trace_writer_sequence(w);
    *out = s;
    return HW_OK;
}

void hw_slice_writer_free(struct hw_slice_writer *s)
{
    if (!s)
        return;
    hw_map64_done(&s->iids);
    free(s);
}

int hw_slice_write_thread(struct hw_slice_writer *s, uint64_t boottime_ns,
                          const struct hw_slice_thread *t, struct hw_error *err)
{
    struct hw_pb *pb = hw_trace_begin(s->writer, s->sequence, boottime_ns);
    hw_pb_begin(pb, HW_F_TracePacket_track_descriptor);
    hw_pb_uint(pb, HW_F_TrackDescriptor_uuid, t->track);
    hw_pb_begin(pb, HW_F_TrackDescriptor_thread);
    hw_pb_sint64(pb, HW_F_ThreadDescriptor_pid, t->pid);
    hw_pb_sint64(pb, HW_F_ThreadDescriptor_tid, t->tid);
    if (t->name.n)
        hw_pb_bytes(pb, HW_F_ThreadDescriptor_thread_name, t->name.p, t->name.n);
    hw_pb_end(pb);
    hw_pb_end(pb);
    return hw_trace_end(s->writer, err);
}

static void put_entry(struct hw_pb *pb, uint32_t field, uint64_t iid, struct hw_bytes text)
{
    hw_pb_begin(pb, field);
    hw_pb_uint(pb, HW_F_EventName_iid, iid);
    hw_pb_bytes(pb, HW_F_EventName_name, text.p, text.n);
    hw_pb_end(pb);
}
_Static_assert(HW_F_EventName_iid == HW_F_EventCategory_iid &&
                   HW_F_EventName_name == HW_F_EventCategory_name,
               "one form for both");

static void begin_event(struct hw_pb *pb, uint64_t track, uint64_t type)
{
    hw_pb_begin(pb, HW_F_TracePacket_track_event);
    hw_pb_uint(pb, HW_F_TrackEvent_type, type);
    hw_pb_uint(pb, HW_F_TrackEvent_track_uuid, track);
}

int hw_slice_write_begin(struct hw_slice_writer *s, uint64_t boottime_ns, uint64_t track,
                         struct hw_bytes category, struct hw_bytes name, struct hw_error *err)
{
    uint64_t *iid;
    bool fresh;
    uint64_t key =
        hw_hash_mix(hw_hash_bytes(category.p, category.n), hw_hash_bytes(name.p, name.n));
    int rc = hw_map64_at(&s->iids, key, &iid, &fresh);
    if (rc < 0)
        return hw_fail(err, rc, 0, "names of slices:");
    if (fresh)
        *iid = s->iids.n;
    struct hw_pb *pb = hw_trace_begin(s->writer, s->sequence, boottime_ns);
    if (fresh) {
        hw_pb_begin(pb, HW_F_TracePacket_interned_data);
        put_entry(pb, HW_F_InternedData_event_categories, *iid, category);
        put_entry(pb, HW_F_InternedData_event_names, *iid, name);
        hw_pb_end(pb);
    }
    begin_event(pb, track, HW_V_TrackEvent_Type_TYPE_SLICE_BEGIN);
    hw_pb_uint(pb, HW_F_TrackEvent_category_iids, *iid);
    hw_pb_uint(pb, HW_F_TrackEvent_name_iid, *iid);
    hw_pb_end(pb);
    return hw_trace_end(s->writer, err);
}

int hw_slice_write_end(struct hw_slice_writer *s, uint64_t boottime_ns, uint64_t track,
                       struct hw_error *err)
{
    struct hw_pb *pb = hw_trace_begin(s->writer, s->sequence, boottime_ns);
    begin_event(pb, track, HW_V_TrackEvent_Type_TYPE_SLICE_END);
    hw_pb_end(pb);
    return hw_trace_end(s->writer, err);
}

#include "trace/packet.h"

#include "base/error.h"
#include "codec/pb.h"
#include "schema/fields.h"
#include "schema/schema.h"
#include "trace/reader.h"
#include "trace/writer.h"

#include "base/banned.h"

#define F(name) HW_F_TracePacket_##name

enum hw_frame_kind hw_packet_frame_read(struct hw_bytes b, uint64_t left,
                                        struct hw_packet_frame *out)
{
    const uint8_t *p = b.p, *end = hw_bytes_end(b);
    uint64_t tag, n;
    int rc = hw_pb_varint(&p, end, &tag);
    if (rc < 0)
        return rc == HW_ETRUNCATED && left <= HW_PACKET_MAX_HEAD ? HW_FRAME_SHORT : HW_FRAME_BAD;
    if (tag >> 3 == 0 || tag >> 32)
        return HW_FRAME_BAD;
    if ((tag & 7) != HW_PB_BYTES)
        return HW_FRAME_BAD; /* Trace has no numbers */
    rc = hw_pb_varint(&p, end, &n);
    if (rc < 0)
        return rc == HW_ETRUNCATED && left <= HW_PACKET_MAX_HEAD ? HW_FRAME_SHORT : HW_FRAME_BAD;
    out->head = (size_t)(p - b.p);
    out->n = n;
    if (n > left - out->head)
        return HW_FRAME_SHORT;
    if (tag >> 3 != HW_F_Trace_packet)
        return HW_FRAME_OTHER;
    return n > HW_TRACE_MAX_PACKET ? HW_FRAME_BAD : HW_FRAME_PACKET;
}

/* Is the field a member of the oneof `data`? */
static bool is_data(uint32_t number)
{
    switch (number) {
    case F(trusted_uid):
    case F(timestamp):
    case F(trusted_packet_sequence_id):
    case F(interned_data):
    case F(sequence_flags):
    case F(incremental_state_cleared):
    case F(previous_packet_dropped):
    case F(timestamp_clock_id):
    case F(trace_packet_defaults):
    case F(trusted_pid):
    case F(first_packet_on_sequence):
    case F(machine_id):
        return false;
    default:
        return true;
    }
}

static uint32_t clock_of_defaults(struct hw_bytes defaults)
{
    struct hw_pb_reader r = hw_pb_read(defaults);
    struct hw_pb_field f;
    uint32_t clock = 0;
    while (hw_pb_next(&r, &f) == 1)
        if (f.number == HW_F_TracePacketDefaults_timestamp_clock_id)
            clock = (uint32_t)f.value;
    return clock;
}

void hw_packet_read_field(const struct hw_pb_field *f, struct hw_packet *p,
                          struct hw_packet_common *c)
{
    if (is_data(f->number)) {
        if (f->wire == HW_PB_BYTES) {
            /* Field 1 is Trace.packet one level too deep, or ftrace events, which come alone. */
            if (p->data_field && f->number == HW_F_Trace_packet)
                c->swallowed = true;
            p->data_field = f->number;
            p->data = f->bytes;
        }
        return;
    }
    if (f->wire == HW_PB_BYTES) {
        if (f->number == F(interned_data))
            p->interned = f->bytes;
        else if (f->number == F(trace_packet_defaults)) {
            p->defaults = f->bytes;
            c->defaults_clock = clock_of_defaults(f->bytes);
        }
        return;
    }
    switch (f->number) {
    case F(timestamp):
        p->timestamp = f->value;
        p->has_timestamp = true;
        break;
    case F(timestamp_clock_id):
        p->clock_id = (uint32_t)f->value;
        break;
    case F(trusted_packet_sequence_id):
        c->sequence_id = (uint32_t)f->value;
        break;
    case F(machine_id):
        c->machine_id = (uint32_t)f->value;
        break;
    case F(sequence_flags):
        c->flags = (uint32_t)f->value;
        break;
    case F(incremental_state_cleared):
        c->cleared = f->value != 0;
        break;
    case F(previous_packet_dropped):
        c->dropped = f->value != 0;
        break;
    case F(first_packet_on_sequence):
        c->first = f->value != 0;
        break;
    case F(trusted_uid):
        c->has_owner = true;
        break;
    default:
        break;
    }
}

bool hw_packet_read(struct hw_bytes bytes, struct hw_packet *p, struct hw_packet_common *c)
{
    struct hw_pb_reader r = hw_pb_read(bytes);
    struct hw_pb_field f;
    int rc;
    *p = (struct hw_packet){.bytes = bytes};
    *c = (struct hw_packet_common){0};
    while ((rc = hw_pb_next(&r, &f)) == 1)
        hw_packet_read_field(&f, p, c);
    p->sequence = (uint64_t)c->machine_id << 32 | c->sequence_id;
    return rc == 0;
}

bool hw_packet_is_plausible(struct hw_bytes body)
{
    const struct hw_schema_message *m = hw_schema_message_find("TracePacket");
    struct hw_pb_reader r = hw_pb_read(body);
    struct hw_pb_field f;
    struct hw_packet p = {0};
    struct hw_packet_common c = {0};
    int rc;
    while ((rc = hw_pb_next(&r, &f)) == 1) {
        const struct hw_schema_field *known = hw_schema_field_by_number(m, f.number);
        if (!known || hw_schema_wire(known) != f.wire)
            return false;
        hw_packet_read_field(&f, &p, &c);
    }
    return rc == 0 && c.has_owner && c.sequence_id != 0;
}

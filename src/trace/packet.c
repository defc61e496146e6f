#include "trace/packet.h"

#include <unistd.h>

#include "base/error.h"
#include "codec/pb.h"
#include "codec/pb_far.h"
#include "schema/fields.h"
#include "schema/schema.h"
#include "trace/reader.h"
#include "trace/writer.h"

#include "base/banned.h"

#define F(name) HW_F_TracePacket_##name

enum { FIRST_EXTENSION = 1000 };

/* A number beside the packets: its bytes behind the tag at p; 0 = it is damaged or cut off. */
static size_t number_bytes(const uint8_t *p, const uint8_t *end, uint64_t wire)
{
    const uint8_t *at = p;
    uint64_t unused;
    size_t n = wire == HW_PB_FIXED64 ? 8 : wire == HW_PB_FIXED32 ? 4 : 0;
    if (wire == HW_PB_VARINT)
        return hw_pb_varint(&at, end, &unused) < 0 ? 0 : (size_t)(at - p);
    return n <= (size_t)(end - p) ? n : 0;
}

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
    out->number = (uint32_t)(tag >> 3);
    out->wire = tag & 7;
    if ((tag & 7) != HW_PB_BYTES) {
        size_t bytes = number_bytes(p, end, tag & 7);
        out->head = (size_t)(p - b.p) + bytes;
        out->n = 0;
        return bytes && out->number != HW_F_Trace_packet ? HW_FRAME_OTHER : HW_FRAME_BAD;
    }
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

/* A number in its place is part of another message, which was taken for a packet. */
static bool is_message(uint32_t number)
{
    const struct hw_schema_message *m = hw_schema_message_find("TracePacket");
    const struct hw_schema_field *known = hw_schema_field_by_number(m, number);
    return known && known->type == HW_T_MESSAGE;
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
        } else if (f->number < FIRST_EXTENSION) {
            c->misplaced |= is_message(f->number);
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
    return rc == 0 && !c->misplaced;
}

bool hw_packet_has_number(uint32_t field, uint32_t wire)
{
    const struct hw_schema_message *m = hw_schema_message_find("TracePacket");
    const struct hw_schema_field *known = hw_schema_field_by_number(m, field);
    return known && wire != HW_PB_BYTES && hw_schema_wire(known) == wire;
}

static bool read_known(struct hw_bytes body, struct hw_packet_common *c)
{
    const struct hw_schema_message *m = hw_schema_message_find("TracePacket");
    struct hw_pb_reader r = hw_pb_read(body);
    struct hw_pb_field f;
    struct hw_packet p = {0};
    int rc;
    *c = (struct hw_packet_common){0};
    while ((rc = hw_pb_next(&r, &f)) == 1) {
        const struct hw_schema_field *known = hw_schema_field_by_number(m, f.number);
        if (!known || hw_schema_wire(known) != f.wire)
            return false;
        hw_packet_read_field(&f, &p, c);
    }
    return rc == 0;
}

bool hw_packet_is_known(struct hw_bytes body)
{
    struct hw_packet_common c;
    return body.n && read_known(body, &c) && !c.swallowed;
}

bool hw_packet_is_plausible(struct hw_bytes body)
{
    struct hw_packet_common c;
    return read_known(body, &c) && c.has_owner && c.sequence_id != 0;
}

/* ---- large packets ---- */

/* Does this ProfilePacket have only dumps and numbers? *continued: its field of that name. */
static bool is_only_dumps(const struct hw_pb_far *packet, uint64_t bytes, bool *continued)
{
    struct hw_pb_far in = *packet;
    struct hw_pb_field f;
    int rc;
    *continued = false;
    in.end = packet->pos;
    in.pos = packet->pos - bytes;
    while ((rc = hw_pb_far_next(&in, &f)) == 1) {
        if (f.wire == HW_PB_BYTES && f.number != HW_F_ProfilePacket_process_dumps)
            return false;
        if (f.number == HW_F_ProfilePacket_continued)
            *continued = f.value != 0;
    }
    return rc == 0;
}

/* Need this field of a packet not be read? Nothing of a heap graph is needed. */
static bool is_left_out(const struct hw_pb_far *packet, const struct hw_pb_field *f,
                        bool *continued)
{
    return f->number == F(heap_graph) ||
           (f->number == F(profile_packet) && is_only_dumps(packet, f->value, continued));
}

/* Does the file still reach that far? */
static bool has_byte(int fd, uint64_t at)
{
    char byte;
    return pread(fd, &byte, 1, (off_t)at) == 1;
}

bool hw_packet_leave_out_samples(int fd, uint64_t at, uint64_t size, uint64_t least,
                                 struct hw_packet *p, struct hw_packet_common *c, uint64_t *end)
{
    static const uint8_t continues[] = {HW_F_ProfilePacket_continued << 3 | HW_PB_VARINT, 1};
    struct hw_pb_far far = {.fd = fd, .pos = at, .end = size};
    struct hw_pb_field f;
    bool continued = false;
    int rc = hw_pb_far_next(&far, &f);
    if (rc != 1 || f.wire != HW_PB_BYTES || f.number != HW_F_Trace_packet || f.value < least ||
        f.value > HW_TRACE_MAX_PACKET)
        return false;
    far.end = *end = far.pos;
    far.pos -= f.value;
    *p = (struct hw_packet){0};
    *c = (struct hw_packet_common){0};
    while ((rc = hw_pb_far_next(&far, &f)) == 1) {
        if (f.wire == HW_PB_BYTES && (p->data_field || !is_left_out(&far, &f, &continued)))
            return false;
        hw_packet_read_field(&f, p, c);
    }
    p->sequence = (uint64_t)c->machine_id << 32 | c->sequence_id;
    if (continued)
        p->data = hw_bytes_of(continues, sizeof continues);
    return rc == 0 && p->data_field && (f.wire != HW_PB_BYTES || has_byte(fd, *end - 1));
}

/*
 * packet.h - one packet of a trace: where it ends, and its fields that every kind has
 *
 * Why:     the reader (reader.c) goes through a file; what a packet's bytes say, and whether they
 *          are a packet at all, needs no file.
 * Shapes:  Trace is a row of `packet` fields: a tag, a length, a TracePacket.
 */
#ifndef HW_TRACE_PACKET_H
#define HW_TRACE_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct hw_packet;
struct hw_pb_field;

#define HW_PACKET_MAX_HEAD 16 /* bytes of a packet's tag and length */

enum hw_frame_kind {
    HW_FRAME_PACKET, /* body is a TracePacket */
    HW_FRAME_OTHER,  /* some other field of Trace: step over it */
    HW_FRAME_SHORT,  /* the input ends inside it */
    HW_FRAME_BAD
};

struct hw_packet_frame {
    size_t head; /* bytes of tag and length */
    uint64_t n;  /* bytes of the body */
};

/* What stands at the start of b; `left` bytes remain in the file, b may be fewer. */
enum hw_frame_kind hw_packet_frame_read(struct hw_bytes b, uint64_t left,
                                        struct hw_packet_frame *out);

/* What the reader needs of a packet and its caller does not. */
struct hw_packet_common {
    uint32_t sequence_id, machine_id, flags, defaults_clock;
    bool cleared, dropped, first, has_owner;
    bool swallowed; /* it holds what looks like further packets: its length is too long */
};

void hw_packet_take_field(const struct hw_pb_field *f, struct hw_packet *p,
                          struct hw_packet_common *c);
/* False: damaged. */
bool hw_packet_read(struct hw_bytes bytes, struct hw_packet *p, struct hw_packet_common *c);
/* Would somebody have written this as a packet? Asked only while searching. */
bool hw_packet_is_plausible(struct hw_bytes body);

#endif

/*
 * packet.h - one packet of a trace: where it ends, and the fields that all kinds have
 *
 * Why:     reader.c reads a file; decoding a packet's bytes, and deciding whether they are a packet
 *          at all, needs no file.
 * Shapes:  Trace is a sequence of `packet` fields: a tag, a length, a TracePacket.
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
    HW_FRAME_OTHER,  /* another field of Trace, of any wire type: nobody knows it */
    HW_FRAME_SHORT,  /* the input ends inside it */
    HW_FRAME_BAD
};

struct hw_packet_frame {
    size_t head;     /* bytes of tag and length, or of all of a number */
    uint64_t n;      /* bytes of the body */
    uint32_t number; /* of the field */
    uint32_t wire;   /* its type */
};

/* What is at the start of b; `left` bytes remain in the file, b may be fewer. */
enum hw_frame_kind hw_packet_frame_read(struct hw_bytes b, uint64_t left,
                                        struct hw_packet_frame *out);

/* Fields of a packet that the reader needs and its caller does not. */
struct hw_packet_common {
    uint32_t sequence_id, machine_id, flags, defaults_clock;
    bool cleared, dropped, first, has_owner;
    bool misplaced; /* a field that is a message in packets is a number here */
    bool swallowed; /* it contains what looks like further packets: its length is too long */
};

void hw_packet_read_field(const struct hw_pb_field *f, struct hw_packet *p,
                          struct hw_packet_common *c);
/* False if it is damaged. */
bool hw_packet_read(struct hw_bytes bytes, struct hw_packet *p, struct hw_packet_common *c);
/* Are all its fields those of a packet, with their wire types? */
bool hw_packet_is_known(struct hw_bytes body);
/* Does such a number belong into a packet? Then it is not a field beside packets. */
bool hw_packet_has_number(uint32_t field, uint32_t wire);
/* Does this look like a written packet? Used only to find the next packet after damage. */
bool hw_packet_is_plausible(struct hw_bytes body);

/*
 * Decodes a packet of samples, or of objects, of at least `least` bytes at `at` of a file, without
 * reading these; *end: where it ends. False: it must be read, as it is another packet, or damaged
 * in any way.
 */
bool hw_packet_leave_out_samples(int fd, uint64_t at, uint64_t size, uint64_t least,
                                 struct hw_packet *p, struct hw_packet_common *c, uint64_t *end);

#endif

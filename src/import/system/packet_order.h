/*
 * packet_order.h - packets in the order of time, whatever their order in the file
 *
 * Why:     several writers share a file, and one may write later what it saw earlier. Other readers sort;
 *          rows must have the same numbers here.
 * Shapes:  a first way through the file sees each packet's time; a packet that is older than one before it is
 *          late. All others are in order, so the second way through is a merge: before a packet come the
 *          late ones that are older. A packet without a time has the greatest so far, equal times keep the
 *          file's order.
 * Owns:    a description of each late packet, and the bytes of those that came out of a compressed one.
 * Errors:  HW_ENOMEM.
 * Source:  doc/formats/reading.md, "1. Processes and threads"
 */
#ifndef HW_IMPORT_SYSTEM_PACKET_ORDER_H
#define HW_IMPORT_SYSTEM_PACKET_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "trace/reader.h"

struct hw_late_packet {
    struct hw_packet packet; /* its views: of copy, or to be read again */
    uint8_t *copy;           /* owned; NULL: it stands in the file itself */
    int64_t ts_ns;
    uint64_t number; /* in the file */
};

struct hw_packet_order {
    HW_VEC(struct hw_late_packet) late; /* by time once the first way is through */
    HW_VEC(uint64_t) numbers;           /* of the late ones, in the file's order */
    size_t next_late, next_number;
    uint64_t number; /* of the packet at hand */
    int64_t newest_ns;

    bool may_be_needed; /* times fall, as far as can be seen without converting them */
    bool has_raw;
    uint32_t raw_clock;
    uint64_t raw_ts;
};

/* Its place among others is that of its rows. */
bool hw_packet_is_ordered(const struct hw_packet *p);
uint32_t hw_packet_clock(const struct hw_packet *p);

void hw_packet_order_init(struct hw_packet_order *o);
void hw_packet_order_done(struct hw_packet_order *o);
/* Before the clocks are known: is there anything to put in order? Of one clock, times rise as they
 * are; several must be converted first. */
void hw_packet_order_see_raw(struct hw_packet_order *o, const struct hw_packet *p);
/* The first way: each packet in turn; has_time false: it has none, or one that cannot be placed. */
int hw_packet_order_see(struct hw_packet_order *o, const struct hw_packet *p, bool has_time,
                        int64_t ts_ns);
void hw_packet_order_rewind(struct hw_packet_order *o);
/* The second way: is the next packet one that comes, or came, at another place? */
bool hw_packet_order_is_late(struct hw_packet_order *o);
/* The next late packet that is older than ts_ns; NULL = none. */
struct hw_late_packet *hw_packet_order_take(struct hw_packet_order *o, int64_t ts_ns);

#endif

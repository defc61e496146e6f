/*
 * packet_order.h - packets in the order of time, whatever their order in the file
 *
 * Why:     several writers share a file, and one may write a packet late. Other readers sort them,
 *          and rows must have the same numbers here.
 * Shapes:  the first pass adds each packet's time; a packet that is older than one before it is
 *          late. All others are in order, so the second pass is a merge: the late packets that are
 *          older come before a packet. A packet without a time gets the greatest so far; equal
 *          times keep the file's order.
 * Owns:    a description of each late packet, and the bytes of those from a compressed packet.
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
    struct hw_packet packet; /* views of copy; without a copy it must be read again */
    uint8_t *copy;           /* owned; NULL = it is in the file itself */
    int64_t ts_ns;
    uint64_t number; /* in the file */
};

struct hw_packet_order {
    HW_VEC(struct hw_late_packet) late; /* by time after the first pass */
    HW_VEC(uint64_t) numbers;           /* of the late ones, in the file's order */
    size_t next_late, next_number;
    uint64_t number; /* of the current packet */
    int64_t newest_ns;

    bool may_be_needed; /* unconverted times decrease, or there are several clocks */
    bool has_raw;
    uint32_t raw_clock;
    uint64_t raw_ts;
};

/* Does the packet's position among others decide the order of rows? */
bool hw_packet_is_ordered(const struct hw_packet *p);
uint32_t hw_packet_clock(const struct hw_packet *p);

void hw_packet_order_init(struct hw_packet_order *o);
void hw_packet_order_done(struct hw_packet_order *o);
/* Before the clocks are known: sets may_be_needed. Times of one clock can be compared unconverted;
 * those of several clocks cannot. */
void hw_packet_order_check_raw(struct hw_packet_order *o, const struct hw_packet *p);
/* The first pass: each packet in turn; has_time is false if its time is missing or unknown. */
int hw_packet_order_add(struct hw_packet_order *o, const struct hw_packet *p, bool has_time,
                        int64_t ts_ns);
void hw_packet_order_rewind(struct hw_packet_order *o);
/* The second pass: is the next packet a late one, which is read elsewhere? */
bool hw_packet_order_is_late(struct hw_packet_order *o);
/* The next late packet that is older than ts_ns; NULL = none. */
struct hw_late_packet *hw_packet_order_next_late(struct hw_packet_order *o, int64_t ts_ns);

#endif

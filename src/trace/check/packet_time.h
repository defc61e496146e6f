/* packet_time.h - checks that times are present, in order, and in clocks that the trace defines */
#ifndef HW_TRACE_CHECK_PACKET_TIME_H
#define HW_TRACE_CHECK_PACKET_TIME_H

#include <stdint.h>

struct hw_checker;
struct hw_packet;

int hw_check_packet_time(struct hw_checker *c, const struct hw_packet *p);
/* A heap dump has a time, which is in CLOCK_MONOTONIC_COARSE. */
int hw_check_dump_clock(struct hw_checker *c);
/* Reports clocks that were used and never defined. */
void hw_check_clocks_end(struct hw_checker *c);
void hw_check_clocks_done(struct hw_checker *c);

#endif

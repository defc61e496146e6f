/* check_fields.h - checks each field of a packet: encoding, number, type, text, references */
#ifndef HW_TRACE_CHECK_CHECK_FIELDS_H
#define HW_TRACE_CHECK_CHECK_FIELDS_H

#include "base/bytes.h"

struct hw_checker;
struct hw_check_sequence;

/* A whole TracePacket; s: its sequence, NULL = none. */
int hw_check_fields(struct hw_checker *c, struct hw_check_sequence *s, struct hw_bytes packet);

#endif

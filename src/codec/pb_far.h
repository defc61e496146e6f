/*
 * pb_far.h - the fields of a message in a file, without the bytes of those that are not wanted
 *
 * Why:     a packet of 400 KB of samples is asked for its sequence first; that takes two reads of a
 *          few bytes.
 * Shapes:  like hw_pb_next, but of nested messages, strings and bytes only the length is given.
 * Owns:    nothing; fd is borrowed, and read by pread.
 * Errors:  HW_ETRUNCATED, HW_EFORMAT as hw_pb_next; HW_ESYS; a file that ends before `end` does is
 *          HW_ETRUNCATED.
 */
#ifndef HW_CODEC_PB_FAR_H
#define HW_CODEC_PB_FAR_H

#include <stddef.h>
#include <stdint.h>

#include "codec/pb.h"

struct hw_pb_far {
    int fd;
    uint64_t pos, end; /* of the message, in the file; pos moves on */
    uint64_t near_at;
    size_t near_n;
    uint8_t near[256]; /* what was read last */
};

/*
 * 1 = a field, 0 = end of the message, < 0 = broken. HW_PB_BYTES: out->value is the length, the
 * content ends at r->pos, out->bytes is empty.
 */
int hw_pb_far_next(struct hw_pb_far *r, struct hw_pb_field *out);

#endif

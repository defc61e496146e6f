/*
 * pb_far.h - the fields of a message in a file, without reading their content
 *
 * Why:     the first pass needs only the sequence of a packet with 400 KB of samples, which takes
 *          two reads of a few bytes.
 * Shapes:  like hw_pb_next, but nested messages, strings and bytes give only their length.
 * Owns:    nothing; fd is borrowed, and read by pread.
 * Errors:  HW_ETRUNCATED, HW_EFORMAT as hw_pb_next; HW_ESYS; HW_ETRUNCATED if the file ends before
 *          `end`.
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
    uint8_t near[256]; /* bytes read last, from offset near_at */
};

/*
 * 1 = a field, 0 = end of the message, < 0 = broken. HW_PB_BYTES: out->value is the length, the
 * content ends at r->pos, out->bytes is empty.
 */
int hw_pb_far_next(struct hw_pb_far *r, struct hw_pb_field *out);

#endif

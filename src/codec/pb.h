/*
 * pb.h - protobuf's wire format: a cursor that reads, a buffer that writes
 *
 * Why:     traces have 10^8 fields; reading must not allocate, writing must not copy twice.
 * Shapes:  reader: one field at a time; to skip a field, read the next. Nested messages are views.
 *          Writer: nested messages by begin/end with a 4-byte length that is filled in later
 *          (non-minimal varints are legal in this format).
 * Errors:  HW_ETRUNCATED, HW_EFORMAT (bad tag, varint over 10 bytes, wire types 3, 4, 6, 7).
 * Source:  protobuf.dev/programming-guides/encoding; doc/formats/trace.md
 */
#ifndef HW_CODEC_PB_H
#define HW_CODEC_PB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/text/strbuf.h"

enum hw_pb_wire { HW_PB_VARINT = 0, HW_PB_FIXED64 = 1, HW_PB_BYTES = 2, HW_PB_FIXED32 = 5 };

struct hw_pb_field {
    uint32_t number;
    uint32_t wire;         /* enum hw_pb_wire */
    uint64_t value;        /* VARINT, FIXED64, FIXED32 */
    struct hw_bytes bytes; /* BYTES: borrowed from the message */
    size_t offset;         /* of the field's tag in the message */
};

struct hw_pb_reader {
    const uint8_t *start, *pos, *end;
    const uint8_t *readable; /* >= end: bytes up to here may be loaded with the last ones */
};

static inline struct hw_pb_reader hw_pb_read(struct hw_bytes message)
{
    const uint8_t *end = hw_bytes_end(message);
    return (struct hw_pb_reader){message.p, message.p, end, end};
}

/* The rarely used parts of the two functions below. */
int hw_pb_varint_slow(const uint8_t **pos, const uint8_t *end, uint64_t *out);
int hw_pb_next_slow(struct hw_pb_reader *r, struct hw_pb_field *out);

/*
 * A varint of at most eight bytes; eight must be readable. Returns its value, *n = its bytes; *n =
 * 0 if it is longer. No loop: the lengths of a trace's numbers are unpredictable, and a
 * mispredicted branch per number is half of the reader's time.
 */
static inline uint64_t hw_pb_varint8(const uint8_t *p, unsigned *n)
{
    uint64_t w = hw_load_u64(p);
    uint64_t stops = ~w & 0x8080808080808080u; /* the last byte's top bit is clear */
    if (hw_unlikely(!stops)) {
        *n = 0;
        return 0;
    }
    *n = ((unsigned)__builtin_ctzll(stops) >> 3) + 1;
    w &= (stops ^ (stops - 1)) & 0x7f7f7f7f7f7f7f7fu;
    w = (w & 0x7f007f007f007f00u) >> 1 | (w & 0x007f007f007f007fu);
    w = (w & 0x3fff00003fff0000u) >> 2 | (w & 0x00003fff00003fffu);
    return (w & 0x0fffffff00000000u) >> 4 | (w & 0x000000000fffffffu);
}

/* Reads one varint at *pos, which moves after it. 0, or < 0 and *pos is unchanged. */
static inline int hw_pb_varint(const uint8_t **pos, const uint8_t *end, uint64_t *out)
{
    if (hw_likely(*pos < end && **pos < 0x80)) {
        *out = *(*pos)++;
        return 0;
    }
    return hw_pb_varint_slow(pos, end, out);
}

/* 1 = a field, 0 = end of the message, < 0 = broken (the reader does not move). */
static inline int hw_pb_next(struct hw_pb_reader *r, struct hw_pb_field *out)
{
    /* Nearly all fields: a tag of one or two bytes, and a number or a length of up to eight. */
    const uint8_t *p = r->pos;
    if (p == r->end)
        return 0;
    if (hw_unlikely(r->readable - p < 10))
        return hw_pb_next_slow(r, out);
    uint32_t tag = *p++;
    if (tag >= 0x80) {
        if (hw_unlikely(*p >= 0x80))
            return hw_pb_next_slow(r, out);
        tag = (tag & 0x7f) | (uint32_t)*p++ << 7;
    }
    unsigned n = sizeof(uint64_t), wire = tag & 7;
    struct hw_bytes bytes = {NULL, 0};
    if (wire == HW_PB_VARINT || wire == HW_PB_BYTES)
        out->value = hw_pb_varint8(p, &n);
    else if (wire == HW_PB_FIXED64)
        out->value = hw_load_u64(p);
    else
        return hw_pb_next_slow(r, out);
    ptrdiff_t left = r->end - p - (ptrdiff_t)n; /* negative: a broken field */
    if (hw_unlikely(!n || !(tag >> 3) || left < 0))
        return hw_pb_next_slow(r, out);
    p += n;
    if (wire == HW_PB_BYTES) {
        if (hw_unlikely(out->value > (size_t)left))
            return hw_pb_next_slow(r, out);
        bytes = hw_bytes_of(p, (size_t)out->value);
        p += out->value;
    }
    out->number = tag >> 3;
    out->wire = wire;
    out->offset = (size_t)(r->pos - r->start);
    out->bytes = bytes;
    r->pos = p;
    return 1;
}

/* Removes one varint from a packed field's bytes: 1, 0 at the end, < 0. */
int hw_pb_next_packed(struct hw_bytes *rest, uint64_t *out);
/* Reads all of them to out, which needs room for as many as there are bytes; *n = their number, on
 * an error that of those before the damage. `in`: the reader of the message around them. 0, < 0. */
int hw_pb_packed_in(struct hw_bytes packed, const struct hw_pb_reader *in, uint64_t *out,
                    size_t *n);
static inline int64_t hw_pb_zigzag(uint64_t v)
{
    return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

/* ---- writer ---- */

#define HW_PB_MAX_DEPTH 16

struct hw_pb {
    struct hw_strbuf buf;
    size_t open[HW_PB_MAX_DEPTH]; /* offsets of lengths to fill in */
    int depth;
};

void hw_pb_done(struct hw_pb *w);
void hw_pb_clear(struct hw_pb *w);
void hw_pb_uint(struct hw_pb *w, uint32_t field, uint64_t v);
void hw_pb_sint64(struct hw_pb *w, uint32_t field, int64_t v); /* int64/int32 fields, not zigzag */
void hw_pb_double(struct hw_pb *w, uint32_t field, double v);
void hw_pb_float(struct hw_pb *w, uint32_t field, float v);
void hw_pb_fixed64(struct hw_pb *w, uint32_t field, uint64_t v);
void hw_pb_bytes(struct hw_pb *w, uint32_t field, const void *p, size_t n);
void hw_pb_str(struct hw_pb *w, uint32_t field, const char *s);
void hw_pb_begin(struct hw_pb *w, uint32_t field);
void hw_pb_end(struct hw_pb *w);
/* Varints written with hw_pb_raw_varint between begin and end make a packed field. */
void hw_pb_raw_varint(struct hw_pb *w, uint64_t v);
bool hw_pb_failed(const struct hw_pb *w); /* out of memory somewhere: check once at the end */
static inline struct hw_bytes hw_pb_view(const struct hw_pb *w)
{
    return hw_bytes_of(w->buf.p, w->buf.n);
}

#endif

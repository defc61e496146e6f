/*
 * A tag is (number << 3 | wire type). Nested messages are written with a fixed length of four
 * bytes, 0x80 | 7 bits three times and 7 bits: room for 256 MiB, and nothing moves when it ends.
 */
#include "codec/pb.h"

#include <string.h>

#include "base/error.h"

#include "base/banned.h"

enum { LENGTH_BYTES = 4, MAX_NESTED = (1 << 28) - 1, MAX_VARINT = 10 };

int hw_pb_varint_slow(const uint8_t **pos, const uint8_t *end, uint64_t *out)
{
    uint64_t v = 0;
    const uint8_t *p = *pos;
    unsigned n = 0;
    if (end - p >= 8)
        v = hw_pb_varint8(p, &n);
    if (n) {
        *pos = p + n;
        *out = v;
        return HW_OK;
    }
    for (unsigned i = 0; i < MAX_VARINT; i++) {
        if (p == end)
            return HW_ETRUNCATED;
        uint8_t b = *p++;
        v |= (uint64_t)(b & 0x7f) << (7 * i); /* drops the tenth byte's surplus bits */
        if (b < 0x80) {
            *pos = p;
            *out = v;
            return HW_OK;
        }
    }
    return HW_EFORMAT;
}

static int read_value(struct hw_pb_reader *r, const uint8_t **pos, struct hw_pb_field *out)
{
    size_t left = (size_t)(r->end - *pos);
    int rc;
    switch (out->wire) {
    case HW_PB_VARINT:
        return hw_pb_varint(pos, r->end, &out->value);
    case HW_PB_FIXED64:
        if (left < 8)
            return HW_ETRUNCATED;
        out->value = hw_load_u64(*pos);
        *pos += 8;
        return HW_OK;
    case HW_PB_FIXED32:
        if (left < 4)
            return HW_ETRUNCATED;
        out->value = hw_load_u32(*pos);
        *pos += 4;
        return HW_OK;
    case HW_PB_BYTES:
        rc = hw_pb_varint(pos, r->end, &out->value);
        if (rc < 0)
            return rc;
        if (out->value > (size_t)(r->end - *pos))
            return HW_ETRUNCATED;
        out->bytes = hw_bytes_of(*pos, (size_t)out->value);
        *pos += out->value;
        return HW_OK;
    default:
        return HW_EFORMAT;
    }
}

int hw_pb_next_slow(struct hw_pb_reader *r, struct hw_pb_field *out)
{
    if (r->pos == r->end)
        return 0;
    const uint8_t *pos = r->pos;
    uint64_t tag;
    int rc = hw_pb_varint(&pos, r->end, &tag);
    if (rc < 0)
        return rc;
    if (tag >> 3 == 0 || tag >> 32)
        return HW_EFORMAT;
    out->number = (uint32_t)(tag >> 3);
    out->wire = (uint32_t)(tag & 7);
    out->offset = (size_t)(r->pos - r->start);
    out->bytes = (struct hw_bytes){NULL, 0};
    rc = read_value(r, &pos, out);
    if (rc < 0)
        return rc;
    r->pos = pos;
    return 1;
}

int hw_pb_next_packed(struct hw_bytes *rest, uint64_t *out)
{
    if (!rest->n)
        return 0;
    const uint8_t *pos = rest->p;
    int rc = hw_pb_varint(&pos, hw_bytes_end(*rest), out);
    if (rc < 0)
        return rc;
    rest->n -= (size_t)(pos - rest->p);
    rest->p = pos;
    return 1;
}

int hw_pb_packed_in(struct hw_bytes packed, const struct hw_pb_reader *in, uint64_t *out, size_t *n)
{
    const uint8_t *p = packed.p, *end = hw_bytes_end(packed);
    size_t i = 0;
    int rc = HW_OK;
    while (p < end) {
        unsigned length = 0;
        if (hw_likely(in->readable - p >= 8))
            out[i] = hw_pb_varint8(p, &length);
        if (hw_likely(length && (ptrdiff_t)length <= end - p)) {
            p += length;
        } else {
            rc = hw_pb_varint(&p, end, &out[i]);
            if (rc < 0)
                break;
        }
        i++;
    }
    *n = i;
    return rc;
}

/* ---- writer ---- */

void hw_pb_done(struct hw_pb *w)
{
    hw_strbuf_done(&w->buf);
    *w = (struct hw_pb){0};
}

void hw_pb_clear(struct hw_pb *w)
{
    hw_strbuf_clear(&w->buf);
    w->buf.failed = false;
    w->depth = 0;
}

bool hw_pb_failed(const struct hw_pb *w)
{
    return w->buf.failed;
}

static size_t put_varint(uint8_t *p, uint64_t v)
{
    size_t n = 0;
    while (v >= 0x80) {
        p[n++] = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    p[n++] = (uint8_t)v;
    return n;
}

void hw_pb_raw_varint(struct hw_pb *w, uint64_t v)
{
    uint8_t b[MAX_VARINT];
    hw_strbuf_add(&w->buf, b, put_varint(b, v));
}

void hw_pb_uint(struct hw_pb *w, uint32_t field, uint64_t v)
{
    uint8_t b[2 * MAX_VARINT];
    size_t n = put_varint(b, (uint64_t)field << 3 | HW_PB_VARINT);
    n += put_varint(b + n, v);
    hw_strbuf_add(&w->buf, b, n);
}

void hw_pb_sint64(struct hw_pb *w, uint32_t field, int64_t v)
{
    hw_pb_uint(w, field, (uint64_t)v);
}

void hw_pb_fixed64(struct hw_pb *w, uint32_t field, uint64_t v)
{
    uint8_t b[MAX_VARINT + 8];
    size_t n = put_varint(b, (uint64_t)field << 3 | HW_PB_FIXED64);
    memcpy(b + n, &v, 8);
    hw_strbuf_add(&w->buf, b, n + 8);
}

void hw_pb_double(struct hw_pb *w, uint32_t field, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    hw_pb_fixed64(w, field, bits);
}

void hw_pb_float(struct hw_pb *w, uint32_t field, float v)
{
    uint8_t b[MAX_VARINT + sizeof v];
    size_t n = put_varint(b, (uint64_t)field << 3 | HW_PB_FIXED32);
    memcpy(b + n, &v, sizeof v);
    hw_strbuf_add(&w->buf, b, n + sizeof v);
}

void hw_pb_bytes(struct hw_pb *w, uint32_t field, const void *p, size_t n)
{
    uint8_t b[2 * MAX_VARINT];
    size_t head = put_varint(b, (uint64_t)field << 3 | HW_PB_BYTES);
    head += put_varint(b + head, n);
    hw_strbuf_add(&w->buf, b, head);
    hw_strbuf_add(&w->buf, p, n);
}

void hw_pb_str(struct hw_pb *w, uint32_t field, const char *s)
{
    hw_pb_bytes(w, field, s, strlen(s));
}

void hw_pb_begin(struct hw_pb *w, uint32_t field)
{
    static const uint8_t no_length[LENGTH_BYTES];
    hw_pb_raw_varint(w, (uint64_t)field << 3 | HW_PB_BYTES);
    hw_strbuf_add(&w->buf, no_length, LENGTH_BYTES);
    if (w->depth >= HW_PB_MAX_DEPTH) {
        w->buf.failed = true;
        return;
    }
    w->open[w->depth++] = w->buf.n;
}

void hw_pb_end(struct hw_pb *w)
{
    if (w->buf.failed || w->depth == 0) {
        w->buf.failed = true;
        return;
    }
    size_t start = w->open[--w->depth];
    size_t n = w->buf.n - start;
    if (n > MAX_NESTED) {
        w->buf.failed = true;
        return;
    }
    uint8_t *at = (uint8_t *)w->buf.p + start - LENGTH_BYTES;
    for (int i = 0; i < LENGTH_BYTES; i++)
        at[i] = (uint8_t)((n >> (7 * i) & 0x7f) | (i + 1 < LENGTH_BYTES ? 0x80 : 0));
}

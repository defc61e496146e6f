#include "codec/pb_far.h"

#include <errno.h>
#include <unistd.h>

#include "base/error.h"

#include "base/banned.h"

enum { MAX_FIELD = 20 }; /* tag and number, or tag and length */

/* The bytes at pos: enough for a field without content, or all that is left. */
static int peek(struct hw_pb_far *r, struct hw_bytes *out)
{
    uint64_t left = r->end - r->pos;
    size_t want = left < MAX_FIELD ? (size_t)left : MAX_FIELD;
    if (r->pos < r->near_at || r->pos + want > r->near_at + r->near_n) {
        size_t n = left < sizeof r->near ? (size_t)left : sizeof r->near;
        ssize_t got;
        do
            got = pread(r->fd, r->near, n, (off_t)r->pos);
        while (got < 0 && errno == EINTR);
        r->near_at = r->pos;
        r->near_n = got > 0 ? (size_t)got : 0;
        if (got < 0)
            return HW_ESYS;
        if (r->near_n < want)
            return HW_ETRUNCATED;
    }
    size_t skip = (size_t)(r->pos - r->near_at), have = r->near_n - skip;
    *out = hw_bytes_of(r->near + skip, have < left ? have : (size_t)left);
    return HW_OK;
}

int hw_pb_far_next(struct hw_pb_far *r, struct hw_pb_field *out)
{
    struct hw_bytes b;
    uint64_t tag, length;
    if (r->pos >= r->end)
        return 0;
    int rc = peek(r, &b);
    if (rc < 0)
        return rc;
    const uint8_t *p = b.p, *end = hw_bytes_end(b);
    rc = hw_pb_varint(&p, end, &tag);
    if (rc < 0)
        return rc;
    if ((tag & 7) != HW_PB_BYTES) {
        struct hw_pb_reader in = hw_pb_read(b);
        rc = hw_pb_next(&in, out);
        r->pos += (size_t)(in.pos - in.start);
        return rc;
    }
    if (tag >> 3 == 0 || tag >> 32)
        return HW_EFORMAT;
    rc = hw_pb_varint(&p, end, &length);
    if (rc < 0)
        return rc;
    uint64_t content = r->pos + (size_t)(p - b.p);
    if (length > r->end - content)
        return HW_ETRUNCATED;
    *out =
        (struct hw_pb_field){.number = (uint32_t)(tag >> 3), .wire = HW_PB_BYTES, .value = length};
    r->pos = content + length;
    return 1;
}

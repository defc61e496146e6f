#include "fleet/push/row_binary.h"

#include <math.h>

#include "base/banned.h"

static const uint8_t *take(struct hw_rows *r, uint64_t n)
{
    if (r->bad || n > (uint64_t)(r->end - r->at)) {
        r->bad = true;
        return NULL;
    }
    const uint8_t *p = r->at;
    r->at += n;
    return p;
}

uint32_t hw_rows_u32(struct hw_rows *r)
{
    const uint8_t *p = take(r, sizeof(uint32_t));
    return p ? hw_load_u32(p) : 0;
}

uint64_t hw_rows_u64(struct hw_rows *r)
{
    const uint8_t *p = take(r, sizeof(uint64_t));
    return p ? hw_load_u64(p) : 0;
}

int64_t hw_rows_i64(struct hw_rows *r)
{
    return (int64_t)hw_rows_u64(r);
}

double hw_rows_real(struct hw_rows *r)
{
    uint64_t bits = hw_rows_u64(r);
    double v;
    memcpy(&v, &bits, sizeof v);
    if (isfinite(v))
        return v;
    r->bad = true;
    return 0;
}

static uint64_t varint(struct hw_rows *r)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        const uint8_t *p = take(r, 1);
        if (!p)
            return 0;
        v |= (uint64_t)(*p & 0x7f) << shift;
        if (!(*p & 0x80))
            return v;
    }
    r->bad = true;
    return 0;
}

struct hw_bytes hw_rows_text(struct hw_rows *r)
{
    uint64_t n = varint(r);
    const uint8_t *p = take(r, n);
    return p ? hw_bytes_of(p, (size_t)n) : hw_bytes_of("", 0);
}

uint64_t hw_rows_count(struct hw_rows *r)
{
    uint64_t n = varint(r);
    if (n > (uint64_t)(r->end - r->at)) {
        r->bad = true;
        return 0;
    }
    return n;
}

#include "fleet/store/rowbinary.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"

#include "base/banned.h"

void hw_row_put_u16(struct hw_strbuf *out, uint16_t v)
{
    hw_strbuf_add(out, &v, sizeof v);
}

void hw_row_put_u32(struct hw_strbuf *out, uint32_t v)
{
    hw_strbuf_add(out, &v, sizeof v);
}

void hw_row_put_u64(struct hw_strbuf *out, uint64_t v)
{
    hw_strbuf_add(out, &v, sizeof v);
}

void hw_row_put_real(struct hw_strbuf *out, double v)
{
    hw_strbuf_add(out, &v, sizeof v);
}

void hw_row_put_length(struct hw_strbuf *out, size_t n)
{
    for (; n >= 0x80; n >>= 7)
        hw_strbuf_addc(out, (char)(n | 0x80));
    hw_strbuf_addc(out, (char)n);
}

void hw_row_put_text(struct hw_strbuf *out, struct hw_bytes text)
{
    hw_row_put_length(out, text.n);
    hw_strbuf_add(out, text.p, text.n);
}

static int skip(struct hw_bytes *rest, uint64_t n)
{
    if (n > rest->n)
        return HW_EFORMAT;
    rest->p += n;
    rest->n -= n;
    return HW_OK;
}

static int take_length(struct hw_bytes *rest, uint64_t *out)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 63; shift += 7) {
        if (rest->n == 0)
            return HW_EFORMAT;
        uint8_t b = rest->p[0];
        (void)skip(rest, 1); /* cannot fail: n was checked */
        v |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80) {
            *out = v;
            return HW_OK;
        }
    }
    return HW_EFORMAT;
}

static int skip_text(struct hw_bytes *rest)
{
    uint64_t n;
    int rc = take_length(rest, &n);
    return rc < 0 ? rc : skip(rest, n);
}

static int skip_texts(struct hw_bytes *rest)
{
    uint64_t n;
    int rc = take_length(rest, &n);
    while (rc == 0 && n-- > 0) /* each takes at least a byte, so the input bounds the loop */
        rc = skip_text(rest);
    return rc;
}

int hw_row_take(struct hw_bytes *rest, enum hw_fleet_kind kind, struct hw_bytes *out)
{
    struct hw_bytes from = *rest;
    uint64_t n;
    int rc = HW_EFORMAT;
    switch (kind) {
    case HW_FLEET_KIND_DATE:
        rc = skip(rest, 2);
        break;
    case HW_FLEET_KIND_TIME:
    case HW_FLEET_KIND_UINT32:
        rc = skip(rest, 4);
        break;
    case HW_FLEET_KIND_UINT64:
    case HW_FLEET_KIND_INT64:
    case HW_FLEET_KIND_REAL:
        rc = skip(rest, 8);
        break;
    case HW_FLEET_KIND_TEXT:
        rc = skip_text(rest);
        break;
    case HW_FLEET_KIND_TEXTS:
        rc = skip_texts(rest);
        break;
    case HW_FLEET_KIND_UINT32S:
        rc = take_length(rest, &n);
        if (rc == 0)
            rc = n > rest->n ? HW_EFORMAT : skip(rest, n * 4);
        break;
    case HW_FLEET_KIND_LABELS:
        rc = skip_texts(rest);
        if (rc == 0)
            rc = skip_texts(rest);
        break;
    case HW_FLEET_KIND_COUNT:
        break;
    }
    *out = (struct hw_bytes){from.p, (size_t)(rest->p - from.p)};
    return rc;
}

struct hw_bytes hw_row_text(struct hw_bytes cell)
{
    uint64_t n;
    if (take_length(&cell, &n) < 0 || n > cell.n)
        return (struct hw_bytes){0};
    return (struct hw_bytes){cell.p, n};
}

int hw_row_next(struct hw_bytes *rest, enum hw_fleet_table t, struct hw_row *out)
{
    return hw_row_next_of(rest, t, HW_ROW_MAX_CELLS, out);
}

int hw_row_next_of(struct hw_bytes *rest, enum hw_fleet_table t, size_t n_columns,
                   struct hw_row *out)
{
    if (rest->n == 0)
        return 0;
    const uint8_t *from = rest->p;
    size_t k = 0;
    for (size_t i = 0; i < hw_fleet_n_columns && k < n_columns; i++) {
        if (hw_fleet_columns[i].table != t)
            continue;
        assert(k < HW_ROW_MAX_CELLS);
        int rc = hw_row_take(rest, hw_fleet_columns[i].kind, &out->cell[k++]);
        if (rc < 0)
            return rc;
    }
    out->all = (struct hw_bytes){from, (size_t)(rest->p - from)};
    return 1;
}

size_t hw_row_column(enum hw_fleet_table t, const char *name)
{
    size_t k = 0;
    for (size_t i = 0; i < hw_fleet_n_columns; i++) {
        if (hw_fleet_columns[i].table != t)
            continue;
        if (strcmp(hw_fleet_columns[i].name, name) == 0)
            return k;
        k++;
    }
    assert(!"no such column");
    return 0;
}

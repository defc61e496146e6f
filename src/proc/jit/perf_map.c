#include "proc/jit/perf_map.h"

#include <string.h>

#include "base/error.h"

#include "base/banned.h"

/* Gives what follows the number, or NULL: none is there, or it is too large. */
static const uint8_t *hex(const uint8_t *p, const uint8_t *end, uint64_t *out)
{
    uint64_t v = 0;
    if (end - p > 2 && p[0] == '0' && (p[1] | 0x20) == 'x')
        p += 2;
    const uint8_t *first = p;
    for (; p < end; p++) {
        uint32_t digit = *p - (uint32_t)'0', letter = (*p | 0x20u) - (uint32_t)'a';
        if (digit > 9 && letter > 5)
            break;
        if (v >> 60)
            return NULL;
        v = v << 4 | (digit <= 9 ? digit : letter + 10);
    }
    *out = v;
    return p > first ? p : NULL;
}

static int read_line(struct hw_jit_code *c, const uint8_t *p, const uint8_t *end, uint64_t *n_bad)
{
    uint64_t at, size;
    p = hex(p, end, &at);
    p = p && p < end && *p == ' ' ? hex(p + 1, end, &size) : NULL;
    if (!p || p == end || *p != ' ') {
        ++*n_bad;
        return HW_OK;
    }
    p++;
    if (end > p && end[-1] == '\r')
        end--;
    if (end == p || size == 0 || size > HW_JIT_MAX_CODE_BYTES || at >= UINT64_MAX - size) {
        ++*n_bad; /* stubs of size 0 are written by some */
        return HW_OK;
    }
    return hw_jit_code_add(c, at, size, hw_bytes_of(p, (size_t)(end - p)), NULL, 0);
}

int hw_perf_map_read(struct hw_jit_code *c, struct hw_bytes piece, bool last, size_t *used,
                     uint64_t *n_bad)
{
    const uint8_t *p = piece.p, *end = hw_bytes_end(piece);
    int rc = HW_OK;
    while (p < end && rc == HW_OK) {
        const uint8_t *eol = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((eol ? eol : end) - p);
        if (!eol && !last && n < HW_PERF_MAP_MAX_LINE)
            break; /* the rest of it is yet to come */
        rc = read_line(c, p, p + n, n_bad);
        p += n + (eol != NULL);
    }
    *used = (size_t)(p - piece.p);
    return rc;
}

#include "base/memory/radix.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#include "base/banned.h"

enum { BITS = 11, DIGITS = 1 << BITS };

static void one_digit(const struct hw_radix16 *from, struct hw_radix16 *to, size_t n,
                      unsigned shift)
{
    size_t count[DIGITS] = {0}, at = 0;
    for (size_t i = 0; i < n; i++)
        count[from[i].key >> shift & (DIGITS - 1)]++;
    for (size_t d = 0; d < DIGITS; d++) {
        size_t here = count[d];
        count[d] = at;
        at += here;
    }
    for (size_t i = 0; i < n; i++)
        to[count[from[i].key >> shift & (DIGITS - 1)]++] = from[i];
}

int hw_radix_sort16(struct hw_radix16 *records, size_t n)
{
    uint64_t differ = 0;
    for (size_t i = 0; i < n; i++)
        differ |= records[i].key ^ records[0].key;
    if (!differ)
        return HW_OK;
    struct hw_radix16 *other = malloc(n * sizeof *other), *a = records, *b = other;
    if (!other)
        return HW_ENOMEM;
    for (unsigned shift = 0; shift < 64; shift += BITS) {
        if (!(differ >> shift & (DIGITS - 1)))
            continue;
        one_digit(a, b, n, shift);
        struct hw_radix16 *swap = a;
        a = b;
        b = swap;
    }
    if (a != records)
        memcpy(records, a, n * sizeof *records);
    free(other);
    return HW_OK;
}

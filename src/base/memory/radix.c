#include "base/memory/radix.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#include "base/banned.h"

enum { BITS = 11, DIGITS = 1 << BITS };

static inline uint64_t key_of(const char *record)
{
    uint64_t key;
    memcpy(&key, record, sizeof key);
    return key;
}

static inline __attribute__((always_inline)) void one_digit(const char *from, char *to, size_t n,
                                                            size_t bytes, unsigned shift)
{
    size_t count[DIGITS] = {0}, at = 0;
    for (size_t i = 0; i < n; i++)
        count[key_of(from + i * bytes) >> shift & (DIGITS - 1)]++;
    for (size_t d = 0; d < DIGITS; d++) {
        size_t here = count[d];
        count[d] = at;
        at += here;
    }
    for (size_t i = 0; i < n; i++) {
        size_t *place = &count[key_of(from + i * bytes) >> shift & (DIGITS - 1)];
        memcpy(to + (*place)++ * bytes, from + i * bytes, bytes);
    }
}

/* Inlined where `bytes` is a constant: a record is then moved by a few instructions. */
static inline __attribute__((always_inline)) int sort(void *records, size_t n, size_t bytes)
{
    char *a = records;
    uint64_t differ = 0;
    for (size_t i = 0; i < n; i++)
        differ |= key_of(a + i * bytes) ^ key_of(a);
    if (!differ)
        return HW_OK;
    char *other = malloc(n * bytes), *b = other;
    if (!other)
        return HW_ENOMEM;
    for (unsigned shift = 0; shift < 64; shift += BITS) {
        if (!(differ >> shift & (DIGITS - 1)))
            continue;
        one_digit(a, b, n, bytes, shift);
        char *swap = a;
        a = b;
        b = swap;
    }
    if (a != records)
        memcpy(records, a, n * bytes);
    free(other);
    return HW_OK;
}

int hw_radix_sort16(struct hw_radix16 *records, size_t n)
{
    return sort(records, n, sizeof *records);
}

int hw_radix_sort32(void *records, size_t n)
{
    return sort(records, n, 32);
}

/*
 * Blocks of 64 values, and in them field by field: the bytes that each number takes (0: all are 0),
 * then the numbers. Most fields of a sum are 0 or small.
 */
#include "views/time/packed_values.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "views/time/values.h"

#include "base/banned.h"

enum { BLOCK = 64 };

enum kind { INTEGER, FLOAT, DOUBLE };

static const struct {
    size_t offset;
    enum kind kind;
} fields[] = {
#define FIELD(name, kind)                                                                          \
    {                                                                                              \
        offsetof(struct hw_value, name), kind                                                      \
    }
    FIELD(space, INTEGER),
    FIELD(objects, INTEGER),
    FIELD(alloc_space, INTEGER),
    FIELD(alloc_objects, INTEGER),
    FIELD(temporary_space, INTEGER),
    FIELD(temporary_objects, INTEGER),
    FIELD(samples, INTEGER),
    FIELD(alloc_samples, INTEGER),
    FIELD(idle, INTEGER),
    FIELD(rounding, INTEGER),
    FIELD(variance, DOUBLE),
    FIELD(variance_objects, FLOAT),
    FIELD(variance_alloc_space, FLOAT),
    FIELD(variance_alloc_objects, FLOAT),
    FIELD(variance_rounding, FLOAT),
    FIELD(variance_temporary_space, FLOAT),
    FIELD(variance_temporary_objects, FLOAT),
#undef FIELD
};

enum { MOST_BYTES = HW_ARRAY_LEN(fields) * (1 + BLOCK * sizeof(uint64_t)) }; /* of a block */

/* Numbers as they are packed: bits of floats, integers with their sign. */
static void gather(const char *values, size_t n, size_t stride, enum kind kind, int64_t *out)
{
    for (size_t i = 0; i < n; i++, values += stride) {
        uint32_t bits;
        if (kind == FLOAT)
            memcpy(&bits, values, sizeof bits);
        else
            memcpy(&out[i], values, sizeof *out);
        if (kind == FLOAT)
            out[i] = (int32_t)bits;
    }
}

/* How many bytes the largest of them takes: 0, 1, 2, 4 or 8. */
static unsigned width_of(const int64_t *v, size_t n)
{
    uint64_t any = 0, magnitude = 0;
    for (size_t i = 0; i < n; i++) {
        any |= (uint64_t)v[i];
        magnitude |= (uint64_t)(v[i] ^ (v[i] >> 63));
    }
    return any == 0 ? 0 : magnitude < 0x80 ? 1 : magnitude < 0x8000 ? 2 : magnitude >> 31 ? 8 : 4;
}

static uint8_t *put_numbers(uint8_t *to, const int64_t *v, size_t n, unsigned width)
{
    *to++ = (uint8_t)width;
    for (size_t i = 0; width && i < n; i++, to += width) {
        int8_t one = (int8_t)v[i];
        int16_t two = (int16_t)v[i];
        int32_t four = (int32_t)v[i];
        const void *from = width == 1   ? (const void *)&one
                           : width == 2 ? &two
                           : width == 4 ? (const void *)&four
                                        : &v[i];
        memcpy(to, from, width);
    }
    return to;
}

int hw_packed_values_init(struct hw_packed_values *p, const void *values, size_t n, size_t stride)
{
    int64_t v[BLOCK];
    const char *from = values;
    uint8_t *bytes = NULL;
    size_t cap = 0, used = 0;
    for (size_t at = 0; at < n; at += BLOCK, from += BLOCK * stride) {
        size_t in_block = n - at < BLOCK ? n - at : BLOCK;
        if (cap - used < MOST_BYTES) {
            cap = cap + cap / 2 + (size_t)16 * MOST_BYTES;
            uint8_t *grown = realloc(bytes, cap);
            if (!grown) {
                free(bytes);
                return HW_ENOMEM;
            }
            bytes = grown;
        }
        uint8_t *to = bytes + used;
        for (size_t f = 0; f < HW_ARRAY_LEN(fields); f++) {
            gather(from + fields[f].offset, in_block, stride, fields[f].kind, v);
            to = put_numbers(to, v, in_block, width_of(v, in_block));
        }
        used = (size_t)(to - bytes);
    }
    uint8_t *exact = used ? realloc(bytes, used) : NULL;
    *p = (struct hw_packed_values){.bytes = exact ? exact : bytes, .n_bytes = used, .n = n};
    return HW_OK;
}

void hw_packed_values_done(struct hw_packed_values *p)
{
    free(p->bytes);
    *p = (struct hw_packed_values){0};
}

/* Little endian: a float is the low half of its number. */
#define READ(type)                                                                                 \
    for (size_t i = 0; i < n; i++, from += sizeof(type), to += stride) {                           \
        type narrow;                                                                               \
        memcpy(&narrow, from, sizeof narrow);                                                      \
        int64_t v = narrow;                                                                        \
        memcpy(to, &v, size);                                                                      \
    }

static inline const uint8_t *read_sized(const uint8_t *from, size_t n, size_t size, char *to,
                                        size_t stride)
{
    switch (*from++) {
    case 1:
        READ(int8_t)
        break;
    case 2:
        READ(int16_t)
        break;
    case 4:
        READ(int32_t)
        break;
    case 8:
        READ(int64_t)
        break;
    default:
        for (size_t i = 0; i < n; i++, to += stride)
            memset(to, 0, size);
    }
    return from;
}

/* Two calls, so that the compiler knows the size in each. */
static const uint8_t *read_numbers(const uint8_t *from, size_t n, enum kind kind, char *to,
                                   size_t stride)
{
    return kind == FLOAT ? read_sized(from, n, sizeof(float), to, stride)
                         : read_sized(from, n, sizeof(int64_t), to, stride);
}

void hw_packed_values_read(const struct hw_packed_values *p, void *values, size_t stride)
{
    const uint8_t *from = p->bytes;
    char *to = values;
    for (size_t at = 0; at < p->n; at += BLOCK, to += BLOCK * stride) {
        size_t in_block = p->n - at < BLOCK ? p->n - at : BLOCK;
        for (size_t f = 0; f < HW_ARRAY_LEN(fields); f++)
            from = read_numbers(from, in_block, fields[f].kind, to + fields[f].offset, stride);
    }
}

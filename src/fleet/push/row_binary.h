/*
 * row_binary.h - reads ClickHouse's replies in RowBinary, value by value
 *
 * Shapes:  no header and no row lengths: the query determines the types. Numbers are little-endian;
 *          texts and arrays are preceded by a varint with the number of bytes or elements.
 * Owns:    nothing; texts are views into the reply.
 * Errors:  sticky: from the first missing value on, `bad` is set and every value is 0.
 * Source:  ClickHouse's documentation of its formats
 */
#ifndef HW_FLEET_PUSH_ROW_BINARY_H
#define HW_FLEET_PUSH_ROW_BINARY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

struct hw_rows {
    const uint8_t *at, *end;
    bool bad;
};

static inline struct hw_rows hw_rows_of(struct hw_bytes answer)
{
    return (struct hw_rows){.at = answer.p, .end = hw_bytes_end(answer)};
}

/* Is there another row? */
static inline bool hw_rows_more(const struct hw_rows *r)
{
    return !r->bad && r->at < r->end;
}

uint32_t hw_rows_u32(struct hw_rows *r);
uint64_t hw_rows_u64(struct hw_rows *r);
int64_t hw_rows_i64(struct hw_rows *r);
double hw_rows_real(struct hw_rows *r); /* finite, or bad */
struct hw_bytes hw_rows_text(struct hw_rows *r);
/* The number of elements of the next array: never more than the bytes left. */
uint64_t hw_rows_count(struct hw_rows *r);

#endif

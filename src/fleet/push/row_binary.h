/*
 * row_binary.h - answers of ClickHouse in RowBinary, value by value
 *
 * Shapes:  no header and no lengths of rows: who asked knows the types. Numbers are little endian,
 *          texts and arrays have a varint before them that counts bytes, or elements.
 * Owns:    nothing; texts are views into the answer.
 * Errors:  sticky: from the first value that is not there on, every value is 0 and `bad` is set.
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
/* Elements of the array that follows: never more than bytes are left. */
uint64_t hw_rows_count(struct hw_rows *r);

#endif

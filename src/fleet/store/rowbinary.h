/*
 * rowbinary.h - ClickHouse's RowBinary: consecutive values, no names, no separators
 *
 * Shapes:  numbers little-endian; a length as LEB128; text is a length and bytes; an array a length
 *          and its values; Date days, DateTime seconds since 1970.
 * Errors:  writers mark the buffer as failed; readers HW_EFORMAT.
 */
#ifndef HW_FLEET_STORE_ROWBINARY_H
#define HW_FLEET_STORE_ROWBINARY_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/text/strbuf.h"
#include "fleet/store/table_schema.h"

void hw_row_put_u16(struct hw_strbuf *out, uint16_t v);
void hw_row_put_u32(struct hw_strbuf *out, uint32_t v);
void hw_row_put_u64(struct hw_strbuf *out, uint64_t v);
void hw_row_put_real(struct hw_strbuf *out, double v);
void hw_row_put_length(struct hw_strbuf *out, size_t n);
void hw_row_put_text(struct hw_strbuf *out, struct hw_bytes text);

/* Takes one value off *rest; *out has its bytes, including lengths. */
int hw_row_take(struct hw_bytes *rest, enum hw_fleet_kind kind, struct hw_bytes *out);
/* The text in a String's bytes. */
struct hw_bytes hw_row_text(struct hw_bytes cell);

#define HW_ROW_MAX_CELLS 24u

struct hw_row {
    struct hw_bytes all;                    /* the row */
    struct hw_bytes cell[HW_ROW_MAX_CELLS]; /* by column of its table */
};
/* Takes the next row off *rest: 1, 0 at the end, HW_EFORMAT. */
int hw_row_next(struct hw_bytes *rest, enum hw_fleet_table t, struct hw_row *out);
/* The same for rows with only the first n_columns. */
int hw_row_next_of(struct hw_bytes *rest, enum hw_fleet_table t, size_t n_columns,
                   struct hw_row *out);
/* The index of a column within its table; the table must have it. */
size_t hw_row_column(enum hw_fleet_table t, const char *name);

#endif

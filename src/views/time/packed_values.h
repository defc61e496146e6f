/*
 * packed_values.h - a copy of many values in a sixth of their memory
 *
 * Why:     whoever drags the end of a time range moves a sum of 200,000 callstacks back and forth. A
 *          copy of it as it was takes 26 MB as plain structs, so that there were five for a trace of
 *          1 GB, and seeking back added up the rows of nine dumps.
 * Shapes:  an array of structs of `stride` bytes that begin with a hw_value. Only sums as they are
 *          kept (values.c) are packed: its lacks_variances, knows_temporary and choice are not.
 * Owns:    the copy.
 * Errors:  HW_ENOMEM.
 * Cost:    one pass, some 20 ns a value in either direction.
 */
#ifndef HW_VIEWS_TIME_PACKED_VALUES_H
#define HW_VIEWS_TIME_PACKED_VALUES_H

#include <stddef.h>
#include <stdint.h>

struct hw_packed_values {
    uint8_t *bytes;
    size_t n_bytes, n; /* n: values */
};

int hw_packed_values_init(struct hw_packed_values *p, const void *values, size_t n, size_t stride);
void hw_packed_values_done(struct hw_packed_values *p);
/* Writes the p->n values; all else of the structs is left as it is. */
void hw_packed_values_read(const struct hw_packed_values *p, void *values, size_t stride);

#endif

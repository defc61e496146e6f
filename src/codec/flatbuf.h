/*
 * flatbuf.h - a writer of FlatBuffers
 *
 * Why:     Arrow files describe their columns in this format.
 * Shapes:  built from the end to the front, as the format's offsets require: referenced parts are
 *          written first. A ref is a distance from the end. Tables: begin, fields in any order,
 *          end; one at a time, after their texts and vectors. Vectors of structs: begin with the
 *          size of all elements, then elements and their fields in reverse order, end.
 * Owns:    one buffer; view is valid until the next call.
 * Errors:  sticky in `failed` (HW_ENOMEM).
 * Source:  FlatBuffers, "Internals"
 */
#ifndef HW_CODEC_FLATBUF_H
#define HW_CODEC_FLATBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

#define HW_FLATBUF_MAX_FIELDS 16u

struct hw_flatbuf {
    uint8_t *p; /* owned; the content is its last `used` bytes */
    size_t cap, used;
    uint32_t slots[HW_FLATBUF_MAX_FIELDS]; /* of the open table; 0 = left out */
    uint32_t table_start, n_slots;
    bool failed;
};

typedef uint32_t hw_flat_ref; /* 0 = none */

void hw_flatbuf_clear(struct hw_flatbuf *f);
void hw_flatbuf_done(struct hw_flatbuf *f);

hw_flat_ref hw_flatbuf_text(struct hw_flatbuf *f, const char *text);
hw_flat_ref hw_flatbuf_refs(struct hw_flatbuf *f, const hw_flat_ref *v, size_t n);
void hw_flatbuf_begin_structs(struct hw_flatbuf *f, size_t bytes); /* aligned to 8 */
hw_flat_ref hw_flatbuf_end_structs(struct hw_flatbuf *f, uint32_t n);
/* Little endian, `size` of 1, 2, 4 or 8 bytes, aligned to it. */
void hw_flatbuf_int(struct hw_flatbuf *f, uint64_t v, size_t size);

void hw_flatbuf_begin(struct hw_flatbuf *f);
void hw_flatbuf_put(struct hw_flatbuf *f, unsigned field, uint64_t v, size_t size);
void hw_flatbuf_put_ref(struct hw_flatbuf *f, unsigned field, hw_flat_ref ref);
hw_flat_ref hw_flatbuf_end(struct hw_flatbuf *f);

/* The whole buffer, its length a multiple of 8; empty if it failed. */
struct hw_bytes hw_flatbuf_finish(struct hw_flatbuf *f, hw_flat_ref root);

#endif

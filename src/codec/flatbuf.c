/*
 * A table is   [vtable: its length, the table's length, an offset per field] [distance to the
 * vtable] [fields]. Here the vtable precedes its table; offsets count from the table's start. As
 * the buffer grows toward the front, positions are aligned by their distance from the end, and
 * finish makes the whole a multiple of 8.
 */
#include "codec/flatbuf.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/banned.h"

enum { FIRST_CAP = 1024 };

void hw_flatbuf_clear(struct hw_flatbuf *f)
{
    f->used = 0;
    f->failed = false;
}

void hw_flatbuf_done(struct hw_flatbuf *f)
{
    free(f->p);
    *f = (struct hw_flatbuf){0};
}

static uint8_t *front(struct hw_flatbuf *f, size_t n)
{
    if (f->failed)
        return NULL;
    if (n > f->cap - f->used) {
        size_t cap = f->cap ? f->cap : FIRST_CAP;
        while (cap - f->used < n && cap <= UINT32_MAX / 2)
            cap *= 2;
        uint8_t *p = cap - f->used < n ? NULL : malloc(cap);
        if (!p) {
            f->failed = true;
            return NULL;
        }
        if (f->used)
            memcpy(p + cap - f->used, f->p + f->cap - f->used, f->used);
        free(f->p);
        f->p = p;
        f->cap = cap;
    }
    f->used += n;
    return f->p + f->cap - f->used;
}

static void put_bytes(struct hw_flatbuf *f, const void *p, size_t n)
{
    uint8_t *to = front(f, n);
    if (to && n)
        memcpy(to, p, n);
}

/* Aligns the position that is `more` bytes further to the front. */
static void align(struct hw_flatbuf *f, size_t size, size_t more)
{
    static const uint8_t zeros[8];
    put_bytes(f, zeros, -(f->used + more) & (size - 1));
}

static void put_int(struct hw_flatbuf *f, uint64_t v, size_t size)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(v >> (8 * i));
    put_bytes(f, bytes, size);
}

void hw_flatbuf_int(struct hw_flatbuf *f, uint64_t v, size_t size)
{
    align(f, size, size);
    put_int(f, v, size);
}

static void put_ref(struct hw_flatbuf *f, hw_flat_ref ref)
{
    align(f, 4, 4);
    put_int(f, f->used + 4 - ref, 4);
}

hw_flat_ref hw_flatbuf_text(struct hw_flatbuf *f, const char *text)
{
    size_t n = strlen(text);
    align(f, 4, n + 1);
    put_bytes(f, text, n + 1);
    put_int(f, n, 4);
    return (hw_flat_ref)f->used;
}

hw_flat_ref hw_flatbuf_refs(struct hw_flatbuf *f, const hw_flat_ref *v, size_t n)
{
    align(f, 4, 4 * n);
    for (size_t i = n; i-- > 0;)
        put_ref(f, v[i]);
    put_int(f, n, 4);
    return (hw_flat_ref)f->used;
}

void hw_flatbuf_begin_structs(struct hw_flatbuf *f, size_t bytes)
{
    align(f, 8, bytes);
}

hw_flat_ref hw_flatbuf_end_structs(struct hw_flatbuf *f, uint32_t n)
{
    put_int(f, n, 4);
    return (hw_flat_ref)f->used;
}

void hw_flatbuf_begin(struct hw_flatbuf *f)
{
    memset(f->slots, 0, sizeof f->slots);
    f->n_slots = 0;
    f->table_start = (uint32_t)f->used;
}

static void set_slot(struct hw_flatbuf *f, unsigned field)
{
    assert(field < HW_FLATBUF_MAX_FIELDS);
    f->slots[field] = (uint32_t)f->used;
    if (field >= f->n_slots)
        f->n_slots = field + 1;
}

void hw_flatbuf_put(struct hw_flatbuf *f, unsigned field, uint64_t v, size_t size)
{
    hw_flatbuf_int(f, v, size);
    set_slot(f, field);
}

void hw_flatbuf_put_ref(struct hw_flatbuf *f, unsigned field, hw_flat_ref ref)
{
    put_ref(f, ref);
    set_slot(f, field);
}

hw_flat_ref hw_flatbuf_end(struct hw_flatbuf *f)
{
    hw_flatbuf_int(f, 0, 4); /* the distance, known below */
    uint32_t table = (uint32_t)f->used;
    for (size_t i = f->n_slots; i-- > 0;)
        put_int(f, f->slots[i] ? table - f->slots[i] : 0, 2);
    put_int(f, table - f->table_start, 2);
    put_int(f, (f->n_slots + 2) * 2, 2);
    uint32_t distance = (uint32_t)f->used - table;
    for (size_t i = 0; !f->failed && i < 4; i++)
        f->p[f->cap - table + i] = (uint8_t)(distance >> (8 * i));
    return table;
}

struct hw_bytes hw_flatbuf_finish(struct hw_flatbuf *f, hw_flat_ref root)
{
    align(f, 8, 4);
    put_ref(f, root);
    return f->failed ? hw_bytes_of(NULL, 0) : hw_bytes_of(f->p + f->cap - f->used, f->used);
}

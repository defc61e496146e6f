/*
 * json_text.h - JSON read in place, without an object per value
 *
 * Why:     a heap dump is millions of numbers in a few lists. A library that makes an object of
 *          each takes twenty times the memory of the text and most of the time of reading it.
 * Shapes:  hw_json_text_read checks the whole text once, by RFC 8259 with numbers that fit (as
 *          jansson reads it), and indexes the members of objects down to a depth. Cursors then walk
 *          over the checked text and cannot fail.
 * Owns:    its index of notes; all results are views of the text.
 * Errors:  HW_EFORMAT (not JSON), HW_ELIMIT (nested deeper than 2048, 4 GiB), HW_ENOMEM.
 * Cost:    one pass to check (about 1.5 ns per byte), another over what cursors walk.
 */
#ifndef HW_CODEC_JSON_TEXT_H
#define HW_CODEC_JSON_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/memory/vec.h"

struct hw_strbuf;

enum hw_json_type {
    HW_JSON_NONE, /* there is no such value */
    HW_JSON_OBJECT,
    HW_JSON_LIST,
    HW_JSON_STRING,
    HW_JSON_INTEGER,
    HW_JSON_REAL,
    HW_JSON_TRUE,
    HW_JSON_FALSE,
    HW_JSON_NULL,
};

struct hw_json_value {
    enum hw_json_type type;
    int64_t integer;      /* of HW_JSON_INTEGER */
    struct hw_bytes text; /* all of it; a string's is the raw text between the quotes */
};

double hw_json_value_real(const struct hw_json_value *v); /* of a number, else 0 */
/* A string's content: the text itself if nothing in it is escaped, else decoded into scratch. */
struct hw_bytes hw_json_value_string(const struct hw_json_value *v, struct hw_strbuf *scratch);

/* ---- cursors ---- */

struct hw_json_cursor {
    const uint8_t *p, *end;
};

/* Enters a list or an object; anything else is like an empty one. */
struct hw_json_cursor hw_json_enter(const struct hw_json_value *v);
bool hw_json_next(struct hw_json_cursor *c, struct hw_json_value *out);
/* The name is the raw text between its quotes. */
bool hw_json_next_member(struct hw_json_cursor *c, struct hw_bytes *name,
                         struct hw_json_value *out);
/* The members of these names (in ASCII); the last of several with one name, HW_JSON_NONE if there
 * is none. For objects with few members: it walks over all of them. */
void hw_json_members(const struct hw_json_value *object, const char *const *names, size_t n,
                     struct hw_json_value *out);

/* ---- a whole text ---- */

struct hw_json_note { /* a member of an object */
    uint32_t name_at, name_n, at, n;
    uint32_t first, next; /* its first member; its next sibling; 0 = none */
};

struct hw_json_text { /* zero-initialised is empty */
    struct hw_bytes text;
    HW_VEC(struct hw_json_note) notes; /* the first one is the text itself */
};

void hw_json_text_done(struct hw_json_text *t);
/* Indexes members down to max_depth objects (without lists between them). Drops earlier notes. */
int hw_json_text_read(struct hw_json_text *t, struct hw_bytes text, unsigned max_depth);
/* Index of a noted member of this name (in ASCII), the last of several; 0 = none. */
uint32_t hw_json_text_find(const struct hw_json_text *t, uint32_t object, const char *name);
struct hw_json_value hw_json_text_get(const struct hw_json_text *t, uint32_t note);
struct hw_bytes hw_json_text_name(const struct hw_json_text *t, uint32_t note);

#endif

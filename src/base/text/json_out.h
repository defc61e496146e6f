/*
 * json_out.h - a streaming JSON writer
 *
 * Why:     every `--json` output, JSON export and control reply is written by the same code, which
 *          cannot produce a comma too many.
 * Shapes:  values in order; inside an object each value is preceded by hw_json_key. Bytes that are
 *          not UTF-8 become U+FFFD; doubles that JSON cannot say (NaN, infinities) become null.
 *          Numbers are written in full, also above 2^53.
 * Owns:    a small buffer, given to `write` whenever it holds HW_JSON_FLUSH_BYTES; with write ==
 *          NULL everything stays in `buf` for the caller.
 * Errors:  sticky; hw_json_finish gives the first one (HW_ENOMEM, what write returned). Wrong
 *          nesting is our own bug: assert.
 * Threads: one owner at a time.
 */
#ifndef HW_BASE_TEXT_JSON_OUT_H
#define HW_BASE_TEXT_JSON_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/strbuf.h"

#define HW_JSON_MAX_DEPTH   64u
#define HW_JSON_FLUSH_BYTES (32u * 1024u)

struct hw_json {
    struct hw_strbuf buf;
    int (*write)(void *ctx, const void *p, size_t n); /* 0 or HW_E…; NULL = keep in buf */
    void *ctx;
    int error;
    uint32_t depth;
    bool pretty; /* one member a line, two spaces a level */
    bool after_key;
    uint64_t has_members; /* bit per level */
    uint64_t is_object;   /* bit per level */
};

void hw_json_init(struct hw_json *j, int (*write)(void *ctx, const void *p, size_t n), void *ctx,
                  bool pretty);
void hw_json_begin_object(struct hw_json *j);
void hw_json_end_object(struct hw_json *j);
void hw_json_begin_array(struct hw_json *j);
void hw_json_end_array(struct hw_json *j);
void hw_json_key(struct hw_json *j, const char *key);
void hw_json_keyn(struct hw_json *j, const void *key, size_t n);
void hw_json_str(struct hw_json *j, const char *s); /* NULL writes null */
void hw_json_strn(struct hw_json *j, const void *p, size_t n);
void hw_json_int(struct hw_json *j, int64_t v);
void hw_json_uint(struct hw_json *j, uint64_t v);
void hw_json_double(struct hw_json *j, double v); /* shortest form that reads back the same */
void hw_json_bool(struct hw_json *j, bool v);
void hw_json_null(struct hw_json *j);
/* Flushes and gives the first error. With write == NULL, buf then holds the text: take or free. */
int hw_json_finish(struct hw_json *j);
void hw_json_done(struct hw_json *j);

/* A `write` for descriptors: ctx is an int *. */
int hw_json_write_fd(void *ctx, const void *p, size_t n);

/* "key": value in one call. */
void hw_json_kv_str(struct hw_json *j, const char *key, const char *v);
void hw_json_kv_int(struct hw_json *j, const char *key, int64_t v);
void hw_json_kv_uint(struct hw_json *j, const char *key, uint64_t v);
void hw_json_kv_hex(struct hw_json *j, const char *key, uint64_t v); /* "1f": a string */
void hw_json_kv_double(struct hw_json *j, const char *key, double v);
void hw_json_kv_doubles(struct hw_json *j, const char *key, const double *v, size_t n);
void hw_json_kv_bool(struct hw_json *j, const char *key, bool v);

#endif

/*
 * lexer.h - words and strings of a configuration in text form; private to config_parse.c and lexer.c
 *
 * Errors:  HW_EINVAL with `<file>:<row>:<col> error: …`, the line and marks under the token.
 */
#ifndef HW_CONFIG_LEXER_H
#define HW_CONFIG_LEXER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct hw_error;
struct hw_strbuf;

struct hw_lexer {
    const char *name; /* file name, for messages */
    const uint8_t *text;
    size_t n, pos;
    uint32_t row, col;
    struct hw_error *err;
};

struct hw_mark { /* where a token begins, for messages */
    size_t offset;
    uint32_t row, col;
    size_t n;
};

struct hw_token {
    struct hw_mark at;
    struct hw_bytes bytes;
};

int hw_lex_fail(struct hw_lexer *p, const struct hw_mark *at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int hw_lex_end_of_input(struct hw_lexer *p);
/* The next n bytes. */
struct hw_mark hw_lex_here(const struct hw_lexer *p, size_t n);
bool hw_lex_at_end(const struct hw_lexer *p);
char hw_lex_look(const struct hw_lexer *p); /* 0 at the end */
void hw_lex_step(struct hw_lexer *p);
void hw_lex_skip_blank(struct hw_lexer *p); /* skips comments too */

/* A number or identifier; the next character must be one that may follow it. */
int hw_lex_word(struct hw_lexer *p, struct hw_token *out);
/* A word, or [full.name]: the brackets belong to the key, as in the schema. */
int hw_lex_key(struct hw_lexer *p, struct hw_token *out);
/* One or more adjacent strings; the bytes go into b, the token covers the first as written. */
int hw_lex_string(struct hw_lexer *p, struct hw_strbuf *b, struct hw_token *out);

#endif

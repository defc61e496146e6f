/*
 * tokens.h - splits SQL text into tokens, as SQLite does
 *
 * Why:     statements are split at `;` and macros expanded before SQLite sees the text.
 * Owns:    nothing; tokens are views of the text.
 */
#ifndef HW_SQL_TOKENS_H
#define HW_SQL_TOKENS_H

#include <stdbool.h>

#include "base/bytes.h"

enum hw_token_kind {
    HW_TOKEN_SPACE,    /* blanks and comments */
    HW_TOKEN_WORD,     /* identifiers, keywords, numbers */
    HW_TOKEN_QUOTED,   /* "x" `x` [x] */
    HW_TOKEN_STRING,   /* 'x' */
    HW_TOKEN_VARIABLE, /* $x :x @x */
    HW_TOKEN_OTHER     /* one character */
};

struct hw_token {
    enum hw_token_kind kind;
    struct hw_bytes text;
};

/* Takes the first token off *rest; false at the end. An unterminated quote or comment extends to
 * the end. */
bool hw_token_take(struct hw_bytes *rest, struct hw_token *out);
/* The same, skipping blanks. */
bool hw_token_take_word(struct hw_bytes *rest, struct hw_token *out);
/* Compares a word, ignoring case. */
bool hw_token_is(const struct hw_token *t, const char *word);
/* Takes a statement up to the next `;` outside quotes, and the `;`, off *rest. False at the end. */
bool hw_token_statement(struct hw_bytes *rest, struct hw_bytes *out);

#endif

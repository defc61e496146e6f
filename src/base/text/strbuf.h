/*
 * strbuf.h - a growing text or byte buffer
 *
 * Owns:    its storage; zero-initialised is empty; p is NUL-terminated once anything was added.
 * Errors:  sticky: after an allocation failed, failed is true and further appends do nothing, so a
 *          writer checks once at the end.
 */
#ifndef HW_BASE_TEXT_STRBUF_H
#define HW_BASE_TEXT_STRBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hw_strbuf {
    char *p;
    size_t n, cap;
    bool failed;
};

void hw_strbuf_done(struct hw_strbuf *b);
void hw_strbuf_clear(struct hw_strbuf *b);
int hw_strbuf_reserve(struct hw_strbuf *b, size_t more);
void hw_strbuf_add(struct hw_strbuf *b, const void *p, size_t n);
void hw_strbuf_addc(struct hw_strbuf *b, char c);
void hw_strbuf_adds(struct hw_strbuf *b, const char *s);
void hw_strbuf_addf(struct hw_strbuf *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Adds text from outside for a terminal or a log line: control bytes and bytes that are no UTF-8 as
 * \xNN, characters that cannot be seen or turn the reading direction round as \u{202e}. */
void hw_strbuf_add_escaped(struct hw_strbuf *b, const void *p, size_t n);
/* Adds text as one word of a command line to copy: as it is, or in quotes where a shell would read it
 * otherwise; control bytes and the like as bash and zsh read them, $'a\x0ab'. */
void hw_strbuf_add_shell_word(struct hw_strbuf *b, const char *text);
char *hw_strbuf_take(struct hw_strbuf *b); /* caller frees; NULL when it failed; "" when empty */

#endif

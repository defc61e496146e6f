/*
 * utf8.h - whether bytes are UTF-8
 *
 * Why:     names out of a target are any bytes; JSON, protobuf strings and WebSockets take only
 *          UTF-8.
 */
#ifndef HW_BASE_TEXT_UTF8_H
#define HW_BASE_TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hw_strbuf;

/* Length of the well-formed sequence at p (n > 0 bytes are there), 0 when there is none (overlong,
 * surrogate, cut). */
size_t hw_utf8_len(const void *p, size_t n);
bool hw_utf8_valid(const void *p, size_t n);
/* The code point of a well-formed sequence of this length. */
uint32_t hw_utf8_code(const void *p, size_t len);
/* A control, or a character that turns the reading direction round or cannot be seen: text from
 * outside that has one looks like another text. */
bool hw_utf8_is_hidden(uint32_t code);
/* The same text for a terminal or a log, as much as fits, with its NUL: what is hidden is written
 * as hw_strbuf_add_escaped does. keep: characters that stay nevertheless. Without memory of its
 * own; gives the length. */
size_t hw_utf8_escape(char *out, size_t max, const char *text, const char *keep);
/* Adds a code point up to U+10FFFF. */
void hw_utf8_add_code(struct hw_strbuf *out, uint32_t code);
/* Adds the text with each byte that is none of UTF-8 as U+FFFD. */
void hw_utf8_add_clean(struct hw_strbuf *out, const void *p, size_t n);

#endif

/*
 * markup.h - names from outside as text of a page
 *
 * Why:     a function may be called `<script>`, hold an escape sequence, or turn the reading
 *          direction round (U+202E) so that it looks like another one.
 * Shapes:  visible: valid UTF-8 without control characters: bytes that are no UTF-8 become U+FFFD,
 *          controls and the characters that change direction or cannot be seen \u{202e}. markup:
 *          the same with & < > " ' as entities, for text and quoted attributes of XML and HTML.
 * Errors:  those of the buffer (sticky).
 */
#ifndef HW_EXPORT_MARKUP_H
#define HW_EXPORT_MARKUP_H

#include "base/bytes.h"
#include "base/text/strbuf.h"

void hw_visible_add(struct hw_strbuf *out, struct hw_bytes text);
void hw_markup_add(struct hw_strbuf *out, struct hw_bytes text);

#endif

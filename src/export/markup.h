/*
 * markup.h - untrusted names as text of a page
 *
 * Why:     a function may be called `<script>`, contain an escape sequence, or reverse the reading
 *          direction (U+202E) so that it looks like another one.
 * Shapes:  visible: valid UTF-8 without control characters: invalid bytes become U+FFFD; control,
 *          direction-changing and invisible characters are escaped, as in \u{202e}. markup: the
 *          same with & < > " ' as entities, for text and quoted attributes of XML and HTML.
 * Errors:  those of the buffer (sticky).
 */
#ifndef HW_EXPORT_MARKUP_H
#define HW_EXPORT_MARKUP_H

#include "base/bytes.h"
#include "base/text/strbuf.h"

void hw_visible_add(struct hw_strbuf *out, struct hw_bytes text);
void hw_markup_add(struct hw_strbuf *out, struct hw_bytes text);

#endif

/*
 * base64.h - bytes as text of A-Z a-z 0-9 + /, with '=' at the end
 *
 * Source:  RFC 4648 section 4
 */
#ifndef HW_CODEC_BASE64_H
#define HW_CODEC_BASE64_H

#include "base/bytes.h"
#include "base/text/strbuf.h"

void hw_base64_add(struct hw_strbuf *out, struct hw_bytes in);

#endif

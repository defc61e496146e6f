#include "codec/base64.h"

#include "base/banned.h"

void hw_base64_add(struct hw_strbuf *out, struct hw_bytes in)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (hw_strbuf_reserve(out, in.n / 3 * 4 + 4) < 0)
        return; /* out is marked as failed */
    for (size_t i = 0; i < in.n; i += 3) {
        size_t have = in.n - i < 3 ? in.n - i : 3;
        uint32_t three = (uint32_t)in.p[i] << 16;
        three |= have > 1 ? (uint32_t)in.p[i + 1] << 8 : 0;
        three |= have > 2 ? in.p[i + 2] : 0;
        for (size_t d = 0; d < 4; d++)
            hw_strbuf_addc(out, d <= have ? digits[three >> (18 - 6 * d) & 63] : '=');
    }
}

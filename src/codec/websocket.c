#include "codec/websocket.h"

#include <string.h>

#include "base/error.h"
#include "base/text/utf8.h"

#include "base/banned.h"

enum { FIN = 0x80, RESERVED = 0x70, MASKED = 0x80, MAX_CONTROL = 125 };
enum { CLOSE_PROTOCOL = 1002, CLOSE_DATA = 1007, CLOSE_TOO_LARGE = 1009, CLOSE_INTERNAL = 1011 };

void hw_ws_reader_done(struct hw_ws_reader *r)
{
    hw_strbuf_done(&r->in);
    hw_strbuf_done(&r->message);
}

int hw_ws_reader_add(struct hw_ws_reader *r, const void *p, size_t n)
{
    if (r->taken) { /* moves the rest to the front */
        memmove(r->in.p, r->in.p + r->taken, r->in.n - r->taken);
        r->in.n -= r->taken;
        r->taken = 0;
    }
    hw_strbuf_add(&r->in, p, n);
    return r->in.failed ? HW_ENOMEM : HW_OK;
}

static int broken(struct hw_ws_reader *r, unsigned code)
{
    r->close_code = code;
    return code == CLOSE_TOO_LARGE ? HW_ELIMIT : (code == CLOSE_INTERNAL ? HW_ENOMEM : HW_EFORMAT);
}

struct frame {
    bool fin;
    unsigned opcode;
    uint8_t mask[4];
    const uint8_t *payload;
    size_t n;
};

/* 1 = a whole frame was removed from the input, 0 = it is incomplete. */
static int read_frame(struct hw_ws_reader *r, struct frame *out)
{
    struct hw_bytes in = hw_bytes_of(r->in.p ? r->in.p + r->taken : NULL, r->in.n - r->taken);
    if (in.n < 2)
        return 0;
    uint64_t n = in.p[1] & 0x7f;
    size_t head = 2, mask = r->from_server ? 0 : sizeof out->mask;
    *out = (struct frame){.fin = in.p[0] & FIN, .opcode = in.p[0] & 15};
    bool control = out->opcode >= HW_WS_CLOSE;
    if (in.p[0] & RESERVED || !(in.p[1] & MASKED) != r->from_server ||
        (control && (n > MAX_CONTROL || !out->fin || out->opcode > HW_WS_PONG)) ||
        (!control && out->opcode > HW_WS_BINARY))
        return broken(r, CLOSE_PROTOCOL);
    size_t extra = n == 126 ? 2 : n == 127 ? 8 : 0;
    if (in.n < head + extra)
        return 0;
    if (extra) {
        n = 0;
        for (size_t i = 0; i < extra; i++)
            n = n << 8 | in.p[head + i];
        head += extra;
    }
    if (n > r->max_message)
        return broken(r, CLOSE_TOO_LARGE);
    if (in.n < head + mask || in.n - head - mask < n)
        return 0;
    memcpy(out->mask, in.p + head, mask); /* zeros without a mask */
    head += mask;
    out->payload = in.p + head;
    out->n = (size_t)n;
    r->taken += head + out->n;
    return 1;
}

static void add_unmasked(struct hw_ws_reader *r, const struct frame *f)
{
    size_t start = r->message.n;
    hw_strbuf_add(&r->message, f->payload, f->n);
    for (size_t i = 0; !r->message.failed && i < f->n; i++)
        r->message.p[start + i] = (char)((uint8_t)r->message.p[start + i] ^ f->mask[i % 4]);
}

/* RFC 6455 7.4: the codes and text that a close frame may have. */
static unsigned close_fault(const uint8_t *p, size_t n)
{
    if (n == 0)
        return 0;
    if (n == 1)
        return CLOSE_PROTOCOL;
    unsigned code = (unsigned)p[0] << 8 | p[1];
    bool of_protocol = code >= 1000 && code <= 1014 && (code < 1004 || code > 1006);
    if (!of_protocol && (code < 3000 || code > 4999))
        return CLOSE_PROTOCOL;
    return hw_utf8_valid(p + 2, n - 2) ? 0 : CLOSE_DATA;
}

/* A control frame may come between fragments, so it is unmasked in place. */
static int return_control(struct hw_ws_reader *r, const struct frame *f, enum hw_ws_opcode *opcode,
                          struct hw_bytes *message)
{
    uint8_t *p = (uint8_t *)r->in.p + (f->payload - (const uint8_t *)r->in.p);
    for (size_t i = 0; i < f->n; i++)
        p[i] ^= f->mask[i % 4];
    unsigned fault = f->opcode == HW_WS_CLOSE ? close_fault(p, f->n) : 0;
    if (fault)
        return broken(r, fault);
    *opcode = (enum hw_ws_opcode)f->opcode;
    *message = hw_bytes_of(p, f->n);
    return 1;
}

int hw_ws_reader_next(struct hw_ws_reader *r, enum hw_ws_opcode *opcode, struct hw_bytes *message)
{
    struct frame f;
    int rc;
    if (r->given)
        hw_strbuf_clear(&r->message);
    r->given = false;
    while ((rc = read_frame(r, &f)) == 1) {
        if (f.opcode >= HW_WS_CLOSE)
            return return_control(r, &f, opcode, message);
        if (r->in_message != (f.opcode == HW_WS_CONTINUATION))
            return broken(r, CLOSE_PROTOCOL);
        if (f.n > r->max_message - r->message.n)
            return broken(r, CLOSE_TOO_LARGE);
        if (!r->in_message)
            r->opcode = (enum hw_ws_opcode)f.opcode;
        add_unmasked(r, &f);
        if (r->message.failed)
            return broken(r, CLOSE_INTERNAL);
        r->in_message = !f.fin;
        if (!f.fin)
            continue;
        r->given = true;
        *opcode = r->opcode;
        *message = hw_bytes_of(r->message.p, r->message.n);
        if (r->opcode == HW_WS_TEXT && !hw_utf8_valid(message->p, message->n))
            return broken(r, CLOSE_DATA);
        return 1;
    }
    return rc;
}

size_t hw_ws_frame_head(uint8_t *out, enum hw_ws_opcode opcode, uint64_t n)
{
    out[0] = (uint8_t)(FIN | opcode);
    size_t extra = n < 126 ? 0 : n <= UINT16_MAX ? 2 : 8;
    out[1] = (uint8_t)(extra == 0 ? n : extra == 2 ? 126 : 127);
    for (size_t i = 0; i < extra; i++)
        out[2 + i] = (uint8_t)(n >> 8 * (extra - 1 - i));
    return 2 + extra;
}

void hw_ws_add_masked(struct hw_strbuf *out, enum hw_ws_opcode opcode, struct hw_bytes payload,
                      const uint8_t mask[4])
{
    uint8_t head[10];
    size_t n = hw_ws_frame_head(head, opcode, payload.n);
    head[1] |= MASKED;
    hw_strbuf_add(out, head, n);
    hw_strbuf_add(out, mask, 4);
    for (size_t i = 0; i < payload.n; i++)
        hw_strbuf_addc(out, (char)(payload.p[i] ^ mask[i % 4]));
}

/* ---- SHA-1, which the handshake requires; nothing here is secret ---- */

static uint32_t rotate(uint32_t v, unsigned n)
{
    return v << n | v >> (32 - n);
}

static void sha1_block(uint32_t h[5], const uint8_t *p)
{
    uint32_t w[80], v[5];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
               (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    for (int i = 16; i < 80; i++)
        w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    memcpy(v, h, sizeof v);
    for (int i = 0; i < 80; i++) {
        uint32_t f, k;
        if (i < 20) {
            f = (v[1] & v[2]) | (~v[1] & v[3]);
            k = 0x5a827999;
        } else if (i < 40) {
            f = v[1] ^ v[2] ^ v[3];
            k = 0x6ed9eba1;
        } else if (i < 60) {
            f = (v[1] & v[2]) | (v[1] & v[3]) | (v[2] & v[3]);
            k = 0x8f1bbcdc;
        } else {
            f = v[1] ^ v[2] ^ v[3];
            k = 0xca62c1d6;
        }
        uint32_t next = rotate(v[0], 5) + f + v[4] + k + w[i];
        v[4] = v[3];
        v[3] = v[2];
        v[2] = rotate(v[1], 30);
        v[1] = v[0];
        v[0] = next;
    }
    for (int i = 0; i < 5; i++)
        h[i] += v[i];
}

/* Of at most 119 bytes: two blocks with the padding. */
static void sha1(const uint8_t *p, size_t n, uint8_t out[20])
{
    uint32_t h[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    uint8_t text[128] = {0};
    size_t blocks = n + 9 > 64 ? 2 : 1;
    memcpy(text, p, n);
    text[n] = 0x80;
    text[64 * blocks - 2] = (uint8_t)(n * 8 >> 8);
    text[64 * blocks - 1] = (uint8_t)(n * 8);
    for (size_t i = 0; i < blocks; i++)
        sha1_block(h, text + 64 * i);
    for (int i = 0; i < 20; i++)
        out[i] = (uint8_t)(h[i / 4] >> (24 - 8 * (i % 4)));
}

void hw_ws_accept(const char *key, char out[29])
{
    static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint8_t text[119], hash[21] = {0};
    size_t n = strlen(key);
    if (n > sizeof text - (sizeof guid - 1)) /* a key has 24 characters */
        n = sizeof text - (sizeof guid - 1);
    memcpy(text, key, n);
    memcpy(text + n, guid, sizeof guid - 1);
    sha1(text, n + sizeof guid - 1, hash);
    for (int i = 0; i < 7; i++) {
        uint32_t v = (uint32_t)hash[3 * i] << 16 | (uint32_t)hash[3 * i + 1] << 8 | hash[3 * i + 2];
        for (int k = 0; k < 4; k++)
            out[4 * i + k] = digits[v >> (18 - 6 * k) & 63];
    }
    out[27] = '='; /* 20 bytes: 27 digits */
    out[28] = 0;
}

/*
 * websocket.h - the frames of a WebSocket, as bytes
 *
 * Why:     the rules of RFC 6455 without sockets, for tests and a fuzzer.
 * Shapes:  a reader takes the other side's bytes and returns complete messages: fragments joined,
 *          unmasked, with control frames between fragments. A client masks its frames, a server
 *          never does.
 * Owns:    the reader's buffers; a message is borrowed until the next call.
 * Errors:  violations close the connection with a code: 1002 (protocol), 1007 (invalid UTF-8), 1009
 *          (too large).
 * Source:  RFC 6455 5, 7.4
 */
#ifndef HW_CODEC_WEBSOCKET_H
#define HW_CODEC_WEBSOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/text/strbuf.h"

enum hw_ws_opcode {
    HW_WS_CONTINUATION = 0,
    HW_WS_TEXT = 1,
    HW_WS_BINARY = 2,
    HW_WS_CLOSE = 8,
    HW_WS_PING = 9,
    HW_WS_PONG = 10
};

struct hw_ws_reader {
    struct hw_strbuf in;      /* not yet read */
    size_t taken;             /* of in */
    struct hw_strbuf message; /* fragments so far, then the message */
    enum hw_ws_opcode opcode; /* of the message being joined */
    bool in_message, given;
    bool from_server;
    size_t max_message;
    unsigned close_code; /* after next gave < 0 */
};

void hw_ws_reader_done(struct hw_ws_reader *r);
int hw_ws_reader_add(struct hw_ws_reader *r, const void *p, size_t n); /* HW_ENOMEM */
/* 1 = a message (TEXT, BINARY) or a control frame (CLOSE, PING, PONG), 0 = more bytes are needed,
 * HW_EFORMAT, HW_ELIMIT, HW_ENOMEM. */
int hw_ws_reader_next(struct hw_ws_reader *r, enum hw_ws_opcode *opcode, struct hw_bytes *message);

/* The head of a frame from the server (never masked); at most 10 bytes. Returns its length. */
size_t hw_ws_frame_head(uint8_t *out, enum hw_ws_opcode opcode, uint64_t n);
/* Adds a whole frame from a client. mask: random, from the kernel. */
void hw_ws_add_masked(struct hw_strbuf *out, enum hw_ws_opcode opcode, struct hw_bytes payload,
                      const uint8_t mask[4]);
/* The Sec-WebSocket-Accept value for a key: 28 characters and a NUL. */
void hw_ws_accept(const char *key, char out[29]);

#endif

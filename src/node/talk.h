/*
 * talk.h - HTTP and WebSocket over one connection to an inspector
 *
 * Why:     one request and one upgrade, with a limit on everything that comes back. libcurl has
 *          WebSockets, but not in the builds of Debian 12 (doc/design/node.md).
 * Shapes:  a link waits for as long as its deadline says; who has seen progress moves it.
 * Owns:    the descriptor; a message is borrowed until the next receive.
 * Errors:  HW_NODE_STOPPED (> 0: the asker was told to stop), HW_ETIMEOUT, HW_EGONE (closed), HW_EFORMAT,
 *          HW_ELIMIT, HW_ENOMEM, HW_ESYS.
 * Threads: one.
 * Source:  RFC 9112, RFC 6455
 */
#ifndef HW_NODE_TALK_H
#define HW_NODE_TALK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "codec/websocket.h"

struct hw_error;

#define HW_NODE_STOPPED 1

struct hw_node_wait {
    uint64_t silence_ms;      /* without progress */
    bool (*is_stopped)(void); /* asked a few times a second; NULL = never */
};

struct hw_node_link {
    int fd;
    const struct hw_node_wait *wait; /* borrowed */
    uint64_t until_ns;
    struct hw_ws_reader reader;
};

/* Takes over fd, which does not block. */
void hw_node_link_init(struct hw_node_link *l, int fd, const struct hw_node_wait *wait);
void hw_node_link_done(struct hw_node_link *l);
void hw_node_link_progress(struct hw_node_link *l);

/* The body of an answer 200; *body is malloc'ed, and ends in NUL. */
int hw_node_get(struct hw_node_link *l, const char *path, unsigned port, char **body, size_t *n,
                struct hw_error *err);
int hw_node_upgrade(struct hw_node_link *l, const char *path, unsigned port, struct hw_error *err);
/* After the upgrade: texts. Pings are answered on the way. */
int hw_node_send(struct hw_node_link *l, const char *text, struct hw_error *err);
int hw_node_receive(struct hw_node_link *l, struct hw_bytes *message, struct hw_error *err);

#endif

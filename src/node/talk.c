#include "node/talk.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "codec/base64.h"

#include "base/banned.h"

enum {
    STEP_MS = 100,
    MAX_HEAD = 16 << 10,
    MAX_BODY = 1 << 20, /* a list of targets: a few hundred bytes each */
    READ_BYTES = 64 << 10,
    /* V8 cuts a snapshot into 100 KiB, each byte of which may take six as JSON. */
    MAX_MESSAGE = 4 << 20
};

void hw_node_link_init(struct hw_node_link *l, int fd, const struct hw_node_wait *wait)
{
    *l = (struct hw_node_link){
        .fd = fd,
        .wait = wait,
        .reader = {.max_message = MAX_MESSAGE, .from_server = true},
    };
    hw_node_link_progress(l);
}

void hw_node_link_done(struct hw_node_link *l)
{
    hw_autofd_close(&l->fd);
    hw_ws_reader_done(&l->reader);
    *l = (struct hw_node_link){.fd = -1};
}

void hw_node_link_progress(struct hw_node_link *l)
{
    l->until_ns = hw_now_monotonic_ns() + l->wait->silence_ms * 1000000;
}

/* ---- bytes ---- */

static int wait_for(struct hw_node_link *l, short events, struct hw_error *err)
{
    for (;;) {
        struct pollfd p = {.fd = l->fd, .events = events};
        if (poll(&p, 1, STEP_MS) > 0)
            return HW_OK;
        if (l->wait->is_stopped && l->wait->is_stopped())
            return HW_NODE_STOPPED;
        if (hw_now_monotonic_ns() > l->until_ns)
            return hw_fail(err, HW_ETIMEOUT, 0, "no progress for %.3g s",
                           (double)l->wait->silence_ms / 1000);
    }
}

static int send_all(struct hw_node_link *l, const char *p, size_t n, struct hw_error *err)
{
    while (n) {
        ssize_t done = send(l->fd, p, n, MSG_NOSIGNAL);
        if (done < 0 && errno == EAGAIN) {
            int rc = wait_for(l, POLLOUT, err);
            if (rc != HW_OK)
                return rc;
        } else if (done < 0 && errno != EINTR) {
            return hw_fail(err, HW_EGONE, 0, "the connection was closed: %s", strerror(errno));
        }
        p += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
    }
    return HW_OK;
}

/* *n = 0: the end. */
static int receive_some(struct hw_node_link *l, char *out, size_t max, size_t *n,
                        struct hw_error *err)
{
    for (;;) {
        /* Asked also of who never stops sending. */
        if (l->wait->is_stopped && l->wait->is_stopped())
            return HW_NODE_STOPPED;
        ssize_t got = recv(l->fd, out, max, 0);
        if (got >= 0) {
            *n = (size_t)got;
            return HW_OK;
        }
        if (errno != EAGAIN && errno != EINTR)
            return hw_fail(err, HW_EGONE, 0, "the connection was closed: %s", strerror(errno));
        int rc = wait_for(l, POLLIN, err);
        if (rc != HW_OK)
            return rc;
    }
}

static int late(struct hw_node_link *l, struct hw_error *err)
{
    return hw_now_monotonic_ns() > l->until_ns
               ? hw_fail(err, HW_ETIMEOUT, 0, "no progress for %.3g s",
                         (double)l->wait->silence_ms / 1000)
               : HW_OK;
}

/* ---- HTTP ---- */

/* *n = 0: the end. */
static int add_some(struct hw_node_link *l, struct hw_strbuf *in, size_t *n, struct hw_error *err)
{
    char some[4096];
    int rc = receive_some(l, some, sizeof some, n, err);
    if (rc == HW_OK)
        rc = late(l, err);
    if (rc != HW_OK)
        return rc;
    hw_strbuf_add(in, some, *n);
    return in->failed ? hw_fail(err, HW_ENOMEM, 0, "answer") : HW_OK;
}

/* Reads until the head is complete. *body: where it ends. */
static int read_head(struct hw_node_link *l, struct hw_strbuf *in, size_t *body,
                     struct hw_error *err)
{
    for (;;) {
        const char *end = in->n ? memmem(in->p, in->n, "\r\n\r\n", 4) : NULL;
        if (end) {
            *body = (size_t)(end - in->p) + 4;
            return memchr(in->p, 0, *body) ? hw_fail(err, HW_EFORMAT, 0, "a NUL in its head")
                                           : HW_OK;
        }
        if (in->n > MAX_HEAD)
            return hw_fail(err, HW_ELIMIT, 0, "its head has more than %d bytes", MAX_HEAD);
        size_t n;
        int rc = add_some(l, in, &n, err);
        if (rc != HW_OK)
            return rc;
        if (n == 0)
            return hw_fail(err, HW_EGONE, 0, "the connection was closed");
    }
}

static int status_of(const char *head)
{
    unsigned status;
    return sscanf(head, "HTTP/1.%*1[01] %3u", &status) == 1 ? (int)status : -1;
}

/* The value of a field in a head that ends with an empty line; without spaces around. */
static struct hw_bytes field(const char *head, const char *name)
{
    size_t n = strlen(name);
    for (const char *line = strstr(head, "\r\n"); line && line[2] != '\r';
         line = strstr(line + 2, "\r\n")) {
        const char *p = line + 2;
        if (strncasecmp(p, name, n) != 0 || p[n] != ':')
            continue;
        p += n + 1;
        p += strspn(p, " \t");
        size_t len = strcspn(p, "\r");
        while (len && (p[len - 1] == ' ' || p[len - 1] == '\t'))
            len--;
        return hw_bytes_of(p, len);
    }
    return hw_bytes_of(NULL, 0);
}

static int read_body(struct hw_node_link *l, struct hw_strbuf *in, size_t body,
                     struct hw_error *err)
{
    char digits[16] = {0};
    struct hw_bytes length = field(in->p, "content-length");
    size_t want = MAX_BODY + 1;
    if (length.n >= sizeof digits)
        return hw_fail(err, HW_EFORMAT, 0, "its length is no number");
    if (length.n) {
        char *end;
        memcpy(digits, length.p, length.n);
        want = (size_t)strtoull(digits, &end, 10);
        if (*end || digits[0] < '0' || digits[0] > '9')
            return hw_fail(err, HW_EFORMAT, 0, "its length is no number");
        if (want > MAX_BODY)
            return hw_fail(err, HW_ELIMIT, 0, "it has more than %d bytes", MAX_BODY);
    }
    while (in->n - body < want) {
        size_t n;
        int rc = add_some(l, in, &n, err);
        if (rc != HW_OK)
            return rc;
        if (n == 0)
            return length.n ? hw_fail(err, HW_ETRUNCATED, 0, "the answer is cut off") : HW_OK;
        if (in->n - body > MAX_BODY)
            return hw_fail(err, HW_ELIMIT, 0, "it has more than %d bytes", MAX_BODY);
    }
    return HW_OK;
}

static int request(struct hw_node_link *l, const char *path, unsigned port, const char *more,
                   struct hw_error *err)
{
    struct hw_strbuf b = {0};
    hw_strbuf_addf(&b, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n%s\r\n", path, port, more);
    int rc = b.failed ? hw_fail(err, HW_ENOMEM, 0, "request") : send_all(l, b.p, b.n, err);
    hw_strbuf_done(&b);
    return rc;
}

int hw_node_get(struct hw_node_link *l, const char *path, unsigned port, char **body, size_t *n,
                struct hw_error *err)
{
    struct hw_strbuf in = {0};
    size_t at = 0;
    int rc = request(l, path, port, "Connection: close\r\n", err);
    if (rc == HW_OK)
        rc = read_head(l, &in, &at, err);
    if (rc == HW_OK && status_of(in.p) != 200)
        rc = hw_fail(err, HW_EFORMAT, 0, "it does not answer as an inspector");
    if (rc == HW_OK)
        rc = read_body(l, &in, at, err);
    if (rc == HW_OK) {
        *n = in.n - at;
        memmove(in.p, in.p + at, *n + 1); /* with the NUL behind it */
        *body = hw_strbuf_take(&in);
    }
    hw_strbuf_done(&in);
    return rc;
}

static int check_upgrade(const char *head, const char *key, struct hw_error *err)
{
    char want[29];
    struct hw_bytes accept = field(head, "sec-websocket-accept");
    hw_ws_accept(key, want);
    if (status_of(head) != 101 || !hw_bytes_equal(accept, hw_bytes_str(want)))
        return hw_fail(err, HW_EFORMAT, 0, "it refuses a WebSocket");
    return HW_OK;
}

int hw_node_upgrade(struct hw_node_link *l, const char *path, unsigned port, struct hw_error *err)
{
    uint8_t random[16];
    struct hw_strbuf key = {0}, more = {0}, in = {0};
    size_t body = 0;
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return hw_fail_sys(err, "random bytes");
    hw_base64_add(&key, hw_bytes_of(random, sizeof random));
    hw_strbuf_addf(&more,
                   "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                   "Sec-WebSocket-Key: %s\r\n",
                   key.p ? key.p : "");
    int rc = key.failed || more.failed ? hw_fail(err, HW_ENOMEM, 0, "request") : HW_OK;
    if (rc == HW_OK)
        rc = request(l, path, port, more.p, err);
    if (rc == HW_OK)
        rc = read_head(l, &in, &body, err);
    if (rc == HW_OK)
        rc = check_upgrade(in.p, key.p, err);
    if (rc == HW_OK && hw_ws_reader_add(&l->reader, in.p + body, in.n - body) < 0)
        rc = hw_fail(err, HW_ENOMEM, 0, "answer");
    hw_strbuf_done(&key);
    hw_strbuf_done(&more);
    hw_strbuf_done(&in);
    return rc;
}

/* ---- WebSocket ---- */

static int send_frame(struct hw_node_link *l, enum hw_ws_opcode opcode, struct hw_bytes payload,
                      struct hw_error *err)
{
    uint8_t mask[4];
    struct hw_strbuf b = {0};
    if (getrandom(mask, sizeof mask, 0) != sizeof mask)
        return hw_fail_sys(err, "random bytes");
    hw_ws_add_masked(&b, opcode, payload, mask);
    int rc = b.failed ? hw_fail(err, HW_ENOMEM, 0, "frame") : send_all(l, b.p, b.n, err);
    hw_strbuf_done(&b);
    return rc;
}

int hw_node_send(struct hw_node_link *l, const char *text, struct hw_error *err)
{
    return send_frame(l, HW_WS_TEXT, hw_bytes_str(text), err);
}

static int more_bytes(struct hw_node_link *l, struct hw_error *err)
{
    hw_autofree char *some = malloc(READ_BYTES);
    size_t n = 0;
    int rc =
        some ? receive_some(l, some, READ_BYTES, &n, err) : hw_fail(err, HW_ENOMEM, 0, "buffer");
    if (rc == HW_OK && n == 0)
        rc = hw_fail(err, HW_EGONE, 0, "the connection was closed");
    if (rc == HW_OK && hw_ws_reader_add(&l->reader, some, n) < 0)
        rc = hw_fail(err, HW_ENOMEM, 0, "message");
    return rc;
}

int hw_node_receive(struct hw_node_link *l, struct hw_bytes *message, struct hw_error *err)
{
    for (;;) {
        enum hw_ws_opcode opcode;
        int rc = hw_ws_reader_next(&l->reader, &opcode, message);
        if (rc == HW_ELIMIT)
            return hw_fail(err, rc, 0, "a message of more than %d bytes", MAX_MESSAGE);
        if (rc < 0)
            return hw_fail(err, rc, 0, "its frames break the rules of WebSockets");
        if (rc == 0)
            rc = more_bytes(l, err);
        else if (opcode == HW_WS_TEXT)
            return late(l, err);
        else if (opcode == HW_WS_CLOSE)
            return hw_fail(err, HW_EGONE, 0, "the connection was closed");
        else if (opcode == HW_WS_PING)
            rc = send_frame(l, HW_WS_PONG, *message, err);
        else
            rc = HW_OK;
        if (rc == HW_OK)
            rc = late(l, err);
        if (rc != HW_OK)
            return rc;
    }
}

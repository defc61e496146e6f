/* Any bytes as frames of a client and of a server, whole and byte by byte: both must give the same
 * messages. And as what should be an inspector says: to a GET, to an upgrade, then messages. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "codec/websocket.h"
#include "node/snapshot.h"
#include "node/talk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static uint64_t read_all(const uint8_t *data, size_t n, size_t step, bool from_server)
{
    struct hw_ws_reader r = {.max_message = 1 << 16, .from_server = from_server};
    uint64_t hash = 0;
    int rc = 0;
    for (size_t i = 0; i < n && rc >= 0; i += step) {
        enum hw_ws_opcode opcode;
        struct hw_bytes m;
        if (hw_ws_reader_add(&r, data + i, n - i < step ? n - i : step) < 0)
            abort();
        while ((rc = hw_ws_reader_next(&r, &opcode, &m)) == 1)
            hash = hw_hash_mix(hash, hw_hash_bytes(m.p, m.n) + opcode);
    }
    hash = hw_hash_mix(hash, rc < 0 ? r.close_code : 0);
    hw_ws_reader_done(&r);
    return hash;
}

/* ---- an inspector's answers (node/talk.h) ---- */

static void with(const uint8_t *data, size_t n, void (*use)(struct hw_node_link *l))
{
    static const struct hw_node_wait wait = {.silence_ms = 1000};
    struct hw_node_link l;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        abort();
    if (n && send(pair[1], data, n < 60000 ? n : 60000, MSG_NOSIGNAL) < 0)
        abort();
    (void)shutdown(pair[1], SHUT_WR);
    hw_node_link_init(&l, pair[0], &wait);
    use(&l);
    hw_node_link_done(&l);
    (void)close(pair[1]);
}

static void get(struct hw_node_link *l)
{
    char *body = NULL;
    size_t n = 0;
    if (hw_node_get(l, "/json/list", 9229, &body, &n, NULL) == HW_OK && body[n] != 0)
        abort();
    free(body);
}

static void upgrade(struct hw_node_link *l)
{
    (void)hw_node_upgrade(l, "/x", 9229, NULL); /* of a key that nobody guesses */
}

static void take(struct hw_node_link *l)
{
    hw_autofd int file = hw_fd_temp("/tmp");
    struct hw_snapshot_job job = {.fd = file, .max_bytes = 1000};
    if (hw_snapshot_take(l, &job, NULL) == HW_OK && job.bytes == 0)
        abort();
    if (job.bytes > job.max_bytes)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    for (int side = 0; side < 2; side++)
        if (read_all(data, n, n ? n : 1, side) != read_all(data, n, 1, side))
            abort();
    with(data, n, get);
    with(data, n, upgrade);
    with(data, n, take);
    return 0;
}

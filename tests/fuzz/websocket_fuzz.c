/* Any bytes as frames of a client and of a server, whole and byte by byte: both must give the same messages. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/memory/map64.h"
#include "codec/websocket.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    for (int side = 0; side < 2; side++)
        if (read_all(data, n, n ? n : 1, side) != read_all(data, n, 1, side))
            abort();
    return 0;
}

/* Any bytes as what a client sends down the RPC's pipe, in two pieces. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/error.h"
#include "server/rpc/metatrace.h"
#include "server/rpc/processor.h"
#include "server/rpc/rpc.h"
#include "server/rpc/rpc_results.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static int take(void *ctx, struct hw_bytes frame)
{
    *(size_t *)ctx += frame.n;
    return HW_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct hw_processor_options o = {
        .limits = {.max_rows = 1000, .max_bytes = 1 << 20, .max_steps = 20}, .max_trace = 1 << 20};
    struct hw_rpc_server server = {0};
    size_t sent = 0, half = n / 2;
    struct hw_rpc_write to = {take, &sent};
    if (hw_processor_new(&o, &server.processor, NULL) < 0 ||
        hw_metatrace_new(&server.metatrace) < 0)
        abort();
    struct hw_rpc *r = hw_rpc_new(&server);
    if (r && hw_rpc_bytes(r, hw_bytes_of(data, half), &to) == HW_OK)
        (void)hw_rpc_bytes(r, hw_bytes_skip(hw_bytes_of(data, n), half),
                           &to); /* any error will do */
    hw_rpc_free(r);
    hw_processor_free(server.processor);
    hw_metatrace_free(server.metatrace);
    return 0;
}

/*
 * A block's address is known exactly, with one exception: with NativeMemoryTracking the JVM puts a
 * header of its own in front of each block, so malloc's address is that much lower and the
 * allocation that much larger. If the size of a block is known it must match, too: between the
 * graph and the snapshot the address may have been reused.
 */
#include "daemon/java/graph_links.h"

#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"

#include "base/banned.h"

enum { SLACK = 64 };

static const uint64_t heads[] = {0, 16, 32};

int hw_graph_request_init(struct hw_graph_request *q, uint64_t boottime_ns,
                          const hw_native_blocks *blocks)
{
    *q = (struct hw_graph_request){.boottime_ns = boottime_ns};
    if (hw_vec_reserve(&q->blocks, blocks->n) < 0)
        return HW_ENOMEM;
    if (blocks->n)
        memcpy(q->blocks.v, blocks->v, blocks->n * sizeof *blocks->v);
    q->blocks.n = blocks->n;
    return HW_OK;
}

void hw_graph_request_done(struct hw_graph_request *q)
{
    hw_vec_done(&q->blocks);
}

static bool fits(const struct hw_native_block *b, const struct hw_idle_sample *s)
{
    if (b->kind == HW_JAVA_NATIVE_DEFLATER || b->kind == HW_JAVA_NATIVE_INFLATER)
        return s->alloc_size <= b->bytes + SLACK; /* one of several */
    return s->alloc_size >= b->bytes && s->alloc_size - b->bytes <= SLACK;
}

static int look_up(struct hw_map64 *by_address, const struct hw_idle_sample *samples,
                   const struct hw_native_block *b, uint32_t block, hw_graph_replies *out)
{
    for (uint32_t i = 0; i < b->n_addresses; i++)
        for (size_t k = 0; k < HW_ARRAY_LEN(heads); k++) {
            uint64_t at, address = b->address[i] - heads[k];
            if (!b->address[i] || !hw_map64_get(by_address, address, &at) || !fits(b, &samples[at]))
                continue;
            (void)hw_map64_take(by_address, address, NULL); /* it is there */
            struct hw_graph_reply a = {block, (uint32_t)at};
            if (hw_vec_push(out, a) < 0)
                return HW_ENOMEM;
            break;
        }
    return HW_OK;
}

int hw_graph_request_send(const struct hw_graph_request *q, const struct hw_idle_sample *samples,
                          size_t n, hw_graph_replies *out)
{
    struct hw_map64 by_address = {0};
    int rc = HW_OK;
    for (size_t i = 0; i < n && rc == HW_OK; i++)
        rc = hw_map64_put(&by_address, samples[i].address & ~(UINT64_C(1) << 63), i);
    for (size_t i = 0; i < q->blocks.n && rc == HW_OK; i++)
        if (q->blocks.v[i].kind != HW_JAVA_NATIVE_MAPPED)
            rc = look_up(&by_address, samples, &q->blocks.v[i], (uint32_t)i, out);
    hw_map64_done(&by_address);
    return rc;
}

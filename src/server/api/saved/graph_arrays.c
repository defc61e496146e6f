#include "server/api/saved/graph_arrays.h"

#include <string.h>

#include "base/error.h"
#include "server/api/graph/flame_block.h"

#include "base/banned.h"

enum { HEADER = 72, AT_FLAGS = 8, AT_NODES = 12, AT_TEXTS = 16, AT_DEEPEST = 24, AT_FIGURES = 32 };

/* The next array of n values; NULL if the bytes end before. */
static const void *take(struct hw_bytes all, uint64_t *at, uint64_t n, unsigned width)
{
    uint64_t from = *at;
    *at += (n * width + 7) / 8 * 8;
    return *at <= all.n ? all.p + from : NULL;
}

static uint32_t u32_at(struct hw_bytes b, size_t at)
{
    uint32_t v;
    memcpy(&v, b.p + at, sizeof v);
    return v;
}

int hw_graph_arrays_read(struct hw_bytes bytes, struct hw_graph_arrays *out)
{
    uint64_t at = HEADER;
    if (bytes.n < HEADER || memcmp(bytes.p, "HFG1", 4) != 0)
        return HW_EFORMAT;
    struct hw_graph_arrays g = {.flags = u32_at(bytes, AT_FLAGS),
                                .n = u32_at(bytes, AT_NODES),
                                .n_texts = u32_at(bytes, AT_TEXTS),
                                .deepest = u32_at(bytes, AT_DEEPEST)};
    memcpy(g.figures, bytes.p + AT_FIGURES, sizeof g.figures);
    g.parent = take(bytes, &at, g.n, 4);
    g.end = take(bytes, &at, g.n, 4);
    g.depth = take(bytes, &at, g.n, 2);
    g.name = take(bytes, &at, g.n, 4);
    g.module = take(bytes, &at, g.n, 4);
    g.node_flags = take(bytes, &at, g.n, 1);
    g.self = take(bytes, &at, g.n, 8);
    g.cum = take(bytes, &at, g.n, 8);
    g.samples = take(bytes, &at, g.n, 4);
    g.error = take(bytes, &at, g.n, 8);
    if (g.flags & HW_FLAME_BLOCK_SHOWN)
        (void)take(bytes, &at, g.n, 4); /* no saved page has room for it */
    g.flags &= ~HW_FLAME_BLOCK_SHOWN;
    if (g.flags & HW_FLAME_BLOCK_SIDES) {
        g.a = take(bytes, &at, g.n, 8);
        g.b = take(bytes, &at, g.n, 8);
    }
    g.begins = take(bytes, &at, (uint64_t)g.n_texts + 1, 4);
    g.texts = (const char *)bytes.p + at;
    *out = g;
    return g.begins && g.n ? HW_OK : HW_EFORMAT;
}

struct hw_bytes hw_graph_arrays_text(const struct hw_graph_arrays *g, uint32_t id)
{
    return hw_bytes_of(g->texts + g->begins[id], g->begins[id + 1] - g->begins[id]);
}

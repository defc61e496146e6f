/*
 * heap_graph_blocks.h - memory outside the heap, and the native samples of its allocation
 *
 * Shapes:  blocks come in the graph's packets and become blocks of the graph and native sizes of
 *          its objects. Links come in packets of the native profile's sequence, before or after the
 *          graph; they are kept until all graphs are read.
 * Errors:  HW_ENOMEM. Broken messages and dangling links are counted.
 * Source:  proto/heapwise.proto, doc/formats/trace.md
 */
#ifndef HW_IMPORT_PERFETTO_HEAP_GRAPH_BLOCKS_H
#define HW_IMPORT_PERFETTO_HEAP_GRAPH_BLOCKS_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/memory/vec.h"
#include "import/perfetto/interned.h"
#include "model/graph/heap_graph.h"
#include "model/profile.h"
#include "trace/reader.h"

struct hw_graph_builder;

struct hw_raw_block {
    uint64_t object_id;
    uint8_t kind;
    int64_t bytes;
    uint32_t number; /* in the graph's packets */
};
typedef HW_VEC(struct hw_raw_block) hw_raw_blocks;

struct hw_raw_link {
    int64_t pid, ts_ns;
    struct hw_heap_link link; /* block: number in the graph's packets */
};
struct hw_raw_graph {
    int64_t pid, ts_ns;
};
struct hw_raw_links {
    HW_VEC(struct hw_raw_link) v;
    HW_VEC(struct hw_raw_graph) graphs; /* that links packets refer to */
    uint64_t n_broken;
};

/* 1 = added, 0 = it is broken. */
int hw_heap_graph_read_block(struct hw_bytes message, hw_raw_blocks *to);
/* Adds them to the finished graph; *lost = blocks of unknown objects. */
int hw_heap_graph_add_blocks(const struct hw_graph_builder *b, const hw_raw_blocks *blocks,
                             struct hw_heap_graph *g, uint64_t *lost);

void hw_raw_links_done(struct hw_raw_links *l);
int hw_raw_links_packet(struct hw_raw_links *l, const struct hw_packet *p, int64_t ts_ns,
                        struct hw_interned *interned);
/* Call when all graphs are in the profile. */
int hw_raw_links_finish(struct hw_raw_links *l, struct hw_profile *p);

#endif

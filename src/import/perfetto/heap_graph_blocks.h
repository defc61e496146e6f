/*
 * heap_graph_blocks.h - memory outside of the heap, and the samples that were allocated for it
 *
 * Shapes:  blocks are in the graph's packets and become its own and the native sizes of its
 *          objects. Links come in packets of their own, of the native profile's sequence, before or
 *          behind the graph; they wait until all graphs are there.
 * Errors:  HW_ENOMEM. Broken messages and links to nothing are given back as a number.
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

struct hw_told_block {
    uint64_t object_id;
    uint8_t kind;
    int64_t bytes;
    uint32_t number; /* in the graph's packets */
};
typedef HW_VEC(struct hw_told_block) hw_told_blocks;

struct hw_told_link {
    int64_t pid, ts_ns;
    struct hw_heap_link link; /* block: number in the graph's packets */
};
struct hw_told_graph {
    int64_t pid, ts_ns;
};
struct hw_told_links {
    HW_VEC(struct hw_told_link) v;
    HW_VEC(struct hw_told_graph) graphs; /* that were asked about */
    uint64_t n_broken;
};

/* 1 = taken, 0 = it is broken. */
int hw_heap_graph_read_block(struct hw_bytes message, hw_told_blocks *to);
/* To the graph, once finished; *lost: of objects that are not there. */
int hw_heap_graph_add_blocks(const struct hw_graph_builder *b, const hw_told_blocks *blocks,
                             struct hw_heap_graph *g, uint64_t *lost);

void hw_told_links_done(struct hw_told_links *l);
int hw_told_links_packet(struct hw_told_links *l, const struct hw_packet *p, int64_t ts_ns,
                         struct hw_interned *interned);
/* All graphs are in the profile. */
int hw_told_links_finish(struct hw_told_links *l, struct hw_profile *p);

#endif

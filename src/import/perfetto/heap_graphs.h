/*
 * heap_graphs.h - HeapGraph packets → heap graphs of the model
 *
 * Why:     a graph comes in many packets, mixed with those of other processes, and its ids are
 *          relative to each other; this code makes one graph of them.
 * Shapes:  pass the packets in file order, then finish once. State is kept per sequence and
 *          dropped when a graph is complete.
 * Threads: one owner; a thread of its own decodes packets ahead (heap_graph_ahead.h) without
 *          changing the result.
 * Errors:  HW_ENOMEM, HW_ELIMIT. What is wrong with the data is counted in the profile, by process.
 * Source:  doc/formats/trace.md, "Heap graphs"
 */
#ifndef HW_IMPORT_PERFETTO_HEAP_GRAPHS_H
#define HW_IMPORT_PERFETTO_HEAP_GRAPHS_H

#include <stdint.h>

#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "import/graph/heap_graph_ahead.h"
#include "import/graph/heap_graph_objects.h"
#include "import/perfetto/art_process.h"
#include "import/perfetto/heap_graph_blocks.h"
#include "model/profile.h"
#include "trace/reader.h"

struct hw_graph_state; /* the graph being read from a sequence */

struct hw_heap_graphs {
    struct hw_profile *profile;             /* borrowed */
    HW_VEC(struct hw_graph_state *) states; /* owned */
    struct hw_map64 by_sequence;
    struct hw_art_processes *art; /* borrowed */
    struct hw_raw_links links;
    struct hw_graph_batch batch;  /* of the packet being read */
    struct hw_graph_ahead *ahead; /* owned; NULL = not needed yet, or */
    bool has_no_thread;           /* there is no thread for it */
    bool has_failed;              /* on a packet before the last one passed, */
    uint64_t failed_at;           /* at this offset */
};

void hw_heap_graphs_init(struct hw_heap_graphs *d, struct hw_profile *profile,
                         struct hw_art_processes *art);
void hw_heap_graphs_done(struct hw_heap_graphs *d);
/* ts_ns: the packet's time, converted. Large packets may be kept for another thread to decode; the
 * next packet adds them, or hw_heap_graphs_flush(), which must be called before anything else
 * changes the profile. */
int hw_heap_graphs_packet(struct hw_heap_graphs *d, const struct hw_packet *p, int64_t ts_ns);
int hw_heap_graphs_flush(struct hw_heap_graphs *d);
/* Ends graphs whose last packet is missing. */
int hw_heap_graphs_finish(struct hw_heap_graphs *d);

#endif

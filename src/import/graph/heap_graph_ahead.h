/*
 * heap_graph_ahead.h - decodes HeapGraph packets while the previous one is added to its graph
 *
 * Why:     a graph of 10^8 objects is 10^4 packets; decoding them is half of the work until the
 *          last one is added.
 * Shapes:  a queue of at most HW_GRAPH_AHEAD_PACKETS packets, first in, first out.
 * Owns:    a copy of each packet, and the thread that reads them.
 * Errors:  of a packet: as hw_graph_batch_read. hw_graph_ahead_put: HW_ENOMEM, nothing changed.
 * Threads: one owner, and a thread of its own, which touches only packets in the queue.
 */
#ifndef HW_IMPORT_GRAPH_HEAP_GRAPH_AHEAD_H
#define HW_IMPORT_GRAPH_HEAP_GRAPH_AHEAD_H

#include "import/graph/heap_graph_objects.h"
#include "trace/reader.h"

enum { HW_GRAPH_AHEAD_PACKETS = 2 };

struct hw_graph_ahead;

struct hw_graph_packet {
    HW_VEC(uint8_t) bytes; /* with zeros after them */
    struct hw_bytes data;
    uint64_t sequence, offset;
    int64_t ts_ns;
    struct hw_graph_head head;
    struct hw_graph_batch batch; /* the whole packet */
    int rc;                      /* of decoding it */
};

/* NULL if there is no processor or no memory for it. */
struct hw_graph_ahead *hw_graph_ahead_new(void);
void hw_graph_ahead_free(struct hw_graph_ahead *a); /* NULL is fine */

/* Is the packet large enough to be worth a copy, and not too large? */
bool hw_graph_ahead_is_worth(const struct hw_packet *p);
size_t hw_graph_ahead_count(const struct hw_graph_ahead *a); /* NULL: 0 */
/* The queue must have room. */
int hw_graph_ahead_put(struct hw_graph_ahead *a, const struct hw_packet *p, int64_t ts_ns);
/* Waits until the first packet is decoded; there must be one. It stays until it is dropped. */
const struct hw_graph_packet *hw_graph_ahead_first(struct hw_graph_ahead *a);
void hw_graph_ahead_drop(struct hw_graph_ahead *a);

#endif

/*
 * heap_graph_ahead.h - HeapGraph packets, read while the one before is given to its graph
 *
 * Why:     a graph of 10^8 objects is 10^4 packets; what taking them apart costs is half of what
 *          happens before the last one is there.
 * Shapes:  put a packet in, take out what was put in first: at most HW_GRAPH_AHEAD_PACKETS between.
 * Owns:    a copy of each packet, and the thread that reads them.
 * Errors:  of a packet: as hw_graph_batch_read. Putting in: HW_ENOMEM, and nothing is changed.
 * Threads: one owner, and one of its own, which touches nothing but packets that were put in.
 */
#ifndef HW_IMPORT_PERFETTO_HEAP_GRAPH_AHEAD_H
#define HW_IMPORT_PERFETTO_HEAP_GRAPH_AHEAD_H

#include "import/graph/heap_graph_objects.h"
#include "trace/reader.h"

enum { HW_GRAPH_AHEAD_PACKETS = 2 };

struct hw_graph_ahead;

struct hw_graph_packet {
    HW_VEC(uint8_t) bytes; /* and some zeros */
    struct hw_bytes data;
    uint64_t sequence, offset;
    int64_t ts_ns;
    struct hw_graph_head head;
    struct hw_graph_batch batch; /* all of it */
    int rc;                      /* of reading it */
};

/* NULL: no processor or no memory for it. */
struct hw_graph_ahead *hw_graph_ahead_new(void);
void hw_graph_ahead_free(struct hw_graph_ahead *a); /* NULL is fine */

/* Is it worth a copy, and not too large for it? */
bool hw_graph_ahead_is_worth(const struct hw_packet *p);
size_t hw_graph_ahead_count(const struct hw_graph_ahead *a); /* NULL: 0 */
/* There must be room. */
int hw_graph_ahead_put(struct hw_graph_ahead *a, const struct hw_packet *p, int64_t ts_ns);
/* Waits for the first one, which must be there; it stays in until it is dropped. */
const struct hw_graph_packet *hw_graph_ahead_first(struct hw_graph_ahead *a);
void hw_graph_ahead_drop(struct hw_graph_ahead *a);

#endif

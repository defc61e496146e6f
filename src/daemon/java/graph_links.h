/*
 * graph_links.h - blocks that a JVM's objects own → the samples that were allocated for them
 *
 * Why:     a heap graph says that a buffer holds 64 MB, a native profile says which callstack
 *          allocated 64 MB; if both are recorded, the address shows that it is the same 64 MB.
 * Shapes:  a graph's blocks wait at the target until its next snapshot, which lists the live
 *          samples by address; then they are looked up there.
 * Owns:    the copy of the blocks.
 * Errors:  HW_ENOMEM.
 * Source:  doc/design/java.md
 */
#ifndef HW_DAEMON_JAVA_GRAPH_LINKS_H
#define HW_DAEMON_JAVA_GRAPH_LINKS_H

#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "daemon/books/idle_samples.h"
#include "daemon/java/java_native.h"

struct hw_graph_request {
    uint64_t boottime_ns; /* of the graph */
    hw_native_blocks blocks;
};

struct hw_graph_reply {
    uint32_t block;  /* from 0 */
    uint32_t sample; /* of the snapshot's */
};
typedef HW_VEC(struct hw_graph_reply) hw_graph_replies;

int hw_graph_request_init(struct hw_graph_request *q, uint64_t boottime_ns,
                          const hw_native_blocks *blocks);
void hw_graph_request_done(struct hw_graph_request *q);
/* A sample belongs to one block only. */
int hw_graph_request_send(const struct hw_graph_request *q, const struct hw_idle_sample *samples,
                          size_t n, hw_graph_replies *out);

#endif

/*
 * heap_graph_holders.h - threads, and the frames in which they hold roots of a heap graph
 *
 * Shapes:  they are in the graph's packets, threads and frames numbered as they come; at the end
 *          they become the graph's threads and holders. A trace tells the frames that hold
 *          something; of a thread they become its callsite, so a holder's depth is its place there.
 * Errors:  HW_ENOMEM, HW_ELIMIT. Broken messages are given back as a number.
 * Source:  proto/heapwise.proto, doc/formats/trace.md
 */
#ifndef HW_IMPORT_PERFETTO_HEAP_GRAPH_HOLDERS_H
#define HW_IMPORT_PERFETTO_HEAP_GRAPH_HOLDERS_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/memory/vec.h"
#include "model/profile.h"

struct hw_graph_builder;

struct hw_told_thread {
    int64_t id;
    hw_str_id name;
    uint64_t object; /* id; 0 = none */
    bool is_daemon;
};

struct hw_told_holder {
    uint64_t object; /* id */
    uint32_t root_type, thread, frame, depth;
    int32_t slot;
};

struct hw_told_holders {
    HW_VEC(struct hw_told_thread) threads;
    HW_VEC(hw_frame_id) frames;
    HW_VEC(struct hw_told_holder) holders;
};

void hw_told_holders_done(struct hw_told_holders *t);
/* 1 = taken, 0 = it is broken (but has its number). */
int hw_told_thread_read(struct hw_profile *p, struct hw_bytes message, struct hw_told_holders *to);
int hw_told_frame_read(struct hw_profile *p, struct hw_bytes message, struct hw_told_holders *to);
int hw_told_holder_read(struct hw_bytes message, struct hw_told_holders *to);
/* To the graph, once finished; *lost: of objects, threads or frames that are not there. */
int hw_told_holders_give(struct hw_told_holders *t, struct hw_profile *p,
                         const struct hw_graph_builder *b, struct hw_heap_graph *g, uint64_t *lost);

#endif

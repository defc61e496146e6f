/*
 * heap_graph_holders.h - threads, and the frames in which they hold roots of a heap graph
 *
 * Shapes:  they come in the graph's packets, threads and frames numbered in their order; at the end
 *          they become the graph's threads and holders. A trace has only frames that hold
 *          something; a thread's become its callsite, and a holder's depth its position there.
 * Errors:  HW_ENOMEM, HW_ELIMIT. Broken messages are counted.
 * Source:  proto/heapwise.proto, doc/formats/trace.md
 */
#ifndef HW_IMPORT_PERFETTO_HEAP_GRAPH_HOLDERS_H
#define HW_IMPORT_PERFETTO_HEAP_GRAPH_HOLDERS_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/memory/vec.h"
#include "model/profile.h"

struct hw_graph_builder;

struct hw_raw_thread {
    int64_t id;
    hw_str_id name;
    uint64_t object; /* id; 0 = none */
    bool is_daemon;
};

struct hw_raw_holder {
    uint64_t object; /* id */
    uint32_t root_type, thread, frame, depth;
    int32_t slot;
};

struct hw_raw_holders {
    HW_VEC(struct hw_raw_thread) threads;
    HW_VEC(hw_frame_id) frames;
    HW_VEC(struct hw_raw_holder) holders;
};

void hw_raw_holders_done(struct hw_raw_holders *t);
/* 1 = added, 0 = it is broken (a thread or frame takes a number even so). */
int hw_raw_thread_read(struct hw_profile *p, struct hw_bytes message, struct hw_raw_holders *to);
int hw_raw_frame_read(struct hw_profile *p, struct hw_bytes message, struct hw_raw_holders *to);
int hw_raw_holder_read(struct hw_bytes message, struct hw_raw_holders *to);
/* Adds them to the finished graph; *lost = references to unknown objects, threads or frames. */
int hw_raw_holders_add(struct hw_raw_holders *t, struct hw_profile *p,
                       const struct hw_graph_builder *b, struct hw_heap_graph *g, uint64_t *lost);

#endif

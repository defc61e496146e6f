/*
 * heap_graph_objects.h - the fields of a HeapGraph packet, with most objects decoded
 *
 * Why:     decoding an object needs only its bytes; adding it to the graph needs all before it. So
 *          packets are read in two steps, and the first may run ahead (heap_graph_ahead.h).
 * Shapes:  an array of plain objects and one of their references; all other fields of the packet
 *          are kept undecoded, each with its position among the objects.
 * Owns:    its arrays; fields are views of the packet.
 * Errors:  HW_ENOMEM; HW_ETRUNCATED, HW_EFORMAT where the packet breaks: what precedes is kept.
 * Source:  doc/formats/trace.md, "Heap graphs"
 */
#ifndef HW_IMPORT_GRAPH_HEAP_GRAPH_OBJECTS_H
#define HW_IMPORT_GRAPH_HEAP_GRAPH_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "codec/pb.h"

enum hw_graph_id_kind { HW_GRAPH_NO_ID, HW_GRAPH_ID, HW_GRAPH_ID_DELTA };

/* An object that has only these fields. */
struct hw_graph_plain {
    uint64_t id; /* or the difference to the previous object's */
    uint64_t class_id, self_size;
    uint64_t base;    /* added to its references that are not null */
    uint32_t n_refs;  /* the next n_refs of `targets` are its references */
    uint32_t id_kind; /* enum hw_graph_id_kind */
};

struct hw_graph_other {
    struct hw_pb_field field;
    size_t n_before; /* plain objects before it */
};

struct hw_graph_batch {
    HW_VEC(struct hw_graph_plain) objects;
    HW_VEC(uint64_t) targets;
    HW_VEC(struct hw_graph_other) others;
};

struct hw_graph_head {
    int64_t pid;
    uint64_t index;
    bool continued, has_heap_size;
    int64_t heap_size;
    uint64_t made_up_from;
};

/* A packet's header fields, up to where it breaks; the second takes a batch of the whole packet. */
void hw_graph_head_read(struct hw_bytes message, struct hw_graph_head *out);
void hw_graph_head_of_batch(const struct hw_graph_batch *b, struct hw_graph_head *out);
/* Replaces *out by the packet's next fields, at most max: 1 = there are more, 0 = the end, < 0. */
int hw_graph_batch_read(struct hw_pb_reader *body, size_t max, struct hw_graph_batch *out);
void hw_graph_batch_done(struct hw_graph_batch *b);

#endif

/*
 * heap_graph_objects.h - the fields of a HeapGraph packet, most objects taken apart
 *
 * Why:     taking an object apart needs nothing but its bytes, giving it to the graph needs all before
 *          it. So packets are read in two steps, and the first may run ahead (heap_graph_ahead.h).
 * Shapes:  plain objects in a row with their references in another; all other fields of the packet
 *          as they are, each with its place among the objects.
 * Owns:    its arrays; fields are views of the packet.
 * Errors:  HW_ENOMEM; HW_ETRUNCATED, HW_EFORMAT where the packet breaks: what came before is there.
 * Source:  doc/formats/trace.md, "Heap graphs"
 */
#ifndef HW_IMPORT_PERFETTO_HEAP_GRAPH_OBJECTS_H
#define HW_IMPORT_PERFETTO_HEAP_GRAPH_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "codec/pb.h"

enum hw_graph_id_kind { HW_GRAPH_NO_ID, HW_GRAPH_ID, HW_GRAPH_ID_DELTA };

/* An object that is these fields alone. */
struct hw_graph_plain {
    uint64_t id; /* or what is to be added to the one before */
    uint64_t class_id, self_size;
    uint64_t base;    /* of its references that are not null */
    uint32_t n_refs;  /* the next ones of `targets` */
    uint32_t id_kind; /* enum hw_graph_id_kind */
};

struct hw_graph_other {
    struct hw_pb_field field;
    size_t n_before; /* plain objects */
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

/* What a packet says of itself, up to where it breaks; the second one of a batch that is all of it. */
void hw_graph_head_read(struct hw_bytes message, struct hw_graph_head *out);
void hw_graph_head_of_batch(const struct hw_graph_batch *b, struct hw_graph_head *out);
/* The next fields of a packet in place of those that are there: 1 = there are more, 0 = all, < 0. */
int hw_graph_batch_read(struct hw_pb_reader *body, size_t most, struct hw_graph_batch *out);
void hw_graph_batch_done(struct hw_graph_batch *b);

#endif

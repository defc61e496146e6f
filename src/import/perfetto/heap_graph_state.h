/*
 * heap_graph_state.h - the graph being read from a sequence, shared by the files that read it
 *
 * Source:  import/perfetto/heap_graphs.h
 */
#ifndef HW_IMPORT_PERFETTO_HEAP_GRAPH_STATE_H
#define HW_IMPORT_PERFETTO_HEAP_GRAPH_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "import/perfetto/heap_graph_blocks.h"
#include "import/perfetto/heap_graph_holders.h"
#include "import/perfetto/heap_graph_natives.h"
#include "import/perfetto/heap_graph_values.h"
#include "import/perfetto/heap_graphs.h"
#include "model/graph/heap_graph_build.h"

struct hw_pb_field;

struct hw_graph_type {
    uint64_t id, location;
    struct hw_graph_class class;
    size_t first_field; /* of type_fields */
};

typedef HW_VEC(uint64_t) hw_graph_numbers;

struct hw_graph_state {
    struct hw_graph_builder *builder; /* owned; NULL: between graphs */
    int64_t pid, ts_ns;
    hw_upid upid;
    uint64_t next_index, last_id;
    enum hw_heap_type heap_type;
    bool truncated;
    int64_t heap_size;
    struct hw_map64 field_by_iid, location_by_iid; /* -> field; -> string */
    HW_VEC(uint8_t) field_is_named;                /* by field */
    uint32_t runtime_field;                        /* 0 = not made yet */
    HW_VEC(struct hw_graph_type) types;
    HW_VEC(uint32_t) type_fields;
    hw_sized_ids natives;
    hw_raw_blocks blocks;
    struct hw_raw_holders holders;
    uint64_t made_up_from;          /* objects from this id on are left out; 0 = none */
    HW_VEC(uint64_t) made_up_types; /* types of such objects only */
    hw_field_values values;
    hw_graph_numbers targets, names; /* of the object being read */
};

/* Errors of the graph, counted for its process. */
int hw_graph_count_error(struct hw_heap_graphs *d, const char *stat, const struct hw_graph_state *s,
                         uint64_t n);
/* Calls take for each value of a repeated number, packed or not. */
int hw_graph_each_number(const struct hw_pb_field *f, int (*take)(void *ctx, uint64_t v),
                         void *ctx);
/* The field with this iid; it may not have a name yet. */
int hw_graph_field_of(struct hw_graph_state *s, uint64_t iid, uint32_t *out);
int hw_graph_read_field_name(struct hw_heap_graphs *d, struct hw_graph_state *s,
                             struct hw_bytes message);
int hw_graph_read_location(struct hw_heap_graphs *d, struct hw_graph_state *s,
                           struct hw_bytes message);
int hw_graph_read_type(struct hw_heap_graphs *d, struct hw_graph_state *s, struct hw_bytes message);
int hw_graph_read_root(struct hw_heap_graphs *d, struct hw_graph_state *s, struct hw_bytes message);

#endif

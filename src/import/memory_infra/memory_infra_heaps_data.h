/*
 * memory_infra_heaps_data.h - heap dumps as they are in a JSON trace
 *
 * Why:     names may follow what they name, so rows keep the file's ids until everything has been
 *          read. memory_infra_heaps.c reads them from the events, memory_infra_values.c turns them
 *          into callsites, types and changes.
 * Errors:  HW_ENOMEM.
 */
#ifndef HW_IMPORT_MEMORY_INFRA_MEMORY_INFRA_HEAPS_DATA_H
#define HW_IMPORT_MEMORY_INFRA_MEMORY_INFRA_HEAPS_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "codec/pb.h"
#include "import/memory_infra/memory_infra_parts.h"

#define HW_INFRA_NO_KEY   UINT64_MAX        /* of a missing id */
#define HW_INFRA_TEXT_KEY (1ull << 63)      /* ids that are strings */
enum { HW_INFRA_V1 = 1, HW_INFRA_OLD = 2 }; /* an old dialect of version 1: self values */
enum { HW_INFRA_NEW = UINT32_MAX - 1, HW_INFRA_BUSY = UINT32_MAX - 2 };

struct hw_infra_node {
    uint64_t name, parent; /* ids; HW_INFRA_NO_KEY */
    uint32_t callsite;     /* HW_INFRA_NEW: not resolved yet; HW_INFRA_BUSY: being resolved */
    bool named;            /* name is a string of the model */
};

struct hw_infra_ids {
    struct hw_map64 strings, types, nodes; /* version 2: id → hw_str_id, id of string, node */
    struct hw_map64 v1_types, v1_nodes;    /* id → hw_str_id, node */
    struct hw_map64 shown_types[2]; /* [is version 1]: id → name as shown, once looked up */
};

struct hw_infra_row {
    uint64_t node, type;
    int64_t size, count;
};

struct hw_infra_heap_dump {
    uint32_t dump; /* of in->dumps */
    hw_upid upid;
    hw_str_id heap;
    unsigned flags;
    uint64_t offset;
    int64_t ts_ns;
    size_t order;
    struct hw_pb rows; /* four varints per row, a third of the text's size; hw_infra_next_row */
};

/* What a (callstack, type) held at the previous dump, and at this one. */
struct hw_infra_held {
    uint32_t callsite, type;
    int64_t size, count, new_size, new_count;
};

/* The entries of a callsite; valid only if `round` is the current one. */
struct hw_infra_entries_of {
    uint32_t round, first, n;
};

/* An entry of version 1. */
struct hw_infra_entry {
    uint32_t callsite, type; /* HW_ID_NONE: the whole heap; 0: all types */
    int64_t size, count, self_size, self_count;
    uint32_t order; /* in the file */
    bool has_below;
};

struct hw_infra_heaps {
    HW_VEC(struct hw_infra_ids) processes; /* by upid */
    HW_VEC(struct hw_infra_node) nodes;
    HW_VEC(struct hw_infra_heap_dump) dumps;
    HW_VEC(struct hw_infra_held) held;
    struct hw_map64 held_at; /* callsite << 32 | type */
    HW_VEC(struct hw_infra_entry) entries;
    HW_VEC(struct hw_infra_entries_of) entries_of; /* by callsite + 1 */
    uint32_t round;
    HW_VEC(uint32_t) path;
    struct hw_strbuf scratch;
    hw_str_id other, no_stack;
};

/* *rows starts as hw_pb_view of a dump's rows. */
bool hw_infra_next_row(struct hw_bytes *rows, struct hw_infra_row *out);
int hw_infra_ids_of(struct hw_infra *in, hw_upid upid, struct hw_infra_ids **out);
/* Keeps the first definition. */
int hw_infra_define(struct hw_map64 *map, uint64_t key, uint64_t value);

#endif

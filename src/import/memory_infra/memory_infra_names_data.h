/*
 * memory_infra_names_data.h - shared by the reading and the writing half of memory_infra_names.h
 *
 * Shapes:  both versions have frames with an id and a parent. Version 2 names them by string ids;
 *          version 1 has ids that are texts, which are interned.
 */
#ifndef HW_IMPORT_MEMORY_INFRA_MEMORY_INFRA_NAMES_DATA_H
#define HW_IMPORT_MEMORY_INFRA_MEMORY_INFRA_NAMES_DATA_H

#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "import/memory_infra/memory_infra_names.h"

#define HW_INFRA_NO_ID UINT64_MAX

struct hw_names_string { /* version 2 */
    uint64_t id;
    hw_str_id text;
    bool is_reused; /* an address whose id a name has taken over */
};

struct hw_names_node {
    uint64_t id, parent; /* HW_INFRA_NO_ID: none */
    uint64_t name_sid;   /* version 2 */
    hw_str_id name;
    hw_str_id category; /* version 1; 0 = none */
    uint32_t address;   /* HW_ID_NONE: it has a name already */
    bool has_child;
};

struct hw_names_type {
    uint64_t id, name_sid;
    hw_str_id name;
    uint32_t address;
};

struct hw_names_process {
    int64_t pid;
    int64_t mmaps_ts_us, maps_ts_us; /* of the last mappings, of the first maps */
    uint32_t maps_edit;              /* the edit that gets the maps; HW_ID_NONE */
    bool has_heaps;
    size_t first_region, n_regions;
    HW_VEC(struct hw_names_string) strings;
    HW_VEC(struct hw_names_node) nodes;
    HW_VEC(struct hw_names_type) types;
    struct hw_map64 string_at, node_at, type_at; /* id → index */
    struct hw_map64 leaf_at, return_at;          /* pc → address */
};

enum hw_names_edit_kind { HW_NAMES_V2, HW_NAMES_FRAMES, HW_NAMES_TYPES };

struct hw_names_edit { /* an event that is rewritten */
    uint64_t offset, n;
    uint32_t process;
    enum hw_names_edit_kind kind;
};

struct hw_names_range {
    size_t first, n; /* of names */
};

struct hw_infra_names {
    struct hw_strings *strings;
    HW_VEC(struct hw_names_process) processes;
    struct hw_map64 process_at; /* pid */
    HW_VEC(struct hw_infra_region) regions;
    HW_VEC(struct hw_infra_address) addresses;
    HW_VEC(struct hw_names_range) ranges; /* by address */
    HW_VEC(hw_str_id) names;              /* of all addresses, innermost first */
    HW_VEC(struct hw_names_edit) edits;   /* in the file's order */
    uint64_t last_id;
    unsigned version; /* of the heap dumps; 0 = none seen */
    bool frames_as_types;
};

#endif

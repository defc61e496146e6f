/*
 * heap_dump_job.h - heap dumps being written, shared by both versions
 */
#ifndef HW_EXPORT_MEMORY_INFRA_HEAP_DUMP_JOB_H
#define HW_EXPORT_MEMORY_INFRA_HEAP_DUMP_JOB_H

#include "base/text/strings.h"
#include "export/memory_infra/heap_dump.h"

struct hw_infra_heaps_node {
    uint32_t parent; /* index; HW_ID_NONE */
    uint32_t name;   /* index of a name */
    uint64_t id;     /* 0: not assigned yet */
    int64_t total;   /* in the heap being written */
    bool kept;       /* written as a node of its own */
};

struct hw_infra_heaps_name {
    hw_str_id text; /* in o->strings */
    uint64_t id, type_id;
};

/* What has been written for one process. */
struct hw_infra_heaps_written {
    struct hw_map64 name_at; /* text → index of names */
    HW_VEC(struct hw_infra_heaps_name) names;
    struct hw_map64 node_at; /* (parent + 1) << 32 | name → index */
    HW_VEC(struct hw_infra_heaps_node) nodes;
    struct hw_map64 callsite_at; /* callsite → node */
    HW_VEC(uint32_t) new_names, new_types, new_nodes;
};

struct hw_infra_heaps_row {
    uint32_t node, type; /* indices; type is one of names */
    int64_t size, count;
    bool kept; /* HW_DETAIL_ROWS: this row or one below it is large */
};

struct hw_infra_out {
    const struct hw_export_input *in;
    hw_infra_pc_fn pc;
    void *ctx;
    struct hw_strings *strings;                    /* names as they are written */
    HW_VEC(struct hw_infra_heaps_written) written; /* by upid */
    uint64_t last_id;
    struct hw_strbuf label;
    HW_VEC(struct hw_infra_heaps_row) rows;
    HW_VEC(uint32_t) path;
};

/* ---- heap_dump.c ---- */

int hw_infra_heaps_name_of(struct hw_infra_out *o, struct hw_infra_heaps_written *t,
                           struct hw_bytes text, uint32_t *out);
int hw_infra_heaps_child_of(struct hw_infra_heaps_written *t, uint32_t parent, uint32_t name,
                            uint32_t *out);
int hw_infra_heaps_collect(struct hw_infra_out *o, hw_upid upid, const struct hw_infra_heap *heap);

/* ---- heap_dump_fold.c ---- */

void hw_infra_heaps_sum_up(struct hw_infra_out *o, struct hw_infra_heaps_written *t);
const struct hw_infra_rule *hw_infra_heaps_rule_of(const struct hw_infra_out *o);
bool hw_infra_heaps_is_fraction_small(int64_t size, int64_t *sum);
int hw_infra_heaps_choose_nodes(struct hw_infra_out *o, struct hw_infra_heaps_written *t);
int hw_infra_heaps_fold_stacks(struct hw_infra_out *o, struct hw_infra_heaps_written *t,
                               struct hw_infra_folded *folded);
int hw_infra_heaps_fold_types(struct hw_infra_out *o, struct hw_infra_heaps_written *t);
void hw_infra_heaps_merge_rows(struct hw_infra_out *o);
void hw_infra_heaps_sort_by_size(struct hw_infra_out *o);

/* ---- heap_dump_v2.c ---- */

int hw_infra_heaps_assign_node_id(struct hw_infra_out *o, struct hw_infra_heaps_written *t,
                                  uint32_t node);
int hw_infra_heaps_assign_type_id(struct hw_infra_out *o, struct hw_infra_heaps_written *t,
                                  uint32_t name);
void hw_infra_heaps_put_text(struct hw_infra_out *o, struct hw_json *j,
                             const struct hw_infra_heaps_written *t, uint32_t name);

#endif

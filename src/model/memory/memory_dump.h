/*
 * memory_dump.h - memory-infra dumps: per process a tree of named nodes, and who owns what
 *
 * Why:     programs count their own memory by purpose; a piece counted by two of them is to be
 *          charged once. That is what effective sizes are.
 * Shapes:  fill (snapshot, process, nodes, edges), then finish once: it makes missing parents,
 *          links `tracing` to the allocator it lives in, and computes sizes. Afterwards rows of one
 *          process stand together, parents before children.
 * Units:   bytes.
 * Owns:    its rows; strings and args belong to the profile.
 * Errors:  HW_ENOMEM, HW_ELIMIT, HW_EINVAL (an id twice). What is inconsistent (a node twice, an
 *          edge to nowhere, rings of owners) is left out and counted in n_bad.
 * Source:  doc/formats/memory-infra.md
 */
#ifndef HW_MODEL_MEMORY_MEMORY_DUMP_H
#define HW_MODEL_MEMORY_MEMORY_DUMP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "base/text/strings.h"
#include "model/ids.h"

struct hw_profile;

enum hw_memory_detail { HW_MEMORY_DETAILED, HW_MEMORY_LIGHT, HW_MEMORY_BACKGROUND };

struct hw_memory_snapshot {
    int64_t ts_ns;
    enum hw_memory_detail detail;
};

struct hw_memory_process {
    uint32_t snapshot;
    hw_upid upid; /* HW_ID_NONE: nodes that belong to all (`global/…`) */
};

struct hw_memory_node {
    uint32_t process;
    uint32_t parent;  /* HW_ID_NONE at a root */
    hw_str_id path;   /* the whole one */
    uint32_t arg_set; /* HW_ID_NONE = none */
    bool has_size, weak;
    bool told_size;   /* told, or taken over from what it owns: not only added up */
    bool told;        /* by a process, not only made for its children */
    bool unspecified; /* made by us: what its parent has beyond its other children */
    uint64_t size, effective_size;
    uint64_t guid; /* of edges; 0 = made by us */
};

struct hw_memory_edge {
    uint64_t source_guid, target_guid;
    uint32_t snapshot;
    uint32_t source, target; /* nodes; HW_ID_NONE before finish */
    uint32_t importance;
};

struct hw_memory_dumps {
    HW_VEC(struct hw_memory_snapshot) snapshots;
    HW_VEC(struct hw_memory_process) processes;
    HW_VEC(struct hw_memory_node) nodes;
    HW_VEC(struct hw_memory_edge) edges;
    struct hw_map64 by_ts;      /* time -> snapshot */
    struct hw_map64 by_process; /* snapshot << 32 | upid -> process */
    struct hw_map64 by_path;    /* process << 32 | path -> node */
    uint64_t n_bad;
};

void hw_memory_dumps_done(struct hw_memory_dumps *m);
/* The snapshot at ts, made when there was none. */
int hw_memory_snapshot(struct hw_memory_dumps *m, int64_t ts_ns, enum hw_memory_detail detail,
                       uint32_t *out);
int hw_memory_process(struct hw_memory_dumps *m, uint32_t snapshot, hw_upid upid, uint32_t *out);
/* A node and its parents, at most 64 names deep. Paths beginning with `global/` go to the process
 * of all. */
int hw_memory_node(struct hw_profile *p, uint32_t process, struct hw_bytes path, uint64_t guid,
                   struct hw_memory_node **out);
/* A process tells of a node. 1: its contents are wanted; 0: another process's are there, which is
 * so below `global/` only, and such a node is weak when all say so; HW_EINVAL: the node a second
 * time. */
int hw_memory_tell(const struct hw_memory_dumps *m, struct hw_memory_node *n, bool weak);
int hw_memory_edge(struct hw_memory_dumps *m, uint32_t snapshot, uint64_t source_guid,
                   uint64_t target_guid, uint32_t importance);
int hw_memory_dumps_finish(struct hw_profile *p);

#endif

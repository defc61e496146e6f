/*
 * memory_dump.h - memory-infra dumps: a tree of named nodes for each process, and ownership edges
 *
 * Why:     programs count their own memory by purpose; memory that two of them count must be
 *          charged only once. Effective sizes do that.
 * Shapes:  fill (snapshot, process, nodes, edges), then finish once: it links `tracing` to the
 *          allocator that contains it and computes sizes. Afterwards rows of one process are
 *          adjacent, parents before children.
 * Units:   bytes.
 * Owns:    its rows; strings and args belong to the profile.
 * Errors:  HW_ENOMEM, HW_ELIMIT, HW_EINVAL (a bad path, a node twice). Bad edges (without nodes,
 *          cycles of owners) are left out and counted in n_bad.
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
    hw_upid upid; /* HW_ID_NONE: global nodes (`global/…`) */
};

struct hw_memory_node {
    uint32_t process;
    uint32_t parent;  /* HW_ID_NONE at a root */
    hw_str_id path;   /* complete */
    uint32_t arg_set; /* HW_ID_NONE = none */
    bool has_size, weak;
    bool told_size;   /* the size was recorded, or inherited from what it owns, not just summed */
    bool told;        /* recorded by a process, not just created for its children */
    bool unspecified; /* created by us: the rest of its parent beyond its other children */
    uint64_t size, effective_size;
    uint64_t guid; /* for edges; 0 = created by us */
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
/* Finds or adds the snapshot at ts. */
int hw_memory_snapshot(struct hw_memory_dumps *m, int64_t ts_ns, enum hw_memory_detail detail,
                       uint32_t *out);
int hw_memory_process(struct hw_memory_dumps *m, uint32_t snapshot, hw_upid upid, uint32_t *out);
/* Finds or adds a node and its parents, at most 64 levels. Paths beginning with `global/` belong to
 * the global process. */
int hw_memory_node(struct hw_profile *p, uint32_t process, struct hw_bytes path, uint64_t guid,
                   struct hw_memory_node **out);
/* Notes that a process reports a node. 1: its contents are wanted; 0: it has another process's,
 * only below `global/`, where a node is weak if all processes say so; HW_EINVAL: reported twice. */
int hw_memory_report_node(const struct hw_memory_dumps *m, struct hw_memory_node *n, bool weak);
int hw_memory_edge(struct hw_memory_dumps *m, uint32_t snapshot, uint64_t source_guid,
                   uint64_t target_guid, uint32_t importance);
int hw_memory_dumps_finish(struct hw_profile *p);

#endif

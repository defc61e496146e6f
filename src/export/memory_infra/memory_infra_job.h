/*
 * memory_infra_job.h - what the files of the memory-infra exporter share
 *
 * Shapes:  memory_infra_writer.c writes the events, heap_dump.c heap dumps,
 *          memory_infra_allocators.c the figures of a process and its allocators,
 *          memory_infra_regions.c where files were mapped.
 * Units:   bytes; ts_ns as in the model.
 * Errors:  HW_ENOMEM.
 * Source:  doc/formats/memory-infra.md
 */
#ifndef HW_EXPORT_MEMORY_INFRA_MEMORY_INFRA_JOB_H
#define HW_EXPORT_MEMORY_INFRA_MEMORY_INFRA_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "base/text/json_out.h"
#include "export/memory_infra/heap_dump.h"
#include "model/profile.h"

/* ---- where files were mapped ---- */

struct hw_infra_region {
    hw_upid upid;
    uint64_t start, end;
    hw_mapping_id mapping;
};

struct hw_infra_regions { /* zero-initialised is empty */
    const struct hw_profile *p;
    HW_VEC(struct hw_infra_region) v; /* by process, then address; none overlap */
};

int hw_infra_regions_find(struct hw_infra_regions *r, const struct hw_profile *p);
void hw_infra_regions_done(struct hw_infra_regions *r);
/* The frame's address in the process; 0 = its file was not mapped. An hw_infra_pc_fn. */
uint64_t hw_infra_regions_pc(void *regions, hw_upid upid, const struct hw_frame *f);
/* The member "process_mmaps", if it has entries: the process's mappings of that moment, if the
 * profile has their addresses, and the files of unnamed frames. */
int hw_infra_regions_put(const struct hw_infra_regions *r, struct hw_json *j, hw_upid upid,
                         int64_t ts_ns);

/* ---- a process's own figures ---- */

/* One process at the moment of a global dump. */
struct hw_infra_moment {
    hw_upid upid;
    int64_t ts_ns;
    uint64_t dump;           /* makes the ids of nodes differ from dump to dump */
    uint32_t process;        /* of the model's memory dumps; HW_ID_NONE: none of that moment */
    uint32_t global_process; /* the owner of global nodes; HW_ID_NONE: another process has them */
    const struct hw_infra_heap *heaps;
    size_t n_heaps;
    struct hw_infra_folded folded;
};

/* The member "process_totals", if any are known. own_moment: only those read at ts, else the
 * nearest ones. */
void hw_infra_put_totals(const struct hw_profile *p, struct hw_json *j, hw_upid upid, int64_t ts,
                         bool own_moment);
/* The members "allocators" and "allocators_graph". */
void hw_infra_put_allocators(const struct hw_profile *p, struct hw_json *j,
                             const struct hw_infra_moment *m);

#endif

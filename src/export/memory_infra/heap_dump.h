/*
 * heap_dump.h - heap dumps in memory-infra's format, both versions
 *
 * Shapes:  one set of ids for the whole file, counted from 1; strings, types and nodes are defined
 *          once per process, in the first dump that needs them. Call for the dumps of one process
 *          in order of time.
 * Units:   bytes, objects; both integers.
 * Owns:    its maps.
 * Errors:  HW_ENOMEM.
 * Source:  doc/formats/memory-infra.md
 */
#ifndef HW_EXPORT_MEMORY_INFRA_HEAP_DUMP_H
#define HW_EXPORT_MEMORY_INFRA_HEAP_DUMP_H

#include "base/text/json_out.h"
#include "export/export.h"
#include "views/infra/values_by_type.h"

#define HW_INFRA_THRESHOLD_BYTES 1024

struct hw_infra_out;

/* The address to write for a frame without a name; 0 = unknown. */
typedef uint64_t (*hw_infra_pc_fn)(void *ctx, hw_upid upid, const struct hw_frame *f);

int hw_infra_out_new(const struct hw_export_input *in, hw_infra_pc_fn pc, void *ctx,
                     struct hw_infra_out **out);
void hw_infra_out_free(struct hw_infra_out *o);

struct hw_infra_heap {
    struct hw_bytes name;
    hw_values_by_type values;
};

struct hw_infra_folded { /* the rows too small to be written one by one */
    int64_t size;
    uint64_t rows;
};

/* The value of the member "heaps_v2", with what is new for the process. */
int hw_infra_out_v2(struct hw_infra_out *o, struct hw_json *j, hw_upid upid,
                    const struct hw_infra_heap *heaps, size_t n, struct hw_infra_folded *folded);
/* The value of the member "heaps". */
int hw_infra_out_v1(struct hw_infra_out *o, struct hw_json *j, hw_upid upid,
                    const struct hw_infra_heap *heaps, size_t n);
/* The maps of version 1: the values of stackFrames and typeNames. */
void hw_infra_out_stack_frames(struct hw_infra_out *o, struct hw_json *j, hw_upid upid);
void hw_infra_out_type_names(struct hw_infra_out *o, struct hw_json *j, hw_upid upid);

#endif

/*
 * art_process.h - ArtProcessMetadata packets → processes, packages, why a graph was taken
 *
 * Why:     such a packet is a dump of its own, with a row even if no graph follows. A graph of the
 *          same process and time is joined with it.
 * Shapes:  pass the packets in file order, join graphs as they end, then finish once.
 * Owns:    its rows until then; graphs are the profile's.
 * Errors:  HW_ENOMEM, HW_ELIMIT.
 * Source:  doc/formats/reading.md
 */
#ifndef HW_IMPORT_PERFETTO_ART_PROCESS_H
#define HW_IMPORT_PERFETTO_ART_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/memory/vec.h"
#include "model/profile.h"

struct hw_art_process {
    hw_upid upid;
    int64_t ts_ns;
    bool joined;  /* by a graph */
    bool ran_out; /* of memory; only then the next ones count */
    int64_t allocation_size, total_free, free_until;
    hw_str_id message;
    bool has_stack;
    uint32_t thread;         /* of the profile; only with has_stack */
    hw_callsite_id callsite; /* HW_ID_NONE: the stack has no usable frame */
};

struct hw_art_processes {
    struct hw_profile *profile; /* borrowed */
    HW_VEC(struct hw_art_process) rows;
};

void hw_art_processes_init(struct hw_art_processes *a, struct hw_profile *profile);
void hw_art_processes_done(struct hw_art_processes *a);
int hw_art_processes_packet(struct hw_art_processes *a, struct hw_bytes message, int64_t ts_ns);
/* Adds the row of the graph's process and time, if any, to the graph. */
int hw_art_processes_join(struct hw_art_processes *a, struct hw_heap_graph *g);
/* Makes graphs without objects of rows that no graph was joined with. */
int hw_art_processes_finish(struct hw_art_processes *a);

#endif

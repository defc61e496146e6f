/*
 * art_process.h - ArtProcessMetadata packets → processes, packages, why a graph was taken
 *
 * Why:     such a packet is a dump of its own: its row is there also when no graph follows. A graph of
 *          that process and that very time joins it.
 * Shapes:  feed the packets in file order, join graphs as they end, then finish once.
 * Owns:    what was told until then; rows are the profile's.
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
    bool ran_out; /* of memory; then: */
    int64_t allocation_size, total_free, free_until;
    hw_str_id message;
    bool has_stack;
    uint32_t thread;         /* of the profile; then */
    hw_callsite_id callsite; /* HW_ID_NONE: no frame of it can be used */
};

struct hw_art_processes {
    struct hw_profile *profile; /* borrowed */
    HW_VEC(struct hw_art_process) told;
};

void hw_art_processes_init(struct hw_art_processes *a, struct hw_profile *profile);
void hw_art_processes_done(struct hw_art_processes *a);
int hw_art_processes_packet(struct hw_art_processes *a, struct hw_bytes message, int64_t ts_ns);
/* Gives a graph what was told of its process at its time. */
int hw_art_processes_join(struct hw_art_processes *a, struct hw_heap_graph *g);
/* Makes graphs without objects of what no graph joined. */
int hw_art_processes_finish(struct hw_art_processes *a);

#endif

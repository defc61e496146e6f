/*
 * heap_dumps.h - ProfilePackets → dumps and rows of the model
 *
 * Why:     dumps hold cumulative values, the model holds differences; this code converts one to the
 *          other.
 * Shapes:  pass the packets in order of time, after all interned data and clock snapshots, then
 *          finish once.
 * Errors:  HW_ENOMEM, HW_ELIMIT. What is wrong with the data is counted in the profile.
 * Source:  doc/formats/trace.md, "Native dumps"
 */
#ifndef HW_IMPORT_PERFETTO_HEAP_DUMPS_H
#define HW_IMPORT_PERFETTO_HEAP_DUMPS_H

#include <stdint.h>

#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "import/perfetto/interned.h"
#include "model/profile.h"
#include "trace/clocks.h"
#include "trace/reader.h"

struct hw_heap_series; /* one heap of one process on one sequence */

struct hw_dump_sequence {
    uint64_t id;
    uint64_t next_index;
    uint32_t generation; /* of the last packet with an index */
    uint32_t run;        /* counts recordings: a file may be several joined together */
    uint32_t dump;       /* counts dumps of this sequence: packets up to one without `continued` */
    bool open;           /* its last packet was `continued` */
    bool has_index;
};

struct hw_heap_dumps {
    struct hw_profile *profile;   /* borrowed */
    struct hw_interned *interned; /* borrowed */
    struct hw_clocks *clocks;     /* borrowed */
    HW_VEC(struct hw_dump_sequence) sequences;
    struct hw_map64 sequence_of;            /* its id -> index */
    HW_VEC(struct hw_heap_series *) series; /* owned */
    HW_VEC(uint32_t) series_of_dump;        /* by dump of the profile */
    struct hw_map64 series_by_key;          /* hash of what makes it -> the newest of a list */
    int64_t packet_ns;                      /* of the current packet; INT64_MIN = unknown */
};

void hw_heap_dumps_init(struct hw_heap_dumps *d, struct hw_profile *profile,
                        struct hw_interned *interned, struct hw_clocks *clocks);
void hw_heap_dumps_done(struct hw_heap_dumps *d);
/* ts_ns: the packet's time, INT64_MIN = unknown. */
int hw_heap_dumps_packet(struct hw_heap_dumps *d, const struct hw_packet *p, int64_t ts_ns);
/* Does the dump of this ProfilePacket continue in another one? */
bool hw_heap_dumps_is_continued(struct hw_bytes profile_packet);
/* Ends open dumps; moves the rows of a checkpoint to the later dump that replaced it. */
int hw_heap_dumps_finish(struct hw_heap_dumps *d);

#endif

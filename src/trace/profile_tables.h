/*
 * profile_tables.h - strings, mappings, frames and callstacks of a sequence of profile packets
 *
 * Why:     a dump refers to callstacks by number. They are defined once, with the first dump that
 *          has them.
 * Shapes:  a number (iid) for each callstack of each target's callsites. Readers distinguish frames
 *          only by mapping, address and function name, and callstacks must differ for them, too.
 *          So functions without an address, of Python, Java and the like, get one that is made of
 *          file and line, the same in every trace (doc/formats/trace.md).
 * Owns:    its strings and the interned data that is not written yet.
 * Errors:  HW_ENOMEM.
 * Cost:    O(depth) for a new callstack, else O(1).
 */
#ifndef HW_TRACE_PROFILE_TABLES_H
#define HW_TRACE_PROFILE_TABLES_H

#include <stddef.h>
#include <stdint.h>

#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "codec/pb.h"
#include "model/callsites.h"

struct hw_iids {
    uint64_t *v;
    size_t n, cap;
};

/* Of one target's callsites. Vectors by id of its tables; 0 = not sent yet. */
struct hw_profile_iids {
    struct hw_iids mappings, frames, sites;
    struct hw_map64 identities; /* what readers identify a frame by -> hash of the whole frame */
};

struct hw_profile_tables {
    struct hw_strings *strings;
    HW_VEC(uint8_t) sent;
    uint64_t last_mapping, last_frame, last_site; /* iids given so far */
    uint64_t unnamed;                             /* iid of the unnamed mapping; 0 = none yet */
    struct hw_pb interned;                        /* InternedData to be written */
    HW_VEC(hw_frame_id) path;
};

int hw_profile_tables_init(struct hw_profile_tables *t);
void hw_profile_tables_done(struct hw_profile_tables *t);
void hw_profile_iids_done(struct hw_profile_iids *x);

/* The callstack's iid; definitions that were not written yet are added to `interned`. */
int hw_profile_tables_site(struct hw_profile_tables *t, struct hw_profile_iids *x,
                           const struct hw_callsites *cs, hw_callsite_id id, uint64_t *out);

#endif

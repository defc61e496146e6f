/*
 * interned.h - interned entries of a trace, and their rows in the model
 *
 * Why:     a sample refers to a callstack by an id that may be defined later in the file. So the
 *          importer reads the file twice: first all entries, then the samples, whose callstacks
 *          are made on first use.
 * Shapes:  an entry's key is (sequence, generation, kind, iid). Entries in a ProfilePacket itself
 *          (the format's first form) are valid for one dump of their sequence, which takes the
 *          place of the generation, and come first. The first definition of an iid counts.
 * Owns:    copies of the entries; rows go into the profile given.
 * Errors:  HW_ENOMEM, HW_ELIMIT. What cannot be resolved is counted in the profile's statistics.
 * Source:  doc/formats/trace.md, "Sequences and interning"
 */
#ifndef HW_IMPORT_PERFETTO_INTERNED_H
#define HW_IMPORT_PERFETTO_INTERNED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/memory/arena.h"
#include "base/memory/blocks.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "base/text/strbuf.h"
#include "model/profile.h"

enum hw_interned_kind {
    HW_INTERNED_FUNCTION,
    HW_INTERNED_BUILD_ID,
    HW_INTERNED_PATH,
    HW_INTERNED_SOURCE_PATH,
    HW_INTERNED_MAPPING,
    HW_INTERNED_FRAME,
    HW_INTERNED_CALLSTACK,
    HW_INTERNED_CATEGORY,
    HW_INTERNED_EVENT_NAME,
    HW_INTERNED_KIND_COUNT
};

struct hw_interned_entry {
    const uint8_t *p; /* the whole message; NULL: a callstack that was decoded */
    uint32_t n;
    uint32_t resolved; /* 0 not yet, UINT32_MAX cannot be, else row + 1 */
};

/* iid -> entry. Small iids, the usual ones, index a plain array. */
struct hw_interned_table {
    HW_VEC(struct hw_interned_entry) entries;
    HW_VEC(uint32_t) dense; /* entry + 1 */
    struct hw_map64 sparse;
};

struct hw_interned_group {
    bool is_of_dump;
    struct hw_interned_table tables[HW_INTERNED_KIND_COUNT];
};

/* Where an entry is looked up: first the dump's own tables, then the generation's. */
struct hw_interned_scope {
    struct hw_interned_group *legacy, *generation; /* NULL = none */
};

struct hw_interned {
    struct hw_profile *profile; /* borrowed */
    struct hw_arena arena;
    struct hw_blocks stacks;                   /* messages of callstacks not decoded yet */
    HW_VEC(struct hw_interned_group *) groups; /* owned */
    struct hw_map64 sequence_index;            /* sequence -> dense number */
    struct hw_map64 group_by_key;              /* number << 32 | generation or dump -> groups */
    struct hw_map64 dump_of;                   /* sequence -> number of its current dump */
    HW_VEC(hw_frame_id) path;                  /* the callstack decoded last, */
    HW_VEC(uint32_t) ends;                     /* where in body its first frames end, */
    struct hw_strbuf body;                     /* and its message after the id */
    HW_VEC(hw_frame_id) last_path;             /* the one interned last, with its callsites */
    HW_VEC(hw_callsite_id) last_sites;
    struct hw_strbuf text;
    bool path_is_cut; /* of the mapping being read: a component is unknown */
    bool scope_known; /* scope is that of the last callstack looked up */
    uint64_t scope_sequence;
    uint32_t scope_generation;
    struct hw_interned_scope scope;
};

void hw_interned_init(struct hw_interned *in, struct hw_profile *profile);
void hw_interned_done(struct hw_interned *in);

/* Adds an InternedData message, or a ProfilePacket's own tables. All must be added before the first
 * callstack is looked up. */
int hw_interned_add(struct hw_interned *in, uint64_t sequence, uint32_t generation,
                    struct hw_bytes interned_data);
int hw_interned_add_legacy(struct hw_interned *in, uint64_t sequence,
                           struct hw_bytes profile_packet);
/* A ProfilePacket was the last one of its dump: the next one has other tables. */
int hw_interned_end_dump(struct hw_interned *in, uint64_t sequence);
/* Call before reading samples: all sequences are at their first dump again. */
void hw_interned_rewind(struct hw_interned *in);
/* Does the sequence's current dump have tables of its own? */
bool hw_interned_has_legacy(const struct hw_interned *in, uint64_t sequence);
/* Makes rows of a ProfilePacket's own mappings, frames and callstacks, used or not. */
int hw_interned_legacy_rows(struct hw_interned *in, uint64_t sequence,
                            struct hw_bytes profile_packet);
/* The text of an entry of a kind that is text, "" if it is undefined (counted). */
int hw_interned_text(struct hw_interned *in, uint64_t sequence, uint32_t generation,
                     enum hw_interned_kind kind, uint64_t iid, hw_str_id *out);
/* 1 = its leaf, 0 = unknown or broken (counted), < 0. */
int hw_interned_callstack(struct hw_interned *in, uint64_t sequence, uint32_t generation,
                          uint64_t iid, hw_callsite_id *out);

#endif

/*
 * frames.h - addresses of one target → frames, callsites and names
 *
 * Why:     a stack is a list of addresses, which only the target's maps of that time explain. So
 *          new stacks are resolved soon after they are seen, and removed mappings are remembered.
 * Shapes:  callsites are those of model/callsites.h. A return address is looked up, and stored as
 *          rel_pc, one instruction back (pc - 1; arm64: pc - 4): the call, not what follows it.
 *          That is what readers of these traces symbolize without a further change. Exact addresses
 *          (interrupted by a signal) are taken as they are.
 * Owns:    the callsites and the list of ranges; borrows module files.
 * Errors:  HW_ENOMEM, HW_ELIMIT; a stack that cannot be resolved gets the callsite HW_ID_NONE.
 * Threads: main thread.
 */
#ifndef HW_DAEMON_CODE_FRAMES_H
#define HW_DAEMON_CODE_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "daemon/books/managed_names.h"
#include "daemon/books/ring_consumer.h"
#include "daemon/code/modules.h"
#include "daemon/code/unmapped.h"
#include "daemon/code/unwind_tables.h"
#include "model/callsites.h"
#include "proc/jit/jit_code.h"
#include "proc/maps.h"

struct hw_frames {
    struct hw_callsites *cs;
    struct hw_map64 frame_ids; /* hash of (mapping, rel_pc) is inside cs; here: pc → frame */
    uint16_t generation;       /* of the tables that were made from `ranges`; set by their maker */
    HW_VEC(struct hw_frame_range) ranges; /* now, sorted */
    struct hw_unmapped gone;
    HW_VEC(hw_callsite_id) of_stack; /* by stack number; HW_ID_NONE = not resolved */
    HW_VEC(struct hw_unnamed {
        hw_frame_id frame;
        struct hw_module_file *file;
        uint64_t va;
    })
    unnamed;
    HW_VEC(bool) frame_seen; /* by frame id */
    struct hw_managed_frames managed;
    const struct hw_jit_code *jit; /* names of generated code; borrowed; NULL = none */
    HW_VEC(struct hw_nameless {
        hw_frame_id frame;
        uint64_t pc;
        uint64_t time_ns; /* first seen then */
    })
    nameless;           /* generated code that had no name yet; first seen first */
    size_t nameless_at; /* those in front of it are done */
    /* Up to this moment nothing is left to find in what `jit` knew when it had so many entries. */
    uint64_t looked_until_ns;
    size_t looked_entries;
    uint32_t pc_step; /* 1, arm64: 4 */
    /* Path of the last stack, root first: the next one mostly begins with the same callsites. */
    HW_VEC(struct hw_path_step {
        hw_frame_id frame;
        hw_callsite_id callsite;
    })
    path;
};

int hw_frames_init(struct hw_frames *f, uint32_t arch);
void hw_frames_done(struct hw_frames *f);

/* Opens the file behind a mapping; NULL = none. */
typedef struct hw_module_file *hw_frames_open(void *ctx, const struct hw_map *m);

/* Takes over the executable mappings of a new list. 1 = something changed, 0 = the same.
 * prefixes: n paths whose frames keep no name. */
int hw_frames_update(struct hw_frames *f, const struct hw_maps *maps, char *const *prefixes,
                     size_t n_prefixes, hw_frames_open *open, void *ctx);
/* Do present mappings cover the address? */
bool hw_frames_covers(const struct hw_frames *f, uint64_t pc);

int hw_frames_resolve(struct hw_frames *f, const struct hw_stack *s);
/* Have all names of the stack's managed frames come? Else resolving it now gives them none. */
bool hw_frames_named(const struct hw_frames *f, const struct hw_stack *s);
/* Does the stack lead through code whose name no file gives? */
bool hw_frames_any_generated(struct hw_frames *f, const struct hw_stack *s);
/* Is there any without a name yet? *since_ns: when the first of them was seen. */
bool hw_frames_nameless(const struct hw_frames *f, uint64_t *since_ns);
/* Names those of nameless that were seen up to until_ns, as far as jit knows them now, in order:
 * none after a later one. forget: no name will come for the others. */
void hw_frames_name_generated(struct hw_frames *f, uint64_t until_ns, bool forget);
size_t hw_frames_bytes(const struct hw_frames *f); /* of memory */
hw_callsite_id hw_frames_of(const struct hw_frames *f, uint32_t stack);

/* Gives names to frames as far as known and asks for the rest; true = none is missing. */
bool hw_frames_name(struct hw_frames *f, struct hw_modules *ms);
/* Stops waiting: they stay without a name. */
void hw_frames_give_up_names(struct hw_frames *f);

/* For hw_tables_publish; borrowed from out's storage. */
typedef HW_VEC(struct hw_table_range) hw_table_ranges;
int hw_frames_table_ranges(const struct hw_frames *f, hw_table_ranges *out);

#endif

/*
 * managed.h - stacks of native and managed frames
 *
 * Why:     between the walk of a sampled stack and its record, runtimes put their own frames in:
 *          Java by an agent's source (include/heapwise/managed_frames.h), others by code in here.
 * Shapes:  entries are leaf first. Frames that no one replaces stay what the walk found.
 * Owns:    nothing; one hw_mixed lies in each thread's slab.
 * Errors:  what does not fit into HW_MAX_FRAMES is cut at the root's end, and flagged as such.
 * Threads: one hw_mixed has one thread. Inside a visit; see doc/architecture.md, "In the target".
 */
#ifndef HW_CLIENT_SAMPLE_MANAGED_H
#define HW_CLIENT_SAMPLE_MANAGED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "heapwise/managed_frames.h"
#include "unwind/walk.h"

struct hw_slab;
struct hw_python;
struct hw_client_session;
struct hw_call_site;

enum hw_entry { HW_ENTRY_RETURN, HW_ENTRY_EXACT, HW_ENTRY_MANAGED };

struct hw_mixed {
    uint32_t n_frames;
    uint32_t n_managed;
    uint32_t stop; /* enum hw_walk_stop */
    uint16_t generation;
    bool is_built; /* else only stop and stack_id are there */
    uint64_t stack_id;
    uint64_t at[HW_MAX_FRAMES]; /* pc or id */
    uint8_t entry[HW_MAX_FRAMES];
    struct heapwise_managed_stack answer; /* scratch */
};

/* Is there a runtime to be asked? */
extern __attribute__((visibility("hidden"))) _Atomic uint32_t hw_managed_on;

/* What was walked with what runtimes say of it; false: nothing. *m may be yet to be built. */
bool hw_managed_mix(struct hw_client_session *s, const struct hw_call_site *site,
                    const struct hw_walk_out *o, struct hw_python *python, struct hw_mixed *m);
/* The stack of all that, or of the walk alone, with the program's marks in it. */
bool hw_managed_mark(struct hw_client_session *s, const struct hw_walk_out *o,
                     const struct hw_slab *slab, struct hw_mixed *m);
void hw_managed_build(const struct hw_walk_out *o, const struct hw_python *python,
                      struct hw_mixed *m);
/* Puts ids in the place of entries at .. at + n_removed (cut to what there is). */
void hw_mixed_splice(struct hw_mixed *m, uint32_t at, uint32_t n_removed, const uint64_t *ids,
                     uint32_t n_ids);
/* The frames of a stack whose id the recorder may not know. false = no room. */
bool hw_push_mixed(struct hw_client_session *s, const struct hw_mixed *m);
/* What an id is called; in a visit. false = no room. */
bool hw_push_name(struct hw_client_session *s, uint64_t id,
                  const struct heapwise_managed_text *text);

/* This thread is ours from now on: what it allocates is no part of the program. */
void hw_managed_hush(void);
bool hw_managed_hush_until(bool hushed); /* gives what was before */

#endif

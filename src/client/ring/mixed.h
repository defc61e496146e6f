/*
 * mixed.h - a stack of native and managed frames
 *
 * Shapes:  entries are leaf first. Frames that nothing replaces stay as the walk found them.
 * Owns:    nothing; one hw_mixed_stack lies in each thread's slab.
 * Errors:  what does not fit into HW_MAX_FRAMES is cut at the root's end, and flagged.
 * Threads: one hw_mixed_stack has one thread.
 */
#ifndef HW_CLIENT_RING_MIXED_H
#define HW_CLIENT_RING_MIXED_H

#include <stdbool.h>
#include <stdint.h>

#include "heapwise/managed_frames.h"
#include "unwind/walk.h"

struct hw_client_session;

enum hw_entry { HW_ENTRY_RETURN, HW_ENTRY_EXACT, HW_ENTRY_MANAGED };

struct hw_mixed_stack {
    uint32_t n_frames;
    uint32_t n_managed;
    uint32_t stop; /* enum hw_walk_stop */
    uint16_t generation;
    bool is_built;  /* else only stop and stack_id are there */
    bool was_asked; /* and its answer is not counted yet */
    uint64_t stack_id;
    uint64_t at[HW_MAX_FRAMES]; /* pc or id */
    uint8_t entry[HW_MAX_FRAMES];
    struct heapwise_managed_stack answer; /* scratch */
};

/* Replaces the entries at .. at + n_removed by ids (cut to what fits). */
void hw_mixed_splice(struct hw_mixed_stack *m, uint32_t at, uint32_t n_removed, const uint64_t *ids,
                     uint32_t n_ids);
/* The frames of a stack whose id the recorder may not know. false = no room. */
bool hw_push_mixed_stack(struct hw_client_session *s, const struct hw_mixed_stack *m);
/* The name of an id; in a visit. false = no room. */
bool hw_push_name(struct hw_client_session *s, uint64_t id,
                  const struct heapwise_managed_text *text);

#endif

/*
 * new_code.h - stacks through code that the recorder has not seen, or that may go away
 *
 * All in a visit. Waiting is for sessions that may block, and bounded (doc/design/client.md).
 */
#ifndef HW_CLIENT_SAMPLE_NEW_CODE_H
#define HW_CLIENT_SAMPLE_NEW_CODE_H

#include "client/client.h"

bool hw_await_module(struct hw_client_session *s, uint64_t pc); /* true: walk again */

/* May the thread send this stack as a copy of so many bytes? Counts it. */
bool hw_copy_allowed(const struct hw_client_session *s, struct hw_slab *slab, uint64_t n_bytes,
                     uint64_t now_ns);

/* The sample whose slab is_unsettled is in the ring. */
void hw_note_unsettled(struct hw_client_session *s, struct hw_slab *slab);

#endif

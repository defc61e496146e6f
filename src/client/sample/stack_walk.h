/*
 * stack_walk.h - the walk of a sample's stack
 */
#ifndef HW_CLIENT_SAMPLE_STACK_WALK_H
#define HW_CLIENT_SAMPLE_STACK_WALK_H

#include "client/client.h"
#include "client/thread/stack_bounds.h"

/*
 * Walks, and walks again when a module became known meanwhile; a stack may lead through several.
 * False: the result, in the slab's out, may be wrong, since the list of modules was out of date.
 */
bool hw_stack_walk(struct hw_client_session *s, struct hw_slab *slab,
                   const struct hw_call_site *site, struct hw_stack *b, uint64_t now_ns);

#endif

/*
 * marks.h - the scopes and types that the program tells us (include/heapwise/marks.h)
 *
 * Why:     beside the stack of functions a sample can have the program's own words.
 * Shapes:  each thread has two stacks of marks in its slab: scopes and types. Those that do not fit
 *          are counted, so that ends stay balanced.
 * Owns:    nothing; the program's marks live as long as its code.
 * Threads: struct hw_marks has one thread, and the signal handlers on it.
 * Source:  doc/design/client.md, "What the program says itself"
 */
#ifndef HW_CLIENT_SAMPLE_MARKS_H
#define HW_CLIENT_SAMPLE_MARKS_H

#include <stdbool.h>

#include "client/client.h"

struct hw_mixed_stack;

/* Finds the notes of all loaded modules and sets their pointers. Takes the loader's lock: not in
 * a hook. Modules loaded later register by themselves, or when the recorder attaches again. */
void hw_marks_join_loaded(void);
void hw_marks_start(struct hw_client_session *s);
/* Do this session's stacks contain marks? */
static inline bool hw_marks_wanted(const struct hw_client_session *s)
{
    return s->config.stack_mode != HW_STACKS_NATIVE || (s->config.flags & HW_CC_TYPES);
}
/* Only marks, no native frames? */
static inline bool hw_marks_only(const struct hw_client_session *s)
{
    return s->config.stack_mode == HW_STACKS_PSEUDO;
}
/* Inserts the thread's marks into its stack, and sends their names. */
void hw_marks_insert(struct hw_client_session *s, const struct hw_marks *k,
                     struct hw_mixed_stack *m);

#endif

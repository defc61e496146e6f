/*
 * marks.h - the scopes and types that the program tells us (include/heapwise/marks.h)
 *
 * Why:     beside the stack of functions a sample can have the program's own words.
 * Shapes:  each thread has two stacks of marks in its slab: scopes and types. Deeper than there is
 *          room they are counted, so that ends stay balanced.
 * Owns:    nothing; the program's marks live as long as its code.
 * Threads: struct hw_marks has one thread, and the signal handlers on it.
 * Source:  doc/design/client.md, "What the program says itself"
 */
#ifndef HW_CLIENT_SAMPLE_MARKS_H
#define HW_CLIENT_SAMPLE_MARKS_H

#include <stdbool.h>

#include "client/client.h"

struct hw_mixed;

/* Finds the notes of what is loaded and lets them lead to us. Takes the loader's lock: not in a
 * hook. Modules that come later join by themselves, or by the recorder's next visit. */
void hw_marks_join_loaded(void);
void hw_marks_start(struct hw_client_session *s);
/* Do stacks of this session have more in them than functions? */
bool hw_marks_wanted(const struct hw_client_session *s);
/* Is nothing wanted of the native stack? */
bool hw_marks_alone(const struct hw_client_session *s);
/* Puts the marks of this thread into its stack, and tells their names. */
void hw_marks_put_in(struct hw_client_session *s, const struct hw_marks *k, struct hw_mixed *m);

#endif

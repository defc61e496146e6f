/*
 * metatrace.h - a trace of the trace processor itself
 *
 * Why:     the front end itself is the best place to see which of its requests takes long.
 * Shapes:  spans that nest per thread, each with a text (the SQL); returned as a Perfetto trace.
 *          Does nothing until it is enabled.
 * Owns:    copies of the texts, truncated to 4 KiB; at most 256 Ki events, later ones are dropped.
 * Threads: any number.
 */
#ifndef HW_SERVER_RPC_METATRACE_H
#define HW_SERVER_RPC_METATRACE_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/text/strbuf.h"

struct hw_metatrace;

int hw_metatrace_new(struct hw_metatrace **out);
void hw_metatrace_free(struct hw_metatrace *m);   /* NULL is fine */
void hw_metatrace_enable(struct hw_metatrace *m); /* forgets what was recorded before */

/* name: a literal. Every begin has its end on the same thread. m NULL: does nothing. */
void hw_metatrace_begin(struct hw_metatrace *m, const char *name, struct hw_bytes text);
void hw_metatrace_end(struct hw_metatrace *m);

/* Ends recording and returns the trace. HW_EINVAL if it was not enabled. */
int hw_metatrace_take(struct hw_metatrace *m, struct hw_strbuf *out);

#endif

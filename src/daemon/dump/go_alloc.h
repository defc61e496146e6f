/*
 * go_alloc.h - a Go program's own heap profile as a heap of the trace: go.alloc
 *
 * Why:     Go's memory does not come from malloc, and no hook of ours sees it. Its runtime samples it.
 * Shapes:  what was read with the account (reading_go.c) is a dump of its own, of that moment: each
 *          sample counts as often as Go's own profiles count it, 1 / (1 - e^(-size/rate)), with the
 *          variance of that. Figures are those of the last collections, since the program's start.
 *          It is a view of memory that the account has under Go's heap, and is added to nothing.
 * Owns:    its callstacks, by process.
 * Errors:  those of trace/profile_writer.h.
 * Threads: main thread only.
 */
#ifndef HW_DAEMON_DUMP_GO_ALLOC_H
#define HW_DAEMON_DUMP_GO_ALLOC_H

#include <stdbool.h>
#include <stdint.h>

struct hw_error;
struct hw_go_alloc; /* of a process; NULL = nothing was written yet */
struct hw_reading_memory;
struct hw_session;

#define HW_GO_HEAP "go.alloc"

int hw_go_alloc_write(struct hw_session *s, struct hw_go_alloc **of, int32_t pid,
                      const struct hw_reading_memory *m, struct hw_error *err);
/* Something of it is in the trace. */
bool hw_go_alloc_is_known(const struct hw_go_alloc *g);             /* NULL is fine */
void hw_go_alloc_free(struct hw_session *s, struct hw_go_alloc *g); /* NULL is fine */

#endif

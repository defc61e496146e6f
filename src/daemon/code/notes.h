/*
 * notes.h - notes about a target's stacks and heaps, kept in the trace
 *
 * Why:     a warning is read once, by the user who records; a Python profile without Python
 *          functions is read by others, later. So the trace says what is missing, and why.
 * Shapes:  text by key; a later text replaces one with the same key. In the trace they are
 *          attributes "note.PID.KEY", which `heapwise report` and `stats` print.
 * Owns:    the texts, until the target is freed.
 */
#ifndef HW_DAEMON_CODE_NOTES_H
#define HW_DAEMON_CODE_NOTES_H

#include <stdbool.h>

#include "base/memory/vec.h"

struct hw_error;
struct hw_snapshot;
struct hw_target;

struct hw_note {
    const char *key; /* constant */
    char *text;      /* owned */
    bool is_written;
};
typedef HW_VEC(struct hw_note) hw_notes;

/* Tells the user now and keeps it: "pid 4711: TEXT". */
__attribute__((format(printf, 3, 4))) void hw_note(struct hw_target *t, const char *key,
                                                   const char *fmt, ...);
/* Writes those not written yet, and what the client counted. */
int hw_notes_write(struct hw_target *t, const struct hw_snapshot *s, struct hw_error *err);
void hw_notes_done(hw_notes *n);

#endif
